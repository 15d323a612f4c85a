// SPDX-License-Identifier: Apache-2.0
#include "base/clock.h"
#include "base/crypto.h"
#include "base/log.h"
#include "base/num.h"
#include "rdma/gpu.h"
#include "rdma/ofi/fabric.h"
#include "rdma/ofi/maps.h"
#include "rdma/ofi/ofi.h"
#include "rdma/ofi/strays.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <rdma/fi_errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The driver's longest wait: after it, it looks whether windows are still out. */
#define DRIVE_WAIT_MS 100
/* It goes on for a while without windows, where that costs nothing: a server that comes late then
 * learns at once that the key is gone, rather than at its deadline. */
#define DRIVE_ON_NS (10 * NS_PER_S)

/* Fences between two that renew the domain: libfabric 1.17 never forgets who was connected. */
#define CUTS_MAX 256

/* There is one endpoint for all windows. A fence ends all its connections, and with them whatever
 * is half-way on one. Where that cannot be seen to have worked, it closes the endpoint, with its
 * whole domain, and opens another at the same address and port with the other windows' keys. Either
 * way tokens that are out stay good, and what was in flight ends in an error that the server may
 * retry. Endpoints are not closed at each fence because libfabric 1.17 leaks with each that is
 * opened; the domain goes with the endpoint because it leaves half-made connections in there that
 * point to the closed one. */
struct ofi_owner {
    /* fixed after open */
    const struct ofi_lib *lib;
    struct ofi_device device;
    pid_t pid;
    pthread_mutex_t lock;
    /* lock; `changed` is signalled at each change of a bool below */
    pthread_cond_t changed;
    struct ofi_fabric *fabric; /* the pointer is fixed, its domain is not */
    struct ofi_endpoint endpoint;
    bool has_endpoint;
    uint16_t port;
    uint8_t name[TOKEN_OFI_NAME_LEN_MAX];
    size_t name_len;
    bool is_held; /* the driver stays out of the queue: regions change, or there is a fence */
    uint64_t fence_count; /* windows that are withdrawn at the same time share a fence */
    unsigned cut_count;   /* since the domain was opened */
    struct ofi_window *windows;
    size_t windows_out;
    int64_t last_window_ns; /* when the last one was withdrawn */
    /* The driver: a thread that looks into the queue while windows are out, where the provider
     * moves nothing by itself. */
    pthread_t driver;
    bool has_driver, driver_must_end, is_driving;
};

struct ofi_region {
    char *ptr;
    size_t len;
    uint64_t access;
    bool is_gpu;
    struct ofi_gpu gpu;
};

struct ofi_window {
    struct ofi_window *next;
    const struct ofi_region *region; /* outlives it */
    void *ptr;
    size_t len;
    uint64_t key;
    struct fid_mr *mr; /* NULL: a window of 0 bytes, or one that a fence could not open again */
    bool is_out, is_settled;
};

static bool may_rest(const struct ofi_owner *o)
{
    return o->is_held || !o->has_endpoint ||
           (o->windows_out == 0 &&
            (!o->endpoint.can_wait || clock_mono_ns() - o->last_window_ns > DRIVE_ON_NS));
}

static void *drive(void *arg)
{
    struct ofi_owner *o = arg;
    pthread_mutex_lock(&o->lock);
    while (!o->driver_must_end) {
        if (may_rest(o)) {
            pthread_cond_wait(&o->changed, &o->lock);
            continue;
        }
        o->is_driving = true;
        pthread_mutex_unlock(&o->lock);
        struct fi_cq_entry entry;
        /* Errors in the queue are those of peers: their business. */
        if (ofi_endpoint_wait(&o->endpoint, &entry, DRIVE_WAIT_MS) == -FI_EAVAIL) {
            struct fi_cq_err_entry err = {0};
            (void)fi_cq_readerr(o->endpoint.cq, &err, 0);
        }
        pthread_mutex_lock(&o->lock);
        o->is_driving = false;
        pthread_cond_broadcast(&o->changed);
    }
    pthread_mutex_unlock(&o->lock);
    return NULL;
}

