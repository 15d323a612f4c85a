/* SPDX-License-Identifier: Apache-2.0 */
#include "store/reaper.h"

#include "base/log.h"
#include "store/fs.h"
#include "store/io.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* rows taken out of the index together */
#define REAP_TOGETHER 64

void reaper_init(struct reaper *r)
{
    memset(r, 0, sizeof(*r));
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->wake, NULL);
    pthread_cond_init(&r->idle, NULL);
}

void reaper_fini(struct reaper *r)
{
    free(r->items);
    free(r->failed);
    pthread_cond_destroy(&r->idle);
    pthread_cond_destroy(&r->wake);
    pthread_mutex_destroy(&r->lock);
}

static bool grow(struct reaper_item **items, size_t *cap, size_t needed)
{
    size_t new_cap = *cap ? *cap : 64;
    while (new_cap < needed)
        new_cap *= 2;
    if (new_cap == *cap)
        return true;
    struct reaper_item *more = realloc(*items, new_cap * sizeof(*more));
    if (!more)
        return false;
    *items = more;
    *cap = new_cap;
    return true;
}

static void note(struct reaper *r, const struct reaper_item *item, int err)
{
    pthread_mutex_lock(&r->lock);
    r->removed += !err;
    if (err && err != S3R_E_NO_SUCH_KEY && grow(&r->failed, &r->failed_cap, r->failed_count + 1))
        r->failed[r->failed_count++] = *item;
    pthread_mutex_unlock(&r->lock);
}

/* Unlinks one and, when it is gone, takes its row along. */
static void reap(struct store *s, const struct reaper_item *item, struct index_batch *b)
{
    char path[FILE_PATH_MAX];
    file_path(path, s->dir, item->id);
    int err = io_unlink(path);
    note(&s->reaper, item, err);
    if (err && err != S3R_E_NO_SUCH_KEY) {
        log_warn("store what=unlink file=%016" PRIx64 " error=%s errno=%d", item->id,
                 error_name(err), errno);
        return; /* the row stays: scrub and the next start try again */
    }
    struct row_key row;
    row_file(&row, item->table, item->id);
    index_batch_delete(b, row.data, row.len);
}

static bool is_stopping(struct reaper *r)
{
    pthread_mutex_lock(&r->lock);
    bool is = r->is_stopping;
    pthread_mutex_unlock(&r->lock);
    return is;
}

/* A slow disk may take seconds for each: a stop waits for one. The rows of the others stay. */
static void reap_all(struct store *s, const struct reaper_item *items, size_t count)
{
    struct index_batch b;
    index_batch_init(&b);
    for (size_t i = 0; i < count && !is_stopping(&s->reaper); i++)
        reap(s, &items[i], &b);
    index_later(s->idx, &b);
    index_batch_fini(&b);
}

static void *run(void *arg)
{
    struct store *s = arg;
    struct reaper *r = &s->reaper;
    struct reaper_item some[REAP_TOGETHER];
    pthread_mutex_lock(&r->lock);
    while (!r->is_stopping) {
        if (!r->count) {
            pthread_cond_broadcast(&r->idle);
            pthread_cond_wait(&r->wake, &r->lock);
            continue;
        }
        size_t n = r->count < REAP_TOGETHER ? r->count : REAP_TOGETHER;
        r->count -= n;
        memcpy(some, r->items + r->count, n * sizeof(*some));
        r->is_busy = true;
        pthread_mutex_unlock(&r->lock);
        reap_all(s, some, n);
        pthread_mutex_lock(&r->lock);
        r->is_busy = false;
    }
    pthread_mutex_unlock(&r->lock);
    return NULL;
}

int reaper_start(struct store *s)
{
    s->reaper.has_thread = !pthread_create(&s->reaper.thread, NULL, run, s);
    return s->reaper.has_thread ? 0 : S3R_E_NOMEM;
}

void reaper_stop(struct reaper *r)
{
    if (!r->has_thread)
        return;
    pthread_mutex_lock(&r->lock);
    r->is_stopping = true;
    pthread_cond_signal(&r->wake);
    pthread_mutex_unlock(&r->lock);
    pthread_join(r->thread, NULL);
    r->has_thread = false;
}

static bool enqueue(struct reaper *r, const uint64_t *ids, size_t count, char table)
{
    if (!grow(&r->items, &r->cap, r->count + count))
        return false;
    for (size_t i = 0; i < count; i++)
        r->items[r->count++] = (struct reaper_item){ids[i], table};
    pthread_cond_signal(&r->wake);
    return true;
}

void reaper_add(struct store *s, const uint64_t *ids, size_t count, char table)
{
    struct reaper *r = &s->reaper;
    pthread_mutex_lock(&r->lock);
    bool is_queued = (count > 1 || r->count < REAPER_LONG) && enqueue(r, ids, count, table);
    pthread_mutex_unlock(&r->lock);
    for (size_t i = 0; !is_queued && i < count; i++)
        reap_all(s, &(struct reaper_item){ids[i], table}, 1);
}

void reaper_settle(struct store *s)
{
    struct reaper *r = &s->reaper;
    pthread_mutex_lock(&r->lock);
    while (r->has_thread && (r->count || r->is_busy))
        pthread_cond_wait(&r->idle, &r->lock);
    pthread_mutex_unlock(&r->lock);
}

uint64_t reaper_retry(struct store *s)
{
    struct reaper *r = &s->reaper;
    reaper_settle(s);
    pthread_mutex_lock(&r->lock);
    uint64_t before = r->removed;
    if (grow(&r->items, &r->cap, r->count + r->failed_count)) {
        for (size_t i = 0; i < r->failed_count; i++)
            r->items[r->count++] = r->failed[i];
        r->failed_count = 0;
    }
    pthread_cond_signal(&r->wake);
    pthread_mutex_unlock(&r->lock);
    reaper_settle(s);
    pthread_mutex_lock(&r->lock);
    uint64_t removed = r->removed - before;
    pthread_mutex_unlock(&r->lock);
    return removed;
}
