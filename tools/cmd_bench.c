/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/crypto.h"
#include "base/limits.h"
#include "base/num.h"
#include "tools/bench_print.h"
#include "tools/bench_worker.h"
#include "tools/cli.h"
#include "tools/file.h"
#include "tools/sides.h"
#include "tools/tree.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROCESSES_MAX 64
#define LIST_MAX 32
#define SIZES_DEFAULT "4KiB,64KiB,1MiB,16MiB,256MiB"
#define PROCESSES_DEFAULT "1,2,4,8"

struct bench {
    struct cli *cli;
    struct side at;
    char prefix[LIMIT_KEY_LEN_MAX + 64]; /* of this run alone */
    uint64_t sizes[LIST_MAX], processes[LIST_MAX];
    size_t size_count, process_count;
    struct {
        pid_t pid;
        int socket;
    } workers[PROCESSES_MAX];
    unsigned worker_count;
    uint64_t *latencies; /* of all workers */
    size_t latency_count;
    bool has_failed, has_no_rdma;
};

/* ---- what was asked for ---- */

static int parse_list(const char *option, const char *text,
                      bool parse(const char *s, size_t len, uint64_t *ret), uint64_t *values,
                      size_t *count)
{
    for (const char *p = text; *count < LIST_MAX; p++) {
        size_t len = strcspn(p, ",");
        if (!parse(p, len, &values[*count]))
            break;
        (*count)++;
        p += len;
        if (*p == '\0')
            return EXIT_OK;
    }
    return usage_error("%s %.100s: at most %d values, with commas between them; a size is 1 to "
                       "1GiB, a number of processes 1 to %d",
                       option, text, LIST_MAX, PROCESSES_MAX);
}

static bool parse_size(const char *s, size_t len, uint64_t *ret)
{
    return size_parse(s, len, ret) && *ret >= 1 && *ret <= BENCH_SIZE_MAX;
}

static bool parse_processes(const char *s, size_t len, uint64_t *ret)
{
    return num_parse_dec(s, len, PROCESSES_MAX, ret) && *ret >= 1;
}

static int parse(struct bench *b)
{
    const struct cli_options *o = &b->cli->o;
    int code = side_parse(o->args[1], &b->at);
    if (code == EXIT_OK && !b->at.is_far)
        code = usage_error("bench takes s3://BUCKET[/PREFIX], where its objects are for a while");
    if (code == EXIT_OK)
        code = parse_list("--sizes", o->sizes != NULL ? o->sizes : SIZES_DEFAULT, parse_size,
                          b->sizes, &b->size_count);
    if (code == EXIT_OK)
        code = parse_list("--processes", o->processes != NULL ? o->processes : PROCESSES_DEFAULT,
                          parse_processes, b->processes, &b->process_count);
    if (code != EXIT_OK)
        return code;
    char prefix[LIMIT_KEY_LEN_MAX + 2];
    side_prefix(&b->at, prefix);
    snprintf(b->prefix, sizeof(b->prefix), "%ss3rdma-bench-%016" PRIx64 "/", prefix, random_u64());
    if (strlen(b->prefix) > LIMIT_KEY_LEN_MAX - 32)
        return usage_error("the prefix is too long");
    return EXIT_OK;
}

/* ---- workers ---- */

static void end_workers(struct bench *b)
{
    for (unsigned i = 0; i < b->worker_count; i++) {
        if (is_stopped())
            kill(b->workers[i].pid, SIGTERM); /* where only this process was told */
        close(b->workers[i].socket);
    }
    for (unsigned i = 0; i < b->worker_count; i++)
        while (waitpid(b->workers[i].pid, NULL, 0) < 0 && errno == EINTR)
            ;
    b->worker_count = 0;
}

static int start_worker(struct bench *b)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return S3R_E_NOMEM;
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        for (unsigned i = 0; i < b->worker_count; i++)
            close(b->workers[i].socket);
        close(ends[0]);
        bench_work(b->cli, ends[1], b->at.address.bucket, b->prefix);
    }
    close(ends[1]);
    if (pid < 0) {
        close(ends[0]);
        return S3R_E_NOMEM;
    }
    b->workers[b->worker_count].pid = pid;
    b->workers[b->worker_count++].socket = ends[0];
    return 0;
}

