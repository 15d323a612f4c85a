/* SPDX-License-Identifier: Apache-2.0 */
#include "base/num.h"
#include "store/fs.h"
#include "store/walk.h"

#include <stdlib.h>
#include <string.h>

struct store_list {
    struct store_list_row *rows;
    char **strings; /* what each row's strings are in */
    size_t count, cap;
    bool is_truncated;
};

void store_list_close(struct store_list *list)
{
    if (!list)
        return;
    for (size_t i = 0; i < list->count; i++)
        free(list->strings[i]);
    free(list->strings);
    free(list->rows);
    free(list);
}

void store_list_closep(struct store_list **list)
{
    store_list_close(*list);
}

const struct store_list_row *store_list_rows(const struct store_list *list, size_t *ret_count)
{
    *ret_count = list->count;
    return list->rows;
}

bool store_list_is_truncated(const struct store_list *list)
{
    return list->is_truncated;
}

static int reserve(struct store_list *list)
{
    if (list->count < list->cap)
        return 0;
    size_t cap = list->cap ? list->cap * 2 : 64;
    struct store_list_row *rows = realloc(list->rows, cap * sizeof(*rows));
    if (!rows)
        return S3R_E_NOMEM;
    list->rows = rows;
    char **strings = realloc(list->strings, cap * sizeof(*strings));
    if (!strings)
        return S3R_E_NOMEM;
    list->strings = strings;
    list->cap = cap;
    return 0;
}

/* Key, owner and storage class, each with a NUL, in one allocation. */
static int add_strings(struct store_list *list, struct store_list_row *row, const char *key,
                       size_t key_len, const char *owner, const char *storage_class)
{
    size_t owner_len = strlen(owner) + 1, class_len = strlen(storage_class) + 1;
    char *at = malloc(key_len + 1 + owner_len + class_len);
    if (!at)
        return S3R_E_NOMEM;
    list->strings[list->count] = at;
    memcpy(at, key, key_len);
    at[key_len] = 0;
    row->key = at;
    row->key_len = key_len;
    row->owner = memcpy(at + key_len + 1, owner, owner_len);
    row->storage_class = memcpy(at + key_len + 1 + owner_len, storage_class, class_len);
    list->count++;
    return 0;
}

static int add_row(struct store_list *list, const struct walk *w)
{
    int err = reserve(list);
    if (err)
        return err;
    struct store_list_row *row = &list->rows[list->count];
    memset(row, 0, sizeof(*row));
    row->is_prefix = w->is_prefix;
    if (w->is_prefix)
        return add_strings(list, row, w->name, w->name_len, "", "");
    struct record r;
    size_t len;
    const char *value = index_iter_value(w->it, &len);
    err = record_decode_listing(value, len, &r);
    if (err)
        return err;
    row->size = r.size;
    row->modified_ms = r.modified_ms;
    row->checksum = r.checksum;
    fs_copy_etag(row->etag, r.etag);
    return add_strings(list, row, w->name, w->name_len, r.owner ? r.owner : "",
                       r.storage_class ? r.storage_class : "STANDARD");
}

static int fill(struct store_list *list, struct walk *w, size_t max)
{
    while (walk_next(w)) {
        if (list->count == max) {
            list->is_truncated = true;
            return 0;
        }
        int err = add_row(list, w);
        if (err)
            return err;
    }
    return index_iter_error(w->it);
}

int store_list_open(struct store *s, const struct store_list_query *q, struct diag *diag,
                    struct store_list **ret_list)
{
    struct store_bucket bucket;
    int err = store_bucket_stat(s, q->bucket, &bucket);
    if (err)
        return err;
    CLEANUP(store_list_closep) struct store_list *list = calloc(1, sizeof(*list));
    if (!list)
        return S3R_E_NOMEM;
    struct walk w;
    if (q->max) {
        err = walk_open(&w, s, ROW_OBJECT, q->bucket, q->prefix, q->prefix_len, q->delimiter,
                        q->delimiter_len);
        if (err)
            return err;
        if (q->after_len)
            walk_after(&w, q->after, q->after_len);
        err = fill(list, &w, q->max);
        walk_close(&w);
    }
    if (err)
        return diag_fail(diag, err, "a record of the listing cannot be read");
    *ret_list = STEAL(list);
    return 0;
}
