/* SPDX-License-Identifier: Apache-2.0 */
#include "cm.h"

#include "base/clock.h"
#include "rdma/loop/loop.h"
#include "rdma/mover.h"
#include "rdma/owner.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LEN 65536

static unsigned char bytes[LEN];

static int clean(void **state)
{
    loop_reset();
    unsetenv("S3RDMA_DEVICE");
    memset(bytes, 0, sizeof bytes);
    return 0;
}

static struct owner *owner_of(const char *devices)
{
    struct owner *o;
    struct diag diag = {""};
    if (owner_open(devices, NULL, &diag, &o))
        fail_msg("%s", diag.text);
    return o;
}

static struct owner_window *opened(struct owner *o, void *ptr, uint64_t off, uint64_t len)
{
    struct owner_window *w;
    struct diag diag = {""};
    if (owner_window_open(o, ptr, off, len, &diag, &w))
        fail_msg("%s", diag.text);
    return w;
}

static struct token token_of(const struct owner_window *w)
{
    struct token t;
    const char *text = owner_window_token(w);
    assert_int_equal(token_parse(text, strlen(text), NULL, &t), 0);
    return t;
}

static bool is_on(const struct owner_window *w, const char *device)
{
    struct token t = token_of(w);
    return t.ofi.name_len == strlen(device) && memcmp(t.ofi.name, device, t.ofi.name_len) == 0;
}

static void the_device_comes_from_the_environment_when_none_is_given(void **state)
{
    struct owner *o;
    struct diag diag = {""};
    assert_int_equal(owner_open(NULL, NULL, &diag, &o), S3R_E_RDMA_UNAVAILABLE);
    setenv("S3RDMA_DEVICE", "loop:a,loop:b", 1);
    o = owner_of(NULL);
    assert_int_equal(owner_rail_count(o), 2);
    owner_close(o);
    o = owner_of("cma");
    assert_int_equal(owner_rail_count(o), 1);
    owner_close(o);
    setenv("S3RDMA_DEVICE", "x:1:256", 1);
    diag_clear(&diag);
    assert_int_equal(owner_open(NULL, NULL, &diag, &o), S3R_E_RDMA_UNAVAILABLE);
    assert_non_null(strstr(diag.text, "x:1:256"));
    setenv("S3RDMA_DEVICE", "ofi:", 1);
    assert_int_equal(owner_open(NULL, NULL, NULL, &o), S3R_E_INVALID_ARGUMENT);
}

static void registrations_are_counted_by_address(void **state)
{
    struct owner *o = owner_of("loop:a,loop:b");
    assert_int_equal(owner_deregister(o, bytes), S3R_E_RDMA_NOT_FOUND);
    assert_int_equal(owner_register(o, bytes, 100, NULL), 0);
    assert_int_equal(owner_register(o, bytes, 100, NULL), 0);
    assert_int_equal(owner_registered_len(o), 100);
    assert_int_equal(loop_counts("a").registrations, 1);
    assert_int_equal(loop_counts("b").registrations, 1);
    assert_int_equal(owner_deregister(o, bytes), 0);
    owner_window_close(opened(o, bytes, 0, 100));
    assert_int_equal(owner_deregister(o, bytes), 0);
    assert_int_equal(owner_registered_len(o), 0);
    assert_int_equal(loop_counts("a").registrations, 0);
    assert_int_equal(owner_deregister(o, bytes), S3R_E_RDMA_NOT_FOUND);
    owner_close(o);
}

static void what_cannot_be_memory_is_refused(void **state)
{
    struct owner *o = owner_of("loop");
    assert_int_equal(owner_register(o, NULL, 1, NULL), S3R_E_INVALID_ARGUMENT);
    assert_int_equal(owner_register(o, bytes, 0, NULL), S3R_E_INVALID_ARGUMENT);
    assert_int_equal(owner_register(o, bytes, SIZE_MAX, NULL), S3R_E_INVALID_ARGUMENT);
    assert_int_equal(owner_register(o, bytes, SIZE_MAX - (uintptr_t)bytes + 1, NULL),
                     S3R_E_INVALID_ARGUMENT);
    assert_int_equal(owner_register(o, bytes, 100, NULL), 0);
    struct diag diag = {""};
    assert_int_equal(owner_register(o, bytes, 101, &diag), S3R_E_INVALID_ARGUMENT);
    assert_non_null(strstr(diag.text, "101"));
    assert_non_null(strstr(diag.text, "100"));
    assert_int_equal(owner_deregister(o, bytes), 0);
    owner_close(o);
}

