/* SPDX-License-Identifier: Apache-2.0 */
/* engine.h - transfers that are under way without a thread each.
 * Does:     drives the state machine of carry.h: what blocks on a few threads of a pool, requests
 *           on the one thread of an http_loop; repeats transient failures after a pause.
 * Not here: queues and their completions (queue.c); a transfer on the caller's thread (carry_run).
 * Units:    bytes, milliseconds.
 * Owns:     a flight is the queue's, from engine_start() on the engine's until its on_end.
 * Threads:  any; on_end comes on one of the engine's.
 * Errors:   in the flight's result.
 * Limits:   POOL_THREADS_MAX threads; how many are under way is the caller's to limit. */
#ifndef S3R_CLIENT_ENGINE_H
#define S3R_CLIENT_ENGINE_H

#include "base/work.h"
#include "client/api.h"
#include "client/http_loop.h"
#include "client/object.h"

struct engine;

enum flight_kind { FLIGHT_GET, FLIGHT_PUT, FLIGHT_PART };

struct flight {
    /* the submitter's */
    struct flight *next, **link;
    enum flight_kind kind;
    char *bucket, *key;
    uint64_t off; /* CLIENT_WHOLE: all of it */
    struct client_memory memory;
    struct s3r_upload *upload;
    unsigned number; /* of the part */
    struct s3r_options options;
    struct s3r_result *result;
    atomic_bool is_cancelled;
    void (*on_end)(struct flight *t, int error);
    void *arg;
    /* the engine's */
    struct engine *engine;
    struct client_options core_options;
    struct object_job job;
    struct carry_run run;
    struct call_request request;
    struct http_sending sending;
    struct http_timer timer;
    struct work_job work;
    int64_t pause_ms;
    unsigned retries_left;
};

int engine_create(struct s3r_client *client, struct engine **ret_engine) MUST_CHECK;
/* Nothing is under way. */
void engine_destroy(struct engine *engine);
/* on_end is called exactly once, never from in here. */
void engine_start(struct engine *engine, struct flight *t);
/* Transfers whose is_cancelled was set end soon, and all timers are called. */
void engine_look(struct engine *engine);
/* timer->fn once, on a thread that must not wait, after `ms`; with is_set, of a timer that was
 * given before: sooner, unless its call is already on its way. */
void engine_call_after(struct engine *engine, int64_t ms, struct http_timer *timer, bool is_set);

#endif
