/* SPDX-License-Identifier: Apache-2.0 */
#include "client/pieces.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/num.h"
#include "base/pages.h"
#include "client/api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PAUSE_SLICE_MS 20

/* ---- how many, how long ---- */

static int check_wish(const struct stream_options *wish, uint64_t piece_len_min, struct diag *diag)
{
    if (wish->in_flight > STREAM_IN_FLIGHT_MAX)
        return diag_fail(diag, S3R_E_INVALID_ARGUMENT, "%u pieces in flight: at most %d can be",
                         wish->in_flight, STREAM_IN_FLIGHT_MAX);
    if (wish->piece_len != 0 &&
        (wish->piece_len < piece_len_min || wish->piece_len > LIMIT_DC_WINDOW_LEN_MAX))
        return diag_fail(diag, S3R_E_INVALID_ARGUMENT,
                         "pieces of %llu bytes: they have %llu to %llu",
                         (unsigned long long)wish->piece_len, (unsigned long long)piece_len_min,
                         (unsigned long long)LIMIT_DC_WINDOW_LEN_MAX);
    return 0;
}

uint64_t stream_whole_max(const struct stream_options *wish)
{
    return wish != NULL && wish->piece_len != 0 ? wish->piece_len : LIMIT_DC_WINDOW_LEN_MAX;
}

int pieces_plan(const struct stream_options *wish, uint64_t piece_len, uint64_t piece_len_min,
                uint64_t len, struct diag *diag, struct stream_options *ret_plan)
{
    struct stream_options plan = {.in_flight = STREAM_IN_FLIGHT, .piece_len = piece_len};
    int e = wish != NULL ? check_wish(wish, piece_len_min, diag) : 0;
    if (e != 0)
        return e;
    if (len != STREAM_UNKNOWN && len > LIMIT_OBJECT_LEN_MAX)
        return diag_fail(diag, S3R_E_ENTITY_TOO_LARGE, "no object has %llu bytes",
                         (unsigned long long)len);
    if (wish != NULL)
        plan = *wish;
    plan.piece_len = plan.piece_len != 0 ? plan.piece_len : piece_len;
    plan.in_flight = plan.in_flight != 0 ? plan.in_flight : STREAM_IN_FLIGHT;
    uint64_t pinned_max = plan.piece_len * plan.in_flight;
    if (len != STREAM_UNKNOWN && len > plan.piece_len * LIMIT_PARTS_MAX) {
        plan.piece_len = align_up(len / LIMIT_PARTS_MAX + 1, MIB);
        plan.in_flight = (unsigned)max_u64(pinned_max / plan.piece_len, 1);
    }
    *ret_plan = plan;
    return 0;
}

/* ---- the first error ---- */

int pieces_fail(struct pieces *all, int error, const struct diag *diag)
{
    pthread_mutex_lock(&all->lock);
    if (error != 0 && all->error == 0) {
        all->diag = diag != NULL ? *diag : (struct diag){0};
        all->error = error;
    }
    error = all->error;
    pthread_mutex_unlock(&all->lock);
    return error;
}

/* What the requests of the pieces ask: did another one fail, or does the caller want no more? */
static bool is_stopped(void *arg)
{
    struct pieces *all = arg;
    const struct client_options *each = all->config.each;
    return all->error != 0 ||
           (each != NULL && each->is_cancelled != NULL && each->is_cancelled(each->cancel_arg));
}

/* ---- init, fini ---- */

int pieces_init(struct pieces *all, const struct pieces_config *config)
{
    *all = (struct pieces){.config = *config};
    if (config->each != NULL)
        all->each = *config->each;
    all->each.is_cancelled = is_stopped;
    all->each.cancel_arg = all;
    all->each.on_progress = NULL;
    pthread_mutex_init(&all->lock, NULL);
    pthread_cond_init(&all->ended, NULL);
    all->rows = calloc(config->in_flight, sizeof(*all->rows));
    if (all->rows == NULL)
        return S3R_E_NOMEM;
    for (unsigned i = 0; i < config->in_flight; i++)
        all->rows[i].all = all;
    return work_pool_create("s3r-piece", config->in_flight, config->in_flight, &all->pool);
}

