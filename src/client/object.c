/* SPDX-License-Identifier: Apache-2.0 */
#include "client/object.h"
#include "base/clock.h"
#include "base/num.h"
#include "client/call.h"
#include "client/carry.h"
#include "s3/range.h"
#include "s3/sigv4.h"

#include <stdio.h>
#include <string.h>

static const struct client_options no_options;

static void call_finip(struct call *call)
{
    call_fini(call);
}

static int add(struct headers *headers, const char *name, const char *value)
{
    return value != NULL ? headers_set(headers, name, value) : 0;
}

bool object_is_reserved(const char *name)
{
    static const char *const names[] = {"host",           "authorization",     "range",
                                        "content-length", "transfer-encoding", "expect",
                                        "connection"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return strncmp(name, "x-amz-rdma-", 11) == 0 || strncmp(name, "x-amz-checksum-", 15) == 0 ||
           strncmp(name, "x-s3r-", 6) == 0 || strcmp(name, "x-amz-date") == 0 ||
           strcmp(name, "x-amz-content-sha256") == 0 || strcmp(name, "x-amz-security-token") == 0;
}

int object_add_options(struct call *call, const struct client_options *options, struct diag *diag)
{
    int e = add(&call->headers, "if-match", options->if_match);
    if (e == 0)
        e = add(&call->headers, "if-none-match", options->if_none_match);
    for (size_t i = 0; e == 0 && options->headers != NULL && i < options->headers->count; i++) {
        const struct header *row = &options->headers->rows[i];
        if (object_is_reserved(row->name))
            return diag_fail(diag, S3R_E_INVALID_ARGUMENT, "the header %s cannot be set",
                             row->name);
        e = headers_set(&call->headers, row->name, row->value);
    }
    return e;
}

static int check_memory(const struct client_memory *m, uint64_t len_max, struct diag *diag)
{
    uint64_t end;
    if (!checked_add((uintptr_t)m->ptr, m->len, &end) || m->len > LIMIT_OBJECT_LEN_MAX)
        return diag_fail(diag, S3R_E_INVALID_ARGUMENT, "no memory has %zu bytes", m->len);
    if (m->ptr == NULL || (m->region != NULL && (char *)m->region > (char *)m->ptr))
        return diag_fail(diag, S3R_E_INVALID_ARGUMENT, "the memory is not in the region given");
    if (m->len > len_max)
        return diag_fail(diag, S3R_E_ENTITY_TOO_LARGE, "%zu bytes: one request takes at most %llu",
                         m->len, (unsigned long long)len_max);
    return 0;
}

/* ---- GET ---- */

static int add_range(struct call *call, uint64_t off, uint64_t len)
{
    struct text range;
    text_init(&range, 64);
    range_print_request(&range, off, len);
    int e = text_error(&range);
    if (e == 0)
        e = headers_set(&call->headers, "range", text_cstr(&range));
    text_fini(&range);
    return e;
}

int object_get_begin(struct object_job *j, struct client *c, const char *bucket, const char *key,
                     uint64_t off)
{
    const struct client_memory *m = j->carry.memory;
    const struct client_options *o = j->carry.options;
    struct call *call = &j->call;
    bool is_ranged = off != CLIENT_WHOLE;
    uint64_t end;
    int e = call_init(call, "GET", bucket, key, j->carry.diag);
    if (e == 0)
        e = check_memory(m, LIMIT_OBJECT_LEN_MAX, j->carry.diag);
    if (e == 0 && is_ranged && (!checked_add(off, m->len, &end) || end > LIMIT_OBJECT_LEN_MAX))
        e = diag_fail(j->carry.diag, S3R_E_INVALID_RANGE, "no object is that large");
    if (e == 0 && is_ranged && m->len > 0)
        e = add_range(call, off, m->len);
    else if (e == 0 && !is_ranged && !o->is_unverified)
        e = headers_set(&call->headers, "x-amz-checksum-mode", "ENABLED");
    const struct client_options conditions = {.if_match = o->if_match,
                                              .if_none_match = o->if_none_match};
    if (e == 0)
        e = object_add_options(call, &conditions, j->carry.diag);
    call_limit(call, o);
    j->carry.client = c;
    j->carry.call = call;
    j->carry.question =
        (struct reply_question){.is_ranged = is_ranged, .off = off, .window_len = m->len};
    j->is_needless = is_ranged && m->len == 0; /* there is no way to write a range of no bytes */
    return e;
}

static int run_job(struct object_job *j, int error)
{
    if (error == 0 && !j->is_needless)
        error = carry_run(&j->carry);
    call_fini(&j->call);
    return error;
}

int client_get(struct client *c, const char *bucket, const char *key, uint64_t off,
               const struct client_memory *memory, const struct client_options *options,
               struct diag *diag, struct client_result *result)
{
    struct object_job j = {.carry = {.memory = memory,
                                     .options = options != NULL ? options : &no_options,
                                     .diag = diag,
                                     .result = result}};
    return run_job(&j, object_get_begin(&j, c, bucket, key, off));
}

/* ---- PUT ---- */

int object_put_begin(struct object_job *j, struct client *c, const char *bucket, const char *key,
                     const struct object_part *part)
{
    const struct client_memory *m = j->carry.memory;
    struct call *call = &j->call;
    char number[16];
    snprintf(number, sizeof(number), "%u", part != NULL ? part->number : 0);
    int e = call_init(call, "PUT", bucket, key, j->carry.diag);
    if (part != NULL && (part->number < 1 || part->number > LIMIT_PARTS_MAX))
        e = diag_fail(j->carry.diag, S3R_E_INVALID_ARGUMENT, "part numbers are 1 to %d",
                      LIMIT_PARTS_MAX);
    if (e == 0 && part != NULL)
        e = query_add(&call->query, "partNumber", number);
    if (e == 0 && part != NULL)
        e = query_add(&call->query, "uploadId", part->upload_id);
    if (e == 0 && part == NULL)
        e = object_add_options(call, j->carry.options, j->carry.diag);
    if (e == 0)
        e = check_memory(m, LIMIT_PART_LEN_MAX, j->carry.diag);
    call_limit(call, j->carry.options);
    j->carry.client = c;
    j->carry.call = call;
    j->carry.question = (struct reply_question){.is_put = true, .window_len = m->len};
    return e;
}

static int put(struct client *c, const char *bucket, const char *key,
               const struct object_part *part, const struct client_memory *memory,
               const struct client_options *options, struct diag *diag,
               struct client_result *result)
{
    struct object_job j = {.carry = {.memory = memory,
                                     .options = options != NULL ? options : &no_options,
                                     .diag = diag,
                                     .result = result}};
    return run_job(&j, object_put_begin(&j, c, bucket, key, part));
}

int client_put(struct client *c, const char *bucket, const char *key,
               const struct client_memory *memory, const struct client_options *options,
               struct diag *diag, struct client_result *result)
{
    return put(c, bucket, key, NULL, memory, options, diag, result);
}

int object_part_end(const struct client_result *result, unsigned number, size_t len,
                    struct diag *diag, struct client_part *ret_part)
{
    if (result->etag[0] == '\0')
        return diag_fail(diag, S3R_E_BAD_REPLY, "the reply to a part has no ETag");
    *ret_part = (struct client_part){.number = number,
                                     .len = len,
                                     .crc64 = result->crc64,
                                     .has_crc64 = result->has_crc64};
    memcpy(ret_part->etag, result->etag, sizeof(ret_part->etag));
    return 0;
}

int client_upload_part(struct client *c, const char *bucket, const char *key, const char *upload_id,
                       unsigned number, const struct client_memory *memory,
                       const struct client_options *options, struct diag *diag,
                       struct client_result *result, struct client_part *ret_part)
{
    const struct object_part part = {.upload_id = upload_id, .number = number};
    int e = put(c, bucket, key, &part, memory, options, diag, result);
    return e == 0 ? object_part_end(result, number, memory->len, diag, ret_part) : e;
}

/* ---- HEAD, DELETE ---- */

static int do_simple(struct client *c, struct call *call, struct diag *diag,
                     struct client_result *result)
{
    struct http_reply reply = {0};
    int64_t start_ns = clock_mono_ns();
    call->payload_hash = SIG_EMPTY_SHA256;
    result->requests++;
    int e = call_do(c, call, diag, &reply);
    if (e != 0 && reply.status >= 300)
        call_s3_code(call, result->s3_code);
    result->object_len = reply.has_length ? reply.content_len : 0;
    if (reply.status != 0)
        result_take_reply(result, &reply);
    result->elapsed_ns = clock_mono_ns() - start_ns;
    http_reply_fini(&reply);
    return e;
}

int object_simple(struct client *c, const char *method, const char *bucket, const char *key,
                  const struct client_options *options, struct diag *diag,
                  struct client_result *result)
{
    const struct client_options *o = options != NULL ? options : &no_options;
    CLEANUP(call_finip) struct call call;
    int e = call_init(&call, method, bucket, key, diag);
    if (e == 0 && strcmp(method, "HEAD") == 0)
        e = headers_set(&call.headers, "x-amz-checksum-mode", "ENABLED");
    const struct client_options conditions = {.if_match = o->if_match,
                                              .if_none_match = o->if_none_match};
    if (e == 0)
        e = object_add_options(&call, &conditions, diag);
    call_limit(&call, o);
    return e == 0 ? do_simple(c, &call, diag, result) : e;
}

int client_stat(struct client *c, const char *bucket, const char *key, struct diag *diag,
                struct client_result *result)
{
    return object_simple(c, "HEAD", bucket, key, NULL, diag, result);
}

int client_delete(struct client *c, const char *bucket, const char *key, struct diag *diag,
                  struct client_result *result)
{
    return object_simple(c, "DELETE", bucket, key, NULL, diag, result);
}

int client_presign(const struct client *c, const char *method, const char *bucket, const char *key,
                   int64_t expires_s, struct diag *diag, struct text *out)
{
    CLEANUP(call_finip) struct call call;
    int e = call_init(&call, method, bucket, key, diag);
    if (e == 0)
        e = headers_set(&call.headers, "host", c->endpoint.authority);
    if (e != 0)
        return e;
    const struct sig_credentials cred = {.access_key = c->access_key,
                                         .secret_key = c->secret_key,
                                         .session_token = c->session_token,
                                         .region = c->region};
    struct text path;
    text_init(&path, LIMIT_TARGET_LEN_MAX);
    target_print(&path, bucket, key, strlen(key));
    const struct sig_request request = {.method = method,
                                        .path = text_cstr(&path),
                                        .query = &call.query,
                                        .headers = &call.headers};
    e = text_error(&path);
    text_fmt(out, "%s://%s%s?", c->endpoint.is_tls ? "https" : "http", c->endpoint.authority,
             text_cstr(&path));
    if (e == 0)
        e = sig_presign(&cred, clock_wall_s(), expires_s, &request, out);
    text_fini(&path);
    return e == 0 ? text_error(out) : e;
}
