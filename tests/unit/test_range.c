/* SPDX-License-Identifier: Apache-2.0 */
#include "cm.h"

#include "s3/range.h"

#include <string.h>

static void ranges_are_single_clamped_or_ignored(void **state)
{
    enum { WHOLE = 1, OUTSIDE = 2 };
    static const struct {
        const char *value;
        uint64_t object_len;
        int what;
        uint64_t off, len;
    } cases[] = {
        {NULL, 10, WHOLE, 0, 0},
        {"bytes=0-0", 10, 0, 0, 1},
        {"bytes=0-9", 10, 0, 0, 10},
        {"bytes=2-", 10, 0, 2, 8},
        {"bytes=2-100", 10, 0, 2, 8},
        {"bytes=9-9", 10, 0, 9, 1},
        {"bytes=-3", 10, 0, 7, 3},
        {"bytes=-100", 10, 0, 0, 10},
        {"Bytes=1-2", 10, 0, 1, 2},
        {"bytes=0-99999999999999999999999", 10, 0, 0, 10},
        {"bytes=10-", 10, OUTSIDE, 0, 0},
        {"bytes=10-20", 10, OUTSIDE, 0, 0},
        {"bytes=99999999999999999999999-", 10, OUTSIDE, 0, 0},
        {"bytes=-0", 10, OUTSIDE, 0, 0},
        {"bytes=0-0", 0, OUTSIDE, 0, 0},
        {"bytes=0-", 0, OUTSIDE, 0, 0},
        {"bytes=-1", 0, OUTSIDE, 0, 0},
        {"bytes=5-4", 10, WHOLE, 0, 0},
        {"bytes=0-1,3-4", 10, WHOLE, 0, 0},
        {"bytes=", 10, WHOLE, 0, 0},
        {"bytes=-", 10, WHOLE, 0, 0},
        {"bytes=a-b", 10, WHOLE, 0, 0},
        {"bytes=0--1", 10, WHOLE, 0, 0},
        {"bytes=+0-1", 10, WHOLE, 0, 0},
        {"lines=0-1", 10, WHOLE, 0, 0},
        {"0-1", 10, WHOLE, 0, 0},
        {"", 10, WHOLE, 0, 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct range r = {.off = 77};
        int rc = range_parse(cases[i].value, cases[i].object_len, &r);
        assert_int_equal(rc, cases[i].what == OUTSIDE ? S3R_E_INVALID_RANGE : 0);
        if (cases[i].what == OUTSIDE) {
            assert_int_equal(r.off, 77);
            continue;
        }
        assert_int_equal(r.is_partial, cases[i].what != WHOLE);
        assert_int_equal(r.off, cases[i].off);
        assert_int_equal(r.len, cases[i].what == WHOLE ? cases[i].object_len : cases[i].len);
    }
}

static void copy_ranges_are_exact(void **state)
{
    static const struct {
        const char *value;
        bool is_good;
    } cases[] = {
        {"bytes=0-9", true},      {"bytes=3-3", true},
        {"bytes=0-", false},      {"bytes=-3", false},
        {"bytes=5-100", false},   {"0-9", false},
        {"bytes=0-1,2-3", false}, {"", false},
        {"bytes=4-3", false},     {"bytes=10-10", false},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct range r;
        assert_int_equal(range_parse_copy(cases[i].value, 10, NULL, &r),
                         cases[i].is_good ? 0 : S3R_E_INVALID_ARGUMENT);
    }
}

static void content_range_round_trips(void **state)
{
    struct text t;
    struct range r = {true, 5, 10}, back;
    uint64_t total;
    text_init(&t, 100);
    range_print(&t, &r, 1000);
    assert_string_equal(text_cstr(&t), "bytes 5-14/1000");
    assert_true(range_parse_content_range(text_cstr(&t), &back, &total));
    assert_int_equal(back.off, 5);
    assert_int_equal(back.len, 10);
    assert_int_equal(total, 1000);
    text_reset(&t);
    range_print_request(&t, 5, 10);
    assert_string_equal(text_cstr(&t), "bytes=5-14");
    text_fini(&t);
    static const char *const bad[] = {
        "bytes 5-14/*", "bytes */1000", "bytes 14-5/1000", "",    "bytes 0-1000/1000",
        "5-14/1000",    "bytes 5-14",   "bytes 5/14-1000", "b-/", "bytes -5-14/1000"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_false(range_parse_content_range(bad[i], &back, &total));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_are_single_clamped_or_ignored),
        cmocka_unit_test(copy_ranges_are_exact),
        cmocka_unit_test(content_range_round_trips),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
