/* SPDX-License-Identifier: Apache-2.0 */
#include "store/index.h"

#include "base/log.h"
#include "store/io.h"
#include "store/le.h"

#include <errno.h>
#include <pthread.h>
#include <rocksdb/c.h>
#include <stdlib.h>
#include <string.h>

#define CACHE_BYTES_DEFAULT (UINT64_C(64) << 20)
/* What was put of late is kept in memory until it fills a table. Small, so that the server's size
 * does not creep up by what RocksDB would keep (64 MiB), and so that a start has little to replay.
 * In steps that the allocator maps by themselves (tools/s3rdmad.c) and gives back when freed. */
#define TABLE_IN_MEMORY_BYTES ((size_t)1 << 20)
#define TABLES_IN_MEMORY_MAX 4 /* the others are being written out: commits go on meanwhile */
/* Of the size of what is merged into it at once, else each merge rewrites far more than it adds. */
#define LEVEL_1_BYTES (UINT64_C(16) << 20)
#define READ_TIER_CACHE 1 /* rocksdb::kBlockCacheTier */
/* rocksdb::FATAL_LEVEL. Its own log is a file on the same disk: after a write of it has failed the
 * next line is an assertion that ends the process. What matters comes back as errors anyway. */
#define LOG_LEVEL_FATAL 4
#define RECOVER_TO_TEAR 2 /* rocksdb::WALRecoveryMode::kPointInTimeRecovery */
#define RECOVER_ALL 3     /* rocksdb::WALRecoveryMode::kSkipAnyCorruptedRecords */
#define BATCH_LEN_MAX (UINT32_MAX / 4)

struct index {
    rocksdb_t *db; /* fixed after open */
    rocksdb_options_t *options;
    rocksdb_block_based_table_options_t *table;
    rocksdb_cache_t *cache;
    rocksdb_readoptions_t *read, *read_cached;
    rocksdb_writeoptions_t *write_synced;
    bool is_read_only;
    pthread_mutex_t lock; /* of the rest */
    pthread_cond_t done;
    bool has_leader;
    struct index_batch *first, **last; /* waiting */
    struct index_batch later;
    const char *failure; /* set once */
    char failure_text[S3R_DIAG_MAX];
    uint64_t puts, commits;
};

struct index_iter {
    rocksdb_iterator_t *it;
    rocksdb_readoptions_t *read;
    char *copies[2]; /* under ThreadSanitizer, of key and value */
    char bounds[];   /* RocksDB keeps pointers to them */
};

/* RocksDB's words for what happened, translated where they arrive. Frees them. */
static int take_error(char *text, struct diag *diag, const char *doing)
{
    int code = S3R_E_STORE_IO;
    if (!strncmp(text, "Corruption", 10))
        code = S3R_E_STORE_CORRUPT;
    else if (strstr(text, "No space left") || strstr(text, "Disk quota exceeded"))
        code = S3R_E_STORE_FULL;
    else if (strstr(text, "lock hold by") || strstr(text, "While lock file"))
        code = S3R_E_STORE_LOCKED;
    else if (!strncmp(text, "Result incomplete", 17))
        code = S3R_E_TIMEOUT;
    if (code != S3R_E_TIMEOUT)
        diag_fail(diag, code, "index: %s: %s", doing, text);
    rocksdb_free(text);
    return code;
}

static void set_options(struct index *idx, uint64_t cache_bytes)
{
    rocksdb_options_t *o = idx->options;
    idx->cache = rocksdb_cache_create_lru(cache_bytes ? cache_bytes : CACHE_BYTES_DEFAULT);
    rocksdb_block_based_options_set_block_cache(idx->table, idx->cache);
    rocksdb_block_based_options_set_filter_policy(idx->table,
                                                  rocksdb_filterpolicy_create_bloom_full(10));
    rocksdb_options_set_block_based_table_factory(o, idx->table);
    rocksdb_options_set_paranoid_checks(o, 1);
    rocksdb_options_set_compression(o, rocksdb_no_compression);
    rocksdb_options_set_wal_recovery_mode(o, RECOVER_TO_TEAR);
    rocksdb_options_set_max_open_files(o, 512);
    rocksdb_options_set_write_buffer_size(o, TABLE_IN_MEMORY_BYTES);
    rocksdb_options_set_arena_block_size(o, TABLE_IN_MEMORY_BYTES / 4);
    rocksdb_options_set_max_write_buffer_number(o, TABLES_IN_MEMORY_MAX);
    rocksdb_options_set_max_bytes_for_level_base(o, LEVEL_1_BYTES);
    rocksdb_options_set_info_log_level(o, LOG_LEVEL_FATAL);
    rocksdb_options_set_keep_log_file_num(o, 4);
    rocksdb_options_set_max_log_file_size(o, 1 << 20);
    rocksdb_options_set_stats_dump_period_sec(o, 0);
    rocksdb_readoptions_set_read_tier(idx->read_cached, READ_TIER_CACHE);
    rocksdb_writeoptions_set_sync(idx->write_synced, 1);
}

