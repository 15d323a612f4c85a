/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that is too large for one window: split BUCKET MODE BYTES
 *   pieces   with s3r/client.h and pieces of 5 MiB
 *   large    with miniocpp/c_api.h, as it comes
 *   cancel   a stream whose caller wants no more of it in the middle */
#include "content.h"

#include <miniocpp/c_api.h>
#include <s3r/client.h>
#include <stdio.h>
#include <stdlib.h>

#define PIECE_LEN (5 << 20)

static const char *bucket;

static void check(int is_right_so, const char *what, const char *why)
{
    if (is_right_so)
        return;
    fprintf(stderr, "%s: %s\n", what, why ? why : "");
    exit(1);
}

static struct s3r_client *connect_s3r(struct s3r_result *r)
{
    struct s3r_client *client = NULL;
    struct s3r_config *config = s3r_config_new();
    s3r_config_set_endpoint(config, getenv("AWS_ENDPOINT_URL"));
    s3r_config_set_credentials(config, S3R_CREDENTIALS_ENVIRONMENT, NULL);
    check(s3r_client_new(config, r, &client) == S3R_OK, "client", s3r_result_message(r));
    s3r_config_free(config);
    return client;
}

static void in_pieces(size_t len)
{
    struct s3r_result *r = s3r_result_new();
    struct s3r_options *o = s3r_options_new();
    struct s3r_client *client = connect_s3r(r);
    char *memory = s3r_alloc(client, 2 * len);
    check(memory != NULL, "alloc", "");
    check(s3r_options_set_pieces(o, PIECE_LEN, 3) == S3R_OK, "options", "");
    fill(memory, 0, len);
    check(s3r_put(client, bucket, "k", memory, len, o, r) == S3R_OK, "put", s3r_result_message(r));
    check(s3r_result_len(r) == len && s3r_result_transport(r) == S3R_TRANSPORT_RDMA &&
              s3r_result_is_verified(r),
          "put's result", s3r_result_reason_text(r));
    printf("{\"etag\": \"%s\", ", s3r_result_etag(r));
    memset(memory, 0xAA, 2 * len);
    check(s3r_get(client, bucket, "k", memory, 2 * len, o, r) == S3R_OK, "get",
          s3r_result_message(r));
    check(s3r_result_len(r) == len && s3r_result_is_verified(r) && is_right(memory, 0, len),
          "get's bytes", "");
    check(memory[len] == (char)0xAA, "past the end", "");
    memset(memory, 0xAA, 2 * len);
    check(s3r_get_range(client, bucket, "k", 7, memory, len, o, r) == S3R_OK &&
              s3r_result_len(r) == len - 7,
          "range", s3r_result_message(r));
    check(is_right(memory, 7, len - 7) && memory[len - 7] == (char)0xAA, "range's bytes", "");
    memset(memory, 0xAA, 2 * len);
    check(s3r_get(client, bucket, "k", memory, len - 1, o, r) == S3R_ERROR_BUFFER_TOO_SMALL &&
              memory[len - 1] == (char)0xAA,
          "too small", s3r_result_message(r));
    printf("\"too_small\": \"%s\"}\n", s3r_result_message(r));
    s3r_free(client, memory);
    check(s3r_registered_bytes(client) == 0, "gauge", "");
    s3r_client_free(client);
    s3r_options_free(o);
    s3r_result_free(r);
}

static void as_it_comes(size_t len)
{
    char etag[64];
    miniocpp_client *client =
        miniocpp_client_new(getenv("S3RDMA_TEST_ENDPOINT"), "", getenv("AWS_ACCESS_KEY_ID"),
                            getenv("AWS_SECRET_ACCESS_KEY"), "", 0);
    char *memory = miniocpp_alloc_aligned(len);
    check(client && memory, "client, memory", miniocpp_last_error());
    fill(memory, 0, len);
    check(miniocpp_put_object(client, bucket, "k", memory, len, NULL, NULL, etag, NULL) ==
              (ssize_t)len,
          "put", miniocpp_last_error());
    memset(memory, 0, len);
    check(miniocpp_get_object(client, bucket, "k", memory, len, NULL, NULL) == (ssize_t)len, "get",
          miniocpp_last_error());
    check(is_right(memory, 0, len), "bytes", "");
    printf("{\"etag\": \"%s\"}\n", etag);
    miniocpp_free_aligned(memory);
    miniocpp_client_free(client);
}

struct source {
    uint64_t off, len;
};

static int64_t give(void *arg, void *buf, size_t size)
{
    struct source *s = arg;
    fill(buf, s->off, size);
    __atomic_store_n(&s->off, s->off + size, __ATOMIC_RELAXED);
    return (int64_t)size;
}

static int is_enough(void *arg)
{
    const struct source *s = arg;
    return __atomic_load_n(&s->off, __ATOMIC_RELAXED) > s->len / 2;
}

static void cancelled(size_t len)
{
    struct source s = {.len = len};
    struct s3r_result *r = s3r_result_new();
    struct s3r_options *o = s3r_options_new();
    struct s3r_client *client = connect_s3r(r);
    s3r_options_set_cancel(o, is_enough, &s);
    int e = s3r_put_stream(client, bucket, "k", len, give, &s, o, r);
    check(e == S3R_ERROR_CANCELLED, "cancel", s3r_result_message(r));
    check(s3r_registered_bytes(client) == 0, "gauge", "");
    printf("{}\n");
    s3r_client_free(client);
    s3r_options_free(o);
    s3r_result_free(r);
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    bucket = argv[1];
    size_t len = (size_t)number(argv[3]);
    if (strcmp(argv[2], "pieces") == 0)
        in_pieces(len);
    else if (strcmp(argv[2], "large") == 0)
        as_it_comes(len);
    else if (strcmp(argv[2], "cancel") == 0)
        cancelled(len);
    else
        return 2;
    return 0;
}
