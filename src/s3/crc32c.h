/* SPDX-License-Identifier: Apache-2.0 */
/* crc32c.h - CRC-32C (Castagnoli, RFC 3720 appendix B.4).
 * Does:     streaming with the processor's instruction where there is one, with tables otherwise;
 *           combination.
 * Not here: CRC-32 (zlib has it); names and text forms (s3/checksum.h).
 * Units:    bytes; values in host order.
 * Owns:     nothing.
 * Threads:  any.
 * Errors:   none.
 * Limits:   none. */
#ifndef S3R_S3_CRC32C_H
#define S3R_S3_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Goes on from `crc`, the value of the bytes before (0 for none). "123456789" gives 0xe3069283. */
uint32_t crc32c_update(uint32_t crc, const void *bytes, size_t len);
/* For tests: what crc32c_update does without the instruction. */
uint32_t crc32c_update_portable(uint32_t crc, const void *bytes, size_t len);
/* "sse4.2", "crc" or "portable": what crc32c_update uses here. */
const char *crc32c_method(void);
/* The CRC of A followed by B, of which only the CRCs and B's length are known. */
uint32_t crc32c_combine(uint32_t crc_a, uint32_t crc_b, uint64_t len_b);

#endif
