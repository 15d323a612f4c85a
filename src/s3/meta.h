/* SPDX-License-Identifier: Apache-2.0 */
/* meta.h - what a client wants kept with an object.
 * Does:     collects x-amz-meta-* and Cache-Control, Content-Disposition, Content-Encoding,
 *           Content-Language, Content-Type, Expires.
 * Not here: tags, retention, encryption; the response-* overrides (server); the bytes that the
 *           store keeps (store/record.h).
 * Units:    bytes.
 * Owns:     results are the caller's `struct headers`.
 * Threads:  any.
 * Errors:   S3R_E_METADATA_TOO_LARGE, S3R_E_INVALID_ARGUMENT, S3R_E_NOMEM.
 * Limits:   LIMIT_METADATA_LEN_MAX bytes of user metadata: names without x-amz-meta- and values. */
#ifndef S3R_S3_META_H
#define S3R_S3_META_H

#include "base/attr.h"
#include "base/error.h"
#include "s3/headers.h"

#define META_PREFIX "x-amz-meta-"
/* For an object that was stored without one. */
#define META_CONTENT_TYPE_DEFAULT "binary/octet-stream"

/* From a request. `aws-chunked` is taken out of Content-Encoding; a user metadatum that comes
 * several times becomes one, joined by commas; values keep their bytes. */
int meta_collect(const struct headers *request, struct diag *diag,
                 struct headers *ret_meta) MUST_CHECK;

#endif
