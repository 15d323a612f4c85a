/* SPDX-License-Identifier: Apache-2.0 */
/* Multipart uploads. */
#include "server/ops.h"

#include "base/crypto.h"
#include "base/num.h"
#include "s3/cond.h"
#include "s3/etag.h"
#include "s3/xml.h"
#include "s3/xml_read.h"
#include "server/object_meta.h"
#include "server/ops_put.h"
#include "server/ops_xml.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *upload_id(const struct request *r)
{
    return request_query(r, "uploadId");
}

int op_create_upload(struct request *r)
{
    struct object_attributes a;
    enum checksum_kind kind = CHECKSUM_NONE;
    enum checksum_type type = CHECKSUM_TYPE_NONE;
    char id[STORE_UPLOAD_ID_MAX];
    int rc = checksum_choose(request_header(r, "x-amz-checksum-algorithm"),
                             request_header(r, "x-amz-checksum-type"), &r->diag, &kind, &type);
    if (!rc)
        rc = object_attributes_collect(r, &a);
    if (rc)
        return rc;
    rc = store_upload_create(r->server->store, &r->key, &a.store, (uint8_t)kind, (uint8_t)type,
                             &r->diag, id);
    object_attributes_fini(&a);
    if (!rc)
        rc = reply_xml(r);
    if (!rc && kind)
        rc = reply_header(r, "x-amz-checksum-algorithm", checksum_name(kind));
    if (!rc && kind)
        rc = reply_header(r, "x-amz-checksum-type", checksum_type_name(type));
    if (rc)
        return rc;
    struct text *out = &r->reply.body;
    xml_root(out, "InitiateMultipartUploadResult");
    xml_str(out, "Bucket", r->target.bucket);
    xml_bytes(out, "Key", r->target.key, r->target.key_len);
    xml_str(out, "UploadId", id);
    xml_close(out, "InitiateMultipartUploadResult");
    return 0;
}

int open_upload_stat(struct request *r, struct store_upload **ret)
{
    CLEANUP(store_upload_freep) struct store_upload *upload = NULL;
    struct store_bucket bucket;
    int rc = store_bucket_stat(r->server->store, r->target.bucket, &bucket);
    if (!rc)
        rc = store_upload_stat(r->server->store, &r->key, upload_id(r), &upload);
    if (!rc && upload->is_completed)
        rc = S3R_E_NO_SUCH_UPLOAD;
    if (!rc)
        *ret = STEAL(upload);
    return rc;
}

/* ---- UploadPart ---- */

int part_number(struct request *r, uint32_t *ret_number)
{
    const char *text = request_query(r, "partNumber");
    uint64_t number;
    if (!num_parse_dec(text, strlen(text), LIMIT_PARTS_MAX, &number) || number == 0)
        return diag_fail(&r->diag, S3R_E_INVALID_ARGUMENT,
                         "partNumber is not a number from 1 to %d", LIMIT_PARTS_MAX);
    *ret_number = (uint32_t)number;
    return 0;
}

struct part_state {
    uint32_t number;
    enum checksum_kind upload_kind;
};

/* An upload that was announced with an algorithm needs it of each part, or its own sum could not
 * be made. CRC-64/NVME is computed for every part anyway. */
static int check_part_checksum(struct request *r, enum checksum_kind wanted)
{
    enum checksum_kind sent = r->payload ? payload_checksum_kind(r->payload) : CHECKSUM_NONE;
    if (wanted == CHECKSUM_NONE || wanted == CHECKSUM_CRC64NVME || sent == wanted)
        return 0;
    return diag_fail(&r->diag, S3R_E_INVALID_REQUEST,
                     "the upload was created with %s checksums: each part needs one",
                     checksum_name(wanted));
}

int op_upload_part_prepare(struct request *r)
{
    CLEANUP(store_upload_freep) struct store_upload *upload = NULL;
    uint64_t length;
    uint32_t number;
    int rc = part_number(r, &number);
    if (!rc)
        rc = open_upload_stat(r, &upload);
    if (rc)
        return rc;
    struct part_state *state = calloc(1, sizeof *state);
    if (!state)
        return S3R_E_NOMEM;
    *state = (struct part_state){number, (enum checksum_kind)upload->checksum_kind};
    r->op_state = state;
    r->op_state_free = free;
    rc = put_open(r);
    if (!rc)
        rc = check_part_checksum(r, state->upload_kind);
    length = rc ? 0 : payload_len(r->payload);
    /* a length that is not known yet (UINT64_MAX) is judged when it is */
    if (length != UINT64_MAX && length > LIMIT_PART_LEN_MAX)
        return diag_fail(&r->diag, S3R_E_ENTITY_TOO_LARGE, "a part has at most 5 GiB");
    return rc;
}

