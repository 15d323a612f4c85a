/* SPDX-License-Identifier: Apache-2.0 */
#include "client/linger.h"

#include "base/log.h"
#include "rdma/owner.h"

#include <stdlib.h>

struct lingering {
    struct lingering *next;
    struct owner_window *window;
    void *registered;
    struct stage stage;
};

void linger_add(struct client *c, struct owner_window *window, void *registered,
                struct stage *stage)
{
    struct lingering *l = calloc(1, sizeof(*l));
    if (l != NULL) {
        *l = (struct lingering){.window = window, .registered = registered, .stage = *stage};
        pthread_mutex_lock(&c->lock);
        l->next = c->lingering;
        c->lingering = l;
        pthread_mutex_unlock(&c->lock);
    }
    *stage = (struct stage){0};
}

bool linger_end(struct client *c)
{
    pthread_mutex_lock(&c->lock);
    for (struct lingering **p = &c->lingering; *p != NULL;) {
        struct lingering *l = *p;
        struct diag ignored = {0};
        if (owner_window_withdraw(l->window, &ignored) != 0) {
            p = &l->next;
            continue;
        }
        owner_window_close(l->window);
        if (l->registered != NULL && owner_deregister(c->owner, l->registered) != 0)
            log_warn("a registration was gone before its time");
        stage_close(&l->stage);
        *p = l->next;
        free(l);
    }
    bool is_none = c->lingering == NULL;
    pthread_mutex_unlock(&c->lock);
    return is_none;
}

void linger_forget(struct client *c)
{
    while (c->lingering != NULL) {
        struct lingering *l = c->lingering;
        c->lingering = l->next;
        free(l);
    }
}