static struct index *index_alloc(uint64_t cache_bytes)
{
    struct index *idx = calloc(1, sizeof(*idx));
    if (!idx)
        return NULL;
    pthread_mutex_init(&idx->lock, NULL);
    pthread_cond_init(&idx->done, NULL);
    idx->last = &idx->first;
    index_batch_init(&idx->later);
    idx->options = rocksdb_options_create();
    idx->table = rocksdb_block_based_options_create();
    idx->read = rocksdb_readoptions_create();
    idx->read_cached = rocksdb_readoptions_create();
    idx->write_synced = rocksdb_writeoptions_create();
    set_options(idx, cache_bytes);
    return idx;
}

static void index_free(struct index *idx)
{
    if (idx->db)
        rocksdb_close(idx->db);
    rocksdb_writeoptions_destroy(idx->write_synced);
    rocksdb_readoptions_destroy(idx->read_cached);
    rocksdb_readoptions_destroy(idx->read);
    rocksdb_options_destroy(idx->options);
    rocksdb_block_based_options_destroy(idx->table);
    rocksdb_cache_destroy(idx->cache);
    index_batch_fini(&idx->later);
    pthread_cond_destroy(&idx->done);
    pthread_mutex_destroy(&idx->lock);
    free(idx);
}

/* The last sequence that a recovery of that mode reaches; nothing is written. */
static bool last_sequence(struct index *idx, const char *dir, int mode, uint64_t *ret)
{
    char *error = NULL;
    rocksdb_options_set_wal_recovery_mode(idx->options, mode);
    rocksdb_t *db = rocksdb_open_for_read_only(idx->options, dir, 0, &error);
    rocksdb_options_set_wal_recovery_mode(idx->options, RECOVER_TO_TEAR);
    if (error) {
        rocksdb_free(error);
        return false;
    }
    *ret = rocksdb_get_latest_sequence_number(db);
    rocksdb_close(db);
    return true;
}

/* One batch at a time is written and synced, so a power cut can tear the log's last record only. A
 * good record behind a bad one means that the log was damaged where it was synced already: to go on
 * from the tear would lose commits that were acknowledged. */
static int check_log(struct index *idx, const char *dir, struct diag *diag)
{
    uint64_t to_tear, all;
    if (!last_sequence(idx, dir, RECOVER_TO_TEAR, &to_tear) ||
        !last_sequence(idx, dir, RECOVER_ALL, &all) || all <= to_tear)
        return 0; /* whole, new, or worse than that: opening it says so */
    return diag_fail(diag, S3R_E_STORE_CORRUPT,
                     "the index's log is damaged in the middle: `s3rdmad rebuild` saves what is "
                     "behind it; keep a copy of the store before");
}

int index_open(const char *dir, uint64_t cache_bytes, bool is_read_only, struct diag *diag,
               struct index **ret_index)
{
    struct index *idx = index_alloc(cache_bytes);
    if (!idx)
        return S3R_E_NOMEM;
    char *error = NULL;
    idx->is_read_only = is_read_only;
    if (is_read_only) {
        idx->db = rocksdb_open_for_read_only(idx->options, dir, 0, &error);
    } else {
        int err = check_log(idx, dir, diag);
        if (err) {
            index_free(idx);
            return err;
        }
        rocksdb_options_set_create_if_missing(idx->options, 1);
        idx->db = rocksdb_open(idx->options, dir, &error);
    }
    if (error) {
        idx->db = NULL;
        index_free(idx);
        return take_error(error, diag, "open");
    }
    *ret_index = idx;
    return 0;
}

void index_close(struct index *idx)
{
    if (!idx)
        return;
    if (idx->later.len) {
        struct index_batch b;
        index_batch_init(&b);
        if (index_commit(idx, &b, NULL))
            log_debug("store what=late-rows result=lost"); /* the next start does them again */
        index_batch_fini(&b);
    }
    index_free(idx);
}