/* With the lock, and is_held or driver_must_end set: on return the driver is not in the queue. */
static void stop_driving(struct ofi_owner *o)
{
    while (o->is_driving) {
        if (o->endpoint.can_wait)
            (void)fi_cq_signal(o->endpoint.cq);
        pthread_cond_wait(&o->changed, &o->lock);
    }
}

/* With the lock: waits until nobody holds the driver. */
static void await_turn(struct ofi_owner *o)
{
    while (o->is_held)
        pthread_cond_wait(&o->changed, &o->lock);
}

/* With the lock, which it may let go meanwhile: until release() the driver is not in the queue.
 * Regions are opened and closed so, because `net` of 1.17 looks for a key in a tree that others
 * change without a lock. It is also what orders the driver's use of memory and the callers'. */
static void hold(struct ofi_owner *o)
{
    await_turn(o);
    o->is_held = true;
    stop_driving(o);
}

static void release(struct ofi_owner *o)
{
    o->is_held = false;
    pthread_cond_broadcast(&o->changed);
}

/* With the lock. */
static int start_driver(struct ofi_owner *o, struct diag *diag)
{
    if (!o->fabric->must_drive || o->has_driver)
        return 0;
    /* Signals are the program's: its handlers do not run on our thread. */
    sigset_t all, was;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &was);
    int err = pthread_create(&o->driver, NULL, drive, o);
    pthread_sigmask(SIG_SETMASK, &was, NULL);
    if (err)
        return diag_fail(diag, S3R_E_RDMA_UNAVAILABLE, "ofi: no thread: %s", strerrordesc_np(err));
    o->has_driver = true;
    return 0;
}

static int open_at(struct ofi_owner *o, uint16_t port, struct diag *diag)
{
    diag_clear(diag);
    int rc = o->fabric->domain ? 0 : ofi_fabric_renew(o->fabric, diag);
    return rc == 0 ? ofi_endpoint_open(o->fabric, port, diag, &o->endpoint) : rc;
}

/* With the lock (or before anybody else has the owner). At the port it had, else one of the
 * device's range, else any. */
static int open_endpoint(struct ofi_owner *o, struct diag *diag)
{
    int rc = S3R_E_RDMA_UNAVAILABLE;
    struct diag why = {0};
    unsigned low = o->device.port_low, count = (unsigned)o->device.port_high - low + 1;
    if (o->port)
        rc = open_at(o, o->port, &why);
    if (rc != 0 && low == 0)
        rc = open_at(o, 0, &why);
    /* Start anywhere, so that processes that share a range do not all try the same ports. */
    unsigned start = low ? (unsigned)(random_u64() % count) : 0;
    for (unsigned i = 0; rc != 0 && low && i < count; i++)
        rc = open_at(o, (uint16_t)(low + (start + i) % count), &why);
    if (rc != 0 && low)
        return diag_fail(diag, S3R_E_RDMA_UNAVAILABLE, "ofi:%s: no port of %u-%u is free: %s",
                         o->device.named, low, low + count - 1, why.text);
    if (rc != 0)
        return diag_fail(diag, rc, "%s", diag_text(&why, rc));
    rc = ofi_endpoint_name(&o->endpoint, o->name, &o->name_len, diag);
    if (rc != 0) {
        ofi_endpoint_close(&o->endpoint);
        return rc;
    }
    o->has_endpoint = true;
    if (o->device.is_ip) {
        struct sockaddr_storage addr = {0};
        memcpy(&addr, o->name, min_u64(o->name_len, sizeof(addr)));
        o->port = ofi_address_port(&addr);
    }
    return 0;
}

/* Nobody drives. Windows' regions are closed. */
static void close_endpoint(struct ofi_owner *o)
{
    struct strays strays = {0};
    if (o->has_endpoint && o->device.is_ip) {
        struct sockaddr_storage at = {0};
        memcpy(&at, o->name, min_u64(o->name_len, sizeof(at)));
        strays_cut(&at, &strays);
    }
    o->has_endpoint = false;
    ofi_endpoint_close(&o->endpoint);
    if (o->fabric && o->fabric->domain) {
        (void)fi_close(&o->fabric->domain->fid);
        o->fabric->domain = NULL;
    }
    strays_close(&strays);
}

