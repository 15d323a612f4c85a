/* SPDX-License-Identifier: Apache-2.0 */
/* ofi_side.h - what the tests of libfabric share. */
#ifndef S3R_TESTS_OFI_SIDE_H
#define S3R_TESTS_OFI_SIDE_H

#include "cm.h"

#include "../helpers/ofi_peer.h"

#include "base/clock.h"

#include <dirent.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define DEVICE "tcp@127.0.0.1"

/* For what must end well, or by another reason than time: so long that only a hang reaches it. */
#define PATIENT_MS 60000

static inline void pause_ms(int ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * NS_PER_MS}, NULL);
}

/* An owner of this process with one region of guarded memory. */
struct side {
    void *owner, *region;
    struct guarded memory;
};

struct out {
    void *window;
    struct token token;
};

static inline struct side side_open(const char *device, size_t len, int fill)
{
    struct side s = {.memory = guarded_new(len, fill)};
    struct diag diag = {0};
    int rc = ofi_owner_ops.open(device, NULL, &diag, &s.owner);
    if (rc != 0)
        fail_msg("%s: %s", device, diag.text);
    assert_int_equal(ofi_owner_ops.region_add(s.owner, s.memory.bytes, len, &diag, &s.region), 0);
    return s;
}

static inline void side_close(struct side *s)
{
    ofi_owner_ops.region_remove(s->owner, s->region);
    ofi_owner_ops.close(s->owner);
    guarded_free(&s->memory);
}

static inline struct out window_new(struct side *s, size_t off, size_t len)
{
    struct out o = {0};
    struct diag diag = {0};
    int rc = ofi_owner_ops.window_open(s->owner, s->region, off, len, &diag, &o.window, &o.token);
    if (rc != 0)
        fail_msg("window_open: %s", diag_text(&diag, rc));
    assert_int_equal(o.token.size, len);
    return o;
}

static inline void window_end(struct side *s, struct out *o, bool is_settled)
{
    struct diag diag = {0};
    if (is_settled)
        ofi_owner_ops.window_settle(s->owner, o->window);
    assert_int_equal(ofi_owner_ops.window_withdraw(s->owner, o->window, &diag), 0);
    ofi_owner_ops.window_close(s->owner, o->window);
    o->window = NULL;
}

static inline void *mover_new(void)
{
    void *m = NULL;
    struct diag diag = {0};
    int rc = ofi_mover_ops.open("tcp", &diag, &m);
    if (rc != 0)
        fail_msg("mover: %s", diag.text);
    return m;
}

/* deadline_ms 0: none. */
static inline int move(void *mover, enum transfer_direction direction, const struct token *token,
                       uint64_t off, void *local, size_t len, int deadline_ms)
{
    struct transfer t = {.direction = direction,
                         .token = token,
                         .window_off = off,
                         .local = local,
                         .len = len,
                         .deadline_ns =
                             deadline_ms ? clock_mono_ns() + deadline_ms * NS_PER_MS : 0};
    uint64_t moved = 0;
    struct diag diag = {0};
    int rc = ofi_mover_ops.transfer(mover, &t, &diag, &moved);
    if (rc == 0)
        assert_int_equal(moved, len);
    else
        assert_true(moved <= len && diag_text(&diag, rc)[0]);
    return rc;
}

static inline void assert_fill(const unsigned char *p, size_t len, int fill)
{
    for (size_t i = 0; i < len; i++)
        if (p[i] != (unsigned char)fill)
            fail_msg("byte %zu was touched", i);
}

static inline size_t count_entries(const char *path)
{
    DIR *dir = opendir(path);
    assert_non_null(dir);
    size_t n = 0;
    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}

/* The peers of one test, ended whatever the test does. */
static struct peer peers[3];

static inline int peers_start(void **state)
{
    memset(peers, 0, sizeof(peers));
    return 0;
}

static inline int peers_end(void **state)
{
    for (size_t i = 0; i < ARRAY_LEN(peers); i++)
        peer_stop(&peers[i]);
    return 0;
}

static inline void expect(const char *answer, const char *begins)
{
    if (strncmp(answer, begins, strlen(begins)) != 0)
        fail_msg("answer '%s' instead of '%s'", answer, begins);
}

static inline void peer_owner(struct peer *p, size_t len, unsigned seed)
{
    *p = peer_start();
    expect(peer_ask(p, "owner " DEVICE), "ok");
    expect(peer_ask(p, "memory %zu %u", len, seed), "ok");
}

/* A thread that goes on transferring, whatever happens to others. */
struct steady {
    void *mover;
    struct token token;
    unsigned char *source;
    size_t len;
    bool must_end;
    unsigned transfers, failures;
};

static inline void *steady_run(void *arg)
{
    struct steady *s = arg;
    for (unsigned i = 0; !__atomic_load_n(&s->must_end, __ATOMIC_ACQUIRE); i++) {
        if (move(s->mover, i % 2 ? TRANSFER_READ : TRANSFER_WRITE, &s->token, 0, s->source, s->len,
                 PATIENT_MS) != 0 ||
            pattern_differs(s->source, s->len, 9) != -1)
            s->failures++;
        __atomic_fetch_add(&s->transfers, 1, __ATOMIC_RELEASE);
    }
    return NULL;
}

static inline unsigned steady_count(const struct steady *s)
{
    return __atomic_load_n(&s->transfers, __ATOMIC_ACQUIRE);
}

static inline pthread_t steady_start(struct steady *s, void *mover, const struct token *t,
                                     size_t len)
{
    *s = (struct steady){.mover = mover, .token = *t, .len = len, .source = malloc(len)};
    pattern_fill(s->source, len, 9);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, steady_run, s), 0);
    return thread;
}

/* Not before both directions were had twice. */
static inline void steady_end(struct steady *s, pthread_t thread)
{
    while (steady_count(s) < 4)
        pause_ms(1);
    __atomic_store_n(&s->must_end, true, __ATOMIC_RELEASE);
    pthread_join(thread, NULL);
    free(s->source);
    assert_int_equal(s->failures, 0);
}

#define WITH_PEERS(f) cmocka_unit_test_setup_teardown(f, peers_start, peers_end)

#endif
