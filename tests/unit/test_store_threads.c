/* SPDX-License-Identifier: Apache-2.0 */
#include "store_help.h"

#include <pthread.h>
#include <stdatomic.h>

#define THREADS 8

struct worker {
    struct box *b;
    unsigned number;
    int result; /* the first error, else 0 */
    uint64_t done;
    atomic_bool *stop;
};

static void run_all(struct box *b, void *(*fn)(void *), size_t count, atomic_bool *stop,
                    struct worker *workers)
{
    pthread_t threads[2 * THREADS];
    for (unsigned i = 0; i < count; i++) {
        workers[i] = (struct worker){.b = b, .number = i, .stop = stop};
        assert_false(pthread_create(&threads[i], NULL, fn, &workers[i]));
    }
    for (size_t i = 0; i < count; i++) {
        pthread_join(threads[i], NULL);
        OK(workers[i].result);
    }
}

/* ---- a key that two bodies take turns in ---- */

static size_t len_of(unsigned seed)
{
    return seed % 3 == 0 ? 300 : seed % 3 == 1 ? 20000 : MIB + 5000;
}

static int read_whole(struct box *b, const char *key)
{
    struct store_key k = key_of(key);
    CLEANUP(store_lease_closep) struct store_lease *l = NULL;
    int err = store_lease_open(b->s, &k, NULL, &l);
    if (err)
        return err == S3R_E_NO_SUCH_KEY ? 0 : err;
    const struct store_object *o = store_lease_object(l);
    for (unsigned seed = 0; seed < 3; seed++) {
        if (o->size != len_of(seed))
            continue;
        CLEANUP(freep) char *want = bytes_of(seed, o->size);
        CLEANUP(freep) char *got = malloc(o->size);
        err = store_lease_read(l, 0, got, o->size, NULL);
        return err ? err : memcmp(want, got, o->size) ? S3R_E_INTERNAL : 0;
    }
    return S3R_E_INTERNAL;
}

static void *mix(void *arg)
{
    struct worker *w = arg;
    struct store_key k = key_of("shared");
    struct store_list_query q = {.bucket = "bkt", .max = 10};
    for (unsigned i = 0; i < 40 && !w->result; i++) {
        struct store_list *list = NULL;
        switch ((i + w->number) % 4) {
        case 0:
        case 1:
            w->result = put_seed(w->b->s, "shared", i % 3, len_of(i));
            break;
        case 2:
            w->result =
                i % 8 ? read_whole(w->b, "shared") : store_delete(w->b->s, &k, NULL, NULL, NULL);
            break;
        default:
            w->result = store_list_open(w->b->s, &q, NULL, &list);
            store_list_close(list);
            if (!w->result)
                w->result = read_whole(w->b, "shared");
        }
    }
    return NULL;
}

static void every_read_is_wholly_one_version(void **state)
{
    struct box *b = *state;
    struct worker workers[THREADS];
    struct store_scrub_report report;
    run_all(b, mix, THREADS, NULL, workers);
    OK(read_whole(b, "shared"));
    assert_in_range(box_files(b), 1, 2);
    OK(store_scrub(b->s, true, NULL, &report));
    assert_int_equal(report.bad_blocks + report.missing_files + report.orphans_removed, 0);
}

/* ---- compare and swap ---- */

struct swap {
    uint64_t expected;
};

static int judge_sequence(const struct store_object *current, void *arg)
{
    struct swap *swap = arg;
    return current && current->sequence == swap->expected ? 0 : S3R_E_PRECONDITION;
}

static int read_number(struct box *b, struct swap *swap, uint64_t *ret)
{
    struct store_key k = key_of("counter");
    CLEANUP(store_lease_closep) struct store_lease *l = NULL;
    int err = store_lease_open(b->s, &k, NULL, &l);
    if (err)
        return err;
    swap->expected = store_lease_object(l)->sequence;
    return store_lease_read(l, 0, ret, sizeof(*ret), NULL);
}