static void overlapping_registrations_live_side_by_side(void **state)
{
    struct owner *o = owner_of("cma");
    assert_int_equal(owner_register(o, bytes, 4096, NULL), 0);
    assert_int_equal(owner_register(o, bytes + 100, 4096, NULL), 0);
    struct owner_window *w = opened(o, bytes + 100, 0, 4096);
    assert_int_equal(token_of(w).addr, (uintptr_t)bytes + 100);
    assert_int_equal(owner_deregister(o, bytes), 0);
    owner_window_close(w);
    assert_int_equal(owner_deregister(o, bytes + 100), 0);
    owner_close(o);
}

static void a_window_lies_inside_its_region(void **state)
{
    static const struct {
        uint64_t off, len;
        int rc;
    } rows[] = {
        {0, 4096, 0},
        {4096, 0, 0},
        {0, 0, 0},
        {4095, 1, 0},
        {0, 4097, S3R_E_RDMA_BOUNDS},
        {4096, 1, S3R_E_RDMA_BOUNDS},
        {4097, 0, S3R_E_RDMA_BOUNDS},
        {1, UINT64_MAX, S3R_E_RDMA_BOUNDS},
        {UINT64_MAX, 2, S3R_E_RDMA_BOUNDS},
    };
    struct owner *o = owner_of("cma");
    struct owner_window *w;
    assert_int_equal(owner_register(o, bytes, 4096, NULL), 0);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        int rc = owner_window_open(o, bytes, rows[i].off, rows[i].len, NULL, &w);
        assert_int_equal(rc, rows[i].rc);
        if (rc)
            continue;
        assert_int_equal(token_of(w).addr, (uintptr_t)bytes + rows[i].off);
        assert_int_equal(token_of(w).size, rows[i].len);
        owner_window_close(w);
    }
    assert_int_equal(owner_window_open(o, bytes + 1, 0, 1, NULL, &w), S3R_E_RDMA_NOT_FOUND);
    owner_close(o);
}

static void every_window_has_a_key_of_its_own(void **state)
{
    struct owner *o = owner_of("cma");
    struct owner_window *w[100];
    assert_int_equal(owner_register(o, bytes, LEN, NULL), 0);
    for (size_t i = 0; i < ARRAY_LEN(w); i++)
        w[i] = opened(o, bytes, 0, LEN);
    for (size_t i = 0; i < ARRAY_LEN(w); i++) {
        for (size_t j = 0; j < i; j++) {
            struct token a = token_of(w[i]), b = token_of(w[j]);
            assert_true(a.cma.key != b.cma.key && a.cma.slot != b.cma.slot);
        }
    }
    for (size_t i = 0; i < ARRAY_LEN(w); i++)
        owner_window_close(w[i]);
    owner_close(o);
}

static void deregistration_withdraws_what_is_out(void **state)
{
    struct owner *o = owner_of("loop");
    struct mover *m;
    assert_int_equal(mover_open("loop", NULL, &m), 0);
    assert_int_equal(owner_register(o, bytes, LEN, NULL), 0);
    struct owner_window *a = opened(o, bytes, 0, LEN), *b = opened(o, bytes, 0, 1);
    struct token t = token_of(a);
    uint64_t moved;
    char byte = 9;
    struct transfer tr = {.token = &t, .local = &byte, .len = 1};
    assert_int_equal(mover_transfer(m, NULL, &tr, NULL, &moved), 0);
    assert_int_equal(loop_counts("").windows, 2);
    assert_int_equal(owner_deregister(o, bytes), 0);
    assert_int_equal(loop_counts("").windows, 0);
    assert_int_equal(loop_counts("").registrations, 0);
    assert_int_equal(mover_transfer(m, NULL, &tr, NULL, &moved), S3R_E_RDMA_PEER);
    bytes[0] = 0;
    assert_int_equal(loop_write_late(""), S3R_E_RDMA_PEER);
    assert_int_equal(bytes[0], 0);
    assert_int_equal(owner_window_withdraw(a, NULL), 0);
    owner_window_close(a);
    owner_window_close(b);
    mover_close(m);
    owner_close(o);
}

struct stuck {
    struct mover *mover;
    struct token token;
    int rc;
};

