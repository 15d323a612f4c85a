/* SPDX-License-Identifier: Apache-2.0 */
/* le.h - numbers as the disk holds them: little-endian; big-endian inside index keys, where the
 *        order of the bytes is the order of the numbers.
 * Does:     loads and stores at any alignment.
 * Not here: bounds; the caller has checked them.
 * Units:    bytes.
 * Owns:     nothing.
 * Threads:  any.
 * Errors:   none.
 * Limits:   none. */
#ifndef S3R_STORE_LE_H
#define S3R_STORE_LE_H

#include <endian.h>
#include <stdint.h>
#include <string.h>

static inline uint16_t le16_load(const void *p)
{
    uint16_t v;
    memcpy(&v, p, sizeof(v));
    return le16toh(v);
}

static inline uint32_t le32_load(const void *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof(v));
    return le32toh(v);
}

static inline uint64_t le64_load(const void *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof(v));
    return le64toh(v);
}

static inline void le16_store(void *p, uint16_t v)
{
    v = htole16(v);
    memcpy(p, &v, sizeof(v));
}

static inline void le32_store(void *p, uint32_t v)
{
    v = htole32(v);
    memcpy(p, &v, sizeof(v));
}

static inline void le64_store(void *p, uint64_t v)
{
    v = htole64(v);
    memcpy(p, &v, sizeof(v));
}

static inline uint64_t be64_load(const void *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof(v));
    return be64toh(v);
}

static inline void be32_store(void *p, uint32_t v)
{
    v = htobe32(v);
    memcpy(p, &v, sizeof(v));
}

static inline void be64_store(void *p, uint64_t v)
{
    v = htobe64(v);
    memcpy(p, &v, sizeof(v));
}

#endif
