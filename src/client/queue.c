/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/num.h"
#include "client/engine.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define DEPTH 1024
#define DEPTH_MAX (1024 * 1024)
#define IN_FLIGHT 16
#define IN_FLIGHT_MAX 256

/* Transfers in the order of submission. */
struct line {
    struct flight *first, **last;
};

struct s3r_queue {
    struct s3r_client *client; /* fixed after create */
    struct engine *engine;
    unsigned depth, in_flight;
    int fd; /* readable while something is done */
    pid_t pid;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    /* lock */
    struct line waiting, done;
    struct flight *running;
    unsigned running_count, pending_count;
    struct http_timer timer; /* for the deadlines of those that wait */
    int64_t timer_ns;        /* when it is due; 0: on_timer is not to come */
};

/* ---- transfers ---- */

static void flight_free(struct flight *t)
{
    if (t == NULL)
        return;
    free(t->bucket);
    free(t->key);
    api_options_fini(&t->options);
    s3r_result_free(t->result);
    free(t);
}

static void line_add(struct line *line, struct flight *t)
{
    t->next = NULL;
    *line->last = t;
    line->last = &t->next;
}

static struct flight *line_take(struct line *line)
{
    struct flight *t = line->first;
    if (t == NULL)
        return NULL;
    line->first = t->next;
    if (line->first == NULL)
        line->last = &line->first;
    return t;
}

/* Takes `*at` out of the middle. */
static struct flight *line_pull(struct line *line, struct flight **at)
{
    struct flight *t = *at;
    *at = t->next;
    if (line->last == &t->next)
        line->last = at;
    return t;
}

/* ---- the life of a submitted one; all with the lock held ---- */

static void set_running(struct s3r_queue *q, struct flight *t)
{
    t->next = q->running;
    t->link = &q->running;
    if (t->next != NULL)
        t->next->link = &t->next;
    q->running = t;
    q->running_count++;
}

static void unset_running(struct s3r_queue *q, struct flight *t)
{
    *t->link = t->next;
    if (t->next != NULL)
        t->next->link = t->link;
    q->running_count--;
}

static void set_done(struct s3r_queue *q, struct flight *t, int error)
{
    api_result_finish(t->result, error);
    if (q->done.first == NULL)
        (void)eventfd_write(q->fd, 1);
    line_add(&q->done, t);
    pthread_cond_broadcast(&q->changed);
}

static struct flight *next_to_run(struct s3r_queue *q)
{
    struct flight *t = q->running_count < q->in_flight ? line_take(&q->waiting) : NULL;
    if (t != NULL)
        set_running(q, t);
    return t;
}

/* From the engine. */
static void on_end(struct flight *t, int error)
{
    struct s3r_queue *q = t->arg;
    pthread_mutex_lock(&q->lock);
    unset_running(q, t);
    struct flight *next = next_to_run(q);
    set_done(q, t, error);
    pthread_mutex_unlock(&q->lock);
    /* The queue cannot go while one of its transfers runs. */
    if (next != NULL)
        engine_start(q->engine, next);
}

/* ---- deadlines of those that wait; with the lock held ---- */

static void on_timer(void *arg);

static void watch(struct s3r_queue *q, int64_t deadline_ns)
{
    bool is_set = q->timer_ns != 0;
    if (deadline_ns == 0 || (is_set && q->timer_ns <= deadline_ns))
        return;
    int64_t left_ns = deadline_ns - clock_mono_ns();
    int64_t left_ms = left_ns > 0 ? (left_ns + NS_PER_MS - 1) / NS_PER_MS : 0;
    q->timer_ns = deadline_ns;
    if (!is_set)
        q->timer = (struct http_timer){.fn = on_timer, .arg = q};
    engine_call_after(q->engine, left_ms, &q->timer, is_set);
}

/* The first deadline that is still to come, 0: none. */
static int64_t end_late_ones(struct s3r_queue *q)
{
    int64_t now_ns = clock_mono_ns(), first_ns = 0;
    for (struct flight **at = &q->waiting.first; *at != NULL;) {
        struct flight *t = *at;
        int64_t deadline_ns = t->core_options.deadline_ns;
        if (deadline_ns != 0 && deadline_ns <= now_ns) {
            int e = diag_fail(&t->result->diag, S3R_E_TIMEOUT,
                              "the transfer's deadline came before its turn");
            set_done(q, line_pull(&q->waiting, at), e);
            continue;
        }
        if (deadline_ns != 0 && (first_ns == 0 || deadline_ns < first_ns))
            first_ns = deadline_ns;
        at = &t->next;
    }
    return first_ns;
}

/* From the engine, perhaps too early. */
static void on_timer(void *arg)
{
    struct s3r_queue *q = arg;
    pthread_mutex_lock(&q->lock);
    q->timer_ns = 0;
    watch(q, end_late_ones(q));
    pthread_cond_broadcast(&q->changed);
    pthread_mutex_unlock(&q->lock);
}

/* ---- queues ---- */

