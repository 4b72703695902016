// Vectors of sixteen floats, by the compiler's vector extensions: one register with AVX-512, two with AVX2, four with NEON.
// Operations are elementwise, so a lane's bits never depend on its neighbours.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace foretoken {

// Accumulators stay in registers only if loops over them are unrolled.
#define FORETOKEN_UNROLL _Pragma("GCC unroll 64")

constexpr int LANES = 16;

typedef float Floats __attribute__((vector_size(4 * LANES)));
typedef int32_t Ints __attribute__((vector_size(4 * LANES)));
typedef uint32_t Unsigned __attribute__((vector_size(4 * LANES)));
typedef uint16_t Halves __attribute__((vector_size(2 * LANES)));
typedef uint8_t Bytes16 __attribute__((vector_size(LANES)));
typedef int8_t SignedBytes16 __attribute__((vector_size(LANES)));

inline Floats load(const float* from) {
    Floats value;
    std::memcpy(&value, from, sizeof value);
    return value;
}

inline void store(float* to, Floats value) { std::memcpy(to, &value, sizeof value); }

inline Floats all(float value) { return value - Floats{}; }

inline Ints all(int32_t value) { return value - Ints{}; }

// bf16 is the upper half of a float.
inline Floats widen(const uint16_t* from) {
#ifdef __AVX512BW__
    // One instruction instead of two: a permutation of words, with zeros in the lower ones.
    constexpr Unsigned places = {0, 1 << 16, 2 << 16, 3 << 16, 4 << 16, 5 << 16, 6 << 16, 7 << 16, 8 << 16, 9 << 16, 10 << 16, 11 << 16, 12 << 16, 13 << 16, 14 << 16, 15 << 16};
    return (Floats)_mm512_maskz_permutexvar_epi16(0xaaaaaaaa, (__m512i)places, _mm512_castsi256_si512(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from))));
#else
    Halves halves;
    std::memcpy(&halves, from, sizeof halves);
    Ints wide = __builtin_convertvector(halves, Ints) << 16;
    return std::bit_cast<Floats>(wide);
#endif
}

inline float widen(uint16_t half) { return std::bit_cast<float>(uint32_t(half) << 16); }

inline Ints widen(const uint8_t* from) {
#ifdef __AVX512F__
    // GCC 12 converts bytes one by one if left to itself.
    return (Ints)_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
#else
    Bytes16 bytes;
    std::memcpy(&bytes, from, sizeof bytes);
    return __builtin_convertvector(bytes, Ints);
#endif
}

// Look up each lane's lower four bits in a table of sixteen.
inline Floats lookup(Floats table, Ints index) {
#ifdef __AVX512F__
    return (Floats)_mm512_permutexvar_ps((__m512i)index, (__m512)table);
#else
    Floats result;
    for (int lane = 0; lane < LANES; ++lane) result[lane] = table[index[lane] & 15];
    return result;
#endif
}

// Look up each byte of `codes`, less than sixteen, in a table of sixteen bytes.
inline Unsigned lookup(const int8_t (&table)[LANES], Unsigned codes) {
#if defined(__AVX512BW__)
    const __m512i all = _mm512_broadcast_i32x4(_mm_load_si128(reinterpret_cast<const __m128i*>(table)));
    return (Unsigned)_mm512_shuffle_epi8(all, (__m512i)codes);
#elif defined(__AVX2__)
    const __m256i all = _mm256_broadcastsi128_si256(_mm_load_si128(reinterpret_cast<const __m128i*>(table)));
    __m256i half[2];
    std::memcpy(half, &codes, sizeof half);
    for (auto& part : half) part = _mm256_shuffle_epi8(all, part);
    std::memcpy(&codes, half, sizeof half);
    return codes;
#elif defined(__aarch64__)
    const int8x16_t all = vld1q_s8(table);
    uint8x16_t part[4];
    std::memcpy(part, &codes, sizeof part);
    for (auto& bytes : part) bytes = vreinterpretq_u8_s8(vqtbl1q_s8(all, bytes));
    std::memcpy(&codes, part, sizeof part);
    return codes;
#else
    uint8_t bytes[sizeof codes];
    std::memcpy(bytes, &codes, sizeof codes);
    for (uint8_t& byte : bytes) byte = uint8_t(table[byte & 15]);
    std::memcpy(&codes, bytes, sizeof codes);
    return codes;
#endif
}

