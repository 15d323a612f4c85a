/* SPDX-License-Identifier: Apache-2.0 */
#include "base/crc64.h"
#include "base/log.h"
#include "base/num.h"
#include "store/fs.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* An open file that readers share; it closes when it is no longer the lease's current one and the
 * last reader has left. */
struct part_file {
    struct file_in in;
    size_t part;
    unsigned readers;
    bool is_current;
};

struct store_lease {
    struct store *s;
    struct fs_record record;
    struct fs_object view;
    bool is_held;             /* of record.r.file_id */
    atomic_bool is_inline_ok; /* the checksum was verified */
    pthread_mutex_t lock;
    struct part_file *file; /* lock `lock`: the last one read */
};

typedef int get_fn(struct store *s, const struct row_key *row, struct fs_record *ret);

/* Reads the row; when it names files they cannot go until the lease is closed. */
static int take(struct store_lease *l, const struct row_key *row, get_fn *get)
{
    for (;;) {
        int err = get(l->s, row, &l->record);
        if (err || !l->record.r.file_id)
            return err;
        uint64_t id = l->record.r.file_id;
        err = files_hold(l->s, id);
        if (err)
            return err;
        /* a drop that was committed before we held it may have unlinked it: look again */
        struct fs_record again;
        l->is_held = true;
        err = get(l->s, row, &again);
        bool is_same = !err && again.r.file_id == id;
        if (!err)
            fs_record_fini(&again);
        if (is_same)
            return 0;
        files_release(l->s, id);
        l->is_held = false;
        fs_record_fini(&l->record);
        if (err)
            return err;
    }
}

static int check_bucket(struct store *s, const struct store_key *key, int err, bool is_cached)
{
    struct row_key row;
    struct index_value v;
    if (err != S3R_E_NO_SUCH_KEY)
        return err;
    row_bucket(&row, key->bucket);
    int found = is_cached ? index_get_cached(s->idx, row.data, row.len, &v)
                          : index_get(s->idx, row.data, row.len, &v);
    if (found == S3R_E_NO_SUCH_KEY)
        return S3R_E_NO_SUCH_BUCKET;
    if (found)
        return found;
    index_value_fini(&v);
    return err;
}

static int open_lease(struct store *s, const struct store_key *key, bool is_cached,
                      struct store_lease **ret_lease)
{
    struct row_key row;
    int err = fs_check_key(key);
    if (err)
        return err == S3R_E_INVALID_ARGUMENT ? S3R_E_NO_SUCH_KEY : err;
    CLEANUP(store_lease_closep) struct store_lease *l = calloc(1, sizeof(*l));
    if (!l)
        return S3R_E_NOMEM;
    l->s = s;
    pthread_mutex_init(&l->lock, NULL);
    row_object(&row, key);
    err = take(l, &row, is_cached ? fs_get_cached : fs_get);
    if (!err)
        err = fs_object_init(&l->view, &l->record.r);
    if (err)
        return check_bucket(s, key, err, is_cached);
    *ret_lease = STEAL(l);
    return 0;
}

int store_lease_open(struct store *s, const struct store_key *key, struct diag *diag,
                     struct store_lease **ret_lease)
{
    int err = open_lease(s, key, false, ret_lease);
    return err == S3R_E_STORE_CORRUPT || err == S3R_E_STORE_FORMAT
               ? diag_fail(diag, err, "the record of the object cannot be read")
               : err;
}

int store_lease_open_cached(struct store *s, const struct store_key *key,
                            struct store_lease **ret_lease)
{
    return open_lease(s, key, true, ret_lease);
}

static void part_file_free(struct part_file *f)
{
    if (!f)
        return;
    file_in_close(&f->in);
    free(f);
}

void store_lease_close(struct store_lease *l)
{
    if (!l)
        return;
    part_file_free(l->file);
    pthread_mutex_destroy(&l->lock);
    if (l->is_held)
        files_release(l->s, l->record.r.file_id);
    fs_object_fini(&l->view);
    fs_record_fini(&l->record);
    free(l);
}

void store_lease_closep(struct store_lease **lease)
{
    store_lease_close(*lease);
}

const struct store_object *store_lease_object(const struct store_lease *l)
{
    return &l->view.object;
}

bool store_lease_is_inline(const struct store_lease *l)
{
    return !l->record.r.file_id;
}

/* ---- reading ---- */

static int read_inline(struct store_lease *l, uint64_t off, void *buf, size_t len)
{
    const struct record_bytes *bytes = &l->record.r.inline_bytes;
    if (!l->is_inline_ok && crc64_update(0, bytes->data, bytes->len) != l->record.r.crc64)
        return S3R_E_STORE_CORRUPT;
    l->is_inline_ok = true;
    if (len)
        memcpy(buf, (const char *)bytes->data + off, len);
    return 0;
}

/* Opens the file that holds part `i` (0 when there are no parts) and judges it against the index.
 */