static int engine_of(struct s3r_client *client, struct engine **ret_engine)
{
    int e = 0;
    api_adopt(client);
    pthread_mutex_lock(&client->lock);
    if (client->engine == NULL)
        e = engine_create(client, &client->engine);
    *ret_engine = client->engine;
    pthread_mutex_unlock(&client->lock);
    return e;
}

static int queue_open(struct s3r_queue *q, struct diag *diag)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&q->changed, &attr);
    pthread_condattr_destroy(&attr);
    pthread_mutex_init(&q->lock, NULL);
    q->waiting.last = &q->waiting.first;
    q->done.last = &q->done.first;
    q->pid = getpid();
    q->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (q->fd < 0)
        return diag_fail(diag, S3R_E_INTERNAL, "no eventfd: %s", errno_text(errno));
    return engine_of(q->client, &q->engine);
}

static void queue_close(struct s3r_queue *q)
{
    if (q->fd >= 0)
        close(q->fd);
    free(q);
}

int s3r_queue_new(struct s3r_client *client, unsigned depth, unsigned in_flight,
                  struct s3r_result *result, struct s3r_queue **ret_queue)
{
    struct frame f;
    frame_begin(&f, NULL, result);
    if (depth > DEPTH_MAX || in_flight > IN_FLIGHT_MAX)
        return frame_return(&f, diag_fail(f.diag, S3R_E_INVALID_ARGUMENT,
                                          "a queue takes at most %d transfers, %d in flight",
                                          DEPTH_MAX, IN_FLIGHT_MAX));
    struct s3r_queue *q = calloc(1, sizeof(*q));
    if (q == NULL)
        return frame_return(&f, S3R_E_NOMEM);
    q->client = client;
    q->depth = depth > 0 ? depth : DEPTH;
    q->in_flight = in_flight > 0 ? in_flight : IN_FLIGHT;
    int e = queue_open(q, f.diag);
    if (e == 0)
        *ret_queue = q;
    else
        queue_close(q);
    return frame_return(&f, e);
}

static void drop_line(struct line *line)
{
    for (struct flight *t; (t = line_take(line)) != NULL;)
        flight_free(t);
}

void s3r_queue_free(struct s3r_queue *queue)
{
    if (queue == NULL)
        return;
    if (queue->pid != getpid()) { /* what runs is the parent's, and so is the lock */
        queue_close(queue);
        return;
    }
    s3r_queue_cancel_all(queue);
    pthread_mutex_lock(&queue->lock);
    if (queue->timer_ns != 0)
        engine_look(queue->engine); /* calls it now */
    while (queue->running_count > 0 || queue->timer_ns != 0)
        pthread_cond_wait(&queue->changed, &queue->lock);
    pthread_mutex_unlock(&queue->lock);
    drop_line(&queue->waiting);
    drop_line(&queue->done);
    pthread_cond_destroy(&queue->changed);
    pthread_mutex_destroy(&queue->lock);
    queue_close(queue);
}

int s3r_queue_fd(const struct s3r_queue *queue)
{
    return queue->fd;
}

unsigned s3r_queue_pending(const struct s3r_queue *queue)
{
    struct s3r_queue *q = (struct s3r_queue *)queue;
    pthread_mutex_lock(&q->lock);
    unsigned count = q->pending_count;
    pthread_mutex_unlock(&q->lock);
    return count;
}

/* ---- polling ---- */

static int take_done(struct s3r_queue *q, struct s3r_result **results, int max)
{
    int count = 0;
    while (count < max && q->done.first != NULL) {
        struct flight *t = line_take(&q->done);
        results[count++] = STEAL(t->result);
        flight_free(t);
        q->pending_count--;
    }
    eventfd_t value;
    if (count > 0 && q->done.first == NULL)
        (void)eventfd_read(q->fd, &value);
    return count;
}

int s3r_queue_poll(struct s3r_queue *queue, struct s3r_result **results, int max,
                   int64_t timeout_ms)
{
    if (queue->pid != getpid() || max <= 0)
        return 0;
    bool is_endless = timeout_ms < 0 || timeout_ms > INT_MAX;
    struct timespec until =
        clock_timespec(clock_mono_ns() + (is_endless ? 0 : timeout_ms * NS_PER_MS));
    pthread_mutex_lock(&queue->lock);
    int error = timeout_ms == 0 ? ETIMEDOUT : 0;
    while (queue->done.first == NULL && queue->pending_count > 0 && error == 0) {
        if (is_endless)
            error = pthread_cond_wait(&queue->changed, &queue->lock);
        else
            error = pthread_cond_timedwait(&queue->changed, &queue->lock, &until);
    }
    int count = take_done(queue, results, max);
    pthread_mutex_unlock(&queue->lock);
    return count;
}

/* ---- cancelling ---- */