static void owner_free(struct ofi_owner *o)
{
    if (o->has_driver) {
        pthread_mutex_lock(&o->lock);
        o->driver_must_end = true;
        pthread_cond_broadcast(&o->changed);
        stop_driving(o);
        pthread_mutex_unlock(&o->lock);
        pthread_join(o->driver, NULL);
    }
    close_endpoint(o);
    ofi_fabric_close(o->fabric);
    pthread_cond_destroy(&o->changed);
    pthread_mutex_destroy(&o->lock);
    free(o);
}

static int open_device(struct ofi_owner *o, const char *device, const struct sockaddr *local_addr,
                       struct diag *diag)
{
    int rc = ofi_device_parse(device, o->lib->minor, diag, &o->device);
    if (rc != 0)
        return rc;
    /* Software copies bytes itself, and must not touch these. */
    o->device.wants_gpus = !o->device.is_software && gpu_has_driver();
    struct sockaddr_storage addr = o->device.addr;
    bool needs_address = o->device.is_ip && !o->device.domain[0];
    if (needs_address && !o->device.has_addr)
        ofi_address_pick(local_addr, &addr);
    rc = ofi_fabric_open(o->lib, &o->device, needs_address ? &addr : NULL, diag, &o->fabric);
    return rc == 0 ? open_endpoint(o, diag) : rc;
}

static int owner_open_device(const char *device, const struct sockaddr *local_addr,
                             struct diag *diag, void **ret_owner)
{
    CLEANUP(ofi_signals_restorep) struct ofi_signals signals;
    ofi_signals_save(&signals);
    const struct ofi_lib *lib;
    int rc = ofi_lib_get(diag, &lib);
    if (rc != 0)
        return rc;
    struct ofi_owner *o = calloc(1, sizeof(*o));
    if (!o)
        return S3R_E_NOMEM;
    o->lib = lib;
    o->pid = getpid();
    pthread_mutex_init(&o->lock, NULL);
    pthread_cond_init(&o->changed, NULL);
    rc = open_device(o, device, local_addr, diag);
    if (rc != 0) {
        owner_free(o);
        return rc;
    }
    *ret_owner = o;
    return 0;
}

static void owner_close_device(void *owner)
{
    struct ofi_owner *o = owner;
    /* In a forked child libfabric's threads are not there, and its locks may be held for ever. */
    if (o && o->pid == getpid())
        owner_free(o);
}

static int region_add(void *owner, void *ptr, size_t len, struct diag *diag, void **ret_region)
{
    const struct ofi_owner *o = owner;
    bool is_writable;
    /* Its pages move under an adapter; software looks them up anew each time. */
    if (!o->device.is_software && gpu_memory_type(ptr) == GPU_MANAGED)
        return diag_fail(diag, S3R_E_RDMA_REGISTER, "ofi:%s cannot keep managed memory in place",
                         o->device.named);
    int rc = maps_check(ptr, len, diag, &is_writable);
    if (rc != 0)
        return rc;
    struct ofi_region *region = calloc(1, sizeof(*region));
    if (!region)
        return S3R_E_NOMEM;
    region->ptr = ptr;
    region->len = len;
    /* libfabric copies small messages itself: into memory that is not writable that is a fault of
     * this process, not an error. */
    region->access = FI_REMOTE_READ | (is_writable ? FI_REMOTE_WRITE : 0);
    *ret_region = region;
    return 0;
}

static void region_remove(void *owner, void *region)
{
    struct ofi_region *r = region;
    if (r->is_gpu)
        closep(&r->gpu.fd);
    free(r);
}

static int register_memory(struct ofi_owner *o, const struct ofi_region *r, void *ptr, size_t len,
                           uint64_t key, struct diag *diag, struct fid_mr **ret_mr)
{
    if (r->is_gpu)
        return ofi_gpu_memory_open(&o->endpoint, &r->gpu, ptr, len, r->access, key, diag, ret_mr);
    return ofi_memory_open(&o->endpoint, ptr, len, r->access, key, diag, ret_mr);
}

