/* SPDX-License-Identifier: Apache-2.0 */
#include "store/fs.h"

#include "base/log.h"
#include "base/num.h"
#include "store/le.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Sequences are promised on the disk this many ahead, in the batch of some commit. */
#define SEQUENCE_STEP (UINT64_C(1) << 20)

/* ---- failures ---- */

int fs_fail(struct store *s, int code, const char *what)
{
    pthread_mutex_lock(&s->failure_lock);
    if (!atomic_load(&s->is_failed)) {
        snprintf(s->failure, sizeof(s->failure),
                 "%s failed (%s): nothing more is written until "
                 "a restart",
                 what, error_name(code));
        atomic_store(&s->is_failed, true);
        log_error("store what=read-only reason=\"%s\"", s->failure);
    }
    pthread_mutex_unlock(&s->failure_lock);
    return code;
}

/* Keeps the promise on the disk ahead of the sequences in use. */
static void guard_sequence(struct store *s, struct index_batch *b)
{
    pthread_mutex_lock(&s->sequence_lock);
    if (atomic_load(&s->sequence) + SEQUENCE_STEP / 2 > s->sequence_limit) {
        struct row_key row;
        unsigned char limit[8];
        le64_store(limit, s->sequence_limit + SEQUENCE_STEP);
        row_single(&row, "sequence");
        index_batch_put(b, row.data, row.len, limit, sizeof(limit));
        s->sequence_limit += b->error ? 0 : SEQUENCE_STEP;
    }
    pthread_mutex_unlock(&s->sequence_lock);
}

int fs_commit(struct store *s, struct index_batch *b, struct diag *diag, bool *ret_is_unknown)
{
    bool is_unknown = false;
    if (s->is_read_only || atomic_load(&s->is_failed))
        return store_writable(s, diag);
    int err = b->error ? b->error : fs_check_commit_space(s, diag);
    if (err)
        return err;
    guard_sequence(s, b); /* last: what it promises must reach the disk */
    err = index_commit(s->idx, b, &is_unknown);
    if (err && index_failure(s->idx)) {
        fs_fail(s, err, "a write of the index");
        diag_fail(diag, err, "%s", index_failure(s->idx));
    }
    if (ret_is_unknown)
        *ret_is_unknown = is_unknown;
    return err;
}

/* ---- sequences ---- */

uint64_t fs_next_sequence(struct store *s)
{
    return atomic_fetch_add(&s->sequence, 1);
}

/* ---- names ---- */

int fs_check_key(const struct store_key *key)
{
    if (!fs_bucket_name_fits(key->bucket))
        return S3R_E_NO_SUCH_BUCKET;
    if (!key->key_len || memchr(key->key, 0, key->key_len))
        return S3R_E_INVALID_ARGUMENT;
    return key->key_len > LIMIT_KEY_LEN_MAX ? S3R_E_KEY_TOO_LONG : 0;
}

bool fs_bucket_name_fits(const char *name)
{
    size_t len = strnlen(name, LIMIT_BUCKET_LEN_MAX + 1);
    return len > 0 && len <= LIMIT_BUCKET_LEN_MAX;
}

int fs_check_upload_id(const char *id)
{
    size_t len = strnlen(id, STORE_UPLOAD_ID_MAX);
    return len > 0 && len < STORE_UPLOAD_ID_MAX && strspn(id, "0123456789abcdef") == len
               ? 0
               : S3R_E_NO_SUCH_UPLOAD;
}

/* ---- locks ---- */

/* FNV-1a: only spreads names over locks. */
static uint64_t spread(uint64_t hash, const void *bytes, size_t len)
{
    const unsigned char *at = bytes;
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ at[i]) * UINT64_C(0x100000001b3);
    return hash;
}
#define SPREAD_START UINT64_C(0xcbf29ce484222325)

pthread_rwlock_t *fs_bucket_lock(struct store *s, const char *bucket)
{
    return &s->bucket_locks[spread(SPREAD_START, bucket, strlen(bucket)) % BUCKET_LOCKS];
}

pthread_rwlock_t *fs_key_lock(struct store *s, const struct store_key *key)
{
    uint64_t hash = spread(SPREAD_START, key->bucket, strlen(key->bucket) + 1);
    return &s->key_locks[spread(hash, key->key, key->key_len) % KEY_LOCKS];
}

pthread_mutex_t *fs_part_lock(struct store *s, const char *id, uint32_t number)
{
    uint64_t hash = spread(SPREAD_START, id, strlen(id));
    return &s->part_locks[spread(hash, &number, sizeof(number)) % PART_LOCKS];
}

int fs_enter_bucket(struct store *s, const char *bucket)
{
    struct row_key row;
    struct index_value v;
    if (!fs_bucket_name_fits(bucket))
        return S3R_E_NO_SUCH_BUCKET;
    pthread_rwlock_rdlock(fs_bucket_lock(s, bucket));
    row_bucket(&row, bucket);
    int err = index_get(s->idx, row.data, row.len, &v);
    if (!err) {
        index_value_fini(&v);
        return 0;
    }
    fs_leave_bucket(s, bucket);
    return err == S3R_E_NO_SUCH_KEY ? S3R_E_NO_SUCH_BUCKET : err;
}

void fs_leave_bucket(struct store *s, const char *bucket)
{
    pthread_rwlock_unlock(fs_bucket_lock(s, bucket));
}

/* ---- records ---- */

