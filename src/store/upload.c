/* SPDX-License-Identifier: Apache-2.0 */
#include "store/upload.h"

#include "base/clock.h"
#include "base/crypto.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What store_upload_stat() returns, with what it points into. */
struct upload_found {
    struct store_upload upload; /* first: it is freed by this address */
    struct fs_record record;
    char key[LIMIT_KEY_LEN_MAX];
};

int upload_check(const struct store_key *key, const char *id)
{
    int err = fs_check_key(key);
    return err ? err : fs_check_upload_id(id);
}

int upload_get_open(struct store *s, const struct store_key *key, const char *id,
                    struct fs_record *ret)
{
    struct row_key row;
    row_upload(&row, ROW_UPLOAD, key, id);
    int err = fs_get(s, &row, ret);
    return err == S3R_E_NO_SUCH_KEY ? S3R_E_NO_SUCH_UPLOAD : err;
}

/* Ids of one key sort in the order of their creation. */
static void make_id(uint64_t sequence, char out[STORE_UPLOAD_ID_MAX])
{
    snprintf(out, STORE_UPLOAD_ID_MAX, "%016" PRIx64 "%016" PRIx64, sequence, random_u64());
}

static int commit_upload(struct store *s, const struct row_key *row, const struct record *r,
                         struct diag *diag)
{
    struct index_batch b;
    index_batch_init(&b);
    int err = fs_put_record(&b, row, r);
    if (!err)
        err = fs_commit(s, &b, diag, NULL);
    index_batch_fini(&b);
    return err;
}

int store_upload_create(struct store *s, const struct store_key *key,
                        const struct store_attributes *attributes, uint8_t checksum_kind,
                        uint8_t checksum_type, struct diag *diag, char ret_id[STORE_UPLOAD_ID_MAX])
{
    char id[STORE_UPLOAD_ID_MAX];
    struct row_key row;
    struct record r = {.kind = RECORD_UPLOAD,
                       .checksum_wanted_kind = checksum_kind,
                       .checksum_wanted_type = checksum_type};
    int err = fs_check_key(key);
    if (!err)
        err = store_writable(s, diag);
    if (!err)
        err = fs_check_space(s, 0, diag);
    if (!err)
        err = fs_take_attributes(&r, attributes);
    if (!err)
        err = fs_enter_bucket(s, key->bucket);
    if (err)
        return err;
    r.sequence = fs_next_sequence(s);
    r.created_ms = clock_wall_ms();
    make_id(r.sequence, id);
    row_upload(&row, ROW_UPLOAD, key, id);
    err = commit_upload(s, &row, &r, diag);
    fs_leave_bucket(s, key->bucket);
    if (!err)
        memcpy(ret_id, id, sizeof(id));
    return err;
}

static void show(struct upload_found *f, const struct store_key *key, const char *id)
{
    const struct record *r = &f->record.r;
    struct store_upload *u = &f->upload;
    snprintf(u->id, sizeof(u->id), "%s", id);
    memcpy(f->key, key->key, key->key_len);
    u->key = f->key;
    u->key_len = key->key_len;
    u->created_ms = r->created_ms;
    u->owner = r->owner ? r->owner : "";
    u->storage_class = r->storage_class ? r->storage_class : "STANDARD";
    u->checksum_kind = r->checksum_wanted_kind;
    u->checksum_type = r->checksum_wanted_type;
    u->meta = r->meta;
    u->meta_count = r->meta_count;
    u->is_completed = r->kind == RECORD_COMPLETED;
    if (r->list_digest.data)
        memcpy(u->list_digest, r->list_digest.data, sizeof(u->list_digest));
    fs_copy_etag(u->etag, r->etag);
    u->checksum = r->checksum;
    u->crc64 = r->crc64;
}

int store_upload_stat(struct store *s, const struct store_key *key, const char *id,
                      struct store_upload **ret_upload)
{
    struct row_key row;
    int err = upload_check(key, id);
    if (err)
        return err;
    CLEANUP(store_upload_freep) struct store_upload *u = calloc(1, sizeof(struct upload_found));
    if (!u)
        return S3R_E_NOMEM;
    struct upload_found *f = (struct upload_found *)u;
    err = upload_get_open(s, key, id, &f->record);
    if (err == S3R_E_NO_SUCH_UPLOAD) {
        row_upload(&row, ROW_COMPLETED, key, id);
        err = fs_get(s, &row, &f->record);
    }
    if (err)
        return err == S3R_E_NO_SUCH_KEY ? S3R_E_NO_SUCH_UPLOAD : err;
    show(f, key, id);
    *ret_upload = STEAL(u);
    return 0;
}

