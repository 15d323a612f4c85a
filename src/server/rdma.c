/* SPDX-License-Identifier: Apache-2.0 */
#include "server/rdma.h"

#include "base/clock.h"
#include "base/crc64.h"
#include "base/log.h"
#include "base/num.h"
#include "server/peers.h"

#include <stdlib.h>
#include <string.h>

#define DEADLINE_MS_MAX 3600000
#define RATE_LEN_MIN (1 * MIB) /* shorter transfers say nothing of the rate */

/* ---- before anything moves ---- */

static int decline(struct request *r, enum decline reason, int code, const char *why)
{
    metrics_add(&r->server->metrics.declines[reason], 1);
    int rc = reply_header(r, "x-amz-rdma-reply", "501");
    if (!rc)
        rc = reply_header(r, "x-amz-rdma-protocol-status", "unsupported");
    return rc ? rc : diag_fail(&r->diag, code, "%s", why);
}

uint64_t rdma_owner(const char *token_text)
{
    struct token t;
    uint64_t id = 1;
    if (token_parse(token_text, strlen(token_text), NULL, &t))
        return id;
    if (t.scheme == TOKEN_CMA)
        id = crc64_update(crc64_update(0, &t.cma.pid, sizeof t.cma.pid), &t.cma.start,
                          sizeof t.cma.start);
    else if (t.scheme == TOKEN_OFI)
        id = crc64_update(0, t.ofi.name, t.ofi.name_len);
    return id ? id : 1;
}

/* The SDKs give up after 10 s; a client that states another patience signs it. A twentieth is kept
 * for what comes after the bytes. */
static int set_deadline(struct request *r)
{
    uint64_t ms = r->server->config->rdma_deadline_ms;
    const char *text = request_header(r, "x-s3r-deadline-ms");
    if (text && r->auth.how == SIG_HEADER && !sig_header_is_signed(&r->auth, "x-s3r-deadline-ms"))
        return diag_fail(&r->diag, S3R_E_INVALID_REQUEST, "x-s3r-deadline-ms must be signed");
    if (text && (!num_parse_dec(text, strlen(text), DEADLINE_MS_MAX, &ms) || ms == 0))
        return diag_fail(&r->diag, S3R_E_INVALID_ARGUMENT,
                         "x-s3r-deadline-ms is not a number from 1 to %d", DEADLINE_MS_MAX);
    r->deadline_ns = r->begun_ns + (int64_t)ms * NS_PER_MS / 20 * 19;
    return 0;
}

int rdma_judge(struct request *r, enum rdma_way way)
{
    struct server *s = r->server;
    enum transfer_direction direction = way == RDMA_READ_OBJECT ? TRANSFER_WRITE : TRANSFER_READ;
    struct diag why = {0};
    metrics_add(&s->metrics.rdma_attempts[way], 1);
    int rc = token_parse(r->token_text, strlen(r->token_text), &why, &r->token);
    if (rc == S3R_E_TOKEN_DECLINED)
        return decline(r, DECLINE_SCHEME, rc, diag_text(&why, rc));
    if (rc)
        return diag_fail(&r->diag, rc, "x-amz-rdma-token: %s", diag_text(&why, rc));
    rc = set_deadline(r);
    if (rc)
        return rc;
    if (r->auth.how != SIG_HEADER)
        return decline(r, DECLINE_UNSIGNED, S3R_E_RDMA_UNAVAILABLE,
                       "RDMA is only for requests that are signed in their headers");
    if (!s->mover)
        return decline(r, DECLINE_OFF, S3R_E_RDMA_UNAVAILABLE, s->rdma_reason);
    rc = mover_serves(s->mover, &r->token, direction, &why);
    if (rc)
        return decline(r, DECLINE_SCHEME, S3R_E_TOKEN_DECLINED, diag_text(&why, rc));
    if (!peers_allow(&r->token, http_peer(r->ex), s->config->rdma_peers))
        return decline(r, DECLINE_PEER, S3R_E_TOKEN_DECLINED,
                       "the token names an address that is not the request's own");
    return 0;
}

/* What cannot end in the time left, at the rate of late, is declined at once. Each such decline
 * makes the estimate a little kinder, so that an old one does not shut the path for good. */
