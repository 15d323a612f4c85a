/* SPDX-License-Identifier: Apache-2.0 */
#include "client/http_loop.h"

#include "base/clock.h"
#include "client/http_wire.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONNECTIONS_MAX 256
#define WAIT_MS_MAX 1000

/* What a sending needs while it is under way; kept with its handle afterwards. */
struct http_exchange {
    struct http_exchange *next, **link;
    struct wire wire;
    struct exchange x;
    struct curl_slist *headers;
    struct http_sending *sending;
    bool is_held;     /* its body waits for http_loop_resume() */
    bool is_finished; /* and it ended meanwhile */
};

struct http_loop {
    struct http *http; /* fixed after create */
    CURLM *multi;
    pthread_t thread;
    pthread_mutex_t lock;
    struct http_sending *fresh, **last_fresh; /* lock */
    struct http_sending *resumed;             /* lock */
    struct http_timer *timers;                /* lock */
    bool is_stopping, is_to_look;             /* lock */
    /* the thread's */
    struct http_exchange *active, *idle;
    size_t idle_count;
};

/* ---- exchanges ---- */

static struct http_exchange *exchange_take(struct http_loop *loop)
{
    struct http_exchange *k = loop->idle;
    if (k != NULL) {
        loop->idle = k->next;
        loop->idle_count--;
        return k;
    }
    k = calloc(1, sizeof(*k));
    if (k != NULL && (k->wire.curl = curl_easy_init()) == NULL) {
        free(k);
        return NULL;
    }
    return k;
}

static void exchange_give(struct http_loop *loop, struct http_exchange *k)
{
    curl_slist_free_all(k->headers);
    k->headers = NULL;
    if (loop->idle_count >= IDLE_MAX) {
        curl_easy_cleanup(k->wire.curl);
        free(k);
        return;
    }
    k->next = loop->idle;
    loop->idle = k;
    loop->idle_count++;
}

static void finish(struct http_sending *s, int error)
{
    s->error = error;
    s->on_done(s->arg);
}

/* The sending is its caller's again, unless somebody is to resume it first. */
static void exchange_end(struct http_loop *loop, struct http_exchange *k)
{
    struct http_sending *s = k->sending;
    if (k->is_held) {
        k->is_finished = true;
        return;
    }
    s->exchange = NULL;
    *k->link = k->next;
    if (k->next != NULL)
        k->next->link = k->link;
    exchange_give(loop, k);
    s->on_done(s->arg);
}

static void exchange_judge(struct http_loop *loop, struct http_exchange *k, CURLcode code)
{
    struct http_sending *s = k->sending;
    s->error = wire_judge(loop->http, &k->wire, &k->x, code, s->diag);
    curl_multi_remove_handle(loop->multi, k->wire.curl);
    exchange_end(loop, k);
}

static int exchange_set_up(struct http_loop *loop, struct http_exchange *k, struct http_sending *s)
{
    const struct http_request *q = s->request;
    CURL *c = k->wire.curl;
    k->x = (struct exchange){.request = q, .reply = s->reply};
    k->sending = s;
    k->is_held = k->is_finished = false;
    snprintf(k->wire.bind_ip, sizeof(k->wire.bind_ip), "%s", q->bind_ip != NULL ? q->bind_ip : "");
    int e = wire_set_up(loop->http, &k->wire, &k->x, &k->headers);
    if (e != 0)
        return e;
    curl_easy_setopt(c, CURLOPT_PRIVATE, k);
    curl_easy_setopt(c, CURLOPT_FRESH_CONNECT, q->is_fresh ? 1L : 0L);
    return curl_multi_add_handle(loop->multi, c) == CURLM_OK ? 0 : S3R_E_NOMEM;
}

