/* SPDX-License-Identifier: Apache-2.0 */
#include "store_help.h"

#include "base/clock.h"
#include "base/crc64.h"

#include <pthread.h>

static const struct store_attributes plain = {.etag = "p", .etag_kind = STORE_ETAG_MD5};
static const struct store_attributes whole = {.etag = "w-2",
                                              .etag_kind = STORE_ETAG_MULTIPART,
                                              .owner = "me"};
static const uint8_t digest[32] = {1, 2, 3};

static void begin(struct box *b, const char *key, char id[STORE_UPLOAD_ID_MAX])
{
    struct store_key k = key_of(key);
    OK(store_upload_create(b->s, &k, &plain, STORE_CRC32, STORE_COMPOSITE, NULL, id));
}

static int put_part(struct store *s, const char *key, const char *id, uint32_t number,
                    unsigned seed, size_t len)
{
    struct store_key k = key_of(key);
    CLEANUP(store_writer_closep) struct store_writer *w = NULL;
    CLEANUP(freep) char *bytes = bytes_of(seed, len);
    int err = store_writer_open(s, len, NULL, &w);
    if (!err)
        err = store_writer_append(w, bytes, len, NULL);
    return err ? err : store_part_put(w, &k, id, number, &plain, NULL, NULL);
}

static int complete_all(struct store *s, const char *key, const char *id)
{
    struct store_key k = key_of(key);
    CLEANUP(freep) struct store_part *parts = NULL;
    size_t count;
    bool more;
    int err = store_part_list(s, &k, id, 0, LIMIT_PARTS_MAX, &parts, &count, &more);
    return err ? err
               : store_upload_complete(s, &k, id, parts, count, &whole, digest, NULL, NULL, NULL,
                                       NULL);
}

static void parts_become_an_object_without_a_copy(void **state)
{
    struct box *b = *state;
    char id[STORE_UPLOAD_ID_MAX];
    struct store_key k = key_of("k");
    static const size_t lens[] = {5 * MIB, 0, 10, 2 * MIB + 3};
    size_t total = 0;
    begin(b, "k", id);
    for (uint32_t i = 0; i < 4; i++) {
        OK(put_part(b->s, "k", id, i * 3 + 1, i, lens[i]));
        total += lens[i];
    }
    IS(S3R_E_NO_SUCH_KEY, check_seed(b->s, "k", 0, 0));
    OK(complete_all(b->s, "k", id));
    assert_int_equal(box_files(b), 1 + 4 + 1);
    box_reopen(b);
    assert_int_equal(box_files(b), 1 + 4 + 1);
    CLEANUP(store_lease_closep) struct store_lease *l = NULL;
    CLEANUP(freep) char *want = malloc(total);
    CLEANUP(freep) char *got = malloc(total);
    size_t at = 0;
    for (unsigned i = 0; i < 4; i++) {
        CLEANUP(freep) char *part = bytes_of(i, lens[i]);
        memcpy(want + at, part, lens[i]);
        at += lens[i];
    }
    OK(store_lease_open(b->s, &k, NULL, &l));
    const struct store_object *o = store_lease_object(l);
    assert_int_equal(o->size, total);
    assert_true(o->crc64 == crc64_update(0, want, total));
    assert_string_equal(o->etag, "w-2");
    assert_int_equal(o->part_count, 4);
    assert_int_equal(o->parts[3].number, 10);
    assert_int_equal(o->parts[3].off, 5 * MIB + 10);
    OK(store_lease_read(l, 0, got, total, NULL));
    assert_memory_equal(got, want, total);
    for (size_t off = 5 * MIB - 20; off < 5 * MIB + 20; off++) {
        OK(store_lease_read(l, off, got, 40, NULL));
        assert_memory_equal(got, want + off, 40);
    }
    store_lease_close(STEAL(l));
    OK(store_delete(b->s, &k, NULL, NULL, NULL));
    assert_int_equal(box_files(b), 1);
}

