// SPDX-License-Identifier: Apache-2.0
#include "../helpers/gate.h"

#include "base/attr.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

/* One way of a connection. `bytes` is filled only when it is empty. */
struct stream {
    int from, to;
    size_t len, sent;
    bool is_over;
    char bytes[65536];
};

struct pair {
    int fds[2]; /* the mover's, the owner's */
    struct stream ways[2];
};

struct gate {
    /* fixed after open */
    int listener, wake;
    struct sockaddr_in owner;
    enum gate_way way;
    pthread_t thread;
    /* the thread's */
    struct pair *pairs[GATE_PAIRS_MAX];
    /* lock */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    size_t left;
    bool is_released, must_end;
};

static size_t allowed(struct gate *g, int way, size_t len)
{
    pthread_mutex_lock(&g->lock);
    if (way == (int)g->way && !g->is_released && len > g->left)
        len = g->left;
    pthread_mutex_unlock(&g->lock);
    return len;
}

static void has_passed(struct gate *g, int way, size_t len)
{
    pthread_mutex_lock(&g->lock);
    if (way == (int)g->way && !g->is_released)
        g->left -= len;
    pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->lock);
}

static bool is_held(struct gate *g)
{
    pthread_mutex_lock(&g->lock);
    bool is = !g->is_released && g->left == 0;
    pthread_mutex_unlock(&g->lock);
    return is;
}

/* What waits behind a gate that holds is to wait in the sender's memory, not in the kernel's. */
static void buffer_little(int fd)
{
    int len = 32768;
    assert(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &len, sizeof(len)) == 0);
}

