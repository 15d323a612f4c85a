/* SPDX-License-Identifier: Apache-2.0 */
/* bench_print.h - what a bench has measured, for people and for programs.
 * Does:     a line of a table, or of JSON, for each measurement.
 * Not here: measuring (cmd_bench.c).
 * Units:    GB are 10^9 bytes; microseconds.
 * Owns:     nothing.
 * Threads:  owner of standard output.
 * Errors:   none.
 * Limits:   none. */
#ifndef S3R_TOOLS_BENCH_PRINT_H
#define S3R_TOOLS_BENCH_PRINT_H

#include "tools/bench_worker.h"

/* One measurement, all processes together. */
struct bench_row {
    unsigned processes;
    uint64_t size;
    enum bench_call call;
    bool is_rdma;
    int error; /* 0: the rest is filled */
    char why[S3R_DIAG_MAX];
    char provider[16];
    uint64_t ops;
    double seconds, gb_per_s, ops_per_s, cpu_s_per_gb;
    double p50_us, p90_us, p99_us;
    double of_http; /* times HTTP's GB/s; 0: not known */
};

void bench_print_head(const struct cli *cli);
void bench_print_row(const struct cli *cli, const struct bench_row *row);

#endif
