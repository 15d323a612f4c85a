/* SPDX-License-Identifier: Apache-2.0 */
/* rail.h - one device of an owner: is it to be used now, and what memory it can reach.
 * Does:     leaves a rail alone for a while after a fault; registers memory on all rails that take
 *           it, a GPU's as a dma-buf, else by what the adapter's driver knows of it (peer memory).
 * Not here: windows, counting (owner.h).
 * Units:    bytes; monotonic nanoseconds.
 * Owns:     nothing: the rails are the owner's.
 * Threads:  owner of the rails' lock for health; any for memory.
 * Errors:   S3R_E_RDMA_REGISTER: no rail takes the memory; what the last one said.
 * Limits:   none of its own. */
#ifndef S3R_RDMA_RAIL_H
#define S3R_RDMA_RAIL_H

#include "rdma/provider.h"

struct rail {
    const struct owner_ops *ops; /* fixed after open */
    void *handle;
    /* owner.lock */
    int64_t skipped_until_ns; /* 0: healthy */
    int64_t backoff_ns;
};

bool rail_is_healthy(const struct rail *rail, int64_t now_ns);
/* One that fails again soon after it was tried again is left alone for longer. */
void rail_blame(struct rail *rail, int64_t now_ns);

/* `ret_on` and `ret_is_on` have a place for each rail: what its provider calls the memory, and
 * whether it has it. */
int rails_add_memory(const struct rail *rails, int count, void *ptr, size_t len, struct diag *diag,
                     void **ret_on, bool *ret_is_on) MUST_CHECK;

#endif
