/* SPDX-License-Identifier: Apache-2.0 */
#include "cm.h"

#include "base/error.h"
#include "base/limits.h"
#include "s3/headers.h"

#include <stdlib.h>
#include <string.h>

static void names_are_lower_case_and_values_trimmed_but_otherwise_kept(void **state)
{
    struct headers h = {0};
    assert_int_equal(headers_add(&h, "X-Amz-Meta-A", " \t a  b\xc3\xa9\xff \t"), 0);
    assert_int_equal(headers_add(&h, "x-amz-meta-a", "2"), 0);
    assert_int_equal(headers_add(&h, "Empty", "  "), 0);
    assert_string_equal(headers_get(&h, "x-amz-meta-a"), "a  b\xc3\xa9\xff");
    assert_int_equal(headers_count(&h, "x-amz-meta-a"), 2);
    assert_string_equal(headers_get(&h, "empty"), "");
    assert_null(headers_get(&h, "X-Amz-Meta-A"));
    headers_fini(&h);
}

static void what_could_split_a_header_is_refused(void **state)
{
    static const struct {
        const char *name, *value;
        size_t value_len;
    } bad[] = {
        {"a", "x\r\ny: z", 7}, {"a", "x\ny", 3},      {"a", "x\0y", 3},
        {"a", "x\x7f", 2},     {"", "x", 1},          {"a b", "x", 1},
        {"a:", "x", 1},        {"a\xc3\xa9", "x", 1}, {" a", "x", 1},
    };
    struct headers h = {0};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_int_equal(headers_add_n(&h, bad[i].name, strlen(bad[i].name), bad[i].value,
                                       bad[i].value_len),
                         S3R_E_INVALID_REQUEST);
    assert_int_equal(headers_add_n(&h, "a\0b", 3, "x", 1), S3R_E_INVALID_REQUEST);
    assert_int_equal(h.count, 0);
    headers_fini(&h);
}

static void set_replaces_all_rows_of_a_name_and_remove_frees_their_room(void **state)
{
    struct headers h = {0};
    assert_int_equal(headers_add(&h, "a", "1"), 0);
    assert_int_equal(headers_add(&h, "b", "2"), 0);
    assert_int_equal(headers_add(&h, "A", "3"), 0);
    assert_int_equal(headers_set(&h, "a", "4"), 0);
    assert_int_equal(h.count, 2);
    assert_string_equal(headers_get(&h, "a"), "4");
    headers_remove(&h, "a");
    headers_remove(&h, "b");
    assert_int_equal(h.count, 0);
    assert_int_equal(h.len, 0);
    headers_fini(&h);
}

static void the_list_is_bounded_in_rows_and_in_bytes(void **state)
{
    struct headers h = {0};
    for (size_t i = 0; i < LIMIT_HEADERS_MAX; i++)
        assert_int_equal(headers_add(&h, "a", "b"), 0);
    assert_int_equal(headers_add(&h, "a", "b"), S3R_E_HEADERS_TOO_LARGE);
    headers_fini(&h);
    char *big = malloc(LIMIT_HEADERS_LEN_MAX);
    memset(big, 'x', LIMIT_HEADERS_LEN_MAX);
    assert_int_equal(headers_add_n(&h, "a", 1, big, LIMIT_HEADERS_LEN_MAX),
                     S3R_E_HEADERS_TOO_LARGE);
    assert_int_equal(headers_add_n(&h, "a", 1, big, LIMIT_HEADERS_LEN_MAX - 1), 0);
    assert_int_equal(headers_add(&h, "a", ""), S3R_E_HEADERS_TOO_LARGE);
    h.is_reply = true; /* there is as much room again */
    assert_int_equal(headers_add_n(&h, "a", 1, big, LIMIT_HEADERS_LEN_MAX),
                     S3R_E_HEADERS_TOO_LARGE);
    assert_int_equal(headers_add_n(&h, "a", 1, big, LIMIT_HEADERS_LEN_MAX - 1), 0);
    assert_int_equal(headers_add(&h, "a", ""), S3R_E_HEADERS_TOO_LARGE);
    headers_fini(&h);
    free(big);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_lower_case_and_values_trimmed_but_otherwise_kept),
        cmocka_unit_test(what_could_split_a_header_is_refused),
        cmocka_unit_test(set_replaces_all_rows_of_a_name_and_remove_frees_their_room),
        cmocka_unit_test(the_list_is_bounded_in_rows_and_in_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
