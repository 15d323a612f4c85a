/* SPDX-License-Identifier: Apache-2.0 */
#include "s3/meta.h"

#include "base/limits.h"
#include "base/text.h"

#include <string.h>
#include <strings.h>

#define PREFIX_LEN (sizeof META_PREFIX - 1)

static bool is_user(const char *name)
{
    return strncmp(name, META_PREFIX, PREFIX_LEN) == 0;
}

static bool is_kept(const char *name)
{
    static const char *const standard[] = {"cache-control",    "content-disposition",
                                           "content-encoding", "content-language",
                                           "content-type",     "expires"};
    for (size_t i = 0; i < ARRAY_LEN(standard); i++)
        if (strcmp(name, standard[i]) == 0)
            return true;
    return is_user(name);
}

/* Appends the members of a comma-separated list but `aws-chunked`, which is a way to send and no
 * property of the object. */
static void add_encodings(struct text *t, const char *list)
{
    while (*list) {
        list += strspn(list, " \t,");
        size_t len = strcspn(list, ","), trimmed = len;
        while (trimmed && (list[trimmed - 1] == ' ' || list[trimmed - 1] == '\t'))
            trimmed--;
        bool is_chunked =
            trimmed == strlen("aws-chunked") && strncasecmp(list, "aws-chunked", trimmed) == 0;
        if (trimmed && !is_chunked) {
            if (t->len)
                text_char(t, ',');
            text_add(t, list, trimmed);
        }
        list += len;
    }
}

/* All values of `name` as one. */
static void join_values(struct text *t, const struct headers *h, const char *name)
{
    bool is_encoding = strcmp(name, "content-encoding") == 0, is_first = true;
    for (size_t i = 0; i < h->count; i++) {
        if (strcmp(h->rows[i].name, name) != 0)
            continue;
        if (is_encoding) {
            add_encodings(t, h->rows[i].value);
            continue;
        }
        if (!is_first)
            text_char(t, ',');
        text_str(t, h->rows[i].value);
        is_first = false;
    }
}

static int meta_add(struct headers *meta, const struct headers *request, const char *name,
                    struct diag *diag)
{
    CLEANUP(text_fini) struct text value;
    text_init(&value, LIMIT_HEADERS_LEN_MAX + LIMIT_HEADERS_MAX);
    if (strcmp(name, META_PREFIX) == 0)
        return diag_fail(diag, S3R_E_INVALID_ARGUMENT, "a user metadatum has no name");
    join_values(&value, request, name);
    if (text_error(&value))
        return text_error(&value);
    if (value.len == 0 && !is_user(name))
        return 0; /* only aws-chunked, or empty: the same as absent */
    return headers_add_n(meta, name, strlen(name), text_cstr(&value), value.len);
}

static size_t user_len(const struct headers *meta)
{
    size_t len = 0;
    for (size_t i = 0; i < meta->count; i++)
        if (is_user(meta->rows[i].name))
            len += strlen(meta->rows[i].name) - PREFIX_LEN + strlen(meta->rows[i].value);
    return len;
}

int meta_collect(const struct headers *request, struct diag *diag, struct headers *ret_meta)
{
    CLEANUP(headers_fini) struct headers meta = {0};
    for (size_t i = 0; i < request->count; i++) {
        const char *name = request->rows[i].name;
        if (!is_kept(name) || headers_get(&meta, name))
            continue;
        int rc = meta_add(&meta, request, name, diag);
        if (rc)
            return rc;
    }
    size_t len = user_len(&meta);
    if (len > LIMIT_METADATA_LEN_MAX)
        return diag_fail(diag, S3R_E_METADATA_TOO_LARGE,
                         "user metadata has %zu bytes; at most %d are allowed", len,
                         LIMIT_METADATA_LEN_MAX);
    *ret_meta = meta;
    meta = (struct headers){0};
    return 0;
}
