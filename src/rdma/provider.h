/* SPDX-License-Identifier: Apache-2.0 */
/* provider.h - what a wire must offer, to the side that moves bytes and to the side that owns them.
 * Does:     the two tables of calls behind which cma, ofi, loop (and verbs) live.
 * Not here: choosing among rails, handles, counting registrations (mover.h, owner.h).
 * Units:    bytes; deadlines in monotonic nanoseconds (base/clock.h), 0: none.
 * Owns:     opaque pointers belong to the provider between open and close.
 * Threads:  any call from any thread, unless it says otherwise; a close comes last.
 * Errors:   S3R_E_RDMA_*; the diag says what the kernel or the library said.
 * Limits:   per provider.
 *
 * The mover never relies on what a provider does not promise, so each states in `promises` what was
 * tested of it: see PROVIDER_*. */
#ifndef S3R_RDMA_PROVIDER_H
#define S3R_RDMA_PROVIDER_H

#include "base/attr.h"
#include "base/error.h"
#include "rdma/token.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

/* Windows: reading (PUT) is offered as well as writing (GET). */
#define PROVIDER_READS 1u
/* The sending side may use memory it has not registered. */
#define PROVIDER_ANY_MEMORY 2u
/* ... also that of a mapped file: only the kernel touches it, and a page that the disk cannot
 * deliver is an error of the transfer, never a signal. */
#define PROVIDER_MAPPED_FILES 8u
/* The owner chooses the window's key. */
#define PROVIDER_OWN_KEYS 4u

enum transfer_direction {
    TRANSFER_WRITE, /* into the window: a GET */
    TRANSFER_READ,  /* out of the window: a PUT */
};

/* One transfer between local memory and a part of a window. The mover has checked the bounds; the
 * provider cuts it into pieces of at most LIMIT_WINDOW_PIECE_LEN and asks transfer_may_go_on()
 * before each. len 0 posts nothing: 0, or the refusal where the provider can tell at little cost.
 */
struct transfer {
    enum transfer_direction direction;
    const struct token *token;
    uint64_t window_off; /* from the window's start */
    void *local;
    size_t len;
    void *registration; /* from mover_ops.memory_add for memory that holds `local`; NULL if none */
    int64_t deadline_ns;
    bool (*is_cancelled)(void *arg); /* may be NULL */
    void *cancel_arg;
};

/* 0, S3R_E_CANCELLED or S3R_E_RDMA_DEADLINE. */
int transfer_may_go_on(const struct transfer *t, struct diag *diag) MUST_CHECK;

/* The side that moves bytes. */
struct mover_ops {
    const char *name;
    unsigned promises;
    /* `device` is the name after the provider's own ("tcp@127.0.0.1" of "ofi:tcp@127.0.0.1"). */
    int (*open)(const char *device, struct diag *diag, void **ret_mover);
    void (*close)(void *mover);
    bool (*serves)(void *mover, const struct token *t);
    int (*memory_add)(void *mover, void *ptr, size_t len, struct diag *diag, void **ret_reg);
    void (*memory_remove)(void *mover, void *reg);
    /* Blocking. When it returns, nothing of it is in flight any more: no late copy out of or into
     * `local` can happen, whatever the result. *ret_moved is written always and counts whole pieces
     * that arrived. */
    int (*transfer)(void *mover, const struct transfer *t, struct diag *diag, uint64_t *ret_moved);
    /* One line for people: the device, its address, its state. */
    void (*describe)(void *mover, char *out, size_t size);
};

struct gpu_export; /* gpu.h */

/* The side that owns the memory. After a fork() no call is made in the child, close included: what
 * a provider holds is the parent's, its descriptors must be close-on-exec. */
struct owner_ops {
    const char *name;
    unsigned promises;
    /* `local_addr`: the address of the HTTP connection to the server, when the device names none;
     * may be NULL. */
    int (*open)(const char *device, const struct sockaddr *local_addr, struct diag *diag,
                void **ret_owner);
    void (*close)(void *owner);
    int (*region_add)(void *owner, void *ptr, size_t len, struct diag *diag, void **ret_region);
    /* Optional (NULL: it reaches no GPU): the same of a GPU's memory, which no processor may touch.
     * `export` shows it as a dma-buf, the caller's; NULL: the adapter's driver is to know the
     * memory by its address (peer memory). */
    int (*device_region_add)(void *owner, void *ptr, size_t len, const struct gpu_export *export,
                             struct diag *diag, void **ret_region);
    void (*region_remove)(void *owner, void *region);
    /* Opens [off, off + len) of the region to whoever has the token. */
    int (*window_open)(void *owner, void *region, uint64_t off, uint64_t len, struct diag *diag,
                       void **ret_window, struct token *ret_token);
    /* Optional (NULL): the server's reply said that the window's transfer is complete, so nothing
     * is half-way. Where only closing the endpoint, with all that the process has in flight, fences
     * for certain, a withdraw then need not. Never after a failure or without a reply. */
    void (*window_settle)(void *owner, void *window);
    /* When it returned 0, nothing reads or writes the window any more. S3R_E_BUSY: a server that
     * was stopped in the middle still may; ask again. */
    int (*window_withdraw)(void *owner, void *window, struct diag *diag);
    /* After a withdraw. */
    void (*window_close)(void *owner, void *window);
    void (*describe)(void *owner, char *out, size_t size);
};

/* NULL when there is no provider of that name. */
const struct mover_ops *provider_mover(const char *name);
const struct owner_ops *provider_owner(const char *name);

#endif
