/* SPDX-License-Identifier: Apache-2.0 */
/* Reading objects: GetObject and HeadObject. */
#include "server/ops.h"

#include "base/num.h"
#include "s3/cond.h"
#include "s3/range.h"
#include "server/object_meta.h"
#include "server/object_stream.h"
#include "server/rdma.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Ranges up to this length are read at once and sent from memory. */
#define WHOLE_REPLY_LEN_MAX BODY_BLOCK_LEN
#define TEXT_REPLY_LEN_MAX (16 * KIB)

static int judge_read(struct request *r, const struct store_object *object)
{
    struct cond cond;
    struct cond_object seen = {true, object->etag, object->modified_ms / 1000};
    int rc = cond_parse_read(http_headers(r->ex), &cond);
    if (rc)
        return rc;
    rc = cond_judge_read(&cond, &seen);
    cond_fini(&cond);
    return rc;
}

/* The part's place in the object; an object that was uploaded whole is its own part 1. */
static int part_range(struct request *r, const struct store_object *object, const char *text,
                      struct range *ret)
{
    uint64_t number;
    if (!num_parse_dec(text, strlen(text), LIMIT_PARTS_MAX, &number) || number == 0)
        return diag_fail(&r->diag, S3R_E_INVALID_ARGUMENT,
                         "partNumber is not a number from 1 to %d", LIMIT_PARTS_MAX);
    if (request_header(r, "range"))
        return diag_fail(&r->diag, S3R_E_INVALID_REQUEST, "Range and partNumber together");
    size_t count = object->part_count ? object->part_count : 1;
    if (number > count)
        return diag_fail(&r->diag, S3R_E_INVALID_RANGE, "partNumber: the object has %zu parts",
                         count);
    *ret = (struct range){true, 0, object->size};
    if (object->part_count) {
        ret->off = object->parts[number - 1].off;
        ret->len = object->parts[number - 1].size;
    }
    return object->part_count ? reply_header_u64(r, "x-amz-mp-parts-count", object->part_count) : 0;
}

static int find_range(struct request *r, const struct store_object *object, struct range *ret)
{
    const char *part = request_query(r, "partNumber");
    if (part)
        return part_range(r, object, part, ret);
    struct cond_object seen = {true, object->etag, object->modified_ms / 1000};
    const char *text = request_header(r, "range");
    if (text && !cond_range_applies(request_header(r, "if-range"), &seen))
        text = NULL;
    return range_parse(text, object->size, ret);
}

static int reply_content_range(struct request *r, const struct range *range, uint64_t size)
{
    struct text value;
    if (!range->is_partial || range->len == 0)
        return 0;
    text_init(&value, 128);
    range_print(&value, range, size);
    int rc = reply_header(r, "content-range", text_cstr(&value));
    text_fini(&value);
    return rc;
}

/* response-content-type and its like: signed requests only, or anybody could make a link that
 * serves an object as something else. */
static int reply_overrides(struct request *r)
{
    static const char *const names[] = {"cache-control",    "content-disposition",
                                        "content-encoding", "content-language",
                                        "content-type",     "expires"};
    int rc = 0;
    for (size_t i = 0; !rc && i < ARRAY_LEN(names); i++) {
        char parameter[48];
        snprintf(parameter, sizeof parameter, "response-%s", names[i]);
        const char *value = request_query(r, parameter);
        if (value && *value)
            rc = reply_header(r, names[i], value);
    }
    return rc == S3R_E_INVALID_REQUEST ? S3R_E_INVALID_ARGUMENT : rc;
}

/* Preconditions and range: everything that is the same with a token and without. */
static int describe(struct request *r, struct range *ret_range)
{
    const struct store_object *object = store_lease_object(r->lease);
    int rc = reply_object(r, object);
    if (!rc)
        rc = judge_read(r, object);
    if (!rc)
        rc = find_range(r, object, ret_range);
    if (rc == S3R_E_INVALID_RANGE) {
        struct text value;
        text_init(&value, 64);
        text_fmt(&value, "bytes */%llu", (unsigned long long)object->size);
        int set = reply_header(r, "content-range", text_cstr(&value));
        text_fini(&value);
        return set ? set : rc;
    }
    if (!rc)
        rc = reply_content_range(r, ret_range, object->size);
    /* SDKs compare the checksum with the body, which a range is not the whole of. */
    if (!rc && (!ret_range->is_partial || r->token_text))
        rc = reply_checksums(r, object);
    if (!rc)
        rc = reply_overrides(r);
    /* a part without a byte has no Content-Range, which a 206 must have */
    r->reply.status = ret_range->is_partial && ret_range->len ? 206 : 200;
    return rc;
}

static int send_by_rdma(struct request *r, const struct range *range)
{
    int rc = rdma_judge(r, RDMA_READ_OBJECT);
    if (!rc)
        rc = rdma_send(r, range->off, range->len);
    return rc ? rc : rdma_acknowledge(r, RDMA_READ_OBJECT, range->len);
}

static int send_from_memory(struct request *r, const struct range *range)
{
    char bytes[TEXT_REPLY_LEN_MAX];
    if (range->len <= sizeof bytes) {
        int rc = store_lease_read(r->lease, range->off, bytes, range->len, &r->diag);
        if (!rc)
            text_add(&r->reply.body, bytes, range->len);
        return rc;
    }
    r->reply.block = buffer_take(r->server->blocks);
    if (!r->reply.block)
        return S3R_E_NOMEM;
    r->reply.block_len = range->len;
    return store_lease_read(r->lease, range->off, r->reply.block->bytes, range->len, &r->diag);
}

static int send_as_stream(struct request *r, const struct range *range)
{
    int rc = object_stream_create(r, range->off, range->len, &r->stream);
    if (!rc)
        rc = object_stream_prime(r->stream);
    if (rc)
        return rc;
    r->reply.is_stream = true;
    r->reply.stream_len = range->len;
    return 0;
}

static int open_and_describe(struct request *r, struct range *ret_range)
{
    int rc = store_lease_open(r->server->store, &r->key, &r->diag, &r->lease);
    return rc ? rc : describe(r, ret_range);
}

int op_get_object(struct request *r)
{
    struct range range = {0};
    int rc = open_and_describe(r, &range);
    if (rc)
        return rc;
    if (r->token_text)
        return send_by_rdma(r, &range);
    return range.len <= WHOLE_REPLY_LEN_MAX ? send_from_memory(r, &range)
                                            : send_as_stream(r, &range);
}

int op_get_object_now(struct request *r)
{
    struct range range = {0};
    if (r->token_text)
        return S3R_E_TIMEOUT;
    int rc = store_lease_open_cached(r->server->store, &r->key, &r->lease);
    if (rc)
        return rc;
    if (!store_lease_is_inline(r->lease)) {
        store_lease_close(r->lease);
        r->lease = NULL;
        return S3R_E_TIMEOUT;
    }
    rc = describe(r, &range);
    return rc ? rc : send_from_memory(r, &range);
}

int op_head_object(struct request *r)
{
    struct range range = {0};
    int rc = open_and_describe(r, &range);
    if (rc)
        return rc;
    /* the length without a body: a stream that is never read */
    r->reply.is_stream = true;
    r->reply.stream_len = range.len;
    return 0;
}
