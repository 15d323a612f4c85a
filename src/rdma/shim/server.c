/* SPDX-License-Identifier: Apache-2.0 */
#include "rdma/shim/server.h"

#include "base/clock.h"
#include "base/handles.h"
#include "base/num.h"
#include "rdma/shim/shim.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- the configuration ---- */

static const S3RdmaConfig defaults = {
    .num_dcis = 256,
    .cq_depth = 256,
    .dc_key = 0xffeeddcc,
    .timeout = 14,
    .hop_limit = 64,
    .max_wr = 256,
    .max_sge = 1,
    .retry_cnt = 7,
};

static int check_config(const S3RdmaConfig *cfg, struct diag *diag)
{
    const struct {
        const char *name;
        int64_t value, min, max;
    } rows[] = {
        {"num_dcis", cfg->num_dcis, 1, 65536},
        {"cq_depth", cfg->cq_depth, 1, 1 << 22},
        {"timeout", cfg->timeout, 0, 31},
        {"hop_limit", cfg->hop_limit, 0, 255},
        {"max_wr", cfg->max_wr, 1, 1 << 20},
        {"max_sge", cfg->max_sge, 1, 256},
        {"retry_cnt", cfg->retry_cnt, 0, 7},
        {"service_level", cfg->service_level, 0, 15},
        {"traffic_class", cfg->traffic_class, 0, 255},
        {"pkey_index", cfg->pkey_index, 0, 65535},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (rows[i].value < rows[i].min || rows[i].value > rows[i].max)
            return diag_fail(diag, S3R_E_INVALID_ARGUMENT, "%s is %lld; %lld to %lld are allowed",
                             rows[i].name, (long long)rows[i].value, (long long)rows[i].min,
                             (long long)rows[i].max);
    }
    return 0;
}

/* ---- the handle ---- */

void server_unref_locked(struct server *s)
{
    bool is_last = --s->refs == 0;
    pthread_mutex_unlock(&s->lock);
    if (!is_last)
        return;
    pthread_cond_destroy(&s->finished);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

static int server_create(const char *devices, const S3RdmaConfig *cfg, struct diag *diag,
                         struct server **ret_server)
{
    const S3RdmaConfig *use = cfg ? cfg : &defaults;
    int rc = check_config(use, diag);
    if (rc)
        return rc;
    CLEANUP(freep) struct server *s = calloc(1, sizeof *s);
    if (!s)
        return S3R_E_NOMEM;
    s->pid = getpid();
    s->refs = 1;
    s->posted_max = (unsigned)min_u64((uint64_t)use->max_wr, use->cq_depth);
    rc = mover_open(devices, diag, &s->mover);
    if (rc)
        return rc;
    rc = work_pool_create("s3rdma", SERVER_THREADS, SERVER_QUEUE_MAX, &s->pool);
    if (rc) {
        mover_close(s->mover);
        return rc;
    }
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->finished, NULL);
    *ret_server = STEAL(s);
    return 0;
}

/* The parts of a server that stay the parent's in a forked child. */
static void server_release(struct server *s)
{
    struct host_buffer *host;
    work_pool_destroy(s->pool);
    server_drop_ops(s);
    while (s->buffers) {
        struct buffer *b = s->buffers;
        s->buffers = b->next;
        mover_memory_remove(s->mover, b->memory);
        free(b);
    }
    while ((host = s->host_buffers)) {
        s->host_buffers = host->next;
        munmap(host->ptr, host->len);
        free(host);
    }
    for (size_t i = 0; i < CHANNELS_MAX; i++)
        free(s->channels[i]);
    mover_close(s->mover);
}

static void *next_buffer_id(struct server *s)
{
    void *handle = NULL;
    pthread_mutex_lock(&s->lock);
    for (struct buffer *b = s->buffers; b && !handle; b = b->next) {
        handle = b->handle;
        b->handle = NULL;
    }
    pthread_mutex_unlock(&s->lock);
    return handle;
}

/* Ids end first, so that nobody finds a buffer of a server that is going. The buffers themselves
 * are in the server's list. */
static unsigned retire_buffers(struct server *s)
{
    unsigned retired = 0;
    void *handle;
    while ((handle = next_buffer_id(s)))
        retired += handle_retire(handle, HANDLE_BUFFER) != NULL;
    return retired;
}

void s3rdma_server_free(S3RdmaHandle server)
{
    struct server *s = handle_retire(server, HANDLE_SERVER);
    if (!s || s->pid != getpid())
        return;
    retire_buffers(s);
    server_release(s);
    pthread_mutex_lock(&s->lock);
    server_unref_locked(s);
}

