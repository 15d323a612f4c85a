// SPDX-License-Identifier: Apache-2.0
#include "base/clock.h"
#include "base/crypto.h"
#include "base/num.h"
#include "rdma/ofi/writer.h"

#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* Local addresses from which this host reaches its clients. */
#define FABRICS_MAX 16
/* Clients that libfabric would not take as a peer are not offered to it again for a while. */
#define REFUSED_MAX 16
#define REFUSED_NS NS_PER_S

/* What a connection takes: sockets, and what libfabric waits on. */
#define WRITER_FDS 16

/* The longest sleep without a look at deadline and cancellation. */
#define WAKE_NS (50 * NS_PER_MS)

struct refused {
    int64_t until_ns;
    size_t name_len;
    uint8_t name[TOKEN_OFI_NAME_LEN_MAX];
};

/* A transfer that has a connection, or opens one. */
struct use {
    struct use *next;
    const struct token_ofi *to;
};

struct ofi_mover {
    /* fixed after open */
    const struct ofi_lib *lib;
    struct ofi_device device;
    pid_t pid;
    size_t idle_max;
    /* Taken first. Opening endpoints, one at a time; it never waits for a peer. */
    pthread_mutex_t open_lock;
    struct ofi_fabric *fabrics[FABRICS_MAX];
    size_t fabric_count;
    struct refused refused[REFUSED_MAX];
    size_t refused_next;
    /* Taken second, for moments. */
    pthread_mutex_t lock;
    pthread_cond_t given_back;
    struct ofi_writer *idle; /* the one used last comes first */
    struct use *uses;
    size_t idle_count, busy_count; /* busy_count: of uses */
};

/* Memory of a mover, registered with a fabric when a transfer over that one first needs it. */
struct ofi_memory {
    void *ptr;
    size_t len;
    struct fid_mr *by_fabric[FABRICS_MAX]; /* under open_lock */
};

static void mover_free(struct ofi_mover *m)
{
    while (m->idle) {
        struct ofi_writer *w = m->idle;
        m->idle = w->next;
        ofi_writer_close(w);
    }
    for (size_t i = 0; i < m->fabric_count; i++)
        ofi_fabric_close(m->fabrics[i]);
    pthread_mutex_destroy(&m->open_lock);
    pthread_mutex_destroy(&m->lock);
    pthread_cond_destroy(&m->given_back);
    free(m);
}

/* With open_lock. `from`: the local address, NULL where the device decides. */
static int fabric_for(struct ofi_mover *m, const struct sockaddr_storage *from, struct diag *diag,
                      size_t *ret_index)
{
    for (size_t i = 0; i < m->fabric_count; i++) {
        if (!from || ofi_address_is_same_ip(&m->fabrics[i]->addr, from)) {
            *ret_index = i;
            return 0;
        }
    }
    if (m->fabric_count == FABRICS_MAX)
        return diag_fail(diag, S3R_E_BUSY, "ofi: more than %d local addresses are in use",
                         FABRICS_MAX);
    CLEANUP(ofi_signals_restorep) struct ofi_signals signals;
    ofi_signals_save(&signals);
    int rc = ofi_fabric_open(m->lib, &m->device, from, diag, &m->fabrics[m->fabric_count]);
    if (rc == 0)
        *ret_index = m->fabric_count++;
    return rc;
}

/* One endpoint, opened and closed: what is wrong with a device is said now, not to a client. */
static int try_device(struct ofi_mover *m, struct diag *diag)
{
    CLEANUP(ofi_signals_restorep) struct ofi_signals signals;
    ofi_signals_save(&signals);
    struct sockaddr_storage from = m->device.addr;
    bool needs_address = m->device.is_ip && !m->device.domain[0];
    if (needs_address && !m->device.has_addr)
        ofi_address_pick(NULL, &from);
    size_t index;
    int rc = fabric_for(m, needs_address ? &from : NULL, diag, &index);
    struct ofi_endpoint e;
    if (rc == 0)
        rc = ofi_endpoint_open(m->fabrics[index], 0, diag, &e);
    if (rc == 0)
        ofi_endpoint_close(&e);
    return rc;
}

