/* SPDX-License-Identifier: Apache-2.0 */
#include "base/handles.h"
#include "rdma/shim/server.h"
#include "rdma/shim/shim.h"

#include <stdlib.h>
#include <string.h>

/* A posted call. Two hold it: the id that the caller frees, and its place in the queues (pool, then
 * channel, until polled). */
struct op {
    struct work_job job;
    struct server *server; /* fixed after post */
    struct request request;
    S3RdmaBufHandle reg; /* pinned until the transfer is over */
    void *handle;
    uint16_t channel;
    /* written by the pool's thread before it is in the channel */
    ssize_t moved;
    int32_t status;
    /* lock `server.lock` */
    unsigned refs;
    struct op *next_done;    /* of the channel */
    struct op *next, **link; /* of the server */
};

/* ---- life ---- */

static void op_unref(struct op *op)
{
    struct server *s = op->server;
    pthread_mutex_lock(&s->lock);
    bool is_last = --op->refs == 0;
    if (is_last) {
        *op->link = op->next;
        if (op->next)
            op->next->link = op->link;
        free(op);
        server_unref_locked(s);
        return;
    }
    pthread_mutex_unlock(&s->lock);
}

static void link_op(struct server *s, struct op *op)
{
    op->refs = 2;
    op->next = s->ops;
    op->link = &s->ops;
    if (op->next)
        op->next->link = &op->next;
    s->ops = op;
    s->refs++;
}

void s3rdma_async_handle_free(void *async_handle)
{
    struct op *op = handle_retire(async_handle, HANDLE_ASYNC);
    if (op)
        op_unref(op);
}

static struct op *pop_done(struct channel *c)
{
    struct op *op = c->first;
    if (!op)
        return NULL;
    c->first = op->next_done;
    if (!c->first)
        c->last = &c->first;
    c->posted--;
    return op;
}

static struct op *lock_and_pop(struct server *s, struct channel *c)
{
    pthread_mutex_lock(&s->lock);
    struct op *op = pop_done(c);
    pthread_mutex_unlock(&s->lock);
    return op;
}

/* The id of one op that has it still; whoever retires it drops its reference. */
static void *next_id(struct server *s)
{
    void *handle = NULL;
    pthread_mutex_lock(&s->lock);
    for (struct op *op = s->ops; op && !handle; op = op->next) {
        handle = op->handle;
        op->handle = NULL;
    }
    pthread_mutex_unlock(&s->lock);
    return handle;
}

void server_drop_ops(struct server *s)
{
    struct op *op;
    void *handle;
    for (size_t i = 0; i < CHANNELS_MAX; i++) {
        while (s->channels[i] && (op = lock_and_pop(s, s->channels[i])))
            op_unref(op);
    }
    while ((handle = next_id(s)))
        s3rdma_async_handle_free(handle);
}

/* ---- channels ---- */

uint16_t s3rdma_allocate_channel(S3RdmaHandle server)
{
    struct diag diag = {""};
    uint16_t found = 0xffff;
    struct server *s = server_pin(server, &diag);
    if (!s) {
        shim_fail(&diag, S3R_E_RDMA_NOT_FOUND);
        return found;
    }
    struct channel *c = calloc(1, sizeof *c);
    pthread_mutex_lock(&s->lock);
    for (size_t i = 0; c && i < CHANNELS_MAX; i++) {
        uint16_t at = (uint16_t)((s->next_channel + i) % CHANNELS_MAX);
        if (s->channels[at])
            continue;
        c->last = &c->first;
        s->channels[at] = STEAL(c);
        s->next_channel = (uint16_t)((at + 1) % CHANNELS_MAX);
        found = at;
    }
    pthread_mutex_unlock(&s->lock);
    free(c);
    handle_unpin(server);
    if (found == 0xffff)
        shim_fail(&(struct diag){"no channel is left"}, S3R_E_BUSY);
    return found;
}

/* Takes it out once nothing is posted on it; events that nobody polled are dropped. */
static struct channel *drain(struct server *s, uint16_t channel)
{
    struct op *op;
    pthread_mutex_lock(&s->lock);
    struct channel *c = s->channels[channel];
    while (c && c->posted > 0) {
        if (!(op = pop_done(c))) {
            pthread_cond_wait(&s->finished, &s->lock);
            c = s->channels[channel];
            continue;
        }
        pthread_mutex_unlock(&s->lock);
        op_unref(op);
        pthread_mutex_lock(&s->lock);
        c = s->channels[channel];
    }
    s->channels[channel] = NULL;
    pthread_mutex_unlock(&s->lock);
    return c;
}

void s3rdma_free_channel(S3RdmaHandle server, uint16_t channel)
{
    struct server *s = server_pin(server, NULL);
    if (!s)
        return;
    if (channel < CHANNELS_MAX)
        free(drain(s, channel));
    handle_unpin(server);
}

/* ---- posting ---- */

static void run(void *arg)
{
    struct op *op = arg;
    struct server *s = op->server;
    struct diag diag = {""};
    uint64_t moved = 0;
    int rc = request_run(s, &op->request, &diag, &moved);
    op->moved = rc ? -1 : (ssize_t)moved;
    op->status = shim_status(rc);
    handle_unpin(op->reg);
    pthread_mutex_lock(&s->lock);
    struct channel *c = s->channels[op->channel];
    op->next_done = NULL;
    *c->last = op;
    c->last = &op->next_done;
    pthread_cond_broadcast(&s->finished);
    pthread_mutex_unlock(&s->lock);
}

