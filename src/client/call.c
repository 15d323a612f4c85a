/* SPDX-License-Identifier: Apache-2.0 */
#include "client/call.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/num.h"
#include "client/reply.h"
#include "s3/checksum.h"
#include "s3/names.h"
#include "s3/range.h"
#include "s3/sigv4.h"
#include "s3/xml_read.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int call_init(struct call *call, const char *method, const char *bucket, const char *key,
              struct diag *diag)
{
    *call = (struct call){.method = method, .bucket = bucket, .key = key};
    text_init(&call->document, LIMIT_XML_REPLY_LEN_MAX);
    int e = bucket != NULL ? bucket_name_check(bucket, strlen(bucket), diag) : 0;
    if (e == 0 && key != NULL)
        e = key_check(key, strlen(key), diag);
    return e;
}

int call_add_crc64(struct call *call, uint64_t crc)
{
    struct checksum_value value = {.kind = CHECKSUM_CRC64NVME, .type = CHECKSUM_FULL_OBJECT};
    for (size_t i = 0; i < 8; i++)
        value.bytes[i] = (unsigned char)(crc >> (56 - 8 * i));
    char text[CHECKSUM_TEXT_SIZE];
    checksum_print(&value, text);
    return headers_set(&call->headers, "x-amz-checksum-crc64nvme", text);
}

void call_limit(struct call *call, const struct client_options *options)
{
    call->deadline_ns = options->deadline_ns;
    call->is_cancelled = options->is_cancelled;
    call->cancel_arg = options->cancel_arg;
}

void call_fini(struct call *call)
{
    query_fini(&call->query);
    headers_fini(&call->headers);
    text_fini(&call->document);
}

int call_keep_document(void *text, const struct http_reply *reply, const void *bytes, size_t len)
{
    text_add(text, bytes, len);
    return text_error(text) == S3R_E_NOMEM ? S3R_E_NOMEM
           : text_error(text) != 0         ? S3R_E_BAD_REPLY
                                           : 0;
}

static int copy_headers(const struct headers *from, struct headers *to)
{
    int e = 0;
    for (size_t i = 0; i < from->count && e == 0; i++)
        e = headers_add(to, from->rows[i].name, from->rows[i].value);
    return e;
}

static int sign(struct client *c, const struct call *call, const char *path,
                struct headers *headers)
{
    int e = copy_headers(&call->headers, headers);
    if (e == 0)
        e = headers_set(headers, "host", c->endpoint.authority);
    if (e == 0 && call->token != NULL)
        e = headers_set(headers, "x-amz-rdma-token", call->token);
    if (e == 0 && call->token != NULL && c->patience_ms != CLIENT_PATIENCE_MS) {
        char ms[24];
        snprintf(ms, sizeof(ms), "%lld", (long long)c->patience_ms);
        e = headers_set(headers, "x-s3r-deadline-ms", ms);
    }
    if (e != 0)
        return e;
    const struct sig_credentials cred = {.access_key = c->access_key,
                                         .secret_key = c->secret_key,
                                         .session_token = c->session_token,
                                         .region = c->region};
    const struct sig_request request = {.method = call->method,
                                        .path = path,
                                        .query = &call->query};
    const char *hash = call->payload_hash != NULL ? call->payload_hash : SIG_UNSIGNED_PAYLOAD;
    return sig_sign(&cred, clock_wall_s(), &request, hash, headers, NULL);
}

static void text_finip(struct text *t)
{
    text_fini(t);
}

static bool is_call_cancelled(void *arg)
{
    const struct call *call = arg;
    const struct client *c = call->client;
    return (c->is_cancelled != NULL && c->is_cancelled(c->cancel_arg)) ||
           (call->is_cancelled != NULL && call->is_cancelled(call->cancel_arg));
}

/* Signed target and headers. */
static int write_request(struct client *c, struct call *call, struct call_request *r)
{
    CLEANUP(text_finip) struct text path;
    text_init(&path, LIMIT_TARGET_LEN_MAX);
    target_print(&path, call->bucket, call->key, call->key != NULL ? strlen(call->key) : 0);
    int e = text_error(&path);
    if (e == 0)
        e = sign(c, call, text_cstr(&path), &r->headers);
    if (e != 0)
        return e;
    text_str(&r->target, text_cstr(&path));
    if (call->query.count > 0) {
        text_char(&r->target, '?');
        e = query_canonical(&call->query, NULL, &r->target);
    }
    return e == 0 ? text_error(&r->target) : e;
}

static int time_left(const struct call *call, struct diag *diag, int64_t *ret_ms)
{
    int64_t left_ns = call->deadline_ns - clock_mono_ns();
    *ret_ms = 0;
    if (call->deadline_ns == 0)
        return 0;
    if (left_ns <= 0)
        return diag_fail(diag, S3R_E_TIMEOUT, "the call's deadline is over");
    *ret_ms = (left_ns + NS_PER_MS - 1) / NS_PER_MS;
    return 0;
}

