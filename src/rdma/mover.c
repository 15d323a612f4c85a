/* SPDX-License-Identifier: Apache-2.0 */
#include "rdma/mover.h"

#include "base/log.h"
#include "base/num.h"
#include "rdma/devices.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct rail {
    const struct mover_ops *ops;
    void *handle;
};

struct mover {
    struct rail rails[DEVICES_MAX]; /* fixed after open */
    int count;
    pid_t pid;
    atomic_uint turn;
};

struct mover_memory {
    uint64_t addr;
    size_t len;
    struct {
        void *registration;
        bool is_registered;
    } on[DEVICES_MAX];
};

static int open_rail(const struct device *device, struct diag *diag, void *arg)
{
    struct mover *m = arg;
    struct rail *rail = &m->rails[m->count];
    rail->ops = provider_mover(device->name);
    if (!rail->ops)
        return diag_fail(diag, S3R_E_RDMA_UNAVAILABLE, "no provider %s in this build",
                         device->name);
    int rc = rail->ops->open(device->rest, diag, &rail->handle);
    m->count += rc == 0;
    return rc;
}

int mover_open(const char *devices, struct diag *diag, struct mover **ret_mover)
{
    struct mover *m = calloc(1, sizeof *m);
    if (!m)
        return S3R_E_NOMEM;
    m->pid = getpid();
    int rc = devices_open(devices, diag, open_rail, m);
    if (rc) {
        free(m);
        return rc;
    }
    *ret_mover = m;
    return 0;
}

void mover_close(struct mover *m)
{
    if (!m)
        return;
    for (int i = m->count; m->pid == getpid() && i-- > 0;)
        m->rails[i].ops->close(m->rails[i].handle);
    free(m);
}

int mover_rail_count(const struct mover *m)
{
    return m->count;
}

void mover_describe(struct mover *m, int rail, char *out, size_t size)
{
    if (rail < 0 || rail >= m->count)
        snprintf(out, size, "no such rail");
    else
        m->rails[rail].ops->describe(m->rails[rail].handle, out, size);
}

/* Rails that can serve a token take turns. -1: none. */
static int rail_for(struct mover *m, const struct token *t)
{
    unsigned turn = atomic_fetch_add_explicit(&m->turn, 1, memory_order_relaxed);
    for (int i = 0; i < m->count; i++) {
        int rail = (int)((turn + (unsigned)i) % (unsigned)m->count);
        if (m->rails[rail].ops->serves(m->rails[rail].handle, t))
            return rail;
    }
    return -1;
}

static int pick_rail(struct mover *m, const struct token *t, enum transfer_direction direction,
                     struct diag *diag, int *ret_rail)
{
    int rail = rail_for(m, t);
    if (rail < 0)
        return diag_fail(diag, S3R_E_TOKEN_DECLINED, "no RDMA device here serves %s tokens%s%s",
                         token_scheme_name(t->scheme),
                         t->scheme == TOKEN_OFI ? " of provider " : "",
                         t->scheme == TOKEN_OFI ? t->ofi.provider : "");
    const struct mover_ops *ops = m->rails[rail].ops;
    if (direction == TRANSFER_READ && !(ops->promises & PROVIDER_READS))
        return diag_fail(diag, S3R_E_TOKEN_DECLINED, "%s cannot read from a window", ops->name);
    *ret_rail = rail;
    return 0;
}

int mover_serves(struct mover *m, const struct token *t, enum transfer_direction direction,
                 struct diag *diag)
{
    int rail;
    return pick_rail(m, t, direction, diag, &rail);
}

const char *mover_provider_name(struct mover *m, const struct token *t)
{
    int rail = rail_for(m, t);
    return rail < 0 ? "none" : m->rails[rail].ops->name;
}

bool mover_takes_mapped_files(struct mover *m, const struct token *t)
{
    int rail = rail_for(m, t);
    return rail >= 0 && m->rails[rail].ops->promises & PROVIDER_MAPPED_FILES;
}