int op_upload_part(struct request *r)
{
    const struct part_state *state = r->op_state;
    struct object_attributes a = {0};
    int64_t modified_ms;
    a.store.etag = a.etag;
    int rc = put_receive(r, &a, "");
    if (!rc && store_writer_size(r->writer) > LIMIT_PART_LEN_MAX)
        rc = diag_fail(&r->diag, S3R_E_ENTITY_TOO_LARGE, "a part has at most 5 GiB");
    if (!rc)
        rc = store_part_put(r->writer, &r->key, upload_id(r), state->number, &a.store, &r->diag,
                            &modified_ms);
    return rc ? rc : put_reply(r, a.etag, store_writer_size(r->writer));
}

/* ---- CompleteMultipartUpload ---- */

/* Two requests with this digest alike name the same parts. */
static int digest_list(const struct complete_request *request, uint8_t out[SHA256_LEN])
{
    struct digest *d;
    unsigned char sum[DIGEST_LEN_MAX];
    int rc = digest_create(DIGEST_SHA256, &d);
    if (rc)
        return rc;
    for (size_t i = 0; i < request->count; i++) {
        digest_update(d, &request->parts[i].number, sizeof request->parts[i].number);
        digest_update(d, request->parts[i].etag, strlen(request->parts[i].etag) + 1);
    }
    digest_final(d, sum);
    memcpy(out, sum, SHA256_LEN);
    digest_destroy(d);
    return 0;
}

static const struct store_part *find_part(const struct store_part *parts, size_t count,
                                          uint32_t number)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t mid = (low + high) / 2;
        if (parts[mid].number < number)
            low = mid + 1;
        else
            high = mid;
    }
    return low < count && parts[low].number == number ? &parts[low] : NULL;
}

static struct checksum_value part_checksum(const struct store_part *part, enum checksum_kind kind)
{
    if (kind != CHECKSUM_CRC64NVME)
        return checksum_from_store(&part->checksum);
    struct checksum_value value = {.kind = kind, .type = CHECKSUM_FULL_OBJECT};
    for (int i = 0; i < 8; i++)
        value.bytes[i] = (unsigned char)(part->crc64 >> (56 - 8 * i));
    return value;
}

static int check_part(struct request *r, const struct complete_part *said,
                      const struct store_part *part, bool is_last)
{
    if (!part || strcasecmp(part->etag, said->etag) != 0)
        return diag_fail(&r->diag, S3R_E_INVALID_PART, "part %u is not there with ETag %s",
                         said->number, said->etag);
    if (said->checksum.kind) {
        struct checksum_value have = part_checksum(part, said->checksum.kind);
        if (have.kind == said->checksum.kind && !checksum_equal(&have, &said->checksum))
            return diag_fail(&r->diag, S3R_E_INVALID_PART, "part %u has another checksum",
                             said->number);
    }
    if (!is_last && part->size < LIMIT_PART_LEN_MIN)
        return diag_fail(&r->diag, S3R_E_ENTITY_TOO_SMALL,
                         "part %u has %llu bytes; all but the last need 5 MiB", said->number,
                         (unsigned long long)part->size);
    return 0;
}

/* From the parts that the client names to the rows of the store, in place, with all sums. */
static int choose_parts(struct request *r, const struct complete_request *request,
                        struct store_part *rows, size_t row_count, struct store_part *chosen)
{
    uint64_t total = 0;
    for (size_t i = 0; i < request->count; i++) {
        const struct complete_part *said = &request->parts[i];
        const struct store_part *part = find_part(rows, row_count, said->number);
        int rc = check_part(r, said, part, i + 1 == request->count);
        if (rc)
            return rc;
        chosen[i] = *part;
        if (!checked_add(total, part->size, &total) || total > LIMIT_OBJECT_LEN_MAX)
            return diag_fail(&r->diag, S3R_E_ENTITY_TOO_LARGE, "an object has at most 5 TiB");
    }
    const char *said = request_header(r, "x-amz-mp-object-size");
    uint64_t size;
    if (said && (!num_parse_dec(said, strlen(said), UINT64_MAX, &size) || size != total))
        return diag_fail(&r->diag, S3R_E_INVALID_REQUEST,
                         "x-amz-mp-object-size says %.24s, the parts have %llu bytes", said,
                         (unsigned long long)total);
    return 0;
}