static void a_completed_upload_is_remembered(void **state)
{
    struct box *b = *state;
    char id[STORE_UPLOAD_ID_MAX];
    struct store_key k = key_of("k");
    struct store_upload *u;
    begin(b, "k", id);
    OK(store_upload_stat(b->s, &k, id, &u));
    assert_false(u->is_completed);
    assert_int_equal(u->checksum_kind, STORE_CRC32);
    assert_int_equal(u->checksum_type, STORE_COMPOSITE);
    store_upload_free(u);
    OK(put_part(b->s, "k", id, 1, 1, 100));
    OK(complete_all(b->s, "k", id));
    box_reopen(b);
    OK(store_upload_stat(b->s, &k, id, &u));
    assert_true(u->is_completed);
    assert_string_equal(u->etag, "w-2");
    assert_memory_equal(u->list_digest, digest, 32);
    store_upload_free(u);
    IS(S3R_E_NO_SUCH_UPLOAD, store_upload_abort(b->s, &k, id));
    IS(S3R_E_NO_SUCH_UPLOAD, put_part(b->s, "k", id, 2, 1, 100));
    IS(S3R_E_NO_SUCH_UPLOAD, complete_all(b->s, "k", id));
    struct store_key other = key_of("other");
    IS(S3R_E_NO_SUCH_UPLOAD, store_upload_stat(b->s, &other, id, &u));
    IS(S3R_E_NO_SUCH_UPLOAD, store_upload_stat(b->s, &k, "../../etc", &u));
    IS(S3R_E_NO_SUCH_UPLOAD, store_upload_stat(b->s, &k, "", &u));
    OK(store_delete(b->s, &k, NULL, NULL, NULL));
    OK(store_bucket_delete(b->s, "bkt"));
}

static void a_replaced_part_is_no_longer_valid(void **state)
{
    struct box *b = *state;
    char id[STORE_UPLOAD_ID_MAX];
    struct store_key k = key_of("k");
    CLEANUP(freep) struct store_part *old = NULL;
    size_t count;
    bool more;
    begin(b, "k", id);
    OK(put_part(b->s, "k", id, 1, 1, 2 * MIB));
    OK(put_part(b->s, "k", id, 2, 2, 20));
    OK(store_part_list(b->s, &k, id, 0, 10, &old, &count, &more));
    assert_int_equal(count, 2);
    OK(put_part(b->s, "k", id, 1, 3, 20));
    assert_int_equal(box_files(b), 1 + 2);
    IS(S3R_E_INVALID_PART,
       store_upload_complete(b->s, &k, id, old, 2, &whole, digest, NULL, NULL, NULL, NULL));
    struct store_part swapped[2] = {old[1], old[0]};
    IS(S3R_E_INVALID_PART_ORDER,
       store_upload_complete(b->s, &k, id, swapped, 2, &whole, digest, NULL, NULL, NULL, NULL));
    IS(S3R_E_INVALID_PART,
       store_upload_complete(b->s, &k, id, old, 0, &whole, digest, NULL, NULL, NULL, NULL));
    /* part 2 alone: part 1 is dropped with its file */
    OK(store_upload_complete(b->s, &k, id, old + 1, 1, &whole, digest, NULL, NULL, NULL, NULL));
    OK(check_seed(b->s, "k", 2, 20));
    assert_int_equal(box_files(b), 1 + 2);
}

static void parts_are_listed_in_pages(void **state)
{
    struct box *b = *state;
    char id[STORE_UPLOAD_ID_MAX];
    struct store_key k = key_of("k");
    uint32_t after = 0, seen = 0;
    begin(b, "k", id);
    IS(S3R_E_INVALID_ARGUMENT, put_part(b->s, "k", id, 0, 1, 1));
    IS(S3R_E_INVALID_ARGUMENT, put_part(b->s, "k", id, LIMIT_PARTS_MAX + 1, 1, 1));
    OK(put_part(b->s, "k", id, LIMIT_PARTS_MAX, 1, 1));
    for (uint32_t i = 1; i <= 20; i++)
        OK(put_part(b->s, "k", id, i * 10, i, i));
    for (bool more = true; more;) {
        CLEANUP(freep) struct store_part *parts = NULL;
        size_t count;
        OK(store_part_list(b->s, &k, id, after, 4, &parts, &count, &more));
        for (size_t i = 0; i < count; i++, seen++) {
            assert_true(parts[i].number > after);
            after = parts[i].number;
        }
    }
    assert_int_equal(seen, 21);
    assert_int_equal(after, LIMIT_PARTS_MAX);
}