static int start_workers(struct bench *b, unsigned count)
{
    int e = 0;
    while (e == 0 && b->worker_count < count)
        e = start_worker(b);
    return e;
}

static bool take(struct bench *b, unsigned worker, void *bytes, size_t len)
{
    size_t got = 0;
    return read_full(b->workers[worker].socket, bytes, len, &got) == 0 && got == len;
}

/* To all of them. */
static bool give(struct bench *b, const void *bytes, size_t len)
{
    bool is_given = true;
    for (unsigned i = 0; i < b->worker_count; i++)
        is_given = write_all(b->workers[i].socket, bytes, len) == 0 && is_given;
    return is_given;
}

/* ---- one measurement ---- */

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static double percentile_us(const struct bench *b, unsigned percent)
{
    if (b->latency_count == 0)
        return 0;
    size_t at = (b->latency_count * percent + 99) / 100;
    return (double)b->latencies[at > 0 ? at - 1 : 0] / 1e3;
}

struct sums {
    int64_t start_ns, end_ns, cpu_ns;
};

/* The clock is the whole machine's. */
static bool take_report(struct bench *b, unsigned worker, struct bench_row *row, struct sums *sums)
{
    struct bench_report r;
    if (!take(b, worker, &r, sizeof(r)) || r.latency_count > BENCH_LATENCIES_MAX ||
        !take(b, worker, b->latencies + b->latency_count, r.latency_count * sizeof(*b->latencies)))
        return false;
    b->latency_count += r.latency_count;
    if (r.error != 0 && row->error == 0) {
        row->error = r.error;
        snprintf(row->why, sizeof(row->why), "%.*s", (int)sizeof(r.why) - 1, r.why);
    }
    row->ops += r.ops;
    memcpy(row->provider, r.provider, sizeof(row->provider));
    sums->cpu_ns += r.cpu_ns;
    if (sums->start_ns == 0 || r.start_ns < sums->start_ns)
        sums->start_ns = r.start_ns;
    if (r.end_ns > sums->end_ns)
        sums->end_ns = r.end_ns;
    return true;
}

static void sum_up(struct bench *b, struct bench_row *row, const struct sums *sums)
{
    double bytes = (double)row->ops * (double)row->size;
    row->seconds = (double)(sums->end_ns - sums->start_ns) / 1e9;
    qsort(b->latencies, b->latency_count, sizeof(*b->latencies), by_value);
    row->p50_us = percentile_us(b, 50);
    row->p90_us = percentile_us(b, 90);
    row->p99_us = percentile_us(b, 99);
    if (row->seconds > 0) {
        row->gb_per_s = bytes / 1e9 / row->seconds;
        row->ops_per_s = (double)row->ops / row->seconds;
    }
    if (bytes > 0)
        row->cpu_s_per_gb = (double)sums->cpu_ns / bytes;
}

/* False: a worker is gone, or the user wants to stop. */
static bool measure(struct bench *b, const struct bench_order *order, struct bench_row *row)
{
    char ready;
    struct sums sums = {0};
    *row = (struct bench_row){.processes = b->worker_count,
                              .size = order->size,
                              .call = order->call,
                              .is_rdma = order->is_rdma};
    b->latency_count = 0;
    bool is_on = give(b, order, sizeof(*order));
    for (unsigned i = 0; i < b->worker_count && is_on; i++)
        is_on = take(b, i, &ready, 1);
    is_on = is_on && give(b, "g", 1);
    for (unsigned i = 0; i < b->worker_count && is_on; i++)
        is_on = take_report(b, i, row, &sums);
    if (is_on && row->error == 0)
        sum_up(b, row, &sums);
    return is_on && !is_stopped();
}

/* RDMA and HTTP next to each other, so that both meet the same machine. */
static bool compare(struct bench *b, enum bench_call call, uint64_t size)
{
    struct bench_row rdma, http;
    uint64_t span_ms = b->cli->o.seconds_ms > 0 ? b->cli->o.seconds_ms : 1000;
    struct bench_order order = {.call = call,
                                .is_rdma = true,
                                .size = size,
                                .span_ns = (int64_t)span_ms * NS_PER_MS};
    if (!measure(b, &order, &rdma))
        return false;
    order.is_rdma = false;
    if (!measure(b, &order, &http))
        return false;
    if (rdma.error == 0 && http.error == 0 && http.gb_per_s > 0)
        rdma.of_http = rdma.gb_per_s / http.gb_per_s;
    bench_print_row(b->cli, &rdma);
    bench_print_row(b->cli, &http);
    b->has_no_rdma = b->has_no_rdma || rdma.error == S3R_E_RDMA_REQUIRED;
    b->has_failed =
        b->has_failed || http.error != 0 || (rdma.error != 0 && rdma.error != S3R_E_RDMA_REQUIRED);
    return true;
}

