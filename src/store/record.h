/* SPDX-License-Identifier: Apache-2.0 */
/* record.h - what the index says of an object, a part, an upload or a bucket, as bytes.
 * Does:     encodes and strictly decodes records: a header and typed, length-prefixed fields
 *           (docs/disk.md, "Records"). A decoder that does not know a field skips it, or refuses
 *           the record when the field says that it must be known.
 * Not here: where records are kept (index.h, file.h).
 * Units:    bytes; times in ms since the epoch.
 * Owns:     a decoded record points into the bytes it came from; record_fini() frees its arrays.
 * Threads:  any.
 * Errors:   S3R_E_STORE_CORRUPT for bytes that are no record, S3R_E_STORE_FORMAT for one of a newer
 *           version, S3R_E_NOMEM.
 * Limits:   RECORD_LEN_MAX; LIMIT_PARTS_MAX parts; RECORD_META_MAX metadata pairs. */
#ifndef S3R_STORE_RECORD_H
#define S3R_STORE_RECORD_H

#include "base/text.h"
#include "store/store.h"

#define RECORD_LEN_MAX (4 * MIB)
#define RECORD_META_MAX 256

/* The numbers of this enum and the next are on disk for ever. */
enum record_kind {
    RECORD_OBJECT = 1,
    RECORD_PART = 2,
    RECORD_UPLOAD = 3,    /* open */
    RECORD_COMPLETED = 4, /* an upload that was completed, remembered for some days */
    RECORD_BUCKET = 5,
};

/* Fields come in ascending order; those below RECORD_LISTING_END are all that a listing needs. */
enum record_field {
    RECORD_F_SIZE = 1,
    RECORD_F_SEQUENCE = 2,
    RECORD_F_MODIFIED = 3,
    RECORD_F_ETAG = 4,
    RECORD_F_ETAG_KIND = 5,
    RECORD_F_OWNER = 6,
    RECORD_F_STORAGE_CLASS = 7,
    RECORD_F_CHECKSUM = 8,
    RECORD_F_VERSION_ID = 9,
    RECORD_F_DELETE_MARKER = 10,
    RECORD_F_CREATED = 11,
    RECORD_F_CHECKSUM_WANTED = 12,
    RECORD_LISTING_END = 64,
    RECORD_F_CRC64 = 64,
    RECORD_F_FILE_ID = 65,
    RECORD_F_INLINE = 66,
    RECORD_F_PARTS = 67,
    RECORD_F_META = 68,
    RECORD_F_TAGS = 69,
    RECORD_F_RETENTION = 70,
    RECORD_F_LEGAL_HOLD = 71,
    RECORD_F_ENCRYPTION = 72,
    RECORD_F_BUCKET = 73,
    RECORD_F_KEY = 74,
    RECORD_F_UPLOAD_ID = 75,
    RECORD_F_PART_NUMBER = 76,
    RECORD_F_LIST_DIGEST = 77,
    RECORD_F_REGION = 78,
};

#define RECORD_FLAG_MUST_KNOW 1

struct record_bytes {
    const void *data; /* NULL: the field is not there */
    size_t len;
};

struct record_part {
    uint32_t number;
    uint64_t size, sequence, crc64, file_id;
    int64_t modified_ms;
    const char *etag;
    struct store_checksum checksum;
};

/* Absent strings are NULL, absent numbers 0. */
struct record {
    enum record_kind kind;
    uint64_t size, sequence;
    int64_t modified_ms, created_ms;
    const char *etag;
    enum store_etag_kind etag_kind;
    const char *owner, *storage_class;
    struct store_checksum checksum;
    uint8_t checksum_wanted_kind, checksum_wanted_type;
    struct record_bytes version_id;
    bool is_delete_marker;
    uint64_t crc64, file_id; /* file_id: the data file, the manifest when there are parts; 0 none */
    struct record_bytes inline_bytes;
    struct record_part *parts;
    size_t part_count;
    struct store_meta *meta;
    size_t meta_count;
    struct record_bytes tags, retention, encryption;
    bool is_legal_hold;
    const char *bucket;
    struct record_bytes key;
    const char *upload_id;
    uint32_t part_number;
    struct record_bytes list_digest; /* 32 bytes when there */
    const char *region;
};

/* Appends to `out`; the caller looks at text_error(). */
void record_encode(const struct record *r, struct text *out);
int record_decode(const void *bytes, size_t len, struct record *ret_record) MUST_CHECK;
/* Only the fields that a listing shows; nothing is allocated. */
int record_decode_listing(const void *bytes, size_t len, struct record *ret_record) MUST_CHECK;
void record_fini(struct record *r);

#endif
