/* SPDX-License-Identifier: Apache-2.0 */
#include "rdma/loop/loop.h"

#include "base/clock.h"
#include "base/crypto.h"
#include "base/num.h"
#include "rdma/gpu.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define NAME_MAX_LEN 63
#define LOOK_EVERY_MS 1

/* Registered memory of an owner. */
struct loop_region {
    char *ptr;
    char *bytes; /* where they can be touched; NULL: nowhere, a GPU's driver copies them */
    char *mapped;
    size_t mapped_len;
};

struct loop_window {
    struct loop_window *next; /* of the device */
    uint64_t key, addr, len;  /* fixed after open */
    char *bytes;              /* as the region's, of the window */
    bool is_open;
    unsigned users;
};

struct loop_device {
    char name[NAME_MAX_LEN + 1]; /* "" for plain loop, which on the wire is "." */
    bool is_used;
    struct loop_script script;
    struct loop_counts counts;
    unsigned releases;
    struct loop_window *windows;
    /* the last piece written, for loop_write_late() */
    uint64_t late_key, late_addr;
    char *late_bytes;
    size_t late_len;
};

/* Both halves of all devices meet here. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct loop_device devices[LOOP_DEVICES_MAX]; /* lock `lock` */
} loop = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

/* ---- devices ---- */

static struct loop_device *device_locked(const char *name)
{
    for (size_t i = 0; i < LOOP_DEVICES_MAX; i++) {
        struct loop_device *d = &loop.devices[i];
        if (!d->is_used) {
            d->is_used = true;
            snprintf(d->name, sizeof d->name, "%s", name);
        }
        if (strcmp(d->name, name) == 0)
            return d;
    }
    return NULL;
}

static struct loop_device *lock_device(const char *name)
{
    pthread_mutex_lock(&loop.lock);
    struct loop_device *d = device_locked(name);
    if (!d)
        abort(); /* a test with more devices than there are */
    return d;
}

static void unlock(void)
{
    pthread_cond_broadcast(&loop.changed);
    pthread_mutex_unlock(&loop.lock);
}

void loop_script(const char *device, const struct loop_script *script)
{
    lock_device(device)->script = *script;
    unlock();
}

void loop_release(const char *device)
{
    lock_device(device)->releases++;
    unlock();
}

struct loop_counts loop_counts(const char *device)
{
    struct loop_counts counts = lock_device(device)->counts;
    unlock();
    return counts;
}

void loop_reset(void)
{
    pthread_mutex_lock(&loop.lock);
    for (size_t i = 0; i < LOOP_DEVICES_MAX; i++)
        free(loop.devices[i].late_bytes);
    memset(loop.devices, 0, sizeof loop.devices);
    pthread_mutex_unlock(&loop.lock);
}

static int open_device(const char *name, struct diag *diag, void **ret_device)
{
    if (strlen(name) > NAME_MAX_LEN)
        return diag_fail(diag, S3R_E_INVALID_ARGUMENT, "loop: the name is too long");
    pthread_mutex_lock(&loop.lock);
    struct loop_device *d = device_locked(name);
    int rc = d ? d->script.open_error : S3R_E_BUSY;
    unlock();
    if (rc)
        return diag_fail(diag, rc, "loop: it was told not to open");
    *ret_device = d;
    return 0;
}

static void close_device(void *device)
{
}

static void describe(void *device, char *out, size_t size)
{
    struct loop_device *d = device;
    snprintf(out, size, "loop:%s: this process, for tests", d->name);
}

/* ---- windows ---- */

static struct loop_window *find_open(struct loop_device *d, uint64_t key)
{
    struct loop_window *w = d->windows;
    while (w && (w->key != key || !w->is_open))
        w = w->next;
    return w;
}

static int add_registration(struct loop_device *d, struct diag *diag)
{
    pthread_mutex_lock(&loop.lock);
    int rc = d->script.register_error;
    d->counts.registrations += rc == 0;
    unlock();
    return rc ? diag_fail(diag, rc, "loop: it was told not to register") : 0;
}

