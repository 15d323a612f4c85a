/* SPDX-License-Identifier: Apache-2.0 */
/* Writing and deleting objects: PutObject, CopyObject, DeleteObject, DeleteObjects. */
#include "server/ops.h"

#include "base/num.h"
#include "s3/cond.h"
#include "s3/names.h"
#include "s3/xml.h"
#include "s3/xml_read.h"
#include "server/object_meta.h"
#include "server/ops_put.h"
#include "server/ops_xml.h"
#include "server/rdma.h"

#include <stdlib.h>
#include <string.h>

/* ---- PutObject ---- */

/* A refusal that is certain already comes before the body does; the commit judges again. */
static int judge_early(struct request *r)
{
    struct cond cond;
    CLEANUP(store_lease_closep) struct store_lease *lease = NULL;
    int rc = cond_parse_write(http_headers(r->ex), &r->diag, &cond);
    if (rc)
        return rc;
    if (!cond_is_empty(&cond)) {
        rc = store_lease_open(r->server->store, &r->key, NULL, &lease);
        if (rc == 0 || rc == S3R_E_NO_SUCH_KEY)
            rc = judge_write(lease ? store_lease_object(lease) : NULL, &cond);
    }
    cond_fini(&cond);
    return rc;
}

int op_put_object_prepare(struct request *r)
{
    struct store_bucket bucket;
    struct object_attributes attributes;
    int rc = store_bucket_stat(r->server->store, r->target.bucket, &bucket);
    if (!rc)
        rc = judge_early(r);
    if (!rc)
        rc = object_attributes_collect(r, &attributes);
    if (rc)
        return rc;
    object_attributes_fini(&attributes);
    return put_open(r);
}

int put_open(struct request *r)
{
    if (r->token_text) {
        int rc = put_judge_rdma(r);
        if (rc)
            return rc;
    }
    return store_writer_open(r->server->store, payload_len(r->payload), &r->diag, &r->writer);
}

/* The size of a PUT without a body is the window's; what contradicts it is an error, not a guess.
 */
int put_judge_rdma(struct request *r)
{
    struct payload_rules rules = {.auth = &r->auth,
                                  .len_max = LIMIT_OBJECT_LEN_MAX,
                                  .flags = PAYLOAD_NO_MD5 | PAYLOAD_NO_CRC64};
    const char *decoded = request_header(r, "x-amz-decoded-content-length");
    uint64_t said;
    int rc = rdma_judge(r, RDMA_WRITE_OBJECT);
    if (rc)
        return rc;
    if (http_has_body(r->ex))
        return diag_fail(&r->diag, S3R_E_INVALID_REQUEST,
                         "a PUT with x-amz-rdma-token has no body: its bytes are in the window");
    if (decoded &&
        (!num_parse_dec(decoded, strlen(decoded), UINT64_MAX, &said) || said != r->token.size))
        return diag_fail(&r->diag, S3R_E_INVALID_REQUEST,
                         "x-amz-decoded-content-length says %.24s bytes, the token %llu", decoded,
                         (unsigned long long)r->token.size);
    return payload_create_plain(http_headers(r->ex), &rules, r->token.size, &r->diag, &r->payload);
}

int put_receive(struct request *r, struct object_attributes *a, const char *etag_suffix)
{
    if (!r->token_text) {
        object_attributes_etag_md5(a, r->payload_result.md5);
        a->store.checksum = checksum_to_store(&r->payload_result.checksum);
        return 0;
    }
    int rc = rdma_receive(r);
    if (!rc)
        rc = payload_finish(r->payload, &r->diag, &r->payload_result);
    if (rc)
        return rc;
    object_attributes_etag_opaque(a, store_writer_crc64(r->writer), etag_suffix);
    a->store.checksum = checksum_to_store(&r->payload_result.checksum);
    return 0;
}

int put_reply(struct request *r, const char *etag, uint64_t size)
{
    reply_empty(r, 200);
    int rc = reply_etag(r, etag);
    struct store_checksum checksum = checksum_to_store(&r->payload_result.checksum);
    if (!rc && checksum.kind)
        rc = reply_checksum(r, &checksum);
    if (rc || !r->token_text)
        return rc;
    rc = reply_crc64(r, store_writer_crc64(r->writer));
    return rc ? rc : rdma_acknowledge(r, RDMA_WRITE_OBJECT, size);
}

int op_put_object(struct request *r)
{
    struct object_attributes a;
    struct cond cond;
    int64_t modified_ms;
    int rc = cond_parse_write(http_headers(r->ex), &r->diag, &cond);
    if (rc)
        return rc;
    rc = object_attributes_collect(r, &a);
    if (!rc) {
        uint64_t size = payload_len(r->payload);
        rc = put_receive(r, &a, "-1");
        if (!rc)
            rc =
                store_put(r->writer, &r->key, &a.store, judge_write, &cond, &r->diag, &modified_ms);
        if (!rc)
            rc = put_reply(r, a.etag, size);
        object_attributes_fini(&a);
    }
    cond_fini(&cond);
    return rc;
}

