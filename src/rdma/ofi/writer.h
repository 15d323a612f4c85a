/* SPDX-License-Identifier: Apache-2.0 */
/* writer.h - one connection of a mover to one owner, and a transfer over it.
 * Does:     posts pieces, a few in flight; watches deadline, cancellation and whether the peer is
 *           there at all.
 * Not here: which writer a transfer gets, and for how long they are kept (ofi_mover.c).
 * Units:    bytes, nanoseconds.
 * Owns:     its endpoint; the fabric that it was opened in is the mover's.
 * Threads:  owner: one transfer at a time has a writer to itself.
 * Errors:   S3R_E_RDMA_PEER (refused, gone, or the key is not there), _TRANSFER, _DEADLINE,
 *           S3R_E_CANCELLED. After any error the writer is only good for ofi_writer_close(), and
 *           only after that is nothing in flight.
 * Limits:   OFI_PIECES_MAX pieces in flight. */
#ifndef S3R_RDMA_OFI_WRITER_H
#define S3R_RDMA_OFI_WRITER_H

#include "rdma/ofi/fabric.h"
#include "rdma/ofi/ofi.h"

struct ofi_piece {
    struct fi_context2 context; /* the provider's while in flight; first, so that it is the piece */
    size_t len;                 /* 0: free */
};

struct ofi_writer {
    struct ofi_writer *next;   /* in the mover's list of idle ones */
    struct ofi_fabric *within; /* what it was opened in */
    struct ofi_fabric *own;    /* the endpoint's domain, where it has one to itself */
    struct ofi_endpoint endpoint;
    fi_addr_t peer;
    uint8_t name[TOKEN_OFI_NAME_LEN_MAX];
    size_t name_len;
    struct ofi_piece pieces[OFI_PIECES_MAX];
};

/* Where local memory needs no registration, the writer gets a domain of its own inside `f`: no lock
 * and no progress is then shared with other clients. */
int ofi_writer_open(struct ofi_fabric *f, const struct token_ofi *to, struct diag *diag,
                    struct ofi_writer **ret_writer) MUST_CHECK;
/* Gives a writer that is at rest to another client, in the same fabric: libfabric 1.17 leaks with
 * each endpoint that is opened. False: it is only good for ofi_writer_close(). */
bool ofi_writer_turn(struct ofi_writer *w, const struct token_ofi *to) MUST_CHECK;
/* Ends what is in flight. */
void ofi_writer_close(struct ofi_writer *w);
/* `desc`: of the region that holds t->local, where the fabric needs one. Bounds are the caller's.
 * `ret_moved` is written in any case: pieces that arrived. */
int ofi_writer_run(struct ofi_writer *w, const struct transfer *t, void *desc, struct diag *diag,
                   uint64_t *ret_moved) MUST_CHECK;

#endif
