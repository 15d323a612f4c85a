/* SPDX-License-Identifier: Apache-2.0 */
#include "rdma/owner.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/num.h"
#include "rdma/devices.h"
#include "rdma/gauge.h"
#include "rdma/rail.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BUCKETS 1024
#define FENCE_PAUSE_NS (50 * NS_PER_MS)

/* Locks, in the order of taking: owner.lock; owner_window.fence alone, never with the other. */

/* Registered memory. It goes when the last count is given back, its windows are fenced, and nobody
 * is opening a window in it. */
struct region {
    struct region *next; /* of the same bucket */
    void *ptr;           /* fixed after create */
    size_t len;
    void *on[DEVICES_MAX]; /* what the provider of each rail calls it */
    bool is_on[DEVICES_MAX];
    /* owner.lock */
    unsigned count, openers;
    bool is_closing;
    struct owner_window *windows;
};

struct owner_window {
    struct owner *owner; /* fixed after open */
    pid_t pid;
    int rail;
    struct token token;
    char text[LIMIT_TOKEN_LEN_MAX + 1];
    /* owner.lock */
    unsigned refs;
    struct region *region; /* NULL once it is fenced and off its list */
    struct owner_window *next, **link;
    /* lock `fence` */
    pthread_mutex_t fence;
    void *handle;
    bool is_fenced;
};

struct owner {
    struct rail rails[DEVICES_MAX]; /* fixed after open, but for what rail says */
    int count;
    pid_t pid;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* a region lost an opener, or is closed */
    /* lock `lock` */
    unsigned refs; /* the opener's, one for each window */
    bool is_closed;
    unsigned turn;
    uint64_t registered_len;
    struct region *buckets[BUCKETS];
};

static bool is_forked(const struct owner *o)
{
    return o->pid != getpid();
}

static int forked(struct diag *diag)
{
    return diag_fail(diag, S3R_E_RDMA_UNAVAILABLE,
                     "this RDMA handle was opened before fork(): open one in the child");
}

/* ---- the handle ---- */

struct open_arg {
    struct owner *owner;
    const struct sockaddr *local_addr;
};

static int open_rail(const struct device *device, struct diag *diag, void *arg)
{
    struct open_arg *a = arg;
    struct rail *rail = &a->owner->rails[a->owner->count];
    rail->ops = provider_owner(device->name);
    if (!rail->ops)
        return diag_fail(diag, S3R_E_RDMA_UNAVAILABLE, "no provider %s in this build",
                         device->name);
    int rc = rail->ops->open(device->rest, a->local_addr, diag, &rail->handle);
    a->owner->count += rc == 0;
    return rc;
}

int owner_open(const char *devices, const struct sockaddr *local_addr, struct diag *diag,
               struct owner **ret_owner)
{
    struct owner *o = calloc(1, sizeof *o);
    if (!o)
        return S3R_E_NOMEM;
    struct open_arg arg = {.owner = o, .local_addr = local_addr};
    if (!devices)
        devices = getenv("S3RDMA_DEVICE");
    o->pid = getpid();
    o->refs = 1;
    int rc = devices_open(devices ? devices : "", diag, open_rail, &arg);
    if (rc) {
        free(o);
        return rc;
    }
    pthread_mutex_init(&o->lock, NULL);
    pthread_cond_init(&o->changed, NULL);
    *ret_owner = o;
    return 0;
}

/* Unlocks. */
static void owner_unref_locked(struct owner *o)
{
    bool is_last = --o->refs == 0;
    pthread_mutex_unlock(&o->lock);
    if (!is_last)
        return;
    pthread_cond_destroy(&o->changed);
    pthread_mutex_destroy(&o->lock);
    free(o);
}

int owner_rail_count(const struct owner *o)
{
    return o->count;
}

static int healthy_count(const struct owner *o, int64_t now_ns)
{
    int healthy = 0;
    for (int i = 0; i < o->count; i++)
        healthy += rail_is_healthy(&o->rails[i], now_ns);
    return healthy;
}

int owner_healthy_count(struct owner *o)
{
    if (is_forked(o))
        return 0;
    pthread_mutex_lock(&o->lock);
    int healthy = healthy_count(o, clock_mono_ns());
    pthread_mutex_unlock(&o->lock);
    return healthy;
}

