/* SPDX-License-Identifier: Apache-2.0 */
/* Objects that are functions of the offset, through the callbacks of miniocpp/c_api.h:
 *     stream BUCKET MODE BYTES
 * The endpoint and keys come from the environment. Prints what was returned and what it took. */
#include "content.h"

#include <miniocpp/c_api.h>
#include <s3r/client.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB ((uint64_t)1 << 20)

static struct {
    miniocpp_client *client;
    const char *bucket;
    uint64_t off, len;
    uint64_t stop_at; /* the callback gives up there */
    uint64_t replace_at;
    uint64_t gauge_max;
    unsigned calls, wrong;
} job;

static void fail(const char *what)
{
    const char *why = miniocpp_last_error();
    fprintf(stderr, "%s: %s\n", what, why ? why : "no error was kept");
    exit(1);
}

static void note_gauge(void)
{
    uint64_t now = s3r_registered_bytes(NULL);
    job.calls++;
    if (now > job.gauge_max)
        job.gauge_max = now;
}

/* Gives as much as there is room for, but now and then less, as pipes do. */
static ssize_t give(void *arg, char *buf, size_t size)
{
    uint64_t left = job.len - job.off;
    note_gauge();
    if (arg != &job || job.off >= job.stop_at)
        return -1;
    if (size > 1 && job.calls % 3 == 0)
        size /= 2;
    size_t n = left < size ? (size_t)left : size;
    if (n > job.stop_at - job.off)
        n = (size_t)(job.stop_at - job.off);
    fill(buf, job.off, n);
    job.off += n;
    return (ssize_t)n;
}

static void replace(void)
{
    char small[] = "another object";
    if (miniocpp_put_object(job.client, job.bucket, "k", small, sizeof(small), NULL, NULL, NULL,
                            NULL) != (ssize_t)sizeof(small))
        fail("replace");
}

static ssize_t take(void *arg, const char *buf, size_t size)
{
    note_gauge();
    if (arg != &job || job.off >= job.stop_at)
        return -1;
    if (!is_right(buf, job.off, size))
        job.wrong++;
    if (job.off < job.replace_at && job.off + size >= job.replace_at)
        replace();
    job.off += size;
    return (ssize_t)size;
}

/* kB of a line of /proc/self/status */
static uint64_t status(const char *name)
{
    char line[256];
    uint64_t kib = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof(line), f))
        if (strncmp(line, name, strlen(name)) == 0)
            kib = number(line + strlen(name));
    if (f)
        fclose(f);
    return kib;
}

static void begin(uint64_t len, uint64_t stop_at)
{
    job.off = 0;
    job.len = len;
    job.stop_at = stop_at;
    job.calls = 0;
}

static ssize_t put(uint64_t len, uint64_t told, char *etag, char *checksum)
{
    begin(len, job.stop_at);
    return miniocpp_put_object(job.client, job.bucket, "k", NULL, (size_t)told, give, &job, etag,
                               checksum);
}

static ssize_t get(void)
{
    job.off = 0;
    return miniocpp_get_object(job.client, job.bucket, "k", NULL, 0, take, &job);
}

static void there_and_back(uint64_t len, uint64_t told)
{
    char etag[64] = "", checksum[64] = "";
    uint64_t before_kib = status("VmRSS:");
    if (put(len, told, etag, checksum) != (ssize_t)len)
        fail("put");
    if (strlen(etag) < 32 || strlen(checksum) != 12)
        fail("etag or checksum");
    unsigned put_calls = job.calls;
    if (get() != (ssize_t)len || job.off != len)
        fail("get");
    printf("{\"wrong\": %u, \"gauge_max\": %llu, \"gauge_after\": %llu, \"grown\": %llu, "
           "\"put_calls\": %u, \"etag\": \"%s\", \"checksum\": \"%s\"}\n",
           job.wrong, (unsigned long long)job.gauge_max,
           (unsigned long long)s3r_registered_bytes(NULL),
           (unsigned long long)(status("VmHWM:") - before_kib) * 1024, put_calls, etag, checksum);
}

/* Prints the code and the words of a call that must not succeed. */
static void failed(ssize_t n)
{
    if (n >= 0) {
        fprintf(stderr, "%zd bytes instead of an error\n", n);
        exit(1);
    }
    printf("{\"code\": %zd, \"error\": \"%s\", \"gauge_after\": %llu, \"off\": %llu, "
           "\"wrong\": %u}\n",
           n, miniocpp_last_error(), (unsigned long long)s3r_registered_bytes(NULL),
           (unsigned long long)job.off, job.wrong);
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    const char *mode = argv[2];
    uint64_t len = number(argv[3]);
    job.bucket = argv[1];
    job.stop_at = job.replace_at = UINT64_MAX;
    job.client =
        miniocpp_client_new(getenv("S3RDMA_TEST_ENDPOINT"), NULL, getenv("AWS_ACCESS_KEY_ID"),
                            getenv("AWS_SECRET_ACCESS_KEY"), NULL, 0);
    if (!job.client)
        fail("client");
    if (strcmp(mode, "sized") == 0) {
        there_and_back(len, len);
    } else if (strcmp(mode, "unsized") == 0) {
        there_and_back(len, SIZE_MAX);
    } else if (strcmp(mode, "put-gives-up") == 0) {
        job.stop_at = len / 2;
        failed(put(len, len, NULL, NULL));
    } else if (strcmp(mode, "put-ends-early") == 0) {
        failed(put(len - 1, len, NULL, NULL));
    } else if (strcmp(mode, "put") == 0) {
        if (put(len, len, NULL, NULL) != (ssize_t)len)
            fail("put");
    } else if (strcmp(mode, "put-fails") == 0) {
        failed(put(len, len, NULL, NULL));
    } else if (strcmp(mode, "get-gives-up") == 0) {
        job.stop_at = len / 2;
        failed(get());
    } else if (strcmp(mode, "get-fails") == 0) {
        failed(get());
    } else if (strcmp(mode, "get-while-it-is-replaced") == 0) {
        job.replace_at = 20 * MIB;
        failed(get());
    } else {
        return 2;
    }
    miniocpp_client_free(job.client);
    return job.wrong != 0;
}
