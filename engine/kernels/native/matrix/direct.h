// Multiply blocks by a few rows as they are read: for few rows, writing codes to a buffer and reading them again takes longer than
// multiplying. Sums are added in the order of multiply_unit, so rows have the same bits.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "blocks.h"
#include "dot.h"
#include "rows.h"

namespace foretoken {

constexpr int PREFETCH_DISTANCE = 8192;  // bytes ahead of the unit that is multiplied
constexpr int LINE = 64;

// Fetch to the second cache: the first one has too few requests in flight to keep up with one row.
inline void fetch(const uint8_t* from) { __builtin_prefetch(from, 0, 2); }

// Where to prefetch while a unit is multiplied, and how many bytes per step: evenly, since fetches at once wait for each other.
struct Prefetch {
    const uint8_t* from;
    int bytes;

    // Those of a unit of `size` bytes in so many steps; what is too much for them is fetched now.
    static Prefetch in_steps(const uint8_t* from, size_t size, int steps) {
        for (; size > size_t(steps) * LINE; size -= LINE, from += LINE) fetch(from);
        return {from, int(size / steps)};
    }
};

// Add the unit in `words` and `rest` times R rows from `above` on.
using DirectKernel = void (*)(const uint8_t* words, const uint8_t* rest, int blocks, const Rows& rows, int above, int unit, Prefetch prefetch, Floats* results);
// Return how often the kernel of a format fetches in a unit.
constexpr int steps_of(Direct direct) {
    const bool paired = direct == Direct::NIBBLES_K || direct == Direct::FIFTHS_K || direct == Direct::FP4;
    return UNIT / QUAD / (paired ? 2 : 1);
}

// Q4_K and Q5_K.
template <bool FIFTH, int R>
void multiply_nibbles_k(const uint8_t* from, const uint8_t*, int, const Rows& rows, int above, int unit, Prefetch prefetch, Floats* results) {
    const unpacking::Words words{from};
    const unpacking::SixBits factors(words);
    const size_t first = size_t(unit) * rows.count + above;
    const int8_t* codes = rows.codes + first * UNIT;
    const int32_t* sums = rows.sums + first * 8;
    Floats part[R];
    FORETOKEN_UNROLL
    for (int r = 0; r < R; ++r) part[r] = Floats{};
    for (int pair = 0; pair < 4; ++pair, codes += 2 * 32) {
        Dots sum[2][R];
        FORETOKEN_UNROLL
        for (int r = 0; r < R; ++r) sum[0][r] = sum[1][r] = dots(0);
        FORETOKEN_UNROLL
        for (int i = 0; i < 8; ++i) {
            const auto [low, high] = unpacking::pair_of_quads<FIFTH>(words, pair, i);
            fetch(prefetch.from);
            prefetch.from += prefetch.bytes;
            FORETOKEN_UNROLL
            for (int r = 0; r < R; ++r) {
                sum[0][r] = dot<false>(sum[0][r], quads<false>(low), codes + r * UNIT + i * QUAD);
                sum[1][r] = dot<false>(sum[1][r], quads<false>(high), codes + r * UNIT + 32 + i * QUAD);
            }
        }
        FORETOKEN_UNROLL
        for (int upper = 0; upper < 2; ++upper) {
            const int group = 2 * pair + upper;
            const Floats scale = factors.scale(group), minimum = factors.minimum(group);
            FORETOKEN_UNROLL
            for (int r = 0; r < R; ++r) {
                part[r] = fused(as_floats(sum[upper][r]), scale, part[r]);
                part[r] = fused(minimum, all(std::bit_cast<float>(sums[r * 8 + group])), part[r]);
            }
        }
    }
    FORETOKEN_UNROLL
    for (int r = 0; r < R; ++r) results[r] = fused(part[r], all(rows.steps[first + r]), results[r]);
}

// Add a quarter of half a unit of Q6_K, two groups, to the sums of a block.
template <int R, int QUARTER>
inline void multiply_quarter(unpacking::Words words, const Floats& factor, const int8_t* codes, const int32_t* sums, int half, Prefetch& prefetch, Floats* part) {
    FORETOKEN_UNROLL
    for (int upper = 0; upper < 2; ++upper) {
        const int group = half * 8 + QUARTER * 2 + upper;
        Dots sum[R];
        FORETOKEN_UNROLL
        for (int r = 0; r < R; ++r) sum[r] = dots(sums[r * 16 + group]);
        FORETOKEN_UNROLL
        for (int k = 0; k < 4; ++k) {
            const Unsigned quad = unpacking::Q6_K::quad<QUARTER>(words, half, upper * 4 + k);
            fetch(prefetch.from);
            prefetch.from += prefetch.bytes;
            FORETOKEN_UNROLL
            for (int r = 0; r < R; ++r) sum[r] = dot<false>(sum[r], quads<false>(quad), codes + r * UNIT + group * 16 + k * QUAD);
        }
        const Floats scale = unpacking::Q6_K::scale(words, factor, group);
        FORETOKEN_UNROLL
        for (int r = 0; r < R; ++r) part[r] = fused(as_floats(sum[r]), scale, part[r]);
    }
}

template <int R>
void multiply_six_k(const uint8_t* from, const uint8_t* rest, int, const Rows& rows, int above, int unit, Prefetch prefetch, Floats* results) {
    const unpacking::Words words{from};
    const Floats factor = unpacking::half(rest);
    const size_t first = size_t(unit) * rows.count + above;
    const int8_t* codes = rows.codes + first * UNIT;
    const int32_t* sums = rows.sums + first * 16;
    Floats part[R];
    FORETOKEN_UNROLL
    for (int r = 0; r < R; ++r) part[r] = Floats{};
    for (int half = 0; half < 2; ++half) {
        multiply_quarter<R, 0>(words, factor, codes, sums, half, prefetch, part);
        multiply_quarter<R, 1>(words, factor, codes, sums, half, prefetch, part);
        multiply_quarter<R, 2>(words, factor, codes, sums, half, prefetch, part);
        multiply_quarter<R, 3>(words, factor, codes, sums, half, prefetch, part);
    }
    FORETOKEN_UNROLL
    for (int r = 0; r < R; ++r) results[r] = fused(part[r], all(rows.steps[first + r]), results[r]);
}

// Blocks of 32 with a scale of their own: MXFP4 or, with BYTES, Q8_0.
template <bool BYTES, int R>
void multiply_blocks(const uint8_t* from, const uint8_t* rest, int blocks, const Rows& rows, int above, int unit, Prefetch prefetch, Floats* results) {
    constexpr int WORDS = BYTES ? 8 : 4;
    const size_t first = size_t(unit) * (UNIT / 32) * rows.count + above;
    const int8_t* codes = rows.codes + first * 32;
    Floats result[R];
    FORETOKEN_UNROLL
    for (int r = 0; r < R; ++r) result[r] = results[r];
    for (int block = 0; block < blocks; ++block, codes += size_t(rows.count) * 32) {
        const unpacking::Words words{from + size_t(block) * WORDS * sizeof(Unsigned)};
        const size_t row = first + size_t(block) * rows.count;
        Dots sum[R];
        FORETOKEN_UNROLL
        for (int r = 0; r < R; ++r) sum[r] = dots(!BYTES || !WIDE_IS_SIGNED ? rows.sums[row + r] : 0);
        FORETOKEN_UNROLL
        for (int i = 0; i < WORDS; ++i) {
            const Unsigned word = words[i];
            fetch(prefetch.from);
            prefetch.from += prefetch.bytes;
            if constexpr (BYTES) {
                const Unsigned four = word ^ unpacking::FLIPPED;
                FORETOKEN_UNROLL
                for (int r = 0; r < R; ++r) sum[r] = dot<true>(sum[r], quads<true>(four), codes + r * 32 + i * QUAD);
            } else {
                const Unsigned low = lookup(unpacking::FP4_CODE, word & unpacking::LOW), high = lookup(unpacking::FP4_CODE, word >> 4 & unpacking::LOW);
                FORETOKEN_UNROLL
                for (int r = 0; r < R; ++r) {
                    sum[r] = dot<false>(sum[r], quads<false>(low), codes + r * 32 + i * QUAD);
                    sum[r] = dot<false>(sum[r], quads<false>(high), codes + r * 32 + 16 + i * QUAD);
                }
            }
        }
        const Floats scale = BYTES ? unpacking::half(rest + size_t(block) * 2 * LANES) : unpacking::MXFP4::scale(rest + size_t(block) * LANES);
        FORETOKEN_UNROLL
        for (int r = 0; r < R; ++r) result[r] = fused(fused(as_floats(sum[r]), scale, Floats{}), all(rows.steps[row + r]), result[r]);
    }
    FORETOKEN_UNROLL
    for (int r = 0; r < R; ++r) results[r] = result[r];
}

// Return the kernel of a format for so many rows; null if codes are unpacked first.
inline DirectKernel direct_kernel_for(Direct direct, int rows) {
    switch (rows) {
#define FORETOKEN_ROWS(R) \
    case R: \
        if constexpr (DIRECTLY && R <= DOT_ROWS) switch (direct) { \
            case Direct::NO: break; \
            case Direct::NIBBLES_K: return multiply_nibbles_k<false, R>; \
            case Direct::FIFTHS_K: return multiply_nibbles_k<true, R>; \
            case Direct::SIX_K: return multiply_six_k<R>; \
            case Direct::FP4: return multiply_blocks<false, R>; \
            case Direct::BYTES: return multiply_blocks<true, R>; \
        } \
        break;
        FORETOKEN_ROWS(1) FORETOKEN_ROWS(2) FORETOKEN_ROWS(3) FORETOKEN_ROWS(4)
        FORETOKEN_ROWS(5) FORETOKEN_ROWS(6) FORETOKEN_ROWS(7) FORETOKEN_ROWS(8)
#undef FORETOKEN_ROWS
    }
    return nullptr;
}

}  // namespace foretoken