/* Idle connections take at most a quarter of the descriptors that this process may open. */
static size_t idle_max(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return OFI_WRITERS_IDLE_MAX;
    return (size_t)min_u64(OFI_WRITERS_IDLE_MAX, limit.rlim_cur / 4 / WRITER_FDS + 1);
}

static void init_given_back(struct ofi_mover *m)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&m->given_back, &attr);
    pthread_condattr_destroy(&attr);
}

static int mover_open_device(const char *device, struct diag *diag, void **ret_mover)
{
    CLEANUP(ofi_signals_restorep) struct ofi_signals signals;
    ofi_signals_save(&signals);
    const struct ofi_lib *lib;
    int rc = ofi_lib_get(diag, &lib);
    if (rc != 0)
        return rc;
    struct ofi_mover *m = calloc(1, sizeof(*m));
    if (!m)
        return S3R_E_NOMEM;
    m->lib = lib;
    m->pid = getpid();
    m->idle_max = idle_max();
    pthread_mutex_init(&m->open_lock, NULL);
    pthread_mutex_init(&m->lock, NULL);
    init_given_back(m);
    rc = ofi_device_parse(device, lib->minor, diag, &m->device);
    if (rc == 0)
        rc = try_device(m, diag);
    if (rc != 0) {
        mover_free(m);
        return rc;
    }
    *ret_mover = m;
    return 0;
}

static void mover_close_device(void *mover)
{
    struct ofi_mover *m = mover;
    /* In a forked child libfabric's threads are not there, and its locks may be held for ever. */
    if (m && m->pid == getpid())
        mover_free(m);
}

static bool mover_serves_token(void *mover, const struct token *t)
{
    const struct ofi_mover *m = mover;
    return t->scheme == TOKEN_OFI && ofi_wire_is_same(t->ofi.provider, m->device.named);
}

static int memory_add(void *mover, void *ptr, size_t len, struct diag *diag, void **ret_reg)
{
    struct ofi_memory *reg = calloc(1, sizeof(*reg));
    if (!reg)
        return S3R_E_NOMEM;
    reg->ptr = ptr;
    reg->len = len;
    *ret_reg = reg;
    return 0;
}

static void memory_remove(void *mover, void *registration)
{
    struct ofi_mover *m = mover;
    struct ofi_memory *reg = registration;
    if (!reg)
        return;
    pthread_mutex_lock(&m->open_lock);
    for (size_t i = 0; i < FABRICS_MAX && m->pid == getpid(); i++)
        if (reg->by_fabric[i])
            (void)fi_close(&reg->by_fabric[i]->fid);
    pthread_mutex_unlock(&m->open_lock);
    free(reg);
}

/* The name of an is_ip device's owner, checked: libfabric believes every byte of it. */
static int check_name(const struct token_ofi *to, struct diag *diag,
                      struct sockaddr_storage *ret_peer)
{
    struct sockaddr_storage peer = {0};
    memcpy(&peer, to->name, min_u64(to->name_len, sizeof(peer)));
    if (ofi_address_len(&peer) == 0 || to->name_len != ofi_address_len(&peer) ||
        ofi_address_port(&peer) == 0)
        return diag_fail(diag, S3R_E_TOKEN_MALFORMED,
                         "x-amz-rdma-token: the name is no IP address with a port");
    *ret_peer = peer;
    return 0;
}

static bool is_name(const struct token_ofi *to, const uint8_t *name, size_t len)
{
    return to->name_len == len && memcmp(to->name, name, len) == 0;
}

/* With open_lock. */
static bool is_refused(const struct ofi_mover *m, const struct token_ofi *to)
{
    int64_t now = clock_mono_ns();
    for (size_t i = 0; i < REFUSED_MAX; i++) {
        const struct refused *r = &m->refused[i];
        if (r->until_ns > now && is_name(to, r->name, r->name_len))
            return true;
    }
    return false;
}

static void remember_refused(struct ofi_mover *m, const struct token_ofi *to)
{
    struct refused *r = &m->refused[m->refused_next++ % REFUSED_MAX];
    r->until_ns = clock_mono_ns() + REFUSED_NS;
    r->name_len = to->name_len;
    memcpy(r->name, to->name, to->name_len);
}

