/* SPDX-License-Identifier: Apache-2.0 */
/* server.h - the server half of libs3rdma: its objects.
 * Does:     what server.c (handle, buffers, blocking calls) and async.c (channels, posted calls)
 *           share.
 * Not here: the interface (include/s3rdma.h).
 * Units:    bytes.
 * Owns:     a server owns its buffers, host memory, channels; what is left goes with it.
 * Threads:  any.
 * Errors:   S3R_E_*.
 * Limits:   CHANNELS_MAX; per channel min(max_wr, cq_depth) calls posted and not yet polled. */
#ifndef S3R_RDMA_SHIM_SERVER_H
#define S3R_RDMA_SHIM_SERVER_H

#include "base/work.h"
#include "rdma/mover.h"
#include "s3rdma.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define CHANNELS_MAX 0xffff /* 0xffff itself means none */
#define SERVER_THREADS 8
#define SERVER_QUEUE_MAX 65536
/* No call of the interface has a deadline of its own; none may take for ever. */
#define SERVER_TRANSFER_NS (30 * INT64_C(1000000000))

struct op;

struct channel {
    struct op *first, **last; /* finished, in order */
    unsigned posted;          /* and not polled yet */
};

struct buffer {
    struct buffer *next, **link; /* of the server; lock `server.lock` */
    struct server *server;       /* this and what follows: fixed after create */
    void *handle;
    struct mover_memory *memory;
    char *ptr;
    size_t len;
};

struct host_buffer {
    struct host_buffer *next;
    void *ptr;
    size_t len;
};

struct server {
    struct mover *mover; /* fixed after init */
    struct work_pool *pool;
    pid_t pid;
    unsigned posted_max;
    pthread_mutex_t lock;
    pthread_cond_t finished; /* a posted call */
    /* lock `lock` */
    unsigned refs; /* the handle's, one for each op */
    struct buffer *buffers;
    struct host_buffer *host_buffers;
    struct channel *channels[CHANNELS_MAX];
    uint16_t next_channel;
    struct op *ops;
};

/* A call as it came, checked as far as it can be without the wire. */
struct request {
    struct token token;
    struct transfer transfer;
    struct mover_memory *memory;
};

/* Pins the server that a handle names, unless it came over a fork. */
struct server *server_pin(S3RdmaHandle handle, struct diag *diag);
/* Pins the buffer, if it is that server's, and fills in the request. */
int request_init(struct request *r, struct server *s, enum transfer_direction direction,
                 S3RdmaBufHandle reg, const char *token, uint64_t offset, size_t size,
                 struct diag *diag) MUST_CHECK;
int request_run(struct server *s, struct request *r, struct diag *diag,
                uint64_t *ret_moved) MUST_CHECK;
/* Unlocks. */
void server_unref_locked(struct server *s);
/* Once the pool is gone: drops what was not polled, ends ids that were not freed. */
void server_drop_ops(struct server *s);

#endif
