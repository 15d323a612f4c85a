/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/report.h"

#include "base/clock.h"
#include "base/hex.h"
#include "base/num.h"
#include "tools/json.h"
#include "tools/show.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define BAR_LEN 30
#define BAR_EVERY_NS (100 * NS_PER_MS)

void tally_init(struct tally *t, const struct cli *cli, const struct address *a, const char *file)
{
    *t = (struct tally){.cli = cli,
                        .op = cli->command,
                        .bucket = a->bucket,
                        .key = a->key,
                        .file = file,
                        .start_ns = clock_mono_ns()};
    t->is_bar = !cli->o.is_json && !cli->o.is_quiet && isatty(STDERR_FILENO) == 1;
}

void tally_fini(struct tally *t)
{
    headers_fini(&t->headers);
}

void tally_add(struct tally *t, struct client_result *result)
{
    t->pieces++;
    t->requests += result->requests;
    if (result->transport == CLIENT_RDMA) {
        t->rdma_len += result->len;
        memcpy(t->provider, result->provider, sizeof(t->provider));
    } else {
        t->http_len += result->len;
        if (t->http_pieces++ == 0) {
            t->reason = result->reason;
            memcpy(t->why, result->why, sizeof(t->why));
        }
    }
    memcpy(t->etag, result->etag, sizeof(t->etag));
    t->is_verified = result->is_verified;
    t->has_crc64 = result->has_crc64;
    t->crc64 = result->crc64;
    headers_fini(&t->headers);
    t->headers = result->headers;
    result->headers = (struct headers){0};
    tally_progress(t, 0);
}

static void draw(struct tally *t, uint64_t done)
{
    double seconds = (double)(clock_mono_ns() - t->start_ns) / 1e9;
    double rate = seconds > 0 ? (double)done / 1e6 / seconds : 0;
    if (t->total > 0) {
        int full = (int)((double)done / (double)t->total * BAR_LEN);
        static const char marks[] = "##############################";
        fprintf(stderr, "\r[%-*.*s] %3d%% %.1f MB, %.1f MB/s\033[K", BAR_LEN, full, marks,
                (int)(100.0 * (double)done / (double)t->total), (double)done / 1e6, rate);
    } else {
        fprintf(stderr, "\r%.1f MB, %.1f MB/s\033[K", (double)done / 1e6, rate);
    }
    t->is_drawn = true;
}

void tally_progress(void *arg, uint64_t bytes_of_piece)
{
    struct tally *t = arg;
    int64_t now_ns = clock_mono_ns();
    if (!t->is_bar || now_ns - t->drawn_ns < BAR_EVERY_NS)
        return;
    t->drawn_ns = now_ns;
    uint64_t done = t->rdma_len + t->http_len + bytes_of_piece;
    draw(t, t->total > 0 ? min_u64(done, t->total) : done);
}

void tally_clear(struct tally *t)
{
    if (t->is_drawn)
        fprintf(stderr, "\r\033[K");
    t->is_drawn = false;
}

void print_headers(const struct headers *headers)
{
    for (size_t i = 0; i < headers->count; i++)
        show_line(stdout, "%s: %s", headers->rows[i].name, headers->rows[i].value);
}

void print_crc64(uint64_t crc, char out[16])
{
    unsigned char bytes[8];
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (unsigned char)(crc >> (56 - 8 * i));
    base64_encode(bytes, sizeof(bytes), out);
}

static const char *carrier(const struct tally *t)
{
    if (t->rdma_len > 0 || t->http_pieces < t->pieces)
        return t->http_pieces > 0 ? "mixed" : "rdma";
    return "http";
}

static void report_json(const struct tally *t, double seconds, double rate)
{
    char crc[16] = "";
    if (t->has_crc64)
        print_crc64(t->crc64, crc);
    const struct field fields[] = {
        FIELD_T("op", t->op),
        FIELD_T("bucket", t->bucket),
        FIELD_T("key", t->key),
        FIELD_T("file", t->file),
        FIELD_T("transport", carrier(t)),
        FIELD_T("provider", t->provider[0] != '\0' ? t->provider : NULL),
        FIELD_N("bytes", t->rdma_len + t->http_len),
        FIELD_N("rdma_bytes", t->rdma_len),
        FIELD_N("http_bytes", t->http_len),
        FIELD_T("reason", t->http_pieces > 0 ? client_reason_name(t->reason) : NULL),
        FIELD_T("why", t->http_pieces > 0 ? t->why : NULL),
        FIELD_R("seconds", seconds),
        FIELD_R("gb_per_s", rate),
        FIELD_N("requests", t->requests),
        FIELD_T("etag", t->etag[0] != '\0' ? t->etag : NULL),
        FIELD_T("version_id", headers_get(&t->headers, "x-amz-version-id")),
        FIELD_T("crc64nvme", t->has_crc64 ? crc : NULL),
        FIELD_B("verified", t->is_verified),
        FIELD_H("headers", t->cli->o.is_headers ? &t->headers : NULL),
    };
    json_print(t->cli->is_stdout_taken, fields, ARRAY_LEN(fields));
}

void tally_report(struct tally *t)
{
    tally_clear(t);
    uint64_t len = t->rdma_len + t->http_len;
    double seconds = (double)(clock_mono_ns() - t->start_ns) / 1e9;
    double rate = seconds > 0 ? (double)len / 1e9 / seconds : 0;
    if (t->cli->o.is_json) {
        report_json(t, seconds, rate);
        return;
    }
    FILE *out = t->cli->is_stdout_taken ? stderr : stdout;
    if (t->cli->o.is_headers && !t->cli->is_stdout_taken)
        print_headers(&t->headers);
    if (t->cli->o.is_quiet)
        return;
    char by[120], why[S3R_DIAG_MAX + 80] = "";
    if (t->http_pieces == 0)
        snprintf(by, sizeof(by), "RDMA (%s)", t->provider);
    else if (t->http_pieces == t->pieces)
        snprintf(by, sizeof(by), "HTTP");
    else
        snprintf(by, sizeof(by), "RDMA (%s, %llu) and HTTP (%llu)", t->provider,
                 (unsigned long long)t->rdma_len, (unsigned long long)t->http_len);
    if (t->http_pieces > 0)
        snprintf(why, sizeof(why), "; not RDMA: %s (%s)", t->why, client_reason_name(t->reason));
    show_line(out, "%s/%s: %llu bytes by %s, %.3f s, %.3f GB/s%s", t->bucket, t->key,
              (unsigned long long)len, by, seconds, rate, why);
}
