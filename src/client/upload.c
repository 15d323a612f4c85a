/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/crc64.h"
#include "base/hex.h"
#include "base/num.h"
#include "client/call.h"
#include "client/object.h"
#include "s3/sigv4.h"
#include "s3/xml.h"
#include "s3/xml_read.h"

#include <stdio.h>
#include <string.h>

#define CREATE_GRACE_NS (5 * NS_PER_S)

static const struct client_options no_options;

static void call_finip(struct call *call)
{
    call_fini(call);
}

static void http_reply_finip(struct http_reply *reply)
{
    http_reply_fini(reply);
}

static int not_what_was_asked(struct diag *diag)
{
    return diag_fail(diag, S3R_E_BAD_REPLY, "the reply is not the document that was asked for");
}

/* An upload whose creation is broken off may be there all the same, and nobody would know its id to
 * take it back. So a cancellation waits for the reply, but not for ever. */
struct patient {
    const struct client_options *options;
    int64_t since_ns;
};

static bool is_cancelled(const struct client_options *o)
{
    return o->is_cancelled != NULL && o->is_cancelled(o->cancel_arg);
}

static bool is_cancelled_for_long(void *arg)
{
    struct patient *p = arg;
    if (!is_cancelled(p->options))
        return false;
    int64_t now_ns = clock_mono_ns();
    if (p->since_ns == 0)
        p->since_ns = now_ns;
    return now_ns - p->since_ns >= CREATE_GRACE_NS;
}

int client_upload_create(struct client *c, const char *bucket, const char *key,
                         const struct client_options *options, struct diag *diag,
                         char **ret_upload_id)
{
    CLEANUP(call_finip) struct call call;
    CLEANUP(http_reply_finip) struct http_reply reply = {0};
    int e = call_init(&call, "POST", bucket, key, diag);
    call.payload_hash = SIG_EMPTY_SHA256;
    struct patient patient = {.options = options != NULL ? options : &no_options};
    call_limit(&call, patient.options);
    call.is_cancelled = is_cancelled_for_long;
    call.cancel_arg = &patient;
    if (e == 0 && is_cancelled(patient.options))
        e = S3R_E_CANCELLED;
    if (e == 0)
        e = query_add(&call.query, "uploads", NULL);
    if (e == 0)
        e = headers_set(&call.headers, "x-amz-checksum-algorithm", "CRC64NVME");
    if (e == 0)
        e = headers_set(&call.headers, "x-amz-checksum-type", "FULL_OBJECT");
    const struct client_options only_headers = {.headers =
                                                    options != NULL ? options->headers : NULL};
    if (e == 0)
        e = object_add_options(&call, &only_headers, diag);
    if (e == 0)
        e = call_do(c, &call, diag, &reply);
    if (e != 0)
        return e;
    CLEANUP(xml_tree_destroyp) struct xml_tree *tree = NULL;
    if (xml_tree_parse(text_cstr(&call.document), call.document.len, NULL, &tree) != 0)
        return not_what_was_asked(diag);
    const char *id = xml_child_text(xml_tree_root(tree), "UploadId");
    if (id == NULL || id[0] == '\0')
        return not_what_was_asked(diag);
    char *copy = strdup(id);
    if (copy == NULL)
        return S3R_E_NOMEM;
    *ret_upload_id = copy;
    return 0;
}

static void print_crc(uint64_t crc, char out[BASE64_LEN(8) + 1])
{
    unsigned char bytes[8];
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (unsigned char)(crc >> (56 - 8 * i));
    base64_encode(bytes, sizeof(bytes), out);
}

/* What the parts are together; its checksum is known when theirs are. */
struct whole {
    uint64_t len, crc64;
    bool has_crc64;
};

