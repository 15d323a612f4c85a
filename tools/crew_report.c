/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/crew_report.h"

#include "base/clock.h"
#include "base/num.h"
#include "tools/json.h"
#include "tools/report.h"
#include "tools/show.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define BAR_LEN 30
#define BAR_EVERY_NS (100 * NS_PER_MS)

void crew_sums_add(struct crew_sums *s, const struct client_result *result)
{
    s->requests += result->requests;
    if (result->transport == CLIENT_RDMA) {
        s->rdma_len += result->len;
        memcpy(s->provider, result->provider, sizeof(s->provider));
    } else if (result->transport == CLIENT_HTTP) {
        s->http_len += result->len;
        if (s->http_pieces++ == 0) {
            s->reason = result->reason;
            memcpy(s->why, result->why, sizeof(s->why));
        }
    }
}

static void report_json(const struct crew_sums *s, const struct cli *cli, double seconds,
                        double rate)
{
    const struct field fields[] = {
        FIELD_T("op", cli->command),
        FIELD_N("objects", s->done),
        FIELD_N("same", s->same),
        FIELD_N("failed", s->failed),
        FIELD_N("not_done", s->cut),
        FIELD_N("bytes", s->rdma_len + s->http_len),
        FIELD_N("rdma_bytes", s->rdma_len),
        FIELD_N("http_bytes", s->http_len),
        FIELD_N("kept_bytes", s->kept_len),
        FIELD_T("provider", s->provider[0] != '\0' ? s->provider : NULL),
        FIELD_T("reason", s->http_pieces > 0 ? client_reason_name(s->reason) : NULL),
        FIELD_T("why", s->http_pieces > 0 ? s->why : NULL),
        FIELD_N("requests", s->requests),
        FIELD_R("seconds", seconds),
        FIELD_R("gb_per_s", rate),
    };
    json_print(false, fields, ARRAY_LEN(fields));
}

void crew_sums_report(const struct crew_sums *s, const struct cli *cli)
{
    double seconds = (double)(clock_mono_ns() - s->start_ns) / 1e9;
    uint64_t len = s->rdma_len + s->http_len;
    double rate = seconds > 0 ? (double)len / 1e9 / seconds : 0;
    if (is_stopped() && !cli->o.is_quiet)
        fprintf(stderr,
                "s3rdma: interrupted, %zu of %zu not done; the same command again goes on "
                "where this one ended\n",
                s->cut, s->jobs);
    if (cli->o.is_json) {
        report_json(s, cli, seconds, rate);
        return;
    }
    if (cli->o.is_quiet)
        return;
    printf("%s: %zu %s", cli->command, s->done, cli->o.is_dry_run ? "to do" : "done");
    if (s->same > 0)
        printf(", %zu as they should be", s->same);
    if (s->failed > 0)
        printf(", %zu failed", s->failed);
    printf("; %llu bytes", (unsigned long long)len);
    if (s->rdma_len > 0)
        printf(", %llu of them by RDMA (%s)", (unsigned long long)s->rdma_len, s->provider);
    if (s->kept_len > 0)
        printf(", %llu more were there already", (unsigned long long)s->kept_len);
    if (s->http_pieces > 0)
        show_line(stdout, ", %.3f s, %.3f GB/s; not RDMA: %s (%s)", seconds, rate, s->why,
                  client_reason_name(s->reason));
    else
        printf(", %.3f s, %.3f GB/s\n", seconds, rate);
}

void crew_tell_job(const struct cli *cli, const struct job *j)
{
    char crc[16] = "";
    if (!cli->o.is_json) {
        if (cli->o.is_dry_run && !cli->o.is_quiet)
            printf("%s %s%s%s\n", j->kind->op, j->from, j->to != NULL ? " to " : "",
                   j->to != NULL ? j->to : "");
        return;
    }
    if (j->has_crc64)
        print_crc64(j->crc64, crc);
    uint64_t moved = j->rdma_len + j->http_len;
    const char *by = j->rdma_len == 0 ? "http" : j->http_len == 0 ? "rdma" : "mixed";
    const struct field fields[] = {
        FIELD_T("op", j->kind->op),
        FIELD_T("from", j->from),
        FIELD_T("to", j->to),
        FIELD_N("bytes", moved),
        FIELD_T("transport", moved > 0 ? by : NULL),
        FIELD_N("rdma_bytes", j->rdma_len),
        FIELD_N("kept_bytes", j->kept_len),
        FIELD_T("etag", j->etag[0] != '\0' ? j->etag : NULL),
        FIELD_T("crc64nvme", j->has_crc64 ? crc : NULL),
        FIELD_B("verified", j->is_verified),
        FIELD_B("dry_run", cli->o.is_dry_run),
    };
    json_print(false, fields, ARRAY_LEN(fields));
}

/* ---- the bar ---- */

void crew_bar_init(struct crew_bar *b, const struct cli *cli)
{
    *b = (struct crew_bar){.is_wanted =
                               !cli->o.is_json && !cli->o.is_quiet && isatty(STDERR_FILENO) == 1};
}

void crew_bar_draw(struct crew_bar *b, const struct crew_sums *s, uint64_t in_flight)
{
    int64_t now_ns = clock_mono_ns();
    if (!b->is_wanted || now_ns - b->drawn_ns < BAR_EVERY_NS)
        return;
    static const char marks[] = "##############################";
    uint64_t done = min_u64(b->done_len + in_flight, b->total_len);
    double part = b->total_len > 0 ? (double)done / (double)b->total_len : 1;
    double seconds = (double)(now_ns - s->start_ns) / 1e9;
    double moved = (double)(s->rdma_len + s->http_len + in_flight) / 1e6;
    fprintf(stderr, "\r[%-*.*s] %3d%% of %zu, %.1f MB, %.1f MB/s\033[K", BAR_LEN,
            (int)(part * BAR_LEN), marks, (int)(100 * part), s->jobs, (double)done / 1e6,
            moved / seconds);
    b->drawn_ns = now_ns;
    b->is_drawn = true;
}

void crew_bar_clear(struct crew_bar *b)
{
    if (b->is_drawn)
        fprintf(stderr, "\r\033[K");
    b->is_drawn = false;
}
