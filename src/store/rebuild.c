/* SPDX-License-Identifier: Apache-2.0 */
/* A new index is made beside the old one, first from what can be read of that, then from the data
 * files; only then does it take the old one's place. What it can and cannot know: docs/disk.md. */
#include "base/clock.h"
#include "base/log.h"
#include "base/num.h"
#include "store/io.h"
#include "store/le.h"
#include "store/upload.h"

#include <errno.h>
#include <ftw.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct rebuild {
    const char *dir;
    struct header header;
    struct index *old, *idx; /* old: NULL when nothing can be read of it */
    uint64_t files_limit, sequence_limit;
    struct store_scrub_report report;
    struct diag *diag;
};

/* ---- the two indexes ---- */

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    return remove(path);
}

static void index_path(const struct rebuild *rb, const char *name, char out[FILE_PATH_MAX])
{
    snprintf(out, FILE_PATH_MAX, "%s/%s", rb->dir, name);
}

static bool is_there(const char *path)
{
    struct stat st;
    return !stat(path, &st);
}

/* As it is, else what a repair can save of it, else nothing. A rebuild that ended between its two
 * renames has left a whole one under the new name. */
static void open_old(struct rebuild *rb)
{
    char path[FILE_PATH_MAX], made[FILE_PATH_MAX];
    struct diag diag = {0};
    index_path(rb, "index", path);
    index_path(rb, "index.new", made);
    if (!is_there(path) && is_there(made) && io_rename(made, path))
        log_warn("store what=rebuild old_index=%s text=\"%s\"", made, io_reason());
    if (!is_there(path) || !index_open(path, 0, false, &diag, &rb->old))
        return;
    log_warn("store what=rebuild old_index=damaged text=\"%s\"", diag.text);
    diag_clear(&diag);
    if (index_repair(path, &diag) || index_open(path, 0, false, &diag, &rb->old)) {
        rb->old = NULL;
        log_warn("store what=rebuild old_index=unreadable text=\"%s\"", diag.text);
    }
}

static int open_new(struct rebuild *rb)
{
    char path[FILE_PATH_MAX];
    index_path(rb, "index.new", path);
    nftw(path, remove_one, 32, FTW_DEPTH | FTW_PHYS); /* of a rebuild that was cut short */
    int err = index_open(path, 0, false, rb->diag, &rb->idx);
    if (!err)
        index_relax(rb->idx);
    return err;
}

static int put_single(struct rebuild *rb, const char *name, uint64_t value)
{
    struct index_batch b;
    struct row_key row;
    unsigned char le[8];
    index_batch_init(&b);
    row_single(&row, name);
    le64_store(le, value);
    index_batch_put(&b, row.data, row.len, le, sizeof(le));
    int err = index_commit(rb->idx, &b, NULL);
    index_batch_fini(&b);
    return err;
}

static int make_data(struct rebuild *rb, uint64_t id)
{
    char path[FILE_PATH_MAX];
    bool is_sync_failed;
    index_path(rb, "data", path);
    int err = io_mkdir(path);
    return err ? err : file_make_folders(rb->dir, id, &is_sync_failed);
}

static int take_place(struct rebuild *rb)
{
    char path[FILE_PATH_MAX], aside[FILE_PATH_MAX], name[64];
    uint64_t limit = align_up(rb->files_limit, FILES_RESERVE);
    int err = put_single(rb, "files", limit);
    if (!err && limit) /* a start looks for it, also when all files are lost */
        err = make_data(rb, limit - 1);
    if (!err)
        err = put_single(rb, "sequence", rb->sequence_limit + 1);
    if (!err)
        err = index_sync(rb->idx);
    index_close(rb->idx);
    index_close(rb->old);
    rb->idx = rb->old = NULL;
    if (err)
        return err;
    snprintf(name, sizeof(name), "index.old-%" PRId64, clock_wall_ms());
    index_path(rb, "index", path);
    index_path(rb, name, aside);
    if (is_there(path))
        err = io_rename(path, aside);
    index_path(rb, "index.new", aside);
    if (!err)
        err = io_rename(aside, path);
    if (!err)
        err = io_sync_dir(rb->dir);
    return err ? diag_fail(rb->diag, err, "cannot put the new index into place: %s", io_reason())
               : 0;
}

/* ---- what is whole ---- */

static bool is_file_whole(struct rebuild *rb, uint64_t id, uint64_t size, uint64_t crc64)
{
    struct file_in f;
    if (file_in_open(&f, rb->dir, id, rb->header.uuid))
        return false;
    bool is_whole = f.size == size && f.crc64 == crc64;
    file_in_close(&f);
    return is_whole;
}

