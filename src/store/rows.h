/* SPDX-License-Identifier: Apache-2.0 */
/* rows.h - the keys of the index's rows: a letter for the table, then what orders it.
 * Does:     builds keys and their range ends (docs/disk.md, "Index").
 * Not here: the values (record.h).
 * Units:    bytes.
 * Owns:     nothing; keys are plain values.
 * Threads:  any.
 * Errors:   none; the caller has checked lengths (fs_check_key).
 * Limits:   ROW_KEY_MAX. */
#ifndef S3R_STORE_ROWS_H
#define S3R_STORE_ROWS_H

#include "store/store.h"

#include <stdint.h>

/* The letters are on disk for ever. */
#define ROW_BUCKET 'B'    /* name */
#define ROW_COMPLETED 'C' /* bucket, 0, key, 0, upload id */
#define ROW_DROP 'D'      /* file id, big-endian: committed as gone, not yet unlinked */
#define ROW_EXPIRY 'E'    /* time in ms, big-endian, then the key of a 'C' row */
#define ROW_OPEN 'F'      /* file id, big-endian: reserved, not committed */
#define ROW_OBJECT 'O'    /* bucket, 0, key */
#define ROW_PART 'P'      /* upload id, 0, number, big-endian */
#define ROW_SINGLE 'S'    /* a name */
#define ROW_UPLOAD 'U'    /* bucket, 0, key, 0, upload id */

#define ROW_SINGLE_COPY "copy" /* this index is a backup */

#define ROW_KEY_MAX (2 + 8 + LIMIT_BUCKET_LEN_MAX + 1 + LIMIT_KEY_LEN_MAX + 1 + STORE_UPLOAD_ID_MAX)

struct row_key {
    unsigned char data[ROW_KEY_MAX];
    size_t len;
};

void row_begin(struct row_key *row, char table);
void row_add(struct row_key *row, const void *bytes, size_t len);
void row_add_zero(struct row_key *row);

void row_bucket(struct row_key *row, const char *name);
void row_object(struct row_key *row, const struct store_key *key);
/* `table` is ROW_UPLOAD or ROW_COMPLETED. */
void row_upload(struct row_key *row, char table, const struct store_key *key, const char *id);
void row_part(struct row_key *row, const char *id, uint32_t number);
void row_file(struct row_key *row, char table, uint64_t file_id);
void row_single(struct row_key *row, const char *name);
/* What all rows of `bucket` in `table` begin with. */
void row_of_bucket(struct row_key *row, char table, const char *bucket);
/* The first key after all that begin with `row`. */
void row_after_prefix(struct row_key *row);

#endif
