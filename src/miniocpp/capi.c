/* SPDX-License-Identifier: Apache-2.0 */
#include "base/handles.h"
#include "base/hex.h"
#include "base/limits.h"
#include "base/num.h"
#include "base/text.h"
#include "client/client.h"
#include "client/stream.h"
#include "miniocpp/c_api.h"
#include "miniocpp/fail.h"
#include "miniocpp/registry.h"
#include "rdma/owner.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OUT_SIZE 64 /* of etag and checksum */
#define IN_FLIGHT_VARIABLE "MINIOCPP_STREAM_INFLIGHT_PARTS"

/* ---- clients ---- */

/* "" is as good as NULL to callers that cannot pass NULL. */
static const char *or_null(const char *text)
{
    return text != NULL && text[0] != '\0' ? text : NULL;
}

static void listed_client_destroyp(struct listed_client **c)
{
    if (*c == NULL)
        return;
    client_destroy((*c)->client);
    free(*c);
}

static void text_finip(struct text *t)
{
    text_fini(t);
}

static int create(struct client_config *config, const char *endpoint, bool is_tls,
                  struct diag *diag, struct listed_client **ret_client)
{
    CLEANUP(text_finip) struct text url;
    CLEANUP(listed_client_destroyp) struct listed_client *c = calloc(1, sizeof(*c));
    text_init(&url, KIB);
    if (c == NULL)
        return S3R_E_NOMEM;
    if (endpoint == NULL || strstr(endpoint, "://") != NULL)
        return diag_fail(diag, S3R_E_INVALID_ARGUMENT, "the endpoint is HOST or HOST:PORT");
    text_fmt(&url, "%s://%s", is_tls ? "https" : "http", endpoint);
    int e = text_error(&url);
    config->endpoint = text_cstr(&url);
    if (e == 0)
        e = client_create(config, diag, &c->client);
    if (e != 0)
        return e;
    c->handle = handle_add(HANDLE_S3_CLIENT, c);
    if (c->handle == NULL)
        return S3R_E_NOMEM;
    registry_add_client(c);
    *ret_client = STEAL(c);
    return 0;
}

miniocpp_client *miniocpp_client_new_tls(const char *endpoint, const char *region,
                                         const char *access_key, const char *secret_key,
                                         const char *session_token, int use_https,
                                         int skip_cert_check, const char *ca_file)
{
    struct diag diag = {0};
    struct listed_client *c = NULL;
    const char *ca = or_null(ca_file) != NULL ? ca_file : or_null(getenv("SSL_CERT_FILE"));
    struct client_config config = {.region = or_null(region),
                                   .access_key = access_key,
                                   .secret_key = secret_key,
                                   .session_token = or_null(session_token),
                                   .ca_file = use_https ? ca : NULL,
                                   .is_peer_unverified = skip_cert_check != 0};
    int e = create(&config, endpoint, use_https != 0, &diag, &c);
    if (e != 0)
        fail_with(&diag, e);
    return e == 0 ? c->handle : NULL;
}

miniocpp_client *miniocpp_client_new(const char *endpoint, const char *region,
                                     const char *access_key, const char *secret_key,
                                     const char *session_token, int use_https)
{
    return miniocpp_client_new_tls(endpoint, region, access_key, secret_key, session_token,
                                   use_https, 0, NULL);
}

void miniocpp_client_free(miniocpp_client *client)
{
    struct listed_client *c = handle_retire(client, HANDLE_S3_CLIENT);
    if (c == NULL)
        return;
    /* Off the list only when its registrations are gone: memory that it used may be freed then. */
    client_destroy(STEAL(c->client));
    registry_drop_client(c);
    free(c);
}

static int pin(miniocpp_client *client, struct diag *diag, struct listed_client **ret_client)
{
    struct listed_client *c = handle_pin(client, HANDLE_S3_CLIENT);
    if (c == NULL)
        return diag_fail(diag, S3R_E_INVALID_ARGUMENT, "no such client");
    *ret_client = c;
    return 0;
}

/* ---- objects ---- */

/* A call of any kind: memory, or a function. */
struct job {
    const char *bucket, *object;
    struct client_memory memory; /* ptr NULL: a function */
    uint64_t len;                /* of an upload by function */
    miniocpp_read_cb read;
    miniocpp_write_cb write;
    void *userdata;
};

typedef int carry_fn(struct client *c, const struct job *job, const struct stream_options *options,
                     struct diag *diag, struct client_result *result);

static int64_t read_some(void *arg, void *buf, size_t size)
{
    const struct job *job = arg;
    return job->read(job->userdata, buf, size);
}

static int write_all(void *arg, const void *buf, size_t len)
{
    const struct job *job = arg;
    return job->write(job->userdata, buf, len) == (ssize_t)len ? 0 : -1;
}

static int put(struct client *c, const struct job *job, const struct stream_options *options,
               struct diag *diag, struct client_result *result)
{
    if (job->memory.ptr != NULL)
        return stream_put_memory(c, job->bucket, job->object, &job->memory, NULL, diag, result);
    if (job->read == NULL)
        return diag_fail(diag, S3R_E_INVALID_ARGUMENT, "there is neither a buffer nor a callback");
    return stream_put(c, job->bucket, job->object, job->len, read_some, (void *)job, options, diag,
                      result);
}