static int get(struct index *idx, const rocksdb_readoptions_t *options, const void *key,
               size_t key_len, struct index_value *ret_value)
{
    char *error = NULL;
    struct index_value v = {0};
    v.data = rocksdb_get(idx->db, options, key, key_len, &v.len, &error);
    if (error) {
        struct diag diag = {0};
        int err = take_error(error, &diag, "get");
        if (err != S3R_E_TIMEOUT)
            log_error("store what=index-read error=%s text=\"%s\"", error_name(err), diag.text);
        return err;
    }
    if (!v.data)
        return S3R_E_NO_SUCH_KEY;
    *ret_value = v;
    return 0;
}

int index_get(struct index *idx, const void *key, size_t key_len, struct index_value *ret_value)
{
    return get(idx, idx->read, key, key_len, ret_value);
}

int index_get_cached(struct index *idx, const void *key, size_t key_len,
                     struct index_value *ret_value)
{
    return get(idx, idx->read_cached, key, key_len, ret_value);
}

void index_value_fini(struct index_value *v)
{
    rocksdb_free(v->data);
    v->data = NULL;
    v->len = 0;
}

/* ---- batches: an operation, two lengths, two strings, and the next ---- */

enum batch_op { OP_PUT = 1, OP_DELETE = 2, OP_DELETE_RANGE = 3 };
#define OP_HEAD_LEN 9

void index_batch_init(struct index_batch *b)
{
    memset(b, 0, sizeof(*b));
}

void index_batch_fini(struct index_batch *b)
{
    free(b->data);
    memset(b, 0, sizeof(*b));
}

static bool batch_reserve(struct index_batch *b, size_t more)
{
    if (b->error || more > BATCH_LEN_MAX - b->len) {
        b->error = b->error ? b->error : S3R_E_ENTITY_TOO_LARGE;
        return false;
    }
    if (b->len + more <= b->cap)
        return true;
    size_t cap = b->cap ? b->cap * 2 : 1024;
    while (cap < b->len + more)
        cap *= 2;
    char *data = realloc(b->data, cap);
    if (!data) {
        b->error = S3R_E_NOMEM;
        return false;
    }
    b->data = data;
    b->cap = cap;
    return true;
}

static void batch_add(struct index_batch *b, enum batch_op op, const void *one, size_t one_len,
                      const void *two, size_t two_len)
{
    if (two_len > BATCH_LEN_MAX || one_len > BATCH_LEN_MAX ||
        !batch_reserve(b, OP_HEAD_LEN + one_len + two_len)) {
        b->error = b->error ? b->error : S3R_E_ENTITY_TOO_LARGE;
        return;
    }
    char *at = b->data + b->len;
    at[0] = (char)op;
    le32_store(at + 1, (uint32_t)one_len);
    le32_store(at + 5, (uint32_t)two_len);
    memcpy(at + OP_HEAD_LEN, one, one_len);
    if (two_len)
        memcpy(at + OP_HEAD_LEN + one_len, two, two_len);
    b->len += OP_HEAD_LEN + one_len + two_len;
}

void index_batch_put(struct index_batch *b, const void *key, size_t key_len, const void *value,
                     size_t value_len)
{
    batch_add(b, OP_PUT, key, key_len, value, value_len);
}

void index_batch_delete(struct index_batch *b, const void *key, size_t key_len)
{
    batch_add(b, OP_DELETE, key, key_len, NULL, 0);
}

void index_batch_delete_range(struct index_batch *b, const void *from, size_t from_len,
                              const void *to, size_t to_len)
{
    batch_add(b, OP_DELETE_RANGE, from, from_len, to, to_len);
}

static void replay(const struct index_batch *b, rocksdb_writebatch_t *out)
{
    for (const char *at = b->data, *end = at + b->len; at < end;) {
        size_t one_len = le32_load(at + 1), two_len = le32_load(at + 5);
        const char *one = at + OP_HEAD_LEN, *two = one + one_len;
        if (*at == OP_PUT)
            rocksdb_writebatch_put(out, one, one_len, two, two_len);
        else if (*at == OP_DELETE)
            rocksdb_writebatch_delete(out, one, one_len);
        else
            rocksdb_writebatch_delete_range(out, one, one_len, two, two_len);
        at = two + two_len;
    }
}

