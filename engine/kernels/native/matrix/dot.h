// Dot products of four bytes for sixteen outputs at once, by the instructions that each kind of processor has for them. All give
// the same integers.
//
// `Dots` are sixteen sums; `Quads` are the codes of four inputs of sixteen outputs, prepared for several rows. Codes are unsigned
// bytes below 128. WIDE codes use all eight bits, and are signed if WIDE_IS_SIGNED. Rows are signed bytes, never -128.
#pragma once

#include <cstdint>
#include <cstring>

#include "../vector.h"

namespace foretoken {

constexpr int QUAD = 4;  // bytes that one integer instruction multiplies and adds

#if defined(__AVX512VNNI__)

constexpr bool WIDE_IS_SIGNED = false;
constexpr int DOT_ROWS = 8;  // rows whose sums stay in registers

using Dots = __m512i;

template <bool WIDE>
using Quads = __m512i;

inline Dots dots(int32_t start) { return _mm512_set1_epi32(start); }

template <bool WIDE>
inline Quads<WIDE> quads(const uint8_t* codes) {
    return _mm512_load_si512(codes);
}

template <bool WIDE>
inline Dots dot(Dots sum, const Quads<WIDE>& codes, const int8_t* numbers) {
    // Compilers would need one more instruction, to load and broadcast the numbers.
    asm("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(sum) : "v"(codes), "m"(*reinterpret_cast<const int32_t*>(numbers)));
    return sum;
}

inline Floats as_floats(Dots sum) { return __builtin_convertvector((Ints)sum, Floats); }

#elif defined(__AVX2__)

constexpr bool WIDE_IS_SIGNED = true;
constexpr int DOT_ROWS = 4;

struct Dots {
    __m256i half[2];
};

// The instruction multiplies unsigned bytes: signed codes are passed as absolute values, and their signs go to the rows.
template <bool WIDE>
struct Quads {
    __m256i size[2], code[2];
};

inline Dots dots(int32_t start) { return {_mm256_set1_epi32(start), _mm256_set1_epi32(start)}; }

template <bool WIDE>
inline Quads<WIDE> quads(const uint8_t* codes) {
    Quads<WIDE> four;
    for (int h = 0; h < 2; ++h) {
        four.code[h] = _mm256_load_si256(reinterpret_cast<const __m256i*>(codes) + h);
        four.size[h] = WIDE ? _mm256_abs_epi8(four.code[h]) : four.code[h];
    }
    return four;
}

template <bool WIDE>
inline Dots dot(Dots sum, const Quads<WIDE>& four, const int8_t* numbers) {
    int32_t word;
    std::memcpy(&word, numbers, sizeof word);
    const __m256i row = _mm256_set1_epi32(word);
    for (int h = 0; h < 2; ++h) {
        const __m256i signed_row = WIDE ? _mm256_sign_epi8(row, four.code[h]) : row;
#if defined(__AVXVNNI__)
        sum.half[h] = _mm256_dpbusd_avx_epi32(sum.half[h], four.size[h], signed_row);
#else
        // Pairs fit in sixteen bits: 128 * 127 * 2 < 2^15.
        const __m256i pairs = _mm256_maddubs_epi16(four.size[h], signed_row);
        sum.half[h] = _mm256_add_epi32(sum.half[h], _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
#endif
    }
    return sum;
}

inline Floats as_floats(Dots sum) {
    const __m256 half[] = {_mm256_cvtepi32_ps(sum.half[0]), _mm256_cvtepi32_ps(sum.half[1])};
    Floats value;
    std::memcpy(&value, half, sizeof value);
    return value;
}

#elif defined(__ARM_FEATURE_DOTPROD)

constexpr bool WIDE_IS_SIGNED = true;
constexpr int DOT_ROWS = 4;

struct Dots {
    int32x4_t part[4];
};

template <bool WIDE>
struct Quads {
    int8x16_t part[4];
};

inline Dots dots(int32_t start) {
    const int32x4_t four = vdupq_n_s32(start);
    return {four, four, four, four};
}

template <bool WIDE>
inline Quads<WIDE> quads(const uint8_t* codes) {
    Quads<WIDE> four;
    for (int p = 0; p < 4; ++p) four.part[p] = vld1q_s8(reinterpret_cast<const int8_t*>(codes) + 16 * p);
    return four;
}

template <bool WIDE>
inline Dots dot(Dots sum, const Quads<WIDE>& four, const int8_t* numbers) {
    int32_t word;
    std::memcpy(&word, numbers, sizeof word);
    const int8x16_t row = vreinterpretq_s8_s32(vdupq_n_s32(word));
    for (int p = 0; p < 4; ++p) sum.part[p] = vdotq_s32(sum.part[p], four.part[p], row);
    return sum;
}

inline Floats as_floats(Dots sum) {
    float32x4_t part[4];
    for (int p = 0; p < 4; ++p) part[p] = vcvtq_f32_s32(sum.part[p]);
    Floats value;
    std::memcpy(&value, part, sizeof value);
    return value;
}

#else

constexpr bool WIDE_IS_SIGNED = true;
constexpr int DOT_ROWS = 4;

using Dots = Ints;

template <bool WIDE>
struct Quads {
    alignas(64) int8_t codes[LANES * QUAD];
};

inline Dots dots(int32_t start) { return all(start); }

template <bool WIDE>
inline Quads<WIDE> quads(const uint8_t* codes) {
    Quads<WIDE> four;
    std::memcpy(four.codes, codes, sizeof four.codes);
    return four;
}

template <bool WIDE>
inline Dots dot(Dots sum, const Quads<WIDE>& four, const int8_t* numbers) {
    for (int lane = 0; lane < LANES; ++lane)
        for (int k = 0; k < QUAD; ++k) sum[lane] += four.codes[lane * QUAD + k] * numbers[k];
    return sum;
}

inline Floats as_floats(Dots sum) { return __builtin_convertvector(sum, Floats); }

#endif

// Return `sum` plus, in each lane, the products of its two numbers of sixteen bits and the two in `numbers`.
inline Ints dot_pairs(Ints sum, Ints pairs, int32_t numbers) {
#if defined(__AVX512VNNI__)
    return (Ints)_mm512_dpwssd_epi32((__m512i)sum, (__m512i)pairs, _mm512_set1_epi32(numbers));
#elif defined(__AVX2__)
    __m256i half[2];
    std::memcpy(half, &pairs, sizeof half);
    for (auto& part : half) part = _mm256_madd_epi16(part, _mm256_set1_epi32(numbers));
    std::memcpy(&pairs, half, sizeof half);
    return sum + pairs;
#else
    return sum + (pairs << 16 >> 16) * all(int32_t(int16_t(numbers))) + (pairs >> 16) * all(numbers >> 16);
#endif
}

// The same of codes in a register.
template <bool WIDE>
inline Quads<WIDE> quads(Unsigned codes) {
    alignas(64) uint8_t bytes[sizeof codes];
    std::memcpy(bytes, &codes, sizeof codes);
    return quads<WIDE>(bytes);
}

}  // namespace foretoken