void owner_describe(struct owner *o, int rail, char *out, size_t size)
{
    if (is_forked(o) || rail < 0 || rail >= o->count)
        snprintf(out, size, "no such rail");
    else
        o->rails[rail].ops->describe(o->rails[rail].handle, out, size);
}

uint64_t owner_registered_len(struct owner *o)
{
    if (is_forked(o))
        return 0;
    pthread_mutex_lock(&o->lock);
    uint64_t len = o->registered_len;
    pthread_mutex_unlock(&o->lock);
    return len;
}

/* ---- windows: fencing and their end ---- */

/* What is fenced is closed in the provider too: nothing of it is left there. */
static int fence(struct owner_window *w, struct diag *diag)
{
    int rc = 0;
    const struct rail *rail = &w->owner->rails[w->rail];
    pthread_mutex_lock(&w->fence);
    if (!w->is_fenced && !(rc = rail->ops->window_withdraw(rail->handle, w->handle, diag))) {
        rail->ops->window_close(rail->handle, w->handle);
        w->is_fenced = true;
    }
    pthread_mutex_unlock(&w->fence);
    return rc;
}

static void fence_for_certain(struct owner_window *w)
{
    struct diag diag = {""};
    for (int tries = 0; fence(w, &diag) != 0; tries++) {
        if (tries == 0)
            log_warn("rdma: a window cannot be ended yet: %s", diag.text);
        struct timespec pause = clock_timespec(FENCE_PAUSE_NS);
        nanosleep(&pause, NULL);
    }
}

static void unlink_window(struct owner_window *w)
{
    if (!w->region)
        return;
    *w->link = w->next;
    if (w->next)
        w->next->link = w->link;
    w->region = NULL;
}

static void link_window(struct region *r, struct owner_window *w)
{
    w->region = r;
    w->next = r->windows;
    w->link = &r->windows;
    if (w->next)
        w->next->link = &w->next;
    r->windows = w;
}

/* True when it was the last: the caller frees it once the lock is let go. */
static bool window_unref(struct owner_window *w)
{
    return --w->refs == 0;
}

static void window_free(struct owner_window *w)
{
    pthread_mutex_destroy(&w->fence);
    free(w);
}

const char *owner_window_token(const struct owner_window *w)
{
    return w->text;
}

bool owner_window_address(const struct owner_window *w, struct sockaddr_storage *ret_addr)
{
    return token_address(&w->token, ret_addr);
}

void owner_window_settle(struct owner_window *w)
{
    const struct rail *rail = &w->owner->rails[w->rail];
    if (w->pid != getpid() || !rail->ops->window_settle)
        return;
    pthread_mutex_lock(&w->fence);
    if (!w->is_fenced)
        rail->ops->window_settle(rail->handle, w->handle);
    pthread_mutex_unlock(&w->fence);
}

int owner_window_withdraw(struct owner_window *w, struct diag *diag)
{
    return w->pid != getpid() ? forked(diag) : fence(w, diag);
}

void owner_window_close(struct owner_window *w)
{
    if (!w)
        return;
    if (w->pid != getpid()) {
        /* The rest is the parent's, and locks may be held for ever by threads that are not here. */
        free(w);
        return;
    }
    struct owner *o = w->owner;
    fence_for_certain(w);
    pthread_mutex_lock(&o->lock);
    unlink_window(w);
    bool is_last = window_unref(w);
    owner_unref_locked(o);
    if (is_last)
        window_free(w);
}

/* ---- blame ---- */

void owner_window_blame(struct owner_window *w)
{
    struct owner *o = w->owner;
    if (w->pid != getpid())
        return;
    pthread_mutex_lock(&o->lock);
    rail_blame(&o->rails[w->rail], clock_mono_ns());
    pthread_mutex_unlock(&o->lock);
}

/* ---- regions ---- */

static struct region **bucket_of(struct owner *o, const void *ptr)
{
    uint64_t x = (uint64_t)(uintptr_t)ptr * UINT64_C(0x9e3779b97f4a7c15);
    return &o->buckets[x >> 54];
}

static struct region **find_region(struct owner *o, const void *ptr)
{
    struct region **at = bucket_of(o, ptr);
    while (*at && (*at)->ptr != ptr)
        at = &(*at)->next;
    return at;
}

