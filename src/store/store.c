/* SPDX-License-Identifier: Apache-2.0 */
#include "base/num.h"
#include "store/fs.h"
#include "store/io.h"
#include "store/le.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Long enough for any sub-path. */
#define DIR_LEN_MAX (FILE_PATH_MAX - 256)

static void init_locks(struct store *s)
{
    pthread_rwlockattr_t attr;
    pthread_rwlockattr_init(&attr);
    /* a stream of part uploads must not keep a completion waiting for ever */
    pthread_rwlockattr_setkind_np(&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    for (size_t i = 0; i < BUCKET_LOCKS; i++)
        pthread_rwlock_init(&s->bucket_locks[i], &attr);
    for (size_t i = 0; i < KEY_LOCKS; i++)
        pthread_rwlock_init(&s->key_locks[i], &attr);
    for (size_t i = 0; i < PART_LOCKS; i++)
        pthread_mutex_init(&s->part_locks[i], NULL);
    pthread_rwlockattr_destroy(&attr);
    pthread_mutex_init(&s->sequence_lock, NULL);
    pthread_mutex_init(&s->failure_lock, NULL);
}

static void fini_locks(struct store *s)
{
    for (size_t i = 0; i < BUCKET_LOCKS; i++)
        pthread_rwlock_destroy(&s->bucket_locks[i]);
    for (size_t i = 0; i < KEY_LOCKS; i++)
        pthread_rwlock_destroy(&s->key_locks[i]);
    for (size_t i = 0; i < PART_LOCKS; i++)
        pthread_mutex_destroy(&s->part_locks[i]);
    pthread_mutex_destroy(&s->sequence_lock);
    pthread_mutex_destroy(&s->failure_lock);
}

/* The folder, its header and its lock; nothing is changed before the header was accepted. */
static int open_folder(struct store *s, struct diag *diag)
{
    struct header before;
    bool is_new = false;
    if (!s->is_read_only) {
        int err = io_mkdir(s->dir);
        if (err)
            return diag_fail(diag, err, "cannot make %s: %s", s->dir, io_reason());
    }
    int err = header_read(s->dir, diag, &before);
    if (err == S3R_E_NO_SUCH_KEY && s->is_read_only)
        return diag_fail(diag, S3R_E_STORE_FORMAT, "there is no store in %s", s->dir);
    is_new = err == S3R_E_NO_SUCH_KEY;
    if (err && !is_new)
        return err;
    err = header_lock(s->dir, s->is_read_only, diag, &s->lock_fd);
    if (err)
        return err;
    err = header_read(s->dir, diag, &s->header); /* another may have made it meanwhile */
    if (err == S3R_E_NO_SUCH_KEY)
        err = header_create(s->dir, diag, &s->header);
    return err;
}

static int start_sequences(struct store *s)
{
    struct row_key row;
    struct index_value v;
    row_single(&row, "sequence");
    int err = index_get(s->idx, row.data, row.len, &v);
    if (err == S3R_E_NO_SUCH_KEY) {
        atomic_store(&s->sequence, 1);
        return 0;
    }
    if (err)
        return err;
    bool is_good = v.len == 8;
    if (is_good)
        s->sequence_limit = le64_load(v.data);
    atomic_store(&s->sequence, s->sequence_limit + 1);
    index_value_fini(&v);
    return is_good ? 0 : S3R_E_STORE_CORRUPT;
}

static int see_file(uint64_t id, void *arg)
{
    return 1;
}

/* An index that is not there must not become an empty one: the files of a store would then be in
 * the way of the new ones, and nobody's. */
static int check_index_there(struct store *s, struct diag *diag)
{
    char path[FILE_PATH_MAX];
    snprintf(path, sizeof(path), "%s/index/CURRENT", s->dir);
    if (!access(path, F_OK))
        return 0;
    int found = file_each(s->dir, see_file, NULL);
    if (found < 0)
        return diag_fail(diag, found, "cannot read %s/data: %s", s->dir, io_reason());
    return found ? diag_fail(diag, S3R_E_STORE_CORRUPT,
                             "%s/index is gone, but not the data files: put it back, or run "
                             "`s3rdmad rebuild`",
                             s->dir)
                 : 0;
}

/* Their names are synced: RocksDB syncs what is in its folder, not the one above. */
static int make_folders(struct store *s, struct diag *diag)
{
    static const char *const names[] = {"data", "index"};
    char path[FILE_PATH_MAX] = "";
    int err = 0;
    for (size_t i = 0; !err && i < ARRAY_LEN(names); i++) {
        snprintf(path, sizeof(path), "%s/%s", s->dir, names[i]);
        err = io_mkdir(path);
    }
    if (!err)
        err = io_sync_dir(s->dir);
    return err ? diag_fail(diag, err, "cannot make %s: %s", path, io_reason()) : 0;
}

static int check_no_copy(struct store *s, struct diag *diag)
{
    struct row_key row;
    struct index_value v;
    row_single(&row, ROW_SINGLE_COPY);
    int err = index_get(s->idx, row.data, row.len, &v);
    if (err)
        return err == S3R_E_NO_SUCH_KEY ? 0 : err;
    index_value_fini(&v);
    return diag_fail(diag, S3R_E_STORE_CORRUPT,
                     "%s/index comes from a backup and does not know the files that came after it: "
                     "run `s3rdmad rebuild`",
                     s->dir);
}

static int open_index(struct store *s, uint64_t cache_bytes, struct diag *diag)
{
    char path[FILE_PATH_MAX];
    int err = check_index_there(s, diag);
    if (!err && !s->is_read_only)
        err = make_folders(s, diag);
    if (err)
        return err;
    snprintf(path, sizeof(path), "%s/index", s->dir);
    err = index_open(path, cache_bytes, s->is_read_only, diag, &s->idx);
    if (!err && !s->is_read_only)
        err = check_no_copy(s, diag);
    if (!err)
        err = start_sequences(s);
    if (!err && !s->is_read_only) {
        /* the promise is on the disk before the first sequence is used */
        struct index_batch b;
        index_batch_init(&b);
        err = fs_commit(s, &b, diag, NULL);
        index_batch_fini(&b);
    }
    return err ? err : files_start(s, diag);
}

int store_open(const struct store_config *config, struct diag *diag, struct store **ret_store)
{
    size_t len = strlen(config->dir);
    if (!len || len > DIR_LEN_MAX)
        return diag_fail(diag, S3R_E_INVALID_ARGUMENT, "the path of the store has 1 to %d bytes",
                         (int)DIR_LEN_MAX);
    struct store *s = calloc(1, sizeof(*s));
    if (!s)
        return S3R_E_NOMEM;
    init_locks(s);
    files_init(&s->files);
    reaper_init(&s->reaper);
    s->lock_fd = -1;
    s->is_read_only = config->is_read_only;
    atomic_store(&s->is_direct, config->is_direct);
    s->dir = strdup(config->dir);
    int err = s->dir ? recent_create(recent_default_reach(), &s->recent) : S3R_E_NOMEM;
    if (!err)
        err = open_folder(s, diag);
    if (!err)
        err = open_index(s, config->cache_bytes, diag);
    if (err)
        store_close(s);
    else
        *ret_store = s;
    return err;
}

void store_close(struct store *s)
{
    if (!s)
        return;
    reaper_stop(&s->reaper); /* it writes to the index */
    index_close(s->idx);
    reaper_fini(&s->reaper);
    files_fini(&s->files);
    closep(&s->lock_fd);
    fini_locks(s);
    recent_destroy(s->recent);
    free(s->dir);
    free(s);
}

int store_writable(struct store *s, struct diag *diag)
{
    if (s->is_read_only)
        return diag_fail(diag, S3R_E_STORE_READ_ONLY, "the store was opened read-only");
    if (!atomic_load(&s->is_failed))
        return 0;
    pthread_mutex_lock(&s->failure_lock);
    int err = diag_fail(diag, S3R_E_STORE_READ_ONLY, "%s", s->failure);
    pthread_mutex_unlock(&s->failure_lock);
    return err;
}

/* Writers stop a little before the disk is full, so that the index can still record deletes. */
#define HEADROOM_LEN_MAX (64 * MIB)
#define HEADROOM_SHARE 64
#define HEADROOM_LAST 8 /* of the headroom; when only so much is left deletes are refused too */

static uint64_t headroom(const struct store_usage *u)
{
    return min_u64(HEADROOM_LEN_MAX, u->disk_bytes_total / HEADROOM_SHARE);
}

static int judge_space(const struct store_usage *u, uint64_t size, uint64_t room, struct diag *diag)
{
    uint64_t needed;
    if (!checked_add(size, room, &needed) || u->disk_bytes_free < needed)
        return diag_fail(diag, S3R_E_STORE_FULL,
                         "the disk has %" PRIu64 " bytes free; that is not enough",
                         u->disk_bytes_free);
    return 0;
}

int fs_check_space(struct store *s, uint64_t size, struct diag *diag)
{
    struct store_usage u;
    int err = store_usage(s, &u);
    return err ? err : judge_space(&u, size == UINT64_MAX ? 0 : size, headroom(&u), diag);
}

int fs_check_commit_space(struct store *s, struct diag *diag)
{
    struct store_usage u;
    int err = store_usage(s, &u);
    return err ? err : judge_space(&u, 0, headroom(&u) / HEADROOM_LAST, diag);
}

int store_ready(struct store *s, struct diag *diag)
{
    int err = store_writable(s, diag);
    return err ? err : fs_check_space(s, 0, diag);
}

int store_usage(struct store *s, struct store_usage *ret_usage)
{
    struct store_usage u = {0};
    int err = io_space(s->dir, &u.disk_bytes_free, &u.disk_bytes_total);
    if (err)
        return err;
    index_counters(s->idx, &u.puts, &u.index_commits);
    *ret_usage = u;
    return 0;
}
