/* SPDX-License-Identifier: Apache-2.0 */
#include "store/fs.h"

#include <stdio.h>
#include <string.h>

static int take_bucket(const struct record *r, struct store_bucket *ret)
{
    if (r->kind != RECORD_BUCKET || !r->bucket)
        return S3R_E_STORE_CORRUPT;
    memset(ret, 0, sizeof(*ret));
    snprintf(ret->name, sizeof(ret->name), "%s", r->bucket);
    snprintf(ret->owner, sizeof(ret->owner), "%s", r->owner ? r->owner : "");
    snprintf(ret->region, sizeof(ret->region), "%s", r->region ? r->region : "");
    ret->created_ms = r->created_ms;
    return 0;
}

/* Under the bucket's lock. */
static int create(struct store *s, const struct row_key *row, const struct store_bucket *bucket)
{
    struct index_value v;
    int err = index_get(s->idx, row->data, row->len, &v);
    if (!err)
        index_value_fini(&v);
    if (err != S3R_E_NO_SUCH_KEY)
        return err ? err : S3R_E_BUCKET_EXISTS;
    struct record r = {.kind = RECORD_BUCKET,
                       .created_ms = bucket->created_ms,
                       .owner = bucket->owner,
                       .region = bucket->region,
                       .bucket = bucket->name,
                       .sequence = fs_next_sequence(s)};
    CLEANUP(store_writer_closep) struct store_writer *note = NULL;
    err = fs_write_note(s, FILE_BUCKET, &r, NULL, &note);
    if (err)
        return err;
    struct index_batch b;
    index_batch_init(&b);
    bool is_unknown = false;
    err = fs_put_record(&b, row, &r);
    fs_writer_close_row(note, &b);
    if (!err)
        err = fs_commit(s, &b, NULL, &is_unknown);
    if (!err || is_unknown)
        fs_writer_done(note, is_unknown);
    index_batch_fini(&b);
    return err;
}

int store_bucket_create(struct store *s, const struct store_bucket *bucket)
{
    struct row_key row;
    if (!fs_bucket_name_fits(bucket->name))
        return S3R_E_INVALID_BUCKET_NAME;
    int err = store_writable(s, NULL);
    if (err)
        return err;
    row_bucket(&row, bucket->name);
    pthread_rwlock_wrlock(fs_bucket_lock(s, bucket->name));
    err = create(s, &row, bucket);
    pthread_rwlock_unlock(fs_bucket_lock(s, bucket->name));
    return err;
}

int store_bucket_stat(struct store *s, const char *name, struct store_bucket *ret)
{
    struct row_key row;
    struct fs_record fr;
    if (!fs_bucket_name_fits(name))
        return S3R_E_NO_SUCH_BUCKET;
    row_bucket(&row, name);
    int err = fs_get(s, &row, &fr);
    if (err)
        return err == S3R_E_NO_SUCH_KEY ? S3R_E_NO_SUCH_BUCKET : err;
    err = take_bucket(&fr.r, ret);
    fs_record_fini(&fr);
    return err;
}

/* Has the bucket a row in `table`? */
static int check_none(struct store *s, char table, const char *name)
{
    struct row_key from, to;
    CLEANUP(index_iter_closep) struct index_iter *it = NULL;
    row_of_bucket(&from, table, name);
    to = from;
    row_after_prefix(&to);
    int err = index_iter_open(s->idx, from.data, from.len, to.data, to.len, &it);
    if (err)
        return err;
    return index_iter_valid(it) ? S3R_E_BUCKET_NOT_EMPTY : index_iter_error(it);
}

/* Under the bucket's lock. */
static int delete (struct store *s, const char *name)
{
    struct row_key row, to;
    struct fs_record fr;
    row_bucket(&row, name);
    int err = fs_get(s, &row, &fr);
    if (err)
        return err == S3R_E_NO_SUCH_KEY ? S3R_E_NO_SUCH_BUCKET : err;
    err = check_none(s, ROW_OBJECT, name);
    if (!err)
        err = check_none(s, ROW_UPLOAD, name);
    if (!err) {
        struct index_batch b;
        index_batch_init(&b);
        index_batch_delete(&b, row.data, row.len);
        fs_drop_rows(&b, &fr.r);
        row_of_bucket(&row, ROW_COMPLETED, name);
        to = row;
        row_after_prefix(&to);
        index_batch_delete_range(&b, row.data, row.len, to.data, to.len);
        err = fs_commit(s, &b, NULL, NULL);
        index_batch_fini(&b);
    }
    if (!err)
        fs_drop_files(s, &fr.r);
    fs_record_fini(&fr);
    return err;
}

int store_bucket_delete(struct store *s, const char *name)
{
    if (!fs_bucket_name_fits(name))
        return S3R_E_NO_SUCH_BUCKET;
    int err = store_writable(s, NULL);
    if (err)
        return err;
    pthread_rwlock_wrlock(fs_bucket_lock(s, name));
    err = delete (s, name);
    pthread_rwlock_unlock(fs_bucket_lock(s, name));
    return err;
}

int store_bucket_list(struct store *s, const char *after, size_t max, struct store_bucket *ret_rows,
                      size_t *ret_count, bool *ret_more)
{
    struct row_key from, to;
    CLEANUP(index_iter_closep) struct index_iter *it = NULL;
    row_begin(&from, ROW_BUCKET);
    to = from;
    row_after_prefix(&to);
    int err = index_iter_open(s->idx, from.data, from.len, to.data, to.len, &it);
    if (err)
        return err;
    if (after && *after) {
        row_add(&from, after, strnlen(after, LIMIT_BUCKET_LEN_MAX) + 1); /* the next name */
        index_iter_seek(it, from.data, from.len);
    }
    size_t count = 0;
    for (; count < max && index_iter_valid(it); index_iter_next(it)) {
        size_t len;
        const char *value = index_iter_value(it, &len);
        struct record r;
        err = record_decode(value, len, &r);
        if (err)
            return err;
        err = take_bucket(&r, &ret_rows[count++]);
        record_fini(&r);
        if (err)
            return err;
    }
    *ret_more = index_iter_valid(it);
    *ret_count = count;
    return index_iter_error(it);
}
