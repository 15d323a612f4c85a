/* SPDX-License-Identifier: Apache-2.0 */
/* crcmath.h - arithmetic modulo the polynomial of a reflected CRC of up to 64 bits.
 * Does:     products, powers of x, and the CRC of a whole from those of its two parts.
 * Not here: the CRC of bytes (base/crc64.h, s3/crc32c.h).
 * Units:    bits for exponents, bytes for lengths.
 * Owns:     nothing.
 * Threads:  any.
 * Errors:   none.
 * Limits:   a CRC whose initial value and final XOR are all ones. */
#ifndef S3R_BASE_CRCMATH_H
#define S3R_BASE_CRCMATH_H

#include <stdint.h>

struct crc_field {
    uint64_t poly; /* reflected: bit width - 1 is the coefficient of x^0 */
    unsigned width;
};

/* x^n mod P. */
uint64_t crc_power_of_x(const struct crc_field *f, uint64_t n);
/* The CRC of A followed by B, of which only the CRCs and B's length are known. */
uint64_t crc_combine(const struct crc_field *f, uint64_t crc_a, uint64_t crc_b, uint64_t len_b);

#endif