S3RdmaHandle s3rdma_server_init_with_config_err(const char *ip, unsigned port, S3RdmaConfig *cfg,
                                                char *err, size_t len)
{
    struct server *s;
    struct diag diag = {""};
    const char *devices = ip ? ip : getenv("S3RDMA_DEVICE");
    shim_copy_text(err, len, "");
    int rc = server_create(devices ? devices : "", cfg, &diag, &s);
    void *handle = rc ? NULL : handle_add(HANDLE_SERVER, s);
    if (!rc && !handle) {
        rc = S3R_E_NOMEM;
        server_release(s);
        free(s);
    }
    if (rc) {
        shim_fail(&diag, rc);
        shim_copy_text(err, len, diag_text(&diag, rc));
    }
    return handle;
}

S3RdmaHandle s3rdma_server_init_with_config(const char *ip, unsigned port, S3RdmaConfig *cfg)
{
    return s3rdma_server_init_with_config_err(ip, port, cfg, NULL, 0);
}

S3RdmaHandle s3rdma_server_init(const char *ip, unsigned port)
{
    return s3rdma_server_init_with_config_err(ip, port, NULL, NULL, 0);
}

struct server *server_pin(S3RdmaHandle handle, struct diag *diag)
{
    struct server *s = handle_pin(handle, HANDLE_SERVER);
    if (s && s->pid == getpid())
        return s;
    if (s)
        handle_unpin(handle);
    diag_fail(diag, S3R_E_RDMA_NOT_FOUND,
              s ? "this server handle was made before fork()" : "no such server handle");
    return NULL;
}

int s3rdma_server_nic_count(S3RdmaHandle server)
{
    struct server *s = server_pin(server, NULL);
    if (!s)
        return 0;
    int count = mover_rail_count(s->mover);
    handle_unpin(server);
    return count;
}

/* ---- buffers ---- */

static int buffer_create(struct server *s, void *ptr, size_t len, struct diag *diag,
                         struct buffer **ret_buffer)
{
    CLEANUP(freep) struct buffer *b = calloc(1, sizeof *b);
    if (!b)
        return S3R_E_NOMEM;
    *b = (struct buffer){.server = s, .ptr = ptr, .len = len};
    int rc = mover_memory_add(s->mover, ptr, len, diag, &b->memory);
    if (rc)
        return rc;
    b->handle = handle_add(HANDLE_BUFFER, b);
    if (!b->handle) {
        mover_memory_remove(s->mover, b->memory);
        return S3R_E_NOMEM;
    }
    *ret_buffer = STEAL(b);
    return 0;
}

static void link_buffer(struct server *s, struct buffer *b)
{
    pthread_mutex_lock(&s->lock);
    b->next = s->buffers;
    b->link = &s->buffers;
    if (b->next)
        b->next->link = &b->next;
    s->buffers = b;
    pthread_mutex_unlock(&s->lock);
}

static void unlink_buffer(struct server *s, struct buffer *b)
{
    pthread_mutex_lock(&s->lock);
    *b->link = b->next;
    if (b->next)
        b->next->link = b->link;
    pthread_mutex_unlock(&s->lock);
}

S3RdmaBufHandle s3rdma_register_buffer(S3RdmaHandle server, void *buf, size_t size)
{
    struct diag diag = {""};
    struct buffer *b = NULL;
    void *handle = NULL;
    struct server *s = server_pin(server, &diag);
    int rc = s ? buffer_create(s, buf, size, &diag, &b) : S3R_E_RDMA_NOT_FOUND;
    if (!rc) {
        handle = b->handle;
        link_buffer(s, b);
    }
    if (s)
        handle_unpin(server);
    if (rc)
        shim_fail(&diag, rc);
    return handle;
}

/* Pins it only if it is this server's. */
static struct buffer *pin_buffer(struct server *s, S3RdmaBufHandle reg, struct diag *diag)
{
    struct buffer *b = handle_pin(reg, HANDLE_BUFFER);
    if (b && b->server == s)
        return b;
    if (b)
        handle_unpin(reg);
    diag_fail(diag, S3R_E_RDMA_NOT_FOUND, "no such buffer handle of this server");
    return NULL;
}

void s3rdma_deregister_buffer(S3RdmaHandle server, S3RdmaBufHandle reg)
{
    struct diag diag = {""};
    struct server *s = server_pin(server, &diag);
    struct buffer *b = s ? pin_buffer(s, reg, &diag) : NULL;
    if (b) {
        handle_unpin(reg);
        b = handle_retire(reg, HANDLE_BUFFER);
    }
    if (b) {
        unlink_buffer(s, b);
        mover_memory_remove(s->mover, b->memory);
        free(b);
    } else {
        shim_fail(&diag, S3R_E_RDMA_NOT_FOUND);
    }
    if (s)
        handle_unpin(server);
}

/* ---- host buffers ---- */