// Convert finite float16 numbers, each in the lower half of a lane. Their exponent bias is 15, a float's is 127.
inline Floats widen_halves(Unsigned halves) {
    const Floats size = std::bit_cast<Floats>(Unsigned((halves & 0x7fff) << 13)) * all(0x1p112f);
    return std::bit_cast<Floats>(Unsigned(std::bit_cast<Unsigned>(size) | (halves & 0x8000) << 16));
}

inline Floats widen_halves(const uint16_t* from) {
#if defined(__AVX512F__)
    return (Floats)_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
#else
    Halves halves;
    std::memcpy(&halves, from, sizeof halves);
    return widen_halves(__builtin_convertvector(halves, Unsigned));
#endif
}

inline float widen_half(uint16_t half) {
    const float value = std::bit_cast<float>(uint32_t(half & 0x7fff) << 13) * 0x1p112f;
    return half & 0x8000 ? -value : value;
}

inline uint16_t narrow(float value) {
    const auto bits = std::bit_cast<uint32_t>(value);
    return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

inline Halves narrow(Floats value) {
    const auto bits = std::bit_cast<Unsigned>(value);
    return __builtin_convertvector((bits + 0x7fff + ((bits >> 16) & 1)) >> 16, Halves);
}

// Return a * b + c, rounded once if the processor can: always the same way on one machine.
inline Floats fused(Floats a, Floats b, Floats c) {
#if defined(__AVX512F__)
    return (Floats)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__AVX2__) && defined(__FMA__)
    struct Halves8 {
        __m256 half[2];
    };
    const auto x = std::bit_cast<Halves8>(a), y = std::bit_cast<Halves8>(b);
    auto z = std::bit_cast<Halves8>(c);
    for (int h = 0; h < 2; ++h) z.half[h] = _mm256_fmadd_ps(x.half[h], y.half[h], z.half[h]);
    return std::bit_cast<Floats>(z);
#elif defined(__aarch64__)
    struct Quarters {
        float32x4_t part[4];
    };
    const auto x = std::bit_cast<Quarters>(a), y = std::bit_cast<Quarters>(b);
    auto z = std::bit_cast<Quarters>(c);
    for (int p = 0; p < 4; ++p) z.part[p] = vfmaq_f32(z.part[p], x.part[p], y.part[p]);
    return std::bit_cast<Floats>(z);
#elif defined(__FP_FAST_FMAF)
    for (int lane = 0; lane < LANES; ++lane) c[lane] = __builtin_fmaf(a[lane], b[lane], c[lane]);
    return c;
#else
    return a * b + c;
#endif
}

#if defined(__AVX512BF16__)
constexpr bool HAS_PAIRS = true;

// Return sixteen pairs of bf16 numbers: a lane's is of both rows.
inline Floats pairs(const uint16_t* first, const uint16_t* second) {
    constexpr Unsigned places = {16 << 16, 1 | 17 << 16, 2 | 18 << 16, 3 | 19 << 16, 4 | 20 << 16, 5 | 21 << 16, 6 | 22 << 16, 7 | 23 << 16, 8 | 24 << 16, 9 | 25 << 16, 10 | 26 << 16, 11 | 27 << 16, 12 | 28 << 16, 13 | 29 << 16, 14 | 30 << 16, 15 | 31 << 16};
    const auto low = _mm512_castsi256_si512(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(first)));
    const auto rows = _mm512_inserti64x4(low, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(second)), 1);
    return (Floats)_mm512_permutexvar_epi16((__m512i)places, rows);
}

