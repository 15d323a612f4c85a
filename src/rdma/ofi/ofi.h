/* SPDX-License-Identifier: Apache-2.0 */
/* ofi.h - the libfabric provider: one-sided transfers over TCP (`ofi:tcp`) and what else libfabric
 * drives (`ofi:verbs;ofi_rxm`, `ofi:efa`, `ofi:cxi`).
 * Does:     both tables of provider.h. Device names: PROVIDER, PROVIDER@ADDRESS[:PORT[-PORT]],
 *           PROVIDER@DOMAIN. On libfabric 1.17 the wire `tcp` is its provider `net`.
 * Not here: choosing among rails (rdma/mover.h, rdma/owner.h); the token's text (rdma/token.h).
 * Units:    bytes.
 * Owns:     as provider.h says.
 * Threads:  any; close comes last.
 * Errors:   S3R_E_RDMA_UNAVAILABLE (no libfabric, provider, address or domain: the diag says it),
 *           _REGISTER, _BOUNDS, _PEER, _TRANSFER, _DEADLINE, S3R_E_CANCELLED.
 * Limits:   OFI_WRITERS_IDLE_MAX idle connections to clients (fewer where the process may open few
 *           descriptors: each takes 14); OFI_PIECES_MAX operations of one transfer in flight, of
 *           LIMIT_WINDOW_PIECE_LEN at most each.
 *
 * What libfabric 1.17 does, and what the code does about it (kept by tests/unit/test_ofi*.c):
 *  - `net` says that it progresses by itself, and does not: a driver thread waits in its queue.
 *  - A key that is not there, a range outside its region, a direction not allowed: the owner drops
 *    that connection, nothing is touched, the writer gets ECANCELED. Each transfer has a connection
 *    and a domain to itself while it runs, so that a bad one costs nobody else.
 *  - All ranges that an operation names are looked at before its first byte, an empty one at the
 *    very end of a region is inside, one beyond is not. So each operation names both ends of its
 *    token's window as well, and a token that claims more than its window moves no part of it.
 *  - `net` looks for a key in a tree that another thread changes without a lock, which ended in
 *    crashes and refused keys: regions are opened and closed while the driver is out of it.
 *  - Closing a region does not stop a message that is already being received into it, nor a read
 *    that is being sent out of it. The end of its connection does, or of the endpoint. So a
 *    withdraw closes the region and then shuts down every connection's socket and sees to it that
 *    libfabric closes them; where that cannot be seen (and on other wires than `net`) it closes the
 *    endpoint and opens another at the same address and port with the same other windows. Either
 *    way their tokens stay good. Not after window_settle(): nothing is half-way then.
 *  - An endpoint that closes under a half-made connection leaves a pointer to itself in its domain:
 *    the whole domain goes with it.
 *  - Each endpoint that is opened leaks an fi_info (0.8 KB), each connection that is accepted
 *    another, and what is allocated between them keeps the heap from shrinking (5 KB for each). So
 *    endpoints are kept: a writer at rest is turned to another client rather than closed.
 *  - A request to connect may be lost, and a port that refuses is dialled for ever in silence: the
 *    mover dials anew, and looks by itself whether anybody listens.
 *  - An answer to a read that is shorter than asked for counts as whole: the mover clears the
 *    memory beforehand, so that it holds nothing of another client.
 *  - Writes are posted with delivery-complete; a provider that has no such thing is refused. */
#ifndef S3R_RDMA_OFI_OFI_H
#define S3R_RDMA_OFI_OFI_H

#include "rdma/provider.h"

#define OFI_WRITERS_IDLE_MAX 64
#define OFI_PIECES_MAX 4

extern const struct mover_ops ofi_mover_ops;
extern const struct owner_ops ofi_owner_ops;

#endif
