/* SPDX-License-Identifier: Apache-2.0 */
/* http_loop.h - many requests to one endpoint on one thread.
 * Does:     sends requests as http_send() does, any number together, over connections that it
 *           keeps; tells when each has ended; calls functions after a time.
 * Not here: what blocks: callbacks come on the one thread and must not.
 * Units:    bytes, milliseconds.
 * Owns:     a sending is the caller's, untouched from its on_done on.
 * Threads:  any, but create, stop and destroy. None of it in a forked child.
 * Errors:   in the sending, as http.h; what sends a token twice is refused as there.
 * Limits:   CONNECTIONS_MAX connections are kept. */
#ifndef S3R_CLIENT_HTTP_LOOP_H
#define S3R_CLIENT_HTTP_LOOP_H

#include "client/http.h"

struct http_loop;

/* One request. The first part is the caller's; all else zeroes. */
struct http_sending {
    const struct http_request *request;
    struct http_reply *reply; /* all zeroes before */
    struct diag *diag;
    void (*on_done)(void *arg); /* `error`, reply and diag are there */
    /* The request's body function said HTTP_BODY_PAUSE; http_loop_resume() lets it go on. */
    void (*on_pause)(void *arg);
    void *arg;
    int error;
    /* the loop's */
    struct http_sending *next;
    struct http_exchange *exchange;
};

/* All zeroes before. */
struct http_timer {
    struct http_timer *next;
    int64_t due_ns;
    void (*fn)(void *arg);
    void *arg;
};

/* The endpoint's http outlives it; of that only the configuration is used. */
int http_loop_create(struct http *h, struct http_loop **ret_loop) MUST_CHECK;
/* No request and no timer is under way. Ends the thread, after which nothing is called any more. */
void http_loop_stop(struct http_loop *loop);
/* After it, and once no other thread is inside a function of the loop: one that has sent something
 * may be there longer than the request took. */
void http_loop_destroy(struct http_loop *loop);
/* on_done is called exactly once, on the loop's thread, never from in here. */
void http_loop_send(struct http_loop *loop, struct http_sending *sending);
void http_loop_resume(struct http_loop *loop, struct http_sending *sending);
/* fn(arg) once, on the loop's thread; the timer is the caller's again when that begins. */
void http_loop_after(struct http_loop *loop, int64_t ms, struct http_timer *timer);
/* After `ms` rather than later. Nothing where the call of fn is already on its way. */
void http_loop_hasten(struct http_loop *loop, int64_t ms, struct http_timer *timer);
/* Asks the requests' is_cancelled now, rather than within a second, and calls all timers. */
void http_loop_look(struct http_loop *loop);

#endif
