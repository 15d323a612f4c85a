/* SPDX-License-Identifier: Apache-2.0 */
/* measure.h - what the programs of this folder share.
 * Does:     repeats an operation against the clock; a second process at the other end of a wire;
 *           CPU time of either; the line that a program prints.
 * Not here: clients and servers of S3 (transfer.c, puts.c); medians and ratios (run).
 * Units:    seconds, bytes; GB is 10^9 bytes.
 * Owns:     an `other` is the caller's until other_end().
 * Threads:  owner.
 * Errors:   what the operation returned; S3R_E_NOMEM and S3R_E_INTERNAL for processes. All of it is
 *           said on standard error where it is found.
 * Limits:   MEASURE_MS_MAX. */
#ifndef S3R_BENCH_MEASURE_H
#define S3R_BENCH_MEASURE_H

#include "base/attr.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define MEASURE_MS_MAX 60000
#define MEASURE_LEN_MAX (UINT64_C(1) << 32)

/* LENGTH and MS of the command line: false when one is no number from 1 on, or too large. */
bool measure_parse(const char *len_text, const char *ms_text, uint64_t *ret_len,
                   uint64_t *ret_ms) MUST_CHECK;

/* Memory that has been written once, so that no page fault is measured; never freed. */
void *measure_memory(size_t len, int fill) MUST_CHECK;
bool measure_is_all(const void *memory, size_t len, int fill);

struct measured {
    uint64_t count; /* operations */
    double seconds;
    double cpu_seconds;      /* of this process */
    double peer_cpu_seconds; /* of the other, 0 without one */
};

/* 0, or what ended it. */
typedef int measure_fn(void *arg);
/* Once before the clock starts, then for at least `ms`. `peer` 0: there is none. */
int measure(uint64_t ms, pid_t peer, measure_fn *fn, void *arg, struct measured *ret) MUST_CHECK;
/* op=... by=... length=... and the figures, GB/s and CPU per GB among them. */
void measure_print(const char *op, const char *by, uint64_t len, const struct measured *m);

double cpu_seconds_of(pid_t pid);

/* Another process, forked before anything is opened, and a pipe each way. Its fn's result is its
 * exit status; it reads end of file when other_end() is called, and ends with us. */
struct other {
    pid_t pid;
    int to, from;
};
typedef int other_fn(int in, int out, void *arg);
int other_start(other_fn *fn, void *arg, struct other *ret) MUST_CHECK;
/* The exit status; 1 when it was killed. */
int other_end(struct other *o) MUST_CHECK;

#endif
