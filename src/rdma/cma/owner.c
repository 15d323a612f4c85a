/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/crypto.h"
#include "base/log.h"
#include "rdma/cma/cma.h"
#include "rdma/cma/table.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define WITHDRAW_WAIT_NS (2 * NS_PER_S)
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

/* The process's one table. There is one because servers look for one, and because a token's slot
 * means a place in it. It lives while an owner is open. Slots are given out again from the top of a
 * stack: the fewer are in use, the less memory the table has. */
static struct {
    pthread_mutex_t lock;
    /* lock `lock` */
    unsigned owners;
    struct table *map;
    int fd;
    process_id self;
    uint32_t *free_slots; /* those that were used before, `free_count` of them */
    uint32_t *generations;
    unsigned free_count, fresh; /* `fresh`: the first slot that was never used */
    unsigned open_count;
} own = {.lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1};

struct cma_region {
    uint64_t addr, len;
};

struct cma_window {
    uint32_t slot, generation;
};

/* ---- the table ---- */

static void release_table(void)
{
    if (own.map)
        munmap(own.map, TABLE_LEN);
    closep(&own.fd);
    free(own.free_slots);
    free(own.generations);
    own.map = NULL;
    own.fd = -1;
    own.free_slots = NULL;
    own.generations = NULL;
    own.free_count = own.fresh = own.open_count = 0;
}

static void lock_before_fork(void)
{
    pthread_mutex_lock(&own.lock);
}

static void unlock_in_parent(void)
{
    pthread_mutex_unlock(&own.lock);
}

/* The child has no part in its parent's table (it is not even mapped there) and may open its own.
 */
static void forget_in_child(void)
{
    own.map = NULL;
    release_table();
    own.owners = 0;
    pthread_mutex_unlock(&own.lock);
}

static void watch_forks(void)
{
    pthread_atfork(lock_before_fork, unlock_in_parent, forget_in_child);
}

static int no_table(struct diag *diag, const char *call)
{
    return diag_fail(diag, S3R_E_RDMA_UNAVAILABLE, "cma: the window table: %s: %s", call,
                     strerrordesc_np(errno));
}

static void write_header(struct table_header *h, process_id self)
{
    atomic_store(&h->version, TABLE_VERSION);
    atomic_store(&h->len, TABLE_LEN);
    atomic_store(&h->slots, TABLE_SLOTS);
    atomic_store(&h->slot_len, sizeof(struct slot));
    atomic_store(&h->owner, self);
    atomic_store(&h->magic, TABLE_MAGIC);
}

static int create_table(struct diag *diag)
{
    own.free_slots = calloc(TABLE_SLOTS, sizeof *own.free_slots);
    own.generations = calloc(TABLE_SLOTS, sizeof *own.generations);
    if (!own.free_slots || !own.generations)
        return S3R_E_NOMEM;
    int rc = process_self(diag, &own.self);
    if (rc)
        return rc;
    own.fd = memfd_create(TABLE_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (own.fd < 0)
        return no_table(diag, "memfd_create");
    if (fchmod(own.fd, 0600) != 0 || ftruncate(own.fd, TABLE_LEN) != 0)
        return no_table(diag, "ftruncate");
    void *map = mmap(NULL, TABLE_LEN, PROT_READ | PROT_WRITE, MAP_SHARED, own.fd, 0);
    if (map == MAP_FAILED)
        return no_table(diag, "mmap");
    own.map = map;
    if (madvise(map, TABLE_LEN, MADV_DONTFORK) != 0)
        return no_table(diag, "madvise");
    write_header(&own.map->header, own.self);
    if (fcntl(own.fd, F_ADD_SEALS, SEALS) != 0)
        return no_table(diag, "F_ADD_SEALS");
    return 0;
}

/* See cma.h for what is given up here and why. */
static int permit_copies(struct diag *diag)
{
    int scope = process_ptrace_scope();
    if (prctl(PR_GET_DUMPABLE) == 0)
        return diag_fail(diag, S3R_E_RDMA_UNAVAILABLE,
                         "this program is not dumpable, so the kernel lets no server copy from or "
                         "to it");
    if (scope == 3)
        return diag_fail(diag, S3R_E_RDMA_UNAVAILABLE,
                         "kernel.yama.ptrace_scope is 3: no process may copy from another");
    if (scope == 1 && prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY) != 0)
        return diag_fail(diag, S3R_E_RDMA_UNAVAILABLE,
                         "kernel.yama.ptrace_scope is 1, and prctl(PR_SET_PTRACER): %s",
                         strerrordesc_np(errno));
    return 0;
}