static int memory_add(void *mover, void *ptr, size_t len, struct diag *diag, void **ret_reg)
{
    int rc = add_registration(mover, diag);
    if (!rc)
        *ret_reg = ptr;
    return rc;
}

static void remove_registration(void *device, void *reg)
{
    struct loop_device *d = device;
    pthread_mutex_lock(&loop.lock);
    d->counts.registrations--;
    unlock();
}

static int add_region(struct loop_device *d, const struct loop_region *like, struct diag *diag,
                      void **ret_region)
{
    struct loop_region *r = malloc(sizeof *r);
    if (!r)
        return S3R_E_NOMEM;
    *r = *like;
    int rc = add_registration(d, diag);
    if (rc)
        free(r);
    else
        *ret_region = r;
    return rc;
}

static int region_add(void *owner, void *ptr, size_t len, struct diag *diag, void **ret_region)
{
    const struct loop_region r = {.ptr = ptr, .bytes = ptr};
    return add_region(owner, &r, diag, ret_region);
}

static int map_export(const struct gpu_export *export, size_t len, struct diag *diag,
                      struct loop_region *r)
{
    r->mapped_len = export->off + len;
    r->mapped = mmap(NULL, r->mapped_len, PROT_READ | PROT_WRITE, MAP_SHARED, export->fd, 0);
    if (r->mapped == MAP_FAILED)
        return diag_fail(diag, S3R_E_RDMA_REGISTER, "loop: the dma-buf cannot be mapped: %s",
                         errno_text(errno));
    r->bytes = r->mapped + export->off;
    return 0;
}

static int device_region_add(void *owner, void *ptr, size_t len, const struct gpu_export *export,
                             struct diag *diag, void **ret_region)
{
    struct loop_device *d = owner;
    struct loop_region r = {.ptr = ptr};
    pthread_mutex_lock(&loop.lock);
    bool is_taken = export ? d->script.takes_dmabufs : d->script.takes_peer_memory;
    d->counts.dmabufs_offered += export != NULL;
    d->counts.peers_offered += export == NULL;
    unlock();
    if (!is_taken)
        return diag_fail(diag, S3R_E_RDMA_REGISTER, "loop: it takes no %s",
                         export ? "dma-buf" : "peer memory");
    int rc = export ? map_export(export, len, diag, &r) : 0;
    if (rc)
        return rc;
    rc = add_region(d, &r, diag, ret_region);
    if (rc && r.mapped)
        munmap(r.mapped, r.mapped_len);
    return rc;
}

static void region_remove(void *owner, void *region)
{
    struct loop_region *r = region;
    remove_registration(owner, NULL);
    if (r->mapped)
        munmap(r->mapped, r->mapped_len);
    free(r);
}

static void window_token(const struct loop_device *d, const struct loop_window *w, struct token *t)
{
    const char *name = d->name[0] ? d->name : ".";
    memset(t, 0, sizeof *t);
    t->scheme = TOKEN_OFI;
    t->addr = w->addr;
    t->size = w->len;
    snprintf(t->ofi.provider, sizeof t->ofi.provider, "loop");
    t->ofi.name_len = strlen(name);
    memcpy(t->ofi.name, name, t->ofi.name_len);
    t->ofi.key = w->key;
}

static int window_open(void *owner, void *region, uint64_t off, uint64_t len, struct diag *diag,
                       void **ret_window, struct token *ret_token)
{
    struct loop_device *d = owner;
    const struct loop_region *r = region;
    struct loop_window *w = calloc(1, sizeof *w);
    if (!w)
        return S3R_E_NOMEM;
    *w = (struct loop_window){.key = random_u64(),
                              .addr = (uint64_t)(uintptr_t)r->ptr + off,
                              .len = len,
                              .bytes = r->bytes ? r->bytes + off : NULL,
                              .is_open = true};
    pthread_mutex_lock(&loop.lock);
    int rc = d->script.window_error;
    if (!rc) {
        w->next = d->windows;
        d->windows = w;
        d->counts.windows++;
        window_token(d, w, ret_token);
    }
    unlock();
    if (rc) {
        free(w);
        return diag_fail(diag, rc, "loop: it was told to open no window");
    }
    *ret_window = w;
    return 0;
}

