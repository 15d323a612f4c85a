/* SPDX-License-Identifier: Apache-2.0 */
/* buffers.h - blocks of memory for bytes on their way, used again and again.
 * Does:     hands out page-aligned blocks of one length, and keeps some of those that come back:
 *           the pages of a fresh one cost more than the bytes that go through it.
 * Not here: memory that a wire or a disk may still write (server/staging.h).
 * Units:    bytes.
 * Owns:     every block that is not lent; a lent one is the borrower's until buffer_give().
 * Threads:  any for take and give; owner for create and destroy.
 * Errors:   S3R_E_NOMEM; buffer_take() gives NULL.
 * Limits:   `kept_max` blocks stay when nobody uses them; how many are lent is the borrowers'. */
#ifndef S3R_BASE_BUFFERS_H
#define S3R_BASE_BUFFERS_H

#include "base/attr.h"

#include <stddef.h>

struct buffer_pool;

/* Holds whatever its last borrower left: nobody reads what he did not write. */
struct buffer {
    char *bytes;
    struct buffer *next; /* the pool's */
    struct buffer_pool *pool;
};

int buffer_pool_create(size_t buffer_len, size_t kept_max,
                       struct buffer_pool **ret_pool) MUST_CHECK;
/* Every buffer is back. NULL is fine. */
void buffer_pool_destroy(struct buffer_pool *pool);
struct buffer *buffer_take(struct buffer_pool *pool) MUST_CHECK;
/* NULL is fine. */
void buffer_give(struct buffer *buffer);

#endif
