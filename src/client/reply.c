/* SPDX-License-Identifier: Apache-2.0 */
#include "client/reply.h"

#include "base/hex.h"
#include "base/log.h"
#include "base/num.h"
#include "s3/range.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define EMPTY_MD5 "d41d8cd98f00b204e9800998ecf8427e"

int reply_parse(const struct headers *headers)
{
    size_t count = headers_count(headers, "x-amz-rdma-reply");
    if (count == 0)
        return 0;
    const char *value = headers_get(headers, "x-amz-rdma-reply");
    if (count > 1)
        return -1;
    if (strcmp(value, "ok") == 0)
        return 200;
    uint64_t n = 0;
    return num_parse_dec(value, strcspn(value, ":"), 599, &n) && n >= 100 ? (int)n : -1;
}

static void set(struct reply_judgement *j, enum reply_verdict verdict, enum client_reason reason,
                const char *fmt, ...) PRINTF_LIKE(4, 5);
static void set(struct reply_judgement *j, enum reply_verdict verdict, enum client_reason reason,
                const char *fmt, ...)
{
    j->verdict = verdict;
    j->reason = reason;
    va_list args;
    va_start(args, fmt);
    vsnprintf(j->why, sizeof(j->why), fmt, args);
    va_end(args);
}

static bool is_success(int status)
{
    return status == 200 || status == 204 || status == 206;
}

static bool is_xml(const struct http_reply *reply)
{
    const char *type = headers_get(&reply->headers, "content-type");
    return type != NULL &&
           (strncmp(type, "application/xml", 15) == 0 || strncmp(type, "text/xml", 8) == 0);
}

/* The byte count under either of its names: false for a bad one, `*ret_has` says if there is one.*/
static bool parse_moved(const struct headers *headers, bool *ret_has, uint64_t *ret_moved)
{
    const char *name = "x-amz-rdma-bytes-transferred";
    if (headers_count(headers, name) == 0)
        name = "x-amz-rdma-bytes";
    const char *value = headers_get(headers, name);
    *ret_has = value != NULL;
    return value == NULL || (headers_count(headers, name) == 1 &&
                             num_parse_dec(value, strlen(value), UINT64_MAX, ret_moved));
}

bool reply_range_fits(const struct reply_question *q, const struct headers *headers,
                      uint64_t *ret_len)
{
    const char *value = headers_get(headers, "content-range");
    struct range range;
    uint64_t object_len;
    if (value == NULL || !range_parse_content_range(value, &range, &object_len) ||
        range.off != q->off || range.len > q->window_len)
        return false;
    *ret_len = range.len;
    return true;
}

bool reply_body_is_object(const struct reply_question *q, const struct http_reply *reply)
{
    if (q->is_put || is_xml(reply) || reply->status != (q->is_ranged ? 206 : 200))
        return false;
    uint64_t len;
    if (q->is_ranged && !reply_range_fits(q, &reply->headers, &len))
        return false;
    int said = reply_parse(&reply->headers);
    return said == 0 || said == 501;
}

static void contradiction(struct reply_judgement *j, const char *what)
{
    set(j, REPLY_ASK_AGAIN, CLIENT_REASON_BAD_REPLY,
        "the reply contradicts itself or the request: %s", what);
}

bool reply_stored_nothing(const struct reply_question *q, const struct http_reply *reply)
{
    const char *etag = headers_get(&reply->headers, "etag");
    return q->window_len > 0 && etag != NULL && strstr(etag, EMPTY_MD5) != NULL;
}

bool reply_named_crc64(const struct headers *headers, uint64_t *ret_crc)
{
    const char *text = headers_get(headers, "x-amz-checksum-crc64nvme");
    unsigned char bytes[8];
    if (text == NULL || !base64_decode(text, strlen(text), bytes, sizeof(bytes)))
        return false;
    uint64_t crc = 0;
    for (size_t i = 0; i < sizeof(bytes); i++)
        crc = crc << 8 | bytes[i];
    *ret_crc = crc;
    return true;
}

