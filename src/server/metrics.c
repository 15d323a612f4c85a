/* SPDX-License-Identifier: Apache-2.0 */
#include "server/metrics.h"

#include "base/clock.h"
#include "server/server.h"

#include <inttypes.h>
#include <stdio.h>

const double metrics_bounds[METRICS_BUCKETS] = {0.0001, 0.0005, 0.002, 0.01, 0.05, 0.25, 1, 4};

static const char *const way_names[RDMA_WAYS] = {"read", "write"};
static const char *const decline_names[DECLINE_COUNT] = {"off",  "scheme",   "unsigned",
                                                         "peer", "capacity", "deadline"};
static const char *const failure_names[FAILURE_COUNT] = {"peer", "deadline", "cancelled", "wire"};

static uint64_t get(const atomic_uint_fast64_t *counter)
{
    return atomic_load_explicit((atomic_uint_fast64_t *)counter, memory_order_relaxed);
}

void metrics_transfer(struct metrics *m, enum rdma_way way, uint64_t bytes, int64_t took_ns)
{
    double took_s = (double)took_ns / NS_PER_S;
    size_t bucket = 0;
    while (bucket < METRICS_BUCKETS && took_s > metrics_bounds[bucket])
        bucket++;
    metrics_add(&m->rdma_ops[way], 1);
    metrics_add(&m->rdma_bytes[way], bytes);
    metrics_add(&m->times[way][bucket], 1);
    metrics_add(&m->time_us[way], (uint64_t)took_ns / 1000);
}

static void family(struct text *out, const char *name, const char *type, const char *help)
{
    text_fmt(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void one(struct text *out, const char *name, const char *type, const char *help,
                uint64_t value)
{
    family(out, name, type, help);
    text_fmt(out, "%s %" PRIu64 "\n", name, value);
}

void metrics_print_minio(struct server *s, struct text *out)
{
    static const char *const help[RDMA_WAYS] = {"GETs", "PUTs and parts"};
    for (int way = 0; way < RDMA_WAYS; way++) {
        char name[64];
        snprintf(name, sizeof name, "minio_api_rdma_%s_ops_total", way_names[way]);
        family(out, name, "counter", help[way]);
        text_fmt(out, "%s{server=\"%s\"} %" PRIu64 "\n", name, s->address,
                 get(&s->metrics.rdma_ops[way]));
        snprintf(name, sizeof name, "minio_api_rdma_%s_bytes_total", way_names[way]);
        family(out, name, "counter", "bytes moved by RDMA for acknowledged requests");
        text_fmt(out, "%s{server=\"%s\"} %" PRIu64 "\n", name, s->address,
                 get(&s->metrics.rdma_bytes[way]));
    }
}

static void print_histogram(struct server *s, struct text *out)
{
    const char *name = "s3rdma_transfer_seconds";
    family(out, name, "histogram", "time of acknowledged RDMA transfers");
    for (int way = 0; way < RDMA_WAYS; way++) {
        uint64_t sum = 0;
        for (int i = 0; i < METRICS_BUCKETS; i++) {
            sum += get(&s->metrics.times[way][i]);
            text_fmt(out, "%s_bucket{way=\"%s\",le=\"%g\"} %" PRIu64 "\n", name, way_names[way],
                     metrics_bounds[i], sum);
        }
        sum += get(&s->metrics.times[way][METRICS_BUCKETS]);
        text_fmt(out, "%s_bucket{way=\"%s\",le=\"+Inf\"} %" PRIu64 "\n", name, way_names[way], sum);
        text_fmt(out, "%s_sum{way=\"%s\"} %.6f\n", name, way_names[way],
                 (double)get(&s->metrics.time_us[way]) / 1e6);
        text_fmt(out, "%s_count{way=\"%s\"} %" PRIu64 "\n", name, way_names[way], sum);
    }
}

static void print_rdma(struct server *s, struct text *out)
{
    struct metrics *m = &s->metrics;
    family(out, "s3rdma_rdma_attempts_total", "counter",
           "requests with a token on an operation that has an RDMA path");
    for (int way = 0; way < RDMA_WAYS; way++)
        text_fmt(out, "s3rdma_rdma_attempts_total{way=\"%s\"} %" PRIu64 "\n", way_names[way],
                 get(&m->rdma_attempts[way]));
    family(out, "s3rdma_rdma_declines_total", "counter",
           "answered 501 before anything moved, by reason");
    for (int i = 0; i < DECLINE_COUNT; i++)
        text_fmt(out, "s3rdma_rdma_declines_total{reason=\"%s\"} %" PRIu64 "\n", decline_names[i],
                 get(&m->declines[i]));
    family(out, "s3rdma_rdma_failures_total", "counter",
           "transfers that started and failed, by reason");
    for (int i = 0; i < FAILURE_COUNT; i++)
        text_fmt(out, "s3rdma_rdma_failures_total{reason=\"%s\"} %" PRIu64 "\n", failure_names[i],
                 get(&m->failures[i]));
    one(out, "s3rdma_rails", "gauge", "open RDMA devices",
        s->mover ? (uint64_t)mover_rail_count(s->mover) : 0);
    size_t used = 0, total = 0;
    if (s->staging)
        staging_usage(s->staging, &used, &total);
    one(out, "s3rdma_staging_used_bytes", "gauge", "staging memory lent to transfers",
        used * STAGING_SLOT_LEN);
    one(out, "s3rdma_staging_waiting", "gauge", "transfers that wait for staging memory",
        s->staging ? staging_waiting(s->staging) : 0);
    one(out, "s3rdma_staging_bytes", "gauge", "staging memory in all", total * STAGING_SLOT_LEN);
}

void metrics_print_all(struct server *s, struct text *out)
{
    struct store_usage usage = {0};
    metrics_print_minio(s, out);
    print_rdma(s, out);
    print_histogram(s, out);
    family(out, "s3rdma_http_requests_total", "counter",
           "replies by the first digit of their status");
    for (int i = 1; i < 6; i++)
        text_fmt(out, "s3rdma_http_requests_total{status=\"%dxx\"} %" PRIu64 "\n", i,
                 get(&s->metrics.requests[i]));
    one(out, "s3rdma_http_active_requests", "gauge", "requests under way", http_active(s->http));
    if (store_usage(s->store, &usage))
        return;
    one(out, "s3rdma_store_puts_total", "counter", "objects and parts committed since the start",
        usage.puts);
    one(out, "s3rdma_store_index_commits_total", "counter",
        "synced index batches, which carry many puts each", usage.index_commits);
    one(out, "s3rdma_store_disk_free_bytes", "gauge",
        "free space of the data directory's file system", usage.disk_bytes_free);
    one(out, "s3rdma_store_disk_bytes", "gauge", "its size", usage.disk_bytes_total);
}
