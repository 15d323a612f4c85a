/* SPDX-License-Identifier: Apache-2.0 */
/* Content that is a function of the offset. */
#ifndef SDK_CONTENT_H
#define SDK_CONTENT_H

#include <stdint.h>
#include <string.h>

/* The 8 bytes at 8 * i. */
static inline uint64_t word(uint64_t i)
{
    uint64_t x = (i + 1) * UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    return x ^ (x >> 27);
}

static inline unsigned char byte_at(uint64_t off)
{
    uint64_t w = word(off / 8);
    return ((unsigned char *)&w)[off % 8];
}

static inline void fill(char *buf, uint64_t off, size_t len)
{
    size_t i = 0;
    for (; i < len && (off + i) % 8 != 0; i++)
        buf[i] = (char)byte_at(off + i);
    for (; i + 8 <= len; i += 8) {
        uint64_t w = word((off + i) / 8);
        memcpy(buf + i, &w, 8);
    }
    for (; i < len; i++)
        buf[i] = (char)byte_at(off + i);
}

static inline int is_right(const char *buf, uint64_t off, size_t len)
{
    for (size_t i = 0; i < len;) {
        if ((off + i) % 8 == 0 && len - i >= 8) {
            uint64_t w = word((off + i) / 8);
            if (memcmp(buf + i, &w, 8) != 0)
                return 0;
            i += 8;
        } else {
            if ((unsigned char)buf[i] != byte_at(off + i))
                return 0;
            i++;
        }
    }
    return 1;
}

static inline uint64_t number(const char *text)
{
    uint64_t n = 0;
    while (*text == ' ' || *text == '\t')
        text++;
    while (*text >= '0' && *text <= '9')
        n = 10 * n + (uint64_t)(*text++ - '0');
    return n;
}

#endif
