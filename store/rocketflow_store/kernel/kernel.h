/* Big-endian numbers, CRC-32 and Java's hash of text: what every part of the kernel needs. */
#ifndef ROCKETFLOW_KERNEL_H
#define ROCKETFLOW_KERNEL_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the kernel is written for little-endian machines"
#endif

/* Magic codes of records: MessageVersion.java. */
#define MAGIC_V1 0xDAA320A7u
#define MAGIC_V2 0xDAA320ABu

static inline uint32_t get16(const uint8_t *at) { return (uint32_t)at[0] << 8 | at[1]; }

static inline uint32_t get32(const uint8_t *at) {
    uint32_t value;
    memcpy(&value, at, sizeof value);
    return __builtin_bswap32(value);
}

static inline uint64_t get64(const uint8_t *at) {
    uint64_t value;
    memcpy(&value, at, sizeof value);
    return __builtin_bswap64(value);
}

static inline void put16(uint8_t *at, uint32_t value) {
    at[0] = (uint8_t)(value >> 8);
    at[1] = (uint8_t)value;
}

static inline void put32(uint8_t *at, uint32_t value) {
    value = __builtin_bswap32(value);
    memcpy(at, &value, sizeof value);
}

static inline void put64(uint8_t *at, uint64_t value) {
    value = __builtin_bswap64(value);
    memcpy(at, &value, sizeof value);
}

/* CRC-32 (IEEE 802.3, reflected): java.util.zip.CRC32. Tables of eight bytes at a time. */

static uint32_t crc_tables[8][256];
static int crc_folds;  /* 0: by tables; 1: by carry-less products; 2: by four at a time */

static void crc_prepare(void) {
    for (uint32_t octet = 0; octet < 256; octet++) {
        uint32_t crc = octet;
        for (int bit = 0; bit < 8; bit++) crc = (crc >> 1) ^ (0xEDB88320u & (0u - (crc & 1u)));
        crc_tables[0][octet] = crc;
    }
    for (int more = 1; more < 8; more++)
        for (uint32_t octet = 0; octet < 256; octet++) {
            uint32_t crc = crc_tables[more - 1][octet];
            crc_tables[more][octet] = (crc >> 8) ^ crc_tables[0][crc & 255u];
        }
#if defined(__x86_64__)
    __builtin_cpu_init();
    crc_folds = __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
    if (crc_folds && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("vpclmulqdq")) crc_folds = 2;
#endif
}

/* `crc` is the register: all ones at the start, inverted at the end. */
static inline uint32_t crc_by_tables(uint32_t crc, const uint8_t *at, size_t size) {
    for (; size >= 8; at += 8, size -= 8) {
        uint32_t low, high;
        memcpy(&low, at, 4);
        memcpy(&high, at + 4, 4);
        low ^= crc;
        crc = crc_tables[7][low & 255u] ^ crc_tables[6][low >> 8 & 255u] ^ crc_tables[5][low >> 16 & 255u] ^
              crc_tables[4][low >> 24] ^ crc_tables[3][high & 255u] ^ crc_tables[2][high >> 8 & 255u] ^
              crc_tables[1][high >> 16 & 255u] ^ crc_tables[0][high >> 24];
    }
    for (; size; at++, size--) crc = (crc >> 8) ^ crc_tables[0][(crc ^ *at) & 255u];
    return crc;
}

#if defined(__x86_64__)
#include <immintrin.h>

#define FOLDING __attribute__((target("sse4.1,pclmul")))