static void an_aborted_upload_leaves_nothing(void **state)
{
    struct box *b = *state;
    char id[STORE_UPLOAD_ID_MAX];
    struct store_key k = key_of("k");
    CLEANUP(store_writer_closep) struct store_writer *w = NULL;
    begin(b, "k", id);
    OK(put_part(b->s, "k", id, 1, 1, 2 * MIB));
    OK(store_writer_open(b->s, 10, NULL, &w));
    OK(store_writer_append(w, "0123456789", 10, NULL));
    IS(S3R_E_BUCKET_NOT_EMPTY, store_bucket_delete(b->s, "bkt"));
    OK(store_upload_abort(b->s, &k, id));
    IS(S3R_E_NO_SUCH_UPLOAD, store_part_put(w, &k, id, 2, &plain, NULL, NULL));
    store_writer_close(STEAL(w));
    IS(S3R_E_NO_SUCH_UPLOAD, store_upload_abort(b->s, &k, id));
    assert_int_equal(box_files(b), 1);
    OK(store_bucket_delete(b->s, "bkt"));
}

static int judge_none(const struct store_object *current, void *arg)
{
    return current ? S3R_E_PRECONDITION : 0;
}

static void completion_is_judged_and_can_be_tried_again(void **state)
{
    struct box *b = *state;
    char id[STORE_UPLOAD_ID_MAX];
    struct store_key k = key_of("k");
    CLEANUP(freep) struct store_part *parts = NULL;
    size_t count;
    bool more;
    begin(b, "k", id);
    OK(put_part(b->s, "k", id, 1, 1, 50));
    OK(put_seed(b->s, "k", 9, 3 * MIB));
    OK(store_part_list(b->s, &k, id, 0, 10, &parts, &count, &more));
    IS(S3R_E_PRECONDITION, store_upload_complete(b->s, &k, id, parts, count, &whole, digest,
                                                 judge_none, NULL, NULL, NULL));
    OK(check_seed(b->s, "k", 9, 3 * MIB));
    OK(store_upload_complete(b->s, &k, id, parts, count, &whole, digest, NULL, NULL, NULL, NULL));
    OK(check_seed(b->s, "k", 1, 50));
    assert_int_equal(box_files(b), 1 + 2);
}

static void uploads_are_listed_by_key_then_age(void **state)
{
    struct box *b = *state;
    static const char *const keys[] = {"a", "b/1", "a", "b/2", "a&b", "a", "c"};
    static const char *const want[] = {"a", "a", "a", "a&b", "b/1", "b/2", "c"};
    char ids[7][STORE_UPLOAD_ID_MAX];
    char after_key[16] = "", after_id[STORE_UPLOAD_ID_MAX] = "";
    size_t seen = 0, count;
    for (size_t i = 0; i < ARRAY_LEN(keys); i++)
        begin(b, keys[i], ids[i]);
    for (bool more = true; more;) {
        CLEANUP(store_upload_list_closep) struct store_upload_list *list = NULL;
        struct store_upload_query q = {.bucket = "bkt",
                                       .after_key = after_key,
                                       .after_key_len = strlen(after_key),
                                       .after_id = after_id,
                                       .max = 2};
        OK(store_upload_list_open(b->s, &q, NULL, &list));
        const struct store_upload_row *rows = store_upload_list_rows(list, &count);
        for (size_t i = 0; i < count; i++, seen++)
            assert_string_equal(rows[i].key, want[seen]);
        more = store_upload_list_is_truncated(list);
        snprintf(after_key, sizeof(after_key), "%s", rows[count - 1].key);
        snprintf(after_id, sizeof(after_id), "%s", rows[count - 1].id);
    }
    assert_int_equal(seen, 7);
    CLEANUP(store_upload_list_closep) struct store_upload_list *list = NULL;
    struct store_upload_query q = {.bucket = "bkt",
                                   .delimiter = "/",
                                   .delimiter_len = 1,
                                   .after_key = "a",
                                   .after_key_len = 1,
                                   .max = 10};
    OK(store_upload_list_open(b->s, &q, NULL, &list));
    const struct store_upload_row *rows = store_upload_list_rows(list, &count);
    assert_int_equal(count, 3);
    assert_string_equal(rows[0].key, "a&b");
    assert_string_equal(rows[0].id, ids[4]);
    assert_true(rows[1].is_prefix);
    assert_string_equal(rows[1].key, "b/");
    assert_string_equal(rows[2].key, "c");
}

