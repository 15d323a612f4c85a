/* SPDX-License-Identifier: Apache-2.0 */
/* range.h - byte ranges of GET and of UploadPartCopy.
 * Does:     a single range of RFC 9110; Content-Range. As S3: a Range that does not parse, has
 *           another unit or several ranges is ignored.
 * Not here: partNumber (the store knows the parts).
 * Units:    bytes; `off`, `len`.
 * Owns:     nothing.
 * Threads:  any.
 * Errors:   S3R_E_INVALID_RANGE: well-formed but outside the object; S3R_E_INVALID_ARGUMENT for a
 *           copy range that does not parse or is not wholly inside.
 * Limits:   LIMIT_RANGE_LEN_MAX bytes of text. */
#ifndef S3R_S3_RANGE_H
#define S3R_S3_RANGE_H

#include "base/attr.h"
#include "base/error.h"
#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

struct range {
    bool is_partial; /* answer 206 with Content-Range */
    uint64_t off, len;
};

/* `value` NULL: the whole. An open end is clamped; on an empty object every range is outside. */
int range_parse(const char *value, uint64_t object_len, struct range *ret_range) MUST_CHECK;
/* x-amz-copy-source-range: "bytes=first-last" only, wholly inside. */
int range_parse_copy(const char *value, uint64_t object_len, struct diag *diag,
                     struct range *ret_range) MUST_CHECK;
/* "bytes 0-9/100" */
void range_print(struct text *out, const struct range *range, uint64_t object_len);
/* The value of a Range header, "bytes=0-9"; `len` at least 1. */
void range_print_request(struct text *out, uint64_t off, uint64_t len);
/* A reply's Content-Range; false unless exactly "bytes A-B/TOTAL". */
bool range_parse_content_range(const char *value, struct range *ret_range,
                               uint64_t *ret_object_len) MUST_CHECK;

#endif
