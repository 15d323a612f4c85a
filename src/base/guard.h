/* SPDX-License-Identifier: Apache-2.0 */
/* guard.h - reading memory that can fail: a mapped file whose disk cannot deliver a page.
 * Does:     runs a function and turns a SIGBUS inside it into an error of that call.
 * Not here: anything but reading: the function must hold no lock and own nothing, since it is
 *           left in the middle.
 * Units:    none.
 * Owns:     the process's SIGBUS handler from the first use on; a SIGBUS outside of a guarded call
 *           goes to whoever had it before (as a rule: the end of the process).
 * Threads:  any; guards do not nest.
 * Errors:   false.
 * Limits:   none. */
#ifndef S3R_BASE_GUARD_H
#define S3R_BASE_GUARD_H

#include "base/attr.h"

#include <stdbool.h>

/* fn(arg) ran to its end: true; a page could not be read: false. */
bool guarded_read(void (*fn)(void *arg), void *arg) MUST_CHECK;

#endif
