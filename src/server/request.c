/* SPDX-License-Identifier: Apache-2.0 */
#include "server/request.h"

#include "base/clock.h"
#include "base/crypto.h"
#include "base/log.h"
#include "base/num.h"
#include "s3/names.h"
#include "s3/xml.h"
#include "server/accesslog.h"
#include "server/admin.h"
#include "server/object_stream.h"
#include "server/ops.h"
#include "server/rdma.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What arrives of a body is collected in two buffers of this size, or less for a shorter body. */
#define BODY_BUFFER_LEN BODY_BLOCK_LEN
#define BODY_BUFFER_LEN_MIN (64 * KIB)
/* After an error in the middle of a body this much more is read and dropped, so that the client,
 * which is still sending, gets to read the answer. */
#define BODY_DRAIN_MAX (64 * MIB)
#define REPLY_LEN_MAX (16 * MIB)

/* ---- life ---- */

static void *request_begin(void *app_arg, struct http_exchange *ex)
{
    struct request *r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    r->server = app_arg;
    r->ex = ex;
    r->begun_ns = clock_mono_ns();
    snprintf(r->id, sizeof r->id, "%016" PRIX64, random_u64());
    r->reply.headers.is_reply = true;
    text_init(&r->reply.body, REPLY_LEN_MAX);
    text_init(&r->document, LIMIT_XML_LEN_MAX);
    pthread_mutex_init(&r->lock, NULL);
    return r;
}

static void free_buffer(struct body_buffer *b)
{
    if (!b->block)
        free(b->bytes);
    buffer_give(b->block);
}

static void request_destroy(struct request *r)
{
    object_stream_destroy(r->stream);
    store_writer_close(r->writer);
    store_lease_close(r->lease);
    payload_destroy(r->payload);
    if (r->op_state_free)
        r->op_state_free(r->op_state);
    headers_fini(&r->reply.headers);
    text_fini(&r->reply.body);
    text_fini(&r->document);
    query_fini(&r->query);
    target_fini(&r->target);
    sig_auth_fini(&r->auth);
    sig_chain_fini(&r->chain);
    buffer_give(r->reply.block);
    for (size_t i = 0; i < ARRAY_LEN(r->buffers); i++)
        free_buffer(&r->buffers[i]);
    pthread_mutex_destroy(&r->lock);
    free(r);
}

/* The connection can be lost while a worker still has the request: then the worker frees it. */
static void request_done(void *req, bool is_sent)
{
    struct request *r = req;
    pthread_mutex_lock(&r->lock);
    bool is_working = r->is_working;
    pthread_mutex_unlock(&r->lock);
    accesslog_write(r, is_working ? S3R_E_CANCELLED : r->error, is_sent);
    pthread_mutex_lock(&r->lock);
    is_working = r->is_working;
    r->is_detached = true;
    pthread_mutex_unlock(&r->lock);
    if (!is_working)
        request_destroy(r);
}

static void run_work(void *arg)
{
    struct request *r = arg;
    struct server *s = r->server;
    r->work(r);
    pthread_mutex_lock(&r->lock);
    bool is_detached = r->is_detached, is_suspended = r->is_suspended;
    struct http_exchange *ex = r->ex;
    r->is_working = false;
    r->is_suspended = false;
    pthread_mutex_unlock(&r->lock);
    if (is_detached)
        request_destroy(r);
    else if (is_suspended)
        http_resume(ex);
    atomic_fetch_sub(&s->working, 1);
}

/* Whoever is counted before server_stop() raises its flag is waited for; whoever is not sees it. */
static int submit(struct request *r, enum pool pool)
{
    struct server *s = r->server;
    atomic_fetch_add(&s->working, 1);
    int rc = atomic_load(&s->is_stopping)
                 ? S3R_E_SHUTTING_DOWN
                 : work_submit_owned(s->pools[pool], &r->job, r->owner, run_work, r);
    if (rc)
        atomic_fetch_sub(&s->working, 1);
    return rc;
}

int request_work(struct request *r, enum pool pool, void (*work)(struct request *r))
{
    pthread_mutex_lock(&r->lock);
    r->is_working = true;
    pthread_mutex_unlock(&r->lock);
    r->work = work;
    int rc = submit(r, pool);
    if (rc) {
        pthread_mutex_lock(&r->lock);
        r->is_working = false;
        pthread_mutex_unlock(&r->lock);
    }
    return rc;
}