enum record_kind fs_kind_of_row(unsigned char table)
{
    switch (table) {
    case ROW_OBJECT:
        return RECORD_OBJECT;
    case ROW_PART:
        return RECORD_PART;
    case ROW_UPLOAD:
        return RECORD_UPLOAD;
    case ROW_COMPLETED:
        return RECORD_COMPLETED;
    default:
        return RECORD_BUCKET;
    }
}

static int take_record(int err, const struct row_key *row, struct fs_record *fr)
{
    if (err)
        return err;
    err = record_decode(fr->value.data, fr->value.len, &fr->r);
    if (!err && fr->r.kind != fs_kind_of_row(row->data[0])) {
        record_fini(&fr->r);
        err = S3R_E_STORE_CORRUPT;
    }
    if (err) {
        char name[256];
        log_error("store what=record error=%s row=%s", error_name(err),
                  log_escape((const char *)row->data, row->len, name, sizeof(name)));
        index_value_fini(&fr->value);
    }
    return err;
}

int fs_get(struct store *s, const struct row_key *row, struct fs_record *ret)
{
    memset(ret, 0, sizeof(*ret));
    return take_record(index_get(s->idx, row->data, row->len, &ret->value), row, ret);
}

int fs_get_cached(struct store *s, const struct row_key *row, struct fs_record *ret)
{
    memset(ret, 0, sizeof(*ret));
    return take_record(index_get_cached(s->idx, row->data, row->len, &ret->value), row, ret);
}

void fs_record_fini(struct fs_record *fr)
{
    record_fini(&fr->r);
    index_value_fini(&fr->value);
}

void fs_copy_etag(char out[STORE_ETAG_MAX], const char *etag)
{
    snprintf(out, STORE_ETAG_MAX, "%s", etag ? etag : "");
}

int fs_object_init(struct fs_object *fo, const struct record *r)
{
    memset(fo, 0, sizeof(*fo));
    struct store_object *o = &fo->object;
    if (r->part_count) {
        fo->parts = calloc(r->part_count, sizeof(*fo->parts));
        if (!fo->parts)
            return S3R_E_NOMEM;
    }
    uint64_t off = 0;
    for (size_t i = 0; i < r->part_count; i++) {
        const struct record_part *from = &r->parts[i];
        struct store_part *p = &fo->parts[i];
        *p = (struct store_part){.number = from->number,
                                 .size = from->size,
                                 .off = off,
                                 .sequence = from->sequence,
                                 .modified_ms = from->modified_ms,
                                 .crc64 = from->crc64,
                                 .checksum = from->checksum};
        fs_copy_etag(p->etag, from->etag);
        off += from->size;
    }
    o->size = r->size;
    o->sequence = r->sequence;
    o->modified_ms = r->modified_ms;
    fs_copy_etag(o->etag, r->etag);
    o->etag_kind = r->etag_kind;
    o->owner = r->owner ? r->owner : "";
    o->storage_class = r->storage_class ? r->storage_class : "STANDARD";
    o->crc64 = r->crc64;
    o->checksum = r->checksum;
    o->meta = r->meta;
    o->meta_count = r->meta_count;
    o->parts = fo->parts;
    o->part_count = r->part_count;
    return 0;
}

void fs_object_fini(struct fs_object *fo)
{
    free(fo->parts);
    fo->parts = NULL;
}

int fs_judge(const struct fs_record *current, store_judge_fn *judge, void *judge_arg)
{
    if (!judge)
        return 0;
    if (!current)
        return judge(NULL, judge_arg);
    struct fs_object fo;
    int err = fs_object_init(&fo, &current->r);
    if (!err)
        err = judge(&fo.object, judge_arg);
    fs_object_fini(&fo);
    return err;
}

int fs_take_attributes(struct record *r, const struct store_attributes *a)
{
    if (a->meta_count > RECORD_META_MAX)
        return S3R_E_METADATA_TOO_LARGE;
    if (a->etag && strlen(a->etag) >= STORE_ETAG_MAX)
        return S3R_E_INVALID_ARGUMENT;
    r->etag = a->etag ? a->etag : "";
    r->etag_kind = a->etag_kind;
    r->owner = a->owner;
    r->storage_class = a->storage_class;
    r->meta = (struct store_meta *)(uintptr_t)a->meta; /* only read by the encoder */
    r->meta_count = a->meta_count;
    r->checksum = a->checksum;
    return 0;
}

int fs_put_record(struct index_batch *b, const struct row_key *row, const struct record *r)
{
    struct text out;
    text_init(&out, RECORD_LEN_MAX);
    record_encode(r, &out);
    int err = text_error(&out);
    if (!err)
        index_batch_put(b, row->data, row->len, out.data, out.len);
    text_fini(&out);
    return err ? err : b->error;
}

/* ---- what goes ---- */

void fs_drop_rows(struct index_batch *b, const struct record *r)
{
    struct row_key row;
    if (r->file_id) {
        row_file(&row, ROW_DROP, r->file_id);
        index_batch_put(b, row.data, row.len, NULL, 0);
    }
    for (size_t i = 0; i < r->part_count; i++) {
        row_file(&row, ROW_DROP, r->parts[i].file_id);
        index_batch_put(b, row.data, row.len, NULL, 0);
    }
}

void fs_drop_files(struct store *s, const struct record *r)
{
    if (!r->file_id)
        return;
    uint64_t *ids = malloc((r->part_count + 1) * sizeof(*ids));
    if (!ids)
        return; /* they are in the drop table: the next start removes them */
    ids[0] = r->file_id;
    for (size_t i = 0; i < r->part_count; i++)
        ids[i + 1] = r->parts[i].file_id;
    files_drop(s, r->file_id, ids, r->part_count + 1);
    free(ids);
}
