/* SPDX-License-Identifier: Apache-2.0 */
/* server.h - the S3 server: what one instance holds, and its life.
 * Does:     opens store, RDMA devices, pools and listener in that order; drains and closes them in
 *           the reverse one.
 * Not here: a request's life (request.h); options (config.h).
 * Units:    none.
 * Owns:     all its parts.
 * Threads:  owner for start and stop; the fields are fixed after start.
 * Errors:   what its parts report, with a text that says what to do.
 * Limits:   base/limits.h. */
#ifndef S3R_SERVER_SERVER_H
#define S3R_SERVER_SERVER_H

#include "base/buffers.h"
#include "base/work.h"
#include "rdma/mover.h"
#include "server/config.h"
#include "server/http.h"
#include "server/metrics.h"
#include "server/staging.h"
#include "store/store.h"

#include <stdatomic.h>

/* Blocks for what goes through bodies, and how many of them are kept when they are not in use. */
#define BODY_BLOCK_LEN (1 * MIB)
#define BODY_BLOCKS_KEPT 16

/* What blocks on different things waits in different queues, so that a slow one delays only its
 * own kind: the index; data files and syncs; the wire; helpers of a transfer. */
enum pool { POOL_INDEX, POOL_DISK, POOL_TRANSFER, POOL_LANES, POOL_COUNT };

struct server {
    const struct config *config;
    struct store *store;
    struct mover *mover;            /* NULL: RDMA is off */
    char rdma_reason[S3R_DIAG_MAX]; /* why it is off */
    struct staging *staging;
    struct work_pool *pools[POOL_COUNT];
    struct buffer_pool *blocks;
    struct http *http;
    char address[128]; /* HOST:PORT that was bound */
    struct metrics metrics;
    /* Bytes per second of late, each way, 0: not known. */
    atomic_uint_fast64_t rdma_rate[RDMA_WAYS];
    atomic_bool is_draining; /* new requests are refused */
    atomic_bool is_stopping; /* those under way, too: no more work is handed to a pool */
    atomic_size_t working;   /* requests that a worker has or will have */
};

int server_start(const struct config *config, struct diag *diag,
                 struct server **ret_server) MUST_CHECK;
/* Takes no new connections, lets requests end within the drain time, then closes everything. */
void server_stop(struct server *s);

#endif
