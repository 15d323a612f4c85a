/* SPDX-License-Identifier: Apache-2.0 */
/* walk.h - the keys of a bucket in order, with what a delimiter makes of them.
 * Does:     steps over the rows of a table that begin with bucket, 0, key; rolls keys up to their
 *           common prefix and goes past all of it with one seek; collects what a listing shows.
 * Not here: what a row shows (list.c, upload_list.c).
 * Units:    bytes.
 * Owns:     its iterator; name lives until the next step. struct walk_rows its rows and strings.
 * Threads:  owner.
 * Errors:   as index.h; index_iter_error(it) after the last step.
 * Limits:   prefixes longer than a key match nothing. */
#ifndef S3R_STORE_WALK_H
#define S3R_STORE_WALK_H

#include "store/fs.h"

struct walk {
    struct index_iter *it;
    struct row_key base; /* the table's letter, the bucket, 0 */
    const char *prefix, *delimiter;
    size_t prefix_len, delimiter_len;
    bool has_started;
    bool is_upload; /* rows go on with 0 and an upload's id */
    /* the row */
    bool is_prefix;
    char name[LIMIT_KEY_LEN_MAX + 1];
    size_t name_len;
    char id[STORE_UPLOAD_ID_MAX]; /* of an upload's row */
};

int walk_open(struct walk *w, struct store *s, char table, const char *bucket, const char *prefix,
              size_t prefix_len, const char *delimiter, size_t delimiter_len) MUST_CHECK;
void walk_close(struct walk *w);
/* Rows come after this key, and after the whole common prefix that it lies in. */
void walk_after(struct walk *w, const char *after, size_t after_len);
/* Uploads of `key` come only with ids above `id`. */
void walk_after_upload(struct walk *w, const char *key, size_t key_len, const char *id);
/* To the next row; false at the end. */
bool walk_next(struct walk *w);

/* What a walk collects for a listing. */
struct walk_rows {
    void *rows; /* `count` of `row_size` bytes */
    size_t row_size;
    char **strings; /* what each row's strings are in */
    size_t count, cap;
    bool is_truncated;
};

struct walk_strings {
    const char *key, *owner, *storage_class;
    size_t key_len;
};

/* Fills a row, zeroed before, from where the walk is. `record` is NULL for a common prefix; the
 * strings live as long as the rows. */
typedef void walk_row_fn(const struct walk *w, const struct record *record,
                         const struct walk_strings *strings, void *row);

/* Up to `max` rows; is_truncated if there are more. */
int walk_collect(struct walk *w, size_t max, walk_row_fn *fill, struct walk_rows *rows) MUST_CHECK;
void walk_rows_fini(struct walk_rows *rows);

#endif
