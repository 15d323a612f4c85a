/* SPDX-License-Identifier: Apache-2.0 */
#include "cm.h"

#include "base/limits.h"
#include "s3/meta.h"

#include <string.h>

static void add(struct headers *h, const char *name, const char *value)
{
    assert_int_equal(headers_add(h, name, value), 0);
}

static void what_belongs_to_the_object_is_kept_and_nothing_else(void **state)
{
    struct headers h = {0}, meta;
    add(&h, "Host", "x");
    add(&h, "Content-Type", "text/plain");
    add(&h, "Content-Length", "5");
    add(&h, "X-Amz-Meta-A", "1");
    add(&h, "x-amz-meta-b", "\xc3\xa9 =?UTF-8?Q?=C3=A9?=");
    add(&h, "x-amz-meta-a", "2");
    add(&h, "x-amz-storage-class", "STANDARD");
    add(&h, "Expires", "0");
    add(&h, "x-amz-meta-empty", "");
    assert_int_equal(meta_collect(&h, NULL, &meta), 0);
    assert_int_equal(meta.count, 5);
    assert_string_equal(headers_get(&meta, "content-type"), "text/plain");
    assert_string_equal(headers_get(&meta, "x-amz-meta-a"), "1,2");
    assert_string_equal(headers_get(&meta, "x-amz-meta-b"), "\xc3\xa9 =?UTF-8?Q?=C3=A9?=");
    assert_string_equal(headers_get(&meta, "x-amz-meta-empty"), "");
    assert_string_equal(headers_get(&meta, "expires"), "0");
    headers_fini(&meta);
    headers_fini(&h);
}

static void aws_chunked_is_no_encoding_of_the_object(void **state)
{
    static const char *const cases[][2] = {
        {"gzip, aws-chunked", "gzip"},
        {"aws-chunked,gzip", "gzip"},
        {"aws-chunked", NULL},
        {"AWS-Chunked", NULL},
        {"gzip", "gzip"},
        {"gzip,br", "gzip,br"},
        {"", NULL},
        {"aws-chunked2", "aws-chunked2"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct headers h = {0}, meta;
        add(&h, "Content-Encoding", cases[i][0]);
        assert_int_equal(meta_collect(&h, NULL, &meta), 0);
        const char *value = headers_get(&meta, "content-encoding");
        assert_string_equal(value ? value : "-", cases[i][1] ? cases[i][1] : "-");
        headers_fini(&meta);
        headers_fini(&h);
    }
}

static void user_metadata_has_at_most_2048_bytes(void **state)
{
    char value[LIMIT_METADATA_LEN_MAX + 1];
    struct headers h = {0}, meta;
    memset(value, 'x', sizeof value);
    value[LIMIT_METADATA_LEN_MAX - 1] = '\0';
    add(&h, "x-amz-meta-a", value); /* 1 + 2047 */
    add(&h, "cache-control", value);
    assert_int_equal(meta_collect(&h, NULL, &meta), 0);
    headers_fini(&meta);
    add(&h, "x-amz-meta-b", "");
    assert_int_equal(meta_collect(&h, NULL, &meta), S3R_E_METADATA_TOO_LARGE);
    headers_fini(&h);
    add(&h, "x-amz-meta-", "nameless");
    assert_int_equal(meta_collect(&h, NULL, &meta), S3R_E_INVALID_ARGUMENT);
    headers_fini(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_belongs_to_the_object_is_kept_and_nothing_else),
        cmocka_unit_test(aws_chunked_is_no_encoding_of_the_object),
        cmocka_unit_test(user_metadata_has_at_most_2048_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