struct racer {
    struct box *b;
    const char *id;
    unsigned seed;
    int result;
};

static void *race_part(void *arg)
{
    struct racer *r = arg;
    for (int i = 0; i < 5; i++) {
        r->result = put_part(r->b->s, "k", r->id, 1, r->seed, 100000 + r->seed);
        if (r->result)
            break;
    }
    return NULL;
}

static void *put_every_eighth(void *arg)
{
    struct racer *r = arg;
    for (uint32_t i = r->seed + 1; i <= LIMIT_PARTS_MAX; i += 8) {
        r->result = put_part(r->b->s, "k", r->id, i, i, 1);
        if (r->result)
            break;
    }
    return NULL;
}

static void ten_thousand_parts_become_an_object(void **state)
{
    struct box *b = *state;
    char id[STORE_UPLOAD_ID_MAX];
    struct store_key k = key_of("k");
    pthread_t threads[8];
    struct racer racers[8];
    begin(b, "k", id);
    for (unsigned i = 0; i < 8; i++) {
        racers[i] = (struct racer){b, id, i, -1};
        assert_false(pthread_create(&threads[i], NULL, put_every_eighth, &racers[i]));
    }
    for (unsigned i = 0; i < 8; i++) {
        pthread_join(threads[i], NULL);
        OK(racers[i].result);
    }
    OK(complete_all(b->s, "k", id));
    CLEANUP(store_lease_closep) struct store_lease *l = NULL;
    OK(store_lease_open(b->s, &k, NULL, &l));
    assert_int_equal(store_lease_object(l)->part_count, LIMIT_PARTS_MAX);
    CLEANUP(freep) char *got = malloc(LIMIT_PARTS_MAX);
    OK(store_lease_read(l, 0, got, LIMIT_PARTS_MAX, NULL));
    for (unsigned i = 0; i < LIMIT_PARTS_MAX; i++)
        assert_int_equal((unsigned char)got[i], byte_at(i + 1, 0));
    store_lease_close(STEAL(l));
    OK(store_delete(b->s, &k, NULL, NULL, NULL));
    assert_int_equal(box_files(b), 1);
}

static void concurrent_uploads_of_one_part_leave_one_whole(void **state)
{
    struct box *b = *state;
    char id[STORE_UPLOAD_ID_MAX];
    pthread_t threads[8];
    struct racer racers[8];
    begin(b, "k", id);
    for (unsigned i = 0; i < 8; i++) {
        racers[i] = (struct racer){b, id, i, -1};
        assert_false(pthread_create(&threads[i], NULL, race_part, &racers[i]));
    }
    for (unsigned i = 0; i < 8; i++) {
        pthread_join(threads[i], NULL);
        OK(racers[i].result);
    }
    OK(complete_all(b->s, "k", id));
    size_t matches = 0;
    for (unsigned i = 0; i < 8; i++)
        matches += !check_seed(b->s, "k", i, 100000 + i);
    assert_int_equal(matches, 1);
    assert_int_equal(box_files(b), 1 + 2);
}

