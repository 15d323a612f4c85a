/* SPDX-License-Identifier: Apache-2.0 */
#include "cm.h"

#include "base/clock.h"
#include "rdma/loop/loop.h"
#include "rdma/mover.h"
#include "rdma/owner.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LEN 65536

static unsigned char window_bytes[LEN], local_bytes[LEN];

static int clean(void **state)
{
    loop_reset();
    memset(window_bytes, 0, sizeof window_bytes);
    memset(local_bytes, 0xee, sizeof local_bytes);
    return 0;
}

static struct mover *mover_of(const char *devices)
{
    struct mover *m;
    struct diag diag = {""};
    if (mover_open(devices, &diag, &m))
        fail_msg("%s", diag.text);
    return m;
}

struct target {
    struct owner *owner;
    struct owner_window *window;
    struct token token;
};

static struct target target_on(const char *device)
{
    struct target t;
    assert_int_equal(owner_open(device, NULL, NULL, &t.owner), 0);
    assert_int_equal(owner_register(t.owner, window_bytes, LEN, NULL), 0);
    assert_int_equal(owner_window_open(t.owner, window_bytes, 0, LEN, NULL, &t.window), 0);
    const char *text = owner_window_token(t.window);
    assert_int_equal(token_parse(text, strlen(text), NULL, &t.token), 0);
    return t;
}

static void target_end(struct target *t)
{
    owner_window_close(t->window);
    owner_close(t->owner);
}

static int write_all(struct mover *m, const struct token *token, uint64_t *moved)
{
    struct transfer t = {.token = token, .local = local_bytes, .len = LEN};
    return mover_transfer(m, NULL, &t, NULL, moved);
}

static void a_device_that_cannot_be_opened_is_named(void **state)
{
    static const struct {
        const char *devices, *text;
        int rc;
    } rows[] = {
        {"mlx5_0", "mlx5_0: no verbs provider", S3R_E_RDMA_UNAVAILABLE},
        {"x:1:256", "x:1:256", S3R_E_RDMA_UNAVAILABLE},
        {"fe80::1%eth0", "fe80::1%eth0", S3R_E_RDMA_UNAVAILABLE},
        {"", "no RDMA device was named", S3R_E_RDMA_UNAVAILABLE},
        {"*", "*: no RDMA device was named", S3R_E_RDMA_UNAVAILABLE},
        {"cma:3", "'cma:3'", S3R_E_INVALID_ARGUMENT},
        {"loop:broken", "loop:broken: loop: it was told", S3R_E_RDMA_UNAVAILABLE},
    };
    loop_script("broken", &(struct loop_script){.open_error = S3R_E_RDMA_UNAVAILABLE});
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct mover *m;
        struct diag diag = {""};
        assert_int_equal(mover_open(rows[i].devices, &diag, &m), rows[i].rc);
        if (!strstr(diag.text, rows[i].text))
            fail_msg("'%s' does not say '%s'", diag.text, rows[i].text);
    }
    struct mover *m = mover_of("loop:broken,loop,mlx5_0");
    assert_int_equal(mover_rail_count(m), 1);
    char line[200];
    mover_describe(m, 0, line, sizeof line);
    assert_non_null(strstr(line, "loop"));
    mover_describe(m, 1, line, sizeof line);
    assert_string_equal(line, "no such rail");
    mover_close(m);
}

static void the_rail_is_chosen_by_the_token(void **state)
{
    struct mover *m = mover_of("cma,loop:a");
    struct target cma = target_on("cma"), a = target_on("loop:a"), b = target_on("loop:b");
    uint64_t moved;
    struct diag diag = {""};
    assert_int_equal(mover_serves(m, &cma.token, TRANSFER_READ, NULL), 0);
    assert_string_equal(mover_provider_name(m, &cma.token), "cma");
    assert_int_equal(mover_serves(m, &a.token, TRANSFER_WRITE, NULL), 0);
    assert_string_equal(mover_provider_name(m, &a.token), "loop");
    assert_int_equal(mover_serves(m, &b.token, TRANSFER_WRITE, &diag), S3R_E_TOKEN_DECLINED);
    assert_non_null(strstr(diag.text, "ofi"));
    assert_int_equal(write_all(m, &b.token, &moved), S3R_E_TOKEN_DECLINED);
    assert_int_equal(moved, 0);
    assert_int_equal(write_all(m, &a.token, &moved), 0);
    assert_int_equal(moved, LEN);
    assert_memory_equal(window_bytes, local_bytes, LEN);
    struct token dc = {.scheme = TOKEN_DC, .addr = 1, .size = 1};
    assert_int_equal(mover_serves(m, &dc, TRANSFER_WRITE, NULL), S3R_E_TOKEN_DECLINED);
    target_end(&cma);
    target_end(&a);
    target_end(&b);
    mover_close(m);
}

