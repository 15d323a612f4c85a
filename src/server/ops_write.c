/* SPDX-License-Identifier: Apache-2.0 */
/* Writing and deleting objects: PutObject, DeleteObject, DeleteObjects. */
#include "server/ops.h"

#include "base/num.h"
#include "s3/cond.h"
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

static void free_attributes(void *attributes)
{
    object_attributes_fini(attributes);
    free(attributes);
}

int op_put_object_prepare(struct request *r)
{
    struct store_bucket bucket;
    struct object_attributes *attributes;
    int rc = store_bucket_stat(r->server->store, r->target.bucket, &bucket);
    if (!rc)
        rc = judge_early(r);
    if (rc)
        return rc;
    attributes = calloc(1, sizeof *attributes);
    if (!attributes)
        return S3R_E_NOMEM;
    r->op_state = attributes;
    r->op_state_free = free_attributes;
    rc = object_attributes_collect(r, attributes);
    return rc ? rc : put_open(r);
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
    struct object_attributes *a = r->op_state;
    struct cond cond;
    int64_t modified_ms;
    int rc = cond_parse_write(http_headers(r->ex), &r->diag, &cond);
    if (rc)
        return rc;
    uint64_t size = payload_len(r->payload);
    rc = put_receive(r, a, "-1");
    if (!rc)
        rc = store_put(r->writer, &r->key, &a->store, judge_write, &cond, &r->diag, &modified_ms);
    if (!rc)
        rc = put_reply(r, a->etag, size);
    cond_fini(&cond);
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
