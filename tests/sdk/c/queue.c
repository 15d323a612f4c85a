/* SPDX-License-Identifier: Apache-2.0 */
/* queue BUCKET MODE COUNT - what a program does with s3r/client.h when it wants much at a time.
 *   ranges   COUNT small ranges of one object into as many places of one region, 8 in flight
 *   parts    COUNT parts of 5 MiB in flight together, completed and read back
 *   threads  64 threads, COUNT ranges each, of one client and one region
 *   forks    COUNT children go on with their parent's client, and so does the parent
 *   plain    COUNT objects of 3 MiB, up and down in flight together by HTTP
 *   failing  COUNT ranges of a key that is not there, twice; what is left open in between
 * The bucket is made where it is not there. Endpoint and keys come from the environment. All but
 * `plain` goes by RDMA or fails. Prints one line of JSON. */
#include <s3r/client.h>

#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define KIB 1024
#define MIB (1024 * KIB)
#define OBJECT_LEN (1 * MIB)
#define STRIDE 4096
#define IN_FLIGHT 8
#define THREADS 64

static struct s3r_client *client;
static struct s3r_options *required;
static struct s3r_result *result;
static const char *bucket;
static unsigned count;

static void check(int error, const struct s3r_result *r)
{
    if (error == S3R_OK)
        return;
    printf("%s: %s\n", s3r_error_name(error), r != NULL ? s3r_result_message(r) : "");
    exit(1);
}

static void demand(int is_true, const char *what)
{
    if (is_true)
        return;
    printf("not so: %s\n", what);
    exit(1);
}

static unsigned char byte_at(uint64_t off)
{
    return (unsigned char)((off * 2654435761u) >> 13);
}

static void fill(unsigned char *memory, uint64_t off, size_t len)
{
    for (size_t i = 0; i < len; i++)
        memory[i] = byte_at(off + i);
}

static int is_filled(const unsigned char *memory, uint64_t off, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (memory[i] != byte_at(off + i))
            return 0;
    return 1;
}

static unsigned entries(const char *folder)
{
    unsigned n = 0;
    DIR *d = opendir(folder);
    while (d != NULL && readdir(d) != NULL)
        n++;
    closedir(d);
    return n - 2;
}

/* The i-th range: from all over the object, of all lengths up to STRIDE - 1. */
static uint64_t off_of(unsigned i)
{
    return (uint64_t)i * 7919 % (OBJECT_LEN - STRIDE);
}

static size_t len_of(unsigned i)
{
    return 1 + i * 31 % (STRIDE - 1);
}

static unsigned char *put_object(void)
{
    unsigned char *memory = s3r_alloc(client, OBJECT_LEN);
    demand(memory != NULL, "there is memory");
    fill(memory, 0, OBJECT_LEN);
    check(s3r_put(client, bucket, "k", memory, OBJECT_LEN, required, result), result);
    return memory;
}

static void submit(struct s3r_queue *q, const char *key, unsigned char *region, unsigned i)
{
    check(s3r_submit_get_range(q, bucket, key, off_of(i), region + (size_t)i * STRIDE, len_of(i),
                               required, i),
          NULL);
}

static unsigned threads_max;

/* All of them; how many ended with `error`. */
static unsigned run_ranges(const char *key, unsigned char *region, int error)
{
    struct s3r_queue *q = NULL;
    struct s3r_result *ended[32];
    unsigned submitted = 0, done = 0, right = 0;
    check(s3r_queue_new(client, 8 * IN_FLIGHT, IN_FLIGHT, result, &q), result);
    while (done < count) {
        while (submitted < count && submitted - done < 8 * IN_FLIGHT)
            submit(q, key, region, submitted++);
        int n = s3r_queue_poll(q, ended, 32, -1);
        unsigned threads = entries("/proc/self/task");
        threads_max = threads > threads_max ? threads : threads_max;
        for (int k = 0; k < n; k++) {
            unsigned i = (unsigned)s3r_result_cookie(ended[k]);
            if (error == S3R_OK)
                check(s3r_result_error(ended[k]), ended[k]);
            right += s3r_result_error(ended[k]) == error &&
                     (error != S3R_OK || s3r_result_len(ended[k]) == len_of(i));
            s3r_result_free(ended[k]);
        }
        done += (unsigned)n;
    }
    s3r_queue_free(q);
    return right;
}

