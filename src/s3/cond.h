/* SPDX-License-Identifier: Apache-2.0 */
/* cond.h - preconditions, parsed once and judged where the answer is certain.
 * Does:     If-Match, If-None-Match, If-Modified-Since, If-Unmodified-Since with the precedence of
 *           RFC 9110 13.2.2, for reads, copy sources and writes.
 * Not here: locking: the store judges write conditions under the key's lock.
 * Units:    seconds since the epoch.
 * Owns:     copies of the ETag lists, until cond_fini().
 * Threads:  owner to build, any to judge.
 * Errors:   judging a read: S3R_E_PRECONDITION, S3R_E_NOT_MODIFIED; a copy source:
 *           S3R_E_PRECONDITION; a write: S3R_E_PRECONDITION, and S3R_E_NO_SUCH_KEY for If-Match
 *           without an object. Parsing: S3R_E_NOMEM; for writes S3R_E_UNSUPPORTED where S3 has no
 *           such condition.
 * Limits:   none beyond the header section's. */
#ifndef S3R_S3_COND_H
#define S3R_S3_COND_H

#include "base/attr.h"
#include "base/error.h"
#include "s3/headers.h"

#include <stdbool.h>
#include <stdint.h>

/* All zeroes: no condition. */
struct cond {
    char *match, *none_match; /* the lists as sent; NULL for none */
    bool has_modified_since, has_unmodified_since;
    int64_t modified_since_s, unmodified_since_s;
};

/* What is there; `etag` without quotes. */
struct cond_object {
    bool exists;
    const char *etag;
    int64_t mtime_s;
};

void cond_fini(struct cond *c);
bool cond_is_empty(const struct cond *c);

/* A date that does not parse is no condition (RFC 9110). */
int cond_parse_read(const struct headers *headers, struct cond *ret_cond) MUST_CHECK;
/* x-amz-copy-source-if-* */
int cond_parse_copy(const struct headers *headers, struct cond *ret_cond) MUST_CHECK;
/* If-None-Match: * and If-Match: one ETag. */
int cond_parse_write(const struct headers *headers, struct diag *diag,
                     struct cond *ret_cond) MUST_CHECK;

int cond_judge_read(const struct cond *c, const struct cond_object *object) MUST_CHECK;
int cond_judge_copy(const struct cond *c, const struct cond_object *object) MUST_CHECK;
int cond_judge_write(const struct cond *c, const struct cond_object *object) MUST_CHECK;

/* If-Range: is the Range header to be obeyed? `value` NULL: yes. */
bool cond_range_applies(const char *value, const struct cond_object *object);

#endif
