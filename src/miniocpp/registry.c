/* SPDX-License-Identifier: Apache-2.0 */
#include "miniocpp/registry.h"

#include "base/handles.h"
#include "base/log.h"
#include "base/num.h"
#include "base/pages.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

/* A client that a piece of memory is registered with. */
struct use {
    struct use *next;
    void *handle;
};

struct memory_piece {
    struct memory_piece *next;
    char *base; /* fixed after alloc */
    size_t len;
    struct use *uses;
    unsigned calls; /* that have it in use */
    bool is_lost;   /* a server may still write it */
    bool is_going;
};

/* The lock is taken before a client's; the table of handles is not entered while it is held. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed; /* a piece lost a call or a use */
    struct memory_piece *pieces;
    struct listed_client *clients;
} all = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

/* ---- forks ---- */

static void lock_before_fork(void)
{
    pthread_mutex_lock(&all.lock);
}

static void unlock_in_parent(void)
{
    pthread_mutex_unlock(&all.lock);
}

/* The child's clients open devices of their own, which know none of the memory; and the threads
 * that were using it are not here. */
static void forget_uses_in_child(void)
{
    for (struct memory_piece *p = all.pieces; p != NULL; p = p->next) {
        while (p->uses != NULL) {
            struct use *u = p->uses;
            p->uses = u->next;
            free(u);
        }
        p->calls = 0;
    }
    pthread_cond_init(&all.changed, NULL);
    pthread_mutex_unlock(&all.lock);
}

static void watch_forks(void)
{
    pthread_atfork(lock_before_fork, unlock_in_parent, forget_uses_in_child);
}

static void lock(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    pthread_mutex_lock(&all.lock);
}

static void unlock(void)
{
    pthread_mutex_unlock(&all.lock);
}

/* ---- clients ---- */

void registry_add_client(struct listed_client *c)
{
    lock();
    c->next = all.clients;
    c->link = &all.clients;
    if (c->next != NULL)
        c->next->link = &c->next;
    all.clients = c;
    unlock();
}

static struct use **find_use(struct memory_piece *p, const void *handle)
{
    struct use **at = &p->uses;
    while (*at != NULL && (*at)->handle != handle)
        at = &(*at)->next;
    return at;
}

static void drop_use(struct use **at)
{
    struct use *u = *at;
    if (u == NULL)
        return;
    *at = u->next;
    free(u);
}

void registry_drop_client(struct listed_client *c)
{
    lock();
    *c->link = c->next;
    if (c->next != NULL)
        c->next->link = c->link;
    for (struct memory_piece *p = all.pieces; p != NULL; p = p->next)
        drop_use(find_use(p, c->handle));
    pthread_cond_broadcast(&all.changed);
    unlock();
}

int registry_healthy_rails(int most)
{
    int fewest = most;
    lock();
    for (struct listed_client *c = all.clients; c != NULL; c = c->next) {
        int healthy = client_healthy_rail_count(c->client);
        if (healthy >= 0 && healthy < fewest)
            fewest = healthy;
    }
    unlock();
    return fewest;
}

/* ---- memory ---- */

static void unmap(struct memory_piece *p)
{
    if (p->is_lost)
        log_warn("%zu bytes stay mapped: a stopped server may still write them", p->len);
    else
        pages_free(p->base, p->len);
    free(p);
}

int memory_alloc(size_t size, void **ret_ptr)
{
    uint64_t len, page = (uint64_t)sysconf(_SC_PAGESIZE);
    if (!checked_add(size > 0 ? size : 1, page - 1, &len))
        return S3R_E_NOMEM;
    CLEANUP(freep) struct memory_piece *p = calloc(1, sizeof(*p));
    if (p == NULL)
        return S3R_E_NOMEM;
    p->len = len & ~(page - 1);
    p->base = pages_alloc(p->len);
    if (p->base == NULL)
        return S3R_E_NOMEM;
    *ret_ptr = p->base;
    lock();
    p->next = all.pieces;
    all.pieces = p;
    unlock();
    (void)STEAL(p);
    return 0;
}

/* Locked; lets the lock go meanwhile. A client that is ending takes its registration with it. */
static void end_use(struct memory_piece *p)
{
    void *handle = p->uses->handle;
    unlock();
    struct listed_client *c = handle_pin(handle, HANDLE_S3_CLIENT);
    bool is_left = c != NULL && client_deregister(c->client, p->base) != 0;
    lock();
    p->is_lost |= is_left;
    if (c != NULL) {
        drop_use(find_use(p, handle));
        unlock();
        handle_unpin(handle);
        lock();
    } else if (p->uses != NULL && p->uses->handle == handle) {
        pthread_cond_wait(&all.changed, &all.lock);
    }
}

void memory_free(void *ptr)
{
    lock();
    struct memory_piece **at = &all.pieces;
    while (*at != NULL && ((*at)->base != ptr || (*at)->is_going))
        at = &(*at)->next;
    struct memory_piece *p = *at;
    if (p != NULL) {
        p->is_going = true;
        while (p->calls > 0)
            pthread_cond_wait(&all.changed, &all.lock);
        while (p->uses != NULL)
            end_use(p);
        at = &all.pieces; /* the list may have changed */
        while (*at != p)
            at = &(*at)->next;
        *at = p->next;
    }
    unlock();
    if (p != NULL)
        unmap(p);
}

static struct memory_piece *find_piece(const char *ptr)
{
    struct memory_piece *p = all.pieces;
    while (p != NULL && (ptr < p->base || (size_t)(ptr - p->base) >= p->len || p->is_going))
        p = p->next;
    return p;
}

/* False: it is registered for each call instead, as other memory is, and that says what is wrong.
 */
static bool is_registered(struct listed_client *c, struct memory_piece *p)
{
    if (*find_use(p, c->handle) != NULL)
        return true;
    struct use *u = malloc(sizeof(*u));
    if (u == NULL || client_devices_open(c->client, NULL) != 0 ||
        client_register(c->client, p->base, p->len, NULL) != 0) {
        free(u);
        return false;
    }
    *u = (struct use){.next = p->uses, .handle = c->handle};
    p->uses = u;
    return true;
}

int memory_use(struct listed_client *c, const void *ptr, size_t len, struct diag *diag,
               struct memory_piece **ret_piece, void **ret_region)
{
    lock();
    struct memory_piece *p = find_piece(ptr);
    uint64_t left = p != NULL ? p->len - (size_t)((const char *)ptr - p->base) : UINT64_MAX;
    bool is_inside = len <= left;
    if (is_inside) {
        *ret_region = p != NULL && is_registered(c, p) ? p->base : NULL;
        *ret_piece = p;
        if (p != NULL)
            p->calls++;
    }
    unlock();
    return is_inside ? 0
                     : diag_fail(diag, S3R_E_INVALID_ARGUMENT,
                                 "%zu bytes from there leave the allocated memory, which has %llu "
                                 "more",
                                 len, (unsigned long long)left);
}

void memory_release(struct memory_piece *p, bool is_lost)
{
    if (p == NULL)
        return;
    lock();
    p->is_lost |= is_lost;
    p->calls--;
    pthread_cond_broadcast(&all.changed);
    unlock();
}
