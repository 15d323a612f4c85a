/* SPDX-License-Identifier: Apache-2.0 */
#include "cm.h"

#include "base/clock.h"
#include "s3/cond.h"
#include "s3/etag.h"

#include <stdio.h>
#include <string.h>

#define MTIME 1767323045 /* Fri, 02 Jan 2026 03:04:05 GMT */
#define SAME "Fri, 02 Jan 2026 03:04:05 GMT"
#define EARLIER "Fri, 02 Jan 2026 03:04:04 GMT"
#define LATER "Fri, 02 Jan 2026 03:04:06 GMT"

static const struct cond_object object = {true, "abc", MTIME};

static void add(struct headers *h, const char *name, const char *value)
{
    if (value)
        assert_int_equal(headers_add(h, name, value), 0);
}

static void reads_follow_the_precedence_of_rfc_9110(void **state)
{
    enum { OK = 0, FAILED = S3R_E_PRECONDITION, SAME_STILL = S3R_E_NOT_MODIFIED };
    static const struct {
        const char *match, *none_match, *modified, *unmodified;
        int rc;
    } cases[] = {
        {NULL, NULL, NULL, NULL, OK},
        {"\"abc\"", NULL, NULL, NULL, OK},
        {"abc", NULL, NULL, NULL, OK},
        {"*", NULL, NULL, NULL, OK},
        {"\"x\", \"abc\"", NULL, NULL, NULL, OK},
        {"x,abc", NULL, NULL, NULL, OK},
        {"\"a,b\",\"abc\"", NULL, NULL, NULL, OK},
        {"\"abc", NULL, NULL, NULL, FAILED},
        {"\"abcd\"", NULL, NULL, NULL, FAILED},
        {"\"ab\"", NULL, NULL, NULL, FAILED},
        {"\"x,abc\"", NULL, NULL, NULL, FAILED},
        {"W/\"abc\"", NULL, NULL, NULL, FAILED}, /* strong comparison */
        {"", NULL, NULL, NULL, FAILED},
        {NULL, "\"abc\"", NULL, NULL, SAME_STILL},
        {NULL, "abc", NULL, NULL, SAME_STILL},
        {NULL, "W/\"abc\"", NULL, NULL, SAME_STILL}, /* weak comparison */
        {NULL, "*", NULL, NULL, SAME_STILL},
        {NULL, "\"x\"", NULL, NULL, OK},
        {NULL, NULL, EARLIER, NULL, OK},
        {NULL, NULL, SAME, NULL, SAME_STILL},
        {NULL, NULL, LATER, NULL, SAME_STILL},
        {NULL, NULL, "yesterday", NULL, OK},
        {NULL, NULL, NULL, EARLIER, FAILED},
        {NULL, NULL, NULL, SAME, OK},
        {NULL, NULL, NULL, LATER, OK},
        {NULL, NULL, NULL, "yesterday", OK},
        {"\"abc\"", NULL, NULL, EARLIER, OK},         /* If-Match decides */
        {"\"x\"", NULL, NULL, LATER, FAILED},         /* If-Match decides */
        {NULL, "\"abc\"", EARLIER, NULL, SAME_STILL}, /* If-None-Match decides */
        {NULL, "\"x\"", LATER, NULL, OK},             /* If-None-Match decides */
        {"\"abc\"", "\"abc\"", NULL, NULL, SAME_STILL},
        {"\"x\"", "\"abc\"", NULL, NULL, FAILED},
        {"\"abc\"", NULL, LATER, NULL, SAME_STILL},
        {NULL, "\"abc\"", NULL, EARLIER, FAILED},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        static const char *const prefixes[] = {"", "x-amz-copy-source-"};
        for (size_t p = 0; p < ARRAY_LEN(prefixes); p++) {
            struct headers h = {0};
            struct cond c;
            char name[64];
            const char *const names[] = {"if-match", "if-none-match", "if-modified-since",
                                         "if-unmodified-since"};
            const char *const values[] = {cases[i].match, cases[i].none_match, cases[i].modified,
                                          cases[i].unmodified};
            for (size_t n = 0; n < ARRAY_LEN(names); n++) {
                snprintf(name, sizeof name, "%s%s", prefixes[p], names[n]);
                add(&h, name, values[n]);
            }
            assert_int_equal(p ? cond_parse_copy(&h, &c) : cond_parse_read(&h, &c), 0);
            int rc = p ? cond_judge_copy(&c, &object) : cond_judge_read(&c, &object);
            assert_int_equal(rc, p && cases[i].rc ? S3R_E_PRECONDITION : cases[i].rc);
            cond_fini(&c);
            headers_fini(&h);
        }
    }
}

