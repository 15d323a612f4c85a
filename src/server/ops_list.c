/* SPDX-License-Identifier: Apache-2.0 */
/* The listings of objects and of uploads. */
#include "server/ops.h"

#include "base/hex.h"
#include "s3/xml.h"
#include "server/ops_xml.h"

#include <stdlib.h>
#include <string.h>

struct list_args {
    const char *prefix, *delimiter;
    uint64_t max;
    bool is_url_encoded;
};

static const char *query_or_empty(const struct request *r, const char *name)
{
    const char *value = request_query(r, name);
    return value ? value : "";
}

static int parse_args(struct request *r, const char *max_name, struct list_args *args)
{
    const char *encoding = request_query(r, "encoding-type");
    args->prefix = query_or_empty(r, "prefix");
    args->delimiter = query_or_empty(r, "delimiter");
    if (encoding && *encoding && strcmp(encoding, "url") != 0)
        return diag_fail(&r->diag, S3R_E_INVALID_ARGUMENT, "encoding-type: the only one is url");
    args->is_url_encoded = encoding && *encoding;
    return query_number(r, max_name, LIMIT_LIST_MAX, LIMIT_LIST_MAX, &args->max);
}

static void print_key(struct text *out, const char *element, const char *key, size_t len,
                      const struct list_args *args)
{
    xml_key(out, element, key, len, args->is_url_encoded);
}

static void print_prefixes(struct text *out, const char *prefix, size_t len,
                           const struct list_args *args)
{
    xml_open(out, "CommonPrefixes");
    print_key(out, "Prefix", prefix, len, args);
    xml_close(out, "CommonPrefixes");
}

static void print_object(struct text *out, const struct store_list_row *row,
                         const struct list_args *args, bool has_owner)
{
    xml_open(out, "Contents");
    print_key(out, "Key", row->key, row->key_len, args);
    print_time(out, "LastModified", row->modified_ms);
    xml_etag(out, "ETag", row->etag);
    xml_u64(out, "Size", row->size);
    print_checksum_kind(out, row->checksum.kind, row->checksum.type);
    if (has_owner)
        print_owner(out, "Owner", row->owner);
    xml_str(out, "StorageClass", row->storage_class);
    xml_close(out, "Contents");
}

static void print_rows(struct text *out, const struct store_list *list,
                       const struct list_args *args, bool has_owner)
{
    size_t count;
    const struct store_list_row *rows = store_list_rows(list, &count);
    for (size_t i = 0; i < count; i++)
        if (!rows[i].is_prefix)
            print_object(out, &rows[i], args, has_owner);
    for (size_t i = 0; i < count; i++)
        if (rows[i].is_prefix)
            print_prefixes(out, rows[i].key, rows[i].key_len, args);
}

static void print_head(struct request *r, const char *root, const struct list_args *args)
{
    struct text *out = &r->reply.body;
    xml_root(out, root);
    xml_str(out, "Name", r->target.bucket);
    print_key(out, "Prefix", args->prefix, strlen(args->prefix), args);
    if (*args->delimiter)
        print_key(out, "Delimiter", args->delimiter, strlen(args->delimiter), args);
    xml_u64(out, "MaxKeys", args->max);
    if (args->is_url_encoded)
        xml_str(out, "EncodingType", "url");
}

static int open_list(struct request *r, const struct list_args *args, const char *after,
                     size_t after_len, struct store_list **ret)
{
    struct store_list_query query = {.bucket = r->target.bucket,
                                     .prefix = args->prefix,
                                     .prefix_len = strlen(args->prefix),
                                     .delimiter = args->delimiter,
                                     .delimiter_len = strlen(args->delimiter),
                                     .after = after,
                                     .after_len = after_len,
                                     .max = args->max};
    int rc = store_list_open(r->server->store, &query, &r->diag, ret);
    return rc ? rc : reply_xml(r);
}

static const struct store_list_row *last_row(const struct store_list *list)
{
    size_t count;
    const struct store_list_row *rows = store_list_rows(list, &count);
    return count ? &rows[count - 1] : NULL;
}

int op_list_objects(struct request *r)
{
    struct text *out = &r->reply.body;
    struct list_args args;
    CLEANUP(store_list_closep) struct store_list *list = NULL;
    const char *marker = query_or_empty(r, "marker");
    int rc = parse_args(r, "max-keys", &args);
    if (!rc)
        rc = open_list(r, &args, marker, strlen(marker), &list);
    if (rc)
        return rc;
    bool is_truncated = store_list_is_truncated(list);
    print_head(r, "ListBucketResult", &args);
    print_key(out, "Marker", marker, strlen(marker), &args);
    xml_bool(out, "IsTruncated", is_truncated);
    if (is_truncated && last_row(list))
        print_key(out, "NextMarker", last_row(list)->key, last_row(list)->key_len, &args);
    print_rows(out, list, &args, true);
    xml_close(out, "ListBucketResult");
    return 0;
}

/* A continuation token is the last row's key in hex: opaque to clients, free of state here. */
static int decode_token(struct request *r, const char *token, char **ret_key, size_t *ret_len)
{
    size_t len = strlen(token) / 2;
    CLEANUP(freep) char *key = calloc(1, len + 1);
    if (!key)
        return S3R_E_NOMEM;
    if (len == 0 || len > LIMIT_KEY_LEN_MAX || !hex_decode(token, strlen(token), key, len) ||
        memchr(key, '\0', len))
        return diag_fail(&r->diag, S3R_E_INVALID_ARGUMENT, "continuation-token is not one of ours");
    *ret_len = len;
    *ret_key = STEAL(key);
    return 0;
}

