/* SPDX-License-Identifier: Apache-2.0 */
#include "base/num.h"
#include "client/call.h"
#include "s3/sigv4.h"
#include "s3/xml.h"
#include "s3/xml_read.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void call_finip(struct call *call)
{
    call_fini(call);
}

static void http_reply_finip(struct http_reply *reply)
{
    http_reply_fini(reply);
}

static void text_finip(struct text *t)
{
    text_fini(t);
}

static void client_page_finip(struct client_page *p)
{
    client_page_fini(p);
}

void client_page_fini(struct client_page *p)
{
    for (size_t i = 0; i < p->count; i++) {
        free(p->entries[i].name);
        free(p->entries[i].time);
    }
    free(p->entries);
    free(p->next_token);
    *p = (struct client_page){0};
}

int client_bucket_create(struct client *c, const char *bucket, struct diag *diag)
{
    CLEANUP(call_finip) struct call call;
    CLEANUP(http_reply_finip) struct http_reply reply = {0};
    CLEANUP(text_finip) struct text xml;
    text_init(&xml, LIMIT_XML_LEN_MAX);
    int e = call_init(&call, "PUT", bucket, NULL, diag);
    call.payload_hash = SIG_EMPTY_SHA256;
    char hash[2 * SHA256_LEN + 1];
    /* us-east-1 is the one region that must not be named */
    if (e == 0 && strcmp(c->region, "us-east-1") != 0) {
        xml_root(&xml, "CreateBucketConfiguration");
        xml_str(&xml, "LocationConstraint", c->region);
        xml_close(&xml, "CreateBucketConfiguration");
        sha256_hex(xml.data, xml.len, hash);
        call.payload_hash = hash;
        call.body = xml.data;
        call.body_len = xml.len;
        e = text_error(&xml);
    }
    return e == 0 ? call_do(c, &call, diag, &reply) : e;
}

int client_bucket_delete(struct client *c, const char *bucket, struct diag *diag)
{
    CLEANUP(call_finip) struct call call;
    CLEANUP(http_reply_finip) struct http_reply reply = {0};
    int e = call_init(&call, "DELETE", bucket, NULL, diag);
    call.payload_hash = SIG_EMPTY_SHA256;
    return e == 0 ? call_do(c, &call, diag, &reply) : e;
}

int client_bucket_exists(struct client *c, const char *bucket, struct diag *diag, bool *ret_exists)
{
    CLEANUP(call_finip) struct call call;
    CLEANUP(http_reply_finip) struct http_reply reply = {0};
    int e = call_init(&call, "HEAD", bucket, NULL, diag);
    call.payload_hash = SIG_EMPTY_SHA256;
    if (e == 0)
        e = call_do(c, &call, diag, &reply);
    bool is_answered = e == 0 || reply.status == 404;
    if (is_answered)
        *ret_exists = e == 0;
    return is_answered ? 0 : e;
}

/* ---- listings ---- */

static int bad_listing(struct diag *diag)
{
    return diag_fail(diag, S3R_E_BAD_REPLY, "the reply is no listing");
}

static size_t count_children(const struct xml_node *node, const char *name)
{
    size_t count = 0;
    for (const struct xml_node *n = xml_child(node, name); n != NULL; n = xml_next(n, name))
        count++;
    return count;
}

/* The next row, counted only once it is whole. */
static struct client_entry *next_entry(struct client_page *page)
{
    return &page->entries[page->count];
}

static int take_name(struct client_page *page, const char *text, bool is_url_encoded)
{
    CLEANUP(text_finip) struct text name;
    text_init(&name, LIMIT_XML_LEN_MAX);
    if (!is_url_encoded)
        text_str(&name, text);
    else if (!uri_decode(text, strlen(text), URI_PLUS_IS_BLANK | URI_REFUSE_NUL, &name))
        return S3R_E_BAD_REPLY;
    int e = text_error(&name);
    if (e != 0)
        return e;
    struct client_entry *entry = next_entry(page);
    entry->name_len = name.len;
    entry->name = name.len > 0 ? text_take(&name) : strdup("");
    return entry->name != NULL ? 0 : S3R_E_NOMEM;
}

static int take_entry(struct client_page *page, const struct xml_node *node, bool is_url_encoded)
{
    struct client_entry *entry = next_entry(page);
    bool is_object = strcmp(node->name, "Contents") == 0;
    bool is_bucket = strcmp(node->name, "Bucket") == 0;
    const char *name = xml_child_text(node, is_object ? "Key" : is_bucket ? "Name" : "Prefix");
    const char *time = xml_child_text(node, is_bucket ? "CreationDate" : "LastModified");
    const char *size = xml_child_text(node, "Size");
    const char *etag = xml_child_text(node, "ETag");
    if (name == NULL || (is_object && size == NULL) ||
        (size != NULL && !num_parse_dec(size, strlen(size), LIMIT_OBJECT_LEN_MAX, &entry->len)))
        return S3R_E_BAD_REPLY;
    if (etag == NULL || !etag_unquote(etag, strlen(etag), entry->etag))
        entry->etag[0] = '\0';
    entry->is_prefix = !is_object && !is_bucket;
    entry->time = strdup(time != NULL ? time : "");
    int e = entry->time != NULL ? take_name(page, name, is_url_encoded) : S3R_E_NOMEM;
    if (e != 0) {
        free(entry->time);
        entry->time = NULL;
        return e;
    }
    page->count++;
    return 0;
}