/* A channel with something posted is not freed, so run() finds it. */
static int enter_channel(struct server *s, struct op *op, struct diag *diag)
{
    int rc = 0;
    pthread_mutex_lock(&s->lock);
    struct channel *c = op->channel < CHANNELS_MAX ? s->channels[op->channel] : NULL;
    if (!c)
        rc = diag_fail(diag, S3R_E_INVALID_ARGUMENT, "channel %u is not allocated", op->channel);
    else if (c->posted >= s->posted_max)
        rc = diag_fail(diag, S3R_E_BUSY, "%u calls are posted on channel %u: poll it", c->posted,
                       op->channel);
    if (!rc) {
        c->posted++;
        link_op(s, op);
    }
    pthread_mutex_unlock(&s->lock);
    return rc;
}

static void leave_channel(struct server *s, struct op *op)
{
    pthread_mutex_lock(&s->lock);
    s->channels[op->channel]->posted--;
    pthread_cond_broadcast(&s->finished);
    pthread_mutex_unlock(&s->lock);
}

/* From here on the op is in the lists; what fails takes it out of all of them. */
static int submit(struct server *s, struct op *op, struct diag *diag, void **ret_handle)
{
    void *handle = handle_add(HANDLE_ASYNC, op);
    int rc = handle ? 0 : S3R_E_NOMEM;
    op->handle = handle;
    if (!rc)
        *ret_handle = handle; /* before the event that carries it can be polled */
    if (!rc)
        rc = work_submit(s->pool, &op->job, run, op);
    if (!rc)
        return 0;
    leave_channel(s, op);
    op_unref(op);
    if (handle)
        s3rdma_async_handle_free(handle);
    else
        op_unref(op);
    *ret_handle = NULL;
    return diag_fail(diag, rc, "the call cannot be queued: %s", error_text(rc));
}

static int post(struct server *s, enum transfer_direction direction, S3RdmaBufHandle reg,
                const char *token, uint64_t offset, size_t size, uint16_t channel,
                struct diag *diag, void **ret_handle)
{
    CLEANUP(freep) struct op *op = calloc(1, sizeof *op);
    if (!op)
        return S3R_E_NOMEM;
    op->server = s;
    op->channel = channel;
    op->reg = reg;
    int rc = request_init(&op->request, s, direction, reg, token, offset, size, diag);
    if (rc)
        return rc;
    rc = enter_channel(s, op, diag);
    if (!rc)
        rc = submit(s, STEAL(op), diag, ret_handle);
    if (rc)
        handle_unpin(reg);
    return rc;
}

static S3RdmaStatusC posted(S3RdmaHandle server, enum transfer_direction direction,
                            S3RdmaBufHandle reg, const char *token, uint64_t offset, size_t size,
                            uint16_t channel, void **async_handle)
{
    struct diag diag = {""};
    int rc = async_handle ? 0 : diag_fail(&diag, S3R_E_INVALID_ARGUMENT, "nowhere to put the id");
    struct server *s = rc ? NULL : server_pin(server, &diag);
    if (!rc && !s)
        rc = S3R_E_RDMA_NOT_FOUND;
    if (async_handle)
        *async_handle = NULL;
    if (!rc)
        rc = post(s, direction, reg, token, offset, size, channel, &diag, async_handle);
    if (s)
        handle_unpin(server);
    if (rc)
        shim_fail(&diag, rc);
    return (S3RdmaStatusC){rc ? -1 : 0, shim_status(rc)};
}

S3RdmaStatusC s3rdma_put_async(S3RdmaHandle server, S3RdmaBufHandle reg, const char *token,
                               uint64_t offset, size_t size, uint16_t channel, void **async_handle)
{
    return posted(server, TRANSFER_READ, reg, token, offset, size, channel, async_handle);
}

S3RdmaStatusC s3rdma_get_async(S3RdmaHandle server, S3RdmaBufHandle reg, const char *token,
                               uint64_t offset, size_t size, uint16_t channel, void **async_handle)
{
    return posted(server, TRANSFER_WRITE, reg, token, offset, size, channel, async_handle);
}

/* ---- events ---- */

static int poll_channel(struct server *s, uint16_t channel, S3RdmaAsyncEventC *events, int max)
{
    int n = 0;
    for (; n < max; n++) {
        pthread_mutex_lock(&s->lock);
        struct channel *c = channel < CHANNELS_MAX ? s->channels[channel] : NULL;
        struct op *op = c ? pop_done(c) : NULL;
        if (op)
            events[n] = (S3RdmaAsyncEventC){op->handle, op->moved, op->status};
        pthread_mutex_unlock(&s->lock);
        if (!c)
            return -1;
        if (!op)
            break;
        op_unref(op);
    }
    return n;
}

int s3rdma_poll(S3RdmaHandle server, S3RdmaAsyncEventC *events, int max, uint16_t channel)
{
    struct diag diag = {""};
    if (!events || max < 0)
        return shim_fail(&(struct diag){"nowhere to put events"}, S3R_E_INVALID_ARGUMENT);
    struct server *s = server_pin(server, &diag);
    if (!s)
        return shim_fail(&diag, S3R_E_RDMA_NOT_FOUND);
    int n = poll_channel(s, channel, events, max);
    handle_unpin(server);
    if (n < 0)
        return shim_fail(&(struct diag){"the channel is not allocated"}, S3R_E_INVALID_ARGUMENT);
    return n;
}
