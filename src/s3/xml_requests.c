/* SPDX-License-Identifier: Apache-2.0 */
#include "s3/xml_read.h"

#include "base/num.h"
#include "s3/names.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

static int check_root(const struct xml_tree *tree, const char *name, struct diag *diag)
{
    if (strcmp(xml_tree_root(tree)->name, name) != 0)
        return diag_fail(diag, S3R_E_MALFORMED_XML, "the root element must be %s", name);
    return 0;
}

static size_t count_children(const struct xml_node *node, const char *name)
{
    size_t count = 0;
    for (const struct xml_node *c = xml_child(node, name); c; c = xml_next(c, name))
        count++;
    return count;
}

/* DeleteObjects */

void delete_request_fini(struct delete_request *r)
{
    for (size_t i = 0; i < r->count; i++) {
        free(r->keys[i].key);
        free(r->keys[i].version);
    }
    free(r->keys);
    *r = (struct delete_request){0};
}

static int read_delete_key(const struct xml_node *object, struct diag *diag,
                           struct delete_key *ret_key)
{
    const char *key = xml_child_text(object, "Key"), *version = xml_child_text(object, "VersionId");
    const char *etag = xml_child_text(object, "ETag");
    if (!key || !key[0] || count_children(object, "Key") != 1)
        return diag_fail(diag, S3R_E_MALFORMED_XML, "each Object needs one Key that is not empty");
    int rc = key_check(key, strlen(key), diag);
    if (rc)
        return rc;
    if (etag && !etag_unquote(etag, strlen(etag), ret_key->etag))
        return diag_fail(diag, S3R_E_MALFORMED_XML, "an ETag is not valid");
    ret_key->key = strdup(key);
    ret_key->key_len = strlen(key);
    if (version && version[0] && !(ret_key->version = strdup(version)))
        return S3R_E_NOMEM;
    return ret_key->key ? 0 : S3R_E_NOMEM;
}

static int read_quiet(const struct xml_node *root, struct diag *diag, bool *ret_is_quiet)
{
    const char *quiet = xml_child_text(root, "Quiet");
    *ret_is_quiet = quiet && strcasecmp(quiet, "true") == 0;
    if (quiet && quiet[0] && !*ret_is_quiet && strcasecmp(quiet, "false") != 0)
        return diag_fail(diag, S3R_E_MALFORMED_XML, "Quiet must be true or false");
    return 0;
}

int delete_request_parse(const void *bytes, size_t len, struct diag *diag,
                         struct delete_request *ret_request)
{
    CLEANUP(xml_tree_destroyp) struct xml_tree *tree = NULL;
    CLEANUP(delete_request_fini) struct delete_request r = {0};
    int rc = xml_tree_parse(bytes, len, diag, &tree);
    if (rc == 0)
        rc = check_root(tree, "Delete", diag);
    if (rc)
        return rc;
    const struct xml_node *root = xml_tree_root(tree);
    size_t count = count_children(root, "Object");
    if (count == 0 || count > LIMIT_DELETE_KEYS_MAX)
        return diag_fail(diag, S3R_E_MALFORMED_XML, "Delete takes 1 to %d objects, not %zu",
                         LIMIT_DELETE_KEYS_MAX, count);
    rc = read_quiet(root, diag, &r.is_quiet);
    if (rc)
        return rc;
    r.keys = calloc(count, sizeof *r.keys);
    if (!r.keys)
        return S3R_E_NOMEM;
    for (const struct xml_node *o = xml_child(root, "Object"); o; o = xml_next(o, "Object")) {
        rc = read_delete_key(o, diag, &r.keys[r.count++]);
        if (rc)
            return rc;
    }
    *ret_request = r;
    r = (struct delete_request){0};
    return 0;
}

/* CompleteMultipartUpload */

void complete_request_fini(struct complete_request *r)
{
    free(r->parts);
    *r = (struct complete_request){0};
}

