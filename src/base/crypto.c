/* SPDX-License-Identifier: Apache-2.0 */
#include "base/crypto.h"

#include "base/error.h"
#include "base/hex.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdlib.h>
#include <sys/random.h>

struct digest {
    const EVP_MD *md;
    EVP_MD_CTX *ctx;
};

static void must(int ok)
{
    if (ok != 1)
        abort();
}

int digest_create(enum digest_kind kind, struct digest **ret_digest)
{
    CLEANUP(digest_destroyp) struct digest *d = calloc(1, sizeof *d);
    if (!d)
        return S3R_E_NOMEM;
    d->md = kind == DIGEST_MD5 ? EVP_md5() : kind == DIGEST_SHA1 ? EVP_sha1() : EVP_sha256();
    d->ctx = EVP_MD_CTX_new();
    if (!d->ctx || EVP_DigestInit_ex(d->ctx, d->md, NULL) != 1)
        return S3R_E_NOMEM;
    *ret_digest = STEAL(d);
    return 0;
}

void digest_destroy(struct digest *d)
{
    if (!d)
        return;
    EVP_MD_CTX_free(d->ctx);
    free(d);
}

void digest_destroyp(struct digest **d)
{
    digest_destroy(*d);
}

void digest_update(struct digest *d, const void *bytes, size_t len)
{
    must(EVP_DigestUpdate(d->ctx, bytes, len));
}

size_t digest_final(struct digest *d, unsigned char out[DIGEST_LEN_MAX])
{
    unsigned len = 0;
    must(EVP_DigestFinal_ex(d->ctx, out, &len));
    must(EVP_DigestInit_ex(d->ctx, d->md, NULL));
    return len;
}

void sha256(const void *bytes, size_t len, unsigned char out[SHA256_LEN])
{
    must(EVP_Digest(bytes, len, out, NULL, EVP_sha256(), NULL));
}

void sha256_hex(const void *bytes, size_t len, char out[2 * SHA256_LEN + 1])
{
    unsigned char sum[SHA256_LEN];
    sha256(bytes, len, sum);
    hex_encode(sum, sizeof sum, out);
}

void md5(const void *bytes, size_t len, unsigned char out[MD5_LEN])
{
    must(EVP_Digest(bytes, len, out, NULL, EVP_md5(), NULL));
}

void hmac_sha256(const void *key, size_t key_len, const void *bytes, size_t len,
                 unsigned char out[SHA256_LEN])
{
    must(HMAC(EVP_sha256(), key, (int)key_len, bytes, len, out, NULL) != NULL);
}

void random_bytes(void *out, size_t len)
{
    unsigned char *p = out;
    while (len) {
        ssize_t n = getrandom(p, len, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            abort();
        p += n;
        len -= (size_t)n;
    }
}

uint64_t random_u64(void)
{
    uint64_t n;
    random_bytes(&n, sizeof n);
    return n;
}

bool equal_secret(const void *a, const void *b, size_t len)
{
    return CRYPTO_memcmp(a, b, len) == 0;
}