/* Are all files there that the record names? (Their blocks are verified when they are read.) */
static bool is_record_whole(struct rebuild *rb, const struct record *r)
{
    bool is_whole = true;
    if (r->kind == RECORD_BUCKET)
        return true;
    if (r->file_id && !r->part_count)
        is_whole = is_file_whole(rb, r->file_id, r->size, r->crc64);
    for (size_t i = 0; is_whole && i < r->part_count; i++)
        is_whole = is_file_whole(rb, r->parts[i].file_id, r->parts[i].size, r->parts[i].crc64);
    rb->report.missing_files += !is_whole;
    return is_whole;
}

static void see_limits(struct rebuild *rb, const struct record *r)
{
    rb->sequence_limit = max_u64(rb->sequence_limit, r->sequence);
    rb->files_limit = max_u64(rb->files_limit, r->file_id + 1);
    for (size_t i = 0; i < r->part_count; i++)
        rb->files_limit = max_u64(rb->files_limit, r->parts[i].file_id + 1);
}

/* ---- from the old index ---- */

static bool is_old_row_good(struct rebuild *rb, const char *key, size_t key_len, const char *value,
                            size_t len)
{
    struct record r;
    switch (*key) {
    case ROW_DROP: /* gone for good */
        return key_len == 9;
    case ROW_EXPIRY:
        return true;
    case ROW_OBJECT:
    case ROW_PART:
    case ROW_BUCKET:
    case ROW_UPLOAD:
    case ROW_COMPLETED:
        break;
    default: /* the open table: a file in it that is whole may well have been acknowledged since */
        return false;
    }
    if (record_decode(value, len, &r))
        return false;
    see_limits(rb, &r);
    bool is_good = r.kind == fs_kind_of_row((unsigned char)*key) && is_record_whole(rb, &r);
    rb->report.objects += is_good && *key == ROW_OBJECT;
    record_fini(&r);
    return is_good;
}

static void see_old_limit(struct rebuild *rb, const char *key, size_t key_len, const char *value,
                          size_t len)
{
    if (len != 8)
        return;
    if (key_len == 6 && !memcmp(key, "Sfiles", 6))
        rb->files_limit = max_u64(rb->files_limit, le64_load(value));
    if (key_len == 9 && !memcmp(key, "Ssequence", 9))
        rb->sequence_limit = max_u64(rb->sequence_limit, le64_load(value));
}

static int copy_old(struct rebuild *rb)
{
    CLEANUP(index_iter_closep) struct index_iter *it = NULL;
    if (!rb->old)
        return 0;
    int err = index_iter_open(rb->old, "A", 1, "\xff", 1, &it);
    for (; !err && index_iter_valid(it); index_iter_next(it)) {
        size_t key_len, len;
        const char *key = index_iter_key(it, &key_len);
        const char *value = index_iter_value(it, &len);
        see_old_limit(rb, key, key_len, value, len);
        if (!is_old_row_good(rb, key, key_len, value, len))
            continue;
        struct index_batch b;
        index_batch_init(&b);
        index_batch_put(&b, key, key_len, value, len);
        err = index_commit(rb->idx, &b, NULL);
        index_batch_fini(&b);
    }
    if (!err && index_iter_error(it))
        log_warn("store what=rebuild old_index=damaged text=\"read up to a damaged block\"");
    return err;
}

/* ---- from the files ---- */

static int get_row(struct rebuild *rb, const struct row_key *row, struct fs_record *ret, bool *has)
{
    memset(ret, 0, sizeof(*ret));
    int err = index_get(rb->idx, row->data, row->len, &ret->value);
    *has = !err;
    if (err)
        return err == S3R_E_NO_SUCH_KEY ? 0 : err;
    err = record_decode(ret->value.data, ret->value.len, &ret->r);
    if (err) {
        index_value_fini(&ret->value);
        *has = false;
    }
    return err;
}

static int is_dropped(struct rebuild *rb, uint64_t id, bool *ret)
{
    struct row_key row;
    struct index_value v;
    row_file(&row, ROW_DROP, id);
    int err = index_get(rb->idx, row.data, row.len, &v);
    if (!err)
        index_value_fini(&v);
    *ret = !err;
    return err == S3R_E_NO_SUCH_KEY ? 0 : err;
}