static void print_token(struct text *out, const struct store_list_row *row)
{
    char token[2 * LIMIT_KEY_LEN_MAX + 1];
    hex_encode(row->key, row->key_len < LIMIT_KEY_LEN_MAX ? row->key_len : LIMIT_KEY_LEN_MAX,
               token);
    xml_str(out, "NextContinuationToken", token);
}

static int print_list_v2(struct request *r, const struct store_list *list,
                         const struct list_args *args, const char *token, const char *start_after)
{
    struct text *out = &r->reply.body;
    size_t count;
    store_list_rows(list, &count);
    print_head(r, "ListBucketResult", args);
    if (token)
        xml_str(out, "ContinuationToken", token);
    if (*start_after)
        print_key(out, "StartAfter", start_after, strlen(start_after), args);
    xml_u64(out, "KeyCount", count);
    xml_bool(out, "IsTruncated", store_list_is_truncated(list));
    if (store_list_is_truncated(list) && last_row(list))
        print_token(out, last_row(list));
    const char *fetch_owner = request_query(r, "fetch-owner");
    print_rows(out, list, args, fetch_owner && strcmp(fetch_owner, "true") == 0);
    xml_close(out, "ListBucketResult");
    return 0;
}

int op_list_objects_v2(struct request *r)
{
    struct list_args args;
    CLEANUP(store_list_closep) struct store_list *list = NULL;
    CLEANUP(freep) char *token_key = NULL;
    const char *token = request_query(r, "continuation-token");
    const char *after = query_or_empty(r, "start-after"), *start_after = after;
    size_t after_len = strlen(after);
    if (strcmp(query_or_empty(r, "list-type"), "2") != 0)
        return diag_fail(&r->diag, S3R_E_INVALID_ARGUMENT, "list-type: the only one is 2");
    int rc = parse_args(r, "max-keys", &args);
    if (!rc && token) {
        rc = decode_token(r, token, &token_key, &after_len);
        after = token_key;
    }
    if (!rc)
        rc = open_list(r, &args, after, after_len, &list);
    return rc ? rc : print_list_v2(r, list, &args, token, start_after);
}

/* ---- uploads ---- */

static void print_upload(struct text *out, const struct store_upload_row *row,
                         const struct list_args *args)
{
    xml_open(out, "Upload");
    print_key(out, "Key", row->key, row->key_len, args);
    xml_str(out, "UploadId", row->id);
    print_owner(out, "Initiator", row->owner);
    print_owner(out, "Owner", row->owner);
    xml_str(out, "StorageClass", row->storage_class);
    print_time(out, "Initiated", row->created_ms);
    print_checksum_kind(out, row->checksum_kind, row->checksum_type);
    xml_close(out, "Upload");
}

static void print_uploads(struct request *r, const struct store_upload_list *list,
                          const struct list_args *args)
{
    struct text *out = &r->reply.body;
    size_t count;
    const struct store_upload_row *rows = store_upload_list_rows(list, &count);
    const char *key_marker = query_or_empty(r, "key-marker");
    bool is_truncated = store_upload_list_is_truncated(list);
    xml_root(out, "ListMultipartUploadsResult");
    xml_str(out, "Bucket", r->target.bucket);
    print_key(out, "KeyMarker", key_marker, strlen(key_marker), args);
    xml_str(out, "UploadIdMarker", query_or_empty(r, "upload-id-marker"));
    if (is_truncated && count) {
        print_key(out, "NextKeyMarker", rows[count - 1].key, rows[count - 1].key_len, args);
        xml_str(out, "NextUploadIdMarker", rows[count - 1].is_prefix ? "" : rows[count - 1].id);
    }
    print_key(out, "Prefix", args->prefix, strlen(args->prefix), args);
    if (*args->delimiter)
        print_key(out, "Delimiter", args->delimiter, strlen(args->delimiter), args);
    if (args->is_url_encoded)
        xml_str(out, "EncodingType", "url");
    xml_u64(out, "MaxUploads", args->max);
    xml_bool(out, "IsTruncated", is_truncated);
    for (size_t i = 0; i < count; i++)
        if (!rows[i].is_prefix)
            print_upload(out, &rows[i], args);
    for (size_t i = 0; i < count; i++)
        if (rows[i].is_prefix)
            print_prefixes(out, rows[i].key, rows[i].key_len, args);
    xml_close(out, "ListMultipartUploadsResult");
}

int op_list_uploads(struct request *r)
{
    struct list_args args;
    CLEANUP(store_upload_list_closep) struct store_upload_list *list = NULL;
    int rc = parse_args(r, "max-uploads", &args);
    if (rc)
        return rc;
    const char *after_key = query_or_empty(r, "key-marker");
    const char *after_id = request_query(r, "upload-id-marker");
    struct store_upload_query query = {.bucket = r->target.bucket,
                                       .prefix = args.prefix,
                                       .prefix_len = strlen(args.prefix),
                                       .delimiter = args.delimiter,
                                       .delimiter_len = strlen(args.delimiter),
                                       .after_key = after_key,
                                       .after_key_len = strlen(after_key),
                                       .after_id = after_id && *after_id ? after_id : NULL,
                                       .max = args.max};
    rc = store_upload_list_open(r->server->store, &query, &r->diag, &list);
    if (!rc)
        rc = reply_xml(r);
    if (!rc)
        print_uploads(r, list, &args);
    return rc;
}
