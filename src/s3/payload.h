/* SPDX-License-Identifier: Apache-2.0 */
/* payload.h - the body of a PUT from raw bytes to verified object bytes.
 * Does:     decides from the headers what has to arrive and what has to match; undoes aws-chunked;
 *           computes MD5, CRC-64/NVME, the client's checksum, SHA-256 as needed; verifies all.
 * Not here: reading sockets; writing objects; the order of answers (server).
 * Units:    bytes.
 * Owns:     a payload owns its digests; bytes pass to the sink, uncopied.
 * Threads:  owner; nothing is kept between calls but state, so a suspended connection goes on
 *           whenever it has bytes.
 * Errors:   payload_create(): S3R_E_MISSING_LENGTH, S3R_E_INVALID_DIGEST, S3R_E_INVALID_REQUEST,
 *           S3R_E_INVALID_ARGUMENT, S3R_E_ENTITY_TOO_LARGE, S3R_E_MALFORMED_TRAILER. Later: those
 * of chunked.h, S3R_E_INCOMPLETE_BODY, S3R_E_BAD_DIGEST, S3R_E_SHA256_MISMATCH, what the sink
 *           returns. An error is final.
 * Limits:   `len_max` given at creation. */
#ifndef S3R_S3_PAYLOAD_H
#define S3R_S3_PAYLOAD_H

#include "base/attr.h"
#include "base/crypto.h"
#include "base/error.h"
#include "s3/checksum.h"
#include "s3/chunked.h"
#include "s3/headers.h"
#include "s3/sigv4.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum payload_flags {
    PAYLOAD_NO_MD5 = 1,           /* do not compute one unless Content-MD5 demands it */
    PAYLOAD_NO_CRC64 = 2,         /* likewise CRC-64/NVME (bodies that are requests, not objects) */
    PAYLOAD_FOREIGN_CHECKSUM = 4, /* x-amz-checksum-* in the headers is of something else */
};

struct payload_rules {
    const struct sig_auth *auth;   /* NULL: anonymous, unsigned */
    const struct sig_chain *chain; /* for signed chunks */
    uint64_t len_max;
    unsigned flags;
    enum checksum_kind extra; /* compute this one too (an upload's algorithm), or CHECKSUM_NONE */
};

struct payload_result {
    uint64_t len;
    bool has_md5;
    unsigned char md5[MD5_LEN];
    bool has_crc64;
    uint64_t crc64;
    struct checksum_value
        checksum;                /* what the client sent (header or trailer), verified; or none */
    struct checksum_value extra; /* rules.extra, computed; or none */
};

struct payload;

/* Looks at Content-Length, x-amz-decoded-content-length, Content-Encoding, Content-MD5,
 * x-amz-checksum-*, x-amz-sdk-checksum-algorithm, x-amz-trailer. */
int payload_create(const struct headers *headers, const struct payload_rules *rules,
                   struct diag *diag, struct payload **ret_payload) MUST_CHECK;
/* For bytes that do not come through HTTP (RDMA): `len` of them, through payload_feed_plain().
 * Content-MD5 and x-amz-checksum-* are checked against them; trailers and aws-chunked are errors.
 */
int payload_create_plain(const struct headers *headers, const struct payload_rules *rules,
                         uint64_t len, struct diag *diag, struct payload **ret_payload) MUST_CHECK;
void payload_destroy(struct payload *p);
void payload_destroyp(struct payload **p);

/* How many object bytes will come. */
uint64_t payload_len(const struct payload *p);
/* The algorithm of the client's checksum, known before the body; CHECKSUM_NONE for none. */
enum checksum_kind payload_checksum_kind(const struct payload *p);
/* Has all arrived? The end is decided by count and framing, never by an empty piece. */
bool payload_is_complete(const struct payload *p);

/* Raw body bytes as they arrive, any split; object bytes go to the sink. */
int payload_feed(struct payload *p, const void *bytes, size_t len, struct diag *diag,
                 bytes_sink_fn *sink, void *sink_arg) MUST_CHECK;
/* Object bytes, in order, that are already where they belong: only hashed. */
int payload_feed_plain(struct payload *p, const void *bytes, size_t len,
                       struct diag *diag) MUST_CHECK;
/* Verifies everything; only after this returned 0 may the object be committed. */
int payload_finish(struct payload *p, struct diag *diag,
                   struct payload_result *ret_result) MUST_CHECK;

#endif