static void start(struct http_loop *loop, struct http_sending *s)
{
    struct http_exchange *k = exchange_take(loop);
    int e = k != NULL ? exchange_set_up(loop, k, s) : S3R_E_NOMEM;
    if (e != 0) {
        if (k != NULL)
            exchange_give(loop, k);
        s->reply->fault = HTTP_STOPPED;
        finish(s, e);
        return;
    }
    s->exchange = k;
    k->next = loop->active;
    k->link = &loop->active;
    if (k->next != NULL)
        k->next->link = &k->next;
    loop->active = k;
}

/* ---- the thread ---- */

static void look(struct http_loop *loop)
{
    for (struct http_exchange *k = loop->active, *next; k != NULL; k = next) {
        next = k->next;
        const struct http_request *q = k->x.request;
        if (k->is_finished || q->is_cancelled == NULL || !q->is_cancelled(q->cancel_arg))
            continue;
        k->x.error = S3R_E_CANCELLED;
        exchange_judge(loop, k, CURLE_ABORTED_BY_CALLBACK);
    }
}

static void resume(struct http_loop *loop, struct http_sending *s)
{
    struct http_exchange *k = s->exchange;
    k->is_held = k->x.is_paused = false;
    if (k->is_finished)
        exchange_end(loop, k);
    else
        curl_easy_pause(k->wire.curl, CURLPAUSE_CONT);
}

static void run_timers(struct http_loop *loop, bool is_all)
{
    int64_t now_ns = clock_mono_ns();
    struct http_timer *due = NULL;
    pthread_mutex_lock(&loop->lock);
    for (struct http_timer **at = &loop->timers; *at != NULL;) {
        struct http_timer *t = *at;
        if (!is_all && t->due_ns > now_ns) {
            at = &t->next;
            continue;
        }
        *at = t->next;
        t->next = due;
        due = t;
    }
    pthread_mutex_unlock(&loop->lock);
    while (due != NULL) {
        struct http_timer *t = due;
        due = t->next;
        t->fn(t->arg);
    }
}

/* What others asked for; false: to end. */
static bool take_orders(struct http_loop *loop)
{
    pthread_mutex_lock(&loop->lock);
    struct http_sending *fresh = loop->fresh, *resumed = loop->resumed;
    bool is_to_look = loop->is_to_look, is_stopping = loop->is_stopping;
    loop->fresh = loop->resumed = NULL;
    loop->last_fresh = &loop->fresh;
    loop->is_to_look = false;
    pthread_mutex_unlock(&loop->lock);
    while (resumed != NULL) {
        struct http_sending *s = resumed;
        resumed = s->next;
        resume(loop, s);
    }
    while (fresh != NULL) {
        struct http_sending *s = fresh;
        fresh = s->next;
        start(loop, s);
    }
    if (is_to_look)
        look(loop);
    run_timers(loop, is_to_look);
    return !is_stopping || loop->active != NULL;
}

static void tell_paused(struct http_loop *loop)
{
    for (struct http_exchange *k = loop->active; k != NULL; k = k->next)
        if (k->x.is_paused && !k->is_held) {
            k->is_held = true;
            k->sending->on_pause(k->sending->arg);
        }
}

static void take_finished(struct http_loop *loop)
{
    int left;
    for (CURLMsg *m; (m = curl_multi_info_read(loop->multi, &left)) != NULL;) {
        char *k = NULL;
        CURLcode code = m->data.result;
        curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &k);
        exchange_judge(loop, (struct http_exchange *)(void *)k, code);
    }
}

static int wait_ms(struct http_loop *loop)
{
    int64_t ms = WAIT_MS_MAX, now_ns = clock_mono_ns();
    pthread_mutex_lock(&loop->lock);
    for (struct http_timer *t = loop->timers; t != NULL; t = t->next) {
        int64_t left_ms = (t->due_ns - now_ns + NS_PER_MS - 1) / NS_PER_MS;
        ms = left_ms < ms ? left_ms : ms;
    }
    pthread_mutex_unlock(&loop->lock);
    return ms > 0 ? (int)ms : 0;
}

