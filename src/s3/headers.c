/* SPDX-License-Identifier: Apache-2.0 */
#include "s3/headers.h"

#include "base/error.h"
#include "base/limits.h"

#include <stdlib.h>
#include <string.h>

/* RFC 9110, 5.6.2 */
static bool is_token_char(unsigned char c)
{
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'))
        return true;
    return c && strchr("!#$%&'*+-.^_`|~", c);
}

static bool is_name(const char *name, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (!is_token_char((unsigned char)name[i]))
            return false;
    return len > 0;
}

static bool is_value(const char *value, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)value[i];
        if ((c < 0x20 && c != '\t') || c == 0x7f)
            return false;
    }
    return true;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static void row_fini(struct headers *h, struct header *row)
{
    h->len -= strlen(row->name) + strlen(row->value);
    free(row->name); /* the value lies behind it in the same block */
}

void headers_fini(struct headers *h)
{
    for (size_t i = 0; i < h->count; i++)
        free(h->rows[i].name);
    free(h->rows);
    *h = (struct headers){0};
}

static int headers_reserve(struct headers *h)
{
    if (h->count < h->cap)
        return 0;
    size_t cap = h->cap ? h->cap * 2 : 16;
    struct header *rows = realloc(h->rows, cap * sizeof *rows);
    if (!rows)
        return S3R_E_NOMEM;
    h->rows = rows;
    h->cap = cap;
    return 0;
}

int headers_add_n(struct headers *h, const char *name, size_t name_len, const char *value,
                  size_t value_len)
{
    for (; value_len && is_blank(value[0]); value++)
        value_len--;
    while (value_len && is_blank(value[value_len - 1]))
        value_len--;
    size_t factor = h->is_reply ? 2 : 1, len_max = factor * LIMIT_HEADERS_LEN_MAX;
    if (h->count >= factor * LIMIT_HEADERS_MAX || name_len > len_max - h->len ||
        value_len > len_max - h->len - name_len)
        return S3R_E_HEADERS_TOO_LARGE;
    if (!is_name(name, name_len) || !is_value(value, value_len))
        return S3R_E_INVALID_REQUEST;
    int rc = headers_reserve(h);
    if (rc)
        return rc;
    char *block = malloc(name_len + value_len + 2);
    if (!block)
        return S3R_E_NOMEM;
    for (size_t i = 0; i < name_len; i++)
        block[i] = name[i] >= 'A' && name[i] <= 'Z' ? (char)(name[i] + ('a' - 'A')) : name[i];
    block[name_len] = '\0';
    memcpy(block + name_len + 1, value, value_len);
    block[name_len + 1 + value_len] = '\0';
    h->rows[h->count++] = (struct header){.name = block, .value = block + name_len + 1};
    h->len += name_len + value_len;
    return 0;
}

int headers_add(struct headers *h, const char *name, const char *value)
{
    return headers_add_n(h, name, strlen(name), value, strlen(value));
}

int headers_set(struct headers *h, const char *name, const char *value)
{
    size_t before = h->count;
    int rc = headers_add(h, name, value);
    if (rc)
        return rc;
    struct header added = h->rows[--h->count];
    size_t kept = 0;
    for (size_t i = 0; i < before; i++)
        if (strcmp(h->rows[i].name, added.name) == 0)
            row_fini(h, &h->rows[i]);
        else
            h->rows[kept++] = h->rows[i];
    h->rows[kept] = added;
    h->count = kept + 1;
    return 0;
}

void headers_remove(struct headers *h, const char *name)
{
    size_t kept = 0;
    for (size_t i = 0; i < h->count; i++)
        if (strcmp(h->rows[i].name, name) == 0)
            row_fini(h, &h->rows[i]);
        else
            h->rows[kept++] = h->rows[i];
    h->count = kept;
}

const char *headers_get(const struct headers *h, const char *name)
{
    for (size_t i = 0; i < h->count; i++)
        if (strcmp(h->rows[i].name, name) == 0)
            return h->rows[i].value;
    return NULL;
}

size_t headers_count(const struct headers *h, const char *name)
{
    size_t count = 0;
    for (size_t i = 0; i < h->count; i++)
        count += strcmp(h->rows[i].name, name) == 0;
    return count;
}
