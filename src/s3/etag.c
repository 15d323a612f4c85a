/* SPDX-License-Identifier: Apache-2.0 */
#include "s3/etag.h"

#include "base/hex.h"

#include <stdio.h>
#include <string.h>

bool etag_unquote(const char *text, size_t len, char out[ETAG_SIZE])
{
    if (len >= 2 && text[0] == '"' && text[len - 1] == '"') {
        text++;
        len -= 2;
    }
    if (len == 0 || len >= ETAG_SIZE)
        return false;
    for (size_t i = 0; i < len; i++)
        if (text[i] <= ' ' || text[i] > '~' || text[i] == '"')
            return false;
    memcpy(out, text, len);
    out[len] = '\0';
    return true;
}

void etag_quote(const char *etag, char out[ETAG_SIZE + 2])
{
    snprintf(out, ETAG_SIZE + 2, "\"%.*s\"", ETAG_SIZE - 1, etag);
}

int etag_join_init(struct etag_join *j)
{
    struct digest *md5;
    int rc = digest_create(DIGEST_MD5, &md5);
    if (rc == 0)
        *j = (struct etag_join){.md5 = md5};
    return rc;
}

void etag_join_fini(struct etag_join *j)
{
    digest_destroy(j->md5);
    *j = (struct etag_join){0};
}

bool etag_join_add(struct etag_join *j, const char *part_etag)
{
    unsigned char bytes[MD5_LEN];
    if (!hex_decode(part_etag, strlen(part_etag), bytes, sizeof bytes))
        return false;
    digest_update(j->md5, bytes, sizeof bytes);
    j->parts++;
    return true;
}

void etag_join_final(struct etag_join *j, char out[ETAG_SIZE])
{
    unsigned char sum[DIGEST_LEN_MAX];
    char hex[2 * MD5_LEN + 1];
    digest_final(j->md5, sum);
    hex_encode(sum, MD5_LEN, hex);
    snprintf(out, ETAG_SIZE, "%s-%u", hex, j->parts);
}
