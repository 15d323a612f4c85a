/* SPDX-License-Identifier: Apache-2.0 */
/* The service and bucket operations. */
#include "server/ops.h"

#include "base/clock.h"
#include "base/num.h"
#include "s3/names.h"
#include "s3/xml.h"
#include "s3/xml_read.h"
#include "server/ops_xml.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUCKETS_PER_READ 1000
#define BUCKETS_MAX 10000

static void print_bucket(struct text *out, const struct store_bucket *b)
{
    xml_open(out, "Bucket");
    xml_str(out, "Name", b->name);
    print_time(out, "CreationDate", b->created_ms);
    xml_close(out, "Bucket");
}

struct bucket_page {
    const char *prefix;
    char after[LIMIT_BUCKET_LEN_MAX + 1];
    uint64_t max, count;
    bool has_more;
};

/* The continuation token is the last name that was listed. */
static int parse_page(struct request *r, struct bucket_page *page)
{
    const char *prefix = request_query(r, "prefix"), *max = request_query(r, "max-buckets");
    const char *token = request_query(r, "continuation-token");
    *page = (struct bucket_page){.prefix = prefix ? prefix : "", .max = BUCKETS_MAX};
    if (max && (!num_parse_dec(max, strlen(max), BUCKETS_MAX, &page->max) || page->max == 0))
        return diag_fail(&r->diag, S3R_E_INVALID_ARGUMENT,
                         "max-buckets is not a number from 1 to %d", BUCKETS_MAX);
    if (token && bucket_name_check(token, strlen(token), NULL))
        return diag_fail(&r->diag, S3R_E_INVALID_ARGUMENT, "continuation-token is not one of ours");
    snprintf(page->after, sizeof page->after, "%.63s", token ? token : "");
    return 0;
}

/* Names come in order: those with the prefix stand together. */
static int print_buckets(struct request *r, struct bucket_page *page)
{
    CLEANUP(freep) struct store_bucket *rows = calloc(BUCKETS_PER_READ, sizeof *rows);
    char after[LIMIT_BUCKET_LEN_MAX + 1];
    bool has_more = true;
    int rc = rows ? 0 : S3R_E_NOMEM;
    memcpy(after, page->after, sizeof after);
    while (!rc && has_more && !page->has_more) {
        size_t count = 0;
        rc = store_bucket_list(r->server->store, after, BUCKETS_PER_READ, rows, &count, &has_more);
        for (size_t i = 0; !rc && i < count && !page->has_more; i++) {
            memcpy(after, rows[i].name, sizeof after);
            if (strncmp(rows[i].name, page->prefix, strlen(page->prefix)) != 0)
                continue;
            page->has_more = page->count == page->max;
            if (page->has_more)
                break;
            print_bucket(&r->reply.body, &rows[i]);
            memcpy(page->after, rows[i].name, sizeof page->after);
            page->count++;
        }
    }
    return rc;
}

int op_list_buckets(struct request *r)
{
    struct text *out = &r->reply.body;
    struct bucket_page page;
    int rc = parse_page(r, &page);
    if (!rc)
        rc = reply_xml(r);
    if (rc)
        return rc;
    xml_root(out, "ListAllMyBucketsResult");
    print_owner(out, "Owner", r->auth.access_key);
    xml_open(out, "Buckets");
    rc = print_buckets(r, &page);
    xml_close(out, "Buckets");
    if (page.has_more)
        xml_str(out, "ContinuationToken", page.after);
    if (*page.prefix)
        xml_str(out, "Prefix", page.prefix);
    xml_close(out, "ListAllMyBucketsResult");
    return rc;
}