/* ---- the queue of committers ---- */

/* Takes waiting batches off the queue, at least one, and what may go along. */
static struct index_batch *take_group(struct index *idx, struct index_batch *ret_later)
{
    struct index_batch *group = idx->first, *b = group;
    size_t len = b->len;
    while (b->next && len + b->next->len <= INDEX_GROUP_LEN_MAX) {
        b = b->next;
        len += b->len;
    }
    idx->first = b->next;
    if (!idx->first)
        idx->last = &idx->first;
    b->next = NULL;
    *ret_later = idx->later;
    index_batch_init(&idx->later);
    return group;
}

static int write_group(struct index *idx, const struct index_batch *group,
                       const struct index_batch *later, struct diag *diag)
{
    int err = io_ask(IO_INDEX_WRITE, "");
    if (err > 0)
        return diag_fail(diag, io_error(err), "index: write: %s", strerrordesc_np(err));
    rocksdb_writebatch_t *out = rocksdb_writebatch_create();
    replay(later, out);
    for (const struct index_batch *b = group; b; b = b->next)
        replay(b, out);
    char *error = NULL;
    io_point("batch-before-sync");
    rocksdb_write(idx->db, idx->write_synced, out, &error);
    io_point("batch-after-sync");
    rocksdb_writebatch_destroy(out);
    return error ? take_error(error, diag, "write") : 0;
}

/* Called and returns with the lock held. */
static void lead(struct index *idx)
{
    struct index_batch later;
    struct index_batch *group = take_group(idx, &later);
    struct diag diag = {0};
    int err = idx->failure ? S3R_E_STORE_READ_ONLY : 0;
    if (!err) {
        pthread_mutex_unlock(&idx->lock);
        err = write_group(idx, group, &later, &diag);
        pthread_mutex_lock(&idx->lock);
        if (err) {
            memcpy(idx->failure_text, diag.text, sizeof(diag.text));
            idx->failure = idx->failure_text;
            log_error("store what=index-write error=%s text=\"%s\"", error_name(err), diag.text);
            /* it must not go on on its own account either, as it would when space comes back */
            rocksdb_cancel_all_background_work(idx->db, 0);
        } else {
            idx->commits++;
        }
    }
    index_batch_fini(&later);
    for (struct index_batch *b = group, *next; b; b = next) {
        next = b->next; /* once is_done is seen, b is gone */
        idx->puts += err ? 0 : b->puts;
        b->result = err;
        b->is_done = true;
    }
    pthread_cond_broadcast(&idx->done);
}

int index_commit(struct index *idx, struct index_batch *b, bool *ret_is_unknown)
{
    if (ret_is_unknown)
        *ret_is_unknown = false;
    if (b->error)
        return b->error;
    if (idx->is_read_only)
        return S3R_E_STORE_READ_ONLY;
    b->is_done = false;
    b->next = NULL;
    pthread_mutex_lock(&idx->lock);
    *idx->last = b;
    idx->last = &b->next;
    while (!b->is_done) {
        if (idx->has_leader) {
            pthread_cond_wait(&idx->done, &idx->lock);
            continue;
        }
        idx->has_leader = true;
        lead(idx);
        idx->has_leader = false;
    }
    pthread_mutex_unlock(&idx->lock);
    if (ret_is_unknown)
        *ret_is_unknown = b->result && b->result != S3R_E_STORE_READ_ONLY;
    return b->result;
}

void index_later(struct index *idx, struct index_batch *b)
{
    pthread_mutex_lock(&idx->lock);
    if (!b->error && batch_reserve(&idx->later, b->len) && b->len) {
        memcpy(idx->later.data + idx->later.len, b->data, b->len);
        idx->later.len += b->len;
    }
    idx->later.error = 0;
    pthread_mutex_unlock(&idx->lock);
    b->len = 0;
}

const char *index_failure(struct index *idx)
{
    pthread_mutex_lock(&idx->lock);
    const char *text = idx->failure;
    pthread_mutex_unlock(&idx->lock);
    return text;
}

void index_counters(struct index *idx, uint64_t *ret_puts, uint64_t *ret_commits)
{
    pthread_mutex_lock(&idx->lock);
    *ret_puts = idx->puts;
    *ret_commits = idx->commits;
    pthread_mutex_unlock(&idx->lock);
}

/* ---- iterators ---- */

