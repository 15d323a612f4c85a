/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/compare.h"

#include "base/crc64.h"
#include "base/crypto.h"
#include "base/hex.h"
#include "base/limits.h"
#include "base/num.h"
#include "tools/file.h"

#include <string.h>

#define READ_LEN (4 * MIB)

/* All of the file through the thread's buffer, into whichever is not NULL. */
static int digest_file(struct hand *h, int fd, uint64_t len, struct digest *md5, uint64_t *crc,
                       struct diag *diag)
{
    struct client_memory memory;
    int e = hand_memory(h, (size_t)min_u64(len, READ_LEN), diag, &memory);
    for (uint64_t off = 0; e == 0 && off < len;) {
        size_t n = (size_t)min_u64(len - off, READ_LEN);
        int error = is_stopped() ? 0 : read_at(fd, memory.ptr, n, off);
        if (error != 0)
            return diag_fail(diag, S3R_E_INVALID_ARGUMENT, "%s", errno_text(error));
        if (is_stopped())
            return S3R_E_CANCELLED;
        if (md5 != NULL)
            digest_update(md5, memory.ptr, n);
        else
            *crc = crc64_update(*crc, memory.ptr, n);
        off += n;
    }
    return e;
}

static int compare_md5(struct hand *h, int fd, uint64_t len, const char *etag, struct diag *diag,
                       bool *ret_is_same)
{
    unsigned char wanted[MD5_LEN], is[DIGEST_LEN_MAX];
    CLEANUP(digest_destroyp) struct digest *md5 = NULL;
    if (!hex_decode(etag, strlen(etag), wanted, sizeof(wanted))) {
        *ret_is_same = false;
        return 0;
    }
    int e = digest_create(DIGEST_MD5, &md5);
    if (e == 0)
        e = digest_file(h, fd, len, md5, NULL, diag);
    if (e != 0)
        return e;
    digest_final(md5, is);
    *ret_is_same = memcmp(wanted, is, sizeof(wanted)) == 0;
    return 0;
}

int compare_content(struct hand *h, int fd, uint64_t len, const char *bucket, const char *key,
                    struct diag *diag, bool *ret_is_same)
{
    struct client_result about = {0};
    uint64_t crc = 0;
    int e = client_stat(hand_cli(h)->client, bucket, key, diag, &about);
    hand_asked(h, &about);
    bool has_crc64 = about.has_crc64, is_as_long = about.object_len == len;
    uint64_t wanted = about.crc64;
    char etag[ETAG_SIZE];
    memcpy(etag, about.etag, sizeof(etag));
    client_result_fini(&about);
    if (e != 0)
        return e;
    if (!is_as_long) {
        *ret_is_same = false;
        return 0;
    }
    if (!has_crc64)
        return compare_md5(h, fd, len, etag, diag, ret_is_same);
    e = digest_file(h, fd, len, NULL, &crc, diag);
    if (e == 0)
        *ret_is_same = crc == wanted;
    return e;
}
