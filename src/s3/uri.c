/* SPDX-License-Identifier: Apache-2.0 */
#include "s3/uri.h"

#include "base/hex.h"
#include "s3/names.h"

#include <stdlib.h>
#include <string.h>

bool uri_decode(const char *s, size_t len, unsigned flags, struct text *out)
{
    for (size_t i = 0; i < len; i++) {
        char c = s[i];
        if (c == '%') {
            if (len - i < 3 || hex_value(s[i + 1]) < 0 || hex_value(s[i + 2]) < 0)
                return false;
            c = (char)(hex_value(s[i + 1]) << 4 | hex_value(s[i + 2]));
            i += 2;
        } else if (c == '+' && (flags & URI_PLUS_IS_BLANK)) {
            c = ' ';
        }
        if (c == '\0' && (flags & URI_REFUSE_NUL))
            return false;
        text_char(out, c);
    }
    return true;
}

static bool is_unreserved(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == '_' || c == '~';
}

void uri_encode(struct text *out, const char *bytes, size_t len, bool is_slash_kept)
{
    static const char digits[] = "0123456789ABCDEF";
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)bytes[i];
        if (is_unreserved(bytes[i]) || (c == '/' && is_slash_kept))
            text_char(out, bytes[i]);
        else
            text_add(out, (char[]){'%', digits[c >> 4], digits[c & 15]}, 3);
    }
}

/* The decoded bytes as a new string, and their count. */
static int decode_new(const char *s, size_t len, unsigned flags, char **ret, size_t *ret_len)
{
    CLEANUP(text_fini) struct text t;
    text_init(&t, len);
    if (!uri_decode(s, len, flags | URI_REFUSE_NUL, &t))
        return S3R_E_INVALID_URI;
    size_t decoded_len = t.len;
    char *decoded = text_take(&t);
    if (!decoded)
        return S3R_E_NOMEM;
    *ret = decoded;
    *ret_len = decoded_len;
    return 0;
}

/* The query */

void query_fini(struct query *q)
{
    for (size_t i = 0; i < q->count; i++) {
        free(q->rows[i].name);
        free(q->rows[i].value);
    }
    free(q->rows);
    *q = (struct query){0};
}

static int query_push(struct query *q, struct query_param row)
{
    if (q->count == LIMIT_QUERY_PARAMS_MAX)
        return S3R_E_INVALID_URI;
    if (q->count == q->cap) {
        size_t cap = q->cap ? q->cap * 2 : 8;
        struct query_param *rows = realloc(q->rows, cap * sizeof *rows);
        if (!rows)
            return S3R_E_NOMEM;
        q->rows = rows;
        q->cap = cap;
    }
    q->rows[q->count++] = row;
    return 0;
}

static int query_parse_one(struct query *q, const char *s, size_t len)
{
    const char *equals = memchr(s, '=', len);
    size_t name_len = equals ? (size_t)(equals - s) : len, unused;
    CLEANUP(freep) char *name = NULL;
    CLEANUP(freep) char *value = NULL;
    int rc = decode_new(s, name_len, URI_PLUS_IS_BLANK, &name, &unused);
    if (rc == 0)
        rc = equals ? decode_new(equals + 1, len - name_len - 1, URI_PLUS_IS_BLANK, &value, &unused)
                    : decode_new("", 0, 0, &value, &unused);
    if (rc == 0)
        rc = query_push(q, (struct query_param){name, value, equals != NULL});
    if (rc == 0) {
        (void)STEAL(name);
        (void)STEAL(value);
    }
    return rc;
}

int query_parse(const char *raw, size_t len, struct diag *diag, struct query *ret_query)
{
    CLEANUP(query_fini) struct query q = {0};
    if (len > LIMIT_TARGET_LEN_MAX)
        return diag_fail(diag, S3R_E_INVALID_URI, "the query is longer than %llu bytes",
                         (unsigned long long)LIMIT_TARGET_LEN_MAX);
    while (len) {
        const char *ampersand = memchr(raw, '&', len);
        size_t part_len = ampersand ? (size_t)(ampersand - raw) : len;
        int rc = part_len ? query_parse_one(&q, raw, part_len) : 0;
        if (rc == S3R_E_INVALID_URI)
            return diag_fail(diag, rc,
                             "the query is not valid percent-encoding, holds %%00, or "
                             "has too many parameters");
        if (rc)
            return rc;
        size_t step = part_len + (ampersand != NULL);
        raw += step;
        len -= step;
    }
    *ret_query = q;
    q = (struct query){0};
    return 0;
}

