/* SPDX-License-Identifier: Apache-2.0 */
/* loop.h - a provider inside one process, with faults to order: for tests.
 * Does:     both halves of the provider `loop`: bytes are copied with memcpy; a script per device
 *           delays, fails or holds a chosen piece and refuses registrations and windows. A GPU's
 *           memory it maps where it is shown a dma-buf; peer memory the GPU's driver copies.
 * Not here: anything between processes. It opens only when a device `loop` or `loop:NAME` is named.
 * Units:    bytes, milliseconds, pieces counted from 1 in each transfer.
 * Owns:     scripts and counts live until loop_reset().
 * Threads:  any; owner for loop_reset().
 * Errors:   those that a script orders; S3R_E_RDMA_PEER for a window that is not open.
 * Limits:   LOOP_DEVICES_MAX names.
 * Tokens are ofi1 with the provider "loop" and the device's name as the endpoint's. */
#ifndef S3R_RDMA_LOOP_LOOP_H
#define S3R_RDMA_LOOP_LOOP_H

#include "rdma/provider.h"

#define LOOP_DEVICES_MAX 8
#define LOOP_WITHDRAW_WAIT_MS 50

extern const struct mover_ops loop_mover_ops;
extern const struct owner_ops loop_owner_ops;

/* All zero: nothing goes wrong. Errors are S3R_E_ codes. */
struct loop_script {
    int open_error, register_error, window_error;
    int fail_piece, fail_error;
    int delay_piece, delay_ms;
    int hold_piece;     /* held in the middle until loop_release(), or the transfer must end */
    int stuck_piece;    /* the same, but blind to deadlines and cancellation */
    size_t piece_len;   /* 0: LIMIT_WINDOW_PIECE_LEN */
    bool needs_memory;  /* as a device that wants registered memory */
    bool is_write_only; /* as a device without reads */
    bool takes_dmabufs, takes_peer_memory; /* of a GPU; as an adapter that reaches it so */
};

struct loop_counts {
    unsigned registrations, windows;         /* now */
    unsigned pieces;                         /* moved so far */
    unsigned held;                           /* transfers held or stuck now */
    unsigned dmabufs_offered, peers_offered; /* a GPU's memory so far, taken or not */
};

/* `device` is what follows "loop:", "" for plain `loop`. */
void loop_script(const char *device, const struct loop_script *script);
void loop_release(const char *device);
struct loop_counts loop_counts(const char *device);
/* Writes the last piece that was written to this device once more, as a fabric may that delivers a
 * packet late: 0 if it landed, S3R_E_RDMA_PEER if its window was not open any more. */
int loop_write_late(const char *device) MUST_CHECK;
/* Forgets all devices: none may be open. */
void loop_reset(void);

#endif
