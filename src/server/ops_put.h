/* SPDX-License-Identifier: Apache-2.0 */
/* ops_put.h - what PutObject, UploadPart and UploadPartCopy have in common.
 * Does:     opens the writer, receives the bytes by whichever way they come, makes ETag and
 *           checksum, composes the reply.
 * Not here: the commit, which differs.
 * Units:    bytes.
 * Owns:     nothing.
 * Threads:  a worker.
 * Errors:   those of rdma.h, s3/payload.h and store/store.h.
 * Limits:   none of its own. */
#ifndef S3R_SERVER_OPS_PUT_H
#define S3R_SERVER_OPS_PUT_H

#include "server/object_meta.h"

/* Judges the token, if there is one, and opens r->writer. The last step of a prepare. */
int put_open(struct request *r) MUST_CHECK;
int put_judge_rdma(struct request *r) MUST_CHECK;
/* By RDMA: moves the bytes and verifies them (what came over HTTP is verified already). Sets ETag
 * and checksum. */
int put_receive(struct request *r, struct object_attributes *a, const char *etag_suffix) MUST_CHECK;
/* ?partNumber */
int part_number(struct request *r, uint32_t *ret_number) MUST_CHECK;
/* The upload of ?uploadId, which takes parts. The caller frees it. */
int open_upload_stat(struct request *r, struct store_upload **ret) MUST_CHECK;
/* After the commit. */
int put_reply(struct request *r, const char *etag, uint64_t size) MUST_CHECK;

#endif
