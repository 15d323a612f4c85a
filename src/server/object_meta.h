/* SPDX-License-Identifier: Apache-2.0 */
/* object_meta.h - between what a request says of an object and what the store keeps of it.
 * Does:     collects attributes from headers; writes an object's headers into a reply; converts
 *           checksums between the protocol's and the store's form; judges write conditions.
 * Not here: bytes.
 * Units:    none.
 * Owns:     object_attributes owns copies until its fini().
 * Threads:  any.
 * Errors:   those of s3/meta.h, s3/cond.h.
 * Limits:   LIMIT_METADATA_LEN_MAX. */
#ifndef S3R_SERVER_OBJECT_META_H
#define S3R_SERVER_OBJECT_META_H

#include "s3/checksum.h"
#include "s3/cond.h"
#include "server/request.h"

struct object_attributes {
    struct headers headers;
    struct store_meta *rows;
    char etag[STORE_ETAG_MAX];
    struct store_attributes store; /* borrows from the above and from the request */
};

/* Metadata and owner; ETag and checksum are the caller's to set. */
int object_attributes_collect(struct request *r, struct object_attributes *ret) MUST_CHECK;
/* The same metadata as an object that is there. */
int object_attributes_copy(struct request *r, const struct store_object *from,
                           struct object_attributes *ret) MUST_CHECK;
void object_attributes_fini(struct object_attributes *a);
void object_attributes_etag_md5(struct object_attributes *a, const unsigned char md5[16]);
/* For bytes without an MD5: 64 bits of the CRC, 64 random. `suffix` is "-1" for objects, which
 * tools already take as "not an MD5", and "" for parts. */
void object_attributes_etag_opaque(struct object_attributes *a, uint64_t crc64, const char *suffix);

struct store_checksum checksum_to_store(const struct checksum_value *v);
struct checksum_value checksum_from_store(const struct store_checksum *c);
struct store_checksum checksum_of_crc64(uint64_t crc64);

/* ETag, Last-Modified and metadata. */
int reply_object(struct request *r, const struct store_object *object) MUST_CHECK;
/* The object's checksums when they were asked for. */
int reply_checksums(struct request *r, const struct store_object *object) MUST_CHECK;
/* One checksum header and x-amz-checksum-type. */
int reply_checksum(struct request *r, const struct store_checksum *checksum) MUST_CHECK;
int reply_crc64(struct request *r, uint64_t crc64) MUST_CHECK;

/* store_judge_fn; arg: the struct cond of a write. */
store_judge_fn judge_write;

#endif