/* What programs could have now, the page cache's included; all there is where nobody says. */
static uint64_t available_memory(void)
{
    char line[128];
    uint64_t kib;
    FILE *f = fopen("/proc/meminfo", "re");
    while (f != NULL && fgets(line, sizeof(line), f) != NULL) {
        const char *digits = line + strcspn(line, "0123456789");
        if (strncmp(line, "MemAvailable:", 13) == 0 &&
            num_parse_dec(digits, strspn(digits, "0123456789"), UINT64_MAX / KIB, &kib)) {
            fclose(f);
            return kib * KIB;
        }
    }
    if (f != NULL)
        fclose(f);
    return (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
}

static bool compare_size(struct bench *b, uint64_t size)
{
    struct bench_row ignored;
    const struct bench_order clean = {.call = BENCH_CLEAN, .size = size};
    if (size * b->worker_count > available_memory() / 2) {
        fprintf(stderr,
                "s3rdma: %u processes with %" PRIu64 " bytes each are left out: that is "
                "more than half of the free memory\n",
                b->worker_count, size);
        return true;
    }
    return compare(b, BENCH_PUT, size) && compare(b, BENCH_GET, size) &&
           measure(b, &clean, &ignored);
}

/* ---- the command ---- */

static int run(struct bench *b)
{
    bench_print_head(b->cli);
    for (size_t p = 0; p < b->process_count && !is_stopped(); p++) {
        int e = start_workers(b, (unsigned)b->processes[p]);
        bool is_on = e == 0;
        for (size_t s = 0; s < b->size_count && is_on; s++)
            is_on = compare_size(b, b->sizes[s]);
        end_workers(b);
        if (e != 0)
            return cli_fail(b->cli, "a process", e, NULL);
        if (!is_on && !is_stopped())
            return cli_fail(b->cli, "a process of the bench ended too early", S3R_E_INTERNAL, NULL);
    }
    return is_stopped()     ? EXIT_STOPPED
           : b->has_failed  ? EXIT_FAILED
           : b->has_no_rdma ? EXIT_NO_RDMA
                            : EXIT_OK;
}

/* What a worker could not remove because it was killed. Also after ^C. */
static int sweep(struct bench *b)
{
    CLEANUP(tree_finip) struct tree tree = {0};
    struct diag diag = {0};
    char key[2 * LIMIT_KEY_LEN_MAX + 64];
    ignore_stop(true);
    int e = tree_read_bucket(b->cli->client, b->at.address.bucket, b->prefix, &diag, &tree);
    for (size_t i = 0; i < tree.count && e == 0; i++) {
        struct client_result result = {0};
        snprintf(key, sizeof(key), "%s%s", b->prefix, tree.entries[i].name);
        e = client_delete(b->cli->client, b->at.address.bucket, key, &diag, &result);
        client_result_fini(&result);
    }
    ignore_stop(false);
    return e == 0 ? EXIT_OK : cli_fail(b->cli, b->prefix, e, &diag);
}

int cmd_bench(struct cli *cli)
{
    struct bench b = {.cli = cli, .at.root = -1};
    int code = parse(&b);
    b.latencies = calloc((size_t)PROCESSES_MAX * BENCH_LATENCIES_MAX, sizeof(*b.latencies));
    if (code == EXIT_OK && b.latencies == NULL)
        code = cli_fail(cli, NULL, S3R_E_NOMEM, NULL);
    if (code == EXIT_OK)
        code = sweep(&b); /* nothing is there yet: it says whether bucket and server are */
    if (code == EXIT_OK) {
        code = run(&b);
        int swept = sweep(&b);
        code = code == EXIT_OK ? swept : code;
    }
    if (code == EXIT_STOPPED)
        fprintf(stderr, "s3rdma: interrupted\n");
    free(b.latencies);
    side_finip(&b.at);
    return code;
}
