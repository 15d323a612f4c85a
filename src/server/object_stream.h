/* SPDX-License-Identifier: Apache-2.0 */
/* object_stream.h - an object's bytes as the body of an HTTP reply.
 * Does:     reads blocks ahead on the disk pool and hands them to the event thread.
 * Not here: RDMA (rdma.h).
 * Units:    bytes.
 * Owns:     two blocks of the server's pool; the lease is the request's and outlives it.
 * Threads:  reading on workers, handing out on the event thread.
 * Errors:   a failed read ends the connection in the middle: the peer sees a short body.
 * Limits:   two blocks of BODY_BLOCK_LEN. */
#ifndef S3R_SERVER_OBJECT_STREAM_H
#define S3R_SERVER_OBJECT_STREAM_H

#include "server/request.h"

struct object_stream;

int object_stream_create(struct request *r, uint64_t off, uint64_t len,
                         struct object_stream **ret_stream) MUST_CHECK;
/* No read is under way. */
void object_stream_destroy(struct object_stream *st);
/* Reads the first block now (on a worker), so that the head does not go out before a read was
 * seen to work. */
int object_stream_prime(struct object_stream *st) MUST_CHECK;
http_stream_fn object_stream_read; /* arg: the stream */

#endif
