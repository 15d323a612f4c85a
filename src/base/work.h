/* SPDX-License-Identifier: Apache-2.0 */
/* work.h - a pool of threads for what blocks: disks, syncs, transfers.
 * Does:     runs submitted jobs in the order of submission, on up to `threads_max` threads that
 *           are started when needed; where a share is set, nobody's jobs have more threads than
 *           that: what is over it waits in the queue and lets others pass.
 * Not here: timers; waiting for a job (the job itself tells whoever waits).
 * Units:    counts.
 * Owns:     a job's memory is the submitter's, untouched by the pool once fn was called.
 * Threads:  any for submit; owner for create and destroy.
 * Errors:   work_submit(): S3R_E_BUSY when queue_max jobs wait, S3R_E_SHUTTING_DOWN after stop.
 * Limits:   threads_max, queue_max, given at creation. */
#ifndef S3R_BASE_WORK_H
#define S3R_BASE_WORK_H

#include "base/attr.h"

#include <stddef.h>
#include <stdint.h>

struct work_pool;
typedef void work_fn(void *arg);

/* Lives inside the submitter's own structure: no allocation, so a submit cannot fail for memory. */
struct work_job {
    struct work_job *next;
    work_fn *fn;
    void *arg;
    uint64_t owner; /* 0: nobody's, and under no share */
};

/* `name` (up to 15 characters) shows in ps. */
int work_pool_create(const char *name, size_t threads_max, size_t queue_max,
                     struct work_pool **ret_pool) MUST_CHECK;
/* Before the first job: no owner's jobs run on more than `share_max` threads at a time. */
void work_pool_set_share(struct work_pool *pool, size_t share_max);
/* Runs what is queued, then ends the threads. */
void work_pool_destroy(struct work_pool *pool);
/* Success: fn(arg) is called exactly once, on another thread. */
int work_submit(struct work_pool *pool, struct work_job *job, work_fn *fn, void *arg) MUST_CHECK;
/* The same for a job of `owner`. */
int work_submit_owned(struct work_pool *pool, struct work_job *job, uint64_t owner, work_fn *fn,
                      void *arg) MUST_CHECK;

#endif
