/* SPDX-License-Identifier: Apache-2.0 */
#include "base/num.h"
#include "store/fs.h"
#include "store/walk.h"

#include <stdlib.h>
#include <string.h>

struct store_list {
    struct walk_rows all; /* of struct store_list_row */
};

void store_list_close(struct store_list *list)
{
    if (!list)
        return;
    walk_rows_fini(&list->all);
    free(list);
}

void store_list_closep(struct store_list **list)
{
    store_list_close(*list);
}

const struct store_list_row *store_list_rows(const struct store_list *list, size_t *ret_count)
{
    *ret_count = list->all.count;
    return list->all.rows;
}

bool store_list_is_truncated(const struct store_list *list)
{
    return list->all.is_truncated;
}

static void fill(const struct walk *w, const struct record *record,
                 const struct walk_strings *strings, void *row)
{
    struct store_list_row *out = row;
    out->is_prefix = !record;
    out->key = strings->key;
    out->key_len = strings->key_len;
    out->owner = strings->owner;
    out->storage_class = strings->storage_class;
    if (!record)
        return;
    out->size = record->size;
    out->modified_ms = record->modified_ms;
    out->checksum = record->checksum;
    fs_copy_etag(out->etag, record->etag);
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
    list->all.row_size = sizeof(struct store_list_row);
    struct walk w;
    if (q->max) {
        err = walk_open(&w, s, ROW_OBJECT, q->bucket, q->prefix, q->prefix_len, q->delimiter,
                        q->delimiter_len);
        if (err)
            return err;
        if (q->after_len)
            walk_after(&w, q->after, q->after_len);
        err = walk_collect(&w, q->max, fill, &list->all);
        walk_close(&w);
    }
    if (err)
        return diag_fail(diag, err, "a record of the listing cannot be read");
    *ret_list = STEAL(list);
    return 0;
}
