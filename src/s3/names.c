/* SPDX-License-Identifier: Apache-2.0 */
#include "s3/names.h"

#include "base/limits.h"
#include "s3/utf8.h"

#include <stdbool.h>
#include <string.h>

static bool is_alnum(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

static bool has_prefix(const char *s, size_t len, const char *prefix)
{
    return len >= strlen(prefix) && memcmp(s, prefix, strlen(prefix)) == 0;
}

static bool has_suffix(const char *s, size_t len, const char *suffix)
{
    size_t n = strlen(suffix);
    return len >= n && memcmp(s + len - n, suffix, n) == 0;
}

/* Four groups of digits: S3 refuses the form, whatever the numbers are. */
static bool looks_like_ipv4(const char *s, size_t len)
{
    size_t dots = 0;
    for (size_t i = 0; i < len; i++)
        if (s[i] == '.')
            dots++;
        else if (s[i] < '0' || s[i] > '9')
            return false;
    return dots == 3;
}

/* S3's "General purpose bucket naming rules". */
static const char *bucket_fault(const char *s, size_t len)
{
    static const char *const prefixes[] = {"xn--", "sthree-", "amzn-s3-demo-"};
    static const char *const suffixes[] = {"-s3alias", "--ol-s3", ".mrap", "--x-s3", "--table-s3"};
    if (len < LIMIT_BUCKET_LEN_MIN || len > LIMIT_BUCKET_LEN_MAX)
        return "it has 3 to 63 characters";
    for (size_t i = 0; i < len; i++) {
        if (!is_alnum(s[i]) && s[i] != '-' && s[i] != '.')
            return "only a-z, 0-9, '-' and '.' are allowed";
        /* a label between dots neither begins nor ends with a hyphen */
        if (i && s[i] == '.' && !is_alnum(s[i - 1]))
            return "'..' and '-.' are not allowed";
        if (i && s[i] == '-' && s[i - 1] == '.')
            return "'.-' is not allowed";
    }
    if (!is_alnum(s[0]) || !is_alnum(s[len - 1]))
        return "it begins and ends with a letter or a digit";
    if (looks_like_ipv4(s, len))
        return "it must not look like an IP address";
    for (size_t i = 0; i < ARRAY_LEN(prefixes); i++)
        if (has_prefix(s, len, prefixes[i]))
            return "its prefix is reserved";
    for (size_t i = 0; i < ARRAY_LEN(suffixes); i++)
        if (has_suffix(s, len, suffixes[i]))
            return "its suffix is reserved";
    if (len == strlen("minio") && memcmp(s, "minio", len) == 0)
        return "'minio' is reserved";
    return NULL;
}

int bucket_name_check(const char *name, size_t len, struct diag *diag)
{
    const char *fault = bucket_fault(name, len);
    if (fault)
        return diag_fail(diag, S3R_E_INVALID_BUCKET_NAME, "the bucket name is not valid: %s",
                         fault);
    return 0;
}

int key_check(const char *key, size_t len, struct diag *diag)
{
    if (len == 0)
        return diag_fail(diag, S3R_E_INVALID_URI, "the key is empty");
    if (len > LIMIT_KEY_LEN_MAX)
        return diag_fail(diag, S3R_E_KEY_TOO_LONG, "the key has %zu bytes; at most %d are allowed",
                         len, LIMIT_KEY_LEN_MAX);
    if (memchr(key, '\0', len) || !utf8_is_valid(key, len))
        return diag_fail(diag, S3R_E_INVALID_URI, "the key is not UTF-8, or holds a NUL");
    return 0;
}
