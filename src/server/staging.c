/* SPDX-License-Identifier: Apache-2.0 */
#include "server/staging.h"

#include "base/clock.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/queue.h>

#define CANCEL_LOOK_NS (100 * NS_PER_MS)

struct waiter {
    TAILQ_ENTRY(waiter) link;
    uint64_t owner;
};

struct staging {
    struct mover *mover; /* fixed after create */
    char *base;
    size_t slot_count;
    struct mover_memory *memory;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    /* lock `lock` */
    size_t *free_slots; /* a stack */
    size_t free_count;
    uint64_t *owners; /* of each slot that is lent, else 0 */
    TAILQ_HEAD(, waiter) waiters;
};

int staging_create(struct mover *mover, uint64_t size, struct diag *diag,
                   struct staging **ret_staging)
{
    struct staging *s = calloc(1, sizeof *s);
    pthread_condattr_t attr;
    if (!s)
        return S3R_E_NOMEM;
    s->mover = mover;
    TAILQ_INIT(&s->waiters);
    s->slot_count = size / STAGING_SLOT_LEN;
    s->base = mmap(NULL, s->slot_count * STAGING_SLOT_LEN, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    s->free_slots = calloc(s->slot_count, sizeof *s->free_slots);
    s->owners = calloc(s->slot_count, sizeof *s->owners);
    if (s->base == MAP_FAILED || !s->free_slots || !s->owners) {
        s->base = s->base == MAP_FAILED ? NULL : s->base;
        staging_destroy(s);
        return diag_fail(diag, S3R_E_NOMEM, "no memory for staging; lower --rdma-staging");
    }
    madvise(s->base, s->slot_count * STAGING_SLOT_LEN, MADV_HUGEPAGE); /* a wish */
    /* Registered memory is there from the start, so that it cannot be missing under load; where
     * this is not offered the pages come with their first use. */
    madvise(s->base, s->slot_count * STAGING_SLOT_LEN, MADV_POPULATE_WRITE);
    for (size_t i = 0; i < s->slot_count; i++)
        s->free_slots[s->free_count++] = s->slot_count - 1 - i;
    pthread_mutex_init(&s->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&s->wake, &attr);
    pthread_condattr_destroy(&attr);
    int rc = mover_memory_add(mover, s->base, s->slot_count * STAGING_SLOT_LEN, diag, &s->memory);
    if (rc) {
        staging_destroy(s);
        return rc;
    }
    *ret_staging = s;
    return 0;
}

void staging_destroy(struct staging *s)
{
    if (!s)
        return;
    if (s->memory)
        mover_memory_remove(s->mover, s->memory);
    if (s->base)
        munmap(s->base, s->slot_count * STAGING_SLOT_LEN);
    free(s->free_slots);
    free(s->owners);
    free(s);
}

struct mover_memory *staging_memory(struct staging *s)
{
    return s->memory;
}

static void *pop(struct staging *s, uint64_t owner)
{
    size_t slot = s->free_slots[--s->free_count];
    s->owners[slot] = owner;
    return s->base + slot * STAGING_SLOT_LEN;
}

static bool may_have_one(const struct staging *s, uint64_t owner)
{
    size_t lent = 0, share = s->slot_count > 1 ? s->slot_count / 2 : 1;
    for (size_t i = 0; i < s->slot_count; i++)
        lent += s->owners[i] == owner;
    return s->free_count > 0 && lent < share;
}

/* Is `me` the first of those who could have a slot now? */
static bool is_first(const struct staging *s, const struct waiter *me)
{
    const struct waiter *other;
    TAILQ_FOREACH (other, &s->waiters, link)
        if (may_have_one(s, other->owner))
            return other == me;
    return false;
}

/* How long the caller may wait before it looks again whether it is still wanted. */
static struct timespec look_again(int64_t deadline_ns)
{
    int64_t soon_ns = clock_mono_ns() + CANCEL_LOOK_NS;
    return clock_timespec(soon_ns < deadline_ns ? soon_ns : deadline_ns);
}

/* Called and returns with the lock held; 0: it is our turn and a slot is free. */
static int wait_turn(struct staging *s, const struct waiter *me, int64_t deadline_ns,
                     bool (*is_cancelled)(void *arg), void *cancel_arg)
{
    while (!is_first(s, me)) {
        if (clock_mono_ns() >= deadline_ns)
            return S3R_E_BUSY;
        struct timespec until = look_again(deadline_ns);
        pthread_cond_timedwait(&s->wake, &s->lock, &until);
        pthread_mutex_unlock(&s->lock);
        bool is_over = is_cancelled && is_cancelled(cancel_arg);
        pthread_mutex_lock(&s->lock);
        if (is_over)
            return S3R_E_CANCELLED;
    }
    return 0;
}

/* First come, first served; whoever gives up leaves from any place. */
int staging_take(struct staging *s, uint64_t owner, int64_t deadline_ns,
                 bool (*is_cancelled)(void *arg), void *cancel_arg, void **ret_slot)
{
    struct waiter me = {.owner = owner};
    pthread_mutex_lock(&s->lock);
    TAILQ_INSERT_TAIL(&s->waiters, &me, link);
    int rc = wait_turn(s, &me, deadline_ns, is_cancelled, cancel_arg);
    if (!rc)
        *ret_slot = pop(s, owner);
    TAILQ_REMOVE(&s->waiters, &me, link);
    pthread_cond_broadcast(&s->wake);
    pthread_mutex_unlock(&s->lock);
    return rc;
}

void *staging_try(struct staging *s, uint64_t owner)
{
    void *slot = NULL;
    pthread_mutex_lock(&s->lock);
    if (TAILQ_EMPTY(&s->waiters) && s->free_count > s->slot_count / 2 && may_have_one(s, owner))
        slot = pop(s, owner);
    pthread_mutex_unlock(&s->lock);
    return slot;
}

void staging_give(struct staging *s, void *slot)
{
    if (!slot)
        return;
    pthread_mutex_lock(&s->lock);
    size_t i = (size_t)((char *)slot - s->base) / STAGING_SLOT_LEN;
    s->owners[i] = 0;
    s->free_slots[s->free_count++] = i;
    pthread_cond_broadcast(&s->wake);
    pthread_mutex_unlock(&s->lock);
}

void staging_usage(struct staging *s, size_t *ret_used, size_t *ret_total)
{
    pthread_mutex_lock(&s->lock);
    *ret_used = s->slot_count - s->free_count;
    *ret_total = s->slot_count;
    pthread_mutex_unlock(&s->lock);
}

size_t staging_waiting(struct staging *s)
{
    const struct waiter *w;
    size_t count = 0;
    pthread_mutex_lock(&s->lock);
    TAILQ_FOREACH (w, &s->waiters, link)
        count++;
    pthread_mutex_unlock(&s->lock);
    return count;
}
