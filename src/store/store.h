/* SPDX-License-Identifier: Apache-2.0 */
/* store.h - buckets, objects and uploads on a disk (later: on a cluster).
 * Does:     durable, atomic commits; leases on what is read; listings in byte order of the keys.
 * Not here: HTTP, RDMA, S3 documents; who may do what; where ETags and checksums come from.
 * Units:    bytes; `_ms` since the epoch; sequences grow with each commit of the store.
 * Owns:     everything handed in stays the caller's; what a call returns is freed as it says.
 * Threads:  any; every call may block on the disk, so none belongs on an event thread.
 *           A writer is used by one thread at a time; a lease is read by any number.
 * Errors:   S3R_E_NO_SUCH_*, S3R_E_BUCKET_*, S3R_E_STORE_READ_ONLY (a sync failed: nothing more is
 *           written until a restart), S3R_E_STORE_FULL (old objects intact), S3R_E_STORE_IO,
 *           S3R_E_STORE_CORRUPT, and whatever a judge returned.
 * Limits:   base/limits.h.
 * When a commit has returned 0 the object is durable: bytes, names and index entry. */
#ifndef S3R_STORE_STORE_H
#define S3R_STORE_STORE_H

#include "base/attr.h"
#include "base/error.h"
#include "base/limits.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct store;
struct store_writer;
struct store_lease;

struct store_config {
    const char *dir;      /* created when absent */
    bool is_direct;       /* O_DIRECT for large writes and large cold reads where it is possible */
    bool is_read_only;    /* opens without writing a byte; every write is S3R_E_STORE_READ_ONLY */
    uint64_t cache_bytes; /* of the index; 0: a default */
};

int store_open(const struct store_config *config, struct diag *diag,
               struct store **ret_store) MUST_CHECK;
/* All writers and leases are closed before. */
void store_close(struct store *s);
/* 0, or why writes are refused now (with the text in diag). */
int store_writable(struct store *s, struct diag *diag) MUST_CHECK;
/* The same, and whether there is room for anything: what readiness reports. Does not block. */
int store_ready(struct store *s, struct diag *diag) MUST_CHECK;

struct store_usage {
    uint64_t disk_bytes_free, disk_bytes_total;
    uint64_t puts, index_commits; /* since the store was opened: commits can carry many puts */
};
int store_usage(struct store *s, struct store_usage *ret_usage) MUST_CHECK;

/* ---- buckets ---- */

struct store_bucket {
    char name[LIMIT_BUCKET_LEN_MAX + 1];
    char owner[128]; /* access key of who created it */
    char region[64];
    int64_t created_ms;
};

int store_bucket_create(struct store *s, const struct store_bucket *bucket) MUST_CHECK;
int store_bucket_stat(struct store *s, const char *name, struct store_bucket *ret) MUST_CHECK;
/* S3R_E_BUCKET_NOT_EMPTY while it has an object or an open upload. */
int store_bucket_delete(struct store *s, const char *name) MUST_CHECK;
/* Up to `max` buckets whose name comes after `after` (NULL or "": from the start). */
int store_bucket_list(struct store *s, const char *after, size_t max, struct store_bucket *ret_rows,
                      size_t *ret_count, bool *ret_more) MUST_CHECK;

/* ---- what an object is ---- */

struct store_key {
    const char *bucket;
    const char *key; /* any bytes but NUL, 1 to LIMIT_KEY_LEN_MAX of them */
    size_t key_len;
};

/* A header to give back as it came: "content-type", "x-amz-meta-colour", ... The store does not
 * look inside. */
struct store_meta {
    const char *name, *value;
};

/* The numbers are on disk for ever. */
enum store_checksum_kind {
    STORE_CRC32 = 1,
    STORE_CRC32C = 2,
    STORE_CRC64NVME = 3,
    STORE_SHA1 = 4,
    STORE_SHA256 = 5,
};
enum store_checksum_type { STORE_FULL_OBJECT = 1, STORE_COMPOSITE = 2 };

struct store_checksum {
    uint8_t kind, type; /* kind 0: none */
    uint8_t len;
    uint8_t bytes[32];
    uint32_t parts; /* of a composite: the number after the dash */
};

#define STORE_ETAG_MAX 48 /* 32 hex digits, a dash, 5 digits, NUL */
enum store_etag_kind { STORE_ETAG_MD5 = 1, STORE_ETAG_OPAQUE = 2, STORE_ETAG_MULTIPART = 3 };

struct store_part {
    uint32_t number;
    uint64_t size, off; /* off: where it starts in the object; 0 for parts of an open upload */
    uint64_t sequence;  /* of its commit: names this very upload of the number */
    int64_t modified_ms;
    char etag[STORE_ETAG_MAX]; /* without quotes */
    uint64_t crc64;
    struct store_checksum checksum; /* what its client asked for, else kind 0 */
};

/* What a client said of an object and gets back. Strings may be NULL or counts 0. */
struct store_attributes {
    const char *etag; /* without quotes */
    enum store_etag_kind etag_kind;
    const char *owner;
    const char *storage_class; /* NULL: STANDARD */
    const struct store_meta *meta;
    size_t meta_count;
    struct store_checksum checksum;
};

