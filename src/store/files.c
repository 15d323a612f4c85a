/* SPDX-License-Identifier: Apache-2.0 */
#include "store/files.h"

#include "store/fs.h"
#include "store/io.h"
#include "store/le.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Readers of one head file, and what goes when the last of them does. */
struct files_entry {
    struct files_entry *next;
    uint64_t id;
    size_t readers;
    uint64_t *drops;
    size_t drop_count;
};

void files_init(struct files *f)
{
    memset(f, 0, sizeof(*f));
    pthread_mutex_init(&f->lock, NULL);
    pthread_cond_init(&f->reserved, NULL);
}

void files_fini(struct files *f)
{
    free(f->open);
    pthread_cond_destroy(&f->reserved);
    pthread_mutex_destroy(&f->lock);
}

/* ---- start ---- */

/* What a table of files names is the reaper's. */
static int reap_table(struct store *s, char table, size_t *count)
{
    struct row_key from, to;
    CLEANUP(index_iter_closep) struct index_iter *it = NULL;
    row_begin(&from, table);
    to = from;
    row_after_prefix(&to);
    int err = index_iter_open(s->idx, from.data, from.len, to.data, to.len, &it);
    if (err)
        return err;
    for (; index_iter_valid(it); index_iter_next(it), ++*count) {
        size_t len;
        const char *key = index_iter_key(it, &len);
        if (len != 9)
            return S3R_E_STORE_CORRUPT;
        uint64_t id = be64_load(key + 1);
        reaper_add(s, &id, 1, table);
    }
    return index_iter_error(it);
}

static int read_limit(struct store *s, uint64_t *ret_limit)
{
    struct row_key row;
    struct index_value v;
    row_single(&row, "files");
    int err = index_get(s->idx, row.data, row.len, &v);
    if (err == S3R_E_NO_SUCH_KEY) {
        *ret_limit = 0;
        return 0;
    }
    if (err)
        return err;
    bool is_good = v.len == 8;
    if (is_good)
        *ret_limit = le64_load(v.data);
    index_value_fini(&v);
    return is_good ? 0 : S3R_E_STORE_CORRUPT;
}

/* A folder that was made before the first file in it, and is never removed. */
static int check_data_there(struct store *s, struct diag *diag)
{
    char path[FILE_PATH_MAX];
    if (!s->files.limit)
        return 0;
    file_folder(path, s->dir, s->files.limit - 1);
    return access(path, F_OK) ? diag_fail(diag, S3R_E_STORE_CORRUPT,
                                          "%s is missing: are the data files there (and mounted)? "
                                          "If they are lost, run `s3rdmad rebuild`",
                                          path)
                              : 0;
}

/* Files with ids that were never reserved: the index is older than they are. It would take their
 * ids for new ones, and what it calls open or dropped for its own to remove. */
static int check_unused(struct store *s, uint64_t from, struct diag *diag)
{
    char path[FILE_PATH_MAX];
    for (uint64_t id = from; id < from + FILES_RESERVE; id++) {
        file_path(path, s->dir, id);
        if (!access(path, F_OK))
            return diag_fail(diag, S3R_E_STORE_CORRUPT,
                             "%s is there, but the index is older than it: run `s3rdmad rebuild`",
                             path);
    }
    return 0;
}

int files_start(struct store *s, struct diag *diag)
{
    struct files *f = &s->files;
    int err = read_limit(s, &f->limit);
    if (err || s->is_read_only)
        return err;
    err = check_data_there(s, diag);
    if (!err)
        err = check_unused(s, f->limit, diag);
    if (err)
        return err;
    f->next = f->end = f->limit;
    size_t count = 0;
    err = reaper_start(s);
    if (!err)
        err = reap_table(s, ROW_OPEN, &count);
    if (!err)
        err = reap_table(s, ROW_DROP, &count);
    return err ? diag_fail(diag, err, "the tables of open and dropped files cannot be read") : 0;
}

/* ---- ids ---- */

/* Reserves [from, from + FILES_RESERVE) on the disk. */
static int reserve(struct store *s, uint64_t from, struct diag *diag)
{
    bool is_sync_failed;
    int err = file_make_folders(s->dir, from, &is_sync_failed);
    if (err && is_sync_failed)
        return fs_fail(s, err, "sync of a data folder");
    if (err)
        return diag_fail(diag, err, "cannot make a data folder: %s", io_reason());
    err = check_unused(s, from, diag);
    if (err)
        return fs_fail(s, err,
                       "reserving ids of files that are there already (run `s3rdmad rebuild`)");
    struct index_batch b;
    struct row_key row;
    unsigned char limit[8];
    index_batch_init(&b);
    for (uint64_t id = from ? from : 1; id < from + FILES_RESERVE; id++) {
        row_file(&row, ROW_OPEN, id);
        index_batch_put(&b, row.data, row.len, NULL, 0);
    }
    row_single(&row, "files");
    le64_store(limit, from + FILES_RESERVE);
    index_batch_put(&b, row.data, row.len, limit, sizeof(limit));
    err = fs_commit(s, &b, diag, NULL);
    index_batch_fini(&b);
    return err;
}

