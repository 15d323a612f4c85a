/* SPDX-License-Identifier: Apache-2.0 */
#include "client/engine.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

#define POOL_THREADS_MAX 8

struct engine {
    struct s3r_client *client;
    struct http_loop *loop;
    struct work_pool *pool;
    struct work_job first; /* does nothing: it is there to start the pool's first thread */
};

/* A transfer is in one place at a time: a job of the pool, a sending or a timer of the loop. */

static void begin(void *arg);
static void go_on(void *arg);

static bool is_flight_cancelled(void *arg)
{
    struct flight *t = arg;
    return atomic_load(&t->is_cancelled) ||
           (t->options.is_cancelled != NULL && t->options.is_cancelled(t->options.cancel_arg) != 0);
}

/* The pool has a thread from the start, and its queue no end: what is under way is limited. */
static void hand_to_pool(struct flight *t, work_fn *fn)
{
    if (work_submit(t->engine->pool, &t->work, fn, t) != 0)
        fn(t);
}

static void on_timer(void *arg)
{
    hand_to_pool(arg, begin);
}

static bool may_repeat(const struct flight *t, int error)
{
    int64_t deadline_ns = t->core_options.deadline_ns;
    bool is_late = deadline_ns != 0 &&
                   clock_mono_ns() + api_next_pause_ms(t->pause_ms) * NS_PER_MS >= deadline_ns;
    return error != 0 && t->retries_left > 0 && !is_late &&
           api_may_retry(error, t->result->core.status);
}

static void end(struct flight *t, int error)
{
    call_fini(&t->job.call);
    if (may_repeat(t, error)) {
        unsigned requests = t->result->core.requests;
        uint64_t cookie = t->result->cookie;
        api_result_reset(t->result);
        t->result->core.requests = requests;
        t->result->cookie = cookie;
        t->retries_left--;
        t->pause_ms = api_next_pause_ms(t->pause_ms);
        t->timer = (struct http_timer){.fn = on_timer, .arg = t};
        http_loop_after(t->engine->loop, t->pause_ms, &t->timer);
        return;
    }
    struct client_part part;
    if (error == 0 && t->kind == FLIGHT_PART) {
        error =
            object_part_end(&t->result->core, t->number, t->memory.len, &t->result->diag, &part);
        if (error == 0)
            error = api_upload_keep(t->upload, &part);
    }
    t->on_end(t, error);
}

/* ---- sending ---- */

/* These two come on the loop's thread. */
static void on_done(void *arg)
{
    hand_to_pool(arg, go_on);
}

static void unblock(void *arg)
{
    struct flight *t = arg;
    carry_unblock(&t->run);
    http_loop_resume(t->engine->loop, &t->sending);
}

static void on_pause(void *arg)
{
    hand_to_pool(arg, unblock);
}

static void send_request(struct flight *t)
{
    struct carry_run *r = &t->run;
    t->sending = (struct http_sending){.request = &t->request.http,
                                       .reply = &r->reply,
                                       .diag = &r->sent_diag,
                                       .on_done = on_done,
                                       .on_pause = on_pause,
                                       .arg = t};
    http_loop_send(t->engine->loop, &t->sending);
}

static void step(struct flight *t)
{
    while (carry_next(&t->run)) {
        int e = call_request_init(&t->request, t->job.carry.client, t->job.carry.call,
                                  &t->run.sent_diag);
        if (e == 0) {
            send_request(t);
            return;
        }
        call_request_fini(&t->request);
        t->run.sent_error = e;
        t->run.reply.fault = HTTP_STOPPED;
    }
    end(t, t->run.error);
}

static void go_on(void *arg)
{
    struct flight *t = arg;
    t->run.sent_error = t->sending.error;
    call_request_fini(&t->request);
    step(t);
}

static int begin_job(struct flight *t)
{
    struct client *core = t->engine->client->core;
    const struct object_part part = {.upload_id = t->upload != NULL ? t->upload->id : NULL,
                                     .number = t->number};
    t->job = (struct object_job){.carry = {.memory = &t->memory,
                                           .options = &t->core_options,
                                           .diag = &t->result->diag,
                                           .result = &t->result->core}};
    if (t->kind == FLIGHT_GET)
        return object_get_begin(&t->job, core, t->bucket, t->key, t->off);
    return object_put_begin(&t->job, core, t->bucket, t->key,
                            t->kind == FLIGHT_PART ? &part : NULL);
}

static void begin(void *arg)
{
    struct flight *t = arg;
    int e = begin_job(t);
    if (e == 0 && is_flight_cancelled(t))
        e = S3R_E_CANCELLED;
    if (e != 0 || t->job.is_needless) {
        end(t, e);
        return;
    }
    carry_begin(&t->run, &t->job.carry);
    t->run.is_async = true;
    step(t);
}

/* ---- from outside ---- */

void engine_start(struct engine *engine, struct flight *t)
{
    t->engine = engine;
    t->retries_left = t->options.retries;
    if (t->kind == FLIGHT_PUT && !api_may_retry_put(&t->core_options))
        t->retries_left = 0;
    t->core_options.is_cancelled = is_flight_cancelled;
    t->core_options.cancel_arg = t;
    hand_to_pool(t, begin);
}

void engine_look(struct engine *engine)
{
    http_loop_look(engine->loop);
}

void engine_call_after(struct engine *engine, int64_t ms, struct http_timer *timer, bool is_set)
{
    if (is_set)
        http_loop_hasten(engine->loop, ms, timer);
    else
        http_loop_after(engine->loop, ms, timer);
}

static void nothing(void *arg)
{
}

int engine_create(struct s3r_client *client, struct engine **ret_engine)
{
    struct engine *engine = calloc(1, sizeof(*engine));
    if (engine == NULL)
        return S3R_E_NOMEM;
    engine->client = client;
    int e = work_pool_create("s3r-work", POOL_THREADS_MAX, SIZE_MAX, &engine->pool);
    if (e == 0)
        e = work_submit(engine->pool, &engine->first, nothing, NULL);
    if (e == 0)
        e = http_loop_create(client->core->http, &engine->loop);
    if (e != 0) {
        engine_destroy(engine);
        return e;
    }
    *ret_engine = engine;
    return 0;
}

void engine_destroy(struct engine *engine)
{
    if (engine == NULL)
        return;
    /* All flights have ended, but a thread of the loop's may still be about to wake the pool, and
     * one of the pool's the loop: both end before either goes. */
    http_loop_stop(engine->loop);
    work_pool_destroy(engine->pool);
    http_loop_destroy(engine->loop);
    free(engine);
}
