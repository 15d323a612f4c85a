/* SPDX-License-Identifier: Apache-2.0 */
/* gauge.h - how much memory this process has registered, by all of its owners together.
 * Does:     one number.
 * Not here: that of one owner (owner.h).
 * Units:    bytes; memory that several owners registered counts for each.
 * Owns:     nothing.
 * Threads:  any. A forked child begins at 0: what is registered is the parent's.
 * Errors:   none.
 * Limits:   none. */
#ifndef S3R_RDMA_GAUGE_H
#define S3R_RDMA_GAUGE_H

#include <stdint.h>

/* `own` is the caller's, under its lock: it is changed along. */
void gauge_add(uint64_t *own, uint64_t len);
void gauge_sub(uint64_t *own, uint64_t len);
uint64_t gauge_registered_len(void);

#endif
