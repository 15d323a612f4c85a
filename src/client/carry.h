/* SPDX-License-Identifier: Apache-2.0 */
/* carry.h - one PUT or GET of one piece of memory, whatever carries it.
 * Does:     the life of a transfer: a window of the memory, the request with its token, the
 *           judgement of the reply, the withdrawal, another rail, plain HTTP.
 * Not here: what a reply means (reply.h); S3 calls (object.c, upload.c).
 * Units:    bytes.
 * Owns:     nothing beyond the call, except windows that could not be withdrawn (the client's).
 * Threads:  owner.
 * Errors:   as client.h.
 * Limits:   two tokens for each transfer, and one more when a kept connection was stale. */
#ifndef S3R_CLIENT_CARRY_H
#define S3R_CLIENT_CARRY_H

#include "client/call.h"
#include "client/reply.h"

struct carry {
    struct client *client;
    struct call *call; /* complete but for token and body */
    struct reply_question question;
    const struct client_memory *memory;
    const struct client_options *options;
    struct diag *diag;
    struct client_result *result;
};

int carry_run(const struct carry *job) MUST_CHECK;

/* NULL, with the reason in result, when there is no device. */
struct owner *client_owner(struct client *c, struct diag *diag);
/* Tries once more to end the windows that lingered; true when none is left. */
bool client_end_lingering(struct client *c);
/* The windows stay as they are; nobody asks for them any more. */
void client_forget_lingering(struct client *c);

#endif
