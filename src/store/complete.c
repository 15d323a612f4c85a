/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/crc64.h"
#include "store/le.h"
#include "store/upload.h"

#include <stdlib.h>
#include <string.h>

/* Completed uploads forgotten with each completion, so that they never pile up. */
#define FORGET_EACH 16

struct completion {
    struct store *s;
    const struct store_key *key;
    const char *id;
    const struct store_part *named;
    size_t named_count;
    const uint8_t *list_digest;
    store_judge_fn *judge;
    void *judge_arg;
    struct diag *diag;
    struct upload_parts parts; /* as they are */
    struct record r;           /* the object */
    struct store_writer *manifest;
};

/* Which of the parts that are there the caller names; each must be the very upload it was shown. */
static int match(struct completion *c)
{
    size_t at = 0;
    for (size_t i = 0; i < c->named_count; i++) {
        const struct store_part *n = &c->named[i];
        if (i && n->number <= c->named[i - 1].number)
            return S3R_E_INVALID_PART_ORDER;
        while (at < c->parts.count && c->parts.rows[at].shown.number < n->number)
            at++;
        if (at == c->parts.count || c->parts.rows[at].shown.number != n->number ||
            c->parts.rows[at].shown.sequence != n->sequence)
            return diag_fail(c->diag, S3R_E_INVALID_PART,
                             "part %u is not there or was replaced meanwhile", n->number);
        c->parts.rows[at].is_used = true;
    }
    return 0;
}

static int make_parts(struct completion *c)
{
    struct record *r = &c->r;
    r->parts = calloc(c->named_count, sizeof(*r->parts));
    if (!r->parts)
        return S3R_E_NOMEM;
    for (size_t i = 0; i < c->parts.count; i++) {
        const struct upload_part *from = &c->parts.rows[i];
        if (!from->is_used)
            continue;
        r->parts[r->part_count++] = (struct record_part){.number = from->shown.number,
                                                         .size = from->shown.size,
                                                         .sequence = from->shown.sequence,
                                                         .crc64 = from->shown.crc64,
                                                         .file_id = from->file_id,
                                                         .modified_ms = from->shown.modified_ms,
                                                         .etag = from->shown.etag,
                                                         .checksum = from->shown.checksum};
        r->crc64 = crc64_combine(r->crc64, from->shown.crc64, from->shown.size);
        r->size += from->shown.size; /* 10,000 times 5 GiB do not wrap */
    }
    return r->size > LIMIT_OBJECT_LEN_MAX ? S3R_E_ENTITY_TOO_LARGE : 0;
}

/* The file that says which parts make the object, for a rebuild. */
static int write_manifest(struct completion *c)
{
    c->r.sequence = fs_next_sequence(c->s);
    c->r.modified_ms = c->r.created_ms = clock_wall_ms();
    struct record named = c->r;
    named.bucket = c->key->bucket;
    named.key = (struct record_bytes){c->key->key, c->key->key_len};
    named.upload_id = c->id;
    int err = fs_write_note(c->s, FILE_MANIFEST, &named, c->diag, &c->manifest);
    c->r.file_id = named.file_id;
    return err;
}

/* The upload's row moves to the completed ones, and a row says when it may be forgotten. */
static int remember(struct completion *c, struct index_batch *b, const struct record *upload)
{
    struct row_key open, completed, expiry;
    unsigned char when[8];
    struct record r = *upload;
    r.kind = RECORD_COMPLETED;
    r.etag = c->r.etag;
    r.etag_kind = c->r.etag_kind;
    r.checksum = c->r.checksum;
    r.crc64 = c->r.crc64;
    r.modified_ms = c->r.modified_ms;
    r.list_digest = (struct record_bytes){c->list_digest, 32};
    row_upload(&open, ROW_UPLOAD, c->key, c->id);
    index_batch_delete(b, open.data, open.len);
    row_upload(&completed, ROW_COMPLETED, c->key, c->id);
    be64_store(when, (uint64_t)(c->r.modified_ms + UPLOAD_REMEMBERED_MS));
    row_begin(&expiry, ROW_EXPIRY);
    row_add(&expiry, when, sizeof(when));
    row_add(&expiry, completed.data, completed.len);
    index_batch_put(b, expiry.data, expiry.len, NULL, 0);
    return fs_put_record(b, &completed, &r);
}

