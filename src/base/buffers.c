/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buffers.h"

#include "base/error.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#define PAGE_LEN 4096

struct buffer_pool {
    size_t buffer_len, kept_max; /* fixed after create */
    pthread_mutex_t lock;
    /* lock `lock` */
    struct buffer *kept; /* the last one given first: its pages may still be in a cache */
    size_t kept_count;
};

static void destroy(struct buffer *buffer)
{
    free(buffer->bytes);
    free(buffer);
}

int buffer_pool_create(size_t buffer_len, size_t kept_max, struct buffer_pool **ret_pool)
{
    struct buffer_pool *pool = calloc(1, sizeof *pool);
    if (!pool)
        return S3R_E_NOMEM;
    pool->buffer_len = buffer_len;
    pool->kept_max = kept_max;
    pthread_mutex_init(&pool->lock, NULL);
    *ret_pool = pool;
    return 0;
}

void buffer_pool_destroy(struct buffer_pool *pool)
{
    if (!pool)
        return;
    while (pool->kept) {
        struct buffer *buffer = pool->kept;
        pool->kept = buffer->next;
        destroy(buffer);
    }
    pthread_mutex_destroy(&pool->lock);
    free(pool);
}

static struct buffer *create(struct buffer_pool *pool)
{
    void *bytes;
    struct buffer *buffer = calloc(1, sizeof *buffer);
    if (!buffer || posix_memalign(&bytes, PAGE_LEN, pool->buffer_len) != 0) {
        free(buffer);
        return NULL;
    }
    buffer->bytes = bytes;
    buffer->pool = pool;
    return buffer;
}

struct buffer *buffer_take(struct buffer_pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    struct buffer *buffer = pool->kept;
    if (buffer) {
        pool->kept = buffer->next;
        pool->kept_count--;
    }
    pthread_mutex_unlock(&pool->lock);
    return buffer ? buffer : create(pool);
}

void buffer_give(struct buffer *buffer)
{
    if (!buffer)
        return;
    struct buffer_pool *pool = buffer->pool;
    pthread_mutex_lock(&pool->lock);
    bool is_kept = pool->kept_count < pool->kept_max;
    if (is_kept) {
        buffer->next = pool->kept;
        pool->kept = buffer;
        pool->kept_count++;
    }
    pthread_mutex_unlock(&pool->lock);
    if (!is_kept)
        destroy(buffer);
}
