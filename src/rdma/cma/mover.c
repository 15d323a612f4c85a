/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/num.h"
#include "rdma/cma/cma.h"
#include "rdma/cma/peer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define ENTRY_PAUSE_NS (100 * 1000)
#define ENTRY_WAIT_NS (2 * NS_PER_S)

struct cma_mover {
    process_id self;
    struct peers *peers;
};

struct piece {
    uint64_t remote;
    char *local;
    size_t len;
};

static void mover_destroy(struct cma_mover *m)
{
    if (!m)
        return;
    peers_destroy(m->peers);
    free(m);
}

static void mover_destroyp(struct cma_mover **m)
{
    mover_destroy(*m);
}

/* Is the call there and allowed at all? Seccomp would deny it for ourselves, too. */
static int check_calls(struct diag *diag)
{
    char from = 1, to = 0;
    struct iovec local = {.iov_base = &to, .iov_len = 1};
    struct iovec remote = {.iov_base = &from, .iov_len = 1};
    if (process_vm_readv(getpid(), &local, 1, &remote, 1, 0) != 1)
        return diag_fail(diag, S3R_E_RDMA_UNAVAILABLE, "process_vm_readv: %s%s",
                         strerrordesc_np(errno), errno == EPERM ? " (a seccomp filter?)" : "");
    if (process_ptrace_scope() == 3)
        return diag_fail(diag, S3R_E_RDMA_UNAVAILABLE,
                         "kernel.yama.ptrace_scope is 3: no process may copy from another");
    return 0;
}

static int cma_mover_open(const char *device, struct diag *diag, void **ret_mover)
{
    CLEANUP(mover_destroyp) struct cma_mover *m = calloc(1, sizeof *m);
    if (!m)
        return S3R_E_NOMEM;
    int rc = check_calls(diag);
    if (!rc)
        rc = process_self(diag, &m->self);
    if (!rc)
        rc = peers_create(&m->peers);
    if (!rc)
        *ret_mover = STEAL(m);
    return rc;
}

static void cma_mover_close(void *mover)
{
    mover_destroy(mover);
}

static bool cma_serves(void *mover, const struct token *t)
{
    return t->scheme == TOKEN_CMA;
}

/* The kernel needs no registration: it finds the pages itself. */
static int cma_memory_add(void *mover, void *ptr, size_t len, struct diag *diag, void **ret_reg)
{
    *ret_reg = NULL;
    return 0;
}

static void cma_memory_remove(void *mover, void *reg)
{
}

static int refused(struct diag *diag, uint64_t pid)
{
    int scope = process_ptrace_scope();
    if (scope > 0)
        return diag_fail(diag, S3R_E_RDMA_UNAVAILABLE,
                         "cma: the kernel refuses to copy to or from process %llu: "
                         "kernel.yama.ptrace_scope is %d, and the process did not permit it",
                         (unsigned long long)pid, scope);
    return diag_fail(diag, S3R_E_RDMA_UNAVAILABLE,
                     "cma: the kernel refuses to copy to or from process %llu: another user, a "
                     "program that is not dumpable, or a seccomp filter",
                     (unsigned long long)pid);
}

static int copy_failed(struct diag *diag, uint64_t pid, int error)
{
    switch (error) {
    case ESRCH:
        return diag_fail(diag, S3R_E_RDMA_PEER, "process %llu is gone", (unsigned long long)pid);
    case EPERM:
    case EACCES:
        return refused(diag, pid);
    case EFAULT:
        return diag_fail(diag, S3R_E_RDMA_TRANSFER,
                         "cma: memory of the window, or the server's own, cannot be accessed");
    default:
        return diag_fail(diag, S3R_E_RDMA_TRANSFER, "cma: copying to or from process %llu: %s",
                         (unsigned long long)pid, strerrordesc_np(error));
    }
}

/* A short count means that the rest begins with a page that failed: going on says why. */
static int copy(enum transfer_direction direction, uint64_t pid, struct piece piece,
                struct diag *diag)
{
    while (piece.len > 0) {
        struct iovec local = {.iov_base = piece.local, .iov_len = piece.len};
        struct iovec remote = {.iov_base = (void *)(uintptr_t)piece.remote, .iov_len = piece.len};
        ssize_t n = direction == TRANSFER_WRITE
                        ? process_vm_writev((pid_t)pid, &local, 1, &remote, 1, 0)
                        : process_vm_readv((pid_t)pid, &local, 1, &remote, 1, 0);
        if (n < 0)
            return copy_failed(diag, pid, errno);
        if (n == 0)
            return copy_failed(diag, pid, EFAULT);
        piece.local += n;
        piece.remote += (uint64_t)n;
        piece.len -= (size_t)n;
    }
    return 0;
}