/* An idle connection in that fabric, the one that was used longest ago, once there are as many as
 * may be: opening another would mean to close it soon. */
static struct ofi_writer *take_longest_idle(struct ofi_mover *m, const struct ofi_fabric *f)
{
    struct ofi_writer **last = NULL, *w = NULL;
    pthread_mutex_lock(&m->lock);
    bool is_full = m->idle_count + m->busy_count > m->idle_max;
    for (struct ofi_writer **at = &m->idle; is_full && *at; at = &(*at)->next)
        if ((*at)->within == f)
            last = at;
    if (last) {
        w = *last;
        *last = w->next;
        m->idle_count--;
    }
    pthread_mutex_unlock(&m->lock);
    return w;
}

/* With open_lock. */
static int open_writer(struct ofi_mover *m, const struct token_ofi *to, struct diag *diag,
                       struct ofi_writer **ret_writer)
{
    if (is_refused(m, to))
        return diag_fail(diag, S3R_E_RDMA_PEER, "libfabric refused this client a moment ago");
    struct sockaddr_storage peer, from = m->device.addr;
    bool needs_address = m->device.is_ip && !m->device.domain[0];
    int rc = m->device.is_ip ? check_name(to, diag, &peer) : 0;
    if (rc == 0 && needs_address && !m->device.has_addr &&
        !ofi_address_toward((const struct sockaddr *)&peer, &from))
        rc = diag_fail(diag, S3R_E_RDMA_PEER, "there is no route to the client's address");
    if (rc == 0 && needs_address && from.ss_family != peer.ss_family)
        rc =
            diag_fail(diag, S3R_E_RDMA_PEER, "the client's address is of another family than ours");
    size_t index;
    if (rc == 0)
        rc = fabric_for(m, needs_address ? &from : NULL, diag, &index);
    if (rc != 0)
        return rc;
    struct ofi_writer *idle = take_longest_idle(m, m->fabrics[index]);
    if (idle && ofi_writer_turn(idle, to)) {
        *ret_writer = idle;
        return 0;
    }
    ofi_writer_close(idle);
    rc = ofi_writer_open(m->fabrics[index], to, diag, ret_writer);
    if (rc == S3R_E_RDMA_PEER)
        remember_refused(m, to);
    /* A lack here and now (descriptors, memory) is no reason to call the device unavailable. */
    return rc == S3R_E_RDMA_UNAVAILABLE ? S3R_E_RDMA_TRANSFER : rc;
}

static struct ofi_writer *take_idle(struct ofi_mover *m, const struct token_ofi *to)
{
    for (struct ofi_writer **at = &m->idle; *at; at = &(*at)->next) {
        struct ofi_writer *w = *at;
        if (!is_name(to, w->name, w->name_len))
            continue;
        *at = w->next;
        m->idle_count--;
        return w;
    }
    return NULL;
}

/* With lock. Once there are as many connections as may be, a client's second one would be another
 * client's only one, and that client would take it back at its next transfer: a connection for each
 * transfer, of which each leaks. */
static bool must_share(const struct ofi_mover *m, const struct token_ofi *to)
{
    const struct use *u = m->uses;
    while (u && !is_name(to, u->to->name, u->to->name_len))
        u = u->next;
    return u && m->idle_count + m->busy_count >= m->idle_max;
}

/* With lock, which is let go meanwhile. */
static int await_share(struct ofi_mover *m, const struct transfer *t, struct diag *diag)
{
    int64_t until_ns = clock_mono_ns() + WAKE_NS;
    struct timespec until = {.tv_sec = until_ns / NS_PER_S, .tv_nsec = until_ns % NS_PER_S};
    pthread_cond_timedwait(&m->given_back, &m->lock, &until);
    pthread_mutex_unlock(&m->lock);
    int rc = transfer_may_go_on(t, diag);
    pthread_mutex_lock(&m->lock);
    return rc;
}

/* With lock. */
static void begin_use(struct ofi_mover *m, struct use *use)
{
    use->next = m->uses;
    m->uses = use;
    m->busy_count++;
}