struct store_object {
    uint64_t size, sequence;
    int64_t modified_ms;
    char etag[STORE_ETAG_MAX];
    enum store_etag_kind etag_kind;
    const char *owner, *storage_class; /* never NULL */
    uint64_t crc64;                    /* CRC-64/NVME of the whole */
    struct store_checksum checksum;    /* the client's, kind 0: none */
    const struct store_meta *meta;
    size_t meta_count;
    const struct store_part *parts; /* of a completed upload, by number; else NULL */
    size_t part_count;
};

/* Called under the key's lock with the object as it is (NULL: none), in the step that commits; 0
 * goes on, anything else is what the call returns. It must not call the store. */
typedef int store_judge_fn(const struct store_object *current, void *arg);

/* ---- reading ---- */

/* The object as it is now: a later overwrite or delete does not disturb the lease. */
int store_lease_open(struct store *s, const struct store_key *key, struct diag *diag,
                     struct store_lease **ret_lease) MUST_CHECK;
/* The same, or S3R_E_TIMEOUT at once when the index would have to read the disk for it: the one
 * call for event threads. Inline objects can then be read without blocking as well. */
int store_lease_open_cached(struct store *s, const struct store_key *key,
                            struct store_lease **ret_lease) MUST_CHECK;
void store_lease_close(struct store_lease *lease);
void store_lease_closep(struct store_lease **lease);
/* Lives as long as the lease. */
const struct store_object *store_lease_object(const struct store_lease *lease);
/* The bytes are in the index: reading does not touch the disk. */
bool store_lease_is_inline(const struct store_lease *lease);
/* Exactly [off, off+len), verified against the block checksums (blocks that the range covers only
 * in part are read whole). Fastest into page-aligned memory at offsets that are a multiple of
 * LIMIT_BLOCK_LEN: what of a large object the page cache does not hold then comes by O_DIRECT. */
int store_lease_read(struct store_lease *lease, uint64_t off, void *buf, size_t len,
                     struct diag *diag) MUST_CHECK;

/* The same bytes where they are, verified, for a system call to read: S3R_E_UNSUPPORTED when they
 * are not all in one file and in the page cache, and then they must be read. Ends with
 * store_lease_unview(), before the lease closes. A disk that cannot deliver a page any more shows
 * as EFAULT of the system call; anything else that touched the memory would be killed by SIGBUS. */
struct part_file;
struct store_view {
    const void *bytes;
    struct part_file *file;
};
int store_lease_view(struct store_lease *lease, uint64_t off, size_t len,
                     struct store_view *ret_view) MUST_CHECK;
void store_lease_unview(struct store_lease *lease, struct store_view *view);

/* ---- writing ---- */

/* `size` of the object or part when it is known, else UINT64_MAX: decides inline, O_DIRECT and
 * allocation, and is no limit. */
int store_writer_open(struct store *s, uint64_t size, struct diag *diag,
                      struct store_writer **ret_writer) MUST_CHECK;
/* Appends. Page-aligned memory in multiples of LIMIT_BLOCK_LEN goes to the disk without a copy. */
int store_writer_append(struct store_writer *w, const void *buf, size_t len,
                        struct diag *diag) MUST_CHECK;
uint64_t store_writer_size(const struct store_writer *w);
uint64_t store_writer_crc64(const struct store_writer *w);
/* Without a commit: drops the bytes. NULL is fine; after a commit it only frees. */
void store_writer_close(struct store_writer *w);
void store_writer_closep(struct store_writer **w);

/* Makes what was written the object `key`. `judge` and ret_modified_ms may be NULL. After an error
 * the previous object is as it was (after one that made the store read-only a restart tells), and
 * the writer can only be closed. */
int store_put(struct store_writer *w, const struct store_key *key,
              const struct store_attributes *attributes, store_judge_fn *judge, void *judge_arg,
              struct diag *diag, int64_t *ret_modified_ms) MUST_CHECK;
/* Deleting what is not there is a success; ret_existed (may be NULL) tells. */
int store_delete(struct store *s, const struct store_key *key, store_judge_fn *judge,
                 void *judge_arg, bool *ret_existed) MUST_CHECK;

/* ---- listing ---- */

struct store_list_query {
    const char *bucket;
    const char *prefix; /* with their lengths: any bytes */
    size_t prefix_len;
    const char *delimiter; /* "" or NULL: none; may have several bytes */
    size_t delimiter_len;
    /* Rows come strictly after this key. One that lies in (or equals) a common prefix of this
     * query skips everything under that prefix. */
    const char *after;
    size_t after_len;
    size_t max; /* rows, keys and prefixes together; 0 gives none and is not truncated */
};

struct store_list_row {
    const char *key; /* or the common prefix, with its delimiter */
    size_t key_len;
    bool is_prefix;
    uint64_t size;
    int64_t modified_ms;
    char etag[STORE_ETAG_MAX];
    const char *owner, *storage_class;
    struct store_checksum checksum;
};