bool request_wait(struct request *r)
{
    pthread_mutex_lock(&r->lock);
    bool is_working = r->is_working;
    if (is_working && !r->is_suspended) {
        r->is_suspended = true;
        http_suspend(r->ex);
    }
    pthread_mutex_unlock(&r->lock);
    return is_working;
}

/* ---- small things ---- */

const char *request_header(const struct request *r, const char *name)
{
    return headers_get(http_headers(r->ex), name);
}

const char *request_query(const struct request *r, const char *name)
{
    return query_get(&r->query, name);
}

bool request_is_head(const struct request *r)
{
    return strcmp(http_method(r->ex), "HEAD") == 0;
}

bool request_is_cancelled(void *request)
{
    struct request *r = request;
    pthread_mutex_lock(&r->lock);
    bool is_gone =
        atomic_load(&r->server->is_stopping) || r->is_detached || http_peer_is_gone(r->ex);
    pthread_mutex_unlock(&r->lock);
    return is_gone;
}

/* ---- errors ---- */

static void add_error_fields(struct request *r, int code)
{
    char now[CLOCK_TEXT_MAX], resource_bucket[LIMIT_BUCKET_LEN_MAX + 1] = "";
    struct xml_field extra[4];
    size_t n = 0;
    if (r->target.bucket) {
        snprintf(resource_bucket, sizeof resource_bucket, "%s", r->target.bucket);
        extra[n++] = (struct xml_field){"BucketName", resource_bucket};
    }
    if (r->target.key)
        extra[n++] = (struct xml_field){"Key", r->target.key};
    if (code == S3R_E_TIME_SKEWED) {
        clock_print_iso(clock_wall_ms(), now);
        extra[n++] = (struct xml_field){"ServerTime", now};
    }
    if (code == S3R_E_MALFORMED_AUTH)
        extra[n++] = (struct xml_field){"Region", r->server->config->region};
    char *question = strchr(http_target(r->ex), '?');
    size_t path_len =
        question ? (size_t)(question - http_target(r->ex)) : strlen(http_target(r->ex));
    CLEANUP(freep) char *resource = strndup(http_target(r->ex), path_len);
    xml_error(&r->reply.body, code, &r->diag, resource ? resource : "/", r->id, extra, n);
}

/* Turns an error into the reply. Headers that a handler had set go, but those that belong to the
 * error itself (x-amz-rdma-*, Content-Range of a 416, what a cache takes from a 304) are kept. The
 * document is made for HEAD too, whose Content-Length is that of GET. */
static void compose_error(struct request *r, int code)
{
    static const char *const kept[] = {"x-amz-rdma-reply", "x-amz-rdma-protocol-status",
                                       "content-range",    "etag",
                                       "last-modified",    "cache-control",
                                       "expires"};
    struct headers headers = {0};
    int rc = 0;
    r->error = code;
    for (size_t i = 0; i < ARRAY_LEN(kept); i++) {
        const char *value = headers_get(&r->reply.headers, kept[i]);
        bool is_validator = i >= 3;
        if (value && !rc && (!is_validator || code == S3R_E_NOT_MODIFIED))
            rc = headers_add(&headers, kept[i], value);
    }
    headers_fini(&r->reply.headers);
    r->reply.headers = headers;
    r->reply.is_stream = false;
    buffer_give(STEAL(r->reply.block));
    r->reply.status = (unsigned)error_http_status(code);
    if (error_class_of(code) == ERR_CLASS_PEER && code != S3R_E_RDMA_TRANSFER &&
        code != S3R_E_RDMA_PEER && code != S3R_E_RDMA_DEADLINE)
        r->reply.is_close = true;
    text_reset(&r->reply.body);
    if (code == S3R_E_NOT_MODIFIED) {
        /* the object's length, of which no byte is read: 0 would say that it is empty */
        r->reply.is_stream = r->lease != NULL;
        r->reply.stream_len = r->lease ? store_lease_object(r->lease)->size : 0;
        return;
    }
    if (!rc)
        rc = reply_header(r, "content-type", "application/xml");
    add_error_fields(r, code);
}

