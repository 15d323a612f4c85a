/* SPDX-License-Identifier: Apache-2.0 */
#include "base/handles.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

/* An id: kind in bits 60..63, generation in 32..59, index in 0..31. */
#define GENERATION_MASK UINT64_C(0xfffffff)
#define NO_ENTRY UINT32_MAX
#define GROW_MIN 64

struct entry {
    void *object; /* NULL: free */
    enum handle_kind kind;
    uint32_t generation;
    unsigned pins;
    bool is_retired;
    uint32_t next_free;
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t unpinned;
    /* lock `lock` */
    struct entry *entries;
    uint32_t count;
    uint32_t first_free, last_free; /* first in, first out: an id is not used again soon */
} table = {.lock = PTHREAD_MUTEX_INITIALIZER,
           .unpinned = PTHREAD_COND_INITIALIZER,
           .first_free = NO_ENTRY,
           .last_free = NO_ENTRY};

/* ---- forks ---- */

static void lock_before_fork(void)
{
    pthread_mutex_lock(&table.lock);
}

static void unlock_in_parent(void)
{
    pthread_mutex_unlock(&table.lock);
}

/* Whoever had pinned an object is not here. */
static void unpin_in_child(void)
{
    for (uint32_t i = 0; i < table.count; i++)
        table.entries[i].pins = 0;
    pthread_cond_init(&table.unpinned, NULL);
    pthread_mutex_unlock(&table.lock);
}

static void watch_forks(void)
{
    pthread_atfork(lock_before_fork, unlock_in_parent, unpin_in_child);
}

/* ---- the table ---- */

static void *id_of(uint32_t index)
{
    const struct entry *e = &table.entries[index];
    return (void *)(uintptr_t)((uint64_t)e->kind << 60 |
                               ((uint64_t)e->generation & GENERATION_MASK) << 32 | index);
}

static void push_free(uint32_t index)
{
    table.entries[index].next_free = NO_ENTRY;
    if (table.first_free == NO_ENTRY)
        table.first_free = index;
    else
        table.entries[table.last_free].next_free = index;
    table.last_free = index;
}

static bool grow(void)
{
    uint32_t count = table.count ? table.count * 2 : GROW_MIN;
    if (count > HANDLES_MAX)
        return false;
    struct entry *entries = realloc(table.entries, count * sizeof *entries);
    if (!entries)
        return false;
    table.entries = entries;
    for (uint32_t i = table.count; i < count; i++) {
        entries[i] = (struct entry){.generation = 0};
        push_free(i);
    }
    table.count = count;
    return true;
}

static struct entry *find(void *handle, enum handle_kind kind)
{
    uint32_t index = (uint32_t)(uintptr_t)handle;
    if (!handle || index >= table.count)
        return NULL;
    struct entry *e = &table.entries[index];
    return e->object && !e->is_retired && e->kind == kind && id_of(index) == handle ? e : NULL;
}

void *handle_add(enum handle_kind kind, void *object)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    void *handle = NULL;
    pthread_once(&once, watch_forks);
    pthread_mutex_lock(&table.lock);
    if (table.first_free != NO_ENTRY || grow()) {
        uint32_t index = table.first_free;
        struct entry *e = &table.entries[index];
        table.first_free = e->next_free;
        *e = (struct entry){.object = object, .kind = kind, .generation = e->generation + 1};
        handle = id_of(index);
    }
    pthread_mutex_unlock(&table.lock);
    return handle;
}

void *handle_pin(void *handle, enum handle_kind kind)
{
    pthread_mutex_lock(&table.lock);
    struct entry *e = find(handle, kind);
    void *object = e ? e->object : NULL;
    if (e)
        e->pins++;
    pthread_mutex_unlock(&table.lock);
    return object;
}

/* A pin keeps the entry, retired or not, so its index is good. */
void handle_unpin(void *handle)
{
    pthread_mutex_lock(&table.lock);
    table.entries[(uint32_t)(uintptr_t)handle].pins--;
    pthread_cond_broadcast(&table.unpinned);
    pthread_mutex_unlock(&table.lock);
}

void *handle_retire(void *handle, enum handle_kind kind)
{
    uint32_t index = (uint32_t)(uintptr_t)handle;
    void *object = NULL;
    pthread_mutex_lock(&table.lock);
    struct entry *e = find(handle, kind);
    if (e) {
        e->is_retired = true;
        /* the table may move while this waits */
        while (table.entries[index].pins > 0)
            pthread_cond_wait(&table.unpinned, &table.lock);
        object = table.entries[index].object;
        table.entries[index].object = NULL;
        push_free(index);
    }
    pthread_mutex_unlock(&table.lock);
    return object;
}
