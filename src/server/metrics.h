/* SPDX-License-Identifier: Apache-2.0 */
/* metrics.h - what is counted, and its text form for Prometheus.
 * Does:     counters that any thread adds to; the two metrics pages (docs/metrics.md lists them).
 * Not here: logs.
 * Units:    bytes, operations; times in seconds.
 * Owns:     nothing; the counters live in the server.
 * Threads:  any.
 * Errors:   the text's.
 * Limits:   none. */
#ifndef S3R_SERVER_METRICS_H
#define S3R_SERVER_METRICS_H

#include "base/text.h"

#include <stdatomic.h>
#include <stdint.h>

/* Why a request with a token was not served by RDMA (the answer is 501). */
enum decline {
    DECLINE_OFF,      /* no device was opened */
    DECLINE_SCHEME,   /* no open device serves the token */
    DECLINE_UNSIGNED, /* anonymous or presigned request */
    DECLINE_PEER,     /* the token names somebody else's address */
    DECLINE_CAPACITY, /* no staging memory in time */
    DECLINE_DEADLINE, /* could not end in the time left */
    DECLINE_COUNT
};

/* Why a transfer that had started did not end well (the answer is 503). */
enum transfer_failure {
    FAILURE_PEER,
    FAILURE_DEADLINE,
    FAILURE_CANCELLED,
    FAILURE_WIRE,
    FAILURE_COUNT
};

enum rdma_way { RDMA_READ_OBJECT, RDMA_WRITE_OBJECT, RDMA_WAYS }; /* a GET; a PUT or part */

/* Upper bounds of the time histogram, in seconds; one more for the rest. */
#define METRICS_BUCKETS 8
extern const double metrics_bounds[METRICS_BUCKETS];

struct metrics {
    atomic_uint_fast64_t rdma_ops[RDMA_WAYS], rdma_bytes[RDMA_WAYS], rdma_attempts[RDMA_WAYS];
    atomic_uint_fast64_t declines[DECLINE_COUNT], failures[FAILURE_COUNT];
    atomic_uint_fast64_t times[RDMA_WAYS][METRICS_BUCKETS + 1], time_us[RDMA_WAYS];
    atomic_uint_fast64_t requests[6]; /* by the first digit of the status */
};

struct server;

static inline void metrics_add(atomic_uint_fast64_t *counter, uint64_t n)
{
    atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

/* One acknowledged transfer. */
void metrics_transfer(struct metrics *m, enum rdma_way way, uint64_t bytes, int64_t took_ns);
/* The page that other tools know: /minio/metrics/v3/api/rdma. */
void metrics_print_minio(struct server *s, struct text *out);
/* The same and everything of our own: /minio/metrics. */
void metrics_print_all(struct server *s, struct text *out);

#endif