void store_upload_free(struct store_upload *upload)
{
    struct upload_found *f = (struct upload_found *)upload;
    if (!f)
        return;
    fs_record_fini(&f->record);
    free(f);
}

void store_upload_freep(struct store_upload **upload)
{
    store_upload_free(*upload);
}

/* ---- parts of an upload, as they are ---- */

int upload_parts_load(struct index *idx, const char *id, struct upload_parts *ret)
{
    struct row_key from, to;
    CLEANUP(index_iter_closep) struct index_iter *it = NULL;
    memset(ret, 0, sizeof(*ret));
    row_part(&from, id, 0);
    row_part(&to, id, UINT32_MAX);
    int err = index_iter_open(idx, from.data, from.len, to.data, to.len, &it);
    for (; !err && index_iter_valid(it); index_iter_next(it)) {
        size_t len;
        const char *value = index_iter_value(it, &len);
        struct record r;
        err = record_decode(value, len, &r);
        if (err)
            break;
        err = upload_parts_add(ret, &r);
        record_fini(&r);
    }
    return err ? err : index_iter_error(it);
}

int upload_parts_add(struct upload_parts *parts, const struct record *r)
{
    if (r->kind != RECORD_PART || !r->part_number || r->part_number > LIMIT_PARTS_MAX ||
        !r->file_id)
        return S3R_E_STORE_CORRUPT;
    if (parts->count == parts->cap) {
        size_t cap = parts->cap ? parts->cap * 2 : 16;
        struct upload_part *rows = realloc(parts->rows, cap * sizeof(*rows));
        if (!rows)
            return S3R_E_NOMEM;
        parts->rows = rows;
        parts->cap = cap;
    }
    struct upload_part *p = &parts->rows[parts->count++];
    memset(p, 0, sizeof(*p));
    p->shown = (struct store_part){.number = r->part_number,
                                   .size = r->size,
                                   .sequence = r->sequence,
                                   .modified_ms = r->modified_ms,
                                   .crc64 = r->crc64,
                                   .checksum = r->checksum};
    fs_copy_etag(p->shown.etag, r->etag);
    p->file_id = r->file_id;
    return 0;
}

void upload_parts_fini(struct upload_parts *parts)
{
    free(parts->rows);
    memset(parts, 0, sizeof(*parts));
}

void upload_parts_end_rows(struct index_batch *b, const char *id, const struct upload_parts *parts)
{
    struct row_key row;
    for (size_t i = 0; i < parts->count; i++) {
        row_part(&row, id, parts->rows[i].shown.number);
        index_batch_delete(b, row.data, row.len);
        if (parts->rows[i].is_used)
            continue;
        row_file(&row, ROW_DROP, parts->rows[i].file_id);
        index_batch_put(b, row.data, row.len, NULL, 0);
    }
}

void upload_parts_drop_files(struct store *s, const struct upload_parts *parts)
{
    for (size_t i = 0; i < parts->count; i++)
        if (!parts->rows[i].is_used)
            files_drop(s, parts->rows[i].file_id, &parts->rows[i].file_id, 1);
}

/* ---- abort ---- */

/* Under the key's lock. */
static int abort_open(struct store *s, const struct store_key *key, const char *id)
{
    struct fs_record upload;
    struct upload_parts parts;
    int err = upload_get_open(s, key, id, &upload);
    if (err)
        return err;
    fs_record_fini(&upload);
    err = upload_parts_load(s->idx, id, &parts);
    if (!err) {
        struct index_batch b;
        struct row_key row;
        index_batch_init(&b);
        row_upload(&row, ROW_UPLOAD, key, id);
        index_batch_delete(&b, row.data, row.len);
        upload_parts_end_rows(&b, id, &parts);
        err = fs_commit(s, &b, NULL, NULL);
        index_batch_fini(&b);
    }
    if (!err)
        upload_parts_drop_files(s, &parts);
    upload_parts_fini(&parts);
    return err;
}

int store_upload_abort(struct store *s, const struct store_key *key, const char *id)
{
    int err = upload_check(key, id);
    if (!err)
        err = store_writable(s, NULL);
    if (err)
        return err;
    pthread_rwlock_wrlock(fs_key_lock(s, key));
    err = abort_open(s, key, id);
    pthread_rwlock_unlock(fs_key_lock(s, key));
    return err;
}
