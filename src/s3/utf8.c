/* SPDX-License-Identifier: Apache-2.0 */
#include "s3/utf8.h"

/* RFC 3629, section 4: the second byte's bounds keep out overlong forms, surrogates and what lies
 * past U+10FFFF; all later bytes are 80..BF. */
static const struct {
    unsigned char lead_min, lead_max, second_min, second_max, len, lead_mask;
} forms[] = {
    {0x00, 0x7f, 0, 0, 1, 0x7f},       {0xc2, 0xdf, 0x80, 0xbf, 2, 0x1f},
    {0xe0, 0xe0, 0xa0, 0xbf, 3, 0x0f}, {0xe1, 0xec, 0x80, 0xbf, 3, 0x0f},
    {0xed, 0xed, 0x80, 0x9f, 3, 0x0f}, {0xee, 0xef, 0x80, 0xbf, 3, 0x0f},
    {0xf0, 0xf0, 0x90, 0xbf, 4, 0x07}, {0xf1, 0xf3, 0x80, 0xbf, 4, 0x07},
    {0xf4, 0xf4, 0x80, 0x8f, 4, 0x07},
};

size_t utf8_next(const char *s, size_t len, uint32_t *ret_code_point)
{
    const unsigned char *p = (const unsigned char *)s;
    for (size_t f = 0; len && f < sizeof forms / sizeof forms[0]; f++) {
        if (p[0] < forms[f].lead_min || p[0] > forms[f].lead_max)
            continue;
        if (len < forms[f].len)
            return 0;
        uint32_t code_point = p[0] & forms[f].lead_mask;
        for (size_t i = 1; i < forms[f].len; i++) {
            unsigned char min = i == 1 ? forms[f].second_min : 0x80;
            unsigned char max = i == 1 ? forms[f].second_max : 0xbf;
            if (p[i] < min || p[i] > max)
                return 0;
            code_point = code_point << 6 | (p[i] & 0x3f);
        }
        *ret_code_point = code_point;
        return forms[f].len;
    }
    return 0;
}

bool utf8_is_valid(const char *s, size_t len)
{
    while (len) {
        uint32_t code_point;
        size_t step = utf8_next(s, len, &code_point);
        if (!step)
            return false;
        s += step;
        len -= step;
    }
    return true;
}
