/* SPDX-License-Identifier: Apache-2.0 */
/* maps.h - may memory of this process be read and written?
 * Does:     looks a range up in /proc/self/maps.
 * Not here: GPU memory, which is no mapping of this kind.
 * Units:    bytes.
 * Owns:     nothing.
 * Threads:  any; the answer is that of the moment.
 * Errors:   S3R_E_RDMA_REGISTER: part of the range is not mapped or not readable.
 * Limits:   none. Without /proc everything counts as writable. */
#ifndef S3R_RDMA_OFI_MAPS_H
#define S3R_RDMA_OFI_MAPS_H

#include "base/attr.h"
#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

/* `ret_is_writable`: all of it. A length of 0 is writable. */
int maps_check(const void *ptr, size_t len, struct diag *diag, bool *ret_is_writable) MUST_CHECK;

#endif
