/* SPDX-License-Identifier: Apache-2.0 */
/* stream.h - objects as several pieces in flight together.
 * Does:     uploads from a function and downloads to one in registered memory that is bounded;
 *           memory of any size as one object, split where one window cannot hold it.
 * Not here: one piece (client.h); the pieces' life (pieces.h).
 * Units:    bytes.
 * Owns:     nothing beyond the call, except buffers that a stopped server may still use: they stay
 *           mapped for as long as the process lives.
 * Threads:  any; the functions given are called on the caller's thread, but for those in options.
 * Errors:   as client.h, and S3R_E_ABORTED (the function gave up, or had another number of bytes),
 *           S3R_E_CHANGED (the object was replaced while it was read). After an error nothing is
 *           stored, no upload is left, nothing is registered.
 * Limits:   STREAM_IN_FLIGHT_MAX pieces at a time; LIMIT_PARTS_MAX pieces of an upload. */
#ifndef S3R_CLIENT_STREAM_H
#define S3R_CLIENT_STREAM_H

#include "base/limits.h"
#include "client/client.h"

#define STREAM_UNKNOWN UINT64_MAX
#define STREAM_PIECE_LEN (16 * MIB)         /* of a stream, where nobody says otherwise */
#define STREAM_MEMORY_PIECE_LEN (256 * MIB) /* of memory that is too large for one window */
#define STREAM_IN_FLIGHT 4
#define STREAM_IN_FLIGHT_MAX 100

/* All zeroes are the defaults. */
struct stream_options {
    /* Of each piece, conditions and headers of the whole; NULL: the defaults. A cancellation that
     * is to leave no upload behind goes here, and not into the client's configuration. */
    const struct client_options *each;
    uint64_t piece_len; /* longer where an upload would have too many; then fewer are in flight */
    unsigned in_flight;
    unsigned retries; /* of each piece */
};

/* Fills up to `size` bytes (more than 0); returns how many, 0 at the end, negative to give up. */
typedef int64_t stream_read_fn(void *arg, void *buf, size_t size);
/* Takes all of it: 0, or anything else to give up. */
typedef int stream_write_fn(void *arg, const void *buf, size_t len);

/* `len` STREAM_UNKNOWN: until the function says 0. What fits one piece is one PUT. */
int stream_put(struct client *c, const char *bucket, const char *key, uint64_t len,
               stream_read_fn *read, void *arg, const struct stream_options *options,
               struct diag *diag, struct client_result *result) MUST_CHECK;
/* Bytes [off, off + len), `len` STREAM_UNKNOWN: to the end; in order, and all of one version of the
 * object. Where it is the whole its checksum is compared, after the last piece was given. */
int stream_get(struct client *c, const char *bucket, const char *key, uint64_t off, uint64_t len,
               stream_write_fn *write, void *arg, const struct stream_options *options,
               struct diag *diag, struct client_result *result) MUST_CHECK;

/* client_put() and client_get() for memory of any size: more than one window can hold, or than a
 * piece_len that was given, is split. */
uint64_t stream_whole_max(const struct stream_options *options);
int stream_put_memory(struct client *c, const char *bucket, const char *key,
                      const struct client_memory *memory, const struct stream_options *options,
                      struct diag *diag, struct client_result *result) MUST_CHECK;
int stream_get_memory(struct client *c, const char *bucket, const char *key, uint64_t off,
                      const struct client_memory *memory, const struct stream_options *options,
                      struct diag *diag, struct client_result *result) MUST_CHECK;

#endif
