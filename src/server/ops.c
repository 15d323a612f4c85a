/* SPDX-License-Identifier: Apache-2.0 */
#include "server/ops.h"

#include <string.h>

static int op_get_unset(struct request *r);
static int op_get_object_tagging(struct request *r);

/* The first row that fits wins: those with more conditions stand first. */
static const struct op ops[] = {
    /* not of S3: what `s3rdmad backup` asks for */
    {.name = "Backup",
     .method = "POST",
     .query = {"s3r-backup"},
     .pool = POOL_DISK,
     .run = op_backup},
    {.name = "ListBuckets", .method = "GET", .run = op_list_buckets},

    {.name = "GetBucketLocation",
     .method = "GET",
     .needs_bucket = true,
     .query = {"location"},
     .run = op_get_location},
    {.name = "GetBucketVersioning",
     .method = "GET",
     .needs_bucket = true,
     .query = {"versioning"},
     .run = op_get_versioning},
    {.name = "GetBucketAcl",
     .method = "GET",
     .needs_bucket = true,
     .query = {"acl"},
     .run = op_get_acl},
    {.name = "GetBucketPolicy",
     .method = "GET",
     .needs_bucket = true,
     .query = {"policy"},
     .run = op_get_unset},
    {.name = "GetBucketLifecycle",
     .method = "GET",
     .needs_bucket = true,
     .query = {"lifecycle"},
     .run = op_get_unset},
    {.name = "GetBucketTagging",
     .method = "GET",
     .needs_bucket = true,
     .query = {"tagging"},
     .run = op_get_unset},
    {.name = "GetBucketCors",
     .method = "GET",
     .needs_bucket = true,
     .query = {"cors"},
     .run = op_get_unset},
    {.name = "GetBucketEncryption",
     .method = "GET",
     .needs_bucket = true,
     .query = {"encryption"},
     .run = op_get_unset},
    {.name = "GetObjectLockConfiguration",
     .method = "GET",
     .needs_bucket = true,
     .query = {"object-lock"},
     .run = op_get_unset},
    {.name = "ListMultipartUploads",
     .method = "GET",
     .needs_bucket = true,
     .query = {"uploads"},
     .run = op_list_uploads},
    {.name = "ListObjectsV2",
     .method = "GET",
     .needs_bucket = true,
     .query = {"list-type"},
     .run = op_list_objects_v2},
    {.name = "ListObjects", .method = "GET", .needs_bucket = true, .run = op_list_objects},
    {.name = "HeadBucket", .method = "HEAD", .needs_bucket = true, .run = op_head_bucket},
    {.name = "PutBucketAcl",
     .method = "PUT",
     .needs_bucket = true,
     .query = {"acl"},
     .body = BODY_MEMORY,
     .run = op_put_acl},
    {.name = "CreateBucket",
     .method = "PUT",
     .needs_bucket = true,
     .body = BODY_MEMORY,
     .pool = POOL_DISK,
     .run = op_create_bucket},
    {.name = "DeleteBucket",
     .method = "DELETE",
     .needs_bucket = true,
     .pool = POOL_DISK,
     .run = op_delete_bucket},
    {.name = "DeleteObjects",
     .method = "POST",
     .needs_bucket = true,
     .query = {"delete"},
     .body = BODY_MEMORY,
     .pool = POOL_DISK,
     .run = op_delete_objects},

    {.name = "ListParts",
     .method = "GET",
     .needs_key = true,
     .query = {"uploadId"},
     .run = op_list_parts},
    {.name = "GetObjectAcl",
     .method = "GET",
     .needs_key = true,
     .query = {"acl"},
     .run = op_get_acl},
    {.name = "GetObjectTagging",
     .method = "GET",
     .needs_key = true,
     .query = {"tagging"},
     .run = op_get_object_tagging},
    {.name = "GetObjectAttributes",
     .method = "GET",
     .needs_key = true,
     .query = {"attributes"},
     .run = op_get_attributes},
    {.name = "GetObject",
     .method = "GET",
     .needs_key = true,
     .has_rdma = true,
     .pool = POOL_DISK,
     .run = op_get_object,
     .try_now = op_get_object_now},
    {.name = "HeadObject", .method = "HEAD", .needs_key = true, .run = op_head_object},
    {.name = "UploadPartCopy",
     .method = "PUT",
     .needs_key = true,
     .query = {"partNumber", "uploadId"},
     .header = "x-amz-copy-source",
     .pool = POOL_DISK,
     .run = op_upload_part_copy},
    {.name = "UploadPart",
     .method = "PUT",
     .needs_key = true,
     .query = {"partNumber", "uploadId"},
     .body = BODY_OBJECT,
     .pool = POOL_DISK,
     .has_rdma = true,
     .prepare = op_upload_part_prepare,
     .run = op_upload_part},
    {.name = "PutObjectAcl",
     .method = "PUT",
     .needs_key = true,
     .query = {"acl"},
     .body = BODY_MEMORY,
     .run = op_put_acl},
    {.name = "CopyObject",
     .method = "PUT",
     .needs_key = true,
     .header = "x-amz-copy-source",
     .pool = POOL_DISK,
     .run = op_copy_object},
    {.name = "PutObject",
     .method = "PUT",
     .needs_key = true,
     .body = BODY_OBJECT,
     .pool = POOL_DISK,
     .has_rdma = true,
     .prepare = op_put_object_prepare,
     .run = op_put_object},
    {.name = "CreateMultipartUpload",
     .method = "POST",
     .needs_key = true,
     .query = {"uploads"},
     .pool = POOL_DISK,
     .run = op_create_upload},
    {.name = "CompleteMultipartUpload",
     .method = "POST",
     .needs_key = true,
     .query = {"uploadId"},
     .body = BODY_MEMORY,
     .pool = POOL_DISK,
     .run = op_complete_upload},
    {.name = "AbortMultipartUpload",
     .method = "DELETE",
     .needs_key = true,
     .query = {"uploadId"},
     .pool = POOL_DISK,
     .run = op_abort_upload},
    {.name = "DeleteObject",
     .method = "DELETE",
     .needs_key = true,
     .pool = POOL_DISK,
     .run = op_delete_object},
};

