/* SPDX-License-Identifier: Apache-2.0 */
/* interrupted BUCKET MODE BYTES - one call of s3r/client.h that SIGINT is to end, as a program ends
 * it that has a handler and lets its calls ask for what that has seen. put, get memory in one piece
 *   put-pieces, get-pieces   memory in pieces of 5 MiB, two of them in flight
 *   put-stream, get-stream   the same through functions
 *   parts                    an upload of the program's own, its parts through a queue
 *   killed                   put, without a handler
 * A PUT is of the key `k`, a GET of `big`. Endpoint and keys come from the environment. Prints
 * `begun`, and what became of it as a line of JSON. */
#include "content.h"

#include <s3r/client.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#define PIECE ((size_t)5 << 20)

static volatile sig_atomic_t is_interrupted;
static struct s3r_client *client;
static struct s3r_options *options;
static struct s3r_result *result;
static const char *bucket;
static char *memory;
static size_t len;

static void on_signal(int number)
{
    is_interrupted = number;
}

static int is_cancelled(void *arg)
{
    return is_interrupted != 0 || arg != NULL;
}

static void demand(int is_true, const char *what)
{
    if (is_true)
        return;
    printf("not so: %s\n", what);
    exit(1);
}

static int64_t give(void *arg, void *buf, size_t size)
{
    size_t *off = arg, n = len - *off < size ? len - *off : size;
    fill(buf, *off, n);
    *off += n;
    return (int64_t)n;
}

static int take(void *arg, const void *buf, size_t n)
{
    *(size_t *)arg += n;
    return buf == NULL;
}

static int put(void)
{
    return s3r_put(client, bucket, "k", memory, len, options, result);
}

static int get(void)
{
    return s3r_get(client, bucket, "big", memory, len, options, result);
}

static int put_stream(void)
{
    size_t off = 0;
    return s3r_put_stream(client, bucket, "k", S3R_UNKNOWN, give, &off, options, result);
}

static int get_stream(void)
{
    size_t off = 0;
    return s3r_get_stream(client, bucket, "big", 0, S3R_UNKNOWN, take, &off, options, result);
}

/* The first error; an upload that is not completed is the program's to take back. */
static int parts(void)
{
    struct s3r_upload *upload = NULL;
    struct s3r_queue *queue = NULL;
    struct s3r_result *ended = NULL;
    unsigned count = (unsigned)(len / PIECE);
    demand(s3r_upload_create(client, bucket, "k", options, result, &upload) == S3R_OK, "an upload");
    demand(s3r_queue_new(client, 0, 2, result, &queue) == S3R_OK, "a queue");
    int error = S3R_OK;
    for (unsigned i = 0; i < count; i++)
        demand(s3r_submit_part(queue, upload, i + 1, memory + i * PIECE, PIECE, options, i) ==
                   S3R_OK,
               "a submit");
    while (s3r_queue_poll(queue, &ended, 1, -1) == 1) {
        error = error != S3R_OK ? error : s3r_result_error(ended);
        s3r_result_free(ended);
    }
    if (error == S3R_OK)
        error = s3r_upload_complete(upload, options, result);
    if (error != S3R_OK) {
        int e = s3r_upload_abort(upload, result);
        demand(e == S3R_OK || e == S3R_ERROR_NO_SUCH_UPLOAD, "an end of the upload");
    }
    s3r_queue_free(queue);
    s3r_upload_free(upload);
    return error;
}

static void open_client(void)
{
    struct s3r_config *config = s3r_config_new();
    result = s3r_result_new();
    options = s3r_options_new();
    s3r_config_set_credentials(config, S3R_CREDENTIALS_ENVIRONMENT, NULL);
    s3r_config_set_patience_ms(config, 600000); /* it is the signal that ends it */
    demand(s3r_client_new(config, result, &client) == S3R_OK, "a client");
    s3r_config_free(config);
    s3r_options_set_rdma(options, S3R_RDMA_REQUIRED);
    s3r_options_set_cancel(options, is_cancelled, NULL);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(void);
    } modes[] = {
        {"put", put}, {"put-pieces", put}, {"put-stream", put_stream}, {"killed", put},
        {"get", get}, {"get-pieces", get}, {"parts", parts},           {"get-stream", get_stream}};
    struct sigaction action = {.sa_handler = on_signal};
    demand(argc == 4, "there are three arguments");
    bucket = argv[1];
    len = number(argv[3]);
    open_client();
    memory = malloc(len);
    demand(memory != NULL, "memory");
    fill(memory, 0, len);
    if (strcmp(argv[2], "killed") != 0)
        sigaction(SIGINT, &action, NULL);
    if (strchr(argv[2], '-') != NULL)
        s3r_options_set_pieces(options, PIECE, 2);
    int error = S3R_ERROR_INTERNAL;
    printf("begun\n");
    fflush(stdout);
    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++)
        if (strcmp(argv[2], modes[i].name) == 0)
            error = modes[i].run();
    printf("{\"error\": \"%s\", \"registered\": %llu}\n", s3r_error_name(error),
           (unsigned long long)s3r_registered_bytes(NULL));
    free(memory);
    s3r_options_free(options);
    s3r_result_free(result);
    s3r_client_free(client);
    return 0;
}
