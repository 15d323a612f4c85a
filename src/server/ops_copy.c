/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of objects and of parts of them. */
#include "server/ops.h"

#include "base/num.h"
#include "s3/cond.h"
#include "s3/range.h"
#include "s3/xml.h"
#include "server/object_meta.h"
#include "server/ops_put.h"
#include "server/ops_xml.h"

#include <stdlib.h>
#include <string.h>

/* ---- the source ---- */

static bool replaces_metadata(struct request *r, int *ret_rc)
{
    const char *directive = request_header(r, "x-amz-metadata-directive");
    *ret_rc = 0;
    if (!directive || strcmp(directive, "COPY") == 0)
        return false;
    if (strcmp(directive, "REPLACE") != 0)
        *ret_rc = diag_fail(&r->diag, S3R_E_INVALID_ARGUMENT,
                            "x-amz-metadata-directive is neither COPY nor REPLACE");
    return true;
}

static int open_source(struct request *r, const struct target *source, const char *version)
{
    if (version && strcmp(version, "null") != 0)
        return diag_fail(&r->diag, S3R_E_INVALID_ARGUMENT,
                         "x-amz-copy-source: buckets here have no versions but \"null\"");
    struct store_key key = {source->bucket, source->key, source->key_len};
    struct cond cond;
    int rc = store_lease_open(r->server->store, &key, &r->diag, &r->lease);
    if (!rc)
        rc = cond_parse_copy(http_headers(r->ex), &cond);
    if (rc)
        return rc;
    const struct store_object *o = store_lease_object(r->lease);
    struct cond_object seen = {true, o->etag, o->modified_ms / 1000};
    rc = cond_judge_copy(&cond, &seen);
    cond_fini(&cond);
    return rc;
}

/* x-amz-checksum-algorithm asks for a checksum of the copy that its source need not have. */
static int create_sum(struct request *r, struct checksum **ret_sum)
{
    const char *name = request_header(r, "x-amz-checksum-algorithm");
    enum checksum_kind kind = name ? checksum_kind_of_name(name) : CHECKSUM_NONE;
    if (!name)
        return 0;
    if (kind == CHECKSUM_NONE)
        return diag_fail(&r->diag, S3R_E_INVALID_REQUEST,
                         "x-amz-checksum-algorithm is not a checksum of S3");
    return checksum_create(kind, ret_sum);
}

/* Bytes [from, from + size) of the source. */
static int copy_bytes(struct request *r, uint64_t from, uint64_t size, struct checksum *sum)
{
    void *buffer;
    int rc = store_writer_open(r->server->store, size, &r->diag, &r->writer);
    if (rc)
        return rc;
    if (posix_memalign(&buffer, 4 * KIB, 4 * MIB) != 0)
        return S3R_E_NOMEM;
    for (uint64_t off = 0; !rc && off < size;) {
        size_t len = (size_t)min_u64(4 * MIB, size - off);
        rc = store_lease_read(r->lease, from + off, buffer, len, &r->diag);
        if (!rc)
            rc = store_writer_append(r->writer, buffer, len, &r->diag);
        if (!rc && sum)
            checksum_update(sum, buffer, len);
        if (!rc && request_is_cancelled(r))
            rc = S3R_E_CANCELLED;
        off += len;
    }
    free(buffer);
    return rc;
}

/* A copy has the source's bytes, so its ETag and whole-object checksum are the source's; what was
 * a sum over parts is one object now and gets values of its own. */
static void copy_sums(struct request *r, const struct store_object *from, struct checksum *sum,
                      struct object_attributes *a)
{
    struct checksum_value value;
    if (from->etag_kind == STORE_ETAG_MD5) {
        memcpy(a->etag, from->etag, sizeof a->etag);
        a->store.etag_kind = from->etag_kind;
    } else {
        object_attributes_etag_opaque(a, store_writer_crc64(r->writer), "-1");
    }
    if (sum) {
        checksum_final(sum, &value);
        a->store.checksum = checksum_to_store(&value);
    } else if (from->checksum.type == STORE_FULL_OBJECT) {
        a->store.checksum = from->checksum;
    }
}

static int print_copy(struct request *r, const char *root, const struct object_attributes *a,
                      int64_t modified_ms)
{
    struct text *out = &r->reply.body;
    int rc = reply_xml(r);
    xml_root(out, root);
    print_time(out, "LastModified", modified_ms);
    xml_etag(out, "ETag", a->etag);
    print_checksum(out, &a->store.checksum, strcmp(root, "CopyObjectResult") == 0);
    xml_close(out, root);
    return rc;
}

