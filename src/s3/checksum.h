/* SPDX-License-Identifier: Apache-2.0 */
/* checksum.h - the five checksums of S3.
 * Does:     names, streaming computation, text forms, what may be asked for a multipart upload,
 *           the value of a whole object from its parts'.
 * Not here: CRC-64/NVME itself (base/crc64.h); the digests (base/crypto.h).
 * Units:    bytes; a CRC's bytes are big-endian.
 * Owns:     a context is the caller's until checksum_destroy().
 * Threads:  owner for one context, any otherwise.
 * Errors:   S3R_E_NOMEM, S3R_E_INVALID_ARGUMENT, S3R_E_INVALID_REQUEST.
 * Limits:   CHECKSUM_LEN_MAX. */
#ifndef S3R_S3_CHECKSUM_H
#define S3R_S3_CHECKSUM_H

#include "base/attr.h"
#include "base/error.h"
#include "base/hex.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The numbers are stored on disk: append only. */
enum checksum_kind {
    CHECKSUM_NONE,
    CHECKSUM_CRC32,
    CHECKSUM_CRC32C,
    CHECKSUM_CRC64NVME,
    CHECKSUM_SHA1,
    CHECKSUM_SHA256,
    CHECKSUM_KINDS
};
enum checksum_type {
    CHECKSUM_TYPE_NONE, /* not said */
    CHECKSUM_FULL_OBJECT,
    CHECKSUM_COMPOSITE, /* a checksum of the parts' checksums */
};

#define CHECKSUM_LEN_MAX 32
/* Base64, "-10000", NUL */
#define CHECKSUM_TEXT_SIZE (BASE64_LEN(CHECKSUM_LEN_MAX) + 6 + 1)

/* All zeroes is "no checksum". */
struct checksum_value {
    enum checksum_kind kind;
    enum checksum_type type;
    unsigned parts; /* of a composite; 0 otherwise */
    unsigned char bytes[CHECKSUM_LEN_MAX];
};

/* "CRC64NVME" */
const char *checksum_name(enum checksum_kind kind);
/* "x-amz-checksum-crc64nvme" */
const char *checksum_header(enum checksum_kind kind);
/* "ChecksumCRC64NVME" */
const char *checksum_element(enum checksum_kind kind);
/* "FULL_OBJECT", "COMPOSITE" */
const char *checksum_type_name(enum checksum_type type);
size_t checksum_len(enum checksum_kind kind);
/* CHECKSUM_NONE when none fits; the letter case does not matter. */
enum checksum_kind checksum_kind_of_name(const char *name);
enum checksum_kind checksum_kind_of_header(const char *lower_case_name);
enum checksum_kind checksum_kind_of_element(const char *name);

/* Base64, for a composite also "-N" (`is_suffix_allowed`). */
bool checksum_parse(enum checksum_kind kind, const char *text, bool is_suffix_allowed,
                    struct checksum_value *ret_value) MUST_CHECK;
void checksum_print(const struct checksum_value *value, char out[CHECKSUM_TEXT_SIZE]);
bool checksum_equal(const struct checksum_value *a, const struct checksum_value *b);

/* x-amz-checksum-algorithm and -type of CreateMultipartUpload (either may be NULL). Without a
 * type: CRC-64/NVME is FULL_OBJECT, the others COMPOSITE. CRC-64/NVME is never composite, the
 * SHAs never full-object. */
int checksum_choose(const char *algorithm, const char *type, struct diag *diag,
                    enum checksum_kind *ret_kind, enum checksum_type *ret_type) MUST_CHECK;

struct checksum;
int checksum_create(enum checksum_kind kind, struct checksum **ret_checksum) MUST_CHECK;
void checksum_destroy(struct checksum *c);
void checksum_destroyp(struct checksum **c);
void checksum_update(struct checksum *c, const void *bytes, size_t len);
/* The value as FULL_OBJECT; the context starts anew. */
void checksum_final(struct checksum *c, struct checksum_value *ret_value);

/* A whole from its parts in order: add each part's value and length, then take the result. */
struct checksum_join {
    enum checksum_kind kind;
    enum checksum_type type;
    unsigned parts;
    uint64_t crc;
    struct checksum *digest; /* for a composite */
};
int checksum_join_init(struct checksum_join *j, enum checksum_kind kind,
                       enum checksum_type type) MUST_CHECK;
void checksum_join_fini(struct checksum_join *j);
void checksum_join_add(struct checksum_join *j, const struct checksum_value *part,
                       uint64_t part_len);
void checksum_join_final(struct checksum_join *j, struct checksum_value *ret_value);

#endif