static void two_header_lines_are_one_list(void **state)
{
    struct headers h = {0};
    struct cond c;
    add(&h, "if-match", "\"x\"");
    add(&h, "if-match", "\"abc\"");
    assert_int_equal(cond_parse_read(&h, &c), 0);
    assert_int_equal(cond_judge_read(&c, &object), 0);
    assert_false(cond_is_empty(&c));
    cond_fini(&c);
    assert_true(cond_is_empty(&c));
    headers_fini(&h);
}

static void writes_create_only_or_swap_only(void **state)
{
    static const struct cond_object missing = {0};
    static const struct {
        const char *match, *none_match;
        int on_missing, on_object;
    } cases[] = {
        {NULL, NULL, 0, 0},
        {NULL, "*", 0, S3R_E_PRECONDITION},
        {"\"abc\"", NULL, S3R_E_NO_SUCH_KEY, 0},
        {"abc", NULL, S3R_E_NO_SUCH_KEY, 0},
        {"\"x\"", NULL, S3R_E_NO_SUCH_KEY, S3R_E_PRECONDITION},
        {"W/\"abc\"", NULL, S3R_E_NO_SUCH_KEY, S3R_E_PRECONDITION},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct headers h = {0};
        struct cond c;
        add(&h, "if-match", cases[i].match);
        add(&h, "if-none-match", cases[i].none_match);
        assert_int_equal(cond_parse_write(&h, NULL, &c), 0);
        assert_int_equal(cond_judge_write(&c, &missing), cases[i].on_missing);
        assert_int_equal(cond_judge_write(&c, &object), cases[i].on_object);
        cond_fini(&c);
        headers_fini(&h);
    }
    static const char *const unsupported[][2] = {{"if-none-match", "\"abc\""},
                                                 {"if-modified-since", SAME},
                                                 {"if-unmodified-since", SAME}};
    for (size_t i = 0; i < ARRAY_LEN(unsupported); i++) {
        struct headers h = {0};
        struct cond c;
        add(&h, unsupported[i][0], unsupported[i][1]);
        assert_int_equal(cond_parse_write(&h, NULL, &c), S3R_E_UNSUPPORTED);
        headers_fini(&h);
    }
}

static void if_range_obeys_only_a_strong_match(void **state)
{
    assert_true(cond_range_applies(NULL, &object));
    assert_true(cond_range_applies("\"abc\"", &object));
    assert_true(cond_range_applies(SAME, &object));
    assert_false(cond_range_applies("W/\"abc\"", &object));
    assert_false(cond_range_applies("\"x\"", &object));
    assert_false(cond_range_applies("*", &object));
    assert_false(cond_range_applies(LATER, &object));
}

static void etags_lose_and_gain_their_quotes(void **state)
{
    static const struct {
        const char *text, *etag; /* NULL: refused */
    } cases[] = {
        {"\"abc\"", "abc"}, {"abc", "abc"}, {"\"abc", NULL}, {"abc\"", NULL}, {"", NULL},
        {"\"\"", NULL},     {"\"", NULL},   {"a b", NULL},   {"a\nb", NULL},  {"a\"b", NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char out[ETAG_SIZE] = "";
        assert_int_equal(etag_unquote(cases[i].text, strlen(cases[i].text), out),
                         cases[i].etag != NULL);
        assert_string_equal(out, cases[i].etag ? cases[i].etag : "");
    }
    char long_text[ETAG_SIZE + 1], out[ETAG_SIZE + 2];
    memset(long_text, 'a', sizeof long_text);
    assert_false(etag_unquote(long_text, ETAG_SIZE, out));
    etag_quote("abc", out);
    assert_string_equal(out, "\"abc\"");
}

static void a_multipart_etag_is_the_md5_of_md5s(void **state)
{
    /* md5("a"), md5("b"); the whole was computed with md5sum over their 32 bytes */
    struct etag_join j;
    char out[ETAG_SIZE];
    assert_int_equal(etag_join_init(&j), 0);
    assert_true(etag_join_add(&j, "0cc175b9c0f1b6a831c399e269772661"));
    assert_true(etag_join_add(&j, "92eb5ffee6ae2fec3ad71c777531578f"));
    assert_false(etag_join_add(&j, "92eb5ffee6ae2fec3ad71c777531578"));
    assert_false(etag_join_add(&j, "92eb5ffee6ae2fec3ad71c777531578f-1"));
    etag_join_final(&j, out);
    etag_join_fini(&j);
    assert_string_equal(out, "96e024ba2074fe77e8e965ba43a704be-2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_follow_the_precedence_of_rfc_9110),
        cmocka_unit_test(two_header_lines_are_one_list),
        cmocka_unit_test(writes_create_only_or_swap_only),
        cmocka_unit_test(if_range_obeys_only_a_strong_match),
        cmocka_unit_test(etags_lose_and_gain_their_quotes),
        cmocka_unit_test(a_multipart_etag_is_the_md5_of_md5s),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
