/* SPDX-License-Identifier: Apache-2.0 */
#include "base/crc64.h"
#include "base/log.h"
#include "store/fs.h"
#include "store/io.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct scrub {
    struct store *s;
    struct store_scrub_report *report;
    uint64_t floor; /* what no writer can still be at work on */
    uint64_t *ids;  /* files that the index names */
    size_t count, cap;
    bool has_unread; /* a row whose files nobody knows */
};

static int add_id(struct scrub *c, uint64_t id)
{
    if (c->count == c->cap) {
        size_t cap = c->cap ? c->cap * 2 : 1024;
        uint64_t *ids = realloc(c->ids, cap * sizeof(*ids));
        if (!ids)
            return S3R_E_NOMEM;
        c->ids = ids;
        c->cap = cap;
    }
    c->ids[c->count++] = id;
    return 0;
}

/* Does the row still say what the scan saw? It may have been overwritten meanwhile. */
static bool is_current(struct scrub *c, const struct row_key *row, uint64_t sequence)
{
    struct fs_record now;
    if (fs_get(c->s, row, &now))
        return false;
    bool is_same = now.r.sequence == sequence;
    fs_record_fini(&now);
    return is_same;
}

static int check_file(struct scrub *c, const struct row_key *row, uint64_t sequence, uint64_t id,
                      uint64_t size, uint64_t crc64)
{
    struct file_in f;
    uint64_t bad = 0;
    int err = add_id(c, id);
    if (err)
        return err;
    err = file_in_open(&f, c->s->dir, id, c->s->header.uuid);
    if (!err) {
        c->report->files++;
        c->report->bytes += f.size;
        err = file_in_verify(&f, &bad);
        if (!err && (f.size != size || f.crc64 != crc64))
            bad++;
        file_in_close(&f);
    } else if (err == S3R_E_NO_SUCH_KEY) {
        err = 0;
        if (is_current(c, row, sequence)) {
            c->report->missing_files++;
            log_error("store what=scrub file=%016" PRIx64 " result=missing", id);
        }
    } else if (err == S3R_E_STORE_CORRUPT || err == S3R_E_STORE_IO) {
        err = 0;
        bad = 1;
    }
    if (bad && is_current(c, row, sequence)) {
        c->report->bad_blocks += bad;
        log_error("store what=scrub file=%016" PRIx64 " result=corrupt bad_blocks=%" PRIu64, id,
                  bad);
    }
    return err;
}

static int check_record(struct scrub *c, const struct row_key *row, const struct record *r)
{
    bool is_note = r->kind == RECORD_BUCKET || r->part_count;
    if (r->kind == RECORD_OBJECT)
        c->report->objects++;
    if (r->inline_bytes.data) {
        c->report->bytes += r->inline_bytes.len;
        c->report->bad_blocks +=
            crc64_update(0, r->inline_bytes.data, r->inline_bytes.len) != r->crc64;
    }
    int err = r->file_id ? check_file(c, row, r->sequence, r->file_id, is_note ? 0 : r->size,
                                      is_note ? 0 : r->crc64)
                         : 0;
    for (size_t i = 0; !err && i < r->part_count; i++)
        err = check_file(c, row, r->sequence, r->parts[i].file_id, r->parts[i].size,
                         r->parts[i].crc64);
    return err;
}

static int check_table(struct scrub *c, char table)
{
    struct row_key from, to;
    CLEANUP(index_iter_closep) struct index_iter *it = NULL;
    row_begin(&from, table);
    to = from;
    row_after_prefix(&to);
    int err = index_iter_open(c->s->idx, from.data, from.len, to.data, to.len, &it);
    for (; !err && index_iter_valid(it); index_iter_next(it)) {
        size_t key_len, len;
        const char *key = index_iter_key(it, &key_len);
        const char *value = index_iter_value(it, &len);
        struct row_key row;
        struct record r;
        int unread =
            key_len > sizeof(row.data) ? S3R_E_STORE_CORRUPT : record_decode(value, len, &r);
        if (unread == S3R_E_NOMEM)
            return unread;
        if (unread) {
            c->has_unread = true;
            c->report->bad_blocks++;
            log_error("store what=scrub row=%c result=%s", table, error_name(unread));
            continue;
        }
        row_begin(&row, table);
        row_add(&row, key + 1, key_len - 1);
        err = check_record(c, &row, &r);
        record_fini(&r);
    }
    return err ? err : index_iter_error(it);
}

/* ---- files that nobody names ---- */