int query_add(struct query *q, const char *name, const char *value)
{
    CLEANUP(freep) char *name_copy = strdup(name);
    CLEANUP(freep) char *value_copy = strdup(value ? value : "");
    if (!name_copy || !value_copy)
        return S3R_E_NOMEM;
    int rc = query_push(q, (struct query_param){name_copy, value_copy, value != NULL});
    if (rc == 0) {
        (void)STEAL(name_copy);
        (void)STEAL(value_copy);
    }
    return rc;
}

const char *query_get(const struct query *q, const char *name)
{
    for (size_t i = 0; i < q->count; i++)
        if (strcmp(q->rows[i].name, name) == 0)
            return q->rows[i].value;
    return NULL;
}

bool query_has(const struct query *q, const char *name)
{
    return query_get(q, name) != NULL;
}

struct encoded_param {
    size_t name_off, value_off;
    const char *bytes;
};

static int encoded_param_order(const void *a, const void *b)
{
    const struct encoded_param *x = a, *y = b;
    int order = strcmp(x->bytes + x->name_off, y->bytes + y->name_off);
    return order ? order : strcmp(x->bytes + x->value_off, y->bytes + y->value_off);
}

int query_canonical(const struct query *q, const char *left_out, struct text *out)
{
    CLEANUP(text_fini) struct text bytes;
    text_init(&bytes, 4 * LIMIT_TARGET_LEN_MAX);
    CLEANUP(freep) struct encoded_param *rows = calloc(q->count + 1, sizeof *rows);
    if (!rows)
        return S3R_E_NOMEM;
    size_t count = 0;
    for (size_t i = 0; i < q->count; i++) {
        if (left_out && strcmp(q->rows[i].name, left_out) == 0)
            continue;
        rows[count].name_off = bytes.len;
        uri_encode(&bytes, q->rows[i].name, strlen(q->rows[i].name), false);
        text_char(&bytes, '\0');
        rows[count].value_off = bytes.len;
        uri_encode(&bytes, q->rows[i].value, strlen(q->rows[i].value), false);
        text_char(&bytes, '\0');
        count++;
    }
    if (text_error(&bytes))
        return text_error(&bytes);
    for (size_t i = 0; i < count; i++)
        rows[i].bytes = bytes.data;
    qsort(rows, count, sizeof *rows, encoded_param_order);
    for (size_t i = 0; i < count; i++)
        text_fmt(out, "%s%s=%s", i ? "&" : "", bytes.data + rows[i].name_off,
                 bytes.data + rows[i].value_off);
    return text_error(out);
}

/* Paths */

void target_fini(struct target *t)
{
    free(t->bucket);
    free(t->key);
    *t = (struct target){0};
}

static int target_set_bucket(struct target *t, const char *raw, size_t len, struct diag *diag)
{
    size_t bucket_len;
    int rc = decode_new(raw, len, 0, &t->bucket, &bucket_len);
    if (rc)
        return diag_fail(diag, rc, "the bucket's part of the path cannot be decoded");
    return bucket_name_check(t->bucket, bucket_len, diag);
}

static int target_set_key(struct target *t, const char *raw, size_t len, struct diag *diag)
{
    if (len == 0)
        return 0;
    int rc = decode_new(raw, len, 0, &t->key, &t->key_len);
    if (rc)
        return diag_fail(diag, rc, "the key's part of the path cannot be decoded");
    return key_check(t->key, t->key_len, diag);
}

