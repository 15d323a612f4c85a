/* SPDX-License-Identifier: Apache-2.0 */
#include "cm.h"

#include "s3/crc32c.h"

#include <stdio.h>
#include <stdlib.h>

enum { LEN = 5000 };

/* The definition, one bit at a time. */
static uint32_t by_definition(const unsigned char *p, size_t len)
{
    uint32_t state = UINT32_MAX;
    for (size_t i = 0; i < len; i++) {
        state ^= p[i];
        for (int bit = 0; bit < 8; bit++)
            state = state >> 1 ^ (state & 1 ? UINT32_C(0x82f63b78) : 0);
    }
    return ~state;
}

static unsigned char *some_bytes(void)
{
    unsigned char *bytes = malloc(LEN);
    for (size_t i = 0; i < LEN; i++)
        bytes[i] = (unsigned char)(i * 2654435761u >> 13);
    return bytes;
}

static void check_value_is_that_of_rfc_3720(void **state)
{
    assert_int_equal(crc32c_update(0, "123456789", 9), 0xe3069283);
    assert_int_equal(crc32c_update_portable(0, "123456789", 9), 0xe3069283);
    assert_int_equal(crc32c_update(0, "", 0), 0);
}

static void both_versions_follow_the_definition_at_any_alignment(void **state)
{
    unsigned char *bytes = some_bytes();
    for (size_t off = 0; off < 17; off++)
        for (size_t len = 0; len < 300; len += 7) {
            uint32_t crc = by_definition(bytes + off, len);
            assert_int_equal(crc32c_update(0, bytes + off, len), crc);
            assert_int_equal(crc32c_update_portable(0, bytes + off, len), crc);
        }
    free(bytes);
}

static void a_whole_goes_on_or_combines_from_its_pieces(void **state)
{
    static const size_t cuts[] = {0, 1, 7, 8, 2500, 4999, LEN};
    unsigned char *bytes = some_bytes();
    uint32_t whole = by_definition(bytes, LEN);
    for (size_t i = 0; i < sizeof cuts / sizeof cuts[0]; i++) {
        uint32_t a = crc32c_update(0, bytes, cuts[i]);
        uint32_t b = crc32c_update(0, bytes + cuts[i], LEN - cuts[i]);
        assert_int_equal(crc32c_combine(a, b, LEN - cuts[i]), whole);
        assert_int_equal(crc32c_update(a, bytes + cuts[i], LEN - cuts[i]), whole);
    }
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_value_is_that_of_rfc_3720),
        cmocka_unit_test(both_versions_follow_the_definition_at_any_alignment),
        cmocka_unit_test(a_whole_goes_on_or_combines_from_its_pieces),
    };
    printf("crc32c: %s\n", crc32c_method());
    return cmocka_run_group_tests(tests, NULL, NULL);
}