static int join_etags(const struct store_part *parts, size_t count, char out[STORE_ETAG_MAX])
{
    struct etag_join join;
    char etag[ETAG_SIZE];
    int rc = etag_join_init(&join);
    if (rc)
        return rc;
    for (size_t i = 0; !rc && i < count; i++)
        rc = etag_join_add(&join, parts[i].etag) ? 0 : S3R_E_STORE_CORRUPT;
    if (!rc) {
        etag_join_final(&join, etag);
        snprintf(out, STORE_ETAG_MAX, "%.*s", STORE_ETAG_MAX - 1, etag);
    }
    etag_join_fini(&join);
    return rc;
}

static int join_checksums(const struct store_upload *upload, const struct store_part *parts,
                          size_t count, struct checksum_value *ret)
{
    enum checksum_kind kind = (enum checksum_kind)upload->checksum_kind;
    struct checksum_join join;
    *ret = (struct checksum_value){0};
    if (kind == CHECKSUM_NONE)
        return 0;
    int rc = checksum_join_init(&join, kind, (enum checksum_type)upload->checksum_type);
    if (rc)
        return rc;
    for (size_t i = 0; i < count; i++) {
        struct checksum_value value = part_checksum(&parts[i], kind);
        checksum_join_add(&join, &value, parts[i].size);
    }
    checksum_join_final(&join, ret);
    checksum_join_fini(&join);
    return 0;
}

/* x-amz-checksum-* of the Complete request is the whole object's. */
static int check_whole(struct request *r, const struct checksum_value *have)
{
    const char *text = have->kind ? request_header(r, checksum_header(have->kind)) : NULL;
    struct checksum_value said;
    if (!text)
        return 0;
    if (!checksum_parse(have->kind, text, true, &said))
        return diag_fail(&r->diag, S3R_E_INVALID_REQUEST, "%s is not valid",
                         checksum_header(have->kind));
    bool is_same = memcmp(said.bytes, have->bytes, checksum_len(have->kind)) == 0;
    return is_same ? 0
                   : diag_fail(&r->diag, S3R_E_BAD_DIGEST, "the whole object's checksum differs");
}

static int print_complete(struct request *r, const char *etag,
                          const struct store_checksum *checksum)
{
    struct text *out = &r->reply.body;
    int rc = reply_xml(r);
    const char *host = request_header(r, "host");
    xml_root(out, "CompleteMultipartUploadResult");
    xml_open(out, "Location");
    text_fmt(out, "%s://", http_is_tls(r->ex) ? "https" : "http");
    xml_escape(out, host ? host : "", host ? strlen(host) : 0);
    struct text path;
    text_init(&path, 8 * KIB);
    target_print(&path, r->target.bucket, r->target.key, r->target.key_len);
    xml_escape(out, text_cstr(&path), path.len);
    text_fini(&path);
    xml_close(out, "Location");
    xml_str(out, "Bucket", r->target.bucket);
    xml_bytes(out, "Key", r->target.key, r->target.key_len);
    xml_etag(out, "ETag", etag);
    print_checksum(out, checksum, true);
    xml_close(out, "CompleteMultipartUploadResult");
    return rc;
}

struct completion {
    const struct complete_request *request;
    const struct store_upload *upload;
    uint8_t digest[SHA256_LEN];
};

static int commit(struct request *r, const struct completion *c, const struct store_part *chosen)
{
    struct store_attributes attributes = {.etag_kind = STORE_ETAG_MULTIPART,
                                          .owner = c->upload->owner,
                                          .storage_class = c->upload->storage_class,
                                          .meta = c->upload->meta,
                                          .meta_count = c->upload->meta_count};
    char etag[STORE_ETAG_MAX] = "";
    struct checksum_value whole;
    struct cond cond;
    size_t count = c->request->count;
    int64_t modified_ms;
    int rc = join_etags(chosen, count, etag);
    if (!rc)
        rc = join_checksums(c->upload, chosen, count, &whole);
    if (!rc)
        rc = check_whole(r, &whole);
    if (!rc)
        rc = cond_parse_write(http_headers(r->ex), &r->diag, &cond);
    if (rc)
        return rc;
    attributes.etag = etag;
    attributes.checksum = checksum_to_store(&whole);
    rc = store_upload_complete(r->server->store, &r->key, upload_id(r), chosen, count, &attributes,
                               c->digest, judge_write, &cond, &r->diag, &modified_ms);
    cond_fini(&cond);
    return rc ? rc : print_complete(r, etag, &attributes.checksum);
}