/* Query parameters that name another operation: ignoring one would do something else than what was
 * asked. */
static const char *const subresources[] = {
    "acl",
    "accelerate",
    "analytics",
    "attributes",
    "cors",
    "delete",
    "encryption",
    "intelligent-tiering",
    "inventory",
    "legal-hold",
    "lifecycle",
    "location",
    "logging",
    "metadataTable",
    "metrics",
    "notification",
    "object-lock",
    "ownershipControls",
    "partNumber",
    "policy",
    "policyStatus",
    "publicAccessBlock",
    "rename",
    "replication",
    "requestPayment",
    "restore",
    "retention",
    "select",
    "tagging",
    "torrent",
    "uploadId",
    "uploads",
    "versioning",
    "versions",
    "website",
};

/* Headers that ask for something that would be lost in silence. */
static const struct {
    const char *name, *allowed; /* NULL: no value is */
} refused_headers[] = {
    {"x-amz-server-side-encryption", NULL},
    {"x-amz-server-side-encryption-customer-algorithm", NULL},
    {"x-amz-copy-source-server-side-encryption-customer-algorithm", NULL},
    {"x-amz-object-lock-mode", NULL},
    {"x-amz-object-lock-retain-until-date", NULL},
    {"x-amz-object-lock-legal-hold", NULL},
    {"x-amz-bucket-object-lock-enabled", "false"},
    {"x-amz-tagging", ""},
    {"x-amz-website-redirect-location", NULL},
    {"x-amz-grant-full-control", NULL},
    {"x-amz-grant-read", NULL},
    {"x-amz-grant-read-acp", NULL},
    {"x-amz-grant-write", NULL},
    {"x-amz-grant-write-acp", NULL},
    {"x-amz-write-offset-bytes", NULL},
    {"x-amz-storage-class", "STANDARD"},
};

static bool row_fits(const struct op *op, const struct request *r)
{
    bool has_key = r->target.key != NULL, has_bucket = r->target.bucket != NULL;
    if (strcmp(op->method, http_method(r->ex)) != 0 || op->needs_key != has_key ||
        (op->needs_bucket || op->needs_key) != has_bucket)
        return false;
    for (size_t i = 0; i < ARRAY_LEN(op->query); i++)
        if (op->query[i] && !query_has(&r->query, op->query[i]))
            return false;
    return !op->header || request_header(r, op->header);
}