static void *count_up(void *arg)
{
    struct worker *w = arg;
    struct store_key k = key_of("counter");
    for (unsigned i = 0; i < 30; i++) {
        struct swap swap;
        uint64_t number;
        w->result = read_number(w->b, &swap, &number);
        if (w->result)
            break;
        number++;
        w->result = put_with(w->b->s, &k, &number, sizeof(number), true, judge_sequence, &swap);
        w->done += !w->result;
        if (w->result != S3R_E_PRECONDITION && w->result)
            break;
        w->result = 0;
    }
    return NULL;
}

static void a_counter_counts_exactly_the_successes(void **state)
{
    struct box *b = *state;
    struct worker workers[THREADS];
    struct store_key k = key_of("counter");
    struct swap swap;
    uint64_t number = 0, successes = 0;
    OK(put_with(b->s, &k, &number, sizeof(number), true, NULL, NULL));
    run_all(b, count_up, THREADS, NULL, workers);
    for (size_t i = 0; i < THREADS; i++)
        successes += workers[i].done;
    OK(read_number(b, &swap, &number));
    assert_int_equal(number, successes);
    assert_true(successes >= 30);
}

/* ---- commits together ---- */

static void *put_many(void *arg)
{
    struct worker *w = arg;
    char key[32];
    for (unsigned i = 0; i < 50 && !w->result; i++) {
        snprintf(key, sizeof(key), "%u/%u", w->number, i);
        w->result = put_seed(w->b->s, key, i, 64);
    }
    return NULL;
}

static void concurrent_commits_share_syncs(void **state)
{
    struct box *b = *state;
    struct worker workers[2 * THREADS];
    struct store_usage before, after;
    OK(store_usage(b->s, &before));
    run_all(b, put_many, 2 * THREADS, NULL, workers);
    OK(store_usage(b->s, &after));
    assert_int_equal(after.puts - before.puts, 2 * THREADS * 50);
    assert_true(after.index_commits - before.index_commits < 2 * THREADS * 50 * 3 / 4);
    box_reopen(b);
    char key[32];
    for (unsigned i = 0; i < 2 * THREADS; i++) {
        snprintf(key, sizeof(key), "%u/49", i);
        OK(check_seed(b->s, key, 49, 64));
    }
}

/* ---- a bucket that comes and goes ---- */

static void *put_into_racy(void *arg)
{
    struct worker *w = arg;
    struct store_key k = {.bucket = "racy", .key = "k", .key_len = 1};
    struct store_bucket bucket = {.name = "racy"};
    for (unsigned i = 0; i < 60 && !w->result; i++) {
        if (w->number % 2) {
            w->result = i % 2 ? store_bucket_delete(w->b->s, "racy")
                              : store_bucket_create(w->b->s, &bucket);
            if (w->result == S3R_E_BUCKET_EXISTS || w->result == S3R_E_BUCKET_NOT_EMPTY ||
                w->result == S3R_E_NO_SUCH_BUCKET)
                w->result = 0;
            continue;
        }
        int err = put_with(w->b->s, &k, "x", 1, true, NULL, NULL);
        if (!err) {
            /* acknowledged: it must be there until somebody deletes it, and only we do */
            struct store_lease *l = NULL;
            w->result = store_lease_open(w->b->s, &k, NULL, &l);
            store_lease_close(l);
            if (!w->result)
                w->result = store_delete(w->b->s, &k, NULL, NULL, NULL);
        } else if (err != S3R_E_NO_SUCH_BUCKET) {
            w->result = err;
        }
    }
    return NULL;
}

static void a_bucket_delete_never_loses_an_object(void **state)
{
    struct box *b = *state;
    struct worker workers[2]; /* one that puts, one that deletes the bucket */
    run_all(b, put_into_racy, 2, NULL, workers);
}

int main(void)
{
#define T(name, setup) cmocka_unit_test_setup_teardown(name, setup, box_teardown)
    const struct CMUnitTest tests[] = {
        T(every_read_is_wholly_one_version, box_setup_ram),
        T(a_counter_counts_exactly_the_successes, box_setup_ram),
        T(concurrent_commits_share_syncs, box_setup), /* there are none to share in memory */
        T(a_bucket_delete_never_loses_an_object, box_setup_ram),
    };
    return cmocka_run_group_tests_name("store_threads", tests, NULL, NULL);
}