static int get(struct client *c, const struct job *job, const struct stream_options *options,
               struct diag *diag, struct client_result *result)
{
    if (job->memory.ptr != NULL)
        return stream_get_memory(c, job->bucket, job->object, CLIENT_WHOLE, &job->memory, NULL,
                                 diag, result);
    if (job->write == NULL)
        return diag_fail(diag, S3R_E_INVALID_ARGUMENT, "there is neither a buffer nor a callback");
    return stream_get(c, job->bucket, job->object, 0, STREAM_UNKNOWN, write_all, (void *)job,
                      options, diag, result);
}

static int read_environment(struct stream_options *ret_options, struct diag *diag)
{
    const char *text = getenv(IN_FLIGHT_VARIABLE);
    uint64_t n = 0;
    if (text == NULL)
        return 0;
    if (!num_parse_dec(text, strlen(text), STREAM_IN_FLIGHT_MAX, &n) || n == 0)
        return diag_fail(diag, S3R_E_INVALID_ARGUMENT, IN_FLIGHT_VARIABLE "=%.40s: it is 1 to %d",
                         text, STREAM_IN_FLIGHT_MAX);
    ret_options->in_flight = (unsigned)n;
    return 0;
}

/* `fn` with the client held and the memory registered. */
static int carry(carry_fn *fn, miniocpp_client *client, struct job *job, struct diag *diag,
                 struct client_result *result)
{
    struct listed_client *c = NULL;
    struct memory_piece *piece = NULL;
    struct stream_options options = {0};
    if (job->bucket == NULL || job->object == NULL)
        return diag_fail(diag, S3R_E_INVALID_ARGUMENT, "there is no name of bucket or object");
    int e = read_environment(&options, diag);
    if (e == 0)
        e = pin(client, diag, &c);
    if (e != 0)
        return e;
    if (job->memory.ptr != NULL)
        e = memory_use(c, job->memory.ptr, job->memory.len, diag, &piece, &job->memory.region);
    if (e == 0) {
        e = fn(c->client, job, &options, diag, result);
        memory_release(piece, e == S3R_E_RDMA_UNFENCED);
    }
    handle_unpin(client);
    return e;
}

/* One that is longer is no server's of the field; it is cut. */
static void print_etag(const struct client_result *result, char *out)
{
    if (out != NULL)
        snprintf(out, OUT_SIZE, "%.*s", OUT_SIZE - 1, result->etag);
}

static void print_checksum(const struct client_result *result, char *out)
{
    unsigned char bytes[8];
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (unsigned char)(result->crc64 >> (56 - 8 * i));
    if (out != NULL && result->has_crc64)
        base64_encode(bytes, sizeof(bytes), out);
    else if (out != NULL)
        out[0] = '\0'; /* a GPU's memory, and a server that does not tell */
}

ssize_t miniocpp_put_object(miniocpp_client *client, const char *bucket, const char *object,
                            void *buf, size_t size, miniocpp_read_cb read_cb, void *userdata,
                            char etag[OUT_SIZE], char checksum[OUT_SIZE])
{
    struct diag diag = {0};
    struct client_result result = {0};
    struct job job = {.bucket = bucket,
                      .object = object,
                      .memory = {.ptr = buf, .len = size},
                      .len = size == SIZE_MAX ? STREAM_UNKNOWN : size,
                      .read = read_cb,
                      .userdata = userdata};
    int e = carry(put, client, &job, &diag, &result);
    if (e == 0) {
        print_etag(&result, etag);
        print_checksum(&result, checksum);
    }
    ssize_t len = e == 0 ? (ssize_t)result.len : fail_with(&diag, e);
    client_result_fini(&result);
    return len;
}

ssize_t miniocpp_get_object(miniocpp_client *client, const char *bucket, const char *object,
                            void *buf, size_t size, miniocpp_write_cb write_cb, void *userdata)
{
    struct diag diag = {0};
    struct client_result result = {0};
    struct job job = {.bucket = bucket,
                      .object = object,
                      .memory = {.ptr = buf, .len = size},
                      .write = write_cb,
                      .userdata = userdata};
    int e = carry(get, client, &job, &diag, &result);
    ssize_t len = e == 0 ? (ssize_t)result.len : fail_with(&diag, e);
    client_result_fini(&result);
    return len;
}

/* ---- memory and devices ---- */

void *miniocpp_alloc_aligned(size_t size)
{
    void *ptr = NULL;
    int e = memory_alloc(size, &ptr);
    if (e != 0)
        fail_with(NULL, e);
    return ptr;
}

void miniocpp_free_aligned(void *ptr)
{
    memory_free(ptr);
}

int miniocpp_rdma_nic_count(void)
{
    struct owner *o;
    struct diag diag = {0};
    int e = owner_open(NULL, NULL, &diag, &o);
    if (e != 0) {
        fail_with(&diag, e);
        return 0;
    }
    int count = owner_rail_count(o);
    owner_close(o);
    return count;
}

int miniocpp_rdma_available(void)
{
    return miniocpp_rdma_nic_count() > 0;
}

int miniocpp_rdma_healthy_nic_count(void)
{
    return registry_healthy_rails(miniocpp_rdma_nic_count());
}