int mover_memory_add(struct mover *m, void *ptr, size_t len, struct diag *diag,
                     struct mover_memory **ret_memory)
{
    uint64_t end;
    struct diag why = {""};
    int rc = S3R_E_RDMA_UNAVAILABLE, registered = 0;
    if (!ptr || len == 0 || !checked_add((uint64_t)(uintptr_t)ptr, len, &end))
        return diag_fail(diag, S3R_E_INVALID_ARGUMENT, "no memory that can be registered");
    CLEANUP(freep) struct mover_memory *memory = calloc(1, sizeof *memory);
    if (!memory)
        return S3R_E_NOMEM;
    memory->addr = (uint64_t)(uintptr_t)ptr;
    memory->len = len;
    for (int i = 0; i < m->count; i++) {
        diag_clear(&why);
        int failed = m->rails[i].ops->memory_add(m->rails[i].handle, ptr, len, &why,
                                                 &memory->on[i].registration);
        memory->on[i].is_registered = failed == 0;
        registered += failed == 0;
        if (failed) {
            rc = failed;
            log_warn("rdma %s: %zu bytes are not registered: %s", m->rails[i].ops->name, len,
                     diag_text(&why, failed));
        }
    }
    if (registered == 0)
        return diag_fail(diag, rc, "%s", diag_text(&why, rc));
    *ret_memory = STEAL(memory);
    return 0;
}

void mover_memory_remove(struct mover *m, struct mover_memory *memory)
{
    if (!memory)
        return;
    for (int i = 0; m->pid == getpid() && i < m->count; i++) {
        if (memory->on[i].is_registered)
            m->rails[i].ops->memory_remove(m->rails[i].handle, memory->on[i].registration);
    }
    free(memory);
}

static int check_bounds(const struct mover_memory *memory, const struct transfer *t,
                        struct diag *diag)
{
    uint64_t addr = (uint64_t)(uintptr_t)t->local, end;
    if (!checked_add(t->token->addr, t->token->size, &end) ||
        !span_fits(t->window_off, t->len, t->token->size))
        return diag_fail(diag, S3R_E_RDMA_BOUNDS,
                         "%zu bytes at %llu do not fit the window of %llu bytes", t->len,
                         (unsigned long long)t->window_off, (unsigned long long)t->token->size);
    if (!checked_add(addr, t->len, &end) ||
        (memory && (addr < memory->addr || !span_fits(addr - memory->addr, t->len, memory->len))))
        return diag_fail(diag, S3R_E_INVALID_ARGUMENT,
                         "the local memory is not what is registered");
    return 0;
}

int mover_transfer(struct mover *m, struct mover_memory *memory, const struct transfer *t,
                   struct diag *diag, uint64_t *ret_moved)
{
    int rail;
    struct transfer one = *t;
    *ret_moved = 0;
    if (m->pid != getpid())
        return diag_fail(diag, S3R_E_RDMA_UNAVAILABLE, "opened before fork(): open it again");
    int rc = check_bounds(memory, t, diag);
    if (!rc)
        rc = pick_rail(m, t->token, t->direction, diag, &rail);
    if (rc)
        return rc;
    const struct rail *r = &m->rails[rail];
    if (memory && !memory->on[rail].is_registered && !(r->ops->promises & PROVIDER_ANY_MEMORY))
        return diag_fail(diag, S3R_E_RDMA_REGISTER, "the memory is not registered with %s",
                         r->ops->name);
    if (!memory && !(r->ops->promises & PROVIDER_ANY_MEMORY))
        return diag_fail(diag, S3R_E_RDMA_REGISTER, "%s needs registered memory", r->ops->name);
    one.registration = memory ? memory->on[rail].registration : NULL;
    rc = transfer_may_go_on(&one, diag);
    return rc ? rc : r->ops->transfer(r->handle, &one, diag, ret_moved);
}