static int cma_owner_open(const char *device, const struct sockaddr *local_addr, struct diag *diag,
                          void **ret_owner)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    int rc = permit_copies(diag);
    if (rc)
        return rc;
    pthread_once(&once, watch_forks);
    pthread_mutex_lock(&own.lock);
    if (!own.map)
        rc = create_table(diag);
    if (rc)
        release_table();
    else
        own.owners++;
    pthread_mutex_unlock(&own.lock);
    if (!rc)
        *ret_owner = &own;
    return rc;
}

static void cma_owner_close(void *owner)
{
    pthread_mutex_lock(&own.lock);
    if (--own.owners == 0)
        release_table();
    pthread_mutex_unlock(&own.lock);
}

/* ---- regions and windows ---- */

static int cma_region_add(void *owner, void *ptr, size_t len, struct diag *diag, void **ret_region)
{
    struct cma_region *r = calloc(1, sizeof *r);
    if (!r)
        return S3R_E_NOMEM;
    *r = (struct cma_region){.addr = (uint64_t)(uintptr_t)ptr, .len = len};
    *ret_region = r;
    return 0;
}

static void cma_region_remove(void *owner, void *region)
{
    free(region);
}

static int take_slot(struct cma_window *w, struct diag *diag)
{
    int rc = 0;
    pthread_mutex_lock(&own.lock);
    if (own.free_count > 0)
        w->slot = own.free_slots[--own.free_count];
    else if (own.fresh < TABLE_SLOTS)
        w->slot = own.fresh++;
    else
        rc = diag_fail(diag, S3R_E_BUSY, "cma: all %d windows of this process are in use",
                       TABLE_SLOTS);
    if (!rc) {
        w->generation = ++own.generations[w->slot];
        own.open_count++;
    }
    pthread_mutex_unlock(&own.lock);
    return rc;
}

static void return_slot(const struct cma_window *w)
{
    pthread_mutex_lock(&own.lock);
    own.free_slots[own.free_count++] = w->slot;
    own.open_count--;
    pthread_mutex_unlock(&own.lock);
}

static int cma_window_open(void *owner, void *region, uint64_t off, uint64_t len, struct diag *diag,
                           void **ret_window, struct token *ret_token)
{
    const struct cma_region *r = region;
    CLEANUP(freep) struct cma_window *w = calloc(1, sizeof *w);
    if (!w)
        return S3R_E_NOMEM;
    int rc = take_slot(w, diag);
    if (rc)
        return rc;
    struct token t = {.scheme = TOKEN_CMA, .addr = r->addr + off, .size = len};
    t.cma = (struct token_cma){.pid = process_pid(own.self),
                               .start = process_start(own.self),
                               .slot = w->slot,
                               .key = random_u64()};
    slot_open(&own.map->slots[w->slot], w->generation, t.cma.key, t.addr, t.size);
    *ret_token = t;
    *ret_window = STEAL(w);
    return 0;
}

static int cma_window_withdraw(void *owner, void *window, struct diag *diag)
{
    struct cma_window *w = window;
    int rc = slot_withdraw(&own.map->slots[w->slot], w->generation, own.self, WITHDRAW_WAIT_NS);
    if (rc)
        return diag_fail(diag, rc,
                         "cma: a server is stopped in the middle of a transfer with this window");
    return 0;
}

static void cma_window_close(void *owner, void *window)
{
    struct cma_window *w = window;
    slot_free(&own.map->slots[w->slot], w->generation);
    return_slot(w);
    free(w);
}

static void cma_owner_describe(void *owner, char *out, size_t size)
{
    pthread_mutex_lock(&own.lock);
    snprintf(out, size, "cma: this host, user %u, process %llu, %u windows open, up", geteuid(),
             (unsigned long long)process_pid(own.self), own.open_count);
    pthread_mutex_unlock(&own.lock);
}

const struct owner_ops cma_owner_ops = {
    .name = "cma",
    .promises = PROVIDER_READS | PROVIDER_ANY_MEMORY | PROVIDER_OWN_KEYS,
    .open = cma_owner_open,
    .close = cma_owner_close,
    .region_add = cma_region_add,
    .region_remove = cma_region_remove,
    .window_open = cma_window_open,
    .window_withdraw = cma_window_withdraw,
    .window_close = cma_window_close,
    .describe = cma_owner_describe,
};
