/* SPDX-License-Identifier: Apache-2.0 */
/* bench_worker.h - one process of a bench: its own client, devices, memory and objects.
 * Does:     takes orders from a socket, measures, reports; removes its objects in the end.
 * Not here: which measurements, and what they mean together (cmd_bench.c).
 * Units:    bytes, nanoseconds.
 * Owns:     a worker's side of the socket, until the process ends.
 * Threads:  one.
 * Errors:   in the report.
 * Limits:   BENCH_LATENCIES_MAX latencies of a measurement are kept, the first ones. */
#ifndef S3R_TOOLS_BENCH_WORKER_H
#define S3R_TOOLS_BENCH_WORKER_H

#include "tools/cli.h"

#define BENCH_LATENCIES_MAX 100000
#define BENCH_OPS_MIN 3
#define BENCH_SIZE_MAX (1024 * MIB)

enum bench_call { BENCH_PUT, BENCH_GET, BENCH_CLEAN };

/* Parent to worker. The worker prepares itself and says 'r'; at a 'g' it starts. */
struct bench_order {
    enum bench_call call;
    bool is_rdma;
    uint64_t size;
    int64_t span_ns;
};

/* Worker to parent, `latency_count` times 8 bytes behind it. */
struct bench_report {
    uint64_t ops;
    int64_t start_ns, end_ns, cpu_ns;
    int error;
    char provider[16];
    char why[S3R_DIAG_MAX];
    size_t latency_count;
};

/* Until the socket ends; never returns. `prefix` is the worker's own. */
_Noreturn void bench_work(const struct cli *cli, int socket, const char *bucket,
                          const char *prefix);

#endif
