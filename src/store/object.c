/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "store/fs.h"

#include <string.h>

/* One put on its way. */
struct put {
    struct store *s;
    struct store_writer *w;
    const struct store_key *key;
    struct record r;
    store_judge_fn *judge;
    void *judge_arg;
    struct diag *diag;
};

/* The record as a rebuild needs it: the row's key says the rest otherwise. */
static struct record with_names(const struct put *p)
{
    struct record r = p->r;
    r.bucket = p->key->bucket;
    r.key = (struct record_bytes){p->key->key, p->key->key_len};
    return r;
}

static void stamp(struct put *p)
{
    p->r.sequence = fs_next_sequence(p->s);
    p->r.modified_ms = clock_wall_ms();
    p->r.created_ms = p->r.modified_ms;
}

/* The order of the sequences is the order of the commits: a rebuild relies on it. */
static int restamp(struct put *p, const struct fs_record *current)
{
    if (!p->w->has_file) {
        stamp(p);
        return 0;
    }
    if (!current || current->r.sequence < p->r.sequence)
        return 0;
    stamp(p);
    struct record r = with_names(p);
    return fs_writer_reseal(p->w, FILE_OBJECT, &r, p->diag);
}

static int commit(struct put *p, const struct row_key *row, const struct fs_record *current)
{
    struct index_batch b;
    bool is_unknown = false;
    index_batch_init(&b);
    int err = fs_put_record(&b, row, &p->r);
    if (p->w->has_file)
        fs_writer_close_row(p->w, &b);
    if (current)
        fs_drop_rows(&b, &current->r);
    b.puts = 1;
    if (!err)
        err = fs_commit(p->s, &b, p->diag, &is_unknown);
    index_batch_fini(&b);
    if (!err || is_unknown)
        fs_writer_done(p->w, is_unknown);
    return err;
}

/* Under the bucket's and the key's lock. */
static int judge_and_commit(struct put *p)
{
    struct row_key row;
    struct fs_record found, *current = &found;
    row_object(&row, p->key);
    int err = fs_get(p->s, &row, &found);
    if (err && err != S3R_E_NO_SUCH_KEY)
        return err;
    if (err)
        current = NULL;
    err = fs_judge(current, p->judge, p->judge_arg);
    if (!err)
        err = restamp(p, current);
    if (!err)
        err = commit(p, &row, current);
    if (!err && current)
        fs_drop_files(p->s, &current->r);
    if (current)
        fs_record_fini(current);
    return err;
}

static int prepare(struct put *p, const struct store_attributes *attributes)
{
    int err = fs_check_key(p->key);
    if (!err)
        err = store_writable(p->s, p->diag);
    if (!err)
        err = fs_take_attributes(&p->r, attributes);
    if (err)
        return err;
    if (p->w->error || p->w->is_sealed)
        return p->w->error ? p->w->error : S3R_E_INVALID_ARGUMENT;
    p->w->is_sealed = true;
    if (!p->w->has_file) {
        p->r.size = p->w->inline_len;
        p->r.crc64 = p->w->inline_crc;
        p->r.inline_bytes = (struct record_bytes){p->w->inline_bytes, p->w->inline_len};
        return 0;
    }
    stamp(p);
    struct record r = with_names(p);
    err = fs_writer_seal(p->w, FILE_OBJECT, &r, p->diag);
    p->r.size = r.size;
    p->r.crc64 = r.crc64;
    p->r.file_id = r.file_id;
    return err;
}

int store_put(struct store_writer *w, const struct store_key *key,
              const struct store_attributes *attributes, store_judge_fn *judge, void *judge_arg,
              struct diag *diag, int64_t *ret_modified_ms)
{
    struct put p = {.s = w->s,
                    .w = w,
                    .key = key,
                    .r = {.kind = RECORD_OBJECT},
                    .judge = judge,
                    .judge_arg = judge_arg,
                    .diag = diag};
    int err = prepare(&p, attributes);
    if (!err)
        err = fs_enter_bucket(w->s, key->bucket);
    if (err)
        return err;
    pthread_rwlock_wrlock(fs_key_lock(w->s, key));
    err = judge_and_commit(&p);
    pthread_rwlock_unlock(fs_key_lock(w->s, key));
    fs_leave_bucket(w->s, key->bucket);
    if (!err && ret_modified_ms)
        *ret_modified_ms = p.r.modified_ms;
    return err;
}

/* Under the bucket's and the key's lock. */
static int judge_and_delete(struct store *s, const struct store_key *key, store_judge_fn *judge,
                            void *judge_arg, bool *ret_existed)
{
    struct row_key row;
    struct fs_record current;
    row_object(&row, key);
    int err = fs_get(s, &row, &current);
    if (err == S3R_E_NO_SUCH_KEY) {
        *ret_existed = false;
        return fs_judge(NULL, judge, judge_arg);
    }
    if (err)
        return err;
    err = fs_judge(&current, judge, judge_arg);
    if (!err) {
        struct index_batch b;
        index_batch_init(&b);
        index_batch_delete(&b, row.data, row.len);
        fs_drop_rows(&b, &current.r);
        err = fs_commit(s, &b, NULL, NULL);
        index_batch_fini(&b);
    }
    if (!err) {
        *ret_existed = true;
        fs_drop_files(s, &current.r);
    }
    fs_record_fini(&current);
    return err;
}

int store_delete(struct store *s, const struct store_key *key, store_judge_fn *judge,
                 void *judge_arg, bool *ret_existed)
{
    bool existed = false;
    int err = fs_check_key(key);
    if (!err)
        err = store_writable(s, NULL);
    if (!err)
        err = fs_enter_bucket(s, key->bucket);
    if (err)
        return err;
    pthread_rwlock_wrlock(fs_key_lock(s, key));
    err = judge_and_delete(s, key, judge, judge_arg, &existed);
    pthread_rwlock_unlock(fs_key_lock(s, key));
    fs_leave_bucket(s, key->bucket);
    if (!err && ret_existed)
        *ret_existed = existed;
    return err;
}