static unsigned cancel(struct s3r_queue *q, bool is_all, uint64_t cookie)
{
    unsigned count = 0;
    if (q->pid != getpid())
        return 0;
    pthread_mutex_lock(&q->lock);
    for (struct flight *t = q->running; t != NULL; t = t->next)
        if (is_all || t->result->cookie == cookie) {
            atomic_store(&t->is_cancelled, true);
            count++;
        }
    bool is_running = count > 0;
    for (struct flight **at = &q->waiting.first; *at != NULL;) {
        if (!is_all && (*at)->result->cookie != cookie) {
            at = &(*at)->next;
            continue;
        }
        set_done(q, line_pull(&q->waiting, at), S3R_E_CANCELLED);
        count++;
    }
    pthread_mutex_unlock(&q->lock);
    if (is_running)
        engine_look(q->engine);
    return count;
}

unsigned s3r_queue_cancel(struct s3r_queue *queue, uint64_t cookie)
{
    return cancel(queue, false, cookie);
}

unsigned s3r_queue_cancel_all(struct s3r_queue *queue)
{
    return cancel(queue, true, 0);
}

/* ---- submitting ---- */

/* What is the caller's to say of a transfer. */
struct order {
    enum flight_kind kind;
    const char *bucket, *key;
    uint64_t off;
    void *ptr;
    size_t len;
    struct s3r_upload *upload;
    unsigned number;
};

static int check(const struct s3r_queue *q, const struct order *o)
{
    if (o->bucket == NULL || o->key == NULL || (o->ptr == NULL && o->len > 0) || q->pid != getpid())
        return S3R_E_INVALID_ARGUMENT;
    return o->len > LIMIT_DC_WINDOW_LEN_MAX ? S3R_E_ENTITY_TOO_LARGE : 0;
}

static struct flight *flight_new(struct s3r_queue *q, const struct order *o,
                                 const struct s3r_options *options, uint64_t cookie)
{
    struct flight *t = calloc(1, sizeof(*t));
    if (t == NULL)
        return NULL;
    t->kind = o->kind;
    t->off = o->off;
    t->upload = o->upload;
    t->number = o->number;
    t->on_end = on_end;
    t->arg = q;
    t->bucket = strdup(o->bucket);
    t->key = strdup(o->key);
    t->result = s3r_result_new();
    int e = api_options_copy(options, &t->options);
    if (t->bucket == NULL || t->key == NULL || t->result == NULL || e != 0) {
        flight_free(t);
        return NULL;
    }
    t->result->cookie = cookie;
    t->core_options = api_options(&t->options);
    t->memory = api_memory(q->client, o->ptr, o->len);
    return t;
}

static int submit(struct s3r_queue *q, const struct order *o, const struct s3r_options *options,
                  uint64_t cookie)
{
    int e = check(q, o);
    struct flight *t = e == 0 ? flight_new(q, o, options, cookie) : NULL;
    if (t == NULL)
        return api_error(e != 0 ? e : S3R_E_NOMEM, 0);
    pthread_mutex_lock(&q->lock);
    if (q->pending_count >= q->depth) {
        pthread_mutex_unlock(&q->lock);
        flight_free(t);
        return S3R_ERROR_BUSY;
    }
    q->pending_count++;
    line_add(&q->waiting, t);
    struct flight *next = next_to_run(q);
    if (next != t)
        watch(q, t->core_options.deadline_ns);
    pthread_mutex_unlock(&q->lock);
    if (next != NULL)
        engine_start(q->engine, next);
    return S3R_OK;
}

int s3r_submit_put(struct s3r_queue *queue, const char *bucket, const char *key, const void *ptr,
                   size_t len, const struct s3r_options *options, uint64_t cookie)
{
    const struct order o = {
        .kind = FLIGHT_PUT, .bucket = bucket, .key = key, .ptr = (void *)ptr, .len = len};
    return submit(queue, &o, options, cookie);
}

int s3r_submit_get(struct s3r_queue *queue, const char *bucket, const char *key, void *ptr,
                   size_t size, const struct s3r_options *options, uint64_t cookie)
{
    const struct order o = {.kind = FLIGHT_GET,
                            .bucket = bucket,
                            .key = key,
                            .off = CLIENT_WHOLE,
                            .ptr = ptr,
                            .len = size};
    return submit(queue, &o, options, cookie);
}

int s3r_submit_get_range(struct s3r_queue *queue, const char *bucket, const char *key, uint64_t off,
                         void *ptr, size_t len, const struct s3r_options *options, uint64_t cookie)
{
    const struct order o = {.kind = FLIGHT_GET,
                            .bucket = bucket,
                            .key = key,
                            .off = off == CLIENT_WHOLE ? off - 1 : off,
                            .ptr = ptr,
                            .len = len};
    return submit(queue, &o, options, cookie);
}

int s3r_submit_part(struct s3r_queue *queue, struct s3r_upload *upload, unsigned number,
                    const void *ptr, size_t len, const struct s3r_options *options, uint64_t cookie)
{
    if (upload->client != queue->client)
        return S3R_ERROR_INVALID_ARGUMENT;
    const struct order o = {.kind = FLIGHT_PART,
                            .bucket = upload->bucket,
                            .key = upload->key,
                            .ptr = (void *)ptr,
                            .len = len,
                            .upload = upload,
                            .number = number};
    return submit(queue, &o, options, cookie);
}
