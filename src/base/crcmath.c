/* SPDX-License-Identifier: Apache-2.0 */
#include "base/crcmath.h"

static uint64_t multiply(const struct crc_field *f, uint64_t a, uint64_t b)
{
    uint64_t product = 0;
    for (unsigned i = f->width; i-- > 0;) {
        if (a >> i & 1)
            product ^= b;
        b = b >> 1 ^ (b & 1 ? f->poly : 0);
    }
    return product;
}

/* base^n mod P. */
static uint64_t power(const struct crc_field *f, uint64_t base, uint64_t n)
{
    uint64_t result = UINT64_C(1) << (f->width - 1);
    for (; n; n >>= 1) {
        if (n & 1)
            result = multiply(f, result, base);
        base = multiply(f, base, base);
    }
    return result;
}

uint64_t crc_power_of_x(const struct crc_field *f, uint64_t n)
{
    return power(f, UINT64_C(1) << (f->width - 2), n);
}

/* Appending B multiplies A's remainder by x^(8 * len_b); the ones of initial value and final XOR
 * cancel out. */
uint64_t crc_combine(const struct crc_field *f, uint64_t crc_a, uint64_t crc_b, uint64_t len_b)
{
    /* 8 * len_b can pass 64 bits: a power of x^8 instead */
    return multiply(f, crc_a, power(f, crc_power_of_x(f, 8), len_b)) ^ crc_b;
}
