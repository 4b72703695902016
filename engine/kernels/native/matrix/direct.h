// Multiply blocks by a tile of rows as they are read: a store takes longer than a dot product, so codes are unpacked to a buffer
// only for several tiles. Sums are added in the order of multiply_unit, so rows have the same bits.
#pragma once

#include <algorithm>
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
};

// How `size` bytes are fetched in so many steps: what is too much for them is fetched first.
struct Prefetching {
    Prefetching(size_t size, int steps) : first(std::max(0, int(size) - steps * LINE) / LINE * LINE), bytes((int(size) - first) / steps) {}
    Prefetch begin(const uint8_t* from) const {
        for (int line = 0; line < first; line += LINE) fetch(from + line);
        return {from + first, bytes};
    }
    const int first, bytes;
};

// Add `blocks` blocks of a unit times some rows from `above` on. The unit is in `from`, or in `unpacked`.
using Kernel = void (*)(const uint8_t* from, const Unpacked& unpacked, int blocks, const Rows& rows, int above, int unit, Prefetch prefetch, Floats* results);

// Add a block's minimums times R rows. The products are integers: half as many multiplications as with floats.
template <int R, int PAIRS>
inline void add_minimums(const Ints* pairs, Floats least, const int32_t* sums, Floats* part) {
    Ints sum[R];
    FORETOKEN_UNROLL
    for (int r = 0; r < R; ++r) sum[r] = Ints{};
    FORETOKEN_UNROLL
    for (int pair = 0; pair < PAIRS; ++pair)
        FORETOKEN_UNROLL
        for (int r = 0; r < R; ++r) sum[r] = dot_pairs(sum[r], pairs[pair], sums[r * PAIRS + pair]);
    FORETOKEN_UNROLL
    for (int r = 0; r < R; ++r) part[r] = fused(__builtin_convertvector(sum[r], Floats), least, part[r]);
}

// Return how often the kernel of a format fetches in a unit: at each word or, where that holds two quads, at each pair.
constexpr int steps_of(Direct direct) { return UNIT / QUAD / (direct == Direct::NO || direct == Direct::SIX_K || direct == Direct::BYTES ? 1 : 2); }

// Q4_K and Q5_K.
template <bool FIFTH, int R>
void multiply_nibbles_k(const uint8_t* from, const Unpacked&, int, const Rows& rows, int above, int unit, Prefetch prefetch, Floats* results) {
    const unpacking::Words words{from};
    const unpacking::SixBits factors(words);
    const size_t first = size_t(unit) * rows.count + above;
    const int8_t* codes = rows.codes + first * UNIT;
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
            const Floats scale = factors.scale(2 * pair + upper);
            FORETOKEN_UNROLL
            for (int r = 0; r < R; ++r) part[r] = fused(as_floats(sum[upper][r]), scale, part[r]);
        }
    }
    const Ints pairs[] = {factors.pair(0), factors.pair(1), factors.pair(2), factors.pair(3)};
    add_minimums<R, 4>(pairs, factors.least, rows.sums + first * 4, part);
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
void multiply_six_k(const uint8_t* from, const Unpacked&, int, const Rows& rows, int above, int unit, Prefetch prefetch, Floats* results) {
    const unpacking::Words words{from};
    const Floats factor = unpacking::half(from + unpacking::Q6_K::WORDS * sizeof(Unsigned));
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

// Blocks of 32 with a scale of their own.
template <class Kind, int R>
void multiply_blocks(const uint8_t* from, const Unpacked&, int blocks, const Rows& rows, int above, int unit, Prefetch prefetch, Floats* results) {
    constexpr bool WIDE = Kind::DIRECT == Direct::BYTES || Kind::DIRECT == Direct::LOOKED_UP;
    const uint8_t* rest = from + size_t(blocks) * Kind::WORDS * sizeof(Unsigned);
    const size_t first = size_t(unit) * (UNIT / 32) * rows.count + above;
    const int8_t* codes = rows.codes + first * 32;
    Floats result[R];
    FORETOKEN_UNROLL
    for (int r = 0; r < R; ++r) result[r] = results[r];
    for (int block = 0; block < blocks; ++block, codes += size_t(rows.count) * 32) {
        const unpacking::Words words{from + size_t(block) * Kind::WORDS * sizeof(Unsigned)};
        const size_t row = first + size_t(block) * rows.count;
        Dots sum[R];
        FORETOKEN_UNROLL
        for (int r = 0; r < R; ++r) sum[r] = dots(!WIDE || !WIDE_IS_SIGNED ? rows.sums[row + r] : 0);
        FORETOKEN_UNROLL
        for (int i = 0; i < 4; ++i) {
            const auto [low, high] = Kind::pair(words, i);
            for (int word = 0; word < steps_of(Kind::DIRECT) / 32; ++word) {
                fetch(prefetch.from);
                prefetch.from += prefetch.bytes;
            }
            FORETOKEN_UNROLL
            for (int r = 0; r < R; ++r) {
                sum[r] = dot<WIDE>(sum[r], quads<WIDE>(low), codes + r * 32 + i * QUAD);
                sum[r] = dot<WIDE>(sum[r], quads<WIDE>(high), codes + r * 32 + 16 + i * QUAD);
            }
        }
        const Floats scale = Kind::scale(rest + size_t(block) * Kind::REST * LANES);
        FORETOKEN_UNROLL
        for (int r = 0; r < R; ++r) result[r] = fused(fused(as_floats(sum[r]), scale, Floats{}), all(rows.steps[row + r]), result[r]);
    }
    FORETOKEN_UNROLL
    for (int r = 0; r < R; ++r) results[r] = result[r];
}

// Return the kernel of a format for R rows; null if codes are unpacked first.
template <int R>
Kernel direct_kernel(Direct direct) {
    if constexpr (DIRECTLY) switch (direct) {
        case Direct::NO: break;
        case Direct::NIBBLES_K: return multiply_nibbles_k<false, R>;
        case Direct::FIFTHS_K: return multiply_nibbles_k<true, R>;
        case Direct::SIX_K: return multiply_six_k<R>;
        case Direct::NIBBLES: return multiply_blocks<unpacking::Q4_0, R>;
        case Direct::FIFTHS: return multiply_blocks<unpacking::Q5_0, R>;
        case Direct::LOOKED_UP: return multiply_blocks<unpacking::IQ4_NL, R>;
        case Direct::FP4: return multiply_blocks<unpacking::MXFP4, R>;
        case Direct::BYTES: return multiply_blocks<unpacking::Q8_0, R>;
    }
    return nullptr;
}

inline Kernel direct_kernel_for(Direct direct, int rows) {
    return with_count<DOT_ROWS>(rows, [&](auto count) { return direct_kernel<count>(direct); });
}

}  // namespace foretoken
