/* SPDX-License-Identifier: Apache-2.0 */
#include "client/copy.h"

#include "base/clock.h"
#include "base/num.h"
#include "client/call.h"
#include "s3/checksum.h"
#include "s3/sigv4.h"
#include "s3/xml_read.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAGES_MAX (LIMIT_PARTS_MAX + 1) /* each brings a part at least */

static void call_finip(struct call *call)
{
    call_fini(call);
}

static void http_reply_finip(struct http_reply *reply)
{
    http_reply_fini(reply);
}

static int bad_reply(struct diag *diag, const char *root)
{
    return diag_fail(diag, S3R_E_BAD_REPLY, "the reply is no %s", root);
}

/* Sends; the document of the reply, whose root must be `root`. A 200 can carry an <Error>. */
static int ask(struct client *c, struct call *call, const char *root, struct diag *diag,
               struct http_reply *reply, struct xml_tree **ret_tree)
{
    CLEANUP(xml_tree_destroyp) struct xml_tree *tree = NULL;
    char s3_code[64];
    call->payload_hash = SIG_EMPTY_SHA256;
    int e = call_do(c, call, diag, reply);
    if (e != 0)
        return e;
    call_s3_code(call, s3_code);
    if (s3_code[0] != '\0')
        return call_error(call, reply, diag);
    if (xml_tree_parse(text_cstr(&call->document), call->document.len, NULL, &tree) != 0 ||
        strcmp(xml_tree_root(tree)->name, root) != 0)
        return bad_reply(diag, root);
    *ret_tree = STEAL(tree);
    return 0;
}

static bool node_crc64(const struct xml_node *node, uint64_t *ret_crc)
{
    const char *text = xml_child_text(node, checksum_element(CHECKSUM_CRC64NVME));
    struct checksum_value value;
    if (text == NULL || !checksum_parse(CHECKSUM_CRC64NVME, text, false, &value))
        return false;
    uint64_t crc = 0;
    for (size_t i = 0; i < 8; i++)
        crc = crc << 8 | value.bytes[i];
    *ret_crc = crc;
    return true;
}

static bool node_etag(const struct xml_node *node, char out[ETAG_SIZE])
{
    const char *etag = xml_child_text(node, "ETag");
    return etag != NULL && etag_unquote(etag, strlen(etag), out) && out[0] != '\0';
}

/* ---- copies ---- */

static int add_source(struct call *call, const struct client_place *from, const char *if_match)
{
    struct text source;
    text_init(&source, LIMIT_TARGET_LEN_MAX);
    target_print(&source, from->bucket, from->key, strlen(from->key));
    int e = text_error(&source);
    if (e == 0)
        e = headers_set(&call->headers, "x-amz-copy-source", text_cstr(&source));
    if (e == 0 && if_match != NULL)
        e = headers_set(&call->headers, "x-amz-copy-source-if-match", if_match);
    text_fini(&source);
    return e;
}

int client_copy(struct client *c, const struct client_place *from, const struct client_place *to,
                const char *if_match, struct diag *diag, struct client_result *result)
{
    CLEANUP(call_finip) struct call call;
    CLEANUP(http_reply_finip) struct http_reply reply = {0};
    CLEANUP(xml_tree_destroyp) struct xml_tree *tree = NULL;
    int64_t start_ns = clock_mono_ns();
    int e = call_init(&call, "PUT", to->bucket, to->key, diag);
    if (e == 0)
        e = add_source(&call, from, if_match);
    if (e != 0)
        return e;
    result->requests++;
    e = ask(c, &call, "CopyObjectResult", diag, &reply, &tree);
    if (reply.status != 0)
        result_take_reply(result, &reply);
    result->elapsed_ns = clock_mono_ns() - start_ns;
    if (e != 0)
        return e;
    if (!node_etag(xml_tree_root(tree), result->etag))
        return bad_reply(diag, "CopyObjectResult");
    result->has_crc64 = node_crc64(xml_tree_root(tree), &result->crc64);
    return 0;
}

