// Four unsigned bytes times four signed ones, added up, for sixteen outputs at once: the one thing of which every kind of
// processor has instructions of its own. All give the same integers.
//
// `Dots` are sixteen sums, `Quads` what is multiplied, made ready for several rows.
#pragma once

#include <cstdint>
#include <cstring>

#include "vector.h"

namespace foretoken {

constexpr int QUAD = 4;  // bytes that one integer instruction multiplies and adds

#if defined(__AVX512VNNI__)

constexpr bool WIDE_IS_SIGNED = false;  // whether codes of all eight bits are multiplied as signed bytes
constexpr int DOT_ROWS = 8;             // rows whose sums stay in registers

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
    // Compilers would load and spread the numbers by an instruction more.
    asm("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(sum) : "v"(codes), "m"(*reinterpret_cast<const int32_t*>(numbers)));
    return sum;
}

inline Floats floats(Dots sum) { return __builtin_convertvector((Ints)sum, Floats); }

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

inline Floats floats(Dots sum) { return __builtin_convertvector(sum, Floats); }

#endif

}  // namespace foretoken