/* Does the reply name another checksum than that of the memory? */
static bool is_other_checksum(const struct reply_question *q, const struct http_reply *reply)
{
    uint64_t crc;
    if (headers_get(&reply->headers, "x-amz-checksum-crc64nvme") == NULL || !q->has_checksum)
        return false;
    return !reply_named_crc64(&reply->headers, &crc) || crc != q->crc64;
}

static void judge_put(const struct reply_question *q, const struct http_reply *reply,
                      bool has_reply, bool has_count, uint64_t moved, struct reply_judgement *j)
{
    const char *etag = headers_get(&reply->headers, "etag");
    if (reply_stored_nothing(q, reply))
        set(j, REPLY_ASK_AGAIN, CLIENT_REASON_IGNORED,
            "the server stored an empty object: it took no notice of the token");
    else if (is_other_checksum(q, reply))
        contradiction(j, "the checksum stored is not that of the memory");
    else if (has_count && moved != q->window_len)
        contradiction(j, "not all bytes were taken");
    else if (!has_reply && (etag == NULL || etag[0] == '\0' || !q->has_checksum))
        set(j, REPLY_ASK_AGAIN, CLIENT_REASON_IGNORED,
            "the server did not say that it used the token");
    else {
        j->verdict = REPLY_MOVED;
        j->moved = q->window_len;
    }
}

static void judge_get(const struct reply_question *q, const struct http_reply *reply, int said,
                      bool has_count, uint64_t moved, struct reply_judgement *j)
{
    uint64_t range_len = 0;
    bool fits = reply_range_fits(q, &reply->headers, &range_len);
    bool is_range = headers_get(&reply->headers, "content-range") != NULL;
    if (said == 0)
        set(j, REPLY_ASK_AGAIN, CLIENT_REASON_IGNORED,
            "the server did not say that it used the token");
    else if (q->is_ranged && (is_range ? !fits : said != 206 && reply->status != 206))
        contradiction(j, "it is about other bytes than the range");
    else if (!q->is_ranged && (is_range || said == 206 || reply->status == 206))
        contradiction(j, "a range, and none was asked for");
    else if (!has_count && !fits)
        contradiction(j, "it does not say how many bytes were moved");
    else if (has_count && moved > q->window_len)
        contradiction(j, "it claims more bytes than the window has");
    else if (has_count && fits && moved != range_len)
        contradiction(j, "two different numbers of bytes");
    else {
        j->verdict = REPLY_MOVED;
        j->moved = has_count ? moved : range_len;
    }
}

static void judge_success(const struct reply_question *q, const struct http_reply *reply,
                          struct reply_judgement *j)
{
    int said = reply_parse(&reply->headers);
    bool has_count = false;
    uint64_t moved = 0;
    if (said == 501) {
        set(j, REPLY_ASK_AGAIN, CLIENT_REASON_DECLINED, "the server declined RDMA");
        j->may_other_rail = true;
    } else if (said < 0) {
        char shown[60];
        const char *value = headers_get(&reply->headers, "x-amz-rdma-reply");
        set(j, REPLY_ASK_AGAIN, CLIENT_REASON_BAD_REPLY, "x-amz-rdma-reply is no status: '%s'",
            log_escape(value, strlen(value), shown, sizeof(shown)));
    } else if (said != 0 && !is_success(said)) {
        set(j, REPLY_ASK_AGAIN, CLIENT_REASON_FAILED, "the transfer failed: x-amz-rdma-reply: %d",
            said);
        j->is_rail_at_fault = j->may_other_rail = true;
    } else if ((said != 0 || q->is_put) && reply->body_len > 0) {
        contradiction(j, "a body where none belongs");
    } else if (!parse_moved(&reply->headers, &has_count, &moved)) {
        contradiction(j, "x-amz-rdma-bytes-transferred is no number");
    } else if (q->is_put) {
        judge_put(q, reply, said != 0, has_count, moved, j);
    } else {
        judge_get(q, reply, said, has_count, moved, j);
    }
}