static void what_leaves_the_window_is_refused_before_anything_moves(void **state)
{
    static const struct {
        uint64_t off;
        size_t len;
        bool fits;
    } rows[] = {
        {0, LEN, true},         {LEN, 0, true},         {LEN - 1, 1, true},
        {0, LEN + 1, false},    {1, LEN, false},        {LEN + 1, 0, false},
        {UINT64_MAX, 1, false}, {UINT64_MAX, 2, false}, {2, SIZE_MAX, false},
        {LEN, SIZE_MAX, false},
    };
    struct mover *m = mover_of("loop");
    struct target target = target_on("loop");
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        uint64_t moved;
        unsigned before = loop_counts("").pieces;
        struct transfer t = {.token = &target.token,
                             .window_off = rows[i].off,
                             .local = local_bytes,
                             .len = rows[i].len};
        assert_int_equal(mover_transfer(m, NULL, &t, NULL, &moved),
                         rows[i].fits ? 0 : S3R_E_RDMA_BOUNDS);
        assert_int_equal(loop_counts("").pieces - before, rows[i].fits && rows[i].len > 0);
    }
    target.token.addr = UINT64_MAX - 10;
    uint64_t moved;
    assert_int_equal(write_all(m, &target.token, &moved), S3R_E_RDMA_BOUNDS);
    target_end(&target);
    mover_close(m);
}

static void local_memory_must_be_inside_what_is_registered(void **state)
{
    struct mover *m = mover_of("loop");
    struct target target = target_on("loop");
    struct mover_memory *memory;
    uint64_t moved;
    assert_int_equal(mover_memory_add(m, local_bytes + 4096, 8192, NULL, &memory), 0);
    struct transfer t = {.token = &target.token, .local = local_bytes + 4096, .len = 8192};
    assert_int_equal(mover_transfer(m, memory, &t, NULL, &moved), 0);
    t.len = 8193;
    assert_int_equal(mover_transfer(m, memory, &t, NULL, &moved), S3R_E_INVALID_ARGUMENT);
    t.len = 1;
    t.local = local_bytes + 4095;
    assert_int_equal(mover_transfer(m, memory, &t, NULL, &moved), S3R_E_INVALID_ARGUMENT);
    t.local = local_bytes + 4096 + 8192;
    assert_int_equal(mover_transfer(m, memory, &t, NULL, &moved), S3R_E_INVALID_ARGUMENT);
    t.local = (void *)(UINTPTR_MAX - 1);
    t.len = 4096;
    assert_int_equal(mover_transfer(m, NULL, &t, NULL, &moved), S3R_E_INVALID_ARGUMENT);
    mover_memory_remove(m, memory);
    assert_int_equal(mover_memory_add(m, NULL, 1, NULL, &memory), S3R_E_INVALID_ARGUMENT);
    assert_int_equal(mover_memory_add(m, local_bytes, 0, NULL, &memory), S3R_E_INVALID_ARGUMENT);
    assert_int_equal(mover_memory_add(m, local_bytes, SIZE_MAX, NULL, &memory),
                     S3R_E_INVALID_ARGUMENT);
    target_end(&target);
    mover_close(m);
}

static void memory_is_registered_on_every_rail_that_can(void **state)
{
    struct mover *m = mover_of("loop:a,loop:b");
    struct mover_memory *memory;
    assert_int_equal(mover_memory_add(m, local_bytes, LEN, NULL, &memory), 0);
    assert_int_equal(loop_counts("a").registrations, 1);
    assert_int_equal(loop_counts("b").registrations, 1);
    mover_memory_remove(m, memory);
    loop_script("b", &(struct loop_script){.register_error = S3R_E_RDMA_REGISTER});
    assert_int_equal(mover_memory_add(m, local_bytes, LEN, NULL, &memory), 0);
    assert_int_equal(loop_counts("a").registrations, 1);
    mover_memory_remove(m, memory);
    loop_script("a", &(struct loop_script){.register_error = S3R_E_RDMA_REGISTER});
    struct diag diag = {""};
    assert_int_equal(mover_memory_add(m, local_bytes, LEN, &diag, &memory), S3R_E_RDMA_REGISTER);
    assert_non_null(strstr(diag.text, "told not to register"));
    assert_int_equal(loop_counts("a").registrations, 0);
    assert_int_equal(loop_counts("b").registrations, 0);
    mover_memory_remove(m, NULL);
    mover_close(m);
}

static void a_piece_that_fails_ends_the_transfer_with_whole_pieces_counted(void **state)
{
    struct mover *m = mover_of("loop");
    struct target target = target_on("loop");
    uint64_t moved;
    loop_script("", &(struct loop_script){.piece_len = 4096,
                                          .fail_piece = 4,
                                          .fail_error = S3R_E_RDMA_PEER});
    assert_int_equal(write_all(m, &target.token, &moved), S3R_E_RDMA_PEER);
    assert_int_equal(moved, 3 * 4096);
    assert_memory_equal(window_bytes, local_bytes, 3 * 4096);
    assert_int_equal(window_bytes[3 * 4096], 0);
    loop_script("", &(struct loop_script){.piece_len = 4096});
    assert_int_equal(write_all(m, &target.token, &moved), 0);
    assert_int_equal(moved, LEN);
    target_end(&target);
    mover_close(m);
}