static void *stuck_main(void *arg)
{
    struct stuck *s = arg;
    char byte = 9;
    uint64_t moved;
    struct transfer t = {.token = &s->token, .local = &byte, .len = 1};
    s->rc = mover_transfer(s->mover, NULL, &t, NULL, &moved);
    return NULL;
}

static void a_transfer_that_is_stuck_makes_withdrawal_busy_until_it_ends(void **state)
{
    struct owner *o = owner_of("loop");
    struct stuck s;
    pthread_t thread;
    assert_int_equal(mover_open("loop", NULL, &s.mover), 0);
    assert_int_equal(owner_register(o, bytes, LEN, NULL), 0);
    struct owner_window *w = opened(o, bytes, 0, LEN);
    s.token = token_of(w);
    loop_script("", &(struct loop_script){.stuck_piece = 1});
    assert_int_equal(pthread_create(&thread, NULL, stuck_main, &s), 0);
    while (loop_counts("").held == 0)
        usleep(1000);
    struct diag diag = {""};
    assert_int_equal(owner_window_withdraw(w, &diag), S3R_E_BUSY);
    assert_true(diag.text[0] != '\0');
    assert_int_equal(owner_deregister(o, bytes), S3R_E_BUSY);
    assert_int_equal(owner_registered_len(o), LEN);
    loop_release("");
    pthread_join(thread, NULL);
    assert_int_equal(s.rc, 0);
    assert_int_equal(owner_window_withdraw(w, NULL), 0);
    assert_int_equal(owner_deregister(o, bytes), 0);
    owner_window_close(w);
    mover_close(s.mover);
    owner_close(o);
}

/* Late enough that closing has begun, most likely, and has found out that it must wait; where not,
 * it only has less to wait for. */
static void *release_later(void *arg)
{
    usleep(3 * LOOP_WITHDRAW_WAIT_MS * 1000);
    loop_release("");
    return NULL;
}

/* It waits until it is certain. */
static void closing_a_window_outlasts_a_stuck_transfer(void **state)
{
    struct owner *o = owner_of("loop");
    struct stuck s;
    pthread_t thread, releaser;
    assert_int_equal(mover_open("loop", NULL, &s.mover), 0);
    assert_int_equal(owner_register(o, bytes, LEN, NULL), 0);
    struct owner_window *w = opened(o, bytes, 0, LEN);
    s.token = token_of(w);
    loop_script("", &(struct loop_script){.stuck_piece = 1});
    assert_int_equal(pthread_create(&thread, NULL, stuck_main, &s), 0);
    while (loop_counts("").held == 0)
        usleep(1000);
    assert_int_equal(pthread_create(&releaser, NULL, release_later, NULL), 0);
    owner_window_close(w);
    assert_int_equal(bytes[0], 9);
    bytes[0] = 0;
    pthread_join(thread, NULL);
    pthread_join(releaser, NULL);
    assert_int_equal(bytes[0], 0);
    mover_close(s.mover);
    owner_close(o);
}

static void windows_take_the_rails_in_turn(void **state)
{
    struct owner *o = owner_of("loop:a,loop:b");
    int on_a = 0;
    assert_int_equal(owner_register(o, bytes, LEN, NULL), 0);
    for (int i = 0; i < 10; i++) {
        struct owner_window *w = opened(o, bytes, 0, 1);
        on_a += is_on(w, "a");
        owner_window_close(w);
    }
    assert_int_equal(on_a, 5);
    owner_close(o);
}

/* Of so many windows, how many are on that rail. */
static int count_on(struct owner *o, const char *name, int windows)
{
    int count = 0;
    for (int i = 0; i < windows; i++) {
        struct owner_window *w = opened(o, bytes, 0, 1);
        count += is_on(w, name);
        owner_window_close(w);
    }
    return count;
}