/* A region being closed by another thread is waited for. */
static struct region *settled_region(struct owner *o, const void *ptr)
{
    struct region *r;
    while ((r = *find_region(o, ptr)) && r->is_closing)
        pthread_cond_wait(&o->changed, &o->lock);
    return r;
}

static void region_release(struct owner *o, struct region *r)
{
    for (int i = 0; i < o->count; i++)
        if (r->is_on[i])
            o->rails[i].ops->region_remove(o->rails[i].handle, r->on[i]);
    free(r);
}

static int region_create(struct owner *o, void *ptr, size_t len, struct diag *diag,
                         struct region **ret_region)
{
    struct region *r = calloc(1, sizeof *r);
    if (!r)
        return S3R_E_NOMEM;
    *r = (struct region){.ptr = ptr, .len = len, .count = 1};
    int rc = rails_add_memory(o->rails, o->count, ptr, len, diag, r->on, r->is_on);
    if (rc)
        free(r);
    else
        *ret_region = r;
    return rc;
}

static int register_locked(struct owner *o, void *ptr, size_t len, struct diag *diag)
{
    struct region *r = settled_region(o, ptr);
    if (r && r->len != len)
        return diag_fail(diag, S3R_E_INVALID_ARGUMENT,
                         "%zu bytes: at that address %zu are registered already", len, r->len);
    if (r) {
        r->count++;
        return 0;
    }
    int rc = region_create(o, ptr, len, diag, &r);
    if (rc)
        return rc;
    struct region **bucket = bucket_of(o, ptr);
    r->next = *bucket;
    *bucket = r;
    gauge_add(&o->registered_len, len);
    return 0;
}

int owner_register(struct owner *o, void *ptr, size_t len, struct diag *diag)
{
    uint64_t end;
    if (is_forked(o))
        return forked(diag);
    if (!ptr || len == 0)
        return diag_fail(diag, S3R_E_INVALID_ARGUMENT, "there is no memory to register");
    if (!checked_add((uint64_t)(uintptr_t)ptr, len, &end))
        return diag_fail(diag, S3R_E_INVALID_ARGUMENT,
                         "%zu bytes at that address wrap around the end of memory", len);
    pthread_mutex_lock(&o->lock);
    int rc = register_locked(o, ptr, len, diag);
    pthread_mutex_unlock(&o->lock);
    return rc;
}

/* Lets the lock go while it waits. S3R_E_BUSY: a window cannot be fenced; all are withdrawn. */
static int fence_region(struct owner *o, struct region *r)
{
    int rc = 0;
    while (!rc && r->windows) {
        struct owner_window *w = r->windows;
        w->refs++;
        pthread_mutex_unlock(&o->lock);
        rc = fence(w, NULL);
        pthread_mutex_lock(&o->lock);
        if (!rc)
            unlink_window(w);
        if (window_unref(w))
            window_free(w);
    }
    return rc;
}

static void unlink_region(struct owner *o, struct region *r)
{
    *find_region(o, r->ptr) = r->next;
    gauge_sub(&o->registered_len, r->len);
}

static int close_region(struct owner *o, struct region *r)
{
    r->is_closing = true;
    while (r->openers > 0)
        pthread_cond_wait(&o->changed, &o->lock);
    int rc = fence_region(o, r);
    if (rc)
        r->is_closing = false;
    else
        unlink_region(o, r);
    pthread_cond_broadcast(&o->changed);
    return rc;
}

int owner_deregister(struct owner *o, void *ptr)
{
    if (is_forked(o))
        return S3R_E_RDMA_UNAVAILABLE;
    pthread_mutex_lock(&o->lock);
    struct region *r = settled_region(o, ptr);
    bool is_last = r && r->count == 1;
    int rc = r ? 0 : S3R_E_RDMA_NOT_FOUND;
    if (r && !is_last)
        r->count--;
    if (is_last)
        rc = close_region(o, r);
    pthread_mutex_unlock(&o->lock);
    if (is_last && !rc)
        region_release(o, r);
    return rc;
}

static void close_all_regions(struct owner *o)
{
    for (size_t i = 0; i < BUCKETS; i++)
        for (struct region *r; (r = o->buckets[i]) != NULL;) {
            if (close_region(o, r) != 0)
                continue;
            pthread_mutex_unlock(&o->lock);
            region_release(o, r);
            pthread_mutex_lock(&o->lock);
        }
}

