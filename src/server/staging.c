/* SPDX-License-Identifier: Apache-2.0 */
#include "server/staging.h"

#include "base/clock.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>

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
    uint64_t next_ticket, now_serving; /* equal: nobody waits */
};

int staging_create(struct mover *mover, uint64_t size, struct diag *diag,
                   struct staging **ret_staging)
{
    struct staging *s = calloc(1, sizeof *s);
    pthread_condattr_t attr;
    if (!s)
        return S3R_E_NOMEM;
    s->mover = mover;
    s->slot_count = size / STAGING_SLOT_LEN;
    s->base = mmap(NULL, s->slot_count * STAGING_SLOT_LEN, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    s->free_slots = calloc(s->slot_count, sizeof *s->free_slots);
    if (s->base == MAP_FAILED || !s->free_slots) {
        s->base = s->base == MAP_FAILED ? NULL : s->base;
        staging_destroy(s);
        return diag_fail(diag, S3R_E_NOMEM, "no memory for staging; lower --rdma-staging");
    }
    madvise(s->base, s->slot_count * STAGING_SLOT_LEN, MADV_HUGEPAGE); /* a wish */
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
    free(s);
}

struct mover_memory *staging_memory(struct staging *s)
{
    return s->memory;
}

static void *pop(struct staging *s)
{
    return s->base + s->free_slots[--s->free_count] * STAGING_SLOT_LEN;
}

/* Tickets keep the order: only the one being served may take, and one who gives up passes on. */
int staging_take(struct staging *s, int64_t deadline_ns, void **ret_slot)
{
    struct timespec until = clock_timespec(deadline_ns);
    int rc = 0;
    pthread_mutex_lock(&s->lock);
    uint64_t ticket = s->next_ticket++;
    while (ticket != s->now_serving || s->free_count == 0) {
        bool is_late = clock_mono_ns() >= deadline_ns;
        if (is_late && ticket == s->now_serving) {
            rc = S3R_E_BUSY;
            break;
        }
        /* a late one that is not at the head yet waits for its turn to leave: those before it
         * have deadlines of their own */
        if (is_late)
            pthread_cond_wait(&s->wake, &s->lock);
        else
            pthread_cond_timedwait(&s->wake, &s->lock, &until);
    }
    if (!rc)
        *ret_slot = pop(s);
    s->now_serving++;
    pthread_cond_broadcast(&s->wake);
    pthread_mutex_unlock(&s->lock);
    return rc;
}

void *staging_try(struct staging *s)
{
    void *slot = NULL;
    pthread_mutex_lock(&s->lock);
    if (s->next_ticket == s->now_serving && s->free_count > s->slot_count / 2)
        slot = pop(s);
    pthread_mutex_unlock(&s->lock);
    return slot;
}

void staging_give(struct staging *s, void *slot)
{
    if (!slot)
        return;
    pthread_mutex_lock(&s->lock);
    s->free_slots[s->free_count++] = (size_t)((char *)slot - s->base) / STAGING_SLOT_LEN;
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