static void a_rail_that_was_blamed_is_skipped_and_comes_back(void **state)
{
    struct owner *o = owner_of("loop:a,loop:b");
    int64_t blamed_ns, until = clock_mono_ns() + 60 * NS_PER_S;
    int healthy, on_bad;
    assert_int_equal(owner_register(o, bytes, LEN, NULL), 0);
    struct owner_window *bad = opened(o, bytes, 0, 1);
    const char *name = is_on(bad, "a") ? "a" : "b";
    assert_int_equal(owner_healthy_count(o), 2);
    /* What was seen counts only if the rail's first second was not over meanwhile. */
    do {
        blamed_ns = clock_mono_ns();
        owner_window_blame(bad);
        owner_window_blame(bad);
        healthy = owner_healthy_count(o);
        on_bad = count_on(o, name, 6);
    } while (clock_mono_ns() - blamed_ns >= NS_PER_S && blamed_ns < until);
    assert_int_equal(healthy, 1);
    assert_int_equal(on_bad, 0);
    while (owner_healthy_count(o) < 2 && clock_mono_ns() < until)
        usleep(10 * 1000);
    assert_int_equal(owner_healthy_count(o), 2);
    assert_int_equal(count_on(o, name, 4), 2);
    owner_window_close(bad);
    owner_close(o);
}

static void when_all_rails_are_blamed_all_are_tried(void **state)
{
    struct owner *o = owner_of("loop:a,loop:b");
    assert_int_equal(owner_register(o, bytes, LEN, NULL), 0);
    struct owner_window *a = opened(o, bytes, 0, 1), *b = opened(o, bytes, 0, 1);
    owner_window_blame(a);
    owner_window_blame(b);
    assert_int_equal(owner_healthy_count(o), 0);
    struct owner_window *w = opened(o, bytes, 0, 1);
    assert_int_equal(owner_healthy_count(o), 2);
    owner_window_close(w);
    owner_window_close(a);
    owner_window_close(b);
    owner_close(o);
}

/* Faults of the caller say nothing about a rail. */
static void refused_calls_blame_nobody(void **state)
{
    struct owner *o = owner_of("loop:a,loop:b");
    struct owner_window *w;
    assert_int_equal(owner_register(o, bytes, LEN, NULL), 0);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(owner_window_open(o, bytes, 1, LEN, NULL, &w), S3R_E_RDMA_BOUNDS);
        assert_int_equal(owner_window_open(o, bytes + 1, 0, 1, NULL, &w), S3R_E_RDMA_NOT_FOUND);
    }
    assert_int_equal(owner_healthy_count(o), 2);
    owner_close(o);
}

static void a_rail_that_fails_here_is_passed_over(void **state)
{
    struct owner *o = owner_of("loop:a,loop:b");
    struct diag diag = {""};
    struct owner_window *w;
    loop_script("a", &(struct loop_script){.register_error = S3R_E_RDMA_REGISTER});
    assert_int_equal(owner_register(o, bytes, 100, NULL), 0);
    for (int i = 0; i < 4; i++) {
        w = opened(o, bytes, 0, 1);
        assert_true(is_on(w, "b"));
        owner_window_close(w);
    }
    loop_script("b", &(struct loop_script){.window_error = S3R_E_RDMA_UNAVAILABLE});
    assert_int_equal(owner_window_open(o, bytes, 0, 1, &diag, &w), S3R_E_RDMA_UNAVAILABLE);
    assert_non_null(strstr(diag.text, "no window"));
    loop_script("b", &(struct loop_script){.register_error = S3R_E_RDMA_REGISTER});
    assert_int_equal(owner_register(o, bytes + 200, 100, NULL), S3R_E_RDMA_REGISTER);
    assert_int_equal(owner_registered_len(o), 100);
    owner_close(o);
    assert_int_equal(loop_counts("a").registrations, 0);
    assert_int_equal(loop_counts("b").registrations, 0);
}

static void closing_ends_everything_and_windows_left_over_can_be_closed(void **state)
{
    struct owner *o = owner_of("loop");
    assert_int_equal(owner_register(o, bytes, 100, NULL), 0);
    assert_int_equal(owner_register(o, bytes + 4096, 100, NULL), 0);
    struct owner_window *w = opened(o, bytes, 0, 1);
    owner_close(o);
    assert_int_equal(loop_counts("").registrations, 0);
    assert_int_equal(loop_counts("").windows, 0);
    assert_int_equal(owner_window_withdraw(w, NULL), 0);
    owner_window_blame(w);
    owner_window_close(w);
    owner_window_close(NULL);
    owner_close(NULL);
}

struct worker {
    struct owner *owner;
    struct mover *mover;
    unsigned char *own;
};

