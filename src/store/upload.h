/* SPDX-License-Identifier: Apache-2.0 */
/* upload.h - multipart uploads inside the engine.
 * Does:     what creating, listing, completing and aborting share.
 * Not here: the contract (store.h).
 * Units:    as store.h.
 * Owns:     an upload_parts owns its rows.
 * Threads:  any, under the key's lock where it says so.
 * Errors:   as store.h.
 * Limits:   LIMIT_PARTS_MAX parts. */
#ifndef S3R_STORE_UPLOAD_H
#define S3R_STORE_UPLOAD_H

#include "store/fs.h"

#define UPLOAD_REMEMBERED_MS (INT64_C(7) * 24 * 3600 * 1000)

struct upload_part {
    struct store_part shown;
    uint64_t file_id;
    bool is_used; /* by the object that the upload becomes */
};

struct upload_parts {
    struct upload_part *rows; /* by number */
    size_t count, cap;
};

int upload_check(const struct store_key *key, const char *id) MUST_CHECK;
/* S3R_E_NO_SUCH_UPLOAD unless it is open. */
int upload_get_open(struct store *s, const struct store_key *key, const char *id,
                    struct fs_record *ret) MUST_CHECK;
/* All parts; to be freed after an error too. */
int upload_parts_load(struct index *idx, const char *id, struct upload_parts *ret) MUST_CHECK;
int upload_parts_add(struct upload_parts *parts, const struct record *r) MUST_CHECK;
void upload_parts_fini(struct upload_parts *parts);
/* Their rows go; the files of those that are not used go to the drop table. */
void upload_parts_end_rows(struct index_batch *b, const char *id, const struct upload_parts *parts);
void upload_parts_drop_files(struct store *s, const struct upload_parts *parts);

#endif