static void *map_host_buffer(struct server *s, size_t size, struct diag *diag)
{
    CLEANUP(freep) struct host_buffer *host = calloc(1, sizeof *host);
    if (!host || size == 0 || size > SIZE_MAX / 2) {
        diag_fail(diag, size == 0 ? S3R_E_INVALID_ARGUMENT : S3R_E_NOMEM,
                  "%zu bytes cannot be allocated", size);
        return NULL;
    }
    void *ptr = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (ptr == MAP_FAILED) {
        diag_fail(diag, S3R_E_NOMEM, "%zu bytes cannot be allocated", size);
        return NULL;
    }
    host->ptr = ptr;
    host->len = size;
    pthread_mutex_lock(&s->lock);
    host->next = s->host_buffers;
    s->host_buffers = STEAL(host);
    pthread_mutex_unlock(&s->lock);
    return ptr;
}

void *s3rdma_alloc_host_buffer(S3RdmaHandle server, size_t size)
{
    struct diag diag = {""};
    struct server *s = server_pin(server, &diag);
    void *ptr = s ? map_host_buffer(s, size, &diag) : NULL;
    if (s)
        handle_unpin(server);
    if (!ptr)
        shim_fail(&diag, S3R_E_NOMEM);
    return ptr;
}

void s3rdma_free_host_buffer(S3RdmaHandle server, void *buf)
{
    struct diag diag = {""};
    struct host_buffer *found = NULL;
    struct server *s = server_pin(server, &diag);
    if (s) {
        pthread_mutex_lock(&s->lock);
        struct host_buffer **at = &s->host_buffers;
        while (*at && (*at)->ptr != buf)
            at = &(*at)->next;
        found = *at;
        if (found)
            *at = found->next;
        pthread_mutex_unlock(&s->lock);
        handle_unpin(server);
    }
    if (found)
        munmap(found->ptr, found->len);
    else if (buf)
        shim_fail(&(struct diag){"no such host buffer of this server"}, S3R_E_RDMA_NOT_FOUND);
    free(found);
}

/* ---- blocking transfers ---- */

int request_init(struct request *r, struct server *s, enum transfer_direction direction,
                 S3RdmaBufHandle reg, const char *token, uint64_t offset, size_t size,
                 struct diag *diag)
{
    if (!token)
        return diag_fail(diag, S3R_E_INVALID_ARGUMENT, "no token");
    size_t token_len = strnlen(token, LIMIT_TOKEN_LEN_MAX + 1);
    int rc = token_parse(token, token_len, diag, &r->token);
    if (rc)
        return rc;
    struct buffer *b = pin_buffer(s, reg, diag);
    if (!b)
        return S3R_E_RDMA_NOT_FOUND;
    if (!span_fits(offset, size, b->len)) {
        rc = diag_fail(diag, S3R_E_INVALID_ARGUMENT,
                       "%zu bytes at %llu are not inside the buffer of %zu", size,
                       (unsigned long long)offset, b->len);
        handle_unpin(reg);
        return rc;
    }
    r->memory = b->memory;
    r->transfer = (struct transfer){.direction = direction,
                                    .token = &r->token,
                                    .local = b->ptr + offset,
                                    .len = size};
    return 0;
}

int request_run(struct server *s, struct request *r, struct diag *diag, uint64_t *ret_moved)
{
    r->transfer.deadline_ns = clock_mono_ns() + SERVER_TRANSFER_NS;
    return mover_transfer(s->mover, r->memory, &r->transfer, diag, ret_moved);
}

static S3RdmaStatusC blocking(S3RdmaHandle server, enum transfer_direction direction,
                              S3RdmaBufHandle reg, const char *token, uint64_t offset, size_t size)
{
    struct diag diag = {""};
    struct request r;
    uint64_t moved = 0;
    struct server *s = server_pin(server, &diag);
    int rc =
        s ? request_init(&r, s, direction, reg, token, offset, size, &diag) : S3R_E_RDMA_NOT_FOUND;
    if (!rc) {
        rc = request_run(s, &r, &diag, &moved);
        handle_unpin(reg);
    }
    if (s)
        handle_unpin(server);
    if (rc)
        shim_fail(&diag, rc);
    return (S3RdmaStatusC){rc ? -1 : (ssize_t)moved, shim_status(rc)};
}

/* A blocking call needs no channel: it has an answer of its own. */
S3RdmaStatusC s3rdma_put(S3RdmaHandle server, S3RdmaBufHandle reg, const char *token,
                         uint64_t offset, size_t size, uint16_t channel)
{
    return blocking(server, TRANSFER_READ, reg, token, offset, size);
}

S3RdmaStatusC s3rdma_get(S3RdmaHandle server, S3RdmaBufHandle reg, const char *token,
                         uint64_t offset, size_t size, uint16_t channel)
{
    return blocking(server, TRANSFER_WRITE, reg, token, offset, size);
}

/* ---- RC queues ---- */

int s3rdma_rc_connect(S3RdmaHandle server, const char *client_desc, char *desc, size_t len)
{
    shim_copy_text(desc, len, "");
    return shim_fail(&(struct diag){"no verbs provider in this build, so no RC queues"},
                     S3R_E_RDMA_UNAVAILABLE);
}

void s3rdma_rc_disconnect(S3RdmaHandle server, uint32_t client_qp_num)
{
}