static int check_time(struct request *r, enum rdma_way way, uint64_t len)
{
    atomic_uint_fast64_t *rate = &r->server->rdma_rate[way];
    uint64_t per_s = atomic_load(rate);
    int64_t left_ns = r->deadline_ns - clock_mono_ns();
    if (left_ns > 0 && (per_s == 0 || (double)len / (double)per_s * 1e9 <= (double)left_ns))
        return 0;
    atomic_store(rate, per_s + per_s / 8);
    return decline(r, DECLINE_DEADLINE, S3R_E_RDMA_UNAVAILABLE,
                   "the transfer could not end within the client's patience");
}

/* What the wire can do is learnt at once, what slows it slowly: one client that is slow by itself
 * must not close the path to the others. */
static void learn_rate(struct request *r, enum rdma_way way, uint64_t len, int64_t took_ns)
{
    atomic_uint_fast64_t *rate = &r->server->rdma_rate[way];
    if (len < RATE_LEN_MIN || took_ns <= 0)
        return;
    uint64_t now = (uint64_t)((double)len * 1e9 / (double)took_ns), was = atomic_load(rate);
    atomic_store(rate, now > was ? now : was - (was - now) / 16);
}

/* ---- lanes ----
 *
 * A transfer is cut into pieces. One lane is the worker that has the request; a second one, on
 * another thread and with a slot of its own, joins when both are to be had. Each takes the next
 * piece: while one lane is on the wire the other is on the disk.
 *
 *   GET   lane 1   | read 0 | wire 0 | read 2 | wire 2 |      any order: pieces do not overlap
 *         lane 2            | read 1 | wire 1 | ...
 *   PUT   lane 1   | wire 0 | store 0 | wire 2 | store 2 |    stored in order: `turn` says whose
 *         lane 2   | wire 1 |   ...   | store 1 | ...
 */
struct lanes {
    struct request *r;
    enum rdma_way way;
    uint64_t begin, end, piece_len; /* GET: in the object; PUT: in the window */
    bool is_mapped;                 /* GET: the wire takes a mapped file */
    pthread_mutex_t lock;
    pthread_cond_t wake;
    /* lock `lock` */
    uint64_t next, index, turn;
    int error;
    struct diag diag;
    unsigned running, references;
    bool is_over; /* a lane that starts now is too late */
};

static void lanes_unref(struct lanes *l)
{
    pthread_mutex_lock(&l->lock);
    bool is_last = --l->references == 0;
    pthread_mutex_unlock(&l->lock);
    if (!is_last)
        return;
    pthread_cond_destroy(&l->wake);
    pthread_mutex_destroy(&l->lock);
    free(l);
}

/* The next piece; false when there is none or another lane failed. */
static bool take_piece(struct lanes *l, uint64_t *ret_off, uint64_t *ret_len, uint64_t *ret_index)
{
    pthread_mutex_lock(&l->lock);
    bool has_one = !l->error && l->next < l->end;
    if (has_one) {
        uint64_t until = min_u64(l->end, align_down(l->next, l->piece_len) + l->piece_len);
        *ret_off = l->next;
        *ret_len = until - l->next;
        *ret_index = l->index++;
        l->next = until;
    }
    pthread_mutex_unlock(&l->lock);
    return has_one;
}

static void lanes_fail(struct lanes *l, int code, const struct diag *diag)
{
    pthread_mutex_lock(&l->lock);
    if (!l->error) {
        l->error = code;
        l->diag = *diag;
    }
    pthread_cond_broadcast(&l->wake);
    pthread_mutex_unlock(&l->lock);
}

static int move(struct lanes *l, void *local, struct mover_memory *memory, uint64_t window_off,
                uint64_t len, struct diag *diag)
{
    struct request *r = l->r;
    uint64_t moved = 0;
    struct transfer t = {.direction = l->way == RDMA_READ_OBJECT ? TRANSFER_WRITE : TRANSFER_READ,
                         .token = &r->token,
                         .window_off = window_off,
                         .local = local,
                         .len = len,
                         .deadline_ns = r->deadline_ns,
                         .is_cancelled = request_is_cancelled,
                         .cancel_arg = r};
    int rc = mover_transfer(r->server->mover, memory, &t, diag, &moved);
    if (!rc && moved != len)
        rc = diag_fail(diag, S3R_E_RDMA_TRANSFER, "only a part of a piece was moved");
    return rc;
}

