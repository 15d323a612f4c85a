/* SPDX-License-Identifier: Apache-2.0 */
#include "s3/checksum.h"

#include "base/crc64.h"
#include "base/crypto.h"
#include "base/limits.h"
#include "base/num.h"
#include "s3/crc32c.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <zlib.h>

_Static_assert(CHECKSUM_LEN_MAX >= DIGEST_LEN_MAX, "a digest fits a value");

static const struct {
    const char *name, *header, *element;
    size_t len;
    bool is_crc;
    enum digest_kind digest;
} kinds[CHECKSUM_KINDS] = {
    [CHECKSUM_CRC32] = {"CRC32", "x-amz-checksum-crc32", "ChecksumCRC32", 4, true, 0},
    [CHECKSUM_CRC32C] = {"CRC32C", "x-amz-checksum-crc32c", "ChecksumCRC32C", 4, true, 0},
    [CHECKSUM_CRC64NVME] = {"CRC64NVME", "x-amz-checksum-crc64nvme", "ChecksumCRC64NVME", 8, true,
                            0},
    [CHECKSUM_SHA1] = {"SHA1", "x-amz-checksum-sha1", "ChecksumSHA1", SHA1_LEN, false, DIGEST_SHA1},
    [CHECKSUM_SHA256] = {"SHA256", "x-amz-checksum-sha256", "ChecksumSHA256", SHA256_LEN, false,
                         DIGEST_SHA256},
};

static const char *const type_names[] = {
    [CHECKSUM_TYPE_NONE] = "",
    [CHECKSUM_FULL_OBJECT] = "FULL_OBJECT",
    [CHECKSUM_COMPOSITE] = "COMPOSITE",
};

const char *checksum_name(enum checksum_kind kind)
{
    return kinds[kind].name;
}

const char *checksum_header(enum checksum_kind kind)
{
    return kinds[kind].header;
}

const char *checksum_element(enum checksum_kind kind)
{
    return kinds[kind].element;
}

const char *checksum_type_name(enum checksum_type type)
{
    return type_names[type];
}

size_t checksum_len(enum checksum_kind kind)
{
    return kinds[kind].len;
}

enum checksum_kind checksum_kind_of_name(const char *name)
{
    for (enum checksum_kind k = CHECKSUM_NONE + 1; k < CHECKSUM_KINDS; k++)
        if (strcasecmp(kinds[k].name, name) == 0)
            return k;
    return CHECKSUM_NONE;
}

enum checksum_kind checksum_kind_of_header(const char *lower_case_name)
{
    for (enum checksum_kind k = CHECKSUM_NONE + 1; k < CHECKSUM_KINDS; k++)
        if (strcmp(kinds[k].header, lower_case_name) == 0)
            return k;
    return CHECKSUM_NONE;
}

enum checksum_kind checksum_kind_of_element(const char *name)
{
    for (enum checksum_kind k = CHECKSUM_NONE + 1; k < CHECKSUM_KINDS; k++)
        if (strcmp(kinds[k].element, name) == 0)
            return k;
    return CHECKSUM_NONE;
}

bool checksum_parse(enum checksum_kind kind, const char *text, bool is_suffix_allowed,
                    struct checksum_value *ret_value)
{
    struct checksum_value v = {.kind = kind, .type = CHECKSUM_FULL_OBJECT};
    const char *dash = strchr(text, '-');
    uint64_t parts = 0;
    if (dash && (!is_suffix_allowed ||
                 !num_parse_dec(dash + 1, strlen(dash + 1), LIMIT_PARTS_MAX, &parts) || !parts))
        return false;
    size_t len = dash ? (size_t)(dash - text) : strlen(text);
    if (kind == CHECKSUM_NONE || !base64_decode(text, len, v.bytes, kinds[kind].len))
        return false;
    if (dash) {
        v.type = CHECKSUM_COMPOSITE;
        v.parts = (unsigned)parts;
    }
    *ret_value = v;
    return true;
}

void checksum_print(const struct checksum_value *value, char out[CHECKSUM_TEXT_SIZE])
{
    size_t len = kinds[value->kind].len;
    base64_encode(value->bytes, len, out);
    if (value->type == CHECKSUM_COMPOSITE && value->parts)
        snprintf(out + BASE64_LEN(len), CHECKSUM_TEXT_SIZE - BASE64_LEN(len), "-%u",
                 value->parts % 100000);
}

bool checksum_equal(const struct checksum_value *a, const struct checksum_value *b)
{
    return a->kind == b->kind && a->type == b->type && a->parts == b->parts &&
           memcmp(a->bytes, b->bytes, kinds[a->kind].len) == 0;
}

static int choose_type(const char *type, enum checksum_kind kind, struct diag *diag,
                       enum checksum_type *ret_type)
{
    enum checksum_type t;
    if (!type)
        t = kind == CHECKSUM_CRC64NVME ? CHECKSUM_FULL_OBJECT : CHECKSUM_COMPOSITE;
    else if (strcasecmp(type, type_names[CHECKSUM_FULL_OBJECT]) == 0)
        t = CHECKSUM_FULL_OBJECT;
    else if (strcasecmp(type, type_names[CHECKSUM_COMPOSITE]) == 0)
        t = CHECKSUM_COMPOSITE;
    else
        return diag_fail(diag, S3R_E_INVALID_REQUEST,
                         "x-amz-checksum-type must be FULL_OBJECT or COMPOSITE");
    bool is_possible = t == CHECKSUM_COMPOSITE ? kind != CHECKSUM_CRC64NVME : kinds[kind].is_crc;
    if (!is_possible)
        return diag_fail(diag, S3R_E_INVALID_REQUEST, "the %s checksum type cannot be used with %s",
                         type_names[t], kinds[kind].name);
    *ret_type = t;
    return 0;
}

