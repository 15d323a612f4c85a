/* SPDX-License-Identifier: Apache-2.0 */
#include "base/crc64.h"
#include "base/log.h"
#include "store/fs.h"
#include "store/io.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

static int fail(struct diag *diag, int err, const char *doing)
{
    return diag_fail(diag, err, "%s: %s", doing, err == S3R_E_STORE_CORRUPT ? "" : io_reason());
}

static int open_file(struct store_writer *w, struct diag *diag)
{
    struct store *s = w->s;
    uint64_t id;
    int err = files_new_id(s, diag, &id);
    if (err)
        return err;
    bool was_direct = atomic_load(&s->is_direct), is_direct = was_direct;
    w->has_file = true;
    err = file_out_open(&w->file, s->dir, id, w->size_hint, &is_direct);
    if (err)
        return fail(diag, err, "cannot create a data file");
    if (was_direct && !is_direct && atomic_exchange(&s->is_direct, false))
        log_warn("store what=o-direct result=refused text=\"the file system has no O_DIRECT: "
                 "large reads and writes go through the page cache\"");
    return 0;
}

int store_writer_open(struct store *s, uint64_t size, struct diag *diag,
                      struct store_writer **ret_writer)
{
    int err = store_writable(s, diag);
    if (!err)
        err = fs_check_space(s, size, diag);
    if (err)
        return err;
    CLEANUP(store_writer_closep) struct store_writer *w = calloc(1, sizeof(*w));
    if (!w)
        return S3R_E_NOMEM;
    w->s = s;
    w->size_hint = size;
    w->file.fd = -1;
    if (size == UINT64_MAX || size <= LIMIT_INLINE_LEN_MAX) {
        w->inline_bytes = malloc(LIMIT_INLINE_LEN_MAX);
        if (!w->inline_bytes)
            return S3R_E_NOMEM;
    } else {
        err = open_file(w, diag);
        if (err)
            return err;
    }
    *ret_writer = STEAL(w);
    return 0;
}

int fs_writer_spill(struct store_writer *w, struct diag *diag)
{
    if (w->has_file)
        return 0;
    int err = open_file(w, diag);
    if (!err)
        err = file_out_append(&w->file, w->inline_bytes, w->inline_len);
    free(w->inline_bytes);
    w->inline_bytes = NULL;
    return err;
}

static int append(struct store_writer *w, const void *buf, size_t len, struct diag *diag)
{
    if (!w->has_file) {
        if (len <= LIMIT_INLINE_LEN_MAX - w->inline_len) {
            memcpy(w->inline_bytes + w->inline_len, buf, len);
            w->inline_len += len;
            w->inline_crc = crc64_update(w->inline_crc, buf, len);
            return 0;
        }
        int err = fs_writer_spill(w, diag);
        if (err)
            return err;
    }
    /* what was not allocated beforehand must not fill the disk: the index needs the rest */
    int err = w->size_hint == UINT64_MAX ? fs_check_space(w->s, len, diag) : 0;
    if (err)
        return err;
    err = file_out_append(&w->file, buf, len);
    return err ? fail(diag, err, "cannot write a data file") : 0;
}

int store_writer_append(struct store_writer *w, const void *buf, size_t len, struct diag *diag)
{
    if (w->error || w->is_sealed)
        return w->error ? w->error : S3R_E_INVALID_ARGUMENT;
    if (!len)
        return 0;
    w->error = append(w, buf, len, diag);
    return w->error;
}

uint64_t store_writer_size(const struct store_writer *w)
{
    return w->has_file ? w->file.size : w->inline_len;
}

uint64_t store_writer_crc64(const struct store_writer *w)
{
    return w->has_file ? file_out_crc64(&w->file) : w->inline_crc;
}

void store_writer_close(struct store_writer *w)
{
    if (!w)
        return;
    if (w->has_file) {
        file_out_close(&w->file);
        if (w->file.file_id && !w->is_committed && !w->is_unknown)
            files_abandon(w->s, w->file.file_id);
    }
    free(w->inline_bytes);
    free(w);
}

void store_writer_closep(struct store_writer **w)
{
    store_writer_close(*w);
}

/* ---- sealing ---- */

static int sync_name(struct store_writer *w, struct diag *diag)
{
    char path[FILE_PATH_MAX];
    CLEANUP(closep) int fd = -1;
    file_folder(path, w->s->dir, w->file.file_id);
    int err = io_open(path, O_RDONLY | O_DIRECTORY, &fd);
    if (err)
        return fail(diag, err, "cannot open a data folder");
    err = io_fsync(fd);
    return err ? fs_fail(w->s, fail(diag, err, "cannot sync a data folder"),
                         "sync of a data folder")
               : 0;
}

static int write_end(struct store_writer *w, enum file_kind kind, const struct record *r,
                     struct diag *diag)
{
    struct text out;
    text_init(&out, RECORD_LEN_MAX);
    record_encode(r, &out);
    int err = text_error(&out);
    if (!err) {
        err = file_out_finish(&w->file, kind, w->s->header.uuid, &out);
        if (err)
            fail(diag, err, "cannot write a data file");
    }
    text_fini(&out);
    if (err)
        return err;
    io_point("data-before-sync");
    err = io_fdatasync(w->file.fd);
    io_point("data-after-sync");
    return err ? fs_fail(w->s, fail(diag, err, "cannot sync a data file"), "sync of a data file")
               : 0;
}

int fs_writer_seal(struct store_writer *w, enum file_kind kind, struct record *r, struct diag *diag)
{
    w->is_sealed = true;
    r->file_id = w->file.file_id;
    r->size = kind == FILE_OBJECT || kind == FILE_PART ? w->file.size : r->size;
    if (kind == FILE_OBJECT || kind == FILE_PART)
        r->crc64 = file_out_crc64(&w->file);
    int err = write_end(w, kind, r, diag);
    if (!err)
        err = sync_name(w, diag);
    io_point("name-after-sync");
    return err;
}

int fs_writer_reseal(struct store_writer *w, enum file_kind kind, const struct record *r,
                     struct diag *diag)
{
    return write_end(w, kind, r, diag);
}

void fs_writer_close_row(struct store_writer *w, struct index_batch *b)
{
    struct row_key row;
    row_file(&row, ROW_OPEN, w->file.file_id);
    index_batch_delete(b, row.data, row.len);
}

void fs_writer_done(struct store_writer *w, bool is_unknown)
{
    w->is_committed = !is_unknown;
    w->is_unknown = is_unknown;
    if (w->has_file && !is_unknown)
        files_committed(w->s, w->file.file_id);
}

int fs_write_note(struct store *s, enum file_kind kind, struct record *r, struct diag *diag,
                  struct store_writer **ret_writer)
{
    CLEANUP(store_writer_closep) struct store_writer *w = calloc(1, sizeof(*w));
    if (!w)
        return S3R_E_NOMEM;
    w->s = s;
    w->file.fd = -1;
    w->size_hint = 0;
    int err = fs_check_space(s, 0, diag);
    if (!err)
        err = open_file(w, diag);
    if (!err)
        err = fs_writer_seal(w, kind, r, diag);
    if (!err)
        *ret_writer = STEAL(w);
    return err;
}