int call_request_init(struct call_request *r, struct client *c, struct call *call,
                      struct diag *diag)
{
    *r = (struct call_request){0};
    int64_t deadline_ms = 0;
    client_adopt(c);
    call->client = c;
    text_init(&r->target, LIMIT_TARGET_LEN_MAX);
    int e = time_left(call, diag, &deadline_ms);
    if (e == 0 && is_call_cancelled(call))
        e = S3R_E_CANCELLED;
    if (e == 0)
        e = write_request(c, call, r);
    text_reset(&call->document);
    r->http = (struct http_request){
        .method = call->method,
        .target = text_cstr(&r->target),
        .headers = &r->headers,
        .body = call->body,
        .body_len = call->body_len,
        .bind_ip = call->bind_ip,
        .is_once = call->token != NULL,
        .is_fresh = call->is_fresh,
        .timeout_ms = call->timeout_ms,
        .deadline_ms = deadline_ms,
        .on_body = call->on_body != NULL ? call->on_body : call_keep_document,
        .on_body_arg = call->on_body != NULL ? call->on_body_arg : &call->document,
        .is_cancelled = is_call_cancelled,
        .cancel_arg = call,
        .on_progress = call->on_progress,
        .progress_arg = call->progress_arg,
    };
    return e;
}

void call_request_fini(struct call_request *r)
{
    text_fini(&r->target);
    headers_fini(&r->headers);
}

int call_send(struct client *c, struct call *call, struct diag *diag, struct http_reply *reply)
{
    struct call_request request;
    int e = call_request_init(&request, c, call, diag);
    if (e != 0)
        reply->fault = HTTP_STOPPED;
    else
        e = http_send(c->http, &request.http, diag, reply);
    call_request_fini(&request);
    return e;
}

/* The text of an <Error>'s child; the tree lives on. */
static const char *error_child(const struct xml_tree *tree, const char *name)
{
    const struct xml_node *root = xml_tree_root(tree);
    if (strcmp(root->name, "Error") != 0)
        return NULL;
    return xml_child_text(root, name);
}

void call_s3_code(const struct call *call, char out[64])
{
    out[0] = '\0';
    CLEANUP(xml_tree_destroyp) struct xml_tree *tree = NULL;
    if (call->document.len == 0 ||
        xml_tree_parse(call->document.data, call->document.len, NULL, &tree) != 0)
        return;
    const char *code = error_child(tree, "Code");
    if (code != NULL)
        snprintf(out, 64, "%s", code);
}

static int code_of_status(int status)
{
    static const struct {
        int status, code;
    } rows[] = {
        {304, S3R_E_NOT_MODIFIED},  {400, S3R_E_INVALID_REQUEST},    {403, S3R_E_ACCESS_DENIED},
        {404, S3R_E_NO_SUCH_KEY},   {405, S3R_E_METHOD_NOT_ALLOWED}, {412, S3R_E_PRECONDITION},
        {416, S3R_E_INVALID_RANGE}, {501, S3R_E_UNSUPPORTED},        {503, S3R_E_BUSY},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (rows[i].status == status)
            return rows[i].code;
    return S3R_E_REMOTE;
}

/* U+0080 to U+009F are control characters, too: a terminal obeys them. */
static void blank_controls(char *text)
{
    for (unsigned char *p = (unsigned char *)text; *p != '\0'; p++)
        if (*p < ' ' || *p == 0x7f)
            *p = ' ';
        else if (*p == 0xc2 && p[1] >= 0x80 && p[1] <= 0x9f)
            p[0] = p[1] = ' ';
}

int call_error(const struct call *call, const struct http_reply *reply, struct diag *diag)
{
    char code[64], shown[80], said[260] = "", id[80] = "";
    call_s3_code(call, code);
    CLEANUP(xml_tree_destroyp) struct xml_tree *tree = NULL;
    if (code[0] != '\0' &&
        xml_tree_parse(call->document.data, call->document.len, NULL, &tree) == 0) {
        const char *message = error_child(tree, "Message");
        if (message != NULL)
            snprintf(said, sizeof(said), ": %.200s", message);
    }
    const char *request_id = headers_get(&reply->headers, "x-amz-request-id");
    if (request_id != NULL)
        snprintf(id, sizeof(id), " (request %.60s)",
                 log_escape(request_id, strlen(request_id), shown, sizeof(shown)));
    int error = code[0] != '\0' ? error_from_s3_code(code) : 0;
    /* No memory of ours is short, and the fault is not in here. */
    error = error == S3R_E_NOMEM ? S3R_E_BUSY : error == S3R_E_INTERNAL ? S3R_E_REMOTE : error;
    if (error == 0)
        error = code_of_status(reply->status);
    blank_controls(said);
    if (code[0] != '\0')
        return diag_fail(diag, error, "%s%s%s",
                         log_escape(code, strlen(code), shown, sizeof(shown)), said, id);
    return diag_fail(diag, error, "the server answered %d to %s%s", reply->status, call->method,
                     id);
}

int call_do(struct client *c, struct call *call, struct diag *diag, struct http_reply *reply)
{
    int e = call_send(c, call, diag, reply);
    if (e != 0 || reply->status / 100 == 2)
        return e;
    return call_error(call, reply, diag);
}

void result_take_reply(struct client_result *result, struct http_reply *reply)
{
    result->status = reply->status;
    headers_fini(&result->headers);
    result->headers = reply->headers;
    reply->headers = (struct headers){0};
    const char *etag = headers_get(&result->headers, "etag");
    if (etag == NULL || !etag_unquote(etag, strlen(etag), result->etag))
        result->etag[0] = '\0';
    result->has_crc64 = reply_named_crc64(&result->headers, &result->crc64);
    struct range range;
    const char *content_range = headers_get(&result->headers, "content-range");
    if (content_range != NULL &&
        !range_parse_content_range(content_range, &range, &result->object_len))
        result->object_len = 0;
}

void client_result_fini(struct client_result *r)
{
    headers_fini(&r->headers);
    *r = (struct client_result){0};
}