static int open_part(const struct store_lease *l, size_t i, bool is_view, bool *is_direct,
                     struct part_file **ret_file)
{
    const struct record *r = &l->record.r;
    uint64_t id = r->part_count ? r->parts[i].file_id : r->file_id;
    uint64_t size = r->part_count ? r->parts[i].size : r->size;
    uint64_t crc64 = r->part_count ? r->parts[i].crc64 : r->crc64;
    struct part_file *f = calloc(1, sizeof(*f));
    if (!f)
        return S3R_E_NOMEM;
    int err = file_in_open(&f->in, l->s->dir, id, l->s->header.uuid);
    if (err) {
        free(f);
        return err == S3R_E_NO_SUCH_KEY ? S3R_E_STORE_CORRUPT : err;
    }
    if (f->in.size != size || f->in.crc64 != crc64) {
        part_file_free(f);
        return S3R_E_STORE_CORRUPT;
    }
    file_in_open_direct(&f->in, l->s->recent, is_direct);
    if (is_view)
        file_in_prepare_view(&f->in);
    f->part = i;
    *ret_file = f;
    return 0;
}

static void drop_if_unused(struct part_file *f)
{
    if (f && !f->is_current && !f->readers)
        part_file_free(f);
}

static int enter_part(struct store_lease *l, size_t i, bool is_view, bool *is_direct,
                      struct part_file **ret_file)
{
    int err = 0;
    pthread_mutex_lock(&l->lock);
    if (!l->file || l->file->part != i) {
        struct part_file *opened = NULL;
        err = open_part(l, i, is_view, is_direct, &opened);
        if (!err) {
            struct part_file *was = l->file;
            l->file = opened;
            opened->is_current = true;
            if (was)
                was->is_current = false;
            drop_if_unused(was);
        }
    }
    if (!err) {
        l->file->readers++;
        *ret_file = l->file;
    }
    pthread_mutex_unlock(&l->lock);
    return err;
}

static void leave_part(struct store_lease *l, struct part_file *f)
{
    pthread_mutex_lock(&l->lock);
    f->readers--;
    drop_if_unused(f);
    pthread_mutex_unlock(&l->lock);
}

/* The part that holds `off`: parts may be empty, so the last one that starts there or before. */
static size_t find_part(const struct fs_object *view, uint64_t off)
{
    size_t low = 0, high = view->object.part_count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (view->parts[middle].off <= off)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static int read_files(struct store_lease *l, uint64_t off, char *buf, size_t len)
{
    bool was_direct = atomic_load(&l->s->is_direct), is_direct = was_direct;
    int err = 0;
    for (size_t i = find_part(&l->view, off); !err && len; i++) {
        const struct store_part *p = l->view.parts ? &l->view.parts[i] : NULL;
        uint64_t start = p ? p->off : 0, size = p ? p->size : l->record.r.size;
        size_t n = min_u64(len, start + size - off);
        if (!n)
            continue;
        struct part_file *f;
        err = enter_part(l, i, false, &is_direct, &f);
        if (!err) {
            err = file_in_read(&f->in, off - start, buf, n);
            leave_part(l, f);
        }
        off += n;
        buf += n;
        len -= n;
    }
    if (was_direct && !is_direct)
        atomic_store(&l->s->is_direct, false);
    return err;
}

int store_lease_view(struct store_lease *l, uint64_t off, size_t len, struct store_view *ret_view)
{
    bool is_direct = atomic_load(&l->s->is_direct);
    struct store_view view = {0};
    if (!l->record.r.file_id || !len || !span_fits(off, len, l->record.r.size))
        return S3R_E_UNSUPPORTED;
    size_t i = find_part(&l->view, off);
    uint64_t start = l->view.parts ? l->view.parts[i].off : 0;
    int err = enter_part(l, i, true, &is_direct, &view.file);
    if (err)
        return err;
    err = file_in_view(&view.file->in, off - start, len, &view.bytes);
    if (err)
        leave_part(l, view.file);
    else
        *ret_view = view;
    return err;
}

void store_lease_unview(struct store_lease *l, struct store_view *view)
{
    leave_part(l, view->file);
}

int store_lease_read(struct store_lease *l, uint64_t off, void *buf, size_t len, struct diag *diag)
{
    if (!span_fits(off, len, l->record.r.size))
        return S3R_E_INVALID_RANGE;
    int err = !l->record.r.file_id ? read_inline(l, off, buf, len)
              : len                ? read_files(l, off, buf, len)
                                   : 0;
    if (err == S3R_E_STORE_CORRUPT || err == S3R_E_STORE_IO)
        log_error("store what=read error=%s head_file=%016" PRIx64 " off=%" PRIu64 " len=%zu",
                  error_name(err), l->record.r.file_id, off, len);
    return err ? diag_fail(diag, err, "%s", error_text(err)) : 0;
}
