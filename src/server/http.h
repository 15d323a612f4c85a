/* SPDX-License-Identifier: Apache-2.0 */
/* http.h - HTTP/1.1 and TLS by libmicrohttpd, and nothing of S3.
 * Does:     listens; checks the framing that the library accepts silently; hands heads and bodies
 *           to the application; sends replies from memory or a stream; sweeps slow heads.
 * Not here: what a request means (request.h).
 * Units:    bytes, seconds where named `_s`.
 * Owns:     an exchange lives from the head's arrival until app.done() has returned.
 * Threads:  the callbacks run on event threads and must not block; http_resume() and
 *           http_peer_is_gone() may come from any thread while the exchange lives.
 * Errors:   S3R_E_BAD_FRAMING, S3R_E_HEADERS_TOO_LARGE, S3R_E_INVALID_URI from
 *           http_framing_error(): the application answers them and the connection closes.
 * Limits:   base/limits.h. */
#ifndef S3R_SERVER_HTTP_H
#define S3R_SERVER_HTTP_H

#include "base/attr.h"
#include "base/buffers.h"
#include "base/error.h"
#include "base/text.h"
#include "s3/headers.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

struct http;
struct http_exchange;

enum http_next {
    HTTP_GO_ON, /* the next call comes when there is more */
    HTTP_WAIT,  /* http_suspend() was called: the same call comes again after http_resume() */
    HTTP_CLOSE, /* drop the connection */
};

/* A head is followed by bodies, and those by an end, until http_reply() was called. */
struct http_app {
    void *(*begin)(void *app_arg, struct http_exchange *ex); /* NULL: out of memory, close */
    enum http_next (*head)(void *req);
    /* Takes some or all of the bytes: *len becomes what is left. */
    enum http_next (*body)(void *req, const char *bytes, size_t *len);
    enum http_next (*end)(void *req);
    /* The reply was sent (`is_sent`) or the connection is lost; frees the request. */
    void (*done)(void *req, bool is_sent);
};

struct http_config {
    int listen_fd; /* listening; taken over by a start that succeeds */
    unsigned threads, connections_max;
    unsigned head_timeout_s, idle_timeout_s;
    const char *tls_cert, *tls_key; /* PEM texts, both or none */
    struct http_app app;
    void *app_arg;
};

int http_open(const struct http_config *config, struct http **ret_http) MUST_CHECK;
/* From here on callbacks come: whatever they use, this handle among it, is in place before. */
int http_start(struct http *h, struct diag *diag) MUST_CHECK;
/* No new connections. */
void http_quiesce(struct http *h);
/* Every exchange has been resumed and has ended, or ends now. Frees it; also what never started. */
void http_stop(struct http *h);
/* Exchanges between begin and done. */
size_t http_active(struct http *h);

/* ---- one exchange ---- */

const char *http_method(const struct http_exchange *ex);
/* As on the wire: path and query, undecoded. */
const char *http_target(const struct http_exchange *ex);
const struct headers *http_headers(const struct http_exchange *ex);
struct headers *http_headers_mutable(struct http_exchange *ex);
const struct sockaddr *http_peer(const struct http_exchange *ex);
bool http_is_tls(const struct http_exchange *ex);
/* Content-Length; false when there is none. */
bool http_content_length(const struct http_exchange *ex, uint64_t *ret_len) MUST_CHECK;
bool http_is_chunked(const struct http_exchange *ex);
bool http_has_body(const struct http_exchange *ex);
/* 0, or what is wrong with the head. */
int http_framing_error(const struct http_exchange *ex, struct diag *diag) MUST_CHECK;

/* From inside a callback only, which then returns HTTP_WAIT (or waits, for a stream). */
void http_suspend(struct http_exchange *ex);
void http_resume(struct http_exchange *ex);
/* Has the peer closed its side? Costs one poll(2). */
bool http_peer_is_gone(struct http_exchange *ex);

/* Ends the connection in the middle of the body, so that the peer sees that it is short. */
#define HTTP_STREAM_FAILED ((ssize_t)-2)

/* Fills up to `max` bytes from `pos` on: how many; 0 when it has suspended the exchange;
 * HTTP_STREAM_FAILED. */
typedef ssize_t http_stream_fn(void *arg, uint64_t pos, char *buf, size_t max);

struct http_reply {
    unsigned status;
    const struct headers *headers;
    struct text *body;    /* taken (emptied); NULL: none */
    struct buffer *block; /* instead of body: taken, whatever happens; given back once it is sent */
    size_t block_len;
    http_stream_fn *stream; /* instead of body */
    void *stream_arg;
    uint64_t stream_len;
    bool is_close; /* the connection ends with this reply */
};

/* From inside a callback. The length is the body's, also for HEAD, of which nothing is sent. */
int http_reply(struct http_exchange *ex, struct http_reply *reply) MUST_CHECK;

#endif