/* Windows are registered one by one: could they be? */
static int try_region(struct ofi_owner *o, const struct ofi_region *r, struct diag *diag)
{
    struct fid_mr *mr = NULL;
    pthread_mutex_lock(&o->lock);
    hold(o);
    int rc = o->has_endpoint ? 0 : open_endpoint(o, diag);
    if (rc == 0)
        rc = register_memory(o, r, r->ptr, r->len, random_u64(), diag, &mr);
    if (rc == 0)
        (void)fi_close(&mr->fid);
    release(o);
    pthread_mutex_unlock(&o->lock);
    return rc;
}

static int device_region_add(void *owner, void *ptr, size_t len, const struct gpu_export *export,
                             struct diag *diag, void **ret_region)
{
    struct ofi_owner *o = owner;
    if (!o->fabric->reaches_gpus)
        return diag_fail(diag, S3R_E_RDMA_REGISTER, "ofi:%s cannot reach a GPU's memory",
                         o->device.named);
    struct ofi_region *r = calloc(1, sizeof(*r));
    if (!r)
        return S3R_E_NOMEM;
    *r = (struct ofi_region){.ptr = ptr,
                             .len = len,
                             .access = FI_REMOTE_READ | FI_REMOTE_WRITE,
                             .is_gpu = true,
                             .gpu = {.fd = -1, .base = ptr, .ordinal = gpu_ordinal(ptr)}};
    int rc = 0;
    if (export) {
        r->gpu.off = export->off;
        r->gpu.fd = fcntl(export->fd, F_DUPFD_CLOEXEC, 0);
        if (r->gpu.fd < 0)
            rc = diag_fail(diag, S3R_E_RDMA_REGISTER, "dup of a dma-buf: %s", errno_text(errno));
    }
    if (rc == 0)
        rc = try_region(o, r, diag);
    if (rc == 0)
        *ret_region = r;
    else
        region_remove(o, r);
    return rc;
}

/* With the lock. */
static int window_register(struct ofi_owner *o, struct ofi_window *w, struct diag *diag,
                           struct token *token)
{
    int rc = o->has_endpoint ? 0 : open_endpoint(o, diag);
    if (rc == 0)
        rc = start_driver(o, diag);
    w->key = random_u64();
    /* Nothing is ever sent to a window of 0 bytes, so there is nothing to register. */
    if (rc == 0 && w->len > 0)
        rc = register_memory(o, w->region, w->ptr, w->len, w->key, diag, &w->mr);
    if (rc != 0)
        return rc;
    if (w->mr)
        w->key = fi_mr_key(w->mr);
    w->is_out = true;
    w->next = o->windows;
    o->windows = w;
    o->windows_out++;
    token->ofi.key = w->key;
    token->ofi.name_len = o->name_len;
    memcpy(token->ofi.name, o->name, o->name_len);
    return 0;
}

static int window_open(void *owner, void *region, uint64_t off, uint64_t len, struct diag *diag,
                       void **ret_window, struct token *ret_token)
{
    struct ofi_owner *o = owner;
    const struct ofi_region *r = region;
    if (!span_fits(off, len, r->len))
        return diag_fail(diag, S3R_E_RDMA_BOUNDS,
                         "%llu bytes at offset %llu do not lie inside %zu registered bytes",
                         (unsigned long long)len, (unsigned long long)off, r->len);
    CLEANUP(freep) struct ofi_window *w = calloc(1, sizeof(*w));
    if (!w)
        return S3R_E_NOMEM;
    w->region = r;
    w->ptr = r->ptr + off;
    w->len = (size_t)len;
    struct token token = {.scheme = TOKEN_OFI, .size = len};
    token.addr = o->fabric->is_virtual_addressed ? (uint64_t)(uintptr_t)w->ptr : 0;
    memcpy(token.ofi.provider, o->device.named, sizeof(token.ofi.provider));
    pthread_mutex_lock(&o->lock);
    hold(o);
    int rc = window_register(o, w, diag, &token);
    release(o);
    pthread_mutex_unlock(&o->lock);
    if (rc != 0)
        return rc;
    *ret_token = token;
    *ret_window = STEAL(w);
    return 0;
}

static void window_settle(void *owner, void *window)
{
    ((struct ofi_window *)window)->is_settled = true;
}

/* With the lock, nobody drives. Whoever connects meanwhile finds no region of the window. False:
 * not seen to have worked. */
