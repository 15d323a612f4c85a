/* SPDX-License-Identifier: Apache-2.0 */
#include "rdma/gauge.h"

#include <pthread.h>
#include <stdatomic.h>

static _Atomic uint64_t registered_len;

static void begin_anew(void)
{
    registered_len = 0;
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, begin_anew);
}

void gauge_add(uint64_t *own, uint64_t len)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    registered_len += len;
    *own += len;
}

void gauge_sub(uint64_t *own, uint64_t len)
{
    registered_len -= len;
    *own -= len;
}

uint64_t gauge_registered_len(void)
{
    return registered_len;
}
