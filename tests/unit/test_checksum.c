/* SPDX-License-Identifier: Apache-2.0 */
#include "cm.h"

#include "s3/checksum.h"

#include <string.h>

static void of(enum checksum_kind kind, const void *bytes, size_t len, struct checksum_value *ret)
{
    struct checksum *c;
    assert_int_equal(checksum_create(kind, &c), 0);
    checksum_update(c, bytes, len / 2);
    checksum_update(c, (const char *)bytes + len / 2, len - len / 2);
    checksum_final(c, ret);
    checksum_destroy(c);
}

static void values_are_those_of_the_standards(void **state)
{
    /* the check values of "123456789" (CRC catalogue, RFC 3720), FIPS 180-2 for "abc", and
     * the base64 of their big-endian bytes; crc64nvme as in the wire document */
    static const struct {
        enum checksum_kind kind;
        const char *bytes, *text;
    } cases[] = {
        {CHECKSUM_CRC32, "123456789", "y/Q5Jg=="},  /* cbf43926 */
        {CHECKSUM_CRC32C, "123456789", "4waSgw=="}, /* e3069283 */
        {CHECKSUM_CRC64NVME, "123456789", "rosUhgp5mIg="},
        {CHECKSUM_SHA1, "abc", "qZk+NkcGgWq6PiVxeFDCbJzQ2J0="},
        {CHECKSUM_SHA256, "abc", "ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0="},
        {CHECKSUM_CRC32, "", "AAAAAA=="},
        {CHECKSUM_CRC32C, "", "AAAAAA=="},
        {CHECKSUM_CRC64NVME, "", "AAAAAAAAAAA="},
        {CHECKSUM_SHA256, "", "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct checksum_value v, parsed;
        char text[CHECKSUM_TEXT_SIZE];
        of(cases[i].kind, cases[i].bytes, strlen(cases[i].bytes), &v);
        checksum_print(&v, text);
        assert_string_equal(text, cases[i].text);
        assert_true(checksum_parse(cases[i].kind, text, false, &parsed));
        assert_true(checksum_equal(&v, &parsed));
        parsed.bytes[checksum_len(v.kind) - 1] ^= 1;
        assert_false(checksum_equal(&v, &parsed));
    }
}

static void names_lead_to_kinds_and_back(void **state)
{
    for (enum checksum_kind k = CHECKSUM_NONE + 1; k < CHECKSUM_KINDS; k++) {
        assert_int_equal(checksum_kind_of_name(checksum_name(k)), k);
        assert_int_equal(checksum_kind_of_header(checksum_header(k)), k);
        assert_int_equal(checksum_kind_of_element(checksum_element(k)), k);
    }
    assert_int_equal(checksum_kind_of_name("crc64nvme"), CHECKSUM_CRC64NVME);
    assert_int_equal(checksum_kind_of_name("MD5"), CHECKSUM_NONE);
    assert_int_equal(checksum_kind_of_header("x-amz-checksum-mode"), CHECKSUM_NONE);
    assert_int_equal(checksum_kind_of_element("ChecksumType"), CHECKSUM_NONE);
}

static void only_canonical_texts_parse(void **state)
{
    static const struct {
        enum checksum_kind kind;
        const char *text;
        bool is_suffix_allowed, is_good;
        unsigned parts;
    } cases[] = {
        {CHECKSUM_CRC32, "y/Q5Jg==", false, true, 0},
        {CHECKSUM_CRC32, "y/Q5Jg==-3", true, true, 3},
        {CHECKSUM_CRC32, "y/Q5Jg==-10000", true, true, 10000},
        {CHECKSUM_CRC32, "y/Q5Jg==-3", false, false, 0},
        {CHECKSUM_CRC32, "y/Q5Jg==-0", true, false, 0},
        {CHECKSUM_CRC32, "y/Q5Jg==-10001", true, false, 0},
        {CHECKSUM_CRC32, "y/Q5Jg==-", true, false, 0},
        {CHECKSUM_CRC32, "y/Q5Jg", false, false, 0},
        {CHECKSUM_CRC32, "", false, false, 0},
        {CHECKSUM_CRC32, "rosUhgp5mIg=", false, false, 0},
        {CHECKSUM_CRC64NVME, "rosUhgp5mIh=", false, false, 0},
        {CHECKSUM_NONE, "", false, false, 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct checksum_value v = {0};
        assert_int_equal(checksum_parse(cases[i].kind, cases[i].text, cases[i].is_suffix_allowed,
                                        &v),
                         cases[i].is_good);
        assert_int_equal(v.parts, cases[i].parts);
        if (cases[i].is_good) {
            char text[CHECKSUM_TEXT_SIZE];
            checksum_print(&v, text);
            assert_string_equal(text, cases[i].text);
        }
    }
}

static void an_upload_asks_only_for_what_can_be(void **state)
{
    static const struct {
        const char *algorithm, *type;
        int rc;
        enum checksum_kind kind;
        enum checksum_type result;
    } cases[] = {
        {NULL, NULL, 0, CHECKSUM_NONE, CHECKSUM_TYPE_NONE},
        {"CRC32", NULL, 0, CHECKSUM_CRC32, CHECKSUM_COMPOSITE},
        {"CRC32C", "FULL_OBJECT", 0, CHECKSUM_CRC32C, CHECKSUM_FULL_OBJECT},
        {"CRC32", "COMPOSITE", 0, CHECKSUM_CRC32, CHECKSUM_COMPOSITE},
        {"CRC64NVME", NULL, 0, CHECKSUM_CRC64NVME, CHECKSUM_FULL_OBJECT},
        {"CRC64NVME", "FULL_OBJECT", 0, CHECKSUM_CRC64NVME, CHECKSUM_FULL_OBJECT},
        {"SHA256", NULL, 0, CHECKSUM_SHA256, CHECKSUM_COMPOSITE},
        {"SHA1", "COMPOSITE", 0, CHECKSUM_SHA1, CHECKSUM_COMPOSITE},
        {"CRC64NVME", "COMPOSITE", S3R_E_INVALID_REQUEST, 0, 0},
        {"SHA256", "FULL_OBJECT", S3R_E_INVALID_REQUEST, 0, 0},
        {"SHA1", "FULL_OBJECT", S3R_E_INVALID_REQUEST, 0, 0},
        {"MD5", NULL, S3R_E_INVALID_REQUEST, 0, 0},
        {"CRC32", "HALF", S3R_E_INVALID_REQUEST, 0, 0},
        {NULL, "COMPOSITE", S3R_E_INVALID_REQUEST, 0, 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        enum checksum_kind kind = CHECKSUM_NONE;
        enum checksum_type type = CHECKSUM_TYPE_NONE;
        assert_int_equal(checksum_choose(cases[i].algorithm, cases[i].type, NULL, &kind, &type),
                         cases[i].rc);
        assert_int_equal(kind, cases[i].kind);
        assert_int_equal(type, cases[i].result);
    }
}

static void a_whole_follows_from_its_parts(void **state)
{
    static const char bytes[] = "the parts of an upload, of any lengths, one of them empty";
    static const size_t cuts[] = {0, 10, 10, 33, sizeof bytes - 1};
    for (enum checksum_kind k = CHECKSUM_CRC32; k <= CHECKSUM_CRC64NVME; k++) {
        struct checksum_join j;
        struct checksum_value part, whole, joined;
        assert_int_equal(checksum_join_init(&j, k, CHECKSUM_FULL_OBJECT), 0);
        for (size_t i = 0; i + 1 < ARRAY_LEN(cuts); i++) {
            of(k, bytes + cuts[i], cuts[i + 1] - cuts[i], &part);
            checksum_join_add(&j, &part, cuts[i + 1] - cuts[i]);
        }
        checksum_join_final(&j, &joined);
        of(k, bytes, sizeof bytes - 1, &whole);
        assert_true(checksum_equal(&joined, &whole));
        checksum_join_fini(&j);
    }
}

static void a_composite_is_the_checksum_of_checksums_with_a_count(void **state)
{
    static const enum checksum_kind kinds[] = {CHECKSUM_CRC32, CHECKSUM_CRC32C, CHECKSUM_SHA1,
                                               CHECKSUM_SHA256};
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        struct checksum_join j;
        struct checksum_value a, b, joined, wanted;
        unsigned char both[2 * CHECKSUM_LEN_MAX];
        char text[CHECKSUM_TEXT_SIZE];
        size_t len = checksum_len(kinds[i]);
        of(kinds[i], "a", 1, &a);
        of(kinds[i], "bc", 2, &b);
        assert_int_equal(checksum_join_init(&j, kinds[i], CHECKSUM_COMPOSITE), 0);
        checksum_join_add(&j, &a, 1);
        checksum_join_add(&j, &b, 2);
        checksum_join_final(&j, &joined);
        memcpy(both, a.bytes, len);
        memcpy(both + len, b.bytes, len);
        of(kinds[i], both, 2 * len, &wanted);
        assert_memory_equal(joined.bytes, wanted.bytes, len);
        checksum_print(&joined, text);
        assert_string_equal(text + BASE64_LEN(len), "-2");
        checksum_join_fini(&j);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_those_of_the_standards),
        cmocka_unit_test(names_lead_to_kinds_and_back),
        cmocka_unit_test(only_canonical_texts_parse),
        cmocka_unit_test(an_upload_asks_only_for_what_can_be),
        cmocka_unit_test(a_whole_follows_from_its_parts),
        cmocka_unit_test(a_composite_is_the_checksum_of_checksums_with_a_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
