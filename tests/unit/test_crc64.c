/* SPDX-License-Identifier: Apache-2.0 */
#include "cm.h"

#include "base/crc64.h"

#include <stdlib.h>

static void crc64_gives_the_published_check_value(void **state)
{
    assert_int_equal(crc64_update(0, "123456789", 9), UINT64_C(0xae8b14860a799888));
    assert_int_equal(crc64_update_portable(0, "123456789", 9), UINT64_C(0xae8b14860a799888));
    assert_int_equal(crc64_update(0, "", 0), 0);
}

/* The definition, bit by bit: nothing shared with the code under test. */
static uint64_t by_definition(const unsigned char *p, size_t len)
{
    uint64_t crc = ~UINT64_C(0);
    for (size_t i = 0; i < len; i++)
        for (int bit = 0; bit < 8; bit++) {
            unsigned mismatch = (crc ^ p[i] >> bit) & 1;
            crc = crc >> 1 ^ (mismatch ? UINT64_C(0x9a6c9329ac4bc9b5) : 0);
        }
    return ~crc;
}

static void crc64_versions_agree_on_random_lengths_and_alignments(void **state)
{
    enum { SIZE = 5000 };
    unsigned char *bytes = malloc(SIZE + 64);
    srand(7);
    for (size_t i = 0; i < SIZE + 64; i++)
        bytes[i] = (unsigned char)rand();
    for (int i = 0; i < 2000; i++) {
        size_t off = (size_t)rand() % 64, len = (size_t)rand() % (i % 2 ? 300 : SIZE);
        uint64_t want = by_definition(bytes + off, len);
        assert_int_equal(crc64_update(0, bytes + off, len), want);
        assert_int_equal(crc64_update_portable(0, bytes + off, len), want);
    }
    free(bytes);
}

static void crc64_of_a_whole_comes_from_its_parts(void **state)
{
    unsigned char bytes[3000];
    srand(8);
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)rand();
    uint64_t whole = crc64_update(0, bytes, sizeof bytes);
    for (size_t cut = 0; cut <= sizeof bytes; cut += 37) {
        uint64_t a = crc64_update(0, bytes, cut);
        uint64_t b = crc64_update(0, bytes + cut, sizeof bytes - cut);
        assert_int_equal(crc64_combine(a, b, sizeof bytes - cut), whole);
        assert_int_equal(crc64_update(a, bytes + cut, sizeof bytes - cut), whole);
    }
    assert_int_equal(crc64_combine(whole, 0, 0), whole);
}

static void crc64_combines_lengths_beyond_32_bits(void **state)
{
    /* zeros of length 2^n by doubling, against one combination of the whole length */
    unsigned char zero = 0;
    uint64_t crc = crc64_update(0, &zero, 1), len = 1;
    for (int i = 0; i < 40; i++, len *= 2)
        crc = crc64_combine(crc, crc, len);
    uint64_t half = crc64_update(0, &zero, 1), half_len = 1;
    for (int i = 0; i < 39; i++, half_len *= 2)
        half = crc64_combine(half, half, half_len);
    uint64_t three = crc64_combine(crc, half, half_len);
    assert_int_equal(three, crc64_combine(half, crc, len)); /* all zeros: order is the same */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(crc64_gives_the_published_check_value),
        cmocka_unit_test(crc64_versions_agree_on_random_lengths_and_alignments),
        cmocka_unit_test(crc64_of_a_whole_comes_from_its_parts),
        cmocka_unit_test(crc64_combines_lengths_beyond_32_bits),
    };
    print_message("crc64: %s\n", crc64_method());
    return cmocka_run_group_tests(tests, NULL, NULL);
}
