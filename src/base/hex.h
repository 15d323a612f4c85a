/* SPDX-License-Identifier: Apache-2.0 */
/* hex.h - bytes as text: hexadecimal and base64.
 * Does:     encode and strictly decode; base64 with padding, canonical only (RFC 4648 3.5).
 * Not here: numbers (num.h); percent-encoding (s3/uri.h).
 * Units:    lengths in bytes of the side named.
 * Owns:     nothing; the caller's buffers.
 * Threads:  any.
 * Errors:   false for text that is not exactly an encoding; outputs may hold partial bytes.
 * Limits:   none. */
#ifndef S3R_BASE_HEX_H
#define S3R_BASE_HEX_H

#include "base/attr.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* 0..15, or -1. */
int hex_value(char c);
/* Lower case, with a NUL: `out` has 2 * len + 1 bytes. */
void hex_encode(const void *bytes, size_t len, char *out);
/* Exactly `2 * len` digits of either case. */
bool hex_decode(const char *text, size_t text_len, void *out, size_t len) MUST_CHECK;

#define BASE64_LEN(n) (((n) + 2) / 3 * 4)
/* With a NUL: `out` has BASE64_LEN(len) + 1 bytes. */
void base64_encode(const void *bytes, size_t len, char *out);
/* Exactly `len` bytes in their canonical, padded form. */
bool base64_decode(const char *text, size_t text_len, void *out, size_t len) MUST_CHECK;

#endif