int target_parse(const char *raw, size_t len, const char *host_bucket, struct diag *diag,
                 struct target *ret_target)
{
    CLEANUP(target_fini) struct target t = {0};
    if (len == 0 || raw[0] != '/' || len > LIMIT_TARGET_LEN_MAX)
        return diag_fail(diag, S3R_E_INVALID_URI,
                         "the path does not begin with '/' or is too long");
    const char *rest = raw + 1;
    size_t rest_len = len - 1;
    int rc = 0;
    if (host_bucket) {
        rc = target_set_bucket(&t, host_bucket, strlen(host_bucket), diag);
        if (rc == 0)
            rc = target_set_key(&t, rest, rest_len, diag);
    } else if (rest_len) {
        const char *slash = memchr(rest, '/', rest_len);
        size_t bucket_len = slash ? (size_t)(slash - rest) : rest_len;
        if (bucket_len == 0)
            return diag_fail(diag, S3R_E_INVALID_URI, "the path has an empty bucket name");
        rc = target_set_bucket(&t, rest, bucket_len, diag);
        if (rc == 0 && slash)
            rc = target_set_key(&t, slash + 1, rest_len - bucket_len - 1, diag);
    }
    if (rc)
        return rc;
    *ret_target = t;
    t = (struct target){0};
    return 0;
}

/* The last "?versionId=", NULL when there is none. */
static const char *find_version(const char *s)
{
    const char *found = NULL;
    for (const char *at = s; (at = strstr(at, "?versionId=")); at++)
        found = at;
    return found;
}

/* `text` is decoded: the first slash ends the bucket, whichever way it was written. */
static int split_source(const char *text, size_t len, struct diag *diag, struct target *ret_target)
{
    CLEANUP(target_fini) struct target t = {0};
    if (len && text[0] == '/') {
        text++;
        len--;
    }
    const char *slash = memchr(text, '/', len);
    size_t bucket_len = slash ? (size_t)(slash - text) : 0;
    if (bucket_len == 0 || bucket_len + 1 == len)
        return diag_fail(diag, S3R_E_INVALID_ARGUMENT,
                         "x-amz-copy-source must be bucket/key, percent-encoded");
    int rc = bucket_name_check(text, bucket_len, diag);
    if (rc == 0)
        rc = key_check(slash + 1, len - bucket_len - 1, diag);
    if (rc)
        return rc;
    t.bucket = strndup(text, bucket_len);
    t.key = strndup(slash + 1, len - bucket_len - 1);
    t.key_len = len - bucket_len - 1;
    if (!t.bucket || !t.key)
        return S3R_E_NOMEM;
    *ret_target = t;
    t = (struct target){0};
    return 0;
}

int copy_source_parse(const char *value, struct diag *diag, struct target *ret_target,
                      char **ret_version)
{
    CLEANUP(freep) char *version = NULL;
    CLEANUP(freep) char *text = NULL;
    const char *mark = find_version(value);
    size_t raw_len = mark ? (size_t)(mark - value) : strlen(value), len, version_len;
    int rc = decode_new(value, raw_len, 0, &text, &len);
    if (rc == 0 && mark) {
        mark += strlen("?versionId=");
        rc = decode_new(mark, strlen(mark), 0, &version, &version_len);
    }
    if (rc == 0)
        rc = split_source(text, len, diag, ret_target);
    if (rc == S3R_E_INVALID_URI)
        rc = S3R_E_INVALID_ARGUMENT; /* it is a header that is wrong, not the request's path */
    if (rc == 0)
        *ret_version = STEAL(version);
    return rc;
}

void target_print(struct text *out, const char *bucket, const char *key, size_t key_len)
{
    text_char(out, '/');
    if (!bucket)
        return;
    uri_encode(out, bucket, strlen(bucket), false);
    if (!key)
        return;
    text_char(out, '/');
    uri_encode(out, key, key_len, true);
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
}

bool host_bucket(const char *host, const char *domain, char ret_bucket[LIMIT_BUCKET_LEN_MAX + 1])
{
    size_t len = strcspn(host, ":"), domain_len = strlen(domain);
    if (len && host[len - 1] == '.')
        len--; /* the root's dot */
    if (domain_len == 0 || len < domain_len + 2 || len - domain_len - 1 > LIMIT_BUCKET_LEN_MAX)
        return false;
    size_t bucket_len = len - domain_len - 1;
    if (host[bucket_len] != '.')
        return false;
    for (size_t i = 0; i < domain_len; i++)
        if (lower(host[bucket_len + 1 + i]) != lower(domain[i]))
            return false;
    for (size_t i = 0; i < bucket_len; i++)
        ret_bucket[i] = lower(host[i]);
    ret_bucket[bucket_len] = '\0';
    return true;
}