static int copy(struct request *r, const struct store_object *from, struct object_attributes *a)
{
    struct cond cond;
    CLEANUP(checksum_destroyp) struct checksum *sum = NULL;
    int64_t modified_ms = 0;
    int rc = create_sum(r, &sum);
    if (!rc)
        rc = cond_parse_write(http_headers(r->ex), &r->diag, &cond);
    if (rc)
        return rc;
    rc = copy_bytes(r, 0, from->size, sum);
    if (!rc) {
        copy_sums(r, from, sum, a);
        rc = store_put(r->writer, &r->key, &a->store, judge_write, &cond, &r->diag, &modified_ms);
    }
    cond_fini(&cond);
    return rc ? rc : print_copy(r, "CopyObjectResult", a, modified_ms);
}

static int copy_from(struct request *r, const struct target *source, const char *version)
{
    struct object_attributes a;
    struct store_bucket bucket;
    int rc;
    bool is_replaced = replaces_metadata(r, &rc);
    if (rc)
        return rc;
    if (!is_replaced && strcmp(source->bucket, r->target.bucket) == 0 &&
        source->key_len == r->target.key_len &&
        memcmp(source->key, r->target.key, source->key_len) == 0)
        return diag_fail(
            &r->diag, S3R_E_INVALID_REQUEST,
            "a copy onto itself changes nothing: use x-amz-metadata-directive REPLACE");
    rc = store_bucket_stat(r->server->store, r->target.bucket, &bucket);
    if (!rc)
        rc = open_source(r, source, version);
    if (rc)
        return rc;
    const struct store_object *from = store_lease_object(r->lease);
    rc = is_replaced ? object_attributes_collect(r, &a) : object_attributes_copy(r, from, &a);
    if (rc)
        return rc;
    rc = copy(r, from, &a);
    object_attributes_fini(&a);
    return rc;
}

int op_copy_object(struct request *r)
{
    struct target source = {0};
    CLEANUP(freep) char *version = NULL;
    int rc = copy_source_parse(request_header(r, "x-amz-copy-source"), &r->diag, &source, &version);
    if (!rc)
        rc = copy_from(r, &source, version);
    target_fini(&source);
    return rc;
}

/* ---- UploadPartCopy ---- */

/* The bytes of the source that become the part: all, or what x-amz-copy-source-range says. */
static int choose_range(struct request *r, struct range *ret_range)
{
    const struct store_object *from = store_lease_object(r->lease);
    const char *text = request_header(r, "x-amz-copy-source-range");
    struct range range = {.len = from->size};
    int rc = text ? range_parse_copy(text, from->size, &r->diag, &range) : 0;
    if (rc)
        return rc;
    if (range.len > LIMIT_PART_LEN_MAX)
        return diag_fail(&r->diag, S3R_E_ENTITY_TOO_LARGE, "a part has at most 5 GiB");
    *ret_range = range;
    return 0;
}

/* What the upload was announced with, its parts have. The writer computes CRC-64/NVME anyway. */
static void part_sums(struct request *r, enum checksum_kind kind, struct checksum *sum,
                      struct object_attributes *a)
{
    struct checksum_value value = {.kind = kind, .type = CHECKSUM_FULL_OBJECT};
    uint64_t crc = store_writer_crc64(r->writer);
    a->store.etag = a->etag;
    object_attributes_etag_opaque(a, crc, "");
    if (sum)
        checksum_final(sum, &value);
    for (size_t i = 0; i < 8 && kind == CHECKSUM_CRC64NVME; i++)
        value.bytes[i] = (unsigned char)(crc >> (56 - 8 * i));
    if (kind != CHECKSUM_NONE)
        a->store.checksum = checksum_to_store(&value);
}

static int copy_part(struct request *r, uint32_t number, enum checksum_kind kind)
{
    CLEANUP(checksum_destroyp) struct checksum *sum = NULL;
    struct object_attributes a = {0};
    struct range range = {0};
    int64_t modified_ms = 0;
    int rc = choose_range(r, &range);
    if (!rc && kind != CHECKSUM_NONE && kind != CHECKSUM_CRC64NVME)
        rc = checksum_create(kind, &sum);
    if (!rc)
        rc = copy_bytes(r, range.off, range.len, sum);
    if (rc)
        return rc;
    part_sums(r, kind, sum, &a);
    rc = store_part_put(r->writer, &r->key, request_query(r, "uploadId"), number, &a.store,
                        &r->diag, &modified_ms);
    return rc ? rc : print_copy(r, "CopyPartResult", &a, modified_ms);
}

int op_upload_part_copy(struct request *r)
{
    CLEANUP(store_upload_freep) struct store_upload *upload = NULL;
    CLEANUP(freep) char *version = NULL;
    struct target source = {0};
    uint32_t number;
    int rc = part_number(r, &number);
    if (!rc)
        rc = copy_source_parse(request_header(r, "x-amz-copy-source"), &r->diag, &source, &version);
    if (!rc)
        rc = open_upload_stat(r, &upload);
    if (!rc)
        rc = open_source(r, &source, version);
    if (!rc)
        rc = copy_part(r, number, (enum checksum_kind)upload->checksum_kind);
    target_fini(&source);
    return rc;
}