/* ---- CopyObject ---- */

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

static int open_source(struct request *r, const struct target *source)
{
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

static int copy_bytes(struct request *r, uint64_t size, struct checksum *sum)
{
    void *buffer;
    int rc = store_writer_open(r->server->store, size, &r->diag, &r->writer);
    if (rc)
        return rc;
    if (posix_memalign(&buffer, 4 * KIB, 4 * MIB) != 0)
        return S3R_E_NOMEM;
    for (uint64_t off = 0; !rc && off < size;) {
        size_t len = (size_t)min_u64(4 * MIB, size - off);
        rc = store_lease_read(r->lease, off, buffer, len, &r->diag);
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

static int print_copy(struct request *r, const struct object_attributes *a, int64_t modified_ms)
{
    struct text *out = &r->reply.body;
    int rc = reply_xml(r);
    xml_root(out, "CopyObjectResult");
    print_time(out, "LastModified", modified_ms);
    xml_etag(out, "ETag", a->etag);
    print_checksum(out, &a->store.checksum, true);
    xml_close(out, "CopyObjectResult");
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
    rc = copy_bytes(r, from->size, sum);
    if (!rc) {
        copy_sums(r, from, sum, a);
        rc = store_put(r->writer, &r->key, &a->store, judge_write, &cond, &r->diag, &modified_ms);
    }
    cond_fini(&cond);
    return rc ? rc : print_copy(r, a, modified_ms);
}

static int copy_from(struct request *r, const struct target *source, const char *version)
{
    struct object_attributes a;
    struct store_bucket bucket;
    int rc;
    bool is_replaced = replaces_metadata(r, &rc);
    if (rc)
        return rc;
    if (version && strcmp(version, "null") != 0)
        return diag_fail(&r->diag, S3R_E_INVALID_ARGUMENT,
                         "x-amz-copy-source: buckets here have no versions but \"null\"");
    if (!is_replaced && strcmp(source->bucket, r->target.bucket) == 0 &&
        source->key_len == r->target.key_len &&
        memcmp(source->key, r->target.key, source->key_len) == 0)
        return diag_fail(
            &r->diag, S3R_E_INVALID_REQUEST,
            "a copy onto itself changes nothing: use x-amz-metadata-directive REPLACE");
    rc = store_bucket_stat(r->server->store, r->target.bucket, &bucket);
    if (!rc)
        rc = open_source(r, source);
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

/* ---- deleting ---- */

int op_delete_object(struct request *r)
{
    struct cond cond;
    int rc = cond_parse_write(http_headers(r->ex), &r->diag, &cond);
    if (rc)
        return rc;
    rc = store_delete(r->server->store, &r->key, cond_is_empty(&cond) ? NULL : judge_write, &cond,
                      NULL);
    cond_fini(&cond);
    reply_empty(r, 204);
    return rc;
}

static int judge_etag(const struct store_object *current, void *arg)
{
    const char *etag = arg;
    if (!current)
        return S3R_E_NO_SUCH_KEY;
    return strcmp(current->etag, etag) == 0 ? 0 : S3R_E_PRECONDITION;
}

static void print_delete_error(struct text *out, const struct delete_key *key, int code,
                               const struct diag *diag)
{
    xml_open(out, "Error");
    xml_bytes(out, "Key", key->key, key->key_len);
    if (key->version)
        xml_str(out, "VersionId", key->version);
    xml_str(out, "Code", error_s3_code(code));
    xml_str(out, "Message", diag_text(diag, code));
    xml_close(out, "Error");
}

static void delete_one(struct request *r, struct delete_key *key, bool is_quiet)
{
    struct text *out = &r->reply.body;
    struct diag diag = {0};
    struct store_key store_key = {r->target.bucket, key->key, key->key_len};
    int rc = 0;
    if (key->version && strcmp(key->version, "null") != 0)
        rc = S3R_E_NO_SUCH_VERSION;
    if (!rc)
        rc = store_delete(r->server->store, &store_key, *key->etag ? judge_etag : NULL, key->etag,
                          NULL);
    if (rc) {
        print_delete_error(out, key, rc, &diag);
    } else if (!is_quiet) {
        xml_open(out, "Deleted");
        xml_bytes(out, "Key", key->key, key->key_len);
        if (key->version)
            xml_str(out, "VersionId", key->version);
        xml_close(out, "Deleted");
    }
}

int op_delete_objects(struct request *r)
{
    struct delete_request request = {0};
    struct store_bucket bucket;
    int rc = store_bucket_stat(r->server->store, r->target.bucket, &bucket);
    if (!rc)
        rc = delete_request_parse(text_cstr(&r->document), r->document.len, &r->diag, &request);
    if (!rc)
        rc = reply_xml(r);
    if (!rc) {
        xml_root(&r->reply.body, "DeleteResult");
        for (size_t i = 0; i < request.count; i++)
            delete_one(r, &request.keys[i], request.is_quiet);
        xml_close(&r->reply.body, "DeleteResult");
    }
    delete_request_fini(&request);
    return rc;
}