/* `keep` may be the same upload, completed anew: what it names stays. */
static void drop_rows_but(struct index_batch *b, const struct record *r, const struct record *keep)
{
    struct row_key row;
    row_file(&row, ROW_DROP, r->file_id);
    if (r->file_id)
        index_batch_put(b, row.data, row.len, NULL, 0);
    for (size_t i = 0, k = 0; i < r->part_count; i++) {
        while (k < keep->part_count && keep->parts[k].number < r->parts[i].number)
            k++;
        if (k < keep->part_count && keep->parts[k].file_id == r->parts[i].file_id)
            continue;
        row_file(&row, ROW_DROP, r->parts[i].file_id);
        index_batch_put(b, row.data, row.len, NULL, 0);
    }
}

static int commit_record(struct rebuild *rb, const struct row_key *row, struct record *r,
                         const struct fs_record *loser)
{
    struct index_batch b;
    index_batch_init(&b);
    r->bucket = r->kind == RECORD_BUCKET ? r->bucket : NULL; /* the row's key says them */
    r->key = (struct record_bytes){0};
    r->upload_id = NULL;
    int err = fs_put_record(&b, row, r);
    if (loser)
        drop_rows_but(&b, &loser->r, r);
    if (!err)
        err = index_commit(rb->idx, &b, NULL);
    index_batch_fini(&b);
    return err;
}

static int drop_record(struct rebuild *rb, const struct record *r, const struct record *keep)
{
    struct index_batch b;
    index_batch_init(&b);
    drop_rows_but(&b, r, keep);
    int err = index_commit(rb->idx, &b, NULL);
    index_batch_fini(&b);
    return err;
}

/* A bucket of which only its objects are left. */
static int need_bucket(struct rebuild *rb, const char *name)
{
    struct row_key row;
    struct index_value v;
    row_bucket(&row, name);
    int err = index_get(rb->idx, row.data, row.len, &v);
    if (!err)
        index_value_fini(&v);
    if (err != S3R_E_NO_SUCH_KEY)
        return err;
    struct record r = {.kind = RECORD_BUCKET, .created_ms = clock_wall_ms(), .bucket = name};
    return commit_record(rb, &row, &r, NULL);
}

/* Parts that are dropped are gone, whatever a manifest says. */
static int has_dropped_part(struct rebuild *rb, const struct record *r, bool *ret)
{
    *ret = false;
    for (size_t i = 0; !*ret && i < r->part_count; i++) {
        int err = is_dropped(rb, r->parts[i].file_id, ret);
        if (err)
            return err;
    }
    return 0;
}

static int is_upload_open(struct rebuild *rb, const struct store_key *key, const char *id,
                          bool *ret)
{
    struct row_key row;
    struct index_value v;
    *ret = false;
    if (!id || fs_check_upload_id(id))
        return 0;
    row_upload(&row, ROW_UPLOAD, key, id);
    int err = index_get(rb->idx, row.data, row.len, &v);
    if (!err)
        index_value_fini(&v);
    *ret = !err;
    return err == S3R_E_NO_SUCH_KEY ? 0 : err;
}

/* The old index knows the upload as open and a manifest completes it: what the manifest names is
 * the object's alone from now on. */
static int end_upload(struct rebuild *rb, const struct store_key *key, const char *id,
                      const struct record *r)
{
    struct upload_parts parts;
    struct index_batch b;
    struct row_key row;
    index_batch_init(&b);
    int err = upload_parts_load(rb->idx, id, &parts);
    for (size_t i = 0, k = 0; i < parts.count; i++) {
        struct upload_part *p = &parts.rows[i];
        while (k < r->part_count && r->parts[k].number < p->shown.number)
            k++;
        p->is_used = k < r->part_count && r->parts[k].file_id == p->file_id;
    }
    row_upload(&row, ROW_UPLOAD, key, id);
    index_batch_delete(&b, row.data, row.len);
    upload_parts_end_rows(&b, id, &parts);
    if (!err)
        err = index_commit(rb->idx, &b, NULL);
    index_batch_fini(&b);
    upload_parts_fini(&parts);
    return err;
}

/* The highest sequence wins; the other's files are dropped. */
static int place_object(struct rebuild *rb, const struct store_key *key, struct record *r)
{
    struct row_key row;
    struct fs_record now;
    const char *id = r->upload_id;
    bool has, is_open;
    int err = is_upload_open(rb, key, id, &is_open);
    row_object(&row, key);
    if (!err)
        err = get_row(rb, &row, &now, &has);
    if (err)
        return err;
    if (!has || now.r.sequence < r->sequence) {
        rb->report.objects += !has;
        err = commit_record(rb, &row, r, has ? &now : NULL);
        if (!err && is_open)
            err = end_upload(rb, key, id, r);
    } else if (now.r.file_id != r->file_id) {
        err = drop_record(rb, r, is_open ? r : &now.r); /* the parts are the upload's then */
    }
    if (has)
        fs_record_fini(&now);
    return err;
}

