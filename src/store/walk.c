/* SPDX-License-Identifier: Apache-2.0 */
#include "store/walk.h"

#include "base/num.h"

#include <stdlib.h>
#include <string.h>

int walk_open(struct walk *w, struct store *s, char table, const char *bucket, const char *prefix,
              size_t prefix_len, const char *delimiter, size_t delimiter_len)
{
    struct row_key from, to;
    memset(w, 0, offsetof(struct walk, name));
    w->is_upload = table == ROW_UPLOAD;
    w->prefix = prefix;
    w->prefix_len = min_u64(prefix_len, LIMIT_KEY_LEN_MAX + 1);
    w->delimiter = delimiter;
    w->delimiter_len = delimiter ? delimiter_len : 0;
    row_of_bucket(&w->base, table, bucket);
    from = w->base;
    row_add(&from, prefix, w->prefix_len);
    to = from;
    row_after_prefix(&to);
    return index_iter_open(s->idx, from.data, from.len, to.data, to.len, &w->it);
}

void walk_close(struct walk *w)
{
    index_iter_close(w->it);
}

/* The length of the common prefix that `key` lies in, its delimiter included; 0: in none. */
static size_t common_prefix_len(const struct walk *w, const char *key, size_t key_len)
{
    if (!w->delimiter_len || key_len < w->prefix_len)
        return 0;
    const char *at =
        memmem(key + w->prefix_len, key_len - w->prefix_len, w->delimiter, w->delimiter_len);
    return at ? (size_t)(at - key) + w->delimiter_len : 0;
}

/* To the first key that does not begin with these bytes. */
static void seek_past(struct walk *w, const char *bytes, size_t len)
{
    struct row_key row = w->base;
    row_add(&row, bytes, len);
    row_after_prefix(&row);
    index_iter_seek(w->it, row.data, row.len);
}

/* The iterator's bounds keep it inside the prefix: a seek to before them lands on the first. */
void walk_after(struct walk *w, const char *after, size_t after_len)
{
    after_len = min_u64(after_len, LIMIT_KEY_LEN_MAX + 1);
    if (after_len >= w->prefix_len && !memcmp(after, w->prefix ? w->prefix : "", w->prefix_len)) {
        size_t common = common_prefix_len(w, after, after_len);
        if (common) {
            seek_past(w, after, common);
            return;
        }
    }
    struct row_key row = w->base;
    row_add(&row, after, after_len);
    /* nothing sorts between a key and the key with a 0 behind it; an upload's row has 0 and the
     * id there, so its successor is 1 */
    row_add(&row, w->is_upload ? "\1" : "\0", 1);
    index_iter_seek(w->it, row.data, row.len);
}

void walk_after_upload(struct walk *w, const char *key, size_t key_len, const char *id)
{
    struct row_key row = w->base;
    row_add(&row, key, min_u64(key_len, LIMIT_KEY_LEN_MAX));
    row_add_zero(&row);
    row_add(&row, id, strnlen(id, STORE_UPLOAD_ID_MAX - 1));
    row_add_zero(&row);
    index_iter_seek(w->it, row.data, row.len);
}

/* The key (and the upload's id) of the iterator's row. */
static void take_name(struct walk *w)
{
    size_t len, base_len = w->base.len;
    const char *row = index_iter_key(w->it, &len);
    const char *key = row + base_len;
    size_t key_len = len - base_len;
    w->id[0] = 0;
    if (w->is_upload) {
        const char *zero = memchr(key, 0, key_len);
        if (zero) {
            size_t id_len = min_u64(key_len - (size_t)(zero - key) - 1, sizeof(w->id) - 1);
            memcpy(w->id, zero + 1, id_len);
            w->id[id_len] = 0;
            key_len = (size_t)(zero - key);
        }
    }
    w->name_len = min_u64(key_len, sizeof(w->name));
    memcpy(w->name, key, w->name_len);
}

bool walk_next(struct walk *w)
{
    if (w->has_started && w->is_prefix)
        seek_past(w, w->name, w->name_len);
    else if (w->has_started)
        index_iter_next(w->it);
    w->has_started = true;
    if (!index_iter_valid(w->it))
        return false;
    take_name(w);
    size_t common = common_prefix_len(w, w->name, w->name_len);
    w->is_prefix = common > 0;
    if (common)
        w->name_len = common;
    return true;
}

static int reserve(struct walk_rows *rows)
{
    if (rows->count < rows->cap)
        return 0;
    size_t cap = rows->cap ? rows->cap * 2 : 64;
    void *more = realloc(rows->rows, cap * rows->row_size);
    if (!more)
        return S3R_E_NOMEM;
    rows->rows = more;
    char **strings = realloc(rows->strings, cap * sizeof(*strings));
    if (!strings)
        return S3R_E_NOMEM;
    rows->strings = strings;
    rows->cap = cap;
    return 0;
}

/* Key, owner and storage class, each with a NUL, in one allocation. */
static char *copy_strings(const struct walk *w, const char *owner, const char *storage_class,
                          struct walk_strings *ret)
{
    size_t owner_len = strlen(owner) + 1, class_len = strlen(storage_class) + 1;
    char *at = malloc(w->name_len + 1 + owner_len + class_len);
    if (!at)
        return NULL;
    memcpy(at, w->name, w->name_len);
    at[w->name_len] = 0;
    ret->key = at;
    ret->key_len = w->name_len;
    ret->owner = memcpy(at + w->name_len + 1, owner, owner_len);
    ret->storage_class = memcpy(at + w->name_len + 1 + owner_len, storage_class, class_len);
    return at;
}

static int collect_one(const struct walk *w, walk_row_fn *fill, struct walk_rows *rows)
{
    struct record record;
    struct walk_strings strings;
    size_t len;
    int err = reserve(rows);
    if (err)
        return err;
    if (!w->is_prefix) {
        const char *value = index_iter_value(w->it, &len);
        err = record_decode_listing(value, len, &record);
        if (err)
            return err;
    }
    bool is_prefix = w->is_prefix;
    const char *owner = is_prefix || !record.owner ? "" : record.owner;
    const char *kept_as = is_prefix ? "" : record.storage_class ? record.storage_class : "STANDARD";
    char *copy = copy_strings(w, owner, kept_as, &strings);
    if (!copy)
        return S3R_E_NOMEM;
    rows->strings[rows->count] = copy;
    void *row = (char *)rows->rows + rows->count++ * rows->row_size;
    memset(row, 0, rows->row_size);
    fill(w, is_prefix ? NULL : &record, &strings, row);
    return 0;
}

int walk_collect(struct walk *w, size_t max, walk_row_fn *fill, struct walk_rows *rows)
{
    while (walk_next(w)) {
        if (rows->count == max) {
            rows->is_truncated = true;
            return 0;
        }
        int err = collect_one(w, fill, rows);
        if (err)
            return err;
    }
    return index_iter_error(w->it);
}

void walk_rows_fini(struct walk_rows *rows)
{
    for (size_t i = 0; i < rows->count; i++)
        free(rows->strings[i]);
    free(rows->strings);
    free(rows->rows);
}
