/* SPDX-License-Identifier: Apache-2.0 */
/* fs.h - the `fs` engine inside: what its files share.
 * Does:     the store's state, its locks, the steps that all commits are made of.
 * Not here: the contract (store.h).
 * Units:    as in store.h.
 * Owns:     see each structure.
 * Threads:  any, under the locks named. Order of taking: a bucket's lock, a key's lock, a part's
 *           lock, files.lock; the index's own lock is a leaf.
 * Errors:   as in store.h.
 * Limits:   none of its own. */
#ifndef S3R_STORE_FS_H
#define S3R_STORE_FS_H

#include "store/file.h"
#include "store/files.h"
#include "store/header.h"
#include "store/index.h"
#include "store/reaper.h"
#include "store/recent.h"
#include "store/record.h"
#include "store/rows.h"
#include "store/store.h"

#include <pthread.h>
#include <stdatomic.h>

#define BUCKET_LOCKS 64
#define KEY_LOCKS 1024
#define PART_LOCKS 256

struct store {
    /* fixed after open */
    char *dir;
    struct header header;
    int lock_fd;
    bool is_read_only;
    struct index *idx;
    struct files files;
    struct reaper reaper;
    atomic_bool is_direct;
    struct recent *recent;
    /* sequences: the next one, and how far the disk lets us go (sequence_lock) */
    atomic_uint_fast64_t sequence;
    uint64_t sequence_limit;
    pthread_mutex_t sequence_lock;
    /* a sync that failed (failure_lock) */
    atomic_bool is_failed;
    pthread_mutex_t failure_lock;
    char failure[S3R_DIAG_MAX];
    pthread_rwlock_t bucket_locks[BUCKET_LOCKS]; /* shared: something in the bucket changes */
    pthread_rwlock_t key_locks[KEY_LOCKS];       /* shared: parts of an upload of the key */
    pthread_mutex_t part_locks[PART_LOCKS];
};

/* A sync failed: no writes from now on. Returns `code`. */
int fs_fail(struct store *s, int code, const char *what);
/* Room for `size` bytes (UINT64_MAX: unknown) and for the index. */
int fs_check_space(struct store *s, uint64_t size, struct diag *diag) MUST_CHECK;
/* Room for a row: a write of the index that runs into the end of the disk would make the store
 * read-only. */
int fs_check_commit_space(struct store *s, struct diag *diag) MUST_CHECK;
/* A judged key: lengths and bytes. */
int fs_check_key(const struct store_key *key) MUST_CHECK;
bool fs_bucket_name_fits(const char *name);
int fs_check_upload_id(const char *id) MUST_CHECK;

uint64_t fs_next_sequence(struct store *s);
/* Commits; a failed write makes the store read-only and says so in diag. */
int fs_commit(struct store *s, struct index_batch *b, struct diag *diag,
              bool *ret_is_unknown) MUST_CHECK;

/* The lock that a change of something in the bucket holds; S3R_E_NO_SUCH_BUCKET when it is gone. */
int fs_enter_bucket(struct store *s, const char *bucket) MUST_CHECK;
void fs_leave_bucket(struct store *s, const char *bucket);
pthread_rwlock_t *fs_bucket_lock(struct store *s, const char *bucket);
pthread_rwlock_t *fs_key_lock(struct store *s, const struct store_key *key);
pthread_mutex_t *fs_part_lock(struct store *s, const char *id, uint32_t number);

/* A row and its record. */
struct fs_record {
    struct index_value value;
    struct record r;
};
/* Of the records that a table with rows of their own holds. */
enum record_kind fs_kind_of_row(unsigned char table);
/* S3R_E_NO_SUCH_KEY when there is none. A record that cannot be read is logged. */
int fs_get(struct store *s, const struct row_key *row, struct fs_record *ret) MUST_CHECK;
int fs_get_cached(struct store *s, const struct row_key *row, struct fs_record *ret) MUST_CHECK;
void fs_record_fini(struct fs_record *fr);

/* A record as store.h shows it. */
struct fs_object {
    struct store_object object;
    struct store_part *parts;
};
int fs_object_init(struct fs_object *fo, const struct record *r) MUST_CHECK;
void fs_object_fini(struct fs_object *fo);
int fs_judge(const struct fs_record *current, store_judge_fn *judge, void *judge_arg) MUST_CHECK;
void fs_copy_etag(char out[STORE_ETAG_MAX], const char *etag);
/* Fills what a client said into a record. */
int fs_take_attributes(struct record *r, const struct store_attributes *attributes) MUST_CHECK;
int fs_put_record(struct index_batch *b, const struct row_key *row,
                  const struct record *r) MUST_CHECK;

/* What an old record's files need in the batch that makes it go, and after that batch. */
void fs_drop_rows(struct index_batch *b, const struct record *r);
void fs_drop_files(struct store *s, const struct record *r);

/* A file without bytes that says `r` for a rebuild: written, synced, named; r->file_id becomes its
 * own. */
int fs_write_note(struct store *s, enum file_kind kind, struct record *r, struct diag *diag,
                  struct store_writer **ret_writer) MUST_CHECK;

/* ---- writers, inside ---- */

struct store_writer {
    struct store *s;
    uint64_t size_hint;
    char *inline_bytes; /* NULL once there is a file */
    size_t inline_len;
    uint64_t inline_crc;
    int error; /* of an append: nothing can be committed any more */
    bool has_file, is_sealed, is_committed;
    bool is_unknown; /* the commit failed in a way that a restart decides */
    struct file_out file;
};
/* Makes a file of it when it is inline. */
int fs_writer_spill(struct store_writer *w, struct diag *diag) MUST_CHECK;
/* Finishes the file with `r` (its file id and checksum are set here), and syncs it and its name. */
int fs_writer_seal(struct store_writer *w, enum file_kind kind, struct record *r,
                   struct diag *diag) MUST_CHECK;
/* Writes `r` anew (only numbers in it may differ) and syncs. */
int fs_writer_reseal(struct store_writer *w, enum file_kind kind, const struct record *r,
                     struct diag *diag) MUST_CHECK;
/* Takes the file out of the open table with the batch. */
void fs_writer_close_row(struct store_writer *w, struct index_batch *b);
/* The batch was committed, or failed so that nobody knows. */
void fs_writer_done(struct store_writer *w, bool is_unknown);

#endif
