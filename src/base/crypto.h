/* SPDX-License-Identifier: Apache-2.0 */
/* crypto.h - digests, HMAC, random bytes, comparison in constant time (OpenSSL's libcrypto).
 * Does:     streaming MD5, SHA-1, SHA-256; HMAC-SHA256; getrandom.
 * Not here: CRCs (base/crc64.h, s3/checksum.h); SigV4 (s3/sigv4.h).
 * Units:    bytes.
 * Owns:     a digest is the caller's until digest_destroy().
 * Threads:  owner for one digest, any otherwise.
 * Errors:   S3R_E_NOMEM from digest_create(); a libcrypto that cannot hash is a broken
 *           installation: updates and finals abort the process rather than give a wrong digest.
 * Limits:   DIGEST_LEN_MAX. */
#ifndef S3R_BASE_CRYPTO_H
#define S3R_BASE_CRYPTO_H

#include "base/attr.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MD5_LEN 16
#define SHA1_LEN 20
#define SHA256_LEN 32
#define DIGEST_LEN_MAX 32

enum digest_kind { DIGEST_MD5, DIGEST_SHA1, DIGEST_SHA256 };
struct digest;

int digest_create(enum digest_kind kind, struct digest **ret_digest) MUST_CHECK;
void digest_destroy(struct digest *d);
void digest_destroyp(struct digest **d);
void digest_update(struct digest *d, const void *bytes, size_t len);
/* Writes the digest and returns its length; the digest can then be used anew from the start. */
size_t digest_final(struct digest *d, unsigned char out[DIGEST_LEN_MAX]);

void sha256(const void *bytes, size_t len, unsigned char out[SHA256_LEN]);
/* With a NUL. */
void sha256_hex(const void *bytes, size_t len, char out[2 * SHA256_LEN + 1]);
void md5(const void *bytes, size_t len, unsigned char out[MD5_LEN]);
void hmac_sha256(const void *key, size_t key_len, const void *bytes, size_t len,
                 unsigned char out[SHA256_LEN]);
/* From getrandom(2); aborts if the kernel has none to give, which it has from early boot on. */
void random_bytes(void *out, size_t len);
uint64_t random_u64(void);
/* Takes the same time whatever the bytes are. */
bool equal_secret(const void *a, const void *b, size_t len);

#endif
