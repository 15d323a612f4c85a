/* SPDX-License-Identifier: Apache-2.0 */
/* crc64.h - CRC-64/NVME.
 * Does:     the checksum that every object carries, streaming and combinable. Parameters (NVM
 *           Express NVM Command Set 1.0, 5.2.1.3.4): polynomial 0xAD93D23594C93659, reflected,
 *           initial value and final XOR all ones; "123456789" gives 0xAE8B14860A799888.
 * Not here: other checksums (s3/checksum.h).
 * Units:    bytes; values in host order, the wire carries them big-endian.
 * Owns:     nothing.
 * Threads:  any.
 * Errors:   none.
 * Limits:   none. A CRC finds faults, it is no proof against a person who forges. */
#ifndef S3R_BASE_CRC64_H
#define S3R_BASE_CRC64_H

#include <stddef.h>
#include <stdint.h>

/* Goes on from `crc`, the value of the bytes before (0 for none). */
uint64_t crc64_update(uint64_t crc, const void *bytes, size_t len);
/* The CRC of A followed by B, of which only the CRCs and B's length are known. */
uint64_t crc64_combine(uint64_t crc_a, uint64_t crc_b, uint64_t len_b);

/* The versions by name, for tests and the bench: crc64_update picks once, at run time. */
uint64_t crc64_update_portable(uint64_t crc, const void *bytes, size_t len);
/* "pclmul", "pmull" or "portable": what crc64_update uses here. */
const char *crc64_method(void);

#endif