static int forget_some(struct store *s, struct index_batch *b, int64_t now_ms)
{
    struct row_key from, to;
    unsigned char when[8];
    CLEANUP(index_iter_closep) struct index_iter *it = NULL;
    row_begin(&from, ROW_EXPIRY);
    to = from;
    be64_store(when, (uint64_t)now_ms);
    row_add(&to, when, sizeof(when));
    int err = index_iter_open(s->idx, from.data, from.len, to.data, to.len, &it);
    if (err)
        return err;
    for (int i = 0; i < FORGET_EACH && index_iter_valid(it); i++, index_iter_next(it)) {
        size_t len;
        const char *key = index_iter_key(it, &len);
        index_batch_delete(b, key, len);
        if (len > 9 && key[9] == ROW_COMPLETED)
            index_batch_delete(b, key + 9, len - 9);
    }
    return index_iter_error(it);
}

static int commit(struct completion *c, const struct row_key *row, const struct record *upload,
                  const struct fs_record *current)
{
    struct index_batch b;
    bool is_unknown = false;
    index_batch_init(&b);
    int err = fs_put_record(&b, row, &c->r);
    if (!err)
        err = remember(c, &b, upload);
    if (!err)
        err = forget_some(c->s, &b, c->r.modified_ms);
    upload_parts_end_rows(&b, c->id, &c->parts);
    fs_writer_close_row(c->manifest, &b);
    if (current)
        fs_drop_rows(&b, &current->r);
    if (!err)
        err = fs_commit(c->s, &b, c->diag, &is_unknown);
    index_batch_fini(&b);
    if (!err || is_unknown)
        fs_writer_done(c->manifest, is_unknown);
    return err;
}

/* Under the bucket's and the key's lock. */
static int judge_and_commit(struct completion *c, const struct record *upload)
{
    struct row_key row;
    struct fs_record found, *current = &found;
    row_object(&row, c->key);
    int err = fs_get(c->s, &row, &found);
    if (err && err != S3R_E_NO_SUCH_KEY)
        return err;
    if (err)
        current = NULL;
    err = fs_judge(current, c->judge, c->judge_arg);
    if (!err)
        err = write_manifest(c);
    if (!err)
        err = commit(c, &row, upload, current);
    if (!err) {
        upload_parts_drop_files(c->s, &c->parts);
        if (current)
            fs_drop_files(c->s, &current->r);
    }
    if (current)
        fs_record_fini(current);
    return err;
}

/* Under the bucket's and the key's lock. */
static int complete(struct completion *c)
{
    struct fs_record upload;
    int err = upload_get_open(c->s, c->key, c->id, &upload);
    if (err)
        return err;
    err = upload_parts_load(c->s->idx, c->id, &c->parts);
    if (!err)
        err = match(c);
    if (!err)
        err = make_parts(c);
    if (!err)
        err = judge_and_commit(c, &upload.r);
    store_writer_close(c->manifest);
    free(c->r.parts);
    upload_parts_fini(&c->parts);
    fs_record_fini(&upload);
    return err;
}

int store_upload_complete(struct store *s, const struct store_key *key, const char *id,
                          const struct store_part *parts, size_t part_count,
                          const struct store_attributes *attributes, const uint8_t list_digest[32],
                          store_judge_fn *judge, void *judge_arg, struct diag *diag,
                          int64_t *ret_modified_ms)
{
    struct completion c = {.s = s,
                           .key = key,
                           .id = id,
                           .named = parts,
                           .named_count = part_count,
                           .list_digest = list_digest,
                           .judge = judge,
                           .judge_arg = judge_arg,
                           .diag = diag,
                           .r = {.kind = RECORD_OBJECT}};
    if (!part_count || part_count > LIMIT_PARTS_MAX)
        return S3R_E_INVALID_PART;
    int err = upload_check(key, id);
    if (!err)
        err = store_writable(s, diag);
    if (!err)
        err = fs_take_attributes(&c.r, attributes);
    if (!err)
        err = fs_enter_bucket(s, key->bucket);
    if (err)
        return err;
    pthread_rwlock_wrlock(fs_key_lock(s, key));
    err = complete(&c);
    pthread_rwlock_unlock(fs_key_lock(s, key));
    fs_leave_bucket(s, key->bucket);
    if (!err && ret_modified_ms)
        *ret_modified_ms = c.r.modified_ms;
    return err;
}