static int window_withdraw(void *owner, void *window, struct diag *diag)
{
    struct loop_window *w = window;
    struct timespec until = clock_timespec(clock_mono_ns() + LOOP_WITHDRAW_WAIT_MS * NS_PER_MS);
    int timed_out = 0;
    pthread_mutex_lock(&loop.lock);
    w->is_open = false;
    while (w->users > 0 && !timed_out)
        timed_out = pthread_cond_clockwait(&loop.changed, &loop.lock, CLOCK_MONOTONIC, &until);
    int rc = w->users > 0 ? S3R_E_BUSY : 0;
    unlock();
    return rc ? diag_fail(diag, rc, "loop: a transfer is held in this window") : 0;
}

static void window_close(void *owner, void *window)
{
    struct loop_device *d = owner;
    pthread_mutex_lock(&loop.lock);
    struct loop_window **at = &d->windows;
    while (*at && *at != window)
        at = &(*at)->next;
    if (*at)
        *at = (*at)->next;
    d->counts.windows--;
    unlock();
    free(window);
}

/* ---- transfers ---- */

static bool serves(void *mover, const struct token *t)
{
    struct loop_device *d = mover;
    struct token own;
    const struct loop_window w = {.key = 0};
    if (t->scheme != TOKEN_OFI || strcmp(t->ofi.provider, "loop") != 0)
        return false;
    window_token(d, &w, &own);
    return own.ofi.name_len == t->ofi.name_len &&
           memcmp(own.ofi.name, t->ofi.name, own.ofi.name_len) == 0;
}

static void pause_ms(int ms)
{
    struct timespec ts = clock_timespec(ms * NS_PER_MS);
    nanosleep(&ts, NULL);
}

/* Until it is released; a stuck one does not even look at its deadline. */
static int hold(struct loop_device *d, const struct transfer *t, bool is_stuck, struct diag *diag)
{
    int rc = 0;
    pthread_mutex_lock(&loop.lock);
    unsigned releases = d->releases;
    d->counts.held++;
    while (!rc && d->releases == releases) {
        unlock();
        pause_ms(LOOK_EVERY_MS);
        rc = is_stuck ? 0 : transfer_may_go_on(t, diag);
        pthread_mutex_lock(&loop.lock);
    }
    d->counts.held--;
    unlock();
    return rc;
}

static int meet_script(struct loop_device *d, const struct loop_script *s, int piece,
                       const struct transfer *t, struct diag *diag)
{
    if (piece == s->delay_piece)
        pause_ms(s->delay_ms);
    if (piece == s->fail_piece)
        return diag_fail(diag, s->fail_error, "loop: piece %d was told to fail", piece);
    if (piece == s->hold_piece || piece == s->stuck_piece)
        return hold(d, t, piece == s->stuck_piece, diag);
    return 0;
}

static void remember(struct loop_device *d, uint64_t key, uint64_t addr, const void *bytes,
                     size_t len)
{
    free(d->late_bytes);
    d->late_bytes = malloc(len);
    d->late_len = d->late_bytes ? len : 0;
    d->late_key = key;
    d->late_addr = addr;
    if (d->late_bytes)
        memcpy(d->late_bytes, bytes, len);
}

static int copy(const struct loop_window *w, enum transfer_direction direction, uint64_t addr,
                void *local, size_t len, struct diag *diag)
{
    bool is_write = direction == TRANSFER_WRITE;
    void *peer = (void *)(uintptr_t)addr;
    if (!w->bytes)
        return is_write ? gpu_copy_from_host(peer, local, len, diag)
                        : gpu_copy_to_host(local, peer, len, diag);
    void *window = w->bytes + (addr - w->addr);
    memcpy(is_write ? window : local, is_write ? local : window, len);
    return 0;
}