static void *work_main(void *arg)
{
    struct worker *w = arg;
    for (int i = 0; i < 300; i++) {
        struct owner_window *window;
        unsigned char value = (unsigned char)i, back = 0;
        uint64_t moved;
        if (owner_register(w->owner, w->own, 64, NULL) ||
            owner_register(w->owner, bytes, LEN, NULL) ||
            owner_window_open(w->owner, w->own, 10, 1, NULL, &window))
            return "open";
        struct token t;
        const char *text = owner_window_token(window);
        if (token_parse(text, strlen(text), NULL, &t))
            return "token";
        struct transfer tr = {.token = &t, .local = &value, .len = 1};
        if (mover_transfer(w->mover, NULL, &tr, NULL, &moved))
            return "write";
        tr.direction = TRANSFER_READ;
        tr.local = &back;
        if (mover_transfer(w->mover, NULL, &tr, NULL, &moved) || back != value)
            return "read";
        if (i % 2)
            owner_window_close(window);
        if (owner_deregister(w->owner, w->own) || owner_deregister(w->owner, bytes))
            return "deregister";
        if (i % 2 == 0)
            owner_window_close(window);
    }
    return NULL;
}

static void many_threads_share_one_owner(void **state)
{
    static const char *const devices[] = {"cma", "loop:a,loop:b"};
    for (size_t d = 0; d < ARRAY_LEN(devices); d++) {
        static unsigned char own[8][64];
        struct worker workers[8];
        pthread_t threads[8];
        struct owner *o = owner_of(devices[d]);
        struct mover *m;
        assert_int_equal(mover_open(devices[d], NULL, &m), 0);
        for (int i = 0; i < 8; i++) {
            workers[i] = (struct worker){.owner = o, .mover = m, .own = own[i]};
            assert_int_equal(pthread_create(&threads[i], NULL, work_main, &workers[i]), 0);
        }
        for (int i = 0; i < 8; i++) {
            void *result;
            pthread_join(threads[i], &result);
            if (result)
                fail_msg("%s", (const char *)result);
        }
        assert_int_equal(owner_registered_len(o), 0);
        mover_close(m);
        owner_close(o);
    }
}

static void thousands_of_registrations_and_all_windows_at_once(void **state)
{
    struct owner *o = owner_of("cma");
    static struct owner_window *w[OWNER_WINDOWS_MAX + 1];
    for (size_t i = 0; i < 5000; i++)
        assert_int_equal(owner_register(o, bytes + i, 64, NULL), 0);
    for (size_t i = 0; i < OWNER_WINDOWS_MAX; i++)
        w[i] = opened(o, bytes + i % 5000, i % 64, 0);
    struct diag diag = {""};
    assert_int_equal(owner_window_open(o, bytes, 0, 1, &diag, &w[OWNER_WINDOWS_MAX]), S3R_E_BUSY);
    assert_non_null(strstr(diag.text, "65536"));
    owner_window_close(w[77]);
    w[77] = opened(o, bytes, 0, 1);
    for (size_t i = 0; i < OWNER_WINDOWS_MAX; i++)
        owner_window_close(w[i]);
    for (size_t i = 0; i < 5000; i++)
        assert_int_equal(owner_deregister(o, bytes + i), 0);
    assert_int_equal(owner_registered_len(o), 0);
    owner_close(o);
}

int main(void)
{
#define CLEAN(f) cmocka_unit_test_setup(f, clean)
    const struct CMUnitTest tests[] = {
        CLEAN(the_device_comes_from_the_environment_when_none_is_given),
        CLEAN(registrations_are_counted_by_address),
        CLEAN(what_cannot_be_memory_is_refused),
        CLEAN(overlapping_registrations_live_side_by_side),
        CLEAN(a_window_lies_inside_its_region),
        CLEAN(every_window_has_a_key_of_its_own),
        CLEAN(deregistration_withdraws_what_is_out),
        CLEAN(a_transfer_that_is_stuck_makes_withdrawal_busy_until_it_ends),
        CLEAN(closing_a_window_outlasts_a_stuck_transfer),
        CLEAN(windows_take_the_rails_in_turn),
        CLEAN(a_rail_that_was_blamed_is_skipped_and_comes_back),
        CLEAN(when_all_rails_are_blamed_all_are_tried),
        CLEAN(refused_calls_blame_nobody),
        CLEAN(a_rail_that_fails_here_is_passed_over),
        CLEAN(closing_ends_everything_and_windows_left_over_can_be_closed),
        CLEAN(many_threads_share_one_owner),
        CLEAN(thousands_of_registrations_and_all_windows_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