int op_create_bucket(struct request *r)
{
    char location[LIMIT_REGION_LEN_MAX + 1] = "";
    struct store_bucket bucket = {.created_ms = clock_wall_ms()};
    const struct text *doc = &r->document;
    int rc = bucket_name_check(r->target.bucket, strlen(r->target.bucket), &r->diag);
    if (!rc)
        rc = create_bucket_parse(text_cstr(doc), doc->len, &r->diag, location);
    if (rc)
        return rc;
    const char *region = r->server->config->region;
    if (*location && strcmp(location, region) != 0)
        return diag_fail(&r->diag, S3R_E_INVALID_ARGUMENT,
                         "LocationConstraint: this server's region is %s", region);
    snprintf(bucket.name, sizeof bucket.name, "%.63s", r->target.bucket);
    snprintf(bucket.owner, sizeof bucket.owner, "%.127s", r->auth.access_key);
    snprintf(bucket.region, sizeof bucket.region, "%.63s", region);
    rc = store_bucket_create(r->server->store, &bucket);
    if (rc)
        return rc;
    CLEANUP(freep) char *path = NULL;
    if (asprintf(&path, "/%s", bucket.name) < 0)
        return S3R_E_NOMEM;
    reply_empty(r, 200);
    return reply_header(r, "location", path);
}

static int stat_bucket(struct request *r, struct store_bucket *ret)
{
    return store_bucket_stat(r->server->store, r->target.bucket, ret);
}

int op_head_bucket(struct request *r)
{
    struct store_bucket bucket;
    int rc = stat_bucket(r, &bucket);
    if (rc)
        return rc;
    reply_empty(r, 200);
    return reply_header(r, "x-amz-bucket-region", bucket.region);
}

int op_delete_bucket(struct request *r)
{
    reply_empty(r, 204);
    return store_bucket_delete(r->server->store, r->target.bucket);
}

/* us-east-1 is the empty string there, for reasons of age. */
int op_get_location(struct request *r)
{
    struct store_bucket bucket;
    int rc = stat_bucket(r, &bucket);
    if (!rc)
        rc = reply_xml(r);
    if (rc)
        return rc;
    struct text *out = &r->reply.body;
    xml_root(out, "LocationConstraint");
    if (strcmp(bucket.region, "us-east-1") != 0)
        xml_escape(out, bucket.region, strlen(bucket.region));
    xml_close(out, "LocationConstraint");
    return 0;
}

int op_get_versioning(struct request *r)
{
    struct store_bucket bucket;
    int rc = stat_bucket(r, &bucket);
    if (!rc)
        rc = reply_xml(r);
    xml_root(&r->reply.body, "VersioningConfiguration");
    xml_close(&r->reply.body, "VersioningConfiguration");
    return rc;
}

/* One user owns everything: the only access list there is. */
int op_get_acl(struct request *r)
{
    struct store_bucket bucket;
    struct text *out = &r->reply.body;
    int rc = stat_bucket(r, &bucket);
    if (!rc && r->target.key)
        rc = store_lease_open(r->server->store, &r->key, &r->diag, &r->lease);
    if (!rc)
        rc = reply_xml(r);
    if (rc)
        return rc;
    xml_root(out, "AccessControlPolicy");
    print_owner(out, "Owner", bucket.owner);
    xml_open(out, "AccessControlList");
    xml_open(out, "Grant");
    text_str(out, "<Grantee xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" "
                  "xsi:type=\"CanonicalUser\">");
    xml_str(out, "ID", bucket.owner);
    xml_str(out, "DisplayName", bucket.owner);
    text_str(out, "</Grantee>");
    xml_str(out, "Permission", "FULL_CONTROL");
    xml_close(out, "Grant");
    xml_close(out, "AccessControlList");
    xml_close(out, "AccessControlPolicy");
    return 0;
}

/* `x-amz-acl: private` sets what is so already; anything else was refused before. */
int op_put_acl(struct request *r)
{
    struct store_bucket bucket;
    int rc = stat_bucket(r, &bucket);
    if (!rc && r->target.key)
        rc = store_lease_open(r->server->store, &r->key, &r->diag, &r->lease);
    if (rc)
        return rc;
    if (!request_header(r, "x-amz-acl") || r->document.len)
        return diag_fail(&r->diag, S3R_E_UNSUPPORTED,
                         "access lists are not offered here, only x-amz-acl: private");
    reply_empty(r, 200);
    return 0;
}