static void end_use(struct ofi_mover *m, const struct use *use)
{
    struct use **at = &m->uses;
    while (*at != use)
        at = &(*at)->next;
    *at = use->next;
    m->busy_count--;
    pthread_cond_broadcast(&m->given_back);
}

/* Begins `use`. `ret_writer`: NULL where one has to be opened. */
static int take_or_share(struct ofi_mover *m, const struct transfer *t, struct use *use,
                         struct diag *diag, struct ofi_writer **ret_writer)
{
    const struct token_ofi *to = use->to;
    struct ofi_writer *w = NULL;
    int rc = 0;
    pthread_mutex_lock(&m->lock);
    while (rc == 0 && !(w = take_idle(m, to)) && must_share(m, to))
        rc = await_share(m, t, diag);
    if (rc == 0)
        begin_use(m, use);
    pthread_mutex_unlock(&m->lock);
    *ret_writer = w;
    return rc;
}

static int open_one(struct ofi_mover *m, const struct token_ofi *to, struct diag *diag,
                    struct ofi_writer **ret_writer)
{
    pthread_mutex_lock(&m->open_lock);
    int rc = open_writer(m, to, diag, ret_writer);
    pthread_mutex_unlock(&m->open_lock);
    return rc;
}

/* Closes what nobody uses now. */
static void drop_idle(struct ofi_mover *m)
{
    pthread_mutex_lock(&m->lock);
    struct ofi_writer *list = m->idle;
    m->idle = NULL;
    m->idle_count = 0;
    pthread_mutex_unlock(&m->lock);
    while (list) {
        struct ofi_writer *w = list;
        list = w->next;
        ofi_writer_close(w);
    }
}

static int writer_take(struct ofi_mover *m, const struct transfer *t, struct use *use,
                       struct diag *diag, struct ofi_writer **ret_writer)
{
    struct ofi_writer *w;
    int rc = take_or_share(m, t, use, diag, &w);
    if (rc != 0)
        return rc;
    struct diag why = {0};
    rc = w ? 0 : open_one(m, use->to, &why, &w);
    if (rc == S3R_E_RDMA_TRANSFER) {
        /* Out of descriptors or memory, most likely, which idle connections have. */
        drop_idle(m);
        diag_clear(&why);
        rc = open_one(m, use->to, &why, &w);
    }
    if (rc == 0) {
        *ret_writer = w;
        return 0;
    }
    pthread_mutex_lock(&m->lock);
    end_use(m, use);
    pthread_mutex_unlock(&m->lock);
    return diag_fail(diag, rc, "%s", diag_text(&why, rc));
}

/* The idle one that was used longest ago; NULL while there are not too many. */
static struct ofi_writer *one_too_many(struct ofi_mover *m)
{
    if (m->idle_count <= m->idle_max)
        return NULL;
    struct ofi_writer **last = &m->idle;
    while ((*last)->next)
        last = &(*last)->next;
    struct ofi_writer *w = *last;
    *last = NULL;
    m->idle_count--;
    return w;
}

/* `is_sound`: its transfer ended well. Otherwise closing it ends what is in flight. */
static void writer_give_back(struct ofi_mover *m, struct ofi_writer *w, const struct use *use,
                             bool is_sound)
{
    struct ofi_writer *drop = w;
    pthread_mutex_lock(&m->lock);
    end_use(m, use);
    if (is_sound) {
        w->next = m->idle;
        m->idle = w;
        m->idle_count++;
        drop = one_too_many(m);
    }
    pthread_mutex_unlock(&m->lock);
    ofi_writer_close(drop);
}

/* Registers `len` bytes at `ptr` for the sending side, or finds them registered: ret_mr stays NULL
 * where the fabric needs nothing. `ret_once`: to be closed after the transfer. */
