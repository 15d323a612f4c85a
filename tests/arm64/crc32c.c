/* SPDX-License-Identifier: Apache-2.0 */
#include "cmocka.h"

#include "s3/crc32c.h"

#include <stdint.h>

/* The definition, bit by bit (RFC 3720, B.4 gives the check value's polynomial). */
static uint32_t by_definition(const unsigned char *p, size_t len)
{
    uint32_t crc = ~UINT32_C(0);
    for (size_t i = 0; i < len; i++) {
        crc ^= p[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? UINT32_C(0x82f63b78) : 0);
    }
    return ~crc;
}

static void crc32c_gives_the_published_check_value(void **state)
{
    assert_int_equal(crc32c_update(0, "123456789", 9), 0xe3069283);
}

static void crc32c_agrees_with_its_definition(void **state)
{
    unsigned char bytes[600];
    srand(5);
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)rand();
    for (size_t off = 0; off < 16; off++)
        for (size_t len = 0; off + len <= sizeof bytes; len += 1 + len / 16)
            assert_int_equal(crc32c_update(0, bytes + off, len), by_definition(bytes + off, len));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(crc32c_gives_the_published_check_value),
        cmocka_unit_test(crc32c_agrees_with_its_definition),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