static bool row_uses(const struct op *op, const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(op->query); i++)
        if (op->query[i] && strcmp(op->query[i], name) == 0)
            return true;
    /* GET and HEAD of a part */
    return strcmp(name, "partNumber") == 0 &&
           (strcmp(op->name, "GetObject") == 0 || strcmp(op->name, "HeadObject") == 0);
}

static int check_query(const struct op *op, const struct request *r, struct diag *diag)
{
    for (size_t i = 0; i < ARRAY_LEN(subresources); i++)
        if (query_has(&r->query, subresources[i]) && !row_uses(op, subresources[i]))
            return diag_fail(diag, S3R_E_UNSUPPORTED, "%s with ?%s is not offered here",
                             http_method(r->ex), subresources[i]);
    const char *version = request_query(r, "versionId");
    if (version && strcmp(version, "null") != 0)
        return diag_fail(diag, S3R_E_INVALID_ARGUMENT,
                         "versionId: buckets here have no versions but \"null\"");
    return 0;
}

static int check_headers(const struct request *r, struct diag *diag)
{
    static const char *const acls[] = {"private", "bucket-owner-full-control"};
    const char *acl = request_header(r, "x-amz-acl");
    if (acl && strcmp(acl, acls[0]) != 0 && strcmp(acl, acls[1]) != 0)
        return diag_fail(diag, S3R_E_UNSUPPORTED, "x-amz-acl: only private is offered here");
    for (size_t i = 0; i < ARRAY_LEN(refused_headers); i++) {
        const char *value = request_header(r, refused_headers[i].name);
        const char *allowed = refused_headers[i].allowed;
        if (value && (!allowed || strcmp(value, allowed) != 0))
            return diag_fail(diag, S3R_E_UNSUPPORTED, "%s is not offered here",
                             refused_headers[i].name);
    }
    return 0;
}

static bool is_known_method(const char *method)
{
    static const char *const known[] = {"GET", "HEAD", "PUT", "POST", "DELETE", "OPTIONS"};
    for (size_t i = 0; i < ARRAY_LEN(known); i++)
        if (strcmp(known[i], method) == 0)
            return true;
    return false;
}

int op_find(const struct request *r, struct diag *diag, const struct op **ret_op)
{
    for (size_t i = 0; i < ARRAY_LEN(ops); i++) {
        if (!row_fits(&ops[i], r))
            continue;
        int rc = check_query(&ops[i], r, diag);
        if (!rc)
            rc = check_headers(r, diag);
        if (!rc)
            *ret_op = &ops[i];
        return rc;
    }
    if (!is_known_method(http_method(r->ex)))
        return S3R_E_METHOD_NOT_ALLOWED;
    return diag_fail(diag, S3R_E_UNSUPPORTED, "%s on this resource is not offered here",
                     http_method(r->ex));
}

/* What every bucket here lacks has an answer of its own that SDKs know. */
static int op_get_unset(struct request *r)
{
    static const struct {
        const char *query;
        int code;
    } unset[] = {{"policy", S3R_E_NO_SUCH_BUCKET_POLICY},
                 {"lifecycle", S3R_E_NO_SUCH_LIFECYCLE},
                 {"tagging", S3R_E_NO_SUCH_TAG_SET},
                 {"cors", S3R_E_NO_SUCH_CORS},
                 {"encryption", S3R_E_NO_SUCH_ENCRYPTION},
                 {"object-lock", S3R_E_NO_SUCH_OBJECT_LOCK}};
    struct store_bucket bucket;
    int rc = store_bucket_stat(r->server->store, r->target.bucket, &bucket);
    if (rc)
        return rc;
    for (size_t i = 0; i < ARRAY_LEN(unset); i++)
        if (strcmp(r->op->query[0], unset[i].query) == 0)
            return unset[i].code;
    return S3R_E_UNSUPPORTED;
}

static int op_get_object_tagging(struct request *r)
{
    int rc = store_lease_open(r->server->store, &r->key, &r->diag, &r->lease);
    if (rc)
        return rc;
    rc = reply_xml(r);
    text_str(&r->reply.body,
             "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Tagging "
             "xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><TagSet/></Tagging>");
    return rc;
}