static enum http_next send_reply(struct request *r)
{
    int rc = reply_header(r, "x-amz-request-id", r->id);
    if (!rc)
        rc = reply_header(r, "server", "s3rdma");
    if (!rc && text_error(&r->reply.body))
        rc = text_error(&r->reply.body);
    if (rc)
        return HTTP_CLOSE;
    struct http_reply reply = {.status = r->reply.status,
                               .headers = &r->reply.headers,
                               .body = &r->reply.body,
                               .block = STEAL(r->reply.block),
                               .block_len = r->reply.block_len,
                               .is_close = r->reply.is_close};
    if (!request_is_head(r))
        r->bytes_out += reply.block ? reply.block_len : r->reply.body.len;
    if (r->reply.is_stream) {
        reply.stream = object_stream_read;
        reply.stream_arg = r->stream;
        reply.stream_len = r->reply.stream_len;
    }
    r->state = REQ_REPLY;
    metrics_add(&r->server->metrics.requests[r->reply.status / 100 % 6], 1);
    return http_reply(r->ex, &reply) ? HTTP_CLOSE : HTTP_GO_ON;
}

/* ---- the head: everything that never blocks ---- */

static const char *host_bucket_of(struct request *r, char bucket[LIMIT_BUCKET_LEN_MAX + 1])
{
    const char *domain = r->server->config->domain, *host = request_header(r, "host");
    return *domain && host && host_bucket(host, domain, bucket) ? bucket : NULL;
}

int request_parse_target(struct request *r)
{
    char bucket[LIMIT_BUCKET_LEN_MAX + 1];
    const char *raw = http_target(r->ex), *question = strchr(raw, '?');
    size_t path_len = question ? (size_t)(question - raw) : strlen(raw);
    int rc = question ? query_parse(question + 1, strlen(question + 1), &r->diag, &r->query) : 0;
    if (rc)
        return rc;
    rc = target_parse(raw, path_len, host_bucket_of(r, bucket), &r->diag, &r->target);
    r->key = (struct store_key){r->target.bucket, r->target.key, r->target.key_len};
    return rc;
}

int request_authenticate(struct request *r)
{
    const struct config *config = r->server->config;
    const char *raw = http_target(r->ex);
    CLEANUP(freep) char *path = strndup(raw, strcspn(raw, "?"));
    if (!path)
        return S3R_E_NOMEM;
    struct sig_request req = {http_method(r->ex), path, &r->query, http_headers(r->ex)};
    int rc = sig_parse(&req, config->region, clock_wall_s(), &r->diag, &r->auth);
    if (rc || r->auth.how == SIG_ANONYMOUS)
        return rc;
    if (strcmp(r->auth.access_key, config->root_user) != 0)
        return diag_fail(&r->diag, S3R_E_INVALID_ACCESS_KEY, "%s",
                         error_text(S3R_E_INVALID_ACCESS_KEY));
    if (request_header(r, "x-amz-security-token") || request_query(r, "X-Amz-Security-Token"))
        return diag_fail(&r->diag, S3R_E_ACCESS_DENIED, "session tokens are not issued here");
    rc = sig_verify(&req, &r->auth, config->root_password, &r->diag, &r->chain);
    if (!rc && r->auth.how == SIG_PRESIGNED)
        rc = sig_adopt_query(&r->query, http_headers_mutable(r->ex));
    return rc;
}

/* Two tokens would leave open which one was meant; an unsigned one could be anybody's. */
static int check_token(struct request *r)
{
    const struct headers *headers = http_headers(r->ex);
    if (headers_count(headers, "x-amz-rdma-token") > 1)
        return diag_fail(&r->diag, S3R_E_INVALID_REQUEST, "more than one x-amz-rdma-token");
    if (!headers_get(headers, "x-amz-rdma-token") || r->auth.how != SIG_HEADER)
        return 0;
    if (!sig_header_is_signed(&r->auth, "x-amz-rdma-token"))
        return diag_fail(&r->diag, S3R_E_ACCESS_DENIED,
                         "x-amz-rdma-token is not among the signed headers");
    return 0;
}

int request_authorise(struct request *r)
{
    if (r->auth.how == SIG_ANONYMOUS)
        return diag_fail(&r->diag, S3R_E_ACCESS_DENIED, "anonymous access is not allowed here");
    return 0;
}

