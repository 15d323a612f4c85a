/* SPDX-License-Identifier: Apache-2.0 */
/* index.h - ordered rows of bytes, durably: RocksDB and nothing above it.
 * Does:     get, iterate, commit. Committers that wait at the same time share one synced write: the
 *           first of them writes for all. After a write that failed nothing is written again.
 * Not here: what rows mean (rows.h), records (record.h), locks on keys (fs.h).
 * Units:    bytes.
 * Owns:     a value is the caller's until index_value_fini(); key and value of an iterator live
 *           until it moves.
 * Threads:  any; an iterator and a batch have one owner.
 * Errors:   S3R_E_STORE_READ_ONLY after a failed write, S3R_E_STORE_FULL, S3R_E_STORE_IO,
 *           S3R_E_STORE_CORRUPT, S3R_E_NOMEM; S3R_E_NO_SUCH_KEY when a row is not there.
 * Limits:   INDEX_GROUP_LEN_MAX bytes of small batches share a write. */
#ifndef S3R_STORE_INDEX_H
#define S3R_STORE_INDEX_H

#include "base/attr.h"
#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define INDEX_GROUP_LEN_MAX (4u << 20)

struct index;

int index_open(const char *dir, uint64_t cache_bytes, bool is_read_only, struct diag *diag,
               struct index **ret_index) MUST_CHECK;
/* Writes what index_later() was given. */
void index_close(struct index *idx);

struct index_value {
    char *data;
    size_t len;
};
int index_get(struct index *idx, const void *key, size_t key_len,
              struct index_value *ret_value) MUST_CHECK;
/* S3R_E_TIMEOUT when it would have to read the disk. */
int index_get_cached(struct index *idx, const void *key, size_t key_len,
                     struct index_value *ret_value) MUST_CHECK;
void index_value_fini(struct index_value *v);

/* Puts and deletes that are done together, or not at all. */
struct index_batch {
    char *data;
    size_t len, cap;
    size_t puts; /* objects and parts in it, for the counters */
    int error;
    bool is_done; /* the rest is index.c's, while the batch waits */
    int result;
    struct index_batch *next;
};
void index_batch_init(struct index_batch *b);
void index_batch_fini(struct index_batch *b);
void index_batch_put(struct index_batch *b, const void *key, size_t key_len, const void *value,
                     size_t value_len);
void index_batch_delete(struct index_batch *b, const void *key, size_t key_len);
/* All rows with keys in [from, to). */
void index_batch_delete_range(struct index_batch *b, const void *from, size_t from_len,
                              const void *to, size_t to_len);
/* Returns when it is durable. After an error of the write itself nobody knows whether it is: the
 * index is then read-only (*ret_is_unknown, may be NULL). */
int index_commit(struct index *idx, struct index_batch *b, bool *ret_is_unknown) MUST_CHECK;
/* Goes along with the next commit: for what may be lost. Empties the batch. */
void index_later(struct index *idx, struct index_batch *b);
/* The text of the failure that made the index read-only; NULL while it is not. */
const char *index_failure(struct index *idx);
void index_counters(struct index *idx, uint64_t *ret_puts, uint64_t *ret_commits);

struct index_iter;
/* Over [from, to), as the index is now; starts at its first row. */
int index_iter_open(struct index *idx, const void *from, size_t from_len, const void *to,
                    size_t to_len, struct index_iter **ret_iter) MUST_CHECK;
void index_iter_close(struct index_iter *it);
void index_iter_closep(struct index_iter **it);
void index_iter_seek(struct index_iter *it, const void *key, size_t key_len);
bool index_iter_valid(const struct index_iter *it);
void index_iter_next(struct index_iter *it);
const char *index_iter_key(struct index_iter *it, size_t *ret_len);
const char *index_iter_value(struct index_iter *it, size_t *ret_len);
/* Why it is not valid: 0 at the end. */
int index_iter_error(const struct index_iter *it) MUST_CHECK;

/* For a rebuild: commits are durable only once index_sync() has returned 0. */
void index_relax(struct index *idx);
int index_sync(struct index *idx) MUST_CHECK;
/* A consistent copy into `dir`, which must not exist. */
int index_checkpoint(struct index *idx, const char *dir, struct diag *diag) MUST_CHECK;
/* Offline: makes a damaged index openable, with what can be saved of it. */
int index_repair(const char *dir, struct diag *diag) MUST_CHECK;

#endif
