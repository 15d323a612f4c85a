/* SPDX-License-Identifier: Apache-2.0 */
#include "cm.h"

#include "s3/names.h"
#include "s3/uri.h"
#include "s3/utf8.h"

#include <stdlib.h>
#include <string.h>

static void bytes_are_utf8_only_in_their_one_form(void **state)
{
    static const struct {
        const char *text;
        bool is_good;
    } cases[] = {
        {"a\xc3\xa9\xe6\x97\xa5\xf0\x9f\x98\x80", true},
        {"\xef\xbf\xbe", true},      /* U+FFFE is a code point, if not one of XML */
        {"\xc0\x80", false},         /* NUL, overlong */
        {"\xe0\x80\xaf", false},     /* '/', overlong */
        {"\xf0\x80\x80\xaf", false}, /* '/', overlong */
        {"\xed\xa0\x80", false},     /* a surrogate */
        {"\xf4\x90\x80\x80", false}, /* past U+10FFFF */
        {"\xe6\x97", false},         /* cut */
        {"\x80", false},
        {"\xff", false},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        assert_int_equal(utf8_is_valid(cases[i].text, strlen(cases[i].text)), cases[i].is_good);
    uint32_t c;
    assert_int_equal(utf8_next("\xf0\x9f\x98\x80", 4, &c), 4);
    assert_int_equal(c, 0x1f600);
}

static void bucket_names_are_those_of_s3(void **state)
{
    static const struct {
        const char *name;
        bool is_good;
    } cases[] = {
        {"abc", true},
        {"my-bucket.1", true},
        {"123", true},
        {"a12345678901234567890123456789012345678901234567890123456789012", true},
        {"a123456789012345678901234567890123456789012345678901234567890123", false},
        {"1.2.3", true},
        {"ab", false},
        {"Abc", false},
        {"a_c", false},
        {"-abc", false},
        {"abc-", false},
        {".abc", false},
        {"abc.", false},
        {"a..b", false},
        {"a.-b", false},
        {"a-.b", false},
        {"192.168.0.1", false},
        {"999.999.999.999", false},
        {"xn--abc", false},
        {"sthree-abc", false},
        {"abc-s3alias", false},
        {"abc--ol-s3", false},
        {"minio", false},
        {"minio1", true},
        {"b/k", false},
        {"a\xc3\xa9"
         "b",
         false},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        assert_int_equal(bucket_name_check(cases[i].name, strlen(cases[i].name), NULL),
                         cases[i].is_good ? 0 : S3R_E_INVALID_BUCKET_NAME);
}

static void decoding_is_strict_and_encoding_leaves_the_unreserved(void **state)
{
    static const struct {
        const char *raw;
        unsigned flags;
        const char *decoded; /* NULL: refused */
    } cases[] = {
        {"a%20b+c", 0, "a b+c"},
        {"a%20b+c%2B", URI_PLUS_IS_BLANK, "a b c+"},
        {"%7e%7E~", 0, "~~~"},
        {"%252F", 0, "%2F"},
        {"%", 0, NULL},
        {"%2", 0, NULL},
        {"%2g", 0, NULL},
        {"%+1", 0, NULL},
        {"a%00", URI_REFUSE_NUL, NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct text t;
        text_init(&t, 100);
        assert_int_equal(uri_decode(cases[i].raw, strlen(cases[i].raw), cases[i].flags, &t),
                         cases[i].decoded != NULL);
        if (cases[i].decoded)
            assert_string_equal(text_cstr(&t), cases[i].decoded);
        text_fini(&t);
    }
    struct text t;
    text_init(&t, 100);
    uri_encode(&t, "a b/\xc3\xbc+~x!*'()", 14, true);
    text_char(&t, ' ');
    uri_encode(&t, "/", 1, false);
    assert_string_equal(text_cstr(&t), "a%20b/%C3%BC%2B~x%21%2A%27%28%29 %2F");
    text_fini(&t);
}

static void a_query_is_canonical_when_sorted_by_name_then_value(void **state)
{
    static const struct {
        const char *raw, *canonical; /* NULL: refused */
    } cases[] = {
        {"", ""},
        {"acl", "acl="},
        {"acl=", "acl="},
        {"uploads&", "uploads="},
        {"&&a=1&&", "a=1"},
        {"prefix=a%20b", "prefix=a%20b"},
        {"prefix=a+b", "prefix=a%20b"},
        {"prefix=a%2Bb", "prefix=a%2Bb"},
        {"prefix=", "prefix="},
        {"b=2&b=1&a-b=1&a=1", "a=1&a-b=1&b=1&b=2"},
        {"a=b=c", "a=b%3Dc"},
        {"=x", "=x"},
        {"a=%zz", NULL},
        {"a%00=1", NULL},
        {"a=%00", NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct query q = {0};
        int rc = query_parse(cases[i].raw, strlen(cases[i].raw), NULL, &q);
        assert_int_equal(rc, cases[i].canonical ? 0 : S3R_E_INVALID_URI);
        if (rc)
            continue;
        struct text t;
        text_init(&t, 1000);
        assert_int_equal(query_canonical(&q, NULL, &t), 0);
        assert_string_equal(text_cstr(&t), cases[i].canonical);
        text_fini(&t);
        query_fini(&q);
    }
}

static void a_query_tells_no_value_from_an_empty_one_and_is_bounded(void **state)
{
    struct query q = {0};
    assert_int_equal(query_parse("acl&x=&x=2", 10, NULL, &q), 0);
    assert_int_equal(q.count, 3);
    assert_false(q.rows[0].has_value);
    assert_true(q.rows[1].has_value);
    assert_string_equal(query_get(&q, "x"), "");
    assert_null(query_get(&q, "y"));
    assert_true(query_has(&q, "acl"));
    query_fini(&q);
    char many[2 * LIMIT_QUERY_PARAMS_MAX + 2];
    for (size_t i = 0; i < sizeof many; i += 2)
        memcpy(many + i, "a&", 2);
    assert_int_equal(query_parse(many, sizeof many, NULL, &q), S3R_E_INVALID_URI);
    assert_int_equal(query_parse(many, sizeof many - 2, NULL, &q), 0);
    query_fini(&q);
}

static void paths_are_split_before_they_are_decoded(void **state)
{
    static const struct {
        const char *raw, *host_bucket, *bucket, *key;
        int rc;
    } cases[] = {
        {"/", NULL, NULL, NULL, 0},
        {"/bkt", NULL, "bkt", NULL, 0},
        {"/bkt/", NULL, "bkt", NULL, 0},
        {"/bkt/k", NULL, "bkt", "k", 0},
        {"/bkt//k", NULL, "bkt", "/k", 0},
        {"/bkt/a//b", NULL, "bkt", "a//b", 0},
        {"/bkt/a/./b", NULL, "bkt", "a/./b", 0},
        {"/bkt/../x", NULL, "bkt", "../x", 0},
        {"/bkt/%2e%2e/other/k", NULL, "bkt", "../other/k", 0},
        {"/bkt/a+b", NULL, "bkt", "a+b", 0},
        {"/bkt/a%2Fb", NULL, "bkt", "a/b", 0},
        {"/bkt/a%252Fb", NULL, "bkt", "a%2Fb", 0},
        {"/bkt/dir/", NULL, "bkt", "dir/", 0},
        {"/bkt/%E6%97%A5%01", NULL, "bkt", "\xe6\x97\xa5\x01", 0},
        {"/k", "bkt", "bkt", "k", 0},
        {"/", "bkt", "bkt", NULL, 0},
        {"//x", "bkt", "bkt", "/x", 0},
        {"/bkt%2Fk", NULL, NULL, NULL, S3R_E_INVALID_BUCKET_NAME},
        {"//bkt/k", NULL, NULL, NULL, S3R_E_INVALID_URI},
        {"bkt/k", NULL, NULL, NULL, S3R_E_INVALID_URI},
        {"", NULL, NULL, NULL, S3R_E_INVALID_URI},
        {"/../k", NULL, NULL, NULL, S3R_E_INVALID_BUCKET_NAME},
        {"/bkt/%00", NULL, NULL, NULL, S3R_E_INVALID_URI},
        {"/bkt/%ff", NULL, NULL, NULL, S3R_E_INVALID_URI},
        {"/bkt/%c0%af", NULL, NULL, NULL, S3R_E_INVALID_URI},
        {"/bkt/%zz", NULL, NULL, NULL, S3R_E_INVALID_URI},
        {"/k", "BKT", NULL, NULL, S3R_E_INVALID_BUCKET_NAME},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct target t = {0};
        int rc = target_parse(cases[i].raw, strlen(cases[i].raw), cases[i].host_bucket, NULL, &t);
        assert_int_equal(rc, cases[i].rc);
        assert_string_equal(t.bucket ? t.bucket : "-", cases[i].bucket ? cases[i].bucket : "-");
        assert_string_equal(t.key ? t.key : "-", cases[i].key ? cases[i].key : "-");
        target_fini(&t);
    }
}

static void a_key_has_at_most_1024_bytes_after_decoding(void **state)
{
    char raw[5 + 3 * (LIMIT_KEY_LEN_MAX + 1)];
    memcpy(raw, "/bkt/", 5);
    for (size_t i = 0; i <= LIMIT_KEY_LEN_MAX; i++)
        memcpy(raw + 5 + 3 * i, "%41", 3);
    struct target t = {0};
    assert_int_equal(target_parse(raw, sizeof raw, NULL, NULL, &t), S3R_E_KEY_TOO_LONG);
    assert_int_equal(target_parse(raw, sizeof raw - 3, NULL, NULL, &t), 0);
    assert_int_equal(t.key_len, LIMIT_KEY_LEN_MAX);
    target_fini(&t);
}

static void copy_sources_name_exactly_one_object(void **state)
{
    static const struct {
        const char *value, *key, *version;
        int rc;
    } cases[] = {
        {"bkt/a%21b", "a!b", NULL, 0},
        {"/bkt/a!b", "a!b", NULL, 0},
        {"bkt/a+b", "a+b", NULL, 0},
        {"bkt/a%2Bb", "a+b", NULL, 0},
        {"bkt/a%252Bb", "a%2Bb", NULL, 0},
        {"bkt/a b", "a b", NULL, 0},
        {"bkt/a%20b", "a b", NULL, 0},
        {"bkt/\xc3\xa9", "\xc3\xa9", NULL, 0},
        {"bkt/%C3%A9", "\xc3\xa9", NULL, 0},
        {"bkt/k?versionId=v%2F1", "k", "v/1", 0},
        {"bkt/k%3FversionId=../../x", "k?versionId=../../x", NULL, 0},
        {"bkt/..%2Fx", "../x", NULL, 0},
        {"bkt", NULL, NULL, S3R_E_INVALID_ARGUMENT},
        {"bkt/", NULL, NULL, S3R_E_INVALID_ARGUMENT},
        {"/bkt/", NULL, NULL, S3R_E_INVALID_ARGUMENT},
        {"", NULL, NULL, S3R_E_INVALID_ARGUMENT},
        {"/", NULL, NULL, S3R_E_INVALID_ARGUMENT},
        {"//k", NULL, NULL, S3R_E_INVALID_ARGUMENT},
        {"?versionId=a/b", NULL, NULL, S3R_E_INVALID_ARGUMENT},
        {"bkt?versionId=a/b", NULL, NULL, S3R_E_INVALID_ARGUMENT},
        {"bkt/%zz", NULL, NULL, S3R_E_INVALID_ARGUMENT},
        {"bkt%2Fk", "k", NULL, 0},
        {"%2Fbkt%2Fa%2Fb", "a/b", NULL, 0},
        {"B_/k", NULL, NULL, S3R_E_INVALID_BUCKET_NAME},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct target t = {0};
        char *version = NULL;
        assert_int_equal(copy_source_parse(cases[i].value, NULL, &t, &version), cases[i].rc);
        assert_string_equal(t.key ? t.key : "-", cases[i].key ? cases[i].key : "-");
        assert_string_equal(version ? version : "-", cases[i].version ? cases[i].version : "-");
        target_fini(&t);
        free(version);
    }
}

static void targets_print_as_they_parse(void **state)
{
    struct text t;
    text_init(&t, 100);
    target_print(&t, "bkt", "a b/\xc3\xbc+~x", 9);
    assert_string_equal(text_cstr(&t), "/bkt/a%20b/%C3%BC%2B~x");
    struct target back = {0};
    assert_int_equal(target_parse(t.data, t.len, NULL, NULL, &back), 0);
    assert_string_equal(back.key, "a b/\xc3\xbc+~x");
    target_fini(&back);
    text_fini(&t);
}

static void hosts_name_a_bucket_only_below_the_base_domain(void **state)
{
    static const struct {
        const char *host, *bucket;
    } cases[] = {
        {"bkt.s3.local:9000", "bkt"},
        {"BKT.S3.LOCAL", "bkt"},
        {"a.b.s3.local", "a.b"},
        {"bkt.s3.local.", "bkt"},
        {"s3.local", NULL},
        {".s3.local", NULL},
        {"127.0.0.1:9000", NULL},
        {"[::1]:9000", NULL},
        {"bkts3.local", NULL},
        {"bkt.s3.local.evil", NULL},
        {"", NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char bucket[LIMIT_BUCKET_LEN_MAX + 1] = "";
        assert_int_equal(host_bucket(cases[i].host, "s3.local", bucket), cases[i].bucket != NULL);
        assert_string_equal(bucket, cases[i].bucket ? cases[i].bucket : "");
    }
    char bucket[LIMIT_BUCKET_LEN_MAX + 1], host[200];
    memset(host, 'a', sizeof host);
    memcpy(host + 150, ".s3.local", 10);
    assert_false(host_bucket(host, "s3.local", bucket));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_are_utf8_only_in_their_one_form),
        cmocka_unit_test(bucket_names_are_those_of_s3),
        cmocka_unit_test(decoding_is_strict_and_encoding_leaves_the_unreserved),
        cmocka_unit_test(a_query_is_canonical_when_sorted_by_name_then_value),
        cmocka_unit_test(a_query_tells_no_value_from_an_empty_one_and_is_bounded),
        cmocka_unit_test(paths_are_split_before_they_are_decoded),
        cmocka_unit_test(a_key_has_at_most_1024_bytes_after_decoding),
        cmocka_unit_test(copy_sources_name_exactly_one_object),
        cmocka_unit_test(targets_print_as_they_parse),
        cmocka_unit_test(hosts_name_a_bucket_only_below_the_base_domain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
