/* SPDX-License-Identifier: Apache-2.0 */
/* staging.h - the server's registered memory, lent slot by slot.
 * Does:     one mapping, registered once on every rail, cut into slots; whoever waits gets one in
 *           the order of asking, but no owner has more than half of them. The slot freed last is
 *           lent first: it is warm in the cache.
 * Not here: what is moved (rdma.h).
 * Units:    bytes; deadlines in monotonic nanoseconds.
 * Owns:     the mapping; a slot is the taker's until given back, which it may do only when nothing
 *           is in flight in it any more (mover_transfer() promises that on return).
 * Threads:  any.
 * Errors:   S3R_E_BUSY, S3R_E_CANCELLED when taking; S3R_E_NOMEM, S3R_E_RDMA_REGISTER at creation.
 * Limits:   staging_create()'s size. */
#ifndef S3R_SERVER_STAGING_H
#define S3R_SERVER_STAGING_H

#include "base/attr.h"
#include "base/error.h"
#include "base/limits.h"
#include "rdma/mover.h"

#include <stdbool.h>

#define STAGING_SLOT_LEN (4 * MIB)

struct staging;

int staging_create(struct mover *mover, uint64_t size, struct diag *diag,
                   struct staging **ret_staging) MUST_CHECK;
void staging_destroy(struct staging *s);
struct mover_memory *staging_memory(struct staging *s);
/* STAGING_SLOT_LEN bytes, page-aligned, for `owner` (rdma_owner()). S3R_E_BUSY when the deadline
 * comes first; S3R_E_CANCELLED a moment after is_cancelled() says so. */
int staging_take(struct staging *s, uint64_t owner, int64_t deadline_ns,
                 bool (*is_cancelled)(void *arg), void *cancel_arg, void **ret_slot) MUST_CHECK;
/* A second slot for one transfer: only while more than half are free and nobody waits; else NULL.
 */
void *staging_try(struct staging *s, uint64_t owner);
void staging_give(struct staging *s, void *slot);
void staging_usage(struct staging *s, size_t *ret_used, size_t *ret_total);
/* How many wait for a slot. */
size_t staging_waiting(struct staging *s);

#endif
