/* SPDX-License-Identifier: Apache-2.0 */
#include "server/object_meta.h"

#include "base/clock.h"
#include "base/crypto.h"
#include "base/hex.h"
#include "s3/meta.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int fill_rows(struct request *r, struct object_attributes *a)
{
    a->rows = calloc(a->headers.count + 1, sizeof *a->rows);
    if (!a->rows)
        return S3R_E_NOMEM;
    for (size_t i = 0; i < a->headers.count; i++)
        a->rows[i] = (struct store_meta){a->headers.rows[i].name, a->headers.rows[i].value};
    a->store = (struct store_attributes){.etag = a->etag,
                                         .owner = r->auth.access_key,
                                         .meta = a->rows,
                                         .meta_count = a->headers.count};
    return 0;
}

int object_attributes_collect(struct request *r, struct object_attributes *ret)
{
    *ret = (struct object_attributes){0};
    int rc = meta_collect(http_headers(r->ex), &r->diag, &ret->headers);
    if (!rc)
        rc = fill_rows(r, ret);
    if (rc)
        object_attributes_fini(ret);
    return rc;
}

int object_attributes_copy(struct request *r, const struct store_object *from,
                           struct object_attributes *ret)
{
    *ret = (struct object_attributes){0};
    int rc = 0;
    for (size_t i = 0; !rc && i < from->meta_count; i++)
        rc = headers_add(&ret->headers, from->meta[i].name, from->meta[i].value);
    if (!rc)
        rc = fill_rows(r, ret);
    if (rc)
        object_attributes_fini(ret);
    return rc;
}

void object_attributes_fini(struct object_attributes *a)
{
    headers_fini(&a->headers);
    free(a->rows);
    a->rows = NULL;
}

void object_attributes_etag_md5(struct object_attributes *a, const unsigned char sum[16])
{
    hex_encode(sum, MD5_LEN, a->etag);
    a->store.etag_kind = STORE_ETAG_MD5;
}

void object_attributes_etag_opaque(struct object_attributes *a, uint64_t crc64, const char *suffix)
{
    snprintf(a->etag, sizeof a->etag, "%016" PRIx64 "%016" PRIx64 "%s", crc64, random_u64(),
             suffix);
    a->store.etag_kind = STORE_ETAG_OPAQUE;
}

_Static_assert((int)STORE_CRC32 == (int)CHECKSUM_CRC32 &&
                   (int)STORE_CRC32C == (int)CHECKSUM_CRC32C &&
                   (int)STORE_CRC64NVME == (int)CHECKSUM_CRC64NVME &&
                   (int)STORE_SHA1 == (int)CHECKSUM_SHA1 &&
                   (int)STORE_SHA256 == (int)CHECKSUM_SHA256 &&
                   (int)STORE_FULL_OBJECT == (int)CHECKSUM_FULL_OBJECT &&
                   (int)STORE_COMPOSITE == (int)CHECKSUM_COMPOSITE,
               "the store and the protocol number checksums alike");

struct store_checksum checksum_to_store(const struct checksum_value *v)
{
    struct store_checksum c = {.kind = (uint8_t)v->kind,
                               .type = (uint8_t)v->type,
                               .len = v->kind ? (uint8_t)checksum_len(v->kind) : 0,
                               .parts = v->parts};
    memcpy(c.bytes, v->bytes, sizeof c.bytes);
    return c;
}

struct checksum_value checksum_from_store(const struct store_checksum *c)
{
    struct checksum_value v = {.kind = (enum checksum_kind)c->kind,
                               .type = (enum checksum_type)c->type,
                               .parts = c->parts};
    memcpy(v.bytes, c->bytes, sizeof v.bytes);
    return v;
}

int reply_checksum(struct request *r, const struct store_checksum *checksum)
{
    char text[CHECKSUM_TEXT_SIZE];
    struct checksum_value value = checksum_from_store(checksum);
    if (value.kind == CHECKSUM_NONE)
        return 0;
    checksum_print(&value, text);
    int rc = reply_header(r, checksum_header(value.kind), text);
    return rc ? rc : reply_header(r, "x-amz-checksum-type", checksum_type_name(value.type));
}

struct store_checksum checksum_of_crc64(uint64_t crc64)
{
    struct store_checksum c = {.kind = STORE_CRC64NVME, .type = STORE_FULL_OBJECT, .len = 8};
    for (int i = 0; i < 8; i++)
        c.bytes[i] = (uint8_t)(crc64 >> (56 - 8 * i));
    return c;
}

int reply_crc64(struct request *r, uint64_t crc64)
{
    struct store_checksum c = checksum_of_crc64(crc64);
    return reply_checksum(r, &c);
}

/* `x-amz-checksum-mode: ENABLED` asks for the object's checksum. A client that moves bytes by RDMA
 * compares CRC-64/NVME, so it always gets that one; others get what the object was stored with. */
int reply_checksums(struct request *r, const struct store_object *object)
{
    const char *mode = request_header(r, "x-amz-checksum-mode");
    if (!mode || strcasecmp(mode, "ENABLED") != 0)
        return 0;
    if (object->checksum.kind == 0 || r->token_text) {
        int rc = reply_crc64(r, object->crc64);
        if (rc || object->checksum.kind == 0)
            return rc;
    }
    return reply_checksum(r, &object->checksum);
}

int reply_object(struct request *r, const struct store_object *object)
{
    char when[CLOCK_TEXT_MAX];
    clock_print_http(object->modified_ms / 1000, when);
    int rc = reply_etag(r, object->etag);
    if (!rc)
        rc = reply_header(r, "last-modified", when);
    if (!rc)
        rc = reply_header(r, "accept-ranges", "bytes");
    for (size_t i = 0; !rc && i < object->meta_count; i++)
        rc = reply_header(r, object->meta[i].name, object->meta[i].value);
    if (!rc && !headers_get(&r->reply.headers, "content-type"))
        rc = reply_header(r, "content-type", META_CONTENT_TYPE_DEFAULT);
    return rc;
}

int judge_write(const struct store_object *current, void *arg)
{
    struct cond_object object = {.exists = current != NULL};
    if (current) {
        object.etag = current->etag;
        object.mtime_s = current->modified_ms / 1000;
    }
    return cond_judge_write(arg, &object);
}