static int complete(struct request *r, struct completion *c)
{
    size_t row_count = 0;
    bool has_more;
    CLEANUP(freep) struct store_part *rows = NULL;
    CLEANUP(freep) struct store_part *chosen = calloc(c->request->count, sizeof *chosen);
    if (!chosen)
        return S3R_E_NOMEM;
    int rc = digest_list(c->request, c->digest);
    if (rc)
        return rc;
    if (c->upload->is_completed) {
        if (memcmp(c->digest, c->upload->list_digest, SHA256_LEN) != 0)
            return S3R_E_NO_SUCH_UPLOAD;
        return print_complete(r, c->upload->etag, &c->upload->checksum);
    }
    rc = store_part_list(r->server->store, &r->key, upload_id(r), 0, LIMIT_PARTS_MAX, &rows,
                         &row_count, &has_more);
    if (!rc)
        rc = choose_parts(r, c->request, rows, row_count, chosen);
    return rc ? rc : commit(r, c, chosen);
}

/* The same request may have come twice at once, sent again by a client that waited too long: who
 * comes second finds the upload gone in the middle, and answers as if it had come later. */
static bool was_completed_meanwhile(struct request *r, int rc, struct completion *c,
                                    struct store_upload **upload)
{
    if ((rc != S3R_E_NO_SUCH_UPLOAD && rc != S3R_E_INVALID_PART) || c->upload->is_completed)
        return false;
    store_upload_free(*upload);
    *upload = NULL;
    if (store_upload_stat(r->server->store, &r->key, upload_id(r), upload))
        return false;
    c->upload = *upload;
    return c->upload->is_completed;
}

int op_complete_upload(struct request *r)
{
    struct complete_request request = {0};
    CLEANUP(store_upload_freep) struct store_upload *upload = NULL;
    struct store_bucket bucket;
    int rc = store_bucket_stat(r->server->store, r->target.bucket, &bucket);
    if (!rc)
        rc = store_upload_stat(r->server->store, &r->key, upload_id(r), &upload);
    if (!rc)
        rc = complete_request_parse(text_cstr(&r->document), r->document.len, &r->diag, &request);
    if (!rc) {
        struct completion c = {.request = &request, .upload = upload};
        rc = complete(r, &c);
        if (was_completed_meanwhile(r, rc, &c, &upload))
            rc = complete(r, &c);
    }
    complete_request_fini(&request);
    return rc;
}

int op_abort_upload(struct request *r)
{
    struct store_bucket bucket;
    reply_empty(r, 204);
    int rc = store_bucket_stat(r->server->store, r->target.bucket, &bucket);
    return rc ? rc : store_upload_abort(r->server->store, &r->key, upload_id(r));
}

/* ---- ListParts ---- */

static void print_part(struct text *out, const struct store_part *part)
{
    xml_open(out, "Part");
    xml_u64(out, "PartNumber", part->number);
    print_time(out, "LastModified", part->modified_ms);
    xml_etag(out, "ETag", part->etag);
    xml_u64(out, "Size", part->size);
    print_checksum(out, &part->checksum, false);
    xml_close(out, "Part");
}

static void print_parts(struct request *r, const struct store_upload *upload,
                        const struct store_part *parts, size_t count, bool has_more, uint64_t after,
                        uint64_t max)
{
    struct text *out = &r->reply.body;
    bool is_url_encoded = request_query(r, "encoding-type") != NULL;
    xml_root(out, "ListPartsResult");
    xml_str(out, "Bucket", r->target.bucket);
    xml_key(out, "Key", r->target.key, r->target.key_len, is_url_encoded);
    xml_str(out, "UploadId", upload->id);
    print_owner(out, "Initiator", upload->owner);
    print_owner(out, "Owner", upload->owner);
    xml_str(out, "StorageClass", upload->storage_class);
    print_checksum_kind(out, upload->checksum_kind, upload->checksum_type);
    xml_u64(out, "PartNumberMarker", after);
    xml_u64(out, "NextPartNumberMarker", count ? parts[count - 1].number : 0);
    xml_u64(out, "MaxParts", max);
    xml_bool(out, "IsTruncated", has_more);
    for (size_t i = 0; i < count; i++)
        print_part(out, &parts[i]);
    xml_close(out, "ListPartsResult");
}

int op_list_parts(struct request *r)
{
    CLEANUP(store_upload_freep) struct store_upload *upload = NULL;
    CLEANUP(freep) struct store_part *parts = NULL;
    uint64_t after, max;
    size_t count = 0;
    bool has_more = false;
    int rc = query_number(r, "part-number-marker", 0, UINT32_MAX, &after);
    if (!rc)
        rc = query_number(r, "max-parts", LIMIT_LIST_MAX, LIMIT_LIST_MAX, &max);
    if (!rc)
        rc = open_upload_stat(r, &upload);
    if (!rc)
        rc = store_part_list(r->server->store, &r->key, upload_id(r), (uint32_t)after, max, &parts,
                             &count, &has_more);
    if (!rc)
        rc = reply_xml(r);
    if (!rc)
        print_parts(r, upload, parts, count, has_more, after, max);
    return rc;
}