static void *loop_main(void *arg)
{
    struct http_loop *loop = arg;
    while (take_orders(loop)) {
        int running;
        curl_multi_perform(loop->multi, &running);
        tell_paused(loop);
        take_finished(loop);
        curl_multi_poll(loop->multi, NULL, 0, wait_ms(loop), NULL);
    }
    return NULL;
}

/* ---- from outside ---- */

/* A thread of the library's must not take the program's signals. */
static int start_thread(struct http_loop *loop)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&loop->thread, NULL, loop_main, loop);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed == 0)
        pthread_setname_np(loop->thread, "s3r-http");
    return failed == 0 ? 0 : S3R_E_NOMEM;
}

static void loop_free(struct http_loop *loop)
{
    while (loop->idle != NULL) {
        struct http_exchange *k = loop->idle;
        loop->idle = k->next;
        curl_easy_cleanup(k->wire.curl);
        free(k);
    }
    curl_multi_cleanup(loop->multi);
    pthread_mutex_destroy(&loop->lock);
    free(loop);
}

int http_loop_create(struct http *h, struct http_loop **ret_loop)
{
    struct http_loop *loop = calloc(1, sizeof(*loop));
    if (loop == NULL)
        return S3R_E_NOMEM;
    loop->http = h;
    loop->last_fresh = &loop->fresh;
    pthread_mutex_init(&loop->lock, NULL);
    loop->multi = curl_multi_init();
    if (loop->multi != NULL) {
        curl_multi_setopt(loop->multi, CURLMOPT_MAXCONNECTS, (long)CONNECTIONS_MAX);
        curl_multi_setopt(loop->multi, CURLMOPT_PIPELINING, (long)CURLPIPE_NOTHING);
    }
    if (loop->multi == NULL || start_thread(loop) != 0) {
        loop_free(loop);
        return S3R_E_NOMEM;
    }
    *ret_loop = loop;
    return 0;
}

void http_loop_stop(struct http_loop *loop)
{
    if (loop == NULL)
        return;
    pthread_mutex_lock(&loop->lock);
    loop->is_stopping = true;
    pthread_mutex_unlock(&loop->lock);
    curl_multi_wakeup(loop->multi);
    pthread_join(loop->thread, NULL);
}

void http_loop_destroy(struct http_loop *loop)
{
    if (loop != NULL)
        loop_free(loop);
}

void http_loop_send(struct http_loop *loop, struct http_sending *sending)
{
    pthread_mutex_lock(&loop->lock);
    sending->next = NULL;
    *loop->last_fresh = sending;
    loop->last_fresh = &sending->next;
    pthread_mutex_unlock(&loop->lock);
    curl_multi_wakeup(loop->multi);
}

void http_loop_resume(struct http_loop *loop, struct http_sending *sending)
{
    pthread_mutex_lock(&loop->lock);
    sending->next = loop->resumed;
    loop->resumed = sending;
    pthread_mutex_unlock(&loop->lock);
    curl_multi_wakeup(loop->multi);
}

void http_loop_after(struct http_loop *loop, int64_t ms, struct http_timer *timer)
{
    timer->due_ns = clock_mono_ns() + ms * NS_PER_MS;
    pthread_mutex_lock(&loop->lock);
    timer->next = loop->timers;
    loop->timers = timer;
    pthread_mutex_unlock(&loop->lock);
    curl_multi_wakeup(loop->multi);
}

void http_loop_hasten(struct http_loop *loop, int64_t ms, struct http_timer *timer)
{
    int64_t due_ns = clock_mono_ns() + ms * NS_PER_MS;
    pthread_mutex_lock(&loop->lock);
    for (struct http_timer *t = loop->timers; t != NULL; t = t->next)
        if (t == timer && due_ns < t->due_ns)
            t->due_ns = due_ns;
    pthread_mutex_unlock(&loop->lock);
    curl_multi_wakeup(loop->multi);
}

void http_loop_look(struct http_loop *loop)
{
    pthread_mutex_lock(&loop->lock);
    loop->is_to_look = true;
    pthread_mutex_unlock(&loop->lock);
    curl_multi_wakeup(loop->multi);
}