/* Straight from the page cache where the bytes are there and the wire can: no copy of ours. */
static int send_view(struct lanes *l, uint64_t off, uint64_t len, struct diag *diag)
{
    struct store_view view;
    if (!l->is_mapped)
        return S3R_E_UNSUPPORTED;
    int rc = store_lease_view(l->r->lease, off, len, &view);
    if (rc)
        return rc;
    rc = move(l, (void *)(uintptr_t)view.bytes, NULL, off - l->begin, len, diag);
    store_lease_unview(l->r->lease, &view);
    return rc;
}

static int send_piece(struct lanes *l, void *slot, uint64_t off, uint64_t len, struct diag *diag)
{
    int rc = send_view(l, off, len, diag);
    if (rc != S3R_E_UNSUPPORTED)
        return rc;
    rc = store_lease_read(l->r->lease, off, slot, len, diag);
    return rc ? rc
              : move(l, slot, staging_memory(l->r->server->staging), off - l->begin, len, diag);
}

static int wait_turn(struct lanes *l, uint64_t index)
{
    pthread_mutex_lock(&l->lock);
    while (!l->error && l->turn != index)
        pthread_cond_wait(&l->wake, &l->lock);
    int rc = l->error;
    pthread_mutex_unlock(&l->lock);
    return rc;
}

static int receive_piece(struct lanes *l, void *slot, uint64_t off, uint64_t len, uint64_t index,
                         struct diag *diag)
{
    int rc = move(l, slot, staging_memory(l->r->server->staging), off, len, diag);
    if (!rc)
        rc = wait_turn(l, index);
    if (!rc)
        rc = payload_feed_plain(l->r->payload, slot, len, diag);
    if (!rc)
        rc = store_writer_append(l->r->writer, slot, len, diag);
    if (rc)
        return rc;
    pthread_mutex_lock(&l->lock);
    l->turn++;
    pthread_cond_broadcast(&l->wake);
    pthread_mutex_unlock(&l->lock);
    return 0;
}

static void lane_run(struct lanes *l, void *slot)
{
    uint64_t off, len, index;
    while (take_piece(l, &off, &len, &index)) {
        struct diag diag = {0};
        int rc = l->way == RDMA_READ_OBJECT ? send_piece(l, slot, off, len, &diag)
                                            : receive_piece(l, slot, off, len, index, &diag);
        if (rc)
            lanes_fail(l, rc, &diag);
    }
}

struct second_lane {
    struct work_job job;
    struct lanes *lanes;
    struct staging *staging;
    void *slot;
};

static void second_lane_main(void *arg)
{
    struct second_lane *second = arg;
    struct lanes *l = second->lanes;
    pthread_mutex_lock(&l->lock);
    bool is_late = l->is_over;
    if (!is_late)
        l->running++;
    pthread_mutex_unlock(&l->lock);
    if (!is_late)
        lane_run(l, second->slot);
    staging_give(second->staging, second->slot);
    pthread_mutex_lock(&l->lock);
    if (!is_late)
        l->running--;
    pthread_cond_broadcast(&l->wake);
    pthread_mutex_unlock(&l->lock);
    lanes_unref(l);
    free(second);
}

/* A wish: without it the transfer runs on one lane. */
static void start_second_lane(struct lanes *l)
{
    struct server *s = l->r->server;
    if (l->end - l->begin <= l->piece_len)
        return;
    struct second_lane *second = calloc(1, sizeof *second);
    if (!second)
        return;
    second->lanes = l;
    second->staging = s->staging;
    second->slot = staging_try(s->staging, l->r->owner);
    l->references++;
    if (!second->slot ||
        work_submit(s->pools[POOL_LANES], &second->job, second_lane_main, second) != 0) {
        staging_give(s->staging, second->slot);
        l->references--;
        free(second);
    }
}

static int lanes_run(struct lanes *l, void *slot)
{
    start_second_lane(l);
    lane_run(l, slot);
    pthread_mutex_lock(&l->lock);
    l->is_over = true;
    while (l->running)
        pthread_cond_wait(&l->wake, &l->lock);
    int rc = l->error;
    pthread_mutex_unlock(&l->lock);
    return rc;
}