static void ranges(void)
{
    unsigned wrong = 0;
    unsigned char *object = put_object(), *region = s3r_alloc(client, (size_t)count * STRIDE);
    demand(region != NULL, "there is a region");
    memset(region, 0xaa, (size_t)count * STRIDE);
    unsigned right = run_ranges("k", region, S3R_OK);
    for (unsigned i = 0; i < count; i++) {
        unsigned char *place = region + (size_t)i * STRIDE;
        wrong += !is_filled(place, off_of(i), len_of(i)) || place[len_of(i)] != 0xaa;
    }
    s3r_free(client, region);
    s3r_free(client, object);
    printf("{\"right\": %u, \"wrong\": %u, \"threads\": %u, \"registered\": %llu}\n", right, wrong,
           threads_max, (unsigned long long)s3r_registered_bytes(client));
}

static void note_moved(void *arg, uint64_t bytes)
{
    *(uint64_t *)arg = bytes;
}

static void parts(void)
{
    size_t part_len = 5 * MIB, len = count * part_len;
    struct s3r_upload *upload = NULL;
    struct s3r_queue *q = NULL;
    struct s3r_result *ended = NULL;
    unsigned char *memory = s3r_alloc(client, len);
    demand(memory != NULL, "there is memory");
    fill(memory, 0, len);
    check(s3r_upload_create(client, bucket, "big", NULL, result, &upload), result);
    check(s3r_queue_new(client, 0, count, result, &q), result);
    for (unsigned i = count; i > 0; i--) /* in any order */
        check(s3r_submit_part(q, upload, i, memory + (i - 1) * part_len, part_len, required, i),
              NULL);
    for (unsigned i = 0; i < count; i++) {
        demand(s3r_queue_poll(q, &ended, 1, -1) == 1, "one ended");
        check(s3r_result_error(ended), ended);
        s3r_result_free(ended);
    }
    check(s3r_upload_complete(upload, NULL, result), result);
    uint64_t crc = 0, back = 1;
    demand(s3r_result_crc64(result, &crc), "the whole has a checksum");
    demand(s3r_result_object_len(result) == len, "the whole has its length");
    memset(memory, 0, len);
    uint64_t moved = 0;
    s3r_options_set_progress(required, note_moved, &moved);
    check(s3r_get(client, bucket, "big", memory, len, required, result), result);
    demand(moved == len, "progress is told at the end");
    demand(s3r_result_crc64(result, &back) && back == crc, "it is the same checksum");
    printf("{\"right\": %d, \"verified\": %d, \"transport\": \"%s\"}\n", is_filled(memory, 0, len),
           s3r_result_is_verified(result), s3r_transport_name(s3r_result_transport(result)));
    s3r_queue_free(q);
    s3r_upload_free(upload);
    s3r_free(client, memory);
}

static unsigned char *shared;

static void *use_client(void *arg)
{
    unsigned self = (unsigned)(uintptr_t)arg;
    uintptr_t right = 0;
    struct s3r_result *own = s3r_result_new();
    for (unsigned i = 0; i < count; i++) {
        unsigned n = self * count + i;
        unsigned char *place = shared + (size_t)n * STRIDE;
        int e = s3r_get_range(client, bucket, "k", off_of(n), place, len_of(n), required, own);
        right += e == S3R_OK && s3r_result_transport(own) == S3R_TRANSPORT_RDMA &&
                 is_filled(place, off_of(n), len_of(n));
    }
    s3r_result_free(own);
    return (void *)right;
}

static void threads(void)
{
    pthread_t ids[THREADS];
    uintptr_t right = 0;
    unsigned char *object = put_object();
    shared = s3r_alloc(client, (size_t)THREADS * count * STRIDE);
    demand(shared != NULL, "there is a region");
    for (uintptr_t i = 0; i < THREADS; i++)
        demand(pthread_create(&ids[i], NULL, use_client, (void *)i) == 0, "there is a thread");
    for (unsigned i = 0; i < THREADS; i++) {
        void *part;
        pthread_join(ids[i], &part);
        right += (uintptr_t)part;
    }
    s3r_free(client, shared);
    s3r_free(client, object);
    printf("{\"right\": %u}\n", (unsigned)right);
}