int client_copy_part(struct client *c, const struct client_place *from,
                     const struct client_place *to, const char *upload_id, unsigned number,
                     uint64_t off, uint64_t len, const char *if_match, struct diag *diag,
                     struct client_part *ret_part, bool *ret_has_crc64)
{
    CLEANUP(call_finip) struct call call;
    CLEANUP(http_reply_finip) struct http_reply reply = {0};
    CLEANUP(xml_tree_destroyp) struct xml_tree *tree = NULL;
    char text[16], range[64];
    uint64_t end;
    if (len == 0 || !checked_add(off, len, &end))
        return diag_fail(diag, S3R_E_INVALID_RANGE, "no part has no bytes");
    snprintf(text, sizeof(text), "%u", number);
    snprintf(range, sizeof(range), "bytes=%" PRIu64 "-%" PRIu64, off, end - 1);
    int e = call_init(&call, "PUT", to->bucket, to->key, diag);
    if (e == 0)
        e = query_add(&call.query, "partNumber", text);
    if (e == 0)
        e = query_add(&call.query, "uploadId", upload_id);
    if (e == 0)
        e = add_source(&call, from, if_match);
    if (e == 0)
        e = headers_set(&call.headers, "x-amz-copy-source-range", range);
    if (e == 0)
        e = ask(c, &call, "CopyPartResult", diag, &reply, &tree);
    if (e != 0)
        return e;
    struct client_part part = {.number = number, .len = len};
    if (!node_etag(xml_tree_root(tree), part.etag))
        return bad_reply(diag, "CopyPartResult");
    *ret_has_crc64 = part.has_crc64 = node_crc64(xml_tree_root(tree), &part.crc64);
    *ret_part = part;
    return 0;
}

/* ---- ListParts ---- */

struct part_list {
    struct client_part *parts;
    size_t count;
    uint64_t last; /* number of the last one seen, taken or not */
};

static void part_list_fini(struct part_list *list)
{
    free(list->parts);
}

static int take_part(struct part_list *list, const struct xml_node *node)
{
    const char *number = xml_child_text(node, "PartNumber");
    const char *size = xml_child_text(node, "Size");
    struct client_part part = {0};
    uint64_t n;
    if (number == NULL || !num_parse_dec(number, strlen(number), LIMIT_PARTS_MAX, &n) ||
        n <= list->last || size == NULL ||
        !num_parse_dec(size, strlen(size), LIMIT_PART_LEN_MAX, &part.len) ||
        !node_etag(node, part.etag))
        return S3R_E_BAD_REPLY;
    list->last = n;
    part.number = (unsigned)n;
    part.has_crc64 = node_crc64(node, &part.crc64);
    if (part.has_crc64)
        list->parts[list->count++] = part;
    return 0;
}

/* One page. Numbers ascend, so there is room for all there can be. */
static int take_parts(struct part_list *list, const struct xml_node *root, bool *ret_has_more)
{
    const char *truncated = xml_child_text(root, "IsTruncated");
    uint64_t before = list->last;
    for (const struct xml_node *n = xml_child(root, "Part"); n != NULL; n = xml_next(n, "Part")) {
        int e = take_part(list, n);
        if (e != 0)
            return e;
    }
    *ret_has_more = truncated != NULL && strcmp(truncated, "true") == 0;
    return *ret_has_more && list->last == before ? S3R_E_BAD_REPLY : 0;
}

static int list_page(struct client *c, const char *bucket, const char *key, const char *upload_id,
                     struct diag *diag, struct part_list *list, bool *ret_has_more)
{
    CLEANUP(call_finip) struct call call;
    CLEANUP(http_reply_finip) struct http_reply reply = {0};
    CLEANUP(xml_tree_destroyp) struct xml_tree *tree = NULL;
    char marker[24];
    snprintf(marker, sizeof(marker), "%" PRIu64, list->last);
    int e = call_init(&call, "GET", bucket, key, diag);
    if (e == 0)
        e = query_add(&call.query, "uploadId", upload_id);
    if (e == 0)
        e = query_add(&call.query, "part-number-marker", marker);
    if (e == 0)
        e = ask(c, &call, "ListPartsResult", diag, &reply, &tree);
    if (e == 0)
        e = take_parts(list, xml_tree_root(tree), ret_has_more);
    return e == S3R_E_BAD_REPLY ? bad_reply(diag, "ListPartsResult") : e;
}

int client_upload_parts(struct client *c, const char *bucket, const char *key,
                        const char *upload_id, struct diag *diag, struct client_part **ret_parts,
                        size_t *ret_count)
{
    CLEANUP(part_list_fini)
    struct part_list list = {.parts = calloc(LIMIT_PARTS_MAX, sizeof(*list.parts))};
    bool has_more = true;
    int e = list.parts != NULL ? 0 : S3R_E_NOMEM;
    for (int page = 0; e == 0 && has_more && page < PAGES_MAX; page++)
        e = list_page(c, bucket, key, upload_id, diag, &list, &has_more);
    if (e != 0)
        return e;
    *ret_count = list.count;
    *ret_parts = STEAL(list.parts);
    return 0;
}