/* Multiply both halves of a lane by the two constants and add the product to the next 16 bytes. */
FOLDING static inline __m128i crc_fold(__m128i lane, __m128i constants, __m128i next) {
    __m128i low = _mm_clmulepi64_si128(lane, constants, 0x00);
    __m128i high = _mm_clmulepi64_si128(lane, constants, 0x11);
    return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

FOLDING static inline __m128i crc_load(const uint8_t *at) { return _mm_loadu_si128((const __m128i *)at); }

/* Byte indexes for a shuffle: read at 16 - n, they move a lane's bytes up by n, read at 16 + n, down by n. */
static const uint8_t crc_moves[48] = {
    128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 0,   1,   2,   3,   4,   5,   6,   7,
    8,   9,   10,  11,  12,  13,  14,  15,  128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128,
};

FOLDING static inline __m128i crc_moved(__m128i lane, size_t at) {
    return _mm_shuffle_epi8(lane, crc_load(crc_moves + at));
}

/* Gopal et al., "Fast CRC computation for generic polynomials using PCLMULQDQ" (Intel, 2009): constants for the
   reflected polynomial, x^(n + 32) and x^(n - 32) for a distance of n bits. */
#define BY_64 0x01c6e41596, 0x0154442bd4
#define BY_32 0x015a546366, 0x00f1da05aa
#define BY_16 0x00ccaa009e, 0x01751997d0

/* Take the first bytes, 49 to 64, so that a multiple of 16 is left; return how many. Zeros before the first byte leave a
   register of zeros as it is: the first lane begins with them, and the register is added to the four bytes after them. */
FOLDING static inline size_t crc_begin(__m128i lanes[4], uint32_t crc, const uint8_t *at, size_t size) {
    const size_t head = ((size - 1) & 15) + 1;
    const __m128i start = _mm_cvtsi32_si128((int)crc);
    lanes[0] = _mm_xor_si128(crc_moved(crc_load(at), head), crc_moved(start, head));
    lanes[1] = _mm_xor_si128(crc_load(at + head), crc_moved(start, 16 + head));
    for (int one = 2; one < 4; one++) lanes[one] = crc_load(at + head + 16 * (one - 1));
    return head + 48;
}

/* Fold the lanes, and the last bytes after them, to the register; `size` is a multiple of 16. */
FOLDING static inline uint32_t crc_end(__m128i lanes[4], const uint8_t *at, size_t size) {
    const __m128i by_32 = _mm_set_epi64x(BY_32), by_16 = _mm_set_epi64x(BY_16), by_8 = _mm_set_epi64x(0, 0x0163cd6124);
    const __m128i barrett = _mm_set_epi64x(0x01f7011641, 0x01db710641);
    const __m128i low_words = _mm_set_epi32(0, -1, 0, -1);
    __m128i lane = crc_fold(crc_fold(lanes[0], by_16, lanes[1]), by_32, crc_fold(lanes[2], by_16, lanes[3]));
    for (; size; at += 16, size -= 16) lane = crc_fold(lane, by_16, crc_load(at));
    lane = _mm_xor_si128(_mm_srli_si128(lane, 8), _mm_clmulepi64_si128(lane, by_16, 0x10));
    lane = _mm_xor_si128(_mm_srli_si128(lane, 4), _mm_clmulepi64_si128(_mm_and_si128(lane, low_words), by_8, 0x00));
    __m128i quotient = _mm_clmulepi64_si128(_mm_and_si128(lane, low_words), barrett, 0x10);
    __m128i product = _mm_clmulepi64_si128(_mm_and_si128(quotient, low_words), barrett, 0x00);
    return (uint32_t)_mm_extract_epi32(_mm_xor_si128(lane, product), 1);
}

/* `size` is at least 64, here and below. */
FOLDING static uint32_t crc_by_folding(uint32_t crc, const uint8_t *at, size_t size) {
    const __m128i by_64 = _mm_set_epi64x(BY_64);
    __m128i lanes[4];
    const size_t begun = crc_begin(lanes, crc, at, size);
    for (at += begun, size -= begun; size >= 64; at += 64, size -= 64)
        for (int one = 0; one < 4; one++) lanes[one] = crc_fold(lanes[one], by_64, crc_load(at + 16 * one));
    return crc_end(lanes, at, size);
}

/* The four lanes in one register. */
__attribute__((target("avx512f,vpclmulqdq,sse4.1,pclmul")))
static uint32_t crc_by_wide_folding(uint32_t crc, const uint8_t *at, size_t size) {
    const __m512i by_64 = _mm512_broadcast_i32x4(_mm_set_epi64x(BY_64));
    __m128i lanes[4];
    const size_t begun = crc_begin(lanes, crc, at, size);
    __m512i all = _mm512_castsi128_si512(lanes[0]);
    all = _mm512_inserti32x4(all, lanes[1], 1);
    all = _mm512_inserti32x4(all, lanes[2], 2);
    all = _mm512_inserti32x4(all, lanes[3], 3);
    for (at += begun, size -= begun; size >= 64; at += 64, size -= 64) {
        __m512i low = _mm512_clmulepi64_epi128(all, by_64, 0x00), high = _mm512_clmulepi64_epi128(all, by_64, 0x11);
        all = _mm512_ternarylogic_epi64(low, high, _mm512_loadu_si512(at), 0x96);  /* the sum of the three */
    }
    lanes[0] = _mm512_castsi512_si128(all);
    lanes[1] = _mm512_extracti32x4_epi32(all, 1);
    lanes[2] = _mm512_extracti32x4_epi32(all, 2);
    lanes[3] = _mm512_extracti32x4_epi32(all, 3);
    return crc_end(lanes, at, size);
}
#endif

/* `folds` is at most crc_folds. */
static inline uint32_t crc32_by(int folds, const uint8_t *at, size_t size) {
#if defined(__x86_64__)
    if (folds > 1 && size >= 128) return ~crc_by_wide_folding(0xFFFFFFFFu, at, size);
    if (folds && size >= 64) return ~crc_by_folding(0xFFFFFFFFu, at, size);
#endif
    return ~crc_by_tables(0xFFFFFFFFu, at, size);
}

static inline uint32_t crc32_of(const uint8_t *at, size_t size) { return crc32_by(crc_folds, at, size); }

/* String.hashCode of ASCII text that follows text with the hash `before`. */
static inline uint32_t java_hash(uint32_t before, const uint8_t *at, size_t size) {
    for (; size >= 4; at += 4, size -= 4)  /* the products of the four do not wait for each other */
        before = before * 923521u + at[0] * 29791u + at[1] * 961u + at[2] * 31u + at[3];
    for (; size; at++, size--) before = before * 31u + *at;
    return before;
}

#endif
