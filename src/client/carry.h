/* SPDX-License-Identifier: Apache-2.0 */
/* carry.h - one PUT or GET of one piece of memory, whatever carries it.
 * Does:     the life of a transfer as a state machine: a window of the memory, the request with its
 *           token, the judgement of the reply, the withdrawal, another rail, plain HTTP. Who sends
 *           its requests drives it: carry_run() on the caller's thread, engine.h on none. What the
 *           processor must not touch, a GPU's memory, is registered as it is where a rail takes it
 *           and goes through a copy in host memory everywhere else, HTTP included.
 * Not here: what a reply means (reply.h); S3 calls (object.c, upload.c); the copy (stage.h).
 * Units:    bytes.
 * Owns:     nothing beyond the call, except windows that could not be withdrawn (linger.h).
 * Threads:  owner.
 * Errors:   as client.h.
 * Limits:   two tokens for each transfer, and one more when a kept connection was stale. */
#ifndef S3R_CLIENT_CARRY_H
#define S3R_CLIENT_CARRY_H

#include "client/call.h"
#include "client/reply.h"
#include "client/stage.h"

struct carry {
    struct client *client;
    struct call *call;              /* complete but for checksum, token and body */
    struct reply_question question; /* without a checksum */
    const struct client_memory *memory;
    const struct client_options *options;
    struct diag *diag;
    struct client_result *result;
};

/* From one request to the next. A state with SENT waits for the driver, which sends job->call. */
enum carry_state {
    CARRY_BEGUN,        /* devices, registration, checksum */
    CARRY_OPENING,      /* a window on the next rail */
    CARRY_TOKEN_SENT,   /* a reply, or why there is none */
    CARRY_JUDGED,       /* moved; stale: once more; another rail; HTTP */
    CARRY_LENGTH_SENT,  /* of a whole object that fills the memory: is that all of it? */
    CARRY_FALLING_BACK, /* nothing of the memory is open any more */
    CARRY_HTTP_SENT,    /* a reply, or why there is none */
    CARRY_ENDED,
};

enum carry_body { BODY_NONE, BODY_OBJECT, BODY_DOCUMENT };

/* A transfer under way. Drivers set what is theirs and read `error` at the end. */
struct carry_run {
    const struct carry *job;
    enum carry_state state;
    bool is_async; /* the driver's: bodies must not wait, see carry_unblock() */
    /* the driver's, after a sending */
    int sent_error;
    struct diag sent_diag;
    struct http_reply reply;
    int error; /* once it has ended */
    /* its own */
    struct client_memory memory;    /* the job's, or its copy */
    struct reply_question question; /* with the checksum, once there is one */
    bool is_device;                 /* nothing here may touch the memory */
    bool can_copy;                  /* a GPU's, or managed */
    struct stage stage;
    struct owner *owner;
    struct owner_window *window; /* of the attempt that runs */
    void *base;                  /* of the region that the memory lies in */
    char ip[64];                 /* of the rail; "": none */
    bool is_registered;          /* for this call only */
    bool is_unfenced, is_stale, may_retry_stale;
    int rails_left, unblock_error;
    struct reply_judgement judged;
    enum carry_body body;
    uint64_t body_off;
    int64_t started_ns;
};

/* The job outlives the run. */
void carry_begin(struct carry_run *r, const struct carry *job);
/* Does what there is to do here, which can block (checksums, copies, fences, registration), until
 * a request is to be sent (true) or all is over (false): then nothing is left to be freed. */
bool carry_next(struct carry_run *r) MUST_CHECK;
/* After HTTP_BODY_PAUSE, on a thread that may wait; the body goes on afterwards. */
void carry_unblock(struct carry_run *r);

/* All of it, on this thread. */
int carry_run(const struct carry *job) MUST_CHECK;

/* NULL, with the reason in result, when there is no device. */
struct owner *client_owner(struct client *c, struct diag *diag);

#endif
