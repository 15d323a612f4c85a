/* SPDX-License-Identifier: Apache-2.0 */
/* http.h - HTTP/1.1 requests to one endpoint, over libcurl.
 * Does:     one blocking request at a time on each of a pool of kept connections; a request that
 *           must not be sent twice is not; bodies go where the caller says, piece by piece.
 * Not here: S3 (call.h); what a reply means for RDMA (reply.h).
 * Units:    bytes, milliseconds.
 * Owns:     a reply owns its headers until http_reply_fini(); bodies are the caller's memory.
 * Threads:  any for http_send; owner for create and destroy.
 * Errors:   S3R_E_HTTP, S3R_E_TIMEOUT, S3R_E_BAD_REPLY, S3R_E_CANCELLED, S3R_E_NOMEM, and what the
 *           body function returned. Any status code is a success here.
 * Limits:   headers: s3/headers.h. No redirect is followed; no proxy is used but one given here. */
#ifndef S3R_CLIENT_HTTP_H
#define S3R_CLIENT_HTTP_H

#include "base/attr.h"
#include "base/error.h"
#include "client/endpoint.h"
#include "s3/headers.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct http;

struct http_config {
    struct endpoint endpoint;
    const char *ca_file;     /* NULL: the system's */
    bool is_peer_unverified; /* TLS without a look at the server's certificate */
    const char *proxy;       /* NULL: none, whatever the environment says */
    int64_t connect_ms;
    int64_t stall_ms; /* a request without an end of its own ends when nothing moves for so long */
};

int http_create(const struct http_config *config, struct diag *diag,
                struct http **ret_http) MUST_CHECK;
/* No request is running. */
void http_destroy(struct http *h);

/* In a forked child, before any other call: the connections are the parent's, which goes on reading
 * from them. */
void http_forget_connections(struct http *h);

/* How far a request came that has no complete reply. */
enum http_fault {
    HTTP_NO_FAULT,
    HTTP_UNSENT, /* nothing was sent: no connection */
    HTTP_STALE,  /* a kept connection was closed by the peer before a byte of the reply */
    HTTP_LOST,   /* the connection broke afterwards */
    HTTP_SILENT, /* the time was over */
    HTTP_GARBLED,
    HTTP_STOPPED, /* by the body function or by a cancellation */
};

/* All zeroes before the request. */
struct http_reply {
    int status; /* 0: none arrived */
    struct headers headers;
    bool is_chunked, has_length;
    uint64_t content_len; /* where has_length */
    uint64_t body_len;    /* arrived */
    enum http_fault fault;
};

void http_reply_fini(struct http_reply *r);

/* Of a body function that cannot take the piece yet; only in a loop (http_loop.h). */
#define HTTP_BODY_PAUSE 1

/* A piece of the reply's body; status and headers are complete. An error stops the request. */
typedef int http_body_fn(void *arg, const struct http_reply *reply, const void *bytes, size_t len);

struct http_request {
    const char *method, *target; /* raw: "/b/k?x=1" */
    const struct headers *headers;
    const void *body; /* NULL: none; Content-Length is sent with PUT and POST all the same */
    uint64_t body_len;
    const char *bind_ip; /* NULL: any local address */
    bool is_once;        /* on no account sent twice: it carries a token */
    bool is_fresh;       /* on a new connection */
    int64_t timeout_ms;  /* for all of it; 0: see stall_ms */
    int64_t deadline_ms; /* likewise, beside stall_ms; 0: none */
    http_body_fn *on_body;
    void *on_body_arg;
    bool (*is_cancelled)(void *arg); /* may be NULL */
    void *cancel_arg;
    void (*on_progress)(void *arg, uint64_t body_bytes); /* may be NULL */
    void *progress_arg;
};

/* `reply` holds whatever arrived, also after an error. */
int http_send(struct http *h, const struct http_request *request, struct diag *diag,
              struct http_reply *reply) MUST_CHECK;

#endif
