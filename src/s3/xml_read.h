/* SPDX-License-Identifier: Apache-2.0 */
/* xml_read.h - reading XML from outside, bounded.
 * Does:     a document as a small tree (libxml2's SAX parser; no network, no DTD, hence no
 *           entities but the five of XML); the request bodies that S3 takes.
 * Not here: writing (s3/xml.h); the HTTP body (s3/payload.h).
 * Units:    bytes.
 * Owns:     a tree or result owns all its text, until xml_tree_destroy() or its fini().
 * Threads:  any; owner for one result.
 * Errors:   S3R_E_MALFORMED_XML (also over a limit), S3R_E_INVALID_ARGUMENT,
 *           S3R_E_INVALID_PART_ORDER, S3R_E_NOMEM.
 * Limits:   LIMIT_XML_REPLY_LEN_MAX, LIMIT_XML_DEPTH_MAX, LIMIT_XML_NODES_MAX,
 * LIMIT_DELETE_KEYS_MAX, LIMIT_PARTS_MAX. */
#ifndef S3R_S3_XML_READ_H
#define S3R_S3_XML_READ_H

#include "base/attr.h"
#include "base/error.h"
#include "base/limits.h"
#include "s3/checksum.h"
#include "s3/etag.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct xml_node {
    const char *name; /* without a namespace prefix */
    const char *text; /* all character data directly inside, "" when none; without NUL */
    struct xml_node *child, *next;
};

struct xml_tree;
int xml_tree_parse(const void *bytes, size_t len, struct diag *diag,
                   struct xml_tree **ret_tree) MUST_CHECK;
void xml_tree_destroy(struct xml_tree *tree);
void xml_tree_destroyp(struct xml_tree **tree);
const struct xml_node *xml_tree_root(const struct xml_tree *tree);
/* The first child (or the next sibling after `after`) called `name`; NULL when there is none. */
const struct xml_node *xml_child(const struct xml_node *node, const char *name);
const struct xml_node *xml_next(const struct xml_node *after, const char *name);
/* The text of the first child called `name`; NULL when there is none. */
const char *xml_child_text(const struct xml_node *node, const char *name);

struct delete_key {
    char *key;
    size_t key_len;
    char *version;        /* NULL for none */
    char etag[ETAG_SIZE]; /* "" for none */
};
/* DeleteObjects. Keys that are no valid keys are an error of the whole request. */
struct delete_request {
    bool is_quiet;
    struct delete_key *keys;
    size_t count;
};
int delete_request_parse(const void *bytes, size_t len, struct diag *diag,
                         struct delete_request *ret_request) MUST_CHECK;
void delete_request_fini(struct delete_request *r);

struct complete_part {
    unsigned number;
    char etag[ETAG_SIZE]; /* without quotes */
    struct checksum_value checksum;
};
/* CompleteMultipartUpload: at least one part, ascending. */
struct complete_request {
    struct complete_part *parts;
    size_t count;
};
int complete_request_parse(const void *bytes, size_t len, struct diag *diag,
                           struct complete_request *ret_request) MUST_CHECK;
void complete_request_fini(struct complete_request *r);

/* CreateBucketConfiguration; an empty body or element gives "". */
int create_bucket_parse(const void *bytes, size_t len, struct diag *diag,
                        char ret_location[LIMIT_REGION_LEN_MAX + 1]) MUST_CHECK;

#endif