void owner_close(struct owner *o)
{
    if (!o)
        return;
    if (is_forked(o)) {
        /* regions and rails are the parent's; this copy's windows look at nothing of it */
        free(o);
        return;
    }
    pthread_mutex_lock(&o->lock);
    close_all_regions(o);
    o->is_closed = true;
    for (int i = o->count; i-- > 0;)
        o->rails[i].ops->close(o->rails[i].handle);
    owner_unref_locked(o);
}

/* ---- opening a window ---- */

/* Healthy rails in turn; when there is none, all are tried again. -1: none that has the region and
 * was not tried. */
static int pick_rail(struct owner *o, const struct region *r, const bool *was_tried)
{
    int64_t now_ns = clock_mono_ns();
    unsigned turn = o->turn++;
    bool is_all_clear = healthy_count(o, now_ns) == 0;
    for (int i = 0; is_all_clear && i < o->count; i++)
        o->rails[i].skipped_until_ns = 0;
    for (unsigned i = 0; i < (unsigned)o->count; i++) {
        int rail = (int)((turn + i) % (unsigned)o->count);
        if (r->is_on[rail] && !was_tried[rail] && rail_is_healthy(&o->rails[rail], now_ns))
            return rail;
    }
    return -1;
}

static int open_on(struct owner_window *w, struct region *r, uint64_t off, uint64_t len,
                   struct diag *diag)
{
    const struct rail *rail = &w->owner->rails[w->rail];
    int rc =
        rail->ops->window_open(rail->handle, r->on[w->rail], off, len, diag, &w->handle, &w->token);
    if (rc)
        return rc;
    rc = token_print(&w->token, w->text, sizeof w->text);
    if (!rc)
        return 0;
    w->is_fenced = false;
    fence_for_certain(w);
    return diag_fail(diag, S3R_E_INTERNAL, "the window's token cannot be printed");
}

/* The region is held open by `openers` meanwhile. */
static int open_on_some_rail(struct owner_window *w, struct region *r, uint64_t off, uint64_t len,
                             struct diag *diag)
{
    bool was_tried[DEVICES_MAX] = {false};
    int rc = S3R_E_RDMA_UNAVAILABLE;
    for (;;) {
        pthread_mutex_lock(&w->owner->lock);
        w->rail = pick_rail(w->owner, r, was_tried);
        pthread_mutex_unlock(&w->owner->lock);
        if (w->rail < 0)
            return rc;
        was_tried[w->rail] = true;
        if (!(rc = open_on(w, r, off, len, diag)))
            return 0;
    }
}

static int hold_region(struct owner *o, void *ptr, uint64_t off, uint64_t len, struct diag *diag,
                       struct region **ret_region)
{
    int rc = 0;
    pthread_mutex_lock(&o->lock);
    struct region *r = *find_region(o, ptr);
    if (!r || r->is_closing)
        rc = diag_fail(diag, S3R_E_RDMA_NOT_FOUND, "no memory is registered at that address");
    else if (!span_fits(off, len, r->len))
        rc = diag_fail(diag, S3R_E_RDMA_BOUNDS,
                       "%llu bytes at %llu are not inside the %zu that are registered",
                       (unsigned long long)len, (unsigned long long)off, r->len);
    else
        r->openers++;
    pthread_mutex_unlock(&o->lock);
    if (!rc)
        *ret_region = r;
    return rc;
}

int owner_window_open(struct owner *o, void *ptr, uint64_t off, uint64_t len, struct diag *diag,
                      struct owner_window **ret_window)
{
    struct region *r;
    if (is_forked(o))
        return forked(diag);
    struct owner_window *w = calloc(1, sizeof *w);
    if (!w)
        return S3R_E_NOMEM;
    *w = (struct owner_window){.owner = o, .pid = o->pid, .refs = 1};
    pthread_mutex_init(&w->fence, NULL);
    int rc = hold_region(o, ptr, off, len, diag, &r);
    if (rc) {
        window_free(w);
        return rc;
    }
    rc = open_on_some_rail(w, r, off, len, diag);
    pthread_mutex_lock(&o->lock);
    r->openers--;
    pthread_cond_broadcast(&o->changed);
    if (!rc) {
        link_window(r, w);
        o->refs++;
    }
    pthread_mutex_unlock(&o->lock);
    if (rc)
        window_free(w);
    else
        *ret_window = w;
    return rc;
}