static void buffer_free(struct piece *p)
{
    if (p->buffer == NULL)
        return;
    if (p->is_registered && client_deregister(p->all->config.client, p->buffer) != 0)
        p->is_lost = true;
    if (p->is_lost)
        log_warn("%zu bytes stay mapped: a stopped server may still use them", p->buffer_len);
    else
        pages_free(p->buffer, p->buffer_len);
}

void pieces_fini(struct pieces *all)
{
    if (all->pool != NULL)
        pieces_fail(all, S3R_E_CANCELLED, NULL);
    work_pool_destroy(all->pool);
    for (unsigned i = 0; all->rows != NULL && i < all->config.in_flight; i++) {
        client_result_fini(&all->rows[i].result);
        buffer_free(&all->rows[i]);
    }
    free(all->rows);
    pthread_cond_destroy(&all->ended);
    pthread_mutex_destroy(&all->lock);
}

/* ---- a piece ---- */

/* Without a device, or where it cannot be registered, each call tries by itself and says why. */
static void buffer_register(struct piece *p)
{
    struct client *c = p->all->config.client;
    p->is_registered = !p->all->each.is_rdma_off && client_devices_open(c, NULL) == 0 &&
                       client_register(c, p->buffer, p->buffer_len, NULL) == 0;
}

static int buffer_make(struct piece *p, size_t len)
{
    void *buffer = pages_alloc(len);
    if (buffer == NULL)
        return S3R_E_NOMEM;
    p->buffer = buffer;
    p->buffer_len = len;
    buffer_register(p);
    return 0;
}

int piece_begin(struct piece *p, unsigned number, uint64_t off, size_t len)
{
    const struct pieces_config *config = &p->all->config;
    const struct client_memory *m = config->memory;
    if (m == NULL && p->buffer == NULL) {
        int e = buffer_make(p, len);
        if (e != 0)
            return e;
    }
    client_result_fini(&p->result);
    diag_clear(&p->diag);
    p->number = number;
    p->off = off;
    p->error = 0;
    p->is_ended = false;
    if (m != NULL)
        p->memory = (struct client_memory){.len = len, .region = m->region};
    else
        p->memory = (struct client_memory){.ptr = p->buffer,
                                           .len = len,
                                           .region = p->is_registered ? p->buffer : NULL};
    return 0;
}

/* Waits before a retry; false when there is to be none. */
static bool pause_ms(struct pieces *all, int64_t ms)
{
    for (int64_t left = ms; left > 0 && !is_stopped(all); left -= PAUSE_SLICE_MS) {
        struct timespec slice = clock_timespec(min_u64((uint64_t)left, PAUSE_SLICE_MS) * NS_PER_MS);
        nanosleep(&slice, NULL);
    }
    return !is_stopped(all);
}

static int carry_with_retries(struct piece *p)
{
    struct pieces *all = p->all;
    int64_t pause = 0;
    int e = all->config.carry(all, p);
    for (unsigned left = all->config.retries; e != 0 && left > 0; left--) {
        pause = api_next_pause_ms(pause);
        if (!api_may_retry(e, p->result.status) || !pause_ms(all, pause))
            break;
        client_result_fini(&p->result);
        diag_clear(&p->diag);
        e = all->config.carry(all, p);
    }
    return e;
}

/* Locked. */
static void note_how(struct pieces *all, const struct client_result *r)
{
    struct client_result *last = &all->last;
    all->rdma_count += r->transport == CLIENT_RDMA;
    all->http_count += r->transport == CLIENT_HTTP;
    last->requests += r->requests;
    last->len += r->len;
    last->is_staged |= r->is_staged;
    if (r->provider[0] != '\0')
        memcpy(last->provider, r->provider, sizeof(last->provider));
    if (r->transport == CLIENT_HTTP) {
        last->reason = r->reason;
        memcpy(last->why, r->why, sizeof(last->why));
    }
}

