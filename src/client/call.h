/* SPDX-License-Identifier: Apache-2.0 */
/* call.h - one signed S3 request and what its reply says as S3.
 * Does:     target, query and headers of a request; signs and sends it; reads the error document.
 * Not here: libcurl (http.h); tokens and what replies mean for them (carry.h, reply.h).
 * Units:    bytes.
 * Owns:     a call owns what it holds until call_fini(); one can be sent several times.
 * Threads:  owner.
 * Errors:   call_send(): those of http_send(). call_error(): what the server said.
 * Limits:   LIMIT_XML_REPLY_LEN_MAX of a reply's document. */
#ifndef S3R_CLIENT_CALL_H
#define S3R_CLIENT_CALL_H

#include "base/text.h"
#include "client/client.h"
#include "client/http.h"
#include "s3/headers.h"
#include "s3/uri.h"

#include <pthread.h>
#include <sys/types.h>

struct owner;
struct lingering;

struct client {
    struct http *http; /* fixed after create, as all up to `lock` */
    struct endpoint endpoint;
    char *region, *access_key, *secret_key, *session_token, *devices;
    bool is_rdma_off;
    int64_t connect_ms, patience_ms, stall_ms;
    bool (*is_cancelled)(void *arg);
    void *cancel_arg;
    _Atomic pid_t pid; /* whose connections and devices these are: client_adopt() */
    pthread_mutex_t lock;
    struct owner *owner;         /* lock until set, then fixed */
    bool is_owner_tried;         /* lock */
    int owner_error;             /* lock: why there is none, */
    struct diag owner_diag;      /* lock: in words */
    struct lingering *lingering; /* lock: windows that could not be withdrawn */
};

struct call {
    struct client *client;             /* whose request it was last */
    const char *method, *bucket, *key; /* the caller's; NULL where absent */
    struct query query;
    struct headers headers; /* those the call is about; signing adds to a copy */
    const void *body;
    uint64_t body_len;
    const char *payload_hash; /* NULL: UNSIGNED-PAYLOAD */
    /* What one sending differs in from another. */
    const char *token, *bind_ip;
    bool is_fresh; /* not on a connection that was used before */
    int64_t timeout_ms;
    int64_t deadline_ns;             /* of all sendings; 0: none */
    bool (*is_cancelled)(void *arg); /* beside the client's; may be NULL */
    void *cancel_arg;
    http_body_fn *on_body; /* NULL: the document below */
    void *on_body_arg;
    void (*on_progress)(void *arg, uint64_t bytes);
    void *progress_arg;
    struct text document; /* an error's, or what the call returns */
};

/* Each call begins with it. In a forked child the first one lets go of what is the parent's, locks
 * that threads which are not here had taken included. */
void client_adopt(struct client *c);

/* Checks the names; bucket and key may be NULL. */
int call_init(struct call *call, const char *method, const char *bucket, const char *key,
              struct diag *diag) MUST_CHECK;
void call_fini(struct call *call);
int call_add_crc64(struct call *call, uint64_t crc) MUST_CHECK;
/* Deadline and cancellation. */
void call_limit(struct call *call, const struct client_options *options);

/* One sending of a call, ready for http.h; of it and the call nothing may change meanwhile. */
struct call_request {
    struct text target;
    struct headers headers;
    struct http_request http;
};

/* S3R_E_TIMEOUT and S3R_E_CANCELLED, too: the deadline may be over by now. Always to be ended. */
int call_request_init(struct call_request *r, struct client *c, struct call *call,
                      struct diag *diag) MUST_CHECK;
void call_request_fini(struct call_request *r);
int call_send(struct client *c, struct call *call, struct diag *diag,
              struct http_reply *reply) MUST_CHECK;
/* An http_body_fn for `struct text`. */
int call_keep_document(void *text, const struct http_reply *reply, const void *bytes, size_t len);

/* The S3 code of the document, "" when it has none. */
void call_s3_code(const struct call *call, char out[64]);
/* Our code for a status of 300 or more, with the server's words in diag. */
int call_error(const struct call *call, const struct http_reply *reply, struct diag *diag);
/* Sends, and turns whatever is not 2xx into an error. */
int call_do(struct client *c, struct call *call, struct diag *diag,
            struct http_reply *reply) MUST_CHECK;

/* Fills what a reply's headers say; moves the headers into the result. */
void result_take_reply(struct client_result *result, struct http_reply *reply);

#endif
