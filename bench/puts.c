/* SPDX-License-Identifier: Apache-2.0 */
/* puts - many clients put small objects at the same time.
 *   puts BUCKET/PREFIX LENGTH COUNT CLIENTS rdma|http
 * COUNT objects in all, each of another name, by CLIENTS clients of one thread each. Each puts one
 * more, before the clock starts, to open its connection. Endpoint, credentials and device as
 * s3rdma has them. Prints one line of name=value. */
#include "base/clock.h"
#include "base/limits.h"
#include "base/num.h"
#include "client/client.h"
#include "client/settings.h"
#include "measure.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CLIENTS_MAX 1024
#define COUNT_MAX 1000000
#define NUMBER_LEN_MAX 20

struct job {
    char bucket[LIMIT_BUCKET_LEN_MAX + 1];
    const char *prefix;
    uint64_t len, count, clients;
    bool is_rdma;
    struct settings settings;
    int64_t *took_ns; /* of each put */
    pthread_barrier_t ready;
    atomic_uint_fast64_t opened, next;
    atomic_bool has_failed;
};

static bool parse(int argc, char **argv, struct job *job)
{
    const char *slash = argc == 6 ? strchr(argv[1], '/') : NULL;
    if (slash == NULL || (size_t)(slash - argv[1]) >= sizeof job->bucket ||
        strlen(slash + 1) > LIMIT_KEY_LEN_MAX - NUMBER_LEN_MAX)
        return false;
    memcpy(job->bucket, argv[1], (size_t)(slash - argv[1]));
    job->prefix = slash + 1;
    job->is_rdma = strcmp(argv[5], "rdma") == 0;
    return (job->is_rdma || strcmp(argv[5], "http") == 0) &&
           num_parse_dec(argv[2], strlen(argv[2]), GIB, &job->len) && job->len > 0 &&
           num_parse_dec(argv[3], strlen(argv[3]), COUNT_MAX, &job->count) && job->count > 0 &&
           num_parse_dec(argv[4], strlen(argv[4]), CLIENTS_MAX, &job->clients) && job->clients > 0;
}

static void fail(struct job *job, const char *what, const struct diag *diag, int error)
{
    if (!atomic_exchange(&job->has_failed, true))
        fprintf(stderr, "puts: %s: %s\n", what, diag_text(diag, error));
}

static void put(struct job *job, struct client *client, const struct client_memory *memory,
                uint64_t number)
{
    char key[LIMIT_KEY_LEN_MAX + 1];
    struct diag diag = {0};
    struct client_result result = {0};
    const struct client_options options = {.is_rdma_required = job->is_rdma};
    snprintf(key, sizeof key, "%s%llu", job->prefix, (unsigned long long)number);
    int rc = client_put(client, job->bucket, key, memory, &options, &diag, &result);
    client_result_fini(&result);
    if (rc)
        fail(job, key, &diag, rc);
}

static struct client *open_client(struct job *job, const struct client_memory *memory)
{
    struct diag diag = {0};
    const struct settings *s = &job->settings;
    const struct client_config config = {.endpoint = s->endpoint,
                                         .region = s->region,
                                         .access_key = s->access_key,
                                         .secret_key = s->secret_key,
                                         .session_token = s->session_token,
                                         .ca_file = s->ca_file,
                                         .is_rdma_off = !job->is_rdma};
    CLEANUP(client_destroyp) struct client *client = NULL;
    int rc = client_create(&config, &diag, &client);
    if (rc == 0)
        rc = client_register(client, memory->ptr, memory->len, &diag);
    if (rc) {
        fail(job, "client", &diag, rc);
        return NULL;
    }
    return STEAL(client);
}

static void *work(void *arg)
{
    struct job *job = arg;
    struct client_memory memory = {.ptr = measure_memory(job->len, 0x5a), .len = job->len};
    memory.region = memory.ptr;
    struct client *client = memory.ptr != NULL ? open_client(job, &memory) : NULL;
    if (client != NULL)
        put(job, client, &memory, job->count + atomic_fetch_add(&job->opened, 1));
    else
        atomic_store(&job->has_failed, true);
    pthread_barrier_wait(&job->ready);
    for (;;) {
        uint64_t number = atomic_fetch_add(&job->next, 1);
        if (number >= job->count || atomic_load(&job->has_failed))
            break;
        int64_t start_ns = clock_mono_ns();
        put(job, client, &memory, number);
        job->took_ns[number] = clock_mono_ns() - start_ns;
    }
    if (client != NULL)
        client_deregister(client, memory.ptr);
    client_destroy(client);
    return NULL;
}

static int compare_ns(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void print(struct job *job, double seconds, double cpu_seconds)
{
    double gb = (double)job->len * (double)job->count / 1e9;
    qsort(job->took_ns, job->count, sizeof *job->took_ns, compare_ns);
    printf("op=puts by=%s length=%llu count=%llu clients=%llu seconds=%.6f puts_per_s=%.1f "
           "ms_median=%.3f ms_99=%.3f cpu_s_per_gb=%.3f\n",
           job->is_rdma ? "rdma" : "http", (unsigned long long)job->len,
           (unsigned long long)job->count, (unsigned long long)job->clients, seconds,
           (double)job->count / seconds, (double)job->took_ns[job->count / 2] / 1e6,
           (double)job->took_ns[job->count * 99 / 100] / 1e6, cpu_seconds / gb);
}

int main(int argc, char **argv)
{
    static struct job job;
    struct diag diag = {0};
    if (!parse(argc, argv, &job)) {
        fprintf(stderr, "usage: puts BUCKET/PREFIX LENGTH COUNT CLIENTS rdma|http\n");
        return 2;
    }
    int rc = settings_load(NULL, &diag, &job.settings);
    if (rc) {
        fail(&job, "settings", &diag, rc);
        return 1;
    }
    static pthread_t threads[CLIENTS_MAX];
    job.took_ns = calloc(job.count, sizeof *job.took_ns);
    pthread_barrier_init(&job.ready, NULL, (unsigned)job.clients + 1);
    for (uint64_t i = 0; i < job.clients; i++)
        if (job.took_ns == NULL || pthread_create(&threads[i], NULL, work, &job) != 0) {
            fprintf(stderr, "puts: no memory for %llu threads\n", (unsigned long long)job.clients);
            return 1; /* the others wait for ever: the process ends them */
        }
    pthread_barrier_wait(&job.ready);
    double cpu = cpu_seconds_of(0);
    int64_t start_ns = clock_mono_ns();
    for (uint64_t i = 0; i < job.clients; i++)
        pthread_join(threads[i], NULL);
    double seconds = (double)(clock_mono_ns() - start_ns) / 1e9;
    if (!job.has_failed)
        print(&job, seconds, cpu_seconds_of(0) - cpu);
    settings_fini(&job.settings);
    free(job.took_ns);
    return job.has_failed;
}