int checksum_choose(const char *algorithm, const char *type, struct diag *diag,
                    enum checksum_kind *ret_kind, enum checksum_type *ret_type)
{
    if (!algorithm && type)
        return diag_fail(diag, S3R_E_INVALID_REQUEST,
                         "x-amz-checksum-type needs x-amz-checksum-algorithm");
    if (!algorithm) {
        *ret_kind = CHECKSUM_NONE;
        *ret_type = CHECKSUM_TYPE_NONE;
        return 0;
    }
    enum checksum_kind kind = checksum_kind_of_name(algorithm);
    if (kind == CHECKSUM_NONE)
        return diag_fail(diag, S3R_E_INVALID_REQUEST,
                         "x-amz-checksum-algorithm must be CRC32, CRC32C, CRC64NVME, SHA1 or "
                         "SHA256");
    int rc = choose_type(type, kind, diag, ret_type);
    if (rc == 0)
        *ret_kind = kind;
    return rc;
}

/* Computing */

struct checksum {
    enum checksum_kind kind;
    uint64_t crc;
    struct digest *digest; /* for the SHAs */
};

int checksum_create(enum checksum_kind kind, struct checksum **ret_checksum)
{
    CLEANUP(checksum_destroyp) struct checksum *c = calloc(1, sizeof *c);
    if (!c)
        return S3R_E_NOMEM;
    c->kind = kind;
    int rc = kinds[kind].is_crc ? 0 : digest_create(kinds[kind].digest, &c->digest);
    if (rc == 0)
        *ret_checksum = STEAL(c);
    return rc;
}

void checksum_destroy(struct checksum *c)
{
    if (c)
        digest_destroy(c->digest);
    free(c);
}

void checksum_destroyp(struct checksum **c)
{
    checksum_destroy(*c);
}

void checksum_update(struct checksum *c, const void *bytes, size_t len)
{
    if (c->kind == CHECKSUM_CRC32)
        c->crc = crc32_z(c->crc, bytes, len);
    else if (c->kind == CHECKSUM_CRC32C)
        c->crc = crc32c_update((uint32_t)c->crc, bytes, len);
    else if (c->kind == CHECKSUM_CRC64NVME)
        c->crc = crc64_update(c->crc, bytes, len);
    else
        digest_update(c->digest, bytes, len);
}

static void put_be(unsigned char *out, uint64_t n, size_t len)
{
    for (size_t i = 0; i < len; i++)
        out[i] = (unsigned char)(n >> 8 * (len - 1 - i));
}

static uint64_t get_be(const unsigned char *p, size_t len)
{
    uint64_t n = 0;
    for (size_t i = 0; i < len; i++)
        n = n << 8 | p[i];
    return n;
}

void checksum_final(struct checksum *c, struct checksum_value *ret_value)
{
    *ret_value = (struct checksum_value){.kind = c->kind, .type = CHECKSUM_FULL_OBJECT};
    if (kinds[c->kind].is_crc)
        put_be(ret_value->bytes, c->crc, kinds[c->kind].len);
    else
        digest_final(c->digest, ret_value->bytes);
    c->crc = 0;
}

/* Joining */

int checksum_join_init(struct checksum_join *j, enum checksum_kind kind, enum checksum_type type)
{
    struct checksum *digest = NULL;
    int rc = type == CHECKSUM_COMPOSITE ? checksum_create(kind, &digest) : 0;
    if (rc == 0)
        *j = (struct checksum_join){.kind = kind, .type = type, .digest = digest};
    return rc;
}

void checksum_join_fini(struct checksum_join *j)
{
    checksum_destroy(j->digest);
    *j = (struct checksum_join){0};
}

static uint64_t combine(enum checksum_kind kind, uint64_t a, uint64_t b, uint64_t len_b)
{
    if (kind == CHECKSUM_CRC64NVME)
        return crc64_combine(a, b, len_b);
    if (kind == CHECKSUM_CRC32C)
        return crc32c_combine((uint32_t)a, (uint32_t)b, len_b);
    return crc32_combine64(a, b, (off64_t)len_b);
}

void checksum_join_add(struct checksum_join *j, const struct checksum_value *part,
                       uint64_t part_len)
{
    size_t len = kinds[j->kind].len;
    if (j->type == CHECKSUM_COMPOSITE)
        checksum_update(j->digest, part->bytes, len);
    else
        j->crc = combine(j->kind, j->crc, get_be(part->bytes, len), part_len);
    j->parts++;
}

void checksum_join_final(struct checksum_join *j, struct checksum_value *ret_value)
{
    if (j->type == CHECKSUM_COMPOSITE) {
        checksum_final(j->digest, ret_value);
        ret_value->type = CHECKSUM_COMPOSITE;
        ret_value->parts = j->parts;
        return;
    }
    *ret_value = (struct checksum_value){.kind = j->kind, .type = CHECKSUM_FULL_OBJECT};
    put_be(ret_value->bytes, j->crc, kinds[j->kind].len);
}
