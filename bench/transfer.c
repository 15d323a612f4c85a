/* SPDX-License-Identifier: Apache-2.0 */
/* transfer - the same object many times, from or into one registered buffer.
 *   transfer get|put BUCKET/KEY LENGTH COUNT rdma|http|verified|http-verified [FIRST_KEY]
 * Endpoint, credentials and device as s3rdma has them (AWS_*, S3RDMA_DEVICE). `verified`: by RDMA,
 * each GET's bytes compared with the object's checksum. Prints one line of name=value.
 * One more goes before the clock starts, to open devices and connections; of FIRST_KEY, where the
 * object is not to be touched. */
#include "base/clock.h"
#include "base/crypto.h"
#include "base/limits.h"
#include "base/num.h"
#include "base/pages.h"
#include "client/client.h"
#include "client/settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

struct job {
    const char *by;
    char bucket[LIMIT_BUCKET_LEN_MAX + 1];
    const char *key, *first_key;
    bool is_put;
    uint64_t len, count;
    struct client *client;
    struct client_memory memory;
    struct client_options options;
};

static int fail(const char *what, const struct diag *diag, int error)
{
    fprintf(stderr, "transfer: %s: %s\n", what, diag_text(diag, error));
    return 1;
}

static double cpu_seconds(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static bool parse(int argc, char **argv, struct job *job)
{
    const char *slash = argc == 6 || argc == 7 ? strchr(argv[2], '/') : NULL;
    if (slash == NULL || (size_t)(slash - argv[2]) >= sizeof(job->bucket))
        return false;
    memcpy(job->bucket, argv[2], (size_t)(slash - argv[2]));
    job->key = slash + 1;
    job->first_key = argc == 7 ? argv[6] : job->key;
    job->by = argv[5];
    job->is_put = strcmp(argv[1], "put") == 0;
    bool is_by_known = strcmp(job->by, "rdma") == 0 || strcmp(job->by, "http") == 0 ||
                       strcmp(job->by, "verified") == 0 || strcmp(job->by, "http-verified") == 0;
    return (job->is_put || strcmp(argv[1], "get") == 0) && is_by_known &&
           num_parse_dec(argv[3], strlen(argv[3]), 4 * GIB - 1, &job->len) && job->len > 0 &&
           num_parse_dec(argv[4], strlen(argv[4]), 1000000, &job->count) && job->count > 0;
}

static int open_client(struct job *job)
{
    struct diag diag = {0};
    struct settings s = {0};
    int e = settings_load(NULL, &diag, &s);
    bool is_http = strncmp(job->by, "http", 4) == 0;
    const struct client_config config = {.endpoint = s.endpoint,
                                         .region = s.region,
                                         .access_key = s.access_key,
                                         .secret_key = s.secret_key,
                                         .session_token = s.session_token,
                                         .ca_file = s.ca_file,
                                         .is_rdma_off = is_http};
    if (e == 0)
        e = client_create(&config, &diag, &job->client);
    settings_fini(&s);
    if (e != 0)
        return fail("settings", &diag, e);
    void *buffer = pages_alloc(job->len);
    if (buffer == NULL)
        return fail("memory", NULL, S3R_E_NOMEM);
    random_bytes(buffer, job->len); /* for a GET too: its pages are there before it begins */
    job->memory = (struct client_memory){.ptr = buffer, .len = job->len, .region = buffer};
    job->options.is_rdma_required = !is_http;
    job->options.is_unverified = strstr(job->by, "verified") == NULL;
    e = client_register(job->client, buffer, job->len, &diag);
    return e == 0 ? 0 : fail("registration", &diag, e);
}

static int once(const struct job *job, const char *key)
{
    struct diag diag = {0};
    struct client_result result = {0};
    int e = job->is_put ? client_put(job->client, job->bucket, key, &job->memory, &job->options,
                                     &diag, &result)
                        : client_get(job->client, job->bucket, key, CLIENT_WHOLE, &job->memory,
                                     &job->options, &diag, &result);
    if (e == 0 && result.len != job->len)
        e = diag_fail(&diag, S3R_E_BAD_REPLY, "the object has %llu bytes",
                      (unsigned long long)result.len);
    if (e == 0 && !job->is_put && result.is_verified == job->options.is_unverified)
        e = diag_fail(&diag, S3R_E_BAD_REPLY, result.is_verified ? "verified" : "not verified");
    client_result_fini(&result);
    return e == 0 ? 0 : fail(key, &diag, e);
}

int main(int argc, char **argv)
{
    struct job job = {0};
    if (!parse(argc, argv, &job)) {
        fprintf(stderr, "usage: transfer get|put BUCKET/KEY LENGTH COUNT "
                        "rdma|http|verified|http-verified [FIRST_KEY]\n");
        return 2;
    }
    int failed = open_client(&job) != 0 || once(&job, job.first_key) != 0;
    double cpu = cpu_seconds();
    int64_t start_ns = clock_mono_ns();
    for (uint64_t i = 0; i < job.count && !failed; i++)
        failed = once(&job, job.key);
    double seconds = (double)(clock_mono_ns() - start_ns) / 1e9;
    cpu = cpu_seconds() - cpu;
    double gb = (double)job.len * (double)job.count / 1e9;
    if (!failed)
        printf("op=%s by=%s length=%llu count=%llu seconds=%.6f gb_per_s=%.3f cpu_s_per_gb=%.3f\n",
               argv[1], job.by, (unsigned long long)job.len, (unsigned long long)job.count, seconds,
               gb / seconds, cpu / gb);
    if (job.memory.ptr != NULL)
        client_deregister(job.client, job.memory.ptr);
    client_destroy(job.client);
    return failed;
}
