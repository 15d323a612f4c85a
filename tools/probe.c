/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/probe.h"

#include "base/pages.h"
#include "rdma/mover.h"
#include "rdma/owner.h"
#include "tools/file.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#define PROBE_LEN 65536

static void say(struct probe *p, const char *step, int error, const struct diag *diag)
{
    snprintf(p->why, sizeof(p->why), "%s: %.300s", step, diag_text(diag, error));
}

/* Both halves in one process: what a server does with a token of ours. */
static void move(struct probe *p, struct owner *owner, struct mover *mover, char *pages)
{
    struct diag diag = {0};
    struct owner_window *window = NULL;
    struct mover_memory *memory = NULL;
    char *from = pages, *to = pages + PROBE_LEN;
    memset(from, 0x5a, PROBE_LEN);
    int e = owner_register(owner, to, PROBE_LEN, &diag);
    if (e == 0)
        e = owner_window_open(owner, to, 0, PROBE_LEN, &diag, &window);
    if (e == 0)
        e = mover_memory_add(mover, from, PROBE_LEN, &diag, &memory);
    struct token token = {0};
    const char *text = e == 0 ? owner_window_token(window) : "";
    if (e == 0)
        e = token_parse(text, strlen(text), &diag, &token);
    const struct transfer transfer = {.direction = TRANSFER_WRITE,
                                      .token = &token,
                                      .local = from,
                                      .len = PROBE_LEN};
    uint64_t moved = 0;
    if (e == 0)
        e = mover_transfer(mover, memory, &transfer, &diag, &moved);
    if (window != NULL && e == 0)
        owner_window_settle(window);
    owner_window_close(window);
    if (memory != NULL)
        mover_memory_remove(mover, memory);
    p->is_usable = e == 0 && moved == PROBE_LEN && memcmp(from, to, PROBE_LEN) == 0;
    if (e != 0)
        say(p, "a transfer within this process failed", e, &diag);
    else if (!p->is_usable)
        snprintf(p->why, sizeof(p->why), "a transfer within this process gave wrong bytes");
    if (owner_deregister(owner, to) != 0 && p->is_usable)
        snprintf(p->why, sizeof(p->why), "the registration was gone");
}

static void try_move(struct probe *p, struct owner *owner)
{
    struct diag diag = {0};
    struct mover *mover = NULL;
    char *pages = pages_alloc(2 * PROBE_LEN);
    int e = pages != NULL ? mover_open(p->name, &diag, &mover) : S3R_E_NOMEM;
    if (e == 0)
        move(p, owner, mover, pages);
    else
        say(p, "no server could use it here", e, &diag);
    if (mover != NULL)
        mover_close(mover);
    pages_free(pages, 2 * PROBE_LEN);
}

void probe_run(struct probe *p)
{
    struct sockaddr_in loopback = {.sin_family = AF_INET,
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct diag diag = {0};
    struct owner *owner = NULL;
    int e = owner_open(p->name, (const struct sockaddr *)&loopback, &diag, &owner);
    if (e != 0) {
        snprintf(p->why, sizeof(p->why), "%s", diag_text(&diag, e));
        return;
    }
    if (owner_rail_count(owner) > 0)
        owner_describe(owner, 0, p->rail, sizeof(p->rail));
    try_move(p, owner);
    owner_close(owner);
}

bool device_is_listed(const char *list, const char *name)
{
    size_t len = strlen(name);
    for (const char *p = list; p != NULL && *p != '\0';) {
        size_t n = strcspn(p, ",");
        if (n == len && memcmp(p, name, n) == 0)
            return true;
        p += n + (p[n] == ',');
    }
    return false;
}