static void a_piece_held_up_ends_at_the_deadline(void **state)
{
    struct mover *m = mover_of("loop");
    struct target target = target_on("loop");
    uint64_t moved;
    loop_script("", &(struct loop_script){.piece_len = 4096, .hold_piece = 2});
    struct transfer t = {.token = &target.token, .local = local_bytes, .len = LEN};
    /* On a busy machine the deadline may come before the first piece: then with a later one. */
    moved = 0;
    for (int64_t ms = 20; moved == 0; ms *= 4) {
        t.deadline_ns = clock_mono_ns() + ms * NS_PER_MS;
        assert_int_equal(mover_transfer(m, NULL, &t, NULL, &moved), S3R_E_RDMA_DEADLINE);
        assert_true(clock_mono_ns() >= t.deadline_ns);
        assert_int_equal(loop_counts("").held, 0);
    }
    assert_int_equal(moved, 4096);
    /* one that is over already starts nothing */
    unsigned before = loop_counts("").pieces;
    assert_int_equal(mover_transfer(m, NULL, &t, NULL, &moved), S3R_E_RDMA_DEADLINE);
    assert_int_equal(loop_counts("").pieces, before);
    target_end(&target);
    mover_close(m);
}

static bool is_flag(void *arg)
{
    return *(bool *)arg;
}

static void a_request_that_is_gone_starts_nothing(void **state)
{
    struct mover *m = mover_of("loop");
    struct target target = target_on("loop");
    uint64_t moved;
    bool is_gone = true;
    struct transfer t = {.token = &target.token,
                         .local = local_bytes,
                         .len = LEN,
                         .is_cancelled = is_flag,
                         .cancel_arg = &is_gone};
    assert_int_equal(mover_transfer(m, NULL, &t, NULL, &moved), S3R_E_CANCELLED);
    assert_int_equal(loop_counts("").pieces, 0);
    is_gone = false;
    assert_int_equal(mover_transfer(m, NULL, &t, NULL, &moved), 0);
    target_end(&target);
    mover_close(m);
}

static void nothing_is_a_success_that_posts_nothing_while_the_window_is_open(void **state)
{
    struct mover *m = mover_of("loop,cma");
    static const char *const devices[] = {"loop", "cma"};
    for (size_t i = 0; i < ARRAY_LEN(devices); i++) {
        struct target target = target_on(devices[i]);
        uint64_t moved = 1;
        struct transfer t = {.token = &target.token};
        assert_int_equal(mover_transfer(m, NULL, &t, NULL, &moved), 0);
        assert_int_equal(moved, 0);
        assert_int_equal(loop_counts("").pieces, 0);
        assert_int_equal(owner_window_withdraw(target.window, NULL), 0);
        assert_int_equal(mover_transfer(m, NULL, &t, NULL, &moved), S3R_E_RDMA_PEER);
        target_end(&target);
    }
    mover_close(m);
}

static void *transfer_main(void *arg)
{
    struct mover *m = arg;
    struct target target = target_on("cma");
    void *result = NULL;
    unsigned char local[512];
    for (int i = 0; !result && i < 200; i++) {
        uint64_t moved;
        struct transfer t = {.direction = TRANSFER_READ,
                             .token = &target.token,
                             .window_off = (uint64_t)i * 100,
                             .local = local,
                             .len = sizeof local};
        if (mover_transfer(m, NULL, &t, NULL, &moved) || moved != sizeof local)
            result = "a transfer failed";
    }
    target_end(&target);
    return result;
}

static void many_threads_share_one_mover(void **state)
{
    struct mover *m = mover_of("cma");
    pthread_t threads[16];
    for (size_t i = 0; i < ARRAY_LEN(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, transfer_main, m), 0);
    for (size_t i = 0; i < ARRAY_LEN(threads); i++) {
        void *result;
        pthread_join(threads[i], &result);
        assert_null(result);
    }
    mover_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_device_that_cannot_be_opened_is_named, clean),
        cmocka_unit_test_setup(the_rail_is_chosen_by_the_token, clean),
        cmocka_unit_test_setup(what_leaves_the_window_is_refused_before_anything_moves, clean),
        cmocka_unit_test_setup(local_memory_must_be_inside_what_is_registered, clean),
        cmocka_unit_test_setup(memory_is_registered_on_every_rail_that_can, clean),
        cmocka_unit_test_setup(a_piece_that_fails_ends_the_transfer_with_whole_pieces_counted,
                               clean),
        cmocka_unit_test_setup(a_piece_held_up_ends_at_the_deadline, clean),
        cmocka_unit_test_setup(a_request_that_is_gone_starts_nothing, clean),
        cmocka_unit_test_setup(nothing_is_a_success_that_posts_nothing_while_the_window_is_open,
                               clean),
        cmocka_unit_test_setup(many_threads_share_one_mover, clean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