static int take_entries(struct client_page *page, const struct xml_node *parent, const char *name,
                        bool is_url_encoded)
{
    int e = 0;
    for (const struct xml_node *n = parent != NULL ? xml_child(parent, name) : NULL;
         n != NULL && e == 0; n = xml_next(n, name))
        e = take_entry(page, n, is_url_encoded);
    return e;
}

static int allocate_entries(struct client_page *page, size_t count)
{
    page->entries = calloc(count > 0 ? count : 1, sizeof(*page->entries));
    return page->entries != NULL ? 0 : S3R_E_NOMEM;
}

/* Sends, and parses the document whose root must be `root`. */
static int ask_listing(struct client *c, struct call *call, const char *root, struct diag *diag,
                       struct xml_tree **ret_tree)
{
    CLEANUP(http_reply_finip) struct http_reply reply = {0};
    CLEANUP(xml_tree_destroyp) struct xml_tree *tree = NULL;
    call->payload_hash = SIG_EMPTY_SHA256;
    int e = call_do(c, call, diag, &reply);
    if (e != 0)
        return e;
    if (xml_tree_parse(text_cstr(&call->document), call->document.len, NULL, &tree) != 0 ||
        strcmp(xml_tree_root(tree)->name, root) != 0)
        return bad_listing(diag);
    *ret_tree = STEAL(tree);
    return 0;
}

int client_bucket_list(struct client *c, struct diag *diag, struct client_page *ret_page)
{
    CLEANUP(call_finip) struct call call;
    CLEANUP(xml_tree_destroyp) struct xml_tree *tree = NULL;
    CLEANUP(client_page_finip) struct client_page page = {0};
    int e = call_init(&call, "GET", NULL, NULL, diag);
    if (e == 0)
        e = ask_listing(c, &call, "ListAllMyBucketsResult", diag, &tree);
    if (e != 0)
        return e;
    const struct xml_node *buckets = xml_child(xml_tree_root(tree), "Buckets");
    e = allocate_entries(&page, buckets != NULL ? count_children(buckets, "Bucket") : 0);
    if (e == 0)
        e = take_entries(&page, buckets, "Bucket", false);
    if (e != 0)
        return e == S3R_E_BAD_REPLY ? bad_listing(diag) : e;
    *ret_page = page;
    page = (struct client_page){0};
    return 0;
}

/* By their bytes, as S3 orders keys. */
static int compare_names(const void *a, const void *b)
{
    const struct client_entry *x = a, *y = b;
    int order = memcmp(x->name, y->name, min_u64(x->name_len, y->name_len));
    return order != 0 ? order : (x->name_len > y->name_len) - (x->name_len < y->name_len);
}

/* The document has keys and prefixes apart; here they are in one order. */
static int take_page(const struct xml_node *root, struct client_page *page)
{
    const char *encoding = xml_child_text(root, "EncodingType");
    const char *truncated = xml_child_text(root, "IsTruncated");
    const char *next = xml_child_text(root, "NextContinuationToken");
    bool is_url_encoded = encoding != NULL && strcmp(encoding, "url") == 0;
    int e = allocate_entries(page, count_children(root, "Contents") +
                                       count_children(root, "CommonPrefixes"));
    if (e == 0)
        e = take_entries(page, root, "CommonPrefixes", is_url_encoded);
    if (e == 0)
        e = take_entries(page, root, "Contents", is_url_encoded);
    if (e == 0 && page->count > 0)
        qsort(page->entries, page->count, sizeof(*page->entries), compare_names);
    if (e != 0 || truncated == NULL || strcmp(truncated, "true") != 0)
        return e;
    if (next == NULL || next[0] == '\0')
        return S3R_E_BAD_REPLY; /* more is said to come, and no way to it: never a loop */
    page->next_token = strdup(next);
    return page->next_token != NULL ? 0 : S3R_E_NOMEM;
}

int client_object_list(struct client *c, const char *bucket, const char *prefix,
                       const char *delimiter, const char *token, struct diag *diag,
                       struct client_page *ret_page)
{
    return client_object_list_max(c, bucket, prefix, delimiter, token, 0, diag, ret_page);
}

int client_object_list_max(struct client *c, const char *bucket, const char *prefix,
                           const char *delimiter, const char *token, unsigned max,
                           struct diag *diag, struct client_page *ret_page)
{
    char max_text[16];
    snprintf(max_text, sizeof(max_text), "%u", max);
    CLEANUP(call_finip) struct call call;
    CLEANUP(xml_tree_destroyp) struct xml_tree *tree = NULL;
    CLEANUP(client_page_finip) struct client_page page = {0};
    int e = call_init(&call, "GET", bucket, NULL, diag);
    const struct {
        const char *name, *value;
    } rows[] = {{"list-type", "2"},
                {"encoding-type", "url"},
                {"prefix", prefix},
                {"delimiter", delimiter},
                {"max-keys", max > 0 ? max_text : NULL},
                {"continuation-token", token}};
    for (size_t i = 0; i < ARRAY_LEN(rows) && e == 0; i++)
        if (rows[i].value != NULL)
            e = query_add(&call.query, rows[i].name, rows[i].value);
    if (e == 0)
        e = ask_listing(c, &call, "ListBucketResult", diag, &tree);
    if (e == 0)
        e = take_page(xml_tree_root(tree), &page);
    if (e == S3R_E_BAD_REPLY)
        return bad_listing(diag);
    if (e != 0)
        return e;
    if (token != NULL && page.next_token != NULL && strcmp(token, page.next_token) == 0)
        return bad_listing(diag);
    *ret_page = page;
    page = (struct client_page){0};
    return 0;
}
