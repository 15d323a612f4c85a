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
    text_init(&call->document, LIMIT_XML_LEN_MAX);
    int e = bucket != NULL ? bucket_name_check(bucket, strlen(bucket), diag) : 0;
    if (e == 0 && key != NULL)
        e = key_check(key, strlen(key), diag);
    return e;
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

static void headers_finip(struct headers *h)
{
    headers_fini(h);
}

int call_send(struct client *c, struct call *call, struct diag *diag, struct http_reply *reply)
{
    CLEANUP(text_finip) struct text path;
    CLEANUP(text_finip) struct text target;
    CLEANUP(headers_finip) struct headers headers = {0};
    client_adopt(c);
    text_init(&path, LIMIT_TARGET_LEN_MAX);
    text_init(&target, LIMIT_TARGET_LEN_MAX);
    target_print(&path, call->bucket, call->key, call->key != NULL ? strlen(call->key) : 0);
    int e = text_error(&path);
    if (e == 0)
        e = sign(c, call, text_cstr(&path), &headers);
    if (e != 0)
        return e;
    text_str(&target, text_cstr(&path));
    if (call->query.count > 0) {
        text_char(&target, '?');
        e = query_canonical(&call->query, NULL, &target);
    }
    if (e == 0)
        e = text_error(&target);
    if (e != 0)
        return e;
    text_reset(&call->document);
    const struct http_request request = {
        .method = call->method,
        .target = text_cstr(&target),
        .headers = &headers,
        .body = call->body,
        .body_len = call->body_len,
        .bind_ip = call->bind_ip,
        .is_once = call->token != NULL,
        .timeout_ms = call->timeout_ms,
        .on_body = call->on_body != NULL ? call->on_body : call_keep_document,
        .on_body_arg = call->on_body != NULL ? call->on_body_arg : &call->document,
        .is_cancelled = c->is_cancelled,
        .cancel_arg = c->cancel_arg,
        .on_progress = call->on_progress,
        .progress_arg = call->progress_arg,
    };
    return http_send(c->http, &request, diag, reply);
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
    if (error == 0)
        error = code_of_status(reply->status);
    for (char *p = said; *p != '\0'; p++)
        if ((unsigned char)*p < ' ')
            *p = ' ';
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
