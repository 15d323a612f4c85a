/* SPDX-License-Identifier: Apache-2.0 */
#include "s3/crc32c.h"

#include "base/crcmath.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>

/* The polynomial 0x1edc6f41 with its bits reversed: bit 31 is the coefficient of x^0. */
#define POLY_REFLECTED UINT32_C(0x82f63b78)
#define SLICES 8

typedef uint32_t crc_fn(uint32_t state, const unsigned char *p, size_t len);

/* fixed after setup() */
static uint32_t slice_table[SLICES][256];
static crc_fn *best;
static const char *best_name;
static pthread_once_t setup_once = PTHREAD_ONCE_INIT;

static uint64_t load_le64(const unsigned char *p)
{
    uint64_t n;
    memcpy(&n, p, sizeof n);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    n = __builtin_bswap64(n);
#endif
    return n;
}

static uint32_t portable(uint32_t state, const unsigned char *p, size_t len)
{
    for (; len >= SLICES; p += SLICES, len -= SLICES) {
        uint64_t n = load_le64(p) ^ state;
        state = 0;
        for (int i = 0; i < SLICES; i++)
            state ^= slice_table[SLICES - 1 - i][n >> 8 * i & 255];
    }
    for (; len; p++, len--)
        state = state >> 8 ^ slice_table[0][(state ^ *p) & 255];
    return state;
}

#if defined(__x86_64__)
#include <immintrin.h>
#define INSTRUCTION_NAME "sse4.2"
#define HAS_INSTRUCTION __builtin_cpu_supports("sse4.2")
__attribute__((target("sse4.2"))) static uint32_t instruction(uint32_t state,
                                                              const unsigned char *p, size_t len)
{
    uint64_t wide = state;
    for (; len >= 8; p += 8, len -= 8)
        wide = _mm_crc32_u64(wide, load_le64(p));
    state = (uint32_t)wide;
    for (; len; p++, len--)
        state = _mm_crc32_u8(state, *p);
    return state;
}
#elif defined(__aarch64__)
#include <arm_acle.h>
#include <sys/auxv.h>
#ifndef HWCAP_CRC32
#define HWCAP_CRC32 (1 << 7)
#endif
#define INSTRUCTION_NAME "crc"
#define HAS_INSTRUCTION (getauxval(AT_HWCAP) & HWCAP_CRC32)
__attribute__((target("+crc"))) static uint32_t instruction(uint32_t state, const unsigned char *p,
                                                            size_t len)
{
    for (; len >= 8; p += 8, len -= 8)
        state = __crc32cd(state, load_le64(p));
    for (; len; p++, len--)
        state = __crc32cb(state, *p);
    return state;
}
#endif

static void setup(void)
{
    for (unsigned i = 0; i < 256; i++) {
        uint32_t crc = i;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? POLY_REFLECTED : 0);
        slice_table[0][i] = crc;
    }
    for (int slice = 1; slice < SLICES; slice++)
        for (int i = 0; i < 256; i++) {
            uint32_t before = slice_table[slice - 1][i];
            slice_table[slice][i] = before >> 8 ^ slice_table[0][before & 255];
        }
    best = portable;
    best_name = "portable";
#ifdef HAS_INSTRUCTION
    if (HAS_INSTRUCTION) {
        best = instruction;
        best_name = INSTRUCTION_NAME;
    }
#endif
}

uint32_t crc32c_update(uint32_t crc, const void *bytes, size_t len)
{
    pthread_once(&setup_once, setup);
    return ~best(~crc, bytes, len);
}

uint32_t crc32c_update_portable(uint32_t crc, const void *bytes, size_t len)
{
    pthread_once(&setup_once, setup);
    return ~portable(~crc, bytes, len);
}

const char *crc32c_method(void)
{
    pthread_once(&setup_once, setup);
    return best_name;
}

uint32_t crc32c_combine(uint32_t crc_a, uint32_t crc_b, uint64_t len_b)
{
    static const struct crc_field field = {.poly = POLY_REFLECTED, .width = 32};
    return (uint32_t)crc_combine(&field, crc_a, crc_b, len_b);
}