static int compare_ids(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static int has_row(struct scrub *c, char table, uint64_t id, bool *ret_has)
{
    struct row_key row;
    struct index_value v;
    row_file(&row, table, id);
    int err = index_get(c->s->idx, row.data, row.len, &v);
    if (!err)
        index_value_fini(&v);
    *ret_has = !err;
    return err == S3R_E_NO_SUCH_KEY ? 0 : err;
}

static int check_named(uint64_t id, void *arg)
{
    struct scrub *c = arg;
    bool is_open = false, is_dropped = false;
    char path[FILE_PATH_MAX];
    if (id >= c->floor || bsearch(&id, c->ids, c->count, sizeof(id), compare_ids))
        return 0;
    int err = has_row(c, ROW_OPEN, id, &is_open);
    if (!err)
        err = has_row(c, ROW_DROP, id, &is_dropped);
    if (err || is_open || is_dropped)
        return err; /* the reaper's */
    file_path(path, c->s->dir, id);
    err = io_unlink(path);
    if (!err)
        c->report->orphans_removed++;
    log_warn("store what=scrub file=%016" PRIx64 " result=orphan removed=%d", id, !err);
    return 0;
}

static int scrub_deep(struct scrub *c)
{
    /* parts first: one that becomes an object's meanwhile is then seen there */
    static const char tables[] = {ROW_PART, ROW_OBJECT, ROW_BUCKET};
    c->floor = files_floor(c->s);
    for (size_t i = 0; i < ARRAY_LEN(tables); i++) {
        int err = check_table(c, tables[i]);
        if (err)
            return err;
    }
    if (c->count)
        qsort(c->ids, c->count, sizeof(*c->ids), compare_ids);
    if (c->has_unread)
        log_warn("store what=scrub orphans=kept text=\"a row cannot be read: its files look like "
                 "nobody's\"");
    return c->s->is_read_only || c->has_unread ? 0 : file_each(c->s->dir, check_named, c);
}

int store_scrub(struct store *s, bool is_deep, struct diag *diag,
                struct store_scrub_report *ret_report)
{
    struct store_scrub_report report = {0};
    struct scrub c = {.s = s, .report = &report};
    report.orphans_removed = s->is_read_only ? 0 : reaper_retry(s);
    int err = is_deep ? scrub_deep(&c) : 0;
    free(c.ids);
    if (err)
        return diag_fail(diag, err, "the scrub could not go on: %s", error_text(err));
    *ret_report = report;
    return 0;
}

/* ---- backup ---- */

static int copy_header(struct store *s, const char *dir)
{
    char from[FILE_PATH_MAX], to[FILE_PATH_MAX], bytes[4096];
    CLEANUP(closep) int in = -1;
    CLEANUP(closep) int out = -1;
    size_t len = 0;
    snprintf(from, sizeof(from), "%s/STORE", s->dir);
    snprintf(to, sizeof(to), "%s/STORE", dir);
    int err = io_open(from, O_RDONLY, &in);
    if (!err)
        err = io_pread(in, bytes, sizeof(bytes), 0, &len);
    if (!err)
        err = io_open(to, O_WRONLY | O_CREAT | O_EXCL, &out);
    if (!err)
        err = io_pwrite(out, bytes, len, 0);
    if (!err)
        err = io_fsync(out);
    return err ? err : io_sync_dir(dir);
}

/* Says in the copy that it is one: a start on it would unlink files that were open or dropped then
 * and are objects now. A rebuild takes it. */
static int mark_copy(const char *path, struct diag *diag)
{
    struct index *copy;
    struct index_batch b;
    struct row_key row;
    int err = index_open(path, 0, false, diag, &copy);
    if (err)
        return err;
    index_batch_init(&b);
    row_single(&row, ROW_SINGLE_COPY);
    index_batch_put(&b, row.data, row.len, NULL, 0);
    err = index_commit(copy, &b, NULL);
    index_batch_fini(&b);
    index_close(copy);
    return err ? diag_fail(diag, err, "cannot finish the backup's index") : 0;
}

int store_backup(struct store *s, const char *dir, struct diag *diag)
{
    char path[FILE_PATH_MAX];
    if (strlen(dir) > FILE_PATH_MAX - 256)
        return diag_fail(diag, S3R_E_INVALID_ARGUMENT, "the path is too long");
    int err = io_mkdir(dir);
    if (!err)
        err = copy_header(s, dir);
    if (err)
        return diag_fail(diag, err, "cannot write a backup to %s: %s", dir, io_reason());
    snprintf(path, sizeof(path), "%s/index", dir);
    err = index_checkpoint(s->idx, path, diag);
    if (!err)
        err = mark_copy(path, diag);
    return err ? err : io_sync_dir(dir);
}