/* Waits for an entry while others have all of them. */
static int mark(const struct cma_mover *m, const struct transfer *t, struct table *table,
                struct diag *diag, struct slot_mark *ret_mark)
{
    const struct token_cma *cma = &t->token->cma;
    int64_t give_up_ns = clock_mono_ns() + ENTRY_WAIT_NS;
    if (cma->slot >= TABLE_SLOTS)
        return S3R_E_RDMA_PEER;
    for (;;) {
        int rc = slot_mark(&table->slots[cma->slot], m->self, cma->key, ret_mark);
        if (rc != S3R_E_BUSY)
            return rc;
        if (clock_mono_ns() >= give_up_ns)
            return diag_fail(diag, S3R_E_BUSY, "cma: the window is in use by %d others",
                             SLOT_HOLDERS);
        rc = transfer_may_go_on(t, diag);
        if (rc)
            return rc;
        struct timespec pause = clock_timespec(ENTRY_PAUSE_NS);
        nanosleep(&pause, NULL);
    }
}

/* A token names exactly its window: whatever differs is somebody's invention. */
static int check_window(const struct slot_mark *mark, const struct transfer *t, struct diag *diag)
{
    unsigned needed = t->direction == TRANSFER_WRITE ? SLOT_WRITES : SLOT_READS;
    if (mark->addr != t->token->addr || mark->len != t->token->size)
        return diag_fail(diag, S3R_E_RDMA_BOUNDS, "the token's window is not the one that is open");
    if (!(mark->directions & needed))
        return diag_fail(diag, S3R_E_RDMA_BOUNDS, "the window is not open in this direction");
    return 0;
}

/* One piece, or with len 0 only the question whether the window is open. */
static int move_piece(const struct cma_mover *m, struct peer *peer, const struct transfer *t,
                      const struct piece *piece, struct diag *diag)
{
    struct slot_mark held;
    int rc = mark(m, t, peer_table(peer), diag, &held);
    if (rc == S3R_E_RDMA_PEER)
        return diag_fail(diag, rc, "the window was withdrawn, or never was");
    if (rc)
        return rc;
    rc = check_window(&held, t, diag);
    if (!rc && !peer_is_current(peer))
        rc = diag_fail(diag, S3R_E_RDMA_PEER, "process %llu is gone",
                       (unsigned long long)t->token->cma.pid);
    if (!rc)
        rc = copy(t->direction, t->token->cma.pid, *piece, diag);
    slot_unmark(&held);
    return rc;
}

static int move_pieces(const struct cma_mover *m, struct peer *peer, const struct transfer *t,
                       struct diag *diag, uint64_t *moved)
{
    struct piece piece = {.remote = t->token->addr + t->window_off, .local = t->local};
    do {
        piece.len = (size_t)min_u64(t->len - *moved, LIMIT_WINDOW_PIECE_LEN);
        int rc = transfer_may_go_on(t, diag);
        if (!rc)
            rc = move_piece(m, peer, t, &piece, diag);
        if (rc)
            return rc;
        *moved += piece.len;
        piece.local += piece.len;
        piece.remote += piece.len;
    } while (*moved < t->len);
    return 0;
}

static int cma_transfer(void *mover, const struct transfer *t, struct diag *diag,
                        uint64_t *ret_moved)
{
    struct cma_mover *m = mover;
    struct peer *peer;
    *ret_moved = 0;
    int rc = peers_get(m->peers, &t->token->cma, diag, &peer);
    if (rc)
        return rc;
    rc = move_pieces(m, peer, t, diag, ret_moved);
    peers_put(m->peers, peer);
    return rc;
}

static void cma_mover_describe(void *mover, char *out, size_t size)
{
    struct cma_mover *m = mover;
    snprintf(out, size, "cma: this host, user %u, %u processes known, up", geteuid(),
             peers_count(m->peers));
}

const struct mover_ops cma_mover_ops = {
    .name = "cma",
    .promises = PROVIDER_READS | PROVIDER_ANY_MEMORY | PROVIDER_OWN_KEYS | PROVIDER_MAPPED_FILES,
    .open = cma_mover_open,
    .close = cma_mover_close,
    .serves = cma_serves,
    .memory_add = cma_memory_add,
    .memory_remove = cma_memory_remove,
    .transfer = cma_transfer,
    .describe = cma_mover_describe,
};
