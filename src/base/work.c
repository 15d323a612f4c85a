/* SPDX-License-Identifier: Apache-2.0 */
#include "base/work.h"

#include "base/error.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct work_thread {
    struct work_pool *pool;
    pthread_t id;
    uint64_t owner; /* of the job it runs: lock `lock` */
};

struct work_pool {
    char name[16];
    size_t threads_max, queue_max, share_max; /* fixed after create */
    struct work_thread *thread_rows;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    /* lock `lock` */
    struct work_job *first, **last;
    size_t threads, queued, idle;
    bool is_stopping;
};

static bool has_share_left(const struct work_pool *pool, uint64_t owner)
{
    size_t running = 0;
    if (!owner || !pool->share_max)
        return true;
    for (size_t i = 0; i < pool->threads; i++)
        running += pool->thread_rows[i].owner == owner;
    return running < pool->share_max;
}

/* Takes the first job off the queue whose owner may have one more thread; NULL: none. What makes
 * another one eligible is the end of a job, and the thread that ended it comes here next. */
static struct work_job *take_job(struct work_pool *pool)
{
    for (struct work_job **at = &pool->first; *at; at = &(*at)->next) {
        struct work_job *job = *at;
        if (!has_share_left(pool, job->owner))
            continue;
        *at = job->next;
        if (!job->next)
            pool->last = at;
        pool->queued--;
        return job;
    }
    return NULL;
}

static struct work_job *next_job(struct work_thread *self)
{
    struct work_pool *pool = self->pool;
    struct work_job *job;
    pthread_mutex_lock(&pool->lock);
    self->owner = 0;
    pool->idle++;
    while (!(job = take_job(pool)) && !pool->is_stopping)
        pthread_cond_wait(&pool->wake, &pool->lock);
    pool->idle--;
    self->owner = job ? job->owner : 0;
    pthread_mutex_unlock(&pool->lock);
    return job;
}

static void *work_main(void *arg)
{
    struct work_job *job;
    while ((job = next_job(arg)))
        job->fn(job->arg);
    return NULL;
}

int work_pool_create(const char *name, size_t threads_max, size_t queue_max,
                     struct work_pool **ret_pool)
{
    struct work_pool *pool = calloc(1, sizeof *pool);
    if (!pool)
        return S3R_E_NOMEM;
    pool->thread_rows = calloc(threads_max, sizeof *pool->thread_rows);
    if (!pool->thread_rows) {
        free(pool);
        return S3R_E_NOMEM;
    }
    snprintf(pool->name, sizeof pool->name, "%s", name);
    pool->threads_max = threads_max;
    pool->queue_max = queue_max;
    pool->last = &pool->first;
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->wake, NULL);
    *ret_pool = pool;
    return 0;
}

void work_pool_set_share(struct work_pool *pool, size_t share_max)
{
    pool->share_max = share_max;
}

void work_pool_destroy(struct work_pool *pool)
{
    if (!pool)
        return;
    pthread_mutex_lock(&pool->lock);
    pool->is_stopping = true;
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->lock);
    for (size_t i = 0; i < pool->threads; i++)
        pthread_join(pool->thread_rows[i].id, NULL);
    pthread_cond_destroy(&pool->wake);
    pthread_mutex_destroy(&pool->lock);
    free(pool->thread_rows);
    free(pool);
}

/* A thread of its own must not take the program's signals. Called with the lock held. */
static int start_thread(struct work_pool *pool)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    struct work_thread *row = &pool->thread_rows[pool->threads];
    row->pool = pool;
    int failed = pthread_create(&row->id, NULL, work_main, row);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed)
        return S3R_E_NOMEM;
    pthread_setname_np(row->id, pool->name);
    pool->threads++;
    return 0;
}

static int submit_locked(struct work_pool *pool, struct work_job *job)
{
    if (pool->is_stopping)
        return S3R_E_SHUTTING_DOWN;
    if (pool->queued >= pool->queue_max)
        return S3R_E_BUSY;
    if (pool->queued >= pool->idle && pool->threads < pool->threads_max) {
        int rc = start_thread(pool);
        if (rc && pool->threads == 0)
            return rc;
    }
    *pool->last = job;
    pool->last = &job->next;
    pool->queued++;
    return 0;
}

int work_submit(struct work_pool *pool, struct work_job *job, work_fn *fn, void *arg)
{
    return work_submit_owned(pool, job, 0, fn, arg);
}

int work_submit_owned(struct work_pool *pool, struct work_job *job, uint64_t owner, work_fn *fn,
                      void *arg)
{
    *job = (struct work_job){.fn = fn, .arg = arg, .owner = owner};
    pthread_mutex_lock(&pool->lock);
    int rc = submit_locked(pool, job);
    pthread_mutex_unlock(&pool->lock);
    /* only now: who wakes needs the lock at once */
    if (!rc)
        pthread_cond_signal(&pool->wake);
    return rc;
}