static void pair_open(struct gate *g)
{
    size_t i = 0;
    while (i < GATE_PAIRS_MAX && g->pairs[i])
        i++;
    int mover = accept4(g->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    int owner = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct pair *p = calloc(1, sizeof(*p));
    assert(i < GATE_PAIRS_MAX && owner >= 0 && p);
    buffer_little(owner);
    if (mover < 0 || connect(owner, (struct sockaddr *)&g->owner, sizeof(g->owner)) != 0) {
        if (mover >= 0)
            close(mover);
        close(owner);
        free(p);
        return;
    }
    p->fds[0] = mover;
    p->fds[1] = owner;
    p->ways[GATE_TO_OWNER].from = p->ways[GATE_FROM_OWNER].to = mover;
    p->ways[GATE_FROM_OWNER].from = p->ways[GATE_TO_OWNER].to = owner;
    g->pairs[i] = p;
}

static void pair_close(struct pair **p)
{
    if (!*p)
        return;
    close((*p)->fds[0]);
    close((*p)->fds[1]);
    free(*p);
    *p = NULL;
}

static bool is_transient(ssize_t n)
{
    return n < 0 && (errno == EAGAIN || errno == EINTR);
}

static void stream_step(struct gate *g, struct stream *s, int way)
{
    if (s->len == 0) {
        ssize_t n = recv(s->from, s->bytes, sizeof(s->bytes), MSG_DONTWAIT);
        s->is_over = n <= 0 && !is_transient(n);
        s->len = n > 0 ? (size_t)n : 0;
        s->sent = 0;
        return;
    }
    size_t len = allowed(g, way, s->len - s->sent);
    ssize_t n = send(s->to, s->bytes + s->sent, len, MSG_DONTWAIT | MSG_NOSIGNAL);
    s->is_over = n < 0 && !is_transient(n);
    if (n > 0) {
        has_passed(g, way, (size_t)n);
        s->sent += (size_t)n;
    }
    if (s->sent == s->len)
        s->len = 0;
}

/* What is held is not asked about: that its other end hung up is seen when it goes on. */
static struct pollfd stream_waits_for(struct gate *g, const struct stream *s, int way)
{
    if (s->is_over)
        return (struct pollfd){.fd = -1};
    if (s->len == 0)
        return (struct pollfd){.fd = s->from, .events = POLLIN};
    if (allowed(g, way, 1) == 0)
        return (struct pollfd){.fd = -1};
    return (struct pollfd){.fd = s->to, .events = POLLOUT};
}

/* While the gate holds, an end of one way is kept from the other: a stalled network tells nothing,
 * either. */
static void close_ended(struct gate *g)
{
    for (size_t i = 0; i < GATE_PAIRS_MAX; i++)
        if (g->pairs[i] && !is_held(g) &&
            (g->pairs[i]->ways[0].is_over || g->pairs[i]->ways[1].is_over))
            pair_close(&g->pairs[i]);
}

static bool must_end(struct gate *g)
{
    pthread_mutex_lock(&g->lock);
    bool must = g->must_end;
    pthread_mutex_unlock(&g->lock);
    return must;
}

static void *gate_main(void *arg)
{
    struct gate *g = arg;
    while (!must_end(g)) {
        struct pollfd fds[2 + 2 * GATE_PAIRS_MAX];
        struct stream *streams[ARRAY_LEN(fds)] = {NULL};
        close_ended(g);
        fds[0] = (struct pollfd){.fd = g->wake, .events = POLLIN};
        fds[1] = (struct pollfd){.fd = g->listener, .events = POLLIN};
        for (size_t i = 2; i < ARRAY_LEN(fds); i++) {
            struct pair *p = g->pairs[(i - 2) / 2];
            streams[i] = p ? &p->ways[i % 2] : NULL;
            fds[i] = p ? stream_waits_for(g, streams[i], i % 2) : (struct pollfd){.fd = -1};
        }
        if (poll(fds, ARRAY_LEN(fds), -1) < 0)
            continue;
        uint64_t ignored;
        if (fds[0].revents && read(g->wake, &ignored, sizeof(ignored)) < 0)
            continue;
        for (size_t i = 2; i < ARRAY_LEN(fds); i++)
            if (fds[i].revents)
                stream_step(g, streams[i], i % 2);
        if (fds[1].revents)
            pair_open(g);
    }
    return NULL;
}

struct gate *gate_open(struct token *t, enum gate_way way, size_t limit)
{
    struct gate *g = calloc(1, sizeof(*g));
    struct sockaddr_in here = {.sin_family = AF_INET};
    socklen_t len = sizeof(here);
    here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert(g && t->ofi.name_len == sizeof(g->owner));
    g->way = way;
    g->left = limit;
    memcpy(&g->owner, t->ofi.name, sizeof(g->owner));
    pthread_mutex_init(&g->lock, NULL);
    pthread_cond_init(&g->changed, NULL);
    g->wake = eventfd(0, EFD_CLOEXEC);
    g->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert(bind(g->listener, (struct sockaddr *)&here, len) == 0 &&
           listen(g->listener, GATE_PAIRS_MAX) == 0 &&
           getsockname(g->listener, (struct sockaddr *)&here, &len) == 0);
    buffer_little(g->listener);
    memcpy(t->ofi.name, &here, sizeof(here));
    assert(pthread_create(&g->thread, NULL, gate_main, g) == 0);
    return g;
}

void gate_await_held(struct gate *g)
{
    pthread_mutex_lock(&g->lock);
    while (g->left > 0)
        pthread_cond_wait(&g->changed, &g->lock);
    pthread_mutex_unlock(&g->lock);
}

static void wake_up(struct gate *g, bool *flag)
{
    uint64_t one = 1;
    pthread_mutex_lock(&g->lock);
    *flag = true;
    pthread_mutex_unlock(&g->lock);
    assert(write(g->wake, &one, sizeof(one)) == sizeof(one));
}

void gate_release(struct gate *g)
{
    wake_up(g, &g->is_released);
}

void gate_close(struct gate *g)
{
    wake_up(g, &g->must_end);
    pthread_join(g->thread, NULL);
    for (size_t i = 0; i < GATE_PAIRS_MAX; i++)
        pair_close(&g->pairs[i]);
    close(g->listener);
    close(g->wake);
    pthread_cond_destroy(&g->changed);
    pthread_mutex_destroy(&g->lock);
    free(g);
}
