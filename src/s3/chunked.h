/* SPDX-License-Identifier: Apache-2.0 */
/* chunked.h - aws-chunked bodies, decoded as they arrive.
 * Does:     sizes, data, last chunk, trailer; verifies each chunk's signature at the chunk's end
 *           and the trailer's at its end. Any split of the input gives the same result.
 * Not here: checksums (s3/payload.h); HTTP's own chunked coding (the HTTP library).
 * Units:    bytes.
 * Owns:     the decoder owns its state; bytes pass through to the sink, uncopied.
 * Threads:  owner.
 * Errors:   S3R_E_INVALID_REQUEST (framing), S3R_E_SIGNATURE, S3R_E_INCOMPLETE_BODY (not the
 *           declared length), S3R_E_MALFORMED_TRAILER, S3R_E_NOMEM, what the sink returns. After
 *           an error the decoder takes no more. Data of a chunk reaches the sink before its
 *           signature is judged: nothing may be committed before chunked_finish().
 * Limits:   LIMIT_CHUNK_HEADER_LEN_MAX a size line, LIMIT_CHUNK_LEN_MAX a signed chunk,
 *           LIMIT_TRAILERS_LEN_MAX the trailer. */
#ifndef S3R_S3_CHUNKED_H
#define S3R_S3_CHUNKED_H

#include "base/attr.h"
#include "base/error.h"
#include "s3/headers.h"
#include "s3/sigv4.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* 0 or a code, which ends the decoding. */
typedef int bytes_sink_fn(void *arg, const void *bytes, size_t len);

struct chunked;

/* `kind` is one of the three SIG_PAYLOAD_STREAM_*; `chain` (copied) may be NULL for the unsigned
 * kind only; `decoded_len` is what x-amz-decoded-content-length says. */
int chunked_create(enum sig_payload kind, const struct sig_chain *chain, uint64_t decoded_len,
                   struct chunked **ret_chunked) MUST_CHECK;
void chunked_destroy(struct chunked *c);
void chunked_destroyp(struct chunked **c);

int chunked_feed(struct chunked *c, const void *bytes, size_t len, struct diag *diag,
                 bytes_sink_fn *sink, void *sink_arg) MUST_CHECK;
/* Has the end been read (last chunk, trailer, final line)? */
bool chunked_is_done(const struct chunked *c);
/* 0 when the body ended as it should, with exactly the declared length. */
int chunked_finish(struct chunked *c, struct diag *diag) MUST_CHECK;
/* The trailer's lines, x-amz-trailer-signature left out. */
const struct headers *chunked_trailers(const struct chunked *c);

/* The writing side: appends a chunk's head line; the data and CRLF follow. `chain` NULL: unsigned.
 * `len` 0 writes the last chunk's head, after which comes chunked_print_end(). */
void chunked_print_head(struct text *out, struct sig_chain *chain, const void *bytes, size_t len);
/* The trailer and the final line; `trailers` NULL or empty for none. */
void chunked_print_end(struct text *out, struct sig_chain *chain, const struct headers *trailers);

#endif
