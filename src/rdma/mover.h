/* SPDX-License-Identifier: Apache-2.0 */
/* mover.h - a server's half: every device it was given, and transfers over whichever fits a token.
 * Does:     opens a device list, registers staging memory on every rail, picks the rail by the
 *           token, moves bytes in pieces until the deadline or a cancellation.
 * Not here: who may ask for a transfer (server/); handles (shim.c of s3rdma.h).
 * Units:    bytes; deadlines in monotonic nanoseconds, 0: none.
 * Owns:     the memory registered stays the caller's and must outlive the registration.
 * Threads:  any; closing comes last. After fork() a child's copy transfers nothing
 *           (S3R_E_RDMA_UNAVAILABLE).
 * Errors:   S3R_E_RDMA_UNAVAILABLE (no device; the diag says of each why), S3R_E_TOKEN_DECLINED (no
 *           rail serves the token), S3R_E_RDMA_BOUNDS, _PEER, _TRANSFER, _DEADLINE,
 *           S3R_E_CANCELLED.
 * Limits:   base/limits.h. */
#ifndef S3R_RDMA_MOVER_H
#define S3R_RDMA_MOVER_H

#include "rdma/provider.h"

struct mover;
struct mover_memory; /* registered on every rail */

/* A comma-separated list of device names. With several, one that cannot be opened is a warning in
 * the log as long as one other can. */
int mover_open(const char *devices, struct diag *diag, struct mover **ret_mover) MUST_CHECK;
void mover_close(struct mover *m);
int mover_rail_count(const struct mover *m);
/* One line a rail. Returns the rails described. */
void mover_describe(struct mover *m, int rail, char *out, size_t size);

/* 0, or S3R_E_TOKEN_DECLINED with the reason: which rail would serve it, at no cost on the wire. */
int mover_serves(struct mover *m, const struct token *t, enum transfer_direction direction,
                 struct diag *diag) MUST_CHECK;
/* "cma", "ofi": the provider that would. Only after mover_serves() said 0. */
const char *mover_provider_name(struct mover *m, const struct token *t);

/* May a TRANSFER_WRITE for this token be given a mapped file (PROVIDER_MAPPED_FILES)? Likewise. */
bool mover_takes_mapped_files(struct mover *m, const struct token *t);

int mover_memory_add(struct mover *m, void *ptr, size_t len, struct diag *diag,
                     struct mover_memory **ret_memory) MUST_CHECK;
void mover_memory_remove(struct mover *m, struct mover_memory *memory);

/* t->registration is ignored; `memory` holds t->local, or is NULL where the provider allows any
 * memory. Checks [window_off, window_off + len) against the token's size before anything moves.
 * *ret_moved is written always: the bytes of whole pieces that arrived. A refusal of the kernel or
 * of the device (S3R_E_RDMA_UNAVAILABLE, _REGISTER, S3R_E_TOKEN_DECLINED) is a decline: nothing
 * moved. S3R_E_BUSY: too many transfers with that window or client. */
int mover_transfer(struct mover *m, struct mover_memory *memory, const struct transfer *t,
                   struct diag *diag, uint64_t *ret_moved) MUST_CHECK;

#endif