static void carry_piece(void *arg)
{
    struct piece *p = arg;
    struct pieces *all = p->all;
    const struct client_options *each = all->config.each;
    p->error = is_stopped(all) ? S3R_E_CANCELLED : carry_with_retries(p);
    if (p->error == S3R_E_RDMA_UNFENCED)
        p->is_lost = p->buffer != NULL;
    if (p->error != 0)
        pieces_fail(all, p->error, &p->diag);
    pthread_mutex_lock(&all->lock);
    if (p->error == S3R_E_RDMA_UNFENCED)
        all->is_unfenced = true;
    if (p->error == 0)
        note_how(all, &p->result);
    uint64_t moved = all->last.len;
    if (p->error == 0 && each != NULL && each->on_progress != NULL)
        each->on_progress(each->progress_arg, moved);
    p->is_busy = false;
    p->is_ended = true;
    pthread_cond_broadcast(&all->ended);
    pthread_mutex_unlock(&all->lock);
}

int piece_submit(struct piece *p)
{
    p->is_busy = true;
    int e = work_submit(p->all->pool, &p->job, carry_piece, p);
    if (e != 0)
        p->is_busy = false;
    return e != 0 ? pieces_fail(p->all, e, NULL) : 0;
}

/* ---- waiting ---- */

int pieces_wait_row(struct pieces *all, unsigned i, struct piece **ret_piece)
{
    pthread_mutex_lock(&all->lock);
    while (all->rows[i].is_busy)
        pthread_cond_wait(&all->ended, &all->lock);
    pthread_mutex_unlock(&all->lock);
    if (all->error == 0)
        *ret_piece = &all->rows[i];
    return all->error;
}

static struct piece *any_idle(struct pieces *all)
{
    for (unsigned i = 0; i < all->config.in_flight; i++)
        if (!all->rows[i].is_busy)
            return &all->rows[i];
    return NULL;
}

int pieces_wait_any(struct pieces *all, struct piece **ret_piece)
{
    struct piece *p;
    pthread_mutex_lock(&all->lock);
    while ((p = any_idle(all)) == NULL)
        pthread_cond_wait(&all->ended, &all->lock);
    pthread_mutex_unlock(&all->lock);
    if (all->error == 0)
        *ret_piece = p;
    return all->error;
}

int pieces_wait_all(struct pieces *all)
{
    struct piece *ignored;
    for (unsigned i = 0; i < all->config.in_flight; i++)
        (void)!pieces_wait_row(all, i, &ignored);
    return all->error;
}

/* ---- the whole ---- */

void pieces_report(struct pieces *all, struct diag *diag, struct client_result *result)
{
    const struct client_result *last = &all->last;
    pthread_mutex_lock(&all->lock);
    bool is_mixed = all->rdma_count > 0 && all->http_count > 0;
    result->transport = all->http_count > 0   ? CLIENT_HTTP
                        : all->rdma_count > 0 ? CLIENT_RDMA
                                              : CLIENT_NONE;
    result->requests += last->requests;
    result->is_staged = last->is_staged;
    result->reason = is_mixed ? CLIENT_REASON_MIXED : last->reason;
    memcpy(result->provider, last->provider, sizeof(result->provider));
    if (is_mixed)
        snprintf(result->why, sizeof(result->why),
                 "%u of %u pieces went by HTTP, the last for: %.300s", all->http_count,
                 all->http_count + all->rdma_count, last->why);
    else
        memcpy(result->why, last->why, sizeof(result->why));
    if (all->error != 0 && all->diag.text[0] != '\0')
        (void)diag_fail(diag, all->error, "%s", all->diag.text);
    pthread_mutex_unlock(&all->lock);
}