static int complete_document(const struct client_part *parts, size_t count, struct text *xml,
                             struct whole *ret_whole)
{
    struct whole whole = {.has_crc64 = true};
    xml_root(xml, "CompleteMultipartUpload");
    for (size_t i = 0; i < count; i++) {
        char text[BASE64_LEN(8) + 1];
        print_crc(parts[i].crc64, text);
        xml_open(xml, "Part");
        xml_u64(xml, "PartNumber", parts[i].number);
        xml_etag(xml, "ETag", parts[i].etag);
        if (parts[i].has_crc64)
            xml_str(xml, "ChecksumCRC64NVME", text);
        xml_close(xml, "Part");
        whole.crc64 = crc64_combine(whole.crc64, parts[i].crc64, parts[i].len);
        whole.has_crc64 &= parts[i].has_crc64;
        whole.len += parts[i].len;
    }
    xml_close(xml, "CompleteMultipartUpload");
    *ret_whole = whole;
    return text_error(xml);
}

/* A 200 can carry an <Error>: servers that answer before they are done have no other way. */
static int judge_complete(const struct call *call, const struct http_reply *reply,
                          struct client_result *result, struct diag *diag)
{
    char s3_code[64];
    call_s3_code(call, s3_code);
    if (s3_code[0] != '\0')
        return call_error(call, reply, diag);
    CLEANUP(xml_tree_destroyp) struct xml_tree *tree = NULL;
    if (xml_tree_parse(text_cstr(&call->document), call->document.len, NULL, &tree) != 0)
        return not_what_was_asked(diag);
    const char *etag = xml_child_text(xml_tree_root(tree), "ETag");
    if (etag == NULL || !etag_unquote(etag, strlen(etag), result->etag) || result->etag[0] == '\0')
        return not_what_was_asked(diag);
    return 0;
}

static void text_finip(struct text *t)
{
    text_fini(t);
}

int client_upload_complete(struct client *c, const char *bucket, const char *key,
                           const char *upload_id, const struct client_part *parts, size_t count,
                           const struct client_options *options, struct diag *diag,
                           struct client_result *result)
{
    CLEANUP(call_finip) struct call call;
    CLEANUP(http_reply_finip) struct http_reply reply = {0};
    CLEANUP(text_finip) struct text xml;
    text_init(&xml, LIMIT_XML_LEN_MAX);
    struct whole whole = {0};
    const struct client_options *o = options != NULL ? options : &no_options;
    const struct client_options conditions = {.if_match = o->if_match,
                                              .if_none_match = o->if_none_match};
    int e = call_init(&call, "POST", bucket, key, diag);
    call_limit(&call, o);
    if (e == 0)
        e = complete_document(parts, count, &xml, &whole);
    if (e == 0)
        e = query_add(&call.query, "uploadId", upload_id);
    if (e == 0 && whole.has_crc64)
        e = call_add_crc64(&call, whole.crc64);
    if (e == 0)
        e = headers_set(&call.headers, "x-amz-checksum-type", "FULL_OBJECT");
    if (e == 0)
        e = headers_set(&call.headers, "content-type", "application/xml");
    if (e == 0)
        e = object_add_options(&call, &conditions, diag);
    if (e != 0)
        return e;
    char hash[2 * SHA256_LEN + 1];
    sha256_hex(xml.data, xml.len, hash);
    call.payload_hash = hash;
    call.body = xml.data;
    call.body_len = xml.len;
    int64_t start_ns = clock_mono_ns();
    result->requests++;
    e = call_do(c, &call, diag, &reply);
    result->elapsed_ns = clock_mono_ns() - start_ns;
    if (reply.status != 0)
        result_take_reply(result, &reply);
    if (e == 0)
        e = judge_complete(&call, &reply, result, diag);
    if (e != 0)
        return e;
    result->is_verified = whole.has_crc64;
    if (whole.has_crc64) {
        result->has_crc64 = true;
        result->crc64 = whole.crc64;
    }
    result->len = result->object_len = whole.len;
    return 0;
}

int client_upload_abort(struct client *c, const char *bucket, const char *key,
                        const char *upload_id, struct diag *diag)
{
    CLEANUP(call_finip) struct call call;
    CLEANUP(http_reply_finip) struct http_reply reply = {0};
    int e = call_init(&call, "DELETE", bucket, key, diag);
    call.payload_hash = SIG_EMPTY_SHA256;
    if (e == 0)
        e = query_add(&call.query, "uploadId", upload_id);
    return e == 0 ? call_do(c, &call, diag, &reply) : e;
}