static int local_memory(struct ofi_mover *m, struct ofi_writer *w, const struct transfer *t,
                        struct diag *diag, struct fid_mr **ret_mr, bool *ret_once)
{
    struct ofi_fabric *f = w->within;
    struct ofi_memory *reg = t->registration;
    const uint64_t access = FI_WRITE | FI_READ;
    if (!f->needs_local)
        return 0;
    if (!reg || f->is_bound_to_endpoint) {
        *ret_once = true;
        return ofi_memory_open(&w->endpoint, t->local, t->len, access, 0, diag, ret_mr);
    }
    pthread_mutex_lock(&m->open_lock);
    size_t i = 0;
    while (m->fabrics[i] != f)
        i++;
    int rc = 0;
    if (!reg->by_fabric[i])
        rc = ofi_memory_open(&w->endpoint, reg->ptr, reg->len, access, random_u64(), diag,
                             &reg->by_fabric[i]);
    *ret_mr = reg->by_fabric[i];
    pthread_mutex_unlock(&m->open_lock);
    return rc;
}

static int transfer_on(struct ofi_mover *m, struct ofi_writer *w, const struct use *use,
                       const struct transfer *t, struct diag *diag, uint64_t *ret_moved)
{
    struct fid_mr *mr = NULL;
    bool is_once = false;
    int rc = local_memory(m, w, t, diag, &mr, &is_once);
    if (rc == 0)
        rc = ofi_writer_run(w, t, mr ? fi_mr_desc(mr) : NULL, diag, ret_moved);
    bool is_bound = is_once && mr && w->within->is_bound_to_endpoint;
    /* Operations end before the memory that they use goes, unless the memory is the endpoint's:
     * that does not close before its memory. */
    if (is_bound)
        (void)fi_close(&mr->fid);
    writer_give_back(m, w, use, rc == 0);
    if (is_once && mr && !is_bound)
        (void)fi_close(&mr->fid);
    return rc;
}

static int mover_transfer_window(void *mover, const struct transfer *t, struct diag *diag,
                                 uint64_t *ret_moved)
{
    struct ofi_mover *m = mover;
    uint64_t end;
    if (!mover_serves_token(m, t->token))
        return diag_fail(diag, S3R_E_TOKEN_DECLINED, "ofi:%s does not serve this token",
                         m->device.named);
    if (!span_fits(t->window_off, t->len, t->token->size) ||
        !checked_add(t->token->addr, t->token->size, &end))
        return diag_fail(diag, S3R_E_RDMA_BOUNDS,
                         "%zu bytes at offset %llu do not lie inside the window of %llu bytes",
                         t->len, (unsigned long long)t->window_off,
                         (unsigned long long)t->token->size);
    if (t->len == 0) {
        *ret_moved = 0;
        return 0;
    }
    struct ofi_writer *w;
    struct use use = {.to = &t->token->ofi};
    uint64_t moved = 0;
    int rc = writer_take(m, t, &use, diag, &w);
    if (rc == 0)
        rc = transfer_on(m, w, &use, t, diag, &moved);
    *ret_moved = moved;
    return rc;
}

static void mover_describe_device(void *mover, char *out, size_t size)
{
    struct ofi_mover *m = mover;
    char from[OFI_DOMAIN_MAX + 16] = "the address that routes to the client";
    pthread_mutex_lock(&m->open_lock);
    const struct ofi_fabric *first = m->fabrics[0];
    if (m->device.is_ip && (m->device.has_addr || m->device.domain[0]))
        ofi_address_print(&first->addr, from, sizeof(from));
    else if (!m->device.is_ip)
        snprintf(from, sizeof(from), "domain %s", first->info->domain_attr->name);
    pthread_mutex_unlock(&m->open_lock);
    pthread_mutex_lock(&m->lock);
    snprintf(out, size,
             "ofi:%s (libfabric %u.%u, provider %s) from %s: up, %zu busy and %zu idle connections",
             m->device.named, m->lib->major, m->lib->minor, m->device.provider, from, m->busy_count,
             m->idle_count);
    pthread_mutex_unlock(&m->lock);
}

const struct mover_ops ofi_mover_ops = {
    .name = "ofi",
    .promises = PROVIDER_READS | PROVIDER_ANY_MEMORY | PROVIDER_OWN_KEYS,
    .open = mover_open_device,
    .close = mover_close_device,
    .serves = mover_serves_token,
    .memory_add = memory_add,
    .memory_remove = memory_remove,
    .transfer = mover_transfer_window,
    .describe = mover_describe_device,
};