/* 4xx codes that a token can have caused; every other one would be the same without it. */
static bool is_about_token(const struct reply_question *q, int status, const char *s3_code)
{
    static const char *const of_a_body_that_is_missing[] = {"BadDigest",
                                                            "InvalidDigest",
                                                            "IncompleteBody",
                                                            "MissingContentLength",
                                                            "XAmzContentChecksumMismatch",
                                                            "XAmzContentSHA256Mismatch",
                                                            "EntityTooSmall"};
    if (status == 408 || status == 429)
        return true;
    if (q->is_put)
        for (size_t i = 0; i < ARRAY_LEN(of_a_body_that_is_missing); i++)
            if (strcmp(s3_code, of_a_body_that_is_missing[i]) == 0)
                return true;
    return status == 400 &&
           (s3_code[0] == '\0' || strcmp(s3_code, "InvalidArgument") == 0 ||
            strcmp(s3_code, "InvalidRequest") == 0 || error_from_s3_code(s3_code) == 0);
}

static void judge_error(const struct reply_question *q, const struct http_reply *reply,
                        const char *s3_code, struct reply_judgement *j)
{
    int said = reply_parse(&reply->headers);
    int status = reply->status;
    char shown[60];
    log_escape(s3_code, strlen(s3_code), shown, sizeof(shown));
    bool is_failure = strcmp(s3_code, "RDMATransferError") == 0 ||
                      strcmp(s3_code, "S3RdmaIoError") == 0 || (said >= 500 && said != 501);
    if (said == 501 || status == 501) {
        set(j, REPLY_ASK_AGAIN, CLIENT_REASON_DECLINED, "the server declined RDMA (501 %s)", shown);
        j->may_other_rail = true;
    } else if (status >= 500 && is_failure) {
        set(j, REPLY_ASK_AGAIN, CLIENT_REASON_FAILED, "the transfer failed (%d %s)", status, shown);
        j->is_rail_at_fault = j->may_other_rail = true;
    } else if (status >= 500 && status != 507) {
        set(j, REPLY_ASK_AGAIN, CLIENT_REASON_SERVER, "the server answered %d %s", status, shown);
    } else if (status >= 400 && status < 500 && is_about_token(q, status, s3_code)) {
        set(j, REPLY_ASK_AGAIN, CLIENT_REASON_REFUSED, "the server refused the token (%d %s)",
            status, shown);
        j->is_bounds = strcmp(s3_code, "InvalidRequest") == 0;
    } else {
        set(j, REPLY_FINAL, CLIENT_REASON_NONE, "%d %s", status, shown);
    }
}

void reply_judge(const struct reply_question *q, const struct http_reply *reply,
                 const char *s3_code, struct reply_judgement *ret)
{
    *ret = (struct reply_judgement){0};
    if (is_success(reply->status))
        judge_success(q, reply, ret);
    else if (reply->status < 300)
        set(ret, REPLY_ASK_AGAIN, CLIENT_REASON_BAD_REPLY, "the server answered %d", reply->status);
    else
        judge_error(q, reply, s3_code, ret);
}

/* ---- bodies ---- */

const char *reply_flaw_of_head(const struct reply_question *q, const struct http_reply *reply)
{
    uint64_t len = 0;
    if (!reply->has_length && !reply->is_chunked)
        return "the reply does not say where its body ends";
    if (q->is_ranged && (reply->status != 206 || !reply_range_fits(q, &reply->headers, &len) ||
                         (reply->has_length && reply->content_len != len)))
        return "the reply is not about the range that was asked for";
    if (!q->is_ranged && reply->status != 200)
        return "the reply is not about the whole object";
    return NULL;
}

const char *reply_flaw_of_body(const struct reply_question *q, const struct http_reply *reply,
                               uint64_t body_len)
{
    uint64_t len = 0;
    const char *flaw = reply_flaw_of_head(q, reply);
    if (flaw == NULL && q->is_ranged &&
        (!reply_range_fits(q, &reply->headers, &len) || body_len != len))
        return "the body has another length than its range";
    return flaw;
}
