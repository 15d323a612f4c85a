/* SPDX-License-Identifier: Apache-2.0 */
/* num.h - numbers from outside: strict parsing, checked arithmetic, alignment.
 * Does:     whole-string decimal and hex parsing without signs, blanks or prefixes.
 * Not here: sizes with units ("16MiB"): base/text.h has none either; tools parse their own.
 * Units:    as the caller means them.
 * Owns:     nothing.
 * Threads:  any.
 * Errors:   false (outputs untouched) for anything that is not exactly a number in range.
 * Limits:   64 bits. */
#ifndef S3R_BASE_NUM_H
#define S3R_BASE_NUM_H

#include "base/attr.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One or more digits and nothing else, at most `max`. */
bool num_parse_dec(const char *s, size_t len, uint64_t max, uint64_t *ret) MUST_CHECK;
/* `min_digits` to `max_digits` (at most 16) hex digits of either case and nothing else. */
bool num_parse_hex(const char *s, size_t len, size_t min_digits, size_t max_digits,
                   uint64_t *ret) MUST_CHECK;

static inline bool checked_add(uint64_t a, uint64_t b, uint64_t *ret)
{
    return !__builtin_add_overflow(a, b, ret);
}

static inline bool checked_mul(uint64_t a, uint64_t b, uint64_t *ret)
{
    return !__builtin_mul_overflow(a, b, ret);
}

/* Is [off, off+len) inside [0, size)? */
static inline bool span_fits(uint64_t off, uint64_t len, uint64_t size)
{
    return off <= size && len <= size - off;
}

/* `align` is a power of two. */
static inline uint64_t align_up(uint64_t n, uint64_t align)
{
    return (n + align - 1) & ~(align - 1);
}

static inline uint64_t align_down(uint64_t n, uint64_t align)
{
    return n & ~(align - 1);
}

static inline uint64_t min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static inline uint64_t max_u64(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

#endif
