/* SPDX-License-Identifier: Apache-2.0 */
/* transfer - the same object many times, from or into one registered buffer.
 *   transfer get|put BUCKET/KEY LENGTH COUNT rdma|queued|verified|http|http-verified [FIRST_KEY]
 * Endpoint, credentials and device as s3rdma has them (AWS_*, S3RDMA_DEVICE). `verified`: by RDMA,
 * each GET's bytes compared with the object's checksum. `queued`: as `rdma`, submitted and waited
 * for instead of by blocking calls. Prints one line of name=value.
 * One more goes before the clock starts, to open devices and connections; of FIRST_KEY, where the
 * object is not to be touched. */
#include "base/clock.h"
#include "base/crypto.h"
#include "base/limits.h"
#include "base/num.h"

#include <s3r/client.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

static const char *const ways[] = {"rdma", "queued", "verified", "http", "http-verified"};

struct job {
    const char *by;
    char bucket[LIMIT_BUCKET_LEN_MAX + 1];
    const char *key, *first_key;
    bool is_put, is_http, is_queued, is_verified;
    uint64_t len, count;
    struct s3r_client *client;
    struct s3r_queue *queue;
    struct s3r_options *options;
    struct s3r_result *result;
    void *memory;
};

static int fail(const char *what, int error, const struct s3r_result *result)
{
    const char *message = result != NULL ? s3r_result_message(result) : "";
    fprintf(stderr, "transfer: %s: %s\n", what, *message ? message : s3r_error_text(error));
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
    job->is_put = strcmp(argv[1], "put") == 0;
    for (size_t i = 0; i < ARRAY_LEN(ways); i++)
        if (strcmp(argv[5], ways[i]) == 0)
            job->by = ways[i];
    if (job->by == NULL)
        return false;
    job->is_http = strncmp(job->by, "http", 4) == 0;
    job->is_queued = strcmp(job->by, "queued") == 0;
    job->is_verified = strstr(job->by, "verified") != NULL;
    return (job->is_put || strcmp(argv[1], "get") == 0) &&
           num_parse_dec(argv[3], strlen(argv[3]), 4 * GIB - 1, &job->len) && job->len > 0 &&
           num_parse_dec(argv[4], strlen(argv[4]), 1000000, &job->count) && job->count > 0;
}

static int open_client(struct job *job)
{
    struct s3r_config *config = s3r_config_new();
    job->result = s3r_result_new();
    job->options = s3r_options_new();
    if (config == NULL || job->result == NULL || job->options == NULL)
        return fail("memory", S3R_ERROR_NOMEM, NULL);
    int e = s3r_config_set_credentials(config, S3R_CREDENTIALS_DEFAULT, NULL);
    if (e == S3R_OK)
        e = s3r_config_set_rdma(config, !job->is_http);
    if (e == S3R_OK)
        e = s3r_options_set_rdma(job->options, job->is_http ? S3R_RDMA_AUTO : S3R_RDMA_REQUIRED);
    if (e == S3R_OK)
        e = s3r_options_set_verify(job->options, job->is_verified);
    if (e == S3R_OK)
        e = s3r_client_new(config, job->result, &job->client);
    s3r_config_free(config);
    if (e == S3R_OK && job->is_queued)
        e = s3r_queue_new(job->client, 0, 0, job->result, &job->queue);
    if (e != S3R_OK)
        return fail("settings", e, job->result);
    job->memory = s3r_alloc(job->client, job->len);
    if (job->memory == NULL)
        return fail("memory", S3R_ERROR_NOMEM, NULL);
    random_bytes(job->memory, job->len); /* for a GET too: its pages are there before it begins */
    return 0;
}

static int once_blocking(struct job *j, const char *key)
{
    return j->is_put ? s3r_put(j->client, j->bucket, key, j->memory, j->len, j->options, j->result)
                     : s3r_get(j->client, j->bucket, key, j->memory, j->len, j->options, j->result);
}

static int once_queued(struct job *j, const char *key)
{
    int e = j->is_put ? s3r_submit_put(j->queue, j->bucket, key, j->memory, j->len, j->options, 0)
                      : s3r_submit_get(j->queue, j->bucket, key, j->memory, j->len, j->options, 0);
    struct s3r_result *ended;
    if (e != S3R_OK || s3r_queue_poll(j->queue, &ended, 1, -1) != 1)
        return e != S3R_OK ? e : S3R_ERROR_INTERNAL;
    s3r_result_free(j->result);
    j->result = ended;
    return s3r_result_error(ended);
}

static int once(struct job *job, const char *key)
{
    int e = job->is_queued ? once_queued(job, key) : once_blocking(job, key);
    if (e != S3R_OK)
        return fail(key, e, job->result);
    bool is_right = s3r_result_len(job->result) == job->len &&
                    (job->is_put || s3r_result_is_verified(job->result) == job->is_verified);
    return is_right ? 0 : fail("not what was asked for", S3R_ERROR_INTERNAL, NULL);
}

static void close_client(struct job *job)
{
    s3r_queue_free(job->queue);
    if (job->client != NULL)
        s3r_free(job->client, job->memory);
    s3r_client_free(job->client);
    s3r_options_free(job->options);
    s3r_result_free(job->result);
}

int main(int argc, char **argv)
{
    struct job job = {0};
    if (!parse(argc, argv, &job)) {
        fprintf(stderr, "usage: transfer get|put BUCKET/KEY LENGTH COUNT "
                        "rdma|queued|verified|http|http-verified [FIRST_KEY]\n");
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
    close_client(&job);
    return failed;
}