static void an_abort_that_races_with_parts_leaves_nothing(void **state)
{
    struct box *b = *state;
    for (int round = 0; round < 5; round++) {
        char id[STORE_UPLOAD_ID_MAX];
        struct store_key k = key_of("k");
        pthread_t threads[4];
        struct racer racers[4];
        begin(b, "k", id);
        for (unsigned i = 0; i < 4; i++) {
            racers[i] = (struct racer){b, id, i, -1};
            assert_false(pthread_create(&threads[i], NULL, race_part, &racers[i]));
        }
        usleep(500 * (unsigned)round);
        OK(store_upload_abort(b->s, &k, id));
        for (unsigned i = 0; i < 4; i++) {
            pthread_join(threads[i], NULL);
            assert_true(!racers[i].result || racers[i].result == S3R_E_NO_SUCH_UPLOAD);
        }
        assert_int_equal(box_files(b), 1);
    }
}

/* ---- one lease, many readers ---- */

enum { SHARED_PARTS = 6, SHARED_PART_LEN = 5 * MIB + 4097 };

struct reader {
    pthread_t thread;
    struct store_lease *lease;
    const char *want;
    size_t total;
    unsigned seed;
    int failures;
};

static void *read_all_over(void *arg)
{
    struct reader *r = arg;
    char *buf = aligned_alloc(4096, MIB);
    for (int i = 0; i < 60; i++) {
        r->seed = r->seed * 1103515245 + 12345;
        size_t off = r->seed % (r->total - MIB);
        if (i % 2)
            off = off / MIB * MIB;
        if (store_lease_read(r->lease, off, buf, MIB, NULL) || memcmp(buf, r->want + off, MIB))
            r->failures++;
    }
    free(buf);
    return NULL;
}

static void a_lease_is_read_by_many_threads_at_once(void **state)
{
    struct box *b = *state;
    char id[STORE_UPLOAD_ID_MAX];
    struct store_key k = key_of("shared");
    struct reader readers[8] = {0};
    char *want = malloc((size_t)SHARED_PARTS * SHARED_PART_LEN);
    begin(b, "shared", id);
    for (uint32_t i = 0; i < SHARED_PARTS; i++) {
        CLEANUP(freep) char *bytes = bytes_of(i + 1, SHARED_PART_LEN);
        memcpy(want + (size_t)i * SHARED_PART_LEN, bytes, SHARED_PART_LEN);
        OK(put_part(b->s, "shared", id, i + 1, i + 1, SHARED_PART_LEN));
    }
    OK(complete_all(b->s, "shared", id));
    CLEANUP(store_lease_closep) struct store_lease *lease = NULL;
    OK(store_lease_open(b->s, &k, NULL, &lease));
    for (unsigned i = 0; i < 8; i++) {
        readers[i] = (struct reader){.lease = lease,
                                     .want = want,
                                     .total = (size_t)SHARED_PARTS * SHARED_PART_LEN,
                                     .seed = i};
        pthread_create(&readers[i].thread, NULL, read_all_over, &readers[i]);
    }
    for (int i = 0; i < 8; i++) {
        pthread_join(readers[i].thread, NULL);
        assert_int_equal(readers[i].failures, 0);
    }
    free(want);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, box_setup, box_teardown)
    const struct CMUnitTest tests[] = {
        T(parts_become_an_object_without_a_copy),
        T(a_lease_is_read_by_many_threads_at_once),
        T(a_completed_upload_is_remembered),
        T(a_replaced_part_is_no_longer_valid),
        T(parts_are_listed_in_pages),
        T(an_aborted_upload_leaves_nothing),
        T(completion_is_judged_and_can_be_tried_again),
        T(uploads_are_listed_by_key_then_age),
        cmocka_unit_test_setup_teardown(ten_thousand_parts_become_an_object, box_setup_ram,
                                        box_teardown),
        T(concurrent_uploads_of_one_part_leave_one_whole),
        T(an_abort_that_races_with_parts_leaves_nothing),
    };
    return cmocka_run_group_tests_name("store_upload", tests, NULL, NULL);
}
