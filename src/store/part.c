/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/num.h"
#include "store/upload.h"

#include <stdlib.h>
#include <string.h>

/* Under the key's lock (shared) and the part's. */
static int commit_part(struct store_writer *w, const struct store_key *key, const char *id,
                       const struct record *r, struct diag *diag)
{
    struct store *s = w->s;
    struct fs_record upload, old;
    struct row_key row;
    bool is_unknown = false;
    int err = upload_get_open(s, key, id, &upload);
    if (err)
        return err;
    fs_record_fini(&upload);
    row_part(&row, id, r->part_number);
    err = fs_get(s, &row, &old);
    bool has_old = !err;
    if (err && err != S3R_E_NO_SUCH_KEY)
        return err;
    struct index_batch b;
    index_batch_init(&b);
    err = fs_put_record(&b, &row, r);
    fs_writer_close_row(w, &b);
    if (has_old)
        fs_drop_rows(&b, &old.r);
    b.puts = 1;
    if (!err)
        err = fs_commit(s, &b, diag, &is_unknown);
    index_batch_fini(&b);
    if (!err || is_unknown)
        fs_writer_done(w, is_unknown);
    if (!err && has_old)
        fs_drop_files(s, &old.r);
    if (has_old)
        fs_record_fini(&old);
    return err;
}

/* The bytes and what a rebuild needs, durably. */
static int seal_part(struct store_writer *w, const struct store_key *key, const char *id,
                     struct record *r, struct diag *diag)
{
    if (w->error || w->is_sealed)
        return w->error ? w->error : S3R_E_INVALID_ARGUMENT;
    if (store_writer_size(w) > LIMIT_PART_LEN_MAX)
        return S3R_E_ENTITY_TOO_LARGE;
    int err = fs_writer_spill(w, diag);
    if (err)
        return err;
    r->sequence = fs_next_sequence(w->s);
    r->modified_ms = clock_wall_ms();
    struct record named = *r;
    named.bucket = key->bucket;
    named.key = (struct record_bytes){key->key, key->key_len};
    named.upload_id = id;
    err = fs_writer_seal(w, FILE_PART, &named, diag);
    r->size = named.size;
    r->crc64 = named.crc64;
    r->file_id = named.file_id;
    return err;
}

int store_part_put(struct store_writer *w, const struct store_key *key, const char *id,
                   uint32_t number, const struct store_attributes *attributes, struct diag *diag,
                   int64_t *ret_modified_ms)
{
    struct store *s = w->s;
    struct record r = {.kind = RECORD_PART, .part_number = number};
    if (number < 1 || number > LIMIT_PARTS_MAX)
        return S3R_E_INVALID_ARGUMENT;
    int err = upload_check(key, id);
    if (!err)
        err = store_writable(s, diag);
    if (!err)
        err = fs_take_attributes(&r, attributes);
    if (!err)
        err = seal_part(w, key, id, &r, diag);
    if (err)
        return err;
    pthread_rwlock_rdlock(fs_key_lock(s, key));
    pthread_mutex_lock(fs_part_lock(s, id, number));
    err = commit_part(w, key, id, &r, diag);
    pthread_mutex_unlock(fs_part_lock(s, id, number));
    pthread_rwlock_unlock(fs_key_lock(s, key));
    if (!err && ret_modified_ms)
        *ret_modified_ms = r.modified_ms;
    return err;
}

/* Adds rows until there are `max`; the iterator then stands on the next. */
static int collect(struct index_iter *it, size_t max, struct upload_parts *parts)
{
    for (; parts->count < max && index_iter_valid(it); index_iter_next(it)) {
        size_t len;
        const char *value = index_iter_value(it, &len);
        struct record r;
        int err = record_decode(value, len, &r);
        if (err)
            return err;
        err = upload_parts_add(parts, &r);
        record_fini(&r);
        if (err)
            return err;
    }
    return index_iter_error(it);
}

int store_part_list(struct store *s, const struct store_key *key, const char *id, uint32_t after,
                    size_t max, struct store_part **ret_parts, size_t *ret_count, bool *ret_more)
{
    struct fs_record upload;
    struct row_key from, to;
    struct upload_parts parts = {0};
    CLEANUP(index_iter_closep) struct index_iter *it = NULL;
    int err = upload_check(key, id);
    if (!err)
        err = upload_get_open(s, key, id, &upload);
    if (err)
        return err;
    fs_record_fini(&upload);
    row_part(&from, id, after < UINT32_MAX ? after + 1 : after);
    row_part(&to, id, UINT32_MAX);
    err = index_iter_open(s->idx, from.data, from.len, to.data, to.len, &it);
    if (!err)
        err = collect(it, max, &parts);
    CLEANUP(freep) struct store_part *rows = err ? NULL : calloc(parts.count + 1, sizeof(*rows));
    if (!err && !rows)
        err = S3R_E_NOMEM;
    for (size_t i = 0; !err && i < parts.count; i++)
        rows[i] = parts.rows[i].shown;
    if (!err) {
        *ret_count = parts.count;
        *ret_more = index_iter_valid(it);
        *ret_parts = STEAL(rows);
    }
    upload_parts_fini(&parts);
    return err;
}