static bool cut(struct ofi_owner *o)
{
    if (!o->has_endpoint || o->cut_count >= CUTS_MAX)
        return false;
    o->cut_count++;
    return ofi_endpoint_disconnect(&o->endpoint);
}

/* With the lock, nobody drives. Another endpoint in another domain, in which all windows are. */
static void renew(struct ofi_owner *o)
{
    for (struct ofi_window *w = o->windows; w; w = w->next) {
        if (w->mr)
            (void)fi_close(&w->mr->fid);
        w->mr = NULL;
    }
    close_endpoint(o);
    o->cut_count = 0;
    struct diag why = {0};
    /* A failure here is that of the windows that are out, and the next one tries again. */
    bool is_open = open_endpoint(o, &why) == 0;
    for (struct ofi_window *w = o->windows; w && is_open; w = w->next)
        if (w->len > 0 && register_memory(o, w->region, w->ptr, w->len, w->key, &why, &w->mr) != 0)
            w->mr = NULL;
    if (why.text[0])
        log_warn("ofi:%s: after a fence: %s", o->device.named, why.text);
}

/* With the lock. When it returns, no byte arrives or leaves that was asked for before. */
static void fence(struct ofi_owner *o)
{
    hold(o);
    if (!cut(o))
        renew(o);
    o->fence_count++;
    release(o);
}

/* With the lock. */
static void window_unlink(struct ofi_owner *o, struct ofi_window *w)
{
    struct ofi_window **at = &o->windows;
    while (*at != w)
        at = &(*at)->next;
    *at = w->next;
    w->is_out = false;
    o->windows_out--;
    o->last_window_ns = clock_mono_ns();
}

static int window_withdraw(void *owner, void *window, struct diag *diag)
{
    struct ofi_owner *o = owner;
    struct ofi_window *w = window;
    pthread_mutex_lock(&o->lock);
    hold(o);
    int rc = w->mr ? fi_close(&w->mr->fid) : 0;
    bool must_fence = w->is_out && !w->is_settled && w->len > 0 && o->fabric->is_software;
    if (rc == 0) {
        w->mr = NULL;
        if (w->is_out)
            window_unlink(o, w);
    }
    uint64_t fences = o->fence_count;
    release(o);
    pthread_mutex_unlock(&o->lock);
    if (rc != 0)
        return ofi_fail(diag, S3R_E_BUSY, "closing the window's memory region", rc);
    /* An adapter fences by itself when a region is closed. */
    if (!must_fence)
        return 0;
    pthread_mutex_lock(&o->lock);
    await_turn(o);
    if (o->fence_count == fences)
        fence(o);
    pthread_mutex_unlock(&o->lock);
    return 0;
}

static void window_close(void *owner, void *window)
{
    free(window);
}

static void owner_describe_device(void *owner, char *out, size_t size)
{
    struct ofi_owner *o = owner;
    char where[OFI_DOMAIN_MAX + 16];
    pthread_mutex_lock(&o->lock);
    struct sockaddr_storage addr = o->fabric->addr;
    ofi_address_set_port(&addr, o->port);
    if (o->device.is_ip)
        ofi_address_print(&addr, where, sizeof(where));
    else
        snprintf(where, sizeof(where), "domain %s", o->fabric->info->domain_attr->name);
    snprintf(out, size, "ofi:%s (libfabric %u.%u, provider %s) at %s: %s, %zu windows out",
             o->device.named, o->lib->major, o->lib->minor, o->device.provider, where,
             o->has_endpoint ? "up" : "down", o->windows_out);
    pthread_mutex_unlock(&o->lock);
}

const struct owner_ops ofi_owner_ops = {
    .name = "ofi",
    .promises = PROVIDER_READS | PROVIDER_ANY_MEMORY | PROVIDER_OWN_KEYS,
    .open = owner_open_device,
    .close = owner_close_device,
    .region_add = region_add,
    .device_region_add = device_region_add,
    .region_remove = region_remove,
    .window_open = window_open,
    .window_settle = window_settle,
    .window_withdraw = window_withdraw,
    .window_close = window_close,
    .describe = owner_describe_device,
};
