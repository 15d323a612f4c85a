/* SPDX-License-Identifier: Apache-2.0 */
/* pieces.h - a bounded number of pieces of one object under way at a time.
 * Does:     buffers, registered while the object lasts, or parts of the caller's memory; a thread
 *           for each piece in flight; the first error, which stops the others; what carried them.
 * Not here: which piece comes next (stream_put.c, stream_get.c).
 * Units:    bytes.
 * Owns:     buffers and threads until pieces_fini(); a buffer that a stopped server may still use
 *           is left mapped.
 * Threads:  owner; the pieces themselves run on others.
 * Errors:   S3R_E_NOMEM, and what the pieces end with.
 * Limits:   `in_flight` pieces, STREAM_IN_FLIGHT_MAX at most. */
#ifndef S3R_CLIENT_PIECES_H
#define S3R_CLIENT_PIECES_H

#include "base/work.h"
#include "client/client.h"
#include "client/stream.h"

#include <pthread.h>
#include <stdatomic.h>

struct pieces;

struct piece {
    struct pieces *all;
    struct work_job job;
    char *buffer; /* NULL: of the caller's memory, or none yet */
    size_t buffer_len;
    bool is_registered, is_lost;
    /* of the piece that is in it */
    bool is_busy; /* pieces.lock */
    bool is_ended;
    unsigned number; /* from 1 */
    uint64_t off;    /* in the object */
    struct client_memory memory;
    uint64_t crc64;
    struct client_part part;
    struct client_result result;
    struct diag diag;
    int error;
};

struct pieces_config {
    struct client *client;
    const char *bucket, *key;
    const struct client_options *each;
    const struct client_memory *memory; /* NULL: pieces have buffers */
    uint64_t piece_len;
    unsigned in_flight, retries;
    /* Carries one piece: its error. */
    int (*carry)(struct pieces *all, struct piece *p);
    void *arg; /* of carry */
};

struct pieces {
    struct pieces_config config; /* fixed after init */
    struct client_options each;  /* as config.each, stopped by the first error */
    struct piece *rows;
    struct work_pool *pool;
    pthread_mutex_t lock;
    pthread_cond_t ended;
    atomic_int error; /* the first; only ever set under lock */
    /* lock */
    struct diag diag;
    struct client_result last; /* texts and numbers of the pieces that ended well, but headers */
    unsigned rdma_count, http_count;
    bool is_unfenced;
};

int pieces_init(struct pieces *all, const struct pieces_config *config) MUST_CHECK;
/* Stops what runs and waits for it. */
void pieces_fini(struct pieces *all);

/* Row `i`, once it is not busy; the error of the object when there is one. A row whose piece ended
 * and was not looked at yet has is_ended. */
int pieces_wait_row(struct pieces *all, unsigned i, struct piece **ret_piece) MUST_CHECK;
/* Any row that is not busy. */
int pieces_wait_any(struct pieces *all, struct piece **ret_piece) MUST_CHECK;
/* All of them. */
int pieces_wait_all(struct pieces *all) MUST_CHECK;
/* Memory for the next piece: of the row's buffer, or of the caller's memory from `off` on. */
int piece_begin(struct piece *p, unsigned number, uint64_t off, size_t len) MUST_CHECK;
int piece_submit(struct piece *p) MUST_CHECK;
/* The first error is the object's. Returns it. */
int pieces_fail(struct pieces *all, int error, const struct diag *diag);
/* What carried them into the result of the whole; of an error the words too. */
void pieces_report(struct pieces *all, struct diag *diag, struct client_result *result);

/* In flight and piece length for an object of `len` bytes (STREAM_UNKNOWN): as wished, within what
 * is possible. */
int pieces_plan(const struct stream_options *wish, uint64_t piece_len, uint64_t piece_len_min,
                uint64_t len, struct diag *diag, struct stream_options *ret_plan) MUST_CHECK;

#endif
