/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench_worker.h"

#include "base/clock.h"
#include "base/crypto.h"
#include "base/limits.h"
#include "base/pages.h"
#include "tools/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

struct worker {
    struct cli cli; /* its own copy */
    int socket;
    const char *bucket;
    char key[LIMIT_KEY_LEN_MAX + 1];
    struct client_memory memory; /* ptr NULL: none yet */
    uint64_t stored_len;         /* of the object, where is_stored */
    bool is_stored;
    uint64_t *latencies;
    struct bench_report report;
    struct diag diag;
};

static int64_t cpu_ns(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (u.ru_utime.tv_sec + u.ru_stime.tv_sec) * NS_PER_S +
           (u.ru_utime.tv_usec + u.ru_stime.tv_usec) * (NS_PER_MS / 1000);
}

/* ---- memory ---- */

static void drop_memory(struct worker *w)
{
    if (w->memory.region != NULL)
        client_deregister(w->cli.client, w->memory.region);
    pages_free(w->memory.ptr, w->memory.len);
    w->memory = (struct client_memory){0};
}

/* Bytes that no layer can leave out or fold together. */
static void fill(void *memory, size_t len)
{
    uint64_t x = random_u64() | 1, *words = memory;
    for (size_t i = 0; i < len / sizeof(x); i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        words[i] = x;
    }
}

static int get_memory(struct worker *w, size_t len)
{
    if (w->memory.ptr != NULL && w->memory.len >= len)
        return 0;
    drop_memory(w);
    void *pages = pages_alloc(len);
    if (pages == NULL)
        return diag_fail(&w->diag, S3R_E_NOMEM, "no memory for %zu bytes", len);
    fill(pages, len);
    struct diag ignored = {0}; /* each call tries by itself, and says why it cannot */
    int e = client_register(w->cli.client, pages, len, &ignored);
    w->memory = (struct client_memory){.ptr = pages, .len = len, .region = pages};
    if (e != 0)
        w->memory.region = NULL;
    return 0;
}

/* ---- one call ---- */

static int call(struct worker *w, const struct bench_order *order, enum bench_call which)
{
    struct client_result result = {0};
    struct client_memory memory = w->memory;
    const struct client_options options = {
        .is_rdma_off = !order->is_rdma,
        .is_rdma_required = order->is_rdma,
        .is_exact = true,
    };
    memory.len = order->size;
    if (is_stopped())
        return S3R_E_CANCELLED;
    /* A PUT that is given up may still become an object, after everything was removed. */
    ignore_stop(which == BENCH_PUT);
    int e = which == BENCH_PUT
                ? client_put(w->cli.client, w->bucket, w->key, &memory, &options, &w->diag, &result)
                : client_get(w->cli.client, w->bucket, w->key, CLIENT_WHOLE, &memory, &options,
                             &w->diag, &result);
    ignore_stop(false);
    if (e == 0 && (!result.is_verified || result.len != order->size))
        e = diag_fail(&w->diag, S3R_E_BAD_REPLY,
                      "the server names no checksum to verify the bytes with");
    if (e == 0 && order->is_rdma)
        memcpy(w->report.provider, result.provider, sizeof(w->report.provider));
    client_result_fini(&result);
    if (e == S3R_E_RDMA_UNFENCED)
        w->memory = (struct client_memory){0}; /* left as it is: the server may still use it */
    return e;
}

/* An object to get, and one call that is not counted: it opens devices and connections. */
static int prepare(struct worker *w, const struct bench_order *order)
{
    int e = get_memory(w, order->size);
    struct bench_order plain = *order;
    plain.is_rdma = false;
    if (e == 0 && order->call == BENCH_GET && (!w->is_stored || w->stored_len != order->size))
        e = call(w, &plain, BENCH_PUT);
    if (e == 0)
        e = call(w, order, order->call);
    w->is_stored = w->is_stored || e == 0;
    w->stored_len = order->size;
    return e;
}

static int measure(struct worker *w, const struct bench_order *order)
{
    struct bench_report *r = &w->report;
    int64_t cpu_start_ns = cpu_ns();
    int64_t now_ns = r->start_ns = clock_mono_ns();
    int e = 0;
    while (e == 0 && (r->ops < BENCH_OPS_MIN || now_ns - r->start_ns < order->span_ns)) {
        int64_t before_ns = now_ns;
        e = call(w, order, order->call);
        now_ns = clock_mono_ns();
        if (e == 0 && r->latency_count < BENCH_LATENCIES_MAX)
            w->latencies[r->latency_count++] = (uint64_t)(now_ns - before_ns);
        r->ops += e == 0;
    }
    r->end_ns = now_ns;
    r->cpu_ns = cpu_ns() - cpu_start_ns;
    return e;
}

/* Also after ^C. */
static int clean(struct worker *w)
{
    struct client_result result = {0};
    struct diag diag = {0};
    if (!w->is_stored)
        return 0;
    ignore_stop(true);
    int e = client_delete(w->cli.client, w->bucket, w->key, &diag, &result);
    ignore_stop(false);
    client_result_fini(&result);
    w->is_stored = e != 0;
    return e;
}

/* ---- orders ---- */

static bool take(struct worker *w, void *bytes, size_t len)
{
    size_t got = 0;
    return read_full(w->socket, bytes, len, &got) == 0 && got == len;
}

static bool give(struct worker *w, const void *bytes, size_t len)
{
    return write_all(w->socket, bytes, len) == 0;
}

static bool obey(struct worker *w, const struct bench_order *order)
{
    char go;
    struct bench_report *r = &w->report;
    *r = (struct bench_report){0};
    diag_clear(&w->diag);
    if (order->call == BENCH_CLEAN)
        r->error = clean(w);
    else
        r->error = prepare(w, order);
    if (!give(w, "r", 1) || !take(w, &go, 1))
        return false;
    if (r->error == 0 && order->call != BENCH_CLEAN)
        r->error = measure(w, order);
    if (r->error != 0)
        snprintf(r->why, sizeof(r->why), "%s", diag_text(&w->diag, r->error));
    return give(w, r, sizeof(*r)) &&
           give(w, w->latencies, r->latency_count * sizeof(*w->latencies));
}

_Noreturn void bench_work(const struct cli *cli, int socket, const char *bucket, const char *prefix)
{
    struct worker w = {.cli = *cli, .socket = socket, .bucket = bucket};
    struct bench_order order;
    w.cli.client = NULL; /* the parent's */
    w.cli.endpoint = NULL;
    snprintf(w.key, sizeof(w.key), "%s%ld", prefix, (long)getpid());
    w.latencies = calloc(BENCH_LATENCIES_MAX, sizeof(*w.latencies));
    if (w.latencies == NULL || cli_connect(&w.cli) != EXIT_OK)
        _exit(EXIT_FAILED);
    while (take(&w, &order, sizeof(order)) && obey(&w, &order))
        ;
    int e = clean(&w);
    drop_memory(&w);
    client_destroy(w.cli.client);
    _exit(e == 0 ? EXIT_OK : EXIT_FAILED);
}
