/* SPDX-License-Identifier: Apache-2.0 */
/* etag.h - entity tags.
 * Does:     takes quotes off, puts them on, makes the ETag of a multipart object.
 * Not here: lists of ETags in conditions (s3/cond.h).
 * Units:    bytes.
 * Owns:     nothing; etag_join owns a digest between init and fini.
 * Threads:  owner.
 * Errors:   false for text that is no ETag; S3R_E_NOMEM.
 * Limits:   ETAG_SIZE with the NUL. */
#ifndef S3R_S3_ETAG_H
#define S3R_S3_ETAG_H

#include "base/attr.h"
#include "base/crypto.h"

#include <stdbool.h>
#include <stddef.h>

/* 32 hex digits, "-10000", NUL, and room for other servers' */
#define ETAG_SIZE 72

/* `"x"` or `x`: quotes on both sides or none; no weak mark. */
bool etag_unquote(const char *text, size_t len, char out[ETAG_SIZE]) MUST_CHECK;
/* `"x"` */
void etag_quote(const char *etag, char out[ETAG_SIZE + 2]);

/* The MD5 of the parts' 16 bytes each, "-N". A part's ETag is 32 hex digits, whatever they mean. */
struct etag_join {
    struct digest *md5;
    unsigned parts;
};
int etag_join_init(struct etag_join *j) MUST_CHECK;
void etag_join_fini(struct etag_join *j);
bool etag_join_add(struct etag_join *j, const char *part_etag) MUST_CHECK;
void etag_join_final(struct etag_join *j, char out[ETAG_SIZE]);

#endif
