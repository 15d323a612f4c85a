/* SPDX-License-Identifier: Apache-2.0 */
/* file.h - one data file: bytes, a checksum for each block, and at the end whose they are.
 * Does:     writes, finishes, verifies and reads data files (docs/disk.md, "Data files").
 * Not here: which file belongs to what (index), when one may go (files.h), commits (object.c).
 * Units:    bytes; blocks of LIMIT_BLOCK_LEN.
 * Owns:     a file_out or file_in owns its descriptor.
 * Threads:  owner.
 * Errors:   S3R_E_STORE_CORRUPT for bytes that do not match, S3R_E_STORE_FULL, S3R_E_STORE_IO,
 *           S3R_E_NO_SUCH_KEY when the file is not there.
 * Limits:   LIMIT_OBJECT_LEN_MAX; RECORD_LEN_MAX for the record in the end block. */
#ifndef S3R_STORE_FILE_H
#define S3R_STORE_FILE_H

#include "base/text.h"
#include "store/recent.h"
#include "store/record.h"

#define STORE_UUID_LEN 16

/* The numbers are on disk for ever. */
enum file_kind {
    FILE_OBJECT = 1,
    FILE_PART = 2,
    FILE_MANIFEST = 3, /* no bytes: the record of an object that consists of parts */
    FILE_BUCKET = 4,   /* no bytes: the record of a bucket */
};

#define FILE_PATH_MAX 4352
/* data/TTTTTTTTTTT/LLL/IIIIIIIIIIIIIIII: 1024 files in a folder, 1024 such folders in one above. */
void file_path(char out[FILE_PATH_MAX], const char *store_dir, uint64_t file_id);
void file_folder(char out[FILE_PATH_MAX], const char *store_dir, uint64_t file_id);
/* The two folders of a file, made durably. */
int file_make_folders(const char *store_dir, uint64_t file_id, bool *ret_is_sync_failed) MUST_CHECK;

/* Calls `fn` for each file in the data folders whose name is an id, until it returns non-zero. */
typedef int file_each_fn(uint64_t file_id, void *arg);
int file_each(const char *store_dir, file_each_fn *fn, void *arg) MUST_CHECK;

/* ---- writing ---- */

struct file_out {
    int fd; /* -1: not open */
    uint64_t file_id;
    uint64_t size;  /* appended; whole blocks of it are on their way to the disk */
    uint64_t crc64; /* of the blocks done */
    bool is_direct;
    bool has_trailer; /* the bytes are complete */
    uint64_t *table;  /* the blocks' checksums */
    size_t table_count, table_cap;
    char *block; /* the block that fills, page-aligned */
    size_t block_len, block_cap;
    uint64_t trailer_off; /* where the end block's record starts */
};

/* Creates the file; `size` as store_writer_open(). *is_direct: in, wanted; out, what it became. */
int file_out_open(struct file_out *f, const char *store_dir, uint64_t file_id, uint64_t size,
                  bool *is_direct) MUST_CHECK;
int file_out_append(struct file_out *f, const void *buf, size_t len) MUST_CHECK;
/* Of all that was appended. */
uint64_t file_out_crc64(const struct file_out *f);
/* Writes the rest of the bytes, the table, and the end block with `record`. Called again (with a
 * record of the same length) it rewrites the end block only. Does not sync. */
int file_out_finish(struct file_out *f, enum file_kind kind, const uint8_t uuid[STORE_UUID_LEN],
                    const struct text *record) MUST_CHECK;
void file_out_close(struct file_out *f);

/* ---- reading ---- */

struct file_in {
    int fd, direct_fd; /* -1: not open */
    uint64_t file_id, size, crc64;
    enum file_kind kind;
    uint64_t record_off, record_crc;
    uint32_t record_len;
    uint64_t *table; /* the blocks' checksums, verified */
    size_t table_count;
    const char *map;       /* the data; NULL: of a small file, or it cannot be mapped */
    struct recent *recent; /* the store's; with direct_fd */
};

/* Opens and judges the last bytes of the file: are they an end block of this store and file? */
int file_in_open(struct file_in *f, const char *store_dir, uint64_t file_id,
                 const uint8_t uuid[STORE_UUID_LEN]) MUST_CHECK;
void file_in_close(struct file_in *f);
/* From here on large reads that the page cache does not hold bypass it, but for those that `recent`
 * knows. *is_direct: in, wanted; false when the file system refuses, and then nothing changes. */
void file_in_open_direct(struct file_in *f, struct recent *recent, bool *is_direct);
/* Before other threads have it: maps what is large enough for views, where it is not yet mapped. */
void file_in_prepare_view(struct file_in *f);
/* Exactly [off, off+len), verified. Any thread, several at once. */
int file_in_read(const struct file_in *f, uint64_t off, void *buf, size_t len) MUST_CHECK;
/* Verified memory of [off, off+len) without a copy, as long as the file is open: where the file is
 * mapped and the page cache holds all of it. S3R_E_UNSUPPORTED: read it instead. A page can still
 * go bad before it is used: the kernel's calls then say EFAULT, so only they may be given it. */
int file_in_view(const struct file_in *f, uint64_t off, size_t len,
                 const void **ret_bytes) MUST_CHECK;
/* The record in the end block, after its checksum was verified. The caller frees. */
int file_in_record(struct file_in *f, char **ret_bytes, size_t *ret_len) MUST_CHECK;
/* Reads all of it, each block against the table and the blocks together against the checksum of
 * the whole. Corrupt blocks are counted, not an error. */
int file_in_verify(struct file_in *f, uint64_t *ret_bad_blocks) MUST_CHECK;

#endif