static int restore_object(struct rebuild *rb, struct record *r)
{
    struct store_key key = {r->bucket, r->key.data, r->key.len};
    bool is_gone;
    if (!r->bucket || !r->key.data || fs_check_key(&key) || !is_record_whole(rb, r))
        return 0;
    int err = has_dropped_part(rb, r, &is_gone);
    if (err || is_gone)
        return err;
    err = need_bucket(rb, r->bucket);
    return err ? err : place_object(rb, &key, r);
}

static int restore_bucket(struct rebuild *rb, struct record *r)
{
    struct row_key row;
    struct fs_record now;
    bool has;
    if (!r->bucket || !fs_bucket_name_fits(r->bucket))
        return 0;
    row_bucket(&row, r->bucket);
    int err = get_row(rb, &row, &now, &has);
    if (err)
        return err;
    /* one without a file was made up by need_bucket() */
    if (!has || !now.r.file_id || now.r.sequence < r->sequence)
        err = commit_record(rb, &row, r, has ? &now : NULL);
    else if (now.r.file_id != r->file_id)
        err = drop_record(rb, r, &now.r);
    if (has)
        fs_record_fini(&now);
    return err;
}

static int restore_file(struct rebuild *rb, struct file_in *f)
{
    CLEANUP(freep) char *bytes = NULL;
    size_t len;
    struct record r;
    if (f->kind == FILE_PART)
        return 0; /* named by a manifest, or by a row of the old index */
    int err = file_in_record(f, &bytes, &len);
    if (!err)
        err = record_decode(bytes, len, &r);
    if (err == S3R_E_NOMEM)
        return err;
    if (err) {
        rb->report.bad_blocks++;
        return 0;
    }
    r.file_id = f->file_id; /* the file's name and end block agree on it */
    see_limits(rb, &r);
    if (r.kind == RECORD_BUCKET)
        err = restore_bucket(rb, &r);
    else if (r.kind == RECORD_OBJECT)
        err = restore_object(rb, &r);
    record_fini(&r);
    return err;
}

static int each_file(uint64_t id, void *arg)
{
    struct rebuild *rb = arg;
    struct file_in f;
    bool is_gone;
    rb->files_limit = max_u64(rb->files_limit, id + 1);
    int err = is_dropped(rb, id, &is_gone);
    if (err || is_gone)
        return err;
    err = file_in_open(&f, rb->dir, id, rb->header.uuid);
    if (err == S3R_E_STORE_CORRUPT || err == S3R_E_STORE_FORMAT || err == S3R_E_STORE_IO) {
        /* most often a write that never ended */
        log_warn("store what=rebuild file=%016" PRIx64 " result=skipped error=%s", id,
                 error_name(err));
        return 0;
    }
    if (err)
        return err;
    rb->report.files++;
    rb->report.bytes += f.size;
    err = restore_file(rb, &f);
    file_in_close(&f);
    return err;
}

static int rebuild(struct rebuild *rb)
{
    open_old(rb);
    int err = open_new(rb);
    if (!err)
        err = copy_old(rb);
    if (!err)
        err = file_each(rb->dir, each_file, rb);
    return err ? err : take_place(rb);
}

int store_rebuild(const char *dir, struct diag *diag, struct store_scrub_report *ret_report)
{
    struct rebuild rb = {.dir = dir, .diag = diag};
    CLEANUP(closep) int lock_fd = -1;
    if (!*dir || strlen(dir) > FILE_PATH_MAX - 256)
        return diag_fail(diag, S3R_E_INVALID_ARGUMENT, "the path is empty or too long");
    int err = header_read(dir, diag, &rb.header);
    if (err == S3R_E_NO_SUCH_KEY)
        return diag_fail(diag, S3R_E_STORE_FORMAT, "there is no store in %s (no file STORE)", dir);
    if (!err)
        err = header_lock(dir, false, diag, &lock_fd);
    if (err)
        return err;
    err = rebuild(&rb);
    index_close(rb.idx);
    index_close(rb.old);
    if (err)
        return diag_fail(diag, err, "the rebuild could not go on: %s", error_text(err));
    *ret_report = rb.report;
    return 0;
}
