/* SPDX-License-Identifier: Apache-2.0 */
/* request.h - one S3 request from its head to its reply.
 * Does:     the order of answers: framing, signature, signed token, permission, the operation;
 *           moves between event thread and workers; collects the body; composes the reply.
 * Not here: what each operation does (ops_*.c); HTTP (http.h).
 * Units:    bytes.
 * Owns:     everything the fields point to, until request_destroy().
 * Threads:  event thread or one worker at a time; the fields under `lock` say who.
 * Errors:   an operation's code becomes an S3 error document.
 * Limits:   base/limits.h.
 *
 * The life of a request. On the right: who wakes it.
 *
 *   NEW ---------> PREPARING --> BODY --> FINISHING --> REPLY      PREPARING: the worker
 *    |  (no body)      |           ^|         |           ^        BODY: bytes; the worker, when
 *    +---------------->|           +| (full)  +-----------+              both buffers are full
 *    | error, cached   +-- refused -----------------------^        FINISHING: the worker
 *    +----------------------------------------------------^
 */
#ifndef S3R_SERVER_REQUEST_H
#define S3R_SERVER_REQUEST_H

#include "rdma/token.h"
#include "s3/headers.h"
#include "s3/payload.h"
#include "s3/sigv4.h"
#include "s3/uri.h"
#include "server/server.h"

#include <pthread.h>

struct request;

enum body_kind {
    BODY_NONE,   /* one is refused */
    BODY_MEMORY, /* an XML document: request.document */
    BODY_OBJECT, /* goes to request.writer */
};

/* One S3 operation: a row of ops.c. */
struct op {
    const char *name; /* "GetObject" */
    const char *method;
    bool needs_bucket, needs_key;
    /* Chosen by these query parameters: all that are not NULL must be there. */
    const char *query[2];
    /* ... and this header. */
    const char *header;
    enum body_kind body;
    enum pool pool;
    bool has_rdma;
    /* On a worker before the body comes: what can be refused is refused here. May be NULL. */
    int (*prepare)(struct request *r);
    /* On a worker when the body is complete and verified: composes the reply. */
    int (*run)(struct request *r);
    /* On the event thread before anything else, for what never blocks: 0 when it replied,
     * S3R_E_TIMEOUT when it would block; other codes are the answer. May be NULL. */
    int (*try_now)(struct request *r);
};

enum request_state { REQ_NEW, REQ_PREPARING, REQ_BODY, REQ_FINISHING, REQ_REPLY };

struct body_buffer {
    char *bytes; /* the block's, or its own when `block` is NULL */
    struct buffer *block;
    size_t len, cap;
};

/* What goes out: text, `block_len` bytes of a block, or `stream_len` bytes from request.stream. */
struct reply {
    unsigned status;
    struct headers headers;
    struct text body;
    struct buffer *block;
    size_t block_len;
    bool is_stream, is_close;
    uint64_t stream_len;
};

struct request {
    struct server *server;
    struct http_exchange *ex;
    const struct op *op;
    char id[17];
    int64_t begun_ns, deadline_ns; /* of the RDMA transfer, if it comes to one */
    struct query query;
    struct target target;
    struct store_key key; /* borrows from target */
    struct sig_auth auth;
    struct sig_chain chain;
    struct reply reply;
    int error; /* 0: the operation goes well */
    struct diag diag;

    enum request_state state;
    bool is_body_awaited; /* over HTTP */
    struct payload *payload;
    struct payload_result payload_result;
    struct text document;
    struct store_writer *writer;
    struct store_lease *lease;
    struct object_stream *stream;

    const char *token_text; /* NULL: no token, or the operation ignores it */
    struct token token;
    uint64_t owner; /* of the token; 0: no token */
    bool is_rdma;   /* the bytes went by RDMA */
    uint64_t bytes_in, bytes_out;

    void *op_state;
    void (*op_state_free)(void *op_state);

    pthread_mutex_t lock;
    /* lock `lock` */
    bool is_working, is_suspended, is_detached;
    struct work_job job;
    void (*work)(struct request *r);
    /* the worker drains one buffer while the event thread fills the other */
    struct body_buffer buffers[2];
    int filling;
    uint64_t drained;
};

extern const struct http_app request_app;

/* A row of the request's headers (lower-case name), or NULL. */
const char *request_header(const struct request *r, const char *name);
const char *request_query(const struct request *r, const char *name);
/* HEAD has no body; some replies depend on it. */
bool request_is_head(const struct request *r);
/* Is the peer gone, or the server told to stop at once? For long work. */
bool request_is_cancelled(void *request);

/* The steps before an operation is known, in this order. */
int request_parse_target(struct request *r) MUST_CHECK;
int request_authenticate(struct request *r) MUST_CHECK;
int request_authorise(struct request *r) MUST_CHECK;

/* ---- work that blocks ---- */

/* Runs work(r) on a pool; one at a time. Its end resumes the request if request_wait() suspended
 * it. Event thread only. */
int request_work(struct request *r, enum pool pool, void (*work)(struct request *r)) MUST_CHECK;
/* Suspends the exchange if work is under way: true, and the caller waits. Event thread only. */
bool request_wait(struct request *r) MUST_CHECK;

/* ---- composing a reply ---- */

int reply_header(struct request *r, const char *name, const char *value) MUST_CHECK;
int reply_header_u64(struct request *r, const char *name, uint64_t value) MUST_CHECK;
/* With quotes. */
int reply_etag(struct request *r, const char *etag) MUST_CHECK;
/* Status 200 and the content type; the document is then written to r->reply.body. */
int reply_xml(struct request *r) MUST_CHECK;
/* Status, no body. */
void reply_empty(struct request *r, unsigned status);

#endif
