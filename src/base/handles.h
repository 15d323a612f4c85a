/* SPDX-License-Identifier: Apache-2.0 */
/* handles.h - ids that are given to strangers in place of pointers.
 * Does:     makes an id for an object, finds the object while the id is good, ends the id when
 *           nobody uses the object any more. An id that is stale, of another kind or invented is
 *           refused.
 * Not here: what the objects are.
 * Units:    none.
 * Owns:     nothing: the object is the caller's before and after.
 * Threads:  any; one table for the process. In a forked child ids go on as they are, unpinned.
 * Errors:   NULL.
 * Limits:   HANDLES_MAX at a time. */
#ifndef S3R_BASE_HANDLES_H
#define S3R_BASE_HANDLES_H

#include "base/attr.h"

#define HANDLES_MAX (1u << 20)

enum handle_kind {
    HANDLE_SERVER = 1,
    HANDLE_BUFFER,
    HANDLE_ASYNC,
    HANDLE_CLIENT,
    HANDLE_TOKEN,
    HANDLE_S3_CLIENT
};

/* NULL when there are too many, or no memory. */
void *handle_add(enum handle_kind kind, void *object) MUST_CHECK;
/* The object, which stays until handle_unpin(); NULL for a bad id. */
void *handle_pin(void *handle, enum handle_kind kind) MUST_CHECK;
void handle_unpin(void *handle);
/* Refuses the id from here on, waits until the pins are gone, and hands the object to one caller
 * only; NULL for a bad id. The caller must hold no pin of it. */
void *handle_retire(void *handle, enum handle_kind kind) MUST_CHECK;

#endif