static int move_piece(struct loop_device *d, const struct loop_script *s, int piece,
                      const struct transfer *t, uint64_t done, size_t len, struct diag *diag)
{
    uint64_t addr = t->token->addr + t->window_off + done;
    char *local = (char *)t->local + done;
    pthread_mutex_lock(&loop.lock);
    struct loop_window *w = find_open(d, t->token->ofi.key);
    bool fits = w && addr >= w->addr && span_fits(addr - w->addr, len, w->len);
    if (fits)
        w->users++;
    unlock();
    if (!w)
        return diag_fail(diag, S3R_E_RDMA_PEER, "loop: the window is not open");
    if (!fits)
        return diag_fail(diag, S3R_E_RDMA_BOUNDS, "loop: the piece leaves the window");
    int rc = meet_script(d, s, piece, t, diag);
    if (!rc && len > 0)
        rc = copy(w, t->direction, addr, local, len, diag);
    pthread_mutex_lock(&loop.lock);
    if (!rc && len > 0 && t->direction == TRANSFER_WRITE)
        remember(d, t->token->ofi.key, addr, local, len);
    d->counts.pieces += rc == 0 && len > 0;
    w->users--;
    unlock();
    return rc;
}

static int transfer(void *mover, const struct transfer *t, struct diag *diag, uint64_t *ret_moved)
{
    struct loop_device *d = mover;
    *ret_moved = 0;
    pthread_mutex_lock(&loop.lock);
    struct loop_script s = d->script;
    unlock();
    if (s.needs_memory && !t->registration)
        return diag_fail(diag, S3R_E_RDMA_REGISTER, "loop: the memory is not registered");
    if (s.is_write_only && t->direction == TRANSFER_READ)
        return diag_fail(diag, S3R_E_TOKEN_DECLINED, "loop: it was told not to read");
    uint64_t piece_max = s.piece_len ? s.piece_len : LIMIT_WINDOW_PIECE_LEN;
    int piece = 1;
    do {
        size_t len = (size_t)min_u64(t->len - *ret_moved, piece_max);
        int rc = transfer_may_go_on(t, diag);
        if (!rc)
            rc = move_piece(d, &s, piece++, t, *ret_moved, len, diag);
        if (rc)
            return rc;
        *ret_moved += len;
    } while (*ret_moved < t->len);
    return 0;
}

int loop_write_late(const char *device)
{
    struct loop_device *d = lock_device(device);
    struct loop_window *w = find_open(d, d->late_key);
    int rc = w ? 0 : S3R_E_RDMA_PEER;
    if (w && d->late_len > 0)
        rc = copy(w, TRANSFER_WRITE, d->late_addr, d->late_bytes, d->late_len, NULL);
    unlock();
    return rc;
}

const struct mover_ops loop_mover_ops = {
    .name = "loop",
    .promises = PROVIDER_READS | PROVIDER_ANY_MEMORY | PROVIDER_OWN_KEYS,
    .open = open_device,
    .close = close_device,
    .serves = serves,
    .memory_add = memory_add,
    .memory_remove = remove_registration,
    .transfer = transfer,
    .describe = describe,
};

static int open_owner(const char *device, const struct sockaddr *local_addr, struct diag *diag,
                      void **ret_owner)
{
    return open_device(device, diag, ret_owner);
}

const struct owner_ops loop_owner_ops = {
    .name = "loop",
    .promises = PROVIDER_READS | PROVIDER_OWN_KEYS,
    .open = open_owner,
    .close = close_device,
    .region_add = region_add,
    .device_region_add = device_region_add,
    .region_remove = region_remove,
    .window_open = window_open,
    .window_withdraw = window_withdraw,
    .window_close = window_close,
    .describe = describe,
};
