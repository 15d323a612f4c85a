/* SPDX-License-Identifier: Apache-2.0 */
/* utf8.h - UTF-8, strictly.
 * Does:     reads one code point; says whether bytes are UTF-8 (RFC 3629).
 * Not here: normal forms: names that look alike are different names.
 * Units:    bytes.
 * Owns:     nothing.
 * Threads:  any.
 * Errors:   0 or false for overlong forms, surrogates, values past U+10FFFF, cut sequences.
 * Limits:   none. */
#ifndef S3R_S3_UTF8_H
#define S3R_S3_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of the code point at the start of `s` (1 to 4), 0 when there is no valid one. */
size_t utf8_next(const char *s, size_t len, uint32_t *ret_code_point);
bool utf8_is_valid(const char *s, size_t len);

#endif
