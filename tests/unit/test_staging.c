/* SPDX-License-Identifier: Apache-2.0 */
#include "cm.h"

#include "base/clock.h"
#include "server/staging.h"

#include <pthread.h>
#include <stdatomic.h>

struct box {
    struct mover *mover;
    struct staging *staging;
    void *slots[2];
};

static int64_t in_ms(int64_t ms)
{
    return clock_mono_ns() + ms * NS_PER_MS;
}

/* Two slots, both taken. */
static int setup(void **state)
{
    static struct box b;
    struct diag diag = {0};
    assert_int_equal(mover_open("cma", &diag, &b.mover), 0);
    assert_int_equal(staging_create(b.mover, 2 * STAGING_SLOT_LEN, &diag, &b.staging), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(staging_take(b.staging, 1 + (uint64_t)i, in_ms(60000), NULL, NULL,
                                      &b.slots[i]),
                         0);
    *state = &b;
    return 0;
}

static int teardown(void **state)
{
    struct box *b = *state;
    staging_destroy(b->staging);
    mover_close(b->mover);
    return 0;
}

struct waiter {
    struct box *box;
    uint64_t owner;
    int64_t deadline_ns;
    atomic_bool is_unwanted;
    int result;
    void *slot;
    pthread_t thread;
};

static bool is_unwanted(void *arg)
{
    return atomic_load((atomic_bool *)arg);
}

static void *waiter_main(void *arg)
{
    struct waiter *w = arg;
    w->result = staging_take(w->box->staging, w->owner, w->deadline_ns, is_unwanted,
                             &w->is_unwanted, &w->slot);
    return NULL;
}

static void launch(struct waiter *w, struct box *b, uint64_t owner, int64_t patience_ms)
{
    *w = (struct waiter){.box = b, .owner = owner, .deadline_ns = in_ms(patience_ms)};
    assert_int_equal(pthread_create(&w->thread, NULL, waiter_main, w), 0);
}

/* Returns when it is in the queue. */
static void start_owned(struct waiter *w, struct box *b, uint64_t owner, int64_t patience_ms)
{
    size_t before = staging_waiting(b->staging);
    struct timespec pause = {.tv_nsec = NS_PER_MS};
    launch(w, b, owner, patience_ms);
    while (staging_waiting(b->staging) == before)
        nanosleep(&pause, NULL);
}

/* Of a client that has no slot yet. */
static void start(struct waiter *w, struct box *b, int64_t patience_ms)
{
    static uint64_t others = 100;
    start_owned(w, b, ++others, patience_ms);
}

static int result_of(struct waiter *w)
{
    pthread_join(w->thread, NULL);
    return w->result;
}

static void a_slot_goes_to_who_came_first(void **state)
{
    struct box *b = *state;
    struct waiter first, second;
    start(&first, b, 60000);
    start(&second, b, 60000);
    staging_give(b->staging, b->slots[0]);
    assert_int_equal(result_of(&first), 0);
    assert_ptr_equal(first.slot, b->slots[0]);
    staging_give(b->staging, b->slots[1]);
    assert_int_equal(result_of(&second), 0);
    assert_ptr_equal(second.slot, b->slots[1]);
}

static void whoever_is_late_leaves_although_one_before_it_waits_on(void **state)
{
    struct box *b = *state;
    struct waiter patient, hasty;
    start(&patient, b, 60000);
    launch(&hasty, b, 99, 50);
    assert_int_equal(result_of(&hasty), S3R_E_BUSY);
    staging_give(b->staging, b->slots[0]);
    assert_int_equal(result_of(&patient), 0);
}

static void whoever_is_not_wanted_any_more_leaves(void **state)
{
    struct box *b = *state;
    struct waiter gone, next;
    start(&gone, b, 60000);
    start(&next, b, 60000);
    atomic_store(&gone.is_unwanted, true);
    assert_int_equal(result_of(&gone), S3R_E_CANCELLED);
    staging_give(b->staging, b->slots[0]);
    assert_int_equal(result_of(&next), 0);
}

static void no_second_slot_while_somebody_waits_or_half_is_out(void **state)
{
    struct box *b = *state;
    size_t used, total;
    assert_null(staging_try(b->staging, 50));
    staging_give(b->staging, b->slots[0]);
    assert_null(staging_try(b->staging, 50)); /* half of them */
    staging_give(b->staging, b->slots[1]);
    void *slot = staging_try(b->staging, 50);
    assert_non_null(slot);
    staging_usage(b->staging, &used, &total);
    assert_int_equal(used, 1);
    assert_int_equal(total, 2);
    staging_give(b->staging, slot);
}

static void nobody_gets_more_than_half_and_others_pass(void **state)
{
    struct box *b = *state;
    struct waiter greedy, modest;
    start_owned(&greedy, b, 2, 60000); /* has slot 1 of the two already */
    start_owned(&modest, b, 3, 60000);
    staging_give(b->staging, b->slots[0]);
    assert_int_equal(result_of(&modest), 0);
    staging_give(b->staging, modest.slot);
    staging_give(b->staging, b->slots[1]);
    assert_int_equal(result_of(&greedy), 0);
    assert_null(staging_try(b->staging, 2));
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_slot_goes_to_who_came_first),
        T(whoever_is_late_leaves_although_one_before_it_waits_on),
        T(whoever_is_not_wanted_any_more_leaves),
        T(nobody_gets_more_than_half_and_others_pass),
        T(no_second_slot_while_somebody_waits_or_half_is_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
