/* SPDX-License-Identifier: Apache-2.0 */
#include "base/work.h"

#include "base/error.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct work_pool {
    char name[16];
    size_t threads_max, queue_max; /* fixed after create */
    pthread_t *thread_ids;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    /* lock `lock` */
    struct work_job *first, **last;
    size_t threads, queued, idle;
    bool is_stopping;
};

static struct work_job *next_job(struct work_pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    pool->idle++;
    while (!pool->first && !pool->is_stopping)
        pthread_cond_wait(&pool->wake, &pool->lock);
    pool->idle--;
    struct work_job *job = pool->first;
    if (job) {
        pool->first = job->next;
        if (!pool->first)
            pool->last = &pool->first;
        pool->queued--;
    }
    pthread_mutex_unlock(&pool->lock);
    return job;
}

static void *work_main(void *arg)
{
    struct work_pool *pool = arg;
    struct work_job *job;
    while ((job = next_job(pool)))
        job->fn(job->arg);
    return NULL;
}

int work_pool_create(const char *name, size_t threads_max, size_t queue_max,
                     struct work_pool **ret_pool)
{
    struct work_pool *pool = calloc(1, sizeof *pool);
    if (!pool)
        return S3R_E_NOMEM;
    pool->thread_ids = calloc(threads_max, sizeof *pool->thread_ids);
    if (!pool->thread_ids) {
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

void work_pool_destroy(struct work_pool *pool)
{
    if (!pool)
        return;
    pthread_mutex_lock(&pool->lock);
    pool->is_stopping = true;
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->lock);
    for (size_t i = 0; i < pool->threads; i++)
        pthread_join(pool->thread_ids[i], NULL);
    pthread_cond_destroy(&pool->wake);
    pthread_mutex_destroy(&pool->lock);
    free(pool->thread_ids);
    free(pool);
}

/* A thread of its own must not take the program's signals. Called with the lock held. */
static int start_thread(struct work_pool *pool)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&pool->thread_ids[pool->threads], NULL, work_main, pool);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed)
        return S3R_E_NOMEM;
    pthread_setname_np(pool->thread_ids[pool->threads], pool->name);
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
    pthread_cond_signal(&pool->wake);
    return 0;
}

int work_submit(struct work_pool *pool, struct work_job *job, work_fn *fn, void *arg)
{
    *job = (struct work_job){.fn = fn, .arg = arg};
    pthread_mutex_lock(&pool->lock);
    int rc = submit_locked(pool, job);
    pthread_mutex_unlock(&pool->lock);
    return rc;
}

size_t work_pool_load(struct work_pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    size_t load = pool->queued + (pool->threads - pool->idle);
    pthread_mutex_unlock(&pool->lock);
    return load;
}
