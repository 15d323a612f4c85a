/* SPDX-License-Identifier: Apache-2.0 */
#include "base/guard.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>

static pthread_once_t install_once = PTHREAD_ONCE_INIT;
static struct sigaction before; /* fixed after install */
static _Thread_local sigjmp_buf *way_out;

static void on_bus_error(int number, siginfo_t *info, void *context)
{
    if (way_out)
        siglongjmp(*way_out, 1);
    /* not ours: the instruction fails again under the old disposition */
    sigaction(SIGBUS, &before, NULL);
    (void)number;
    (void)info;
    (void)context;
}

static void install(void)
{
    struct sigaction action = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO};
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, &before);
}

bool guarded_read(void (*fn)(void *arg), void *arg)
{
    sigjmp_buf here;
    pthread_once(&install_once, install);
    if (sigsetjmp(here, 1)) { /* the jump out of the handler restores the mask */
        way_out = NULL;
        return false;
    }
    way_out = &here;
    fn(arg);
    way_out = NULL;
    return true;
}
