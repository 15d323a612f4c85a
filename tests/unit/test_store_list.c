/* SPDX-License-Identifier: Apache-2.0 */
#include "store_help.h"

#include "base/clock.h"
#include "base/text.h"

#include <time.h>

/* Rows as "key key [prefix] ..." and "+" when truncated. */
static void list_to(struct store *s, struct store_list_query *q, struct text *out)
{
    CLEANUP(store_list_closep) struct store_list *list = NULL;
    size_t count;
    q->bucket = "bkt";
    text_reset(out);
    OK(store_list_open(s, q, NULL, &list));
    const struct store_list_row *rows = store_list_rows(list, &count);
    for (size_t i = 0; i < count; i++)
        text_fmt(out, rows[i].is_prefix ? "[%s] " : "%s ", rows[i].key);
    if (store_list_is_truncated(list))
        text_str(out, "+");
}

struct list_case {
    const char *prefix, *delimiter, *after;
    size_t max;
    const char *want;
};

static void check_cases(struct store *s, const struct list_case *cases, size_t count)
{
    struct text out;
    text_init(&out, 1 << 20);
    for (size_t i = 0; i < count; i++) {
        const struct list_case *c = &cases[i];
        struct store_list_query q = {.prefix = c->prefix,
                                     .prefix_len = c->prefix ? strlen(c->prefix) : 0,
                                     .delimiter = c->delimiter,
                                     .delimiter_len = c->delimiter ? strlen(c->delimiter) : 0,
                                     .after = c->after,
                                     .after_len = c->after ? strlen(c->after) : 0,
                                     .max = c->max};
        list_to(s, &q, &out);
        assert_string_equal(text_cstr(&out), c->want);
    }
    text_fini(&out);
}

static void put_all(struct store *s, const char *const *keys)
{
    for (; *keys; keys++)
        OK(put_seed(s, *keys, 1, 5));
}

static void keys_come_in_the_order_of_their_bytes(void **state)
{
    struct box *b = *state;
    static const char *const keys[] = {"a0", "a/b", "a-b", "a", "\xff", "B", "\x01", NULL};
    static const struct list_case cases[] = {
        {NULL, NULL, NULL, 100, "\x01 B a a-b a/b a0 \xff "},
        {"a", NULL, NULL, 100, "a a-b a/b a0 "},
        {"a/", NULL, NULL, 100, "a/b "},
        {"nope/x/y", NULL, NULL, 100, ""},
        {"\xff", NULL, NULL, 100, "\xff "},
        {NULL, NULL, "a", 100, "a-b a/b a0 \xff "},
        {NULL, NULL, "a.", 100, "a/b a0 \xff "},
        {NULL, NULL, "\xff", 100, ""},
        {"a", NULL, "B", 100, "a a-b a/b a0 "},
        {"a", NULL, "b", 100, ""},
        {NULL, NULL, NULL, 0, ""},
        {NULL, NULL, NULL, 7, "\x01 B a a-b a/b a0 \xff "},
        {NULL, NULL, NULL, 6, "\x01 B a a-b a/b a0 +"},
    };
    put_all(b->s, keys);
    struct store_bucket beside = {.name = "bkt0"};
    OK(store_bucket_create(b->s, &beside));
    struct store_key k = {.bucket = "bkt0", .key = "a", .key_len = 1};
    OK(put_with(b->s, &k, "x", 1, true, NULL, NULL));
    check_cases(b->s, cases, ARRAY_LEN(cases));
}

static void delimiters_roll_keys_up(void **state)
{
    struct box *b = *state;
    static const char *const keys[] = {"a",   "a/1",   "a/2", "a//3", "b--1",       "b-2",   "p/k",
                                       "p/m", "p/m/1", "p/z", "z",    "x\xc3\xa9y", "/lead", NULL};
    static const struct list_case cases[] = {
        {NULL, "/", NULL, 100, "[/] a [a/] b--1 b-2 [p/] x\xc3\xa9y z "},
        {"a/", "/", NULL, 100, "[a//] a/1 a/2 "},
        {"a", "/", NULL, 100, "a [a/] "},
        {NULL, "--", NULL, 100, "/lead a a//3 a/1 a/2 [b--] b-2 p/k p/m p/m/1 p/z x\xc3\xa9y z "},
        {NULL, "-", NULL, 100, "/lead a a//3 a/1 a/2 [b-] p/k p/m p/m/1 p/z x\xc3\xa9y z "},
        {"x", "\xc3\xa9", NULL, 100, "[x\xc3\xa9] "},
        {"p/", "/", "p/m", 100, "[p/m/] p/z "},
        {"p/", NULL, "p/m", 100, "p/m/1 p/z "},
        /* a key inside, or equal to, a common prefix skips the whole of it */
        {NULL, "/", "p/m", 100, "x\xc3\xa9y z "},
        {NULL, "/", "p/", 100, "x\xc3\xa9y z "},
        {NULL, "/", "a", 100, "[a/] b--1 b-2 [p/] x\xc3\xa9y z "},
        {NULL, "/", "a/", 2, "b--1 b-2 +"},
        {NULL, "/", "b-2", 1, "[p/] +"},
        {"p/", "/", NULL, 4, "p/k p/m [p/m/] p/z "},
        {"p/", "/", NULL, 3, "p/k p/m [p/m/] +"},
    };
    put_all(b->s, keys);
    check_cases(b->s, cases, ARRAY_LEN(cases));
}