// Return a * b + c for pairs, of which the second is added first.
inline Floats fused_pairs(Floats a, Floats b, Floats c) {
    return (Floats)_mm512_dpbf16_ps((__m512)c, (__m512bh)(__m512)a, (__m512bh)(__m512)b);
}
#else
constexpr bool HAS_PAIRS = false;
#endif

inline Floats choose(Ints mask, Floats yes, Floats no) {
    Ints bits = (mask & std::bit_cast<Ints>(yes)) | (~mask & std::bit_cast<Ints>(no));
    return std::bit_cast<Floats>(bits);
}

// Round numbers below 2^22 to the nearest integer, ties to even.
inline Ints nearest(Floats value) {
    const Floats magic = all(12582912.0f);  // 1.5 * 2^23: adding it rounds to an integer
    return std::bit_cast<Ints>(value + magic) - std::bit_cast<Ints>(magic);
}

#ifdef __AVX512F__
inline Floats maximum(Floats a, Floats b) { return (Floats)_mm512_max_ps((__m512)a, (__m512)b); }
inline Floats minimum(Floats a, Floats b) { return (Floats)_mm512_min_ps((__m512)a, (__m512)b); }
#else
inline Floats maximum(Floats a, Floats b) { return choose(a > b, a, b); }
inline Floats minimum(Floats a, Floats b) { return choose(a < b, a, b); }
#endif

// Add the lanes in a fixed order.
inline float total(Floats value) {
    float lanes[LANES];
    store(lanes, value);
    for (int width = LANES / 2; width > 0; width /= 2)
        for (int lane = 0; lane < width; ++lane) lanes[lane] += lanes[lane + width];
    return lanes[0];
}

// Add the lanes; integer sums have no rounding order.
inline int32_t total(Ints value) {
    value += __builtin_shufflevector(value, value, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7);
    value += __builtin_shufflevector(value, value, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11);
    value += __builtin_shufflevector(value, value, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13);
    return value[0] + value[1];
}

inline float largest(Floats value) {
    value = maximum(value, __builtin_shufflevector(value, value, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7));
    value = maximum(value, __builtin_shufflevector(value, value, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11));
    value = maximum(value, __builtin_shufflevector(value, value, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13));
    return value[1] > value[0] ? value[1] : value[0];
}

// Return e^x within 2 units in the last place; 0 below -87, and for -infinity. Argument reduction as in Cephes' expf:
// x = n ln 2 + r, a polynomial for e^r, and n added to the exponent.
inline Floats exponential(Floats x) {
    const Floats magic = all(12582912.0f);  // 1.5 * 2^23: adding it rounds to an integer
    Ints low = x < all(-87.0f);
    x = choose(x > all(88.0f), all(88.0f), choose(low, all(-87.0f), x));
    Floats shifted = fused(x, all(1.44269504f), magic);
    Floats n = shifted - magic;
    Floats r = fused(n, all(-0.693359375f), x);
    r = fused(n, all(2.12194440e-4f), r);
    Floats p = all(1.9875691500e-4f);
    p = fused(p, r, all(1.3981999507e-3f));
    p = fused(p, r, all(8.3334519073e-3f));
    p = fused(p, r, all(4.1665795894e-2f));
    p = fused(p, r, all(1.6666665459e-1f));
    p = fused(p, r, all(5.0000001201e-1f));
    p = fused(p, r * r, r + all(1.0f));
    Ints bits = std::bit_cast<Ints>(p) + (std::bit_cast<Ints>(shifted) << 23);
    return choose(low, Floats{}, std::bit_cast<Floats>(bits));
}

// Return tanh x = 1 - 2 / (e^2x + 1).
inline Floats hyperbolic_tangent(Floats x) {
    return all(1.0f) - all(2.0f) / (exponential(x + x) + all(1.0f));
}

}  // namespace foretoken