/* Without a length and without chunks there is no body: fine for a document that may be empty. */
static bool is_length_known(const struct request *r)
{
    uint64_t length;
    return http_content_length(r->ex, &length) || http_is_chunked(r->ex);
}

static int check_body(struct request *r)
{
    const struct op *op = r->op;
    if (op->has_rdma)
        r->token_text = request_header(r, "x-amz-rdma-token");
    if (r->token_text)
        r->owner = rdma_owner(r->token_text);
    if (op->body == BODY_NONE && http_has_body(r->ex))
        return diag_fail(&r->diag, S3R_E_INVALID_REQUEST, "%s takes no body", op->name);
    if (op->body == BODY_NONE || (op->body == BODY_OBJECT && r->token_text) ||
        (op->body == BODY_MEMORY && !is_length_known(r)))
        return 0;
    r->is_body_awaited = true;
    struct payload_rules rules = {.auth = &r->auth,
                                  .chain = &r->chain,
                                  .len_max = op->body == BODY_MEMORY ? LIMIT_XML_LEN_MAX
                                                                     : LIMIT_OBJECT_LEN_MAX};
    if (op->body == BODY_MEMORY)
        rules.flags = PAYLOAD_NO_MD5 | PAYLOAD_NO_CRC64;
    /* The checksum there is the whole object's, not the list's. */
    if (strcmp(op->name, "CompleteMultipartUpload") == 0)
        rules.flags |= PAYLOAD_FOREIGN_CHECKSUM;
    return payload_create(http_headers(r->ex), &rules, &r->diag, &r->payload);
}

static int admit(struct request *r)
{
    int rc = http_framing_error(r->ex, &r->diag);
    if (!rc)
        rc = request_parse_target(r);
    if (!rc)
        rc = request_authenticate(r);
    if (!rc)
        rc = check_token(r);
    if (!rc && atomic_load(&r->server->is_draining))
        rc = S3R_E_SHUTTING_DOWN;
    if (!rc)
        rc = request_authorise(r);
    if (!rc)
        rc = op_find(r, &r->diag, &r->op);
    return rc ? rc : check_body(r);
}

/* ---- workers ---- */

static int sink_to_document(void *arg, const void *bytes, size_t len)
{
    struct request *r = arg;
    text_add(&r->document, bytes, len);
    return text_error(&r->document) ? S3R_E_MALFORMED_XML : 0;
}

static int sink_to_writer(void *arg, const void *bytes, size_t len)
{
    struct request *r = arg;
    return store_writer_append(r->writer, bytes, len, &r->diag);
}

static void work_prepare(struct request *r)
{
    if (r->op->prepare)
        r->error = r->op->prepare(r);
}

static void work_whole(struct request *r)
{
    work_prepare(r);
    if (!r->error)
        r->error = r->op->run(r);
}

static void drain(struct request *r, int which)
{
    struct body_buffer *b = &r->buffers[which];
    if (!r->error)
        r->error = payload_feed(r->payload, b->bytes, b->len, &r->diag,
                                r->op->body == BODY_MEMORY ? sink_to_document : sink_to_writer, r);
    b->len = 0;
}

static void work_drain(struct request *r)
{
    drain(r, !r->filling);
}

static void work_finish(struct request *r)
{
    drain(r, r->filling);
    if (!r->error)
        r->error = payload_finish(r->payload, &r->diag, &r->payload_result);
    if (!r->error)
        r->error = r->op->run(r);
}

static enum pool pool_of(const struct request *r)
{
    return r->token_text ? POOL_TRANSFER : r->op->pool;
}

/* ---- the callbacks of http.h ---- */

static enum http_next answer(struct request *r)
{
    if (r->error)
        compose_error(r, r->error);
    return send_reply(r);
}

static enum http_next start_work(struct request *r, enum request_state state,
                                 void (*work)(struct request *))
{
    int rc = request_work(r, pool_of(r), work);
    if (rc) {
        r->error = rc;
        return answer(r);
    }
    r->state = state;
    return request_wait(r) ? HTTP_WAIT : HTTP_GO_ON;
}

static enum http_next begin_head(struct request *r)
{
    r->error = admin_is_meant(r) ? admin_answer(r) : admit(r);
    if (r->error || !r->op)
        return answer(r);
    if (r->op->try_now) {
        int rc = r->op->try_now(r);
        if (rc != S3R_E_TIMEOUT) {
            r->error = rc;
            return answer(r);
        }
    }
    return start_work(r, REQ_PREPARING, r->is_body_awaited ? work_prepare : work_whole);
}