/* Reads all pages; each row once, in order; returns how many. */
static size_t page_through(struct store *s, const char *delimiter, size_t max, struct text *out)
{
    char after[LIMIT_KEY_LEN_MAX + 1] = "";
    size_t after_len = 0, total = 0, count;
    bool more = true;
    text_reset(out);
    while (more) {
        CLEANUP(store_list_closep) struct store_list *list = NULL;
        struct store_list_query q = {.bucket = "bkt",
                                     .delimiter = delimiter,
                                     .delimiter_len = delimiter ? strlen(delimiter) : 0,
                                     .after = after,
                                     .after_len = after_len,
                                     .max = max};
        OK(store_list_open(s, &q, NULL, &list));
        const struct store_list_row *rows = store_list_rows(list, &count);
        more = store_list_is_truncated(list);
        assert_true(!more || count == max);
        for (size_t i = 0; i < count; i++) {
            text_add(out, rows[i].key, rows[i].key_len);
            text_char(out, ' ');
        }
        total += count;
        if (count) {
            after_len = rows[count - 1].key_len;
            memcpy(after, rows[count - 1].key, after_len);
        }
    }
    return total;
}

static void pages_give_each_row_once_whatever_their_size(void **state)
{
    struct box *b = *state;
    char key[32];
    for (int i = 0; i < 120; i++) {
        snprintf(key, sizeof(key), "%c%s%02d", 'a' + i % 6, i % 3 ? "/" : "-", i);
        OK(put_seed(b->s, key, 1, 1));
    }
    static const char *const delimiters[] = {NULL, "/", "-", "1"};
    for (size_t d = 0; d < ARRAY_LEN(delimiters); d++) {
        struct text whole, pages;
        text_init(&whole, 1 << 20);
        text_init(&pages, 1 << 20);
        size_t total = page_through(b->s, delimiters[d], 1000, &whole);
        for (size_t max = 1; max < 10; max++) {
            assert_int_equal(page_through(b->s, delimiters[d], max, &pages), total);
            assert_string_equal(text_cstr(&pages), text_cstr(&whole));
        }
        text_fini(&whole);
        text_fini(&pages);
    }
}

static void deleted_rows_behind_do_not_move_the_pages(void **state)
{
    struct box *b = *state;
    char key[32], after[32] = "";
    size_t seen = 0, count;
    for (int i = 0; i < 300; i++) {
        snprintf(key, sizeof(key), "k%04d", i);
        OK(put_seed(b->s, key, 1, 1));
    }
    for (bool more = true; more;) {
        CLEANUP(store_list_closep) struct store_list *list = NULL;
        struct store_list_query q = {.bucket = "bkt",
                                     .after = after,
                                     .after_len = strlen(after),
                                     .max = 17};
        OK(store_list_open(b->s, &q, NULL, &list));
        const struct store_list_row *rows = store_list_rows(list, &count);
        for (size_t i = 0; i < count; i++, seen++) {
            struct store_key k = key_of(rows[i].key);
            snprintf(key, sizeof(key), "k%04zu", seen);
            assert_string_equal(rows[i].key, key);
            OK(store_delete(b->s, &k, NULL, NULL, NULL));
        }
        more = store_list_is_truncated(list);
        snprintf(after, sizeof(after), "%s", rows[count - 1].key);
    }
    assert_int_equal(seen, 300);
}

/* Work done, which does not grow while others have the machine. */
static int64_t thread_cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * NS_PER_S + t.tv_nsec;
}

static void a_common_prefix_is_passed_with_one_seek(void **state)
{
    struct box *b = *state;
    char key[32];
    for (int i = 0; i < 3000; i++) {
        snprintf(key, sizeof(key), "big/%05d", i);
        OK(put_seed(b->s, key, 1, 1));
    }
    struct store_list_query q = {.bucket = "bkt",
                                 .delimiter = "/",
                                 .delimiter_len = 1,
                                 .max = 1000};
    struct text out;
    text_init(&out, 1 << 20);
    list_to(b->s, &q, &out);
    int64_t start = thread_cpu_ns();
    for (int i = 0; i < 100; i++)
        list_to(b->s, &q, &out);
    int64_t rolled = thread_cpu_ns() - start;
    assert_string_equal(text_cstr(&out), "[big/] ");
    q.delimiter_len = 0;
    start = thread_cpu_ns();
    for (int i = 0; i < 100; i++)
        list_to(b->s, &q, &out);
    /* 1 row by a seek against 1,000 rows: far more than this apart */
    assert_true(rolled * 4 < thread_cpu_ns() - start);
    text_fini(&out);
}

static void listing_shows_what_was_stored(void **state)
{
    struct box *b = *state;
    CLEANUP(store_list_closep) struct store_list *list = NULL;
    size_t count;
    OK(put_seed(b->s, "k", 1, 2 * MIB));
    struct store_list_query q = {.bucket = "bkt", .max = 10};
    OK(store_list_open(b->s, &q, NULL, &list));
    const struct store_list_row *rows = store_list_rows(list, &count);
    assert_int_equal(count, 1);
    assert_int_equal(rows[0].size, 2 * MIB);
    assert_string_equal(rows[0].etag, "0123456789abcdef0123456789abcdef");
    assert_string_equal(rows[0].owner, "me");
    assert_string_equal(rows[0].storage_class, "STANDARD");
    assert_true(rows[0].modified_ms > 0);
    struct store_list_query none = {.bucket = "nope", .max = 10};
    struct store_list *other;
    IS(S3R_E_NO_SUCH_BUCKET, store_list_open(b->s, &none, NULL, &other));
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, box_setup_ram, box_teardown)
    const struct CMUnitTest tests[] = {
        T(keys_come_in_the_order_of_their_bytes),
        T(delimiters_roll_keys_up),
        T(pages_give_each_row_once_whatever_their_size),
        T(deleted_rows_behind_do_not_move_the_pages),
        T(a_common_prefix_is_passed_with_one_seek),
        T(listing_shows_what_was_stored),
    };
    return cmocka_run_group_tests_name("store_list", tests, NULL, NULL);
}