static void count_failure(struct request *r, int code)
{
    enum transfer_failure reason = code == S3R_E_RDMA_PEER       ? FAILURE_PEER
                                   : code == S3R_E_RDMA_DEADLINE ? FAILURE_DEADLINE
                                   : code == S3R_E_CANCELLED     ? FAILURE_CANCELLED
                                                                 : FAILURE_WIRE;
    metrics_add(&r->server->metrics.failures[reason], 1);
}

static bool is_transfer_error(int code)
{
    return code == S3R_E_RDMA_PEER || code == S3R_E_RDMA_DEADLINE || code == S3R_E_CANCELLED ||
           code == S3R_E_RDMA_TRANSFER || code == S3R_E_RDMA_BOUNDS ||
           code == S3R_E_TOKEN_DECLINED || code == S3R_E_RDMA_REGISTER ||
           code == S3R_E_RDMA_UNAVAILABLE;
}

/* Once bytes may have moved, whatever the wire says is a failed transfer, never a decline. */
static int transfer_result(struct request *r, int rc, const struct diag *diag)
{
    if (!rc || !is_transfer_error(rc)) {
        if (rc)
            diag_fail(&r->diag, rc, "%s", diag->text);
        return rc;
    }
    count_failure(r, rc);
    int code = error_http_status(rc) == 503 ? rc : S3R_E_RDMA_TRANSFER;
    return diag_fail(&r->diag, code, "%s; ask again without a token", diag_text(diag, rc));
}

static int run(struct request *r, enum rdma_way way, uint64_t begin, uint64_t len)
{
    void *slot;
    int64_t begun = clock_mono_ns();
    int rc = check_time(r, way, len);
    if (rc || len == 0)
        return rc;
    /* half of the patience for a place, so that there is time left to move the bytes */
    rc = staging_take(r->server->staging, r->owner, begun + (r->deadline_ns - begun) / 2,
                      request_is_cancelled, r, &slot);
    if (rc == S3R_E_CANCELLED)
        return rc;
    if (rc)
        return decline(r, DECLINE_CAPACITY, S3R_E_RDMA_UNAVAILABLE, "all staging memory is in use");
    struct lanes *l = calloc(1, sizeof *l);
    if (!l) {
        staging_give(r->server->staging, slot);
        return S3R_E_NOMEM;
    }
    *l = (struct lanes){.r = r,
                        .way = way,
                        .begin = begin,
                        .next = begin,
                        .end = begin + len,
                        .piece_len = way == RDMA_READ_OBJECT ? RDMA_PIECE_GET : RDMA_PIECE_PUT,
                        .is_mapped = mover_takes_mapped_files(r->server->mover, &r->token),
                        .references = 1};
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->wake, NULL);
    int64_t moving = clock_mono_ns();
    rc = transfer_result(r, lanes_run(l, slot), &l->diag);
    if (!rc)
        learn_rate(r, way, len, clock_mono_ns() - moving);
    staging_give(r->server->staging, slot);
    lanes_unref(l);
    return rc;
}

int rdma_send(struct request *r, uint64_t off, uint64_t len)
{
    if (len > r->token.size)
        return diag_fail(&r->diag, S3R_E_INVALID_REQUEST,
                         "the range has %llu bytes, the window only %llu", (unsigned long long)len,
                         (unsigned long long)r->token.size);
    return run(r, RDMA_READ_OBJECT, off, len);
}

int rdma_receive(struct request *r)
{
    return run(r, RDMA_WRITE_OBJECT, 0, r->token.size);
}

int rdma_acknowledge(struct request *r, enum rdma_way way, uint64_t len)
{
    r->is_rdma = true;
    *(way == RDMA_READ_OBJECT ? &r->bytes_out : &r->bytes_in) += len;
    metrics_transfer(&r->server->metrics, way, len, clock_mono_ns() - r->begun_ns);
    int rc = reply_header_u64(r, "x-amz-rdma-reply", r->reply.status);
    return rc ? rc : reply_header_u64(r, "x-amz-rdma-bytes-transferred", len);
}
