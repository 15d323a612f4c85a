/* SPDX-License-Identifier: Apache-2.0 */
#include "store_help.h"

#include "base/limits.h"
#include "store/recent.h"

#include <pthread.h>

enum { BLOCKS = 2000, THREADS = 4 };

static int setup(void **state)
{
    return recent_create((uint64_t)BLOCKS * LIMIT_BLOCK_LEN, (struct recent **)state);
}

static int teardown(void **state)
{
    recent_destroy(*state);
    return 0;
}

static void a_block_is_known_from_the_second_read_on(void **state)
{
    assert_false(recent_again(*state, 1, 0, 1));
    assert_true(recent_again(*state, 1, 0, 1));
    assert_true(recent_again(*state, 1, 0, 1));
    assert_false(recent_again(*state, 1, 1, 1));
    assert_false(recent_again(*state, 2, 0, 1));
}

static void the_first_block_of_a_run_decides_and_all_are_remembered(void **state)
{
    assert_false(recent_again(*state, 1, 0, 8));
    assert_true(recent_again(*state, 1, 7, 1));
    assert_false(recent_again(*state, 1, 8, 1));
    assert_false(recent_again(*state, 1, 9, 8)); /* 16 is in it */
    assert_true(recent_again(*state, 1, 16, 8));
}

static void a_block_is_forgotten_once_more_was_read_than_memory_holds(void **state)
{
    assert_false(recent_again(*state, 1, 0, 1));
    for (unsigned i = 0; i < BLOCKS + 1; i++)
        (void)recent_again(*state, 2, i, 1);
    assert_false(recent_again(*state, 1, 0, 1));
}

/* A pass over more than fits finds nothing of the pass before it, however often it is made. */
static void passes_over_more_than_memory_stay_cold(void **state)
{
    for (unsigned pass = 0; pass < 3; pass++)
        for (unsigned i = 0; i < 2 * BLOCKS; i++)
            assert_false(recent_again(*state, 3, i, 1));
}

static void *read_own_file(void *recent)
{
    static atomic_uint_fast64_t next = 100;
    uint64_t id = atomic_fetch_add(&next, 1);
    size_t known = 0;
    for (unsigned i = 0; i < BLOCKS / THREADS / 8; i++) {
        assert_false(recent_again(recent, id, i, 1));
        known += recent_again(recent, id, i, 1);
    }
    return (void *)known;
}

/* Two blocks that share a slot at the same time may hide one another; never is one known that was
 * not read. */
static void threads_read_at_the_same_time(void **state)
{
    pthread_t threads[THREADS];
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, read_own_file, *state), 0);
    for (unsigned i = 0; i < THREADS; i++) {
        void *known;
        pthread_join(threads[i], &known);
        assert_in_range((size_t)known, BLOCKS / THREADS / 8 - 8, BLOCKS / THREADS / 8);
    }
}

static void memory_of_this_machine_is_its_reach(void **state)
{
    assert_true(recent_default_reach() >= MIB);
    assert_true(recent_default_reach() <=
                (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) / 2);
}

/* ---- in a store ---- */

enum { LARGE = 8 * MIB };

/* /tmp may be memory, where nothing passes the page cache by. */
static int box_setup_here(void **state)
{
    *state = box_create_in(".");
    return 0;
}

/* Can all of the object be sent from the page cache? */
static bool is_cached(struct box *b, const char *key)
{
    struct store_key k = key_of(key);
    struct store_lease *l;
    struct store_view view;
    OK(store_lease_open(b->s, &k, NULL, &l));
    int err = store_lease_view(l, 0, LARGE, &view);
    if (!err)
        store_lease_unview(l, &view);
    store_lease_close(l);
    return !err;
}

static void read_all(struct box *b, const char *key)
{
    struct store_key k = key_of(key);
    struct store_lease *l;
    CLEANUP(freep) void *buf = aligned_alloc(4096, LARGE);
    assert_non_null(buf);
    OK(store_lease_open(b->s, &k, NULL, &l));
    OK(store_lease_read(l, 0, buf, LARGE, NULL));
    store_lease_close(l);
}

static void what_is_read_again_comes_to_stay_in_the_page_cache(void **state)
{
    struct box *b = *state;
    OK(put_seed(b->s, "once", 1, LARGE));
    OK(put_seed(b->s, "twice", 2, LARGE));
    read_all(b, "once");
    if (!atomic_load(&b->s->is_direct)) {
        print_message("no O_DIRECT on the file system of this folder\n");
        skip();
    }
    read_all(b, "twice");
    assert_false(is_cached(b, "once"));
    assert_false(is_cached(b, "twice"));
    read_all(b, "twice");
    assert_true(is_cached(b, "twice"));
    assert_false(is_cached(b, "once"));
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_block_is_known_from_the_second_read_on),
        T(the_first_block_of_a_run_decides_and_all_are_remembered),
        T(a_block_is_forgotten_once_more_was_read_than_memory_holds),
        T(passes_over_more_than_memory_stay_cold),
        T(threads_read_at_the_same_time),
        cmocka_unit_test(memory_of_this_machine_is_its_reach),
        cmocka_unit_test_setup_teardown(what_is_read_again_comes_to_stay_in_the_page_cache,
                                        box_setup_here, box_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