static int add_open(struct files *f, uint64_t id)
{
    if (f->open_count == f->open_cap) {
        size_t cap = f->open_cap ? f->open_cap * 2 : 64;
        uint64_t *open = realloc(f->open, cap * sizeof(*open));
        if (!open)
            return S3R_E_NOMEM;
        f->open = open;
        f->open_cap = cap;
    }
    f->open[f->open_count++] = id;
    return 0;
}

static void remove_open(struct files *f, uint64_t id)
{
    for (size_t i = 0; i < f->open_count; i++) {
        if (f->open[i] == id) {
            f->open[i] = f->open[--f->open_count];
            return;
        }
    }
}

/* Called and returns with the lock held. */
static int refill(struct store *s, struct diag *diag)
{
    struct files *f = &s->files;
    if (f->is_reserving) {
        pthread_cond_wait(&f->reserved, &f->lock);
        return 0;
    }
    f->is_reserving = true;
    uint64_t from = f->limit;
    pthread_mutex_unlock(&f->lock);
    int err = reserve(s, from, diag);
    pthread_mutex_lock(&f->lock);
    f->is_reserving = false;
    if (!err) {
        f->next = from ? from : 1;
        f->end = f->limit = from + FILES_RESERVE;
    }
    pthread_cond_broadcast(&f->reserved);
    return err;
}

int files_new_id(struct store *s, struct diag *diag, uint64_t *ret_id)
{
    struct files *f = &s->files;
    int err = 0;
    pthread_mutex_lock(&f->lock);
    while (!err && f->next == f->end)
        err = refill(s, diag);
    if (!err)
        err = add_open(f, f->next);
    if (!err)
        *ret_id = f->next++;
    pthread_mutex_unlock(&f->lock);
    return err;
}

void files_committed(struct store *s, uint64_t id)
{
    pthread_mutex_lock(&s->files.lock);
    remove_open(&s->files, id);
    pthread_mutex_unlock(&s->files.lock);
}

void files_abandon(struct store *s, uint64_t id)
{
    reaper_add(s, &id, 1, ROW_OPEN);
    files_committed(s, id);
}

uint64_t files_floor(struct store *s)
{
    struct files *f = &s->files;
    pthread_mutex_lock(&f->lock);
    uint64_t floor = f->next < f->end ? f->next : f->limit;
    for (size_t i = 0; i < f->open_count; i++)
        floor = f->open[i] < floor ? f->open[i] : floor;
    pthread_mutex_unlock(&f->lock);
    return floor;
}

/* ---- readers ---- */

static struct files_entry **find(struct files *f, uint64_t id)
{
    struct files_entry **at = &f->read[id % FILES_BUCKETS];
    while (*at && (*at)->id != id)
        at = &(*at)->next;
    return at;
}

int files_hold(struct store *s, uint64_t id)
{
    struct files *f = &s->files;
    int err = 0;
    pthread_mutex_lock(&f->lock);
    struct files_entry **at = find(f, id);
    if (!*at) {
        *at = calloc(1, sizeof(**at));
        if (*at)
            (*at)->id = id;
        else
            err = S3R_E_NOMEM;
    }
    if (!err)
        (*at)->readers++;
    pthread_mutex_unlock(&f->lock);
    return err;
}

void files_release(struct store *s, uint64_t id)
{
    struct files *f = &s->files;
    struct files_entry *gone = NULL;
    pthread_mutex_lock(&f->lock);
    struct files_entry **at = find(f, id);
    if (--(*at)->readers == 0) {
        gone = *at;
        *at = gone->next;
    }
    pthread_mutex_unlock(&f->lock);
    if (!gone)
        return;
    reaper_add(s, gone->drops, gone->drop_count, ROW_DROP);
    free(gone->drops);
    free(gone);
}

void files_drop(struct store *s, uint64_t head, const uint64_t *ids, size_t count)
{
    struct files *f = &s->files;
    bool is_read = false;
    pthread_mutex_lock(&f->lock);
    struct files_entry *e = *find(f, head);
    if (e) {
        is_read = true;
        /* without memory for the list the next start removes them */
        e->drops = malloc(count * sizeof(*ids));
        e->drop_count = e->drops ? count : 0;
        if (e->drops)
            memcpy(e->drops, ids, count * sizeof(*ids));
    }
    pthread_mutex_unlock(&f->lock);
    if (!is_read)
        reaper_add(s, ids, count, ROW_DROP);
}
