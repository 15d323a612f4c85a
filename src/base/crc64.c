/* SPDX-License-Identifier: Apache-2.0 */
#include "base/crc64.h"

#include "base/attr.h"
#include "base/crcmath.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>

/* The polynomial with its bits reversed: bit 63 is the coefficient of x^0. */
#define POLY_REFLECTED UINT64_C(0x9a6c9329ac4bc9b5)
#define SLICES 16
/* How far ahead memory is asked for. The processor's own prefetching stops at the end of each page,
 * and that of a few pages cannot keep up with folding. */
#define AHEAD_LEN 2048

typedef uint64_t crc_fn(uint64_t state, const unsigned char *p, size_t len);

static const struct crc_field field = {.poly = POLY_REFLECTED, .width = 64};
/* fixed after setup() */
static uint64_t slice_table[SLICES][256];
static uint64_t fold_16[2], fold_64[2]; /* x^(D+63), x^(D-1) mod P for D = 128 and 512 */
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

static uint64_t portable(uint64_t state, const unsigned char *p, size_t len)
{
    for (; len >= SLICES; p += SLICES, len -= SLICES) {
        uint64_t low = load_le64(p) ^ state, high = load_le64(p + 8);
        state = 0;
        for (int i = 0; i < 8; i++) {
            state ^= slice_table[15 - i][low >> 8 * i & 255];
            state ^= slice_table[7 - i][high >> 8 * i & 255];
        }
    }
    for (; len; p++, len--)
        state = state >> 8 ^ slice_table[0][(state ^ *p) & 255];
    return state;
}

/* Folding, as in Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ":
 * an accumulator of 16 bytes moves D bits forward by two multiplications; what is left at the end
 * is 16 bytes with the same remainder, which the table finishes.
 *
 *   bytes:  | a0 16B | a1 16B | a2 16B | a3 16B | next 64 B ...
 *             each a(i) is folded by 512 bits onto the same place of the next 64 bytes */
#if defined(__x86_64__)
#include <immintrin.h>
#define TARGET __attribute__((target("pclmul,sse4.1")))
typedef __m128i lane;

TARGET static inline lane lane_load(const unsigned char *p)
{
    return _mm_loadu_si128((const __m128i *)p);
}

TARGET static inline void lane_store(unsigned char *p, lane a)
{
    _mm_storeu_si128((__m128i *)p, a);
}

TARGET static inline lane lane_of(uint64_t low, uint64_t high)
{
    return _mm_set_epi64x((long long)high, (long long)low);
}

TARGET static inline lane lane_xor(lane a, lane b)
{
    return _mm_xor_si128(a, b);
}

TARGET static inline lane lane_fold(lane a, lane k)
{
    return _mm_xor_si128(_mm_clmulepi64_si128(a, k, 0x00), _mm_clmulepi64_si128(a, k, 0x11));
}

static bool has_carryless(void)
{
    return __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
}
#define CARRYLESS_NAME "pclmul"

#elif defined(__aarch64__)
#include <arm_neon.h>
#include <sys/auxv.h>
#ifndef HWCAP_PMULL
#define HWCAP_PMULL (1 << 4)
#endif
#define TARGET __attribute__((target("+crypto")))
typedef uint64x2_t lane;

TARGET static inline lane lane_load(const unsigned char *p)
{
    return vreinterpretq_u64_u8(vld1q_u8(p));
}

TARGET static inline void lane_store(unsigned char *p, lane a)
{
    vst1q_u8(p, vreinterpretq_u8_u64(a));
}

TARGET static inline lane lane_of(uint64_t low, uint64_t high)
{
    return vcombine_u64(vcreate_u64(low), vcreate_u64(high));
}

TARGET static inline lane lane_xor(lane a, lane b)
{
    return veorq_u64(a, b);
}

TARGET static inline lane lane_fold(lane a, lane k)
{
    poly128_t low = vmull_p64((poly64_t)vgetq_lane_u64(a, 0), (poly64_t)vgetq_lane_u64(k, 0));
    poly128_t high = vmull_p64((poly64_t)vgetq_lane_u64(a, 1), (poly64_t)vgetq_lane_u64(k, 1));
    return veorq_u64(vreinterpretq_u64_p128(low), vreinterpretq_u64_p128(high));
}

static bool has_carryless(void)
{
    return getauxval(AT_HWCAP) & HWCAP_PMULL;
}
#define CARRYLESS_NAME "pmull"
#endif

#ifdef CARRYLESS_NAME
TARGET static uint64_t carryless(uint64_t state, const unsigned char *p, size_t len)
{
    if (len < 128)
        return portable(state, p, len);
    lane by_64 = lane_of(fold_64[0], fold_64[1]), by_16 = lane_of(fold_16[0], fold_16[1]);
    lane a0 = lane_xor(lane_load(p), lane_of(state, 0)), a1 = lane_load(p + 16);
    lane a2 = lane_load(p + 32), a3 = lane_load(p + 48);
    for (p += 64, len -= 64; len >= 64; p += 64, len -= 64) {
        __builtin_prefetch(p + AHEAD_LEN); /* past the end it does nothing */
        a0 = lane_xor(lane_fold(a0, by_64), lane_load(p));
        a1 = lane_xor(lane_fold(a1, by_64), lane_load(p + 16));
        a2 = lane_xor(lane_fold(a2, by_64), lane_load(p + 32));
        a3 = lane_xor(lane_fold(a3, by_64), lane_load(p + 48));
    }
    a1 = lane_xor(lane_fold(a0, by_16), a1);
    a2 = lane_xor(lane_fold(a1, by_16), a2);
    a3 = lane_xor(lane_fold(a2, by_16), a3);
    for (; len >= 16; p += 16, len -= 16)
        a3 = lane_xor(lane_fold(a3, by_16), lane_load(p));
    unsigned char rest[16];
    lane_store(rest, a3);
    return portable(portable(0, rest, sizeof rest), p, len);
}
#endif

static void setup(void)
{
    for (unsigned i = 0; i < 256; i++) {
        uint64_t crc = i;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? POLY_REFLECTED : 0);
        slice_table[0][i] = crc;
    }
    for (int slice = 1; slice < SLICES; slice++)
        for (int i = 0; i < 256; i++) {
            uint64_t before = slice_table[slice - 1][i];
            slice_table[slice][i] = before >> 8 ^ slice_table[0][before & 255];
        }
    /* A carry-less product of two reflected numbers is off by one bit, hence the - 1. */
    fold_16[0] = crc_power_of_x(&field, 128 + 64 - 1);
    fold_16[1] = crc_power_of_x(&field, 128 - 1);
    fold_64[0] = crc_power_of_x(&field, 512 + 64 - 1);
    fold_64[1] = crc_power_of_x(&field, 512 - 1);
    best = portable;
    best_name = "portable";
#ifdef CARRYLESS_NAME
    if (has_carryless()) {
        best = carryless;
        best_name = CARRYLESS_NAME;
    }
#endif
}

uint64_t crc64_update(uint64_t crc, const void *bytes, size_t len)
{
    pthread_once(&setup_once, setup);
    return ~best(~crc, bytes, len);
}

uint64_t crc64_update_portable(uint64_t crc, const void *bytes, size_t len)
{
    pthread_once(&setup_once, setup);
    return ~portable(~crc, bytes, len);
}

const char *crc64_method(void)
{
    pthread_once(&setup_once, setup);
    return best_name;
}

uint64_t crc64_combine(uint64_t crc_a, uint64_t crc_b, uint64_t len_b)
{
    return crc_combine(&field, crc_a, crc_b, len_b);
}