static int read_part_checksum(const struct xml_node *part, struct diag *diag,
                              struct checksum_value *ret_value)
{
    for (const struct xml_node *c = part->child; c; c = c->next) {
        if (strncmp(c->name, "Checksum", 8) != 0)
            continue;
        enum checksum_kind kind = checksum_kind_of_element(c->name);
        if (ret_value->kind || kind == CHECKSUM_NONE ||
            !checksum_parse(kind, c->text, false, ret_value))
            return diag_fail(diag, S3R_E_MALFORMED_XML,
                             "a Part has more than one checksum, or one that is not valid");
    }
    return 0;
}

static int read_part(const struct xml_node *part, struct diag *diag, struct complete_part *ret_part)
{
    const char *number = xml_child_text(part, "PartNumber"), *etag = xml_child_text(part, "ETag");
    uint64_t n;
    if (!number || !etag)
        return diag_fail(diag, S3R_E_MALFORMED_XML, "each Part needs PartNumber and ETag");
    if (!num_parse_dec(number, strlen(number), LIMIT_PARTS_MAX, &n) || n == 0)
        return diag_fail(diag, S3R_E_INVALID_ARGUMENT, "PartNumber must be 1 to %d",
                         LIMIT_PARTS_MAX);
    if (!etag_unquote(etag, strlen(etag), ret_part->etag))
        return diag_fail(diag, S3R_E_MALFORMED_XML, "the ETag of part %u is not valid",
                         (unsigned)n);
    ret_part->number = (unsigned)n;
    return read_part_checksum(part, diag, &ret_part->checksum);
}

static int read_parts(const struct xml_node *root, struct diag *diag, struct complete_request *r)
{
    for (const struct xml_node *p = xml_child(root, "Part"); p; p = xml_next(p, "Part")) {
        struct complete_part *part = &r->parts[r->count];
        int rc = read_part(p, diag, part);
        if (rc)
            return rc;
        if (r->count && part->number <= part[-1].number)
            return diag_fail(diag, S3R_E_INVALID_PART_ORDER,
                             "part %u follows part %u; numbers must ascend", part->number,
                             part[-1].number);
        r->count++;
    }
    return 0;
}

int complete_request_parse(const void *bytes, size_t len, struct diag *diag,
                           struct complete_request *ret_request)
{
    CLEANUP(xml_tree_destroyp) struct xml_tree *tree = NULL;
    CLEANUP(complete_request_fini) struct complete_request r = {0};
    int rc = xml_tree_parse(bytes, len, diag, &tree);
    if (rc == 0)
        rc = check_root(tree, "CompleteMultipartUpload", diag);
    if (rc)
        return rc;
    size_t count = count_children(xml_tree_root(tree), "Part");
    if (count == 0)
        return diag_fail(diag, S3R_E_MALFORMED_XML, "at least one Part must be listed");
    r.parts = calloc(count, sizeof *r.parts);
    if (!r.parts)
        return S3R_E_NOMEM;
    rc = read_parts(xml_tree_root(tree), diag, &r);
    if (rc)
        return rc;
    *ret_request = r;
    r = (struct complete_request){0};
    return 0;
}

/* CreateBucketConfiguration */

int create_bucket_parse(const void *bytes, size_t len, struct diag *diag,
                        char ret_location[LIMIT_REGION_LEN_MAX + 1])
{
    CLEANUP(xml_tree_destroyp) struct xml_tree *tree = NULL;
    const char *location = NULL;
    if (len) {
        int rc = xml_tree_parse(bytes, len, diag, &tree);
        if (rc == 0)
            rc = check_root(tree, "CreateBucketConfiguration", diag);
        if (rc)
            return rc;
        location = xml_child_text(xml_tree_root(tree), "LocationConstraint");
    }
    location = location ? location : "";
    if (strlen(location) > LIMIT_REGION_LEN_MAX)
        return diag_fail(diag, S3R_E_MALFORMED_XML, "LocationConstraint is too long");
    memcpy(ret_location, location, strlen(location) + 1);
    return 0;
}
