/* SPDX-License-Identifier: Apache-2.0 */
/* process.h - which process is meant, and whether it is still there.
 * Does:     names a process by pid and start time in one word, so that a pid that was used again is
 *           not taken for it; says when all of its threads have ended.
 * Not here: what may be done to it (peer.h).
 * Units:    start times in clock ticks since boot, field 22 of /proc/PID/stat.
 * Owns:     nothing.
 * Threads:  any.
 * Errors:   false, or S3R_E_RDMA_UNAVAILABLE when /proc cannot be read.
 * Limits:   pids below 2^22 (the kernel's own limit), start times below 2^42 ticks. */
#ifndef S3R_RDMA_CMA_PROCESS_H
#define S3R_RDMA_CMA_PROCESS_H

#include "base/attr.h"
#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

#define PROCESS_PID_BITS 22

/* start << 22 | pid; 0 is no process. */
typedef uint64_t process_id;

static inline process_id process_id_of(uint64_t pid, uint64_t start)
{
    return start << PROCESS_PID_BITS | pid;
}

static inline uint64_t process_pid(process_id id)
{
    return id & ((UINT64_C(1) << PROCESS_PID_BITS) - 1);
}

static inline uint64_t process_start(process_id id)
{
    return id >> PROCESS_PID_BITS;
}

int process_self(struct diag *diag, process_id *ret_id) MUST_CHECK;
/* Of the process whose directory in /proc is open at `proc_fd`. */
bool process_read_start(int proc_fd, uint64_t *ret_start) MUST_CHECK;
/* True only when it is certain that no thread of it runs any more. */
bool process_is_gone(process_id id) MUST_CHECK;
/* 0 to 3, as /proc/sys/kernel/yama/ptrace_scope has it; 0 on kernels without yama. */
int process_ptrace_scope(void);

#endif
