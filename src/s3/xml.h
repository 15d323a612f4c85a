/* SPDX-License-Identifier: Apache-2.0 */
/* xml.h - writing XML.
 * Does:     elements and escaped text on a `struct text`; the S3 error document. The result is
 *           always valid XML 1.0: what XML cannot carry (most control characters, U+FFFE, U+FFFF,
 *           bytes that are not UTF-8) becomes U+FFFD; with encoding-type=url keys are
 *           percent-encoded instead and nothing is lost.
 * Not here: reading (s3/xml_read.h); which documents there are (server).
 * Units:    bytes.
 * Owns:     nothing.
 * Threads:  owner of the text.
 * Errors:   the text's.
 * Limits:   the text's. */
#ifndef S3R_S3_XML_H
#define S3R_S3_XML_H

#include "base/attr.h"
#include "base/error.h"
#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define XML_NAMESPACE "http://s3.amazonaws.com/doc/2006-03-01/"

/* The XML declaration and the root element with S3's namespace. */
void xml_root(struct text *t, const char *name);
void xml_open(struct text *t, const char *name);
void xml_close(struct text *t, const char *name);
/* <name>value</name>, escaped */
void xml_str(struct text *t, const char *name, const char *value);
void xml_bytes(struct text *t, const char *name, const char *value, size_t len);
void xml_u64(struct text *t, const char *name, uint64_t value);
void xml_bool(struct text *t, const char *name, bool value);
/* `"etag"` */
void xml_etag(struct text *t, const char *name, const char *etag);
/* A key, prefix, delimiter or marker of a listing: percent-encoded when `is_url_encoded`. */
void xml_key(struct text *t, const char *name, const char *key, size_t len, bool is_url_encoded);
void xml_escape(struct text *t, const char *bytes, size_t len);

struct xml_field {
    const char *name, *value;
};

/* <Error>: Code, Message, Resource, RequestId, then the extra fields (BucketName, Key, Region,
 * ServerTime, ...). */
void xml_error(struct text *t, int code, const struct diag *diag, const char *resource,
               const char *request_id, const struct xml_field *extra, size_t extra_count);

#endif
