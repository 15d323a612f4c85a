/* SPDX-License-Identifier: Apache-2.0 */
/* uri.h - paths and queries as S3 takes them.
 * Does:     percent-encoding both ways; the query as a list; its canonical form for SigV4; the
 *           split of a raw path into bucket and key, before any decoding, so that `%2F` in the
 *           bucket's place never becomes a separator. Keys are verbatim: `a//b`, `a/./b`, `../x`
 *           are names.
 * Not here: signatures (s3/sigv4.h).
 * Units:    bytes.
 * Owns:     query and target own copies until their fini().
 * Threads:  owner.
 * Errors:   S3R_E_INVALID_URI for a bad %XX, a NUL, a key that is not UTF-8 or an empty bucket
 *           before a key; those of names.h; S3R_E_NOMEM.
 * Limits:   LIMIT_TARGET_LEN_MAX bytes raw, LIMIT_QUERY_PARAMS_MAX parameters. */
#ifndef S3R_S3_URI_H
#define S3R_S3_URI_H

#include "base/attr.h"
#include "base/error.h"
#include "base/limits.h"
#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>

enum uri_flags {
    URI_PLUS_IS_BLANK = 1, /* in queries; in paths a plus is a plus */
    URI_REFUSE_NUL = 2,
};

/* Appends the decoded bytes to `out`. False for a bad %XX or a refused NUL. */
bool uri_decode(const char *s, size_t len, unsigned flags, struct text *out) MUST_CHECK;
/* Appends; only RFC 3986 unreserved characters stay, and '/' when `is_slash_kept`. */
void uri_encode(struct text *out, const char *bytes, size_t len, bool is_slash_kept);

struct query_param {
    char *name, *value; /* decoded; value is "" when there is none */
    bool has_value;     /* `?acl` has none, `?acl=` has an empty one */
};

/* All zeroes is an empty query. */
struct query {
    struct query_param *rows;
    size_t count, cap;
};

void query_fini(struct query *q);
/* `raw` is what follows the '?', NULL or empty for none. Order and repetitions are kept. */
int query_parse(const char *raw, size_t len, struct diag *diag, struct query *ret_query) MUST_CHECK;
/* Takes plain text; `value` NULL for a parameter without one. */
int query_add(struct query *q, const char *name, const char *value) MUST_CHECK;
bool query_has(const struct query *q, const char *name);
/* The first value, "" when it has none; NULL when the parameter is absent. */
const char *query_get(const struct query *q, const char *name);
/* Appends the canonical query: encoded, sorted by name and then value, each with '='. A
 * parameter called `left_out` (may be NULL) is skipped. */
int query_canonical(const struct query *q, const char *left_out, struct text *out) MUST_CHECK;

/* What a request is about. All zeroes is the service itself ("/"). */
struct target {
    char *bucket, *key; /* NULL where absent; never empty */
    size_t key_len;
};

void target_fini(struct target *t);
/* `raw` is the undecoded path without its query. `host_bucket`: the bucket that the Host header
 * named (then the whole path is the key), or NULL. Names are checked by names.h. */
int target_parse(const char *raw, size_t len, const char *host_bucket, struct diag *diag,
                 struct target *ret_target) MUST_CHECK;
/* x-amz-copy-source: `b/k` or `/b/k`, percent-decoded (a plus is a plus), `?versionId=` after the
 * key. `ret_version` is malloc'd, NULL when there is none. */
int copy_source_parse(const char *value, struct diag *diag, struct target *ret_target,
                      char **ret_version) MUST_CHECK;
/* "/b/k", encoded; without key "/b"; bucket NULL: "/". */
void target_print(struct text *out, const char *bucket, const char *key, size_t key_len);

/* Virtual-host style: `host` as sent (port and letter case allowed), `domain` the operator's base
 * domain. True when the host is `<bucket>.<domain>`; the bucket in lower case. */
bool host_bucket(const char *host, const char *domain,
                 char ret_bucket[LIMIT_BUCKET_LEN_MAX + 1]) MUST_CHECK;

#endif
