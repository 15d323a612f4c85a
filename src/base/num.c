/* SPDX-License-Identifier: Apache-2.0 */
#include "base/num.h"

#include "base/hex.h"

bool num_parse_dec(const char *s, size_t len, uint64_t max, uint64_t *ret)
{
    uint64_t n = 0;
    if (len == 0)
        return false;
    for (size_t i = 0; i < len; i++) {
        if (s[i] < '0' || s[i] > '9')
            return false;
        if (!checked_mul(n, 10, &n) || !checked_add(n, (uint64_t)(s[i] - '0'), &n))
            return false;
    }
    if (n > max)
        return false;
    *ret = n;
    return true;
}

bool num_parse_hex(const char *s, size_t len, size_t min_digits, size_t max_digits, uint64_t *ret)
{
    uint64_t n = 0;
    if (len < min_digits || len > max_digits || len > 16)
        return false;
    for (size_t i = 0; i < len; i++) {
        int digit = hex_value(s[i]);
        if (digit < 0)
            return false;
        n = n << 4 | (uint64_t)digit;
    }
    *ret = n;
    return true;
}