struct store_list; /* owns its rows */
int store_list_open(struct store *s, const struct store_list_query *query, struct diag *diag,
                    struct store_list **ret_list) MUST_CHECK;
void store_list_close(struct store_list *list);
void store_list_closep(struct store_list **list);
const struct store_list_row *store_list_rows(const struct store_list *list, size_t *ret_count);
bool store_list_is_truncated(const struct store_list *list);

/* ---- multipart uploads ---- */

#define STORE_UPLOAD_ID_MAX 48 /* with its NUL; characters a-z 0-9 */

struct store_upload {
    char id[STORE_UPLOAD_ID_MAX];
    int64_t created_ms;
    const char *key;
    size_t key_len;
    const char *owner, *storage_class;
    uint8_t checksum_kind, checksum_type; /* announced at creation, 0: none */
    const struct store_meta *meta;
    size_t meta_count;
    /* A completed upload is remembered for days, so that completing it again answers the same. */
    bool is_completed;
    uint8_t list_digest[32]; /* given at completion */
    char etag[STORE_ETAG_MAX];
    struct store_checksum checksum;
    uint64_t crc64;
};

int store_upload_create(struct store *s, const struct store_key *key,
                        const struct store_attributes *attributes, uint8_t checksum_kind,
                        uint8_t checksum_type, struct diag *diag,
                        char ret_id[STORE_UPLOAD_ID_MAX]) MUST_CHECK;
/* An upload that is completed is found too. Free with store_upload_free(). */
int store_upload_stat(struct store *s, const struct store_key *key, const char *id,
                      struct store_upload **ret_upload) MUST_CHECK;
void store_upload_free(struct store_upload *upload);
void store_upload_freep(struct store_upload **upload);
/* A completed one is S3R_E_NO_SUCH_UPLOAD. */
int store_upload_abort(struct store *s, const struct store_key *key, const char *id) MUST_CHECK;

/* Makes what was written part `number`; replaces one that is there. S3R_E_NO_SUCH_UPLOAD when the
 * upload ended meanwhile. */
int store_part_put(struct store_writer *w, const struct store_key *key, const char *id,
                   uint32_t number, const struct store_attributes *attributes, struct diag *diag,
                   int64_t *ret_modified_ms) MUST_CHECK;
/* Up to `max` parts with numbers above `after`, by number. The caller frees *ret_parts. */
int store_part_list(struct store *s, const struct store_key *key, const char *id, uint32_t after,
                    size_t max, struct store_part **ret_parts, size_t *ret_count,
                    bool *ret_more) MUST_CHECK;

/* Completes: `parts` are rows of store_part_list() in ascending order; S3R_E_INVALID_PART when one
 * was replaced since. Copies nothing. Parts not named are dropped. */
int store_upload_complete(struct store *s, const struct store_key *key, const char *id,
                          const struct store_part *parts, size_t part_count,
                          const struct store_attributes *attributes, const uint8_t list_digest[32],
                          store_judge_fn *judge, void *judge_arg, struct diag *diag,
                          int64_t *ret_modified_ms) MUST_CHECK;

struct store_upload_query {
    const char *bucket;
    const char *prefix, *delimiter;
    size_t prefix_len, delimiter_len;
    const char *after_key; /* uploads of this key come only with ids above after_id, if given */
    size_t after_key_len;
    const char *after_id;
    size_t max;
};

/* Open uploads by key, then creation order; rows with is_prefix have only key and key_len. */
struct store_upload_row {
    const char *key;
    size_t key_len;
    bool is_prefix;
    char id[STORE_UPLOAD_ID_MAX];
    int64_t created_ms;
    const char *owner, *storage_class;
    uint8_t checksum_kind, checksum_type;
};
struct store_upload_list;
int store_upload_list_open(struct store *s, const struct store_upload_query *query,
                           struct diag *diag, struct store_upload_list **ret_list) MUST_CHECK;
void store_upload_list_close(struct store_upload_list *list);
void store_upload_list_closep(struct store_upload_list **list);
const struct store_upload_row *store_upload_list_rows(const struct store_upload_list *list,
                                                      size_t *ret_count);
bool store_upload_list_is_truncated(const struct store_upload_list *list);

/* ---- keeping it healthy ---- */

struct store_scrub_report {
    uint64_t files, bytes, objects, bad_blocks, orphans_removed, missing_files;
};
/* is_deep: reads every byte. */
int store_scrub(struct store *s, bool is_deep, struct diag *diag,
                struct store_scrub_report *ret_report) MUST_CHECK;
/* A consistent copy of the index into `dir` (absent or empty), while the store serves. */
int store_backup(struct store *s, const char *dir, struct diag *diag) MUST_CHECK;
/* Offline: restores the index of the store in `dir` from what can be read of the old one and from
 * the data files. Inline objects live in the index only: docs/disk.md says what can be lost. */
int store_rebuild(const char *dir, struct diag *diag,
                  struct store_scrub_report *ret_report) MUST_CHECK;

#endif