int index_iter_open(struct index *idx, const void *from, size_t from_len, const void *to,
                    size_t to_len, struct index_iter **ret_iter)
{
    struct index_iter *it = calloc(1, sizeof(*it) + from_len + to_len);
    if (!it)
        return S3R_E_NOMEM;
    memcpy(it->bounds, from, from_len);
    memcpy(it->bounds + from_len, to, to_len);
    it->read = rocksdb_readoptions_create();
    rocksdb_readoptions_set_iterate_lower_bound(it->read, it->bounds, from_len);
    rocksdb_readoptions_set_iterate_upper_bound(it->read, it->bounds + from_len, to_len);
    it->it = rocksdb_create_iterator(idx->db, it->read);
    rocksdb_iter_seek(it->it, from, from_len);
    *ret_iter = it;
    return 0;
}

void index_iter_close(struct index_iter *it)
{
    if (!it)
        return;
    rocksdb_iter_destroy(it->it);
    rocksdb_readoptions_destroy(it->read);
    free(it->copies[0]);
    free(it->copies[1]);
    free(it);
}

void index_iter_closep(struct index_iter **it)
{
    index_iter_close(*it);
}

void index_iter_seek(struct index_iter *it, const void *key, size_t key_len)
{
    rocksdb_iter_seek(it->it, key, key_len);
}

bool index_iter_valid(const struct index_iter *it)
{
    return rocksdb_iter_valid(it->it);
}

void index_iter_next(struct index_iter *it)
{
    rocksdb_iter_next(it->it);
}

#ifdef __SANITIZE_THREAD__
/* Keys and values lie in RocksDB's memory, ordered by its own atomics, which the sanitizer does not
 * see: the library is not instrumented. What leaves this file is a copy that it can judge. */
__attribute__((no_sanitize("thread"), noinline)) static void
copy_unseen(volatile char *to, const volatile char *from, size_t len)
{
    for (size_t i = 0; i < len; i++)
        to[i] = from[i];
}

static const char *leave(char **copy, const char *bytes, size_t len)
{
    free(*copy);
    *copy = calloc(1, len + 1);
    if (!*copy)
        abort();
    copy_unseen(*copy, bytes, len);
    return *copy;
}
#else
static const char *leave(char **copy, const char *bytes, size_t len)
{
    return bytes;
}
#endif

const char *index_iter_key(struct index_iter *it, size_t *ret_len)
{
    const char *key = rocksdb_iter_key(it->it, ret_len);
    return leave(&it->copies[0], key, *ret_len);
}

const char *index_iter_value(struct index_iter *it, size_t *ret_len)
{
    const char *value = rocksdb_iter_value(it->it, ret_len);
    return leave(&it->copies[1], value, *ret_len);
}

int index_iter_error(const struct index_iter *it)
{
    char *error = NULL;
    rocksdb_iter_get_error(it->it, &error);
    if (!error)
        return 0;
    struct diag diag = {0};
    int err = take_error(error, &diag, "scan");
    log_error("store what=index-scan error=%s text=\"%s\"", error_name(err), diag.text);
    return err;
}

/* ---- copies and repairs ---- */

void index_relax(struct index *idx)
{
    rocksdb_writeoptions_set_sync(idx->write_synced, 0);
}

int index_sync(struct index *idx)
{
    struct index_batch b;
    rocksdb_writeoptions_set_sync(idx->write_synced, 1);
    index_batch_init(&b);
    index_batch_put(&b, "S", 1, NULL, 0); /* a write that syncs all before it */
    index_batch_delete(&b, "S", 1);
    int err = index_commit(idx, &b, NULL);
    index_batch_fini(&b);
    return err;
}

int index_checkpoint(struct index *idx, const char *dir, struct diag *diag)
{
    char *error = NULL;
    rocksdb_checkpoint_t *checkpoint = rocksdb_checkpoint_object_create(idx->db, &error);
    if (error)
        return take_error(error, diag, "checkpoint");
    rocksdb_checkpoint_create(checkpoint, dir, 0, &error);
    rocksdb_checkpoint_object_destroy(checkpoint);
    return error ? take_error(error, diag, "checkpoint") : 0;
}

int index_repair(const char *dir, struct diag *diag)
{
    struct index *idx = index_alloc(0);
    if (!idx)
        return S3R_E_NOMEM;
    char *error = NULL;
    rocksdb_repair_db(idx->options, dir, &error);
    index_free(idx);
    return error ? take_error(error, diag, "repair") : 0;
}
