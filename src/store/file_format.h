/* SPDX-License-Identifier: Apache-2.0 */
/* file_format.h - the end block of a data file, byte by byte (docs/disk.md, "Data files").
 * Does:     fixes its layout. All numbers are little-endian. A file is, from its start:
 *             size bytes of data
 *             8 bytes for each block of LIMIT_BLOCK_LEN, the last one may be shorter: its CRC
 *             record_len bytes of record
 *             this block
 * Not here: how it is written and judged (file.c, file_in.c).
 * Units:    bytes.
 * Owns:     nothing.
 * Threads:  any.
 * Errors:   none.
 * Limits:   none. */
#ifndef S3R_STORE_FILE_FORMAT_H
#define S3R_STORE_FILE_FORMAT_H

#include "store/file.h"

#define FILE_MAGIC "S3RFILE\x01"
#define FILE_FORMAT 1

struct file_end {
    char magic[8];
    uint32_t format;
    uint32_t kind;
    uint8_t uuid[STORE_UUID_LEN];
    uint64_t file_id;
    uint64_t size;
    uint64_t crc64;      /* of the data */
    uint64_t table_crc;  /* of the table's bytes */
    uint64_t record_crc; /* of the record's bytes */
    uint32_t record_len;
    uint32_t block_len;
    uint64_t end_crc; /* of all of this before it */
};
_Static_assert(sizeof(struct file_end) == 88, "docs/disk.md");
_Static_assert(offsetof(struct file_end, uuid) == 16, "docs/disk.md");
_Static_assert(offsetof(struct file_end, file_id) == 32, "docs/disk.md");
_Static_assert(offsetof(struct file_end, record_len) == 72, "docs/disk.md");
_Static_assert(offsetof(struct file_end, end_crc) == 80, "docs/disk.md");

#endif