static void forks(void)
{
    unsigned right = 0;
    unsigned char *object = put_object();
    for (unsigned i = 0; i < count; i++) {
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            memset(object, 0, OBJECT_LEN);
            int e = s3r_get(client, bucket, "k", object, OBJECT_LEN, required, result);
            struct s3r_queue *q = NULL;
            struct s3r_result *ended = NULL;
            check(e, result);
            check(s3r_queue_new(client, 0, 0, result, &q), result);
            check(s3r_submit_get_range(q, bucket, "k", 5, object, 9, required, 1), NULL);
            demand(s3r_queue_poll(q, &ended, 1, -1) == 1, "it ended");
            check(s3r_result_error(ended), ended);
            demand(is_filled(object, 5, 9), "it is right");
            s3r_result_free(ended);
            s3r_queue_free(q);
            s3r_client_free(client);
            exit(0);
        }
        int status;
        right += waitpid(child, &status, 0) == child && status == 0;
        memset(object, 0, OBJECT_LEN);
        check(s3r_get(client, bucket, "k", object, OBJECT_LEN, required, result), result);
        right += is_filled(object, 0, OBJECT_LEN);
    }
    s3r_free(client, object);
    printf("{\"right\": %u}\n", right);
}

/* The completions of `n` transfers; how many went well, and by HTTP. */
static unsigned await(struct s3r_queue *q, unsigned n)
{
    unsigned right = 0;
    while (n-- > 0) {
        struct s3r_result *ended = NULL;
        demand(s3r_queue_poll(q, &ended, 1, -1) == 1, "one ended");
        check(s3r_result_error(ended), ended);
        right += s3r_result_transport(ended) == S3R_TRANSPORT_HTTP && s3r_result_is_verified(ended);
        s3r_result_free(ended);
    }
    return right;
}

static void plain(void)
{
    size_t len = 3 * MIB;
    unsigned right = 0;
    struct s3r_queue *q = NULL;
    struct s3r_options *off = s3r_options_new();
    unsigned char *memory = s3r_alloc(client, count * len);
    demand(off != NULL && memory != NULL, "there is memory");
    s3r_options_set_rdma(off, S3R_RDMA_OFF);
    check(s3r_queue_new(client, 0, IN_FLIGHT, result, &q), result);
    fill(memory, 0, count * len);
    for (unsigned i = 0; i < count; i++) {
        char key[16];
        snprintf(key, sizeof(key), "p%u", i);
        check(s3r_submit_put(q, bucket, key, memory + i * len, len, off, i), NULL);
    }
    right += await(q, count);
    memset(memory, 0, count * len);
    for (unsigned i = 0; i < count; i++) {
        char key[16];
        snprintf(key, sizeof(key), "p%u", i);
        check(s3r_submit_get(q, bucket, key, memory + i * len, len, off, i), NULL);
    }
    right += await(q, count);
    printf("{\"right\": %u, \"same\": %d}\n", right, is_filled(memory, 0, count * len));
    s3r_queue_free(q);
    s3r_options_free(off);
    s3r_free(client, memory);
}

static void failing(void)
{
    unsigned char *region = s3r_alloc(client, (size_t)count * STRIDE);
    demand(region != NULL, "there is a region");
    unsigned right = run_ranges("missing", region, S3R_ERROR_NO_SUCH_KEY);
    unsigned before = entries("/proc/self/fd");
    unsigned long long registered = s3r_registered_bytes(client);
    right += run_ranges("missing", region, S3R_ERROR_NO_SUCH_KEY);
    unsigned after = entries("/proc/self/fd");
    demand(registered == s3r_registered_bytes(client), "as much is registered as before");
    s3r_free(client, region);
    printf("{\"right\": %u, \"more_files\": %d, \"registered\": %llu}\n", right,
           (int)after - (int)before, (unsigned long long)s3r_registered_bytes(client));
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } modes[] = {{"ranges", ranges}, {"parts", parts}, {"threads", threads},
                 {"forks", forks},   {"plain", plain}, {"failing", failing}};
    demand(argc == 4, "there are three arguments");
    bucket = argv[1];
    for (const char *digit = argv[3]; *digit >= '0' && *digit <= '9'; digit++)
        count = 10 * count + (unsigned)(*digit - '0');
    struct s3r_config *config = s3r_config_new();
    result = s3r_result_new();
    required = s3r_options_new();
    s3r_options_set_rdma(required, S3R_RDMA_REQUIRED);
    s3r_config_set_credentials(config, S3R_CREDENTIALS_ENVIRONMENT, NULL);
    check(s3r_client_new(config, result, &client), result);
    s3r_config_free(config);
    int exists = 0;
    check(s3r_bucket_exists(client, bucket, result, &exists), result);
    if (!exists)
        check(s3r_bucket_create(client, bucket, result), result);
    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++)
        if (strcmp(argv[2], modes[i].name) == 0)
            modes[i].run();
    s3r_client_free(client);
    s3r_options_free(required);
    s3r_result_free(result);
    return 0;
}