static enum http_next request_head(void *req)
{
    struct request *r = req;
    if (r->state == REQ_NEW) {
        enum http_next next = begin_head(r);
        if (next == HTTP_WAIT || r->state == REQ_REPLY || next == HTTP_CLOSE)
            return next;
    }
    /* the worker has been here */
    if (r->error || !r->is_body_awaited)
        return answer(r);
    r->state = REQ_BODY;
    return HTTP_GO_ON;
}

static bool reserve(struct request *r, struct body_buffer *b)
{
    if (b->cap)
        return true;
    uint64_t length = 0;
    uint64_t want = BODY_BUFFER_LEN;
    if (http_content_length(r->ex, &length))
        want = max_u64(BODY_BUFFER_LEN_MIN, min_u64(length, want));
    if (want > BODY_BUFFER_LEN_MIN) {
        b->block = buffer_take(r->server->blocks);
        b->bytes = b->block ? b->block->bytes : NULL;
        want = BODY_BLOCK_LEN;
    } else {
        b->bytes = malloc(want);
    }
    b->cap = b->bytes ? want : 0;
    return b->bytes != NULL;
}

/* Nothing is stored any more; a bounded rest of the body is dropped. */
static enum http_next drop_body(struct request *r, size_t *len)
{
    r->drained += *len;
    *len = 0;
    return r->drained > BODY_DRAIN_MAX ? HTTP_CLOSE : HTTP_GO_ON;
}

static bool is_working(struct request *r)
{
    pthread_mutex_lock(&r->lock);
    bool is = r->is_working;
    pthread_mutex_unlock(&r->lock);
    return is;
}

/* The full buffer goes to a worker, and the other one fills. No worker is under way. */
static void hand_over(struct request *r)
{
    r->filling = !r->filling;
    int rc = request_work(r, POOL_DISK, work_drain);
    if (rc) {
        r->error = rc;
        r->buffers[!r->filling].len = 0;
    }
}

static bool is_full(const struct body_buffer *b)
{
    return b->cap && b->len == b->cap;
}

/* Is the last byte there that Content-Length announces? */
static bool is_at_end(const struct request *r)
{
    uint64_t length;
    return http_content_length(r->ex, &length) && r->bytes_in + r->drained >= length;
}

/* Takes all bytes, or suspends: the library does not offer what is left over again before more has
 * arrived, which may be never. */
static enum http_next request_body(void *req, const char *bytes, size_t *len)
{
    struct request *r = req;
    while (*len) {
        if (is_full(&r->buffers[r->filling])) {
            if (request_wait(r))
                return HTTP_WAIT;
            if (!r->error)
                hand_over(r);
        }
        struct body_buffer *b = &r->buffers[r->filling];
        if (!is_working(r) && r->error)
            return drop_body(r, len);
        if (!reserve(r, b))
            return HTTP_CLOSE;
        size_t take = (size_t)min_u64(*len, b->cap - b->len);
        memcpy(b->bytes + b->len, bytes, take);
        b->len += take;
        bytes += take;
        *len -= take;
        r->bytes_in += take;
    }
    /* what is full with the last byte goes to the worker that finishes */
    if (is_full(&r->buffers[r->filling]) && !is_working(r) && !r->error && !is_at_end(r))
        hand_over(r);
    return HTTP_GO_ON;
}

/* Content-Length decides what the end is: a call without bytes before it is not one. */
static bool has_all(const struct request *r)
{
    uint64_t length;
    return !http_content_length(r->ex, &length) || is_at_end(r);
}

static enum http_next request_end(void *req)
{
    struct request *r = req;
    if (request_wait(r))
        return HTTP_WAIT;
    if (r->state == REQ_FINISHING || r->error)
        return answer(r);
    if (!has_all(r))
        return HTTP_GO_ON;
    enum http_next next = start_work(r, REQ_FINISHING, work_finish);
    return next == HTTP_GO_ON && r->state == REQ_FINISHING ? answer(r) : next;
}

const struct http_app request_app = {request_begin, request_head, request_body, request_end,
                                     request_done};
