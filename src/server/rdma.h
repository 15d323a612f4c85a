/* SPDX-License-Identifier: Apache-2.0 */
/* rdma.h - the RDMA path of GetObject, PutObject and UploadPart.
 * Does:     judges a request's token in the order of answers, moves the bytes piece by piece
 *           through staging memory, counts, and writes the x-amz-rdma-* reply headers.
 * Not here: wires (rdma/mover.h); staging memory itself (staging.h).
 * Units:    bytes.
 * Owns:     nothing beyond a call.
 * Threads:  a worker of POOL_TRANSFER; a second lane may run on POOL_LANES meanwhile.
 * Errors:   declined: S3R_E_TOKEN_DECLINED or S3R_E_RDMA_UNAVAILABLE (501, with reply headers set);
 *           S3R_E_TOKEN_MALFORMED, S3R_E_INVALID_ARGUMENT, S3R_E_INVALID_REQUEST (400);
 *           S3R_E_RDMA_* (503: the transfer had started; nothing of it is in flight any more);
 *           the store's.
 * Limits:   RDMA_PIECE_GET, RDMA_PIECE_PUT. */
#ifndef S3R_SERVER_RDMA_H
#define S3R_SERVER_RDMA_H

#include "server/request.h"

/* Small enough to stay in a core's cache between reading the disk's pages and sending them. */
#define RDMA_PIECE_GET (1 * MIB)
#define RDMA_PIECE_PUT (4 * MIB)

/* Which client process a token is of, for shares of what is scarce: the same number for all of its
 * tokens, 1 for what does not say. */
uint64_t rdma_owner(const char *token_text);
/* Syntax, then use and scheme: what can be said before bounds are known. Sets r->token. */
int rdma_judge(struct request *r, enum rdma_way way) MUST_CHECK;
/* Writes [off, off+len) of r->lease to the start of the window. */
int rdma_send(struct request *r, uint64_t off, uint64_t len) MUST_CHECK;
/* Reads the whole window into r->writer, through r->payload's checks. */
int rdma_receive(struct request *r) MUST_CHECK;
/* Counts the transfer as acknowledged and writes the reply headers: after everything went well. */
int rdma_acknowledge(struct request *r, enum rdma_way way, uint64_t len) MUST_CHECK;

#endif
