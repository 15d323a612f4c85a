/* SPDX-License-Identifier: Apache-2.0 */
/* http_response.h - a reply's body as the HTTP library takes it.
 * Does:     text, a block or a stream, each without a copy more than the library's own.
 * Not here: headers and status, and sending (http.c).
 * Units:    bytes.
 * Owns:     the reply's text or block go with the response, also when there is none.
 * Threads:  the event thread of the exchange.
 * Errors:   NULL: out of memory.
 * Limits:   the library's buffer for a stream is STREAM_BLOCK. */
#ifndef S3R_SERVER_HTTP_RESPONSE_H
#define S3R_SERVER_HTTP_RESPONSE_H

#include "server/http.h"

#include <microhttpd.h>

/* `is_read`: the body is sent, and not only its length. */
struct MHD_Response *http_response_create(struct http_reply *reply, bool is_read) MUST_CHECK;

#endif
