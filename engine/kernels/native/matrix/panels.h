// Multiply weights in panels of sixteen outputs by 1..16 rows.
//
// A row's sum runs over the inputs from first to last, in chunks of CHUNK that are added in order, whatever rows are beside it: the
// number of rows decides only how many sums are held in registers while a weight is there. int8 sums are integers and have no
// rounding order.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>

#include "dot.h"
#include "part.h"
#include "../vector.h"

namespace foretoken {

constexpr int CHUNK = 512;
constexpr int GROUP = 64;             // inputs that share a scale in NF4
constexpr int CACHE_LINE = 64;        // bytes
constexpr int PREFETCH_BYTES = 2048;  // ahead of the weight in use
constexpr int CACHED_PANELS = 4;      // that all tiles are multiplied by while a cache holds them

// Return how many inputs lie side by side for each output; in NF4 they share a byte, the first in its lower half.
constexpr int unit(Kind kind) { return kind == Kind::INT8 ? QUAD : kind == Kind::FP32 || kind == Kind::FP16 ? 1 : 2; }

// Return how many sums, and how many rows, are held in registers at once. More rows take several passes, so that each row's input
// serves several panels.
#ifdef __AVX512F__
constexpr int max_sums(Kind kind) { return kind == Kind::INT8 || kind == Kind::NF4 ? 16 : 24; }
constexpr int max_pass_rows(Kind kind) { return kind == Kind::INT8 ? DOT_ROWS : 12; }
#else
constexpr int max_sums(Kind) { return 4; }
constexpr int max_pass_rows(Kind) { return 4; }
#endif

// Return the size of `count` weights.
constexpr size_t bytes_of(Kind kind, size_t count) {
    return kind == Kind::FP32 ? count * 4 : kind == Kind::INT8 ? count : kind == Kind::NF4 ? count / 2 : count * 2;
}

// The quantiles of NF4, as in nf4.py.
constexpr float NF4_CODE[LANES] = {
    -1.0f, -0.6961928009986877f, -0.5250730514526367f, -0.39491748809814453f,
    -0.28444138169288635f, -0.18477343022823334f, -0.09105003625154495f, 0.0f,
    0.07958029955625534f, 0.16093020141124725f, 0.24611230194568634f, 0.33791524171829224f,
    0.44070982933044434f, 0.5626170039176941f, 0.7229568362236023f, 1.0f,
};

class Panels : public Part {
public:
    Panels(Kind kind, int outputs, int inputs)
        : Part(kind, outputs, inputs),
          depth(rounded_up(inputs, unit(kind))),
          weights_(bytes_of(kind, size_t(panels) * depth * LANES)),
          scales_(size_t(panels) * LANES * (kind == Kind::NF4 ? inputs / GROUP * sizeof(uint16_t) : sizeof(float))),
          sums_(size_t(panels) * LANES * sizeof(int32_t)) {
        std::memset(weights_.as<char>(), 0, bytes_of(kind, size_t(panels) * depth * LANES));
        if (kind == Kind::NF4) std::memset(scales_.as<char>(), 0, size_t(panels) * LANES * (inputs / GROUP) * sizeof(uint16_t));
        for (int n = 0; n < panels * LANES; ++n) {
            if (kind != Kind::NF4) scales_.as<float>()[n] = 1;
            sums_.as<int32_t>()[n] = 0;
        }
    }

    // `rows`: of `inputs` numbers; for NF4 bytes of two codes, the first in the upper half. `scales`: for INT8 a float per row; for
    // NF4 a bf16 per group.
    void pack(Kind, const void* rows, const void* scales, int row, int count, int panel) override {
        for (int lane = 0; lane < count; ++lane) pack_row(rows, scales, row + lane, panel * LANES + lane);
    }

    void row(int n, float* to) const override {
        const size_t start = (size_t(n / LANES) * depth) * LANES;
        const int lane = n % LANES;
        for (int k = 0; k < inputs; ++k) {
            const size_t at = start + place(k, lane);
            if (kind == Kind::INT8) to[k] = weights_.as<int8_t>()[at] * scales_.as<float>()[n];
            else if (kind == Kind::NF4) {
                const int both = weights_.as<uint8_t>()[start / 2 + size_t(k / 2) * LANES + lane];
                to[k] = NF4_CODE[k % 2 ? both >> 4 : both & 15] * widen(*group_scale(n / LANES, k / GROUP, lane));
            }
            else if (kind == Kind::FP32) to[k] = weights_.as<float>()[at];
            else if (kind == Kind::FP16) to[k] = widen_half(weights_.as<uint16_t>()[at]);
            else to[k] = widen(weights_.as<uint16_t>()[at]);
        }
    }

    void multiply(std::span<const Rows> tiles, int first, int end, float* to, int stride) const override {
        const int size = tiles.size() == 1 ? end - first : CACHED_PANELS;
        for (int panel = first; panel < end; panel += size)
            for (size_t tile = 0; tile < tiles.size(); ++tile)
                multiply(tiles[tile], panel, std::min(panel + size, end), to + tile * ROWS * stride, stride);
    }

private:
    void multiply(const Rows& rows, int first, int end, float* to, int stride) const {
        switch (kind) {
            case Kind::FP32: return multiply<Kind::FP32>(rows, first, end, to, stride);
            case Kind::BF16: return multiply<Kind::BF16>(rows, first, end, to, stride);
            case Kind::INT8: return multiply<Kind::INT8>(rows, first, end, to, stride);
            case Kind::PAIRS: return multiply<Kind::PAIRS>(rows, first, end, to, stride);
            case Kind::NF4: return multiply<Kind::NF4>(rows, first, end, to, stride);
            case Kind::FP16: return multiply<Kind::FP16>(rows, first, end, to, stride);
            case Kind::BLOCKS: return;
        }
    }

    void pack_row(const void* rows, const void* scales, int row, int n) {
        const size_t start = (size_t(n / LANES) * depth) * LANES;
        const int lane = n % LANES;
        if (kind == Kind::INT8) {
            const auto from = scatter<int8_t>(rows, row, n);
            sums_.as<int32_t>()[n] = std::accumulate(from, from + inputs, 0);
            scales_.as<float>()[n] = static_cast<const float*>(scales)[row];
        } else if (kind == Kind::NF4) {
            auto from = static_cast<const uint8_t*>(rows) + size_t(row) * inputs / 2;
            auto to = weights_.as<uint8_t>() + start / 2;
            for (int k = 0; k < inputs / 2; ++k) to[size_t(k) * LANES + lane] = uint8_t(from[k] << 4 | from[k] >> 4);
            const int groups = inputs / GROUP;
            auto group_scales = static_cast<const uint16_t*>(scales) + size_t(row) * groups;
            for (int g = 0; g < groups; ++g) *group_scale(n / LANES, g, lane) = group_scales[g];
        } else if (kind == Kind::FP32) scatter<float>(rows, row, n);
        else scatter<uint16_t>(rows, row, n);
    }

    // Copy a row to the lane of output n; return the row.
    template <class T>
    const T* scatter(const void* rows, int row, int n) {
        const auto from = static_cast<const T*>(rows) + size_t(row) * inputs;
        const auto to = weights_.as<T>() + (size_t(n / LANES) * depth) * LANES;
        for (int k = 0; k < inputs; ++k) to[place(k, n % LANES)] = from[k];
        return from;
    }

    // Return the bf16 scale of a group of inputs of one output.
    uint16_t* group_scale(int panel, int group, int lane) const {
        return scales_.as<uint16_t>() + (size_t(panel) * (inputs / GROUP) + group) * LANES + lane;
    }

    // Return the position of an output's input k within its panel.
    size_t place(int k, int lane) const {
        const int side = unit(kind);
        return (size_t(k / side) * LANES + lane) * side + k % side;
    }

    template <Kind K>
    void multiply(const Rows& rows, int first, int end, float* to, int stride) const {
        with_count<ROWS>(rows.count, [&](auto count) { multiply_rows<K, count>(rows, first, end, to, stride); });
    }

    template <Kind K, int R>
    void multiply_rows(const Rows& rows, int first, int end, float* to, int stride) const {
        constexpr int PASSES = (R + max_pass_rows(K) - 1) / max_pass_rows(K), PASS_ROWS = (R + PASSES - 1) / PASSES;
        constexpr int P = std::clamp(max_sums(K) / PASS_ROWS, 1, 4);  // panels at once
        int panel = first;
        for (; panel + P <= end; panel += P) passes<K, 0, R, PASS_ROWS, P>(rows, panel, to, stride);
        for (; panel < end; ++panel) passes<K, 0, R, PASS_ROWS, 1>(rows, panel, to, stride);
    }

    // Multiply all rows from ABOVE on, PASS_ROWS at once.
    template <Kind K, int ABOVE, int REST, int PASS_ROWS, int P>
    void passes(const Rows& rows, int panel, float* to, int stride) const {
        constexpr int R = std::min(REST, PASS_ROWS);
        pass<K, R, P>(rows, ABOVE, panel, to, stride);
        if constexpr (REST > R) passes<K, ABOVE + R, REST - R, PASS_ROWS, P>(rows, panel, to, stride);
    }

    // Return how far behind a weight of `input` to prefetch: PREFETCH_BYTES, or, at a panel's end, where the next P panels begin.
    // With weights in memory, several rows take no longer than one only if they never wait for a weight.
    template <Kind K, int P>
    size_t prefetch_distance(int input) const {
        const bool ends = bytes_of(K, size_t(input) * LANES) + PREFETCH_BYTES >= bytes_of(K, size_t(depth) * LANES);
        return PREFETCH_BYTES + (ends ? bytes_of(K, size_t(P - 1) * depth * LANES) : 0);
    }

    // Write P panels' outputs of R rows from `above` on.
    template <Kind K, int R, int P>
    void pass(const Rows& rows, int above, int panel, float* to, int stride) const {
        Floats sum[R][P];
        if constexpr (K == Kind::INT8) int8_sums<R, P>(rows, above, panel, sum);
        else if constexpr (K == Kind::NF4) nf4_sums<R, P>(rows, above, panel, sum);
        else float_sums<K, R, P>(rows, above, panel, sum);
        for (int p = 0; p < P; ++p) {
            int n = (panel + p) * LANES;
            Floats bias = load(bias_.as<float>() + n);
            for (int r = 0; r < R; ++r) {
                // Fused explicitly: the compiler might fuse for one number of rows only.
                const Floats result = K == Kind::INT8 ? fused(sum[r][p], all(rows.scales[above + r]), bias) : sum[r][p] + bias;
                finish(to + size_t(above + r) * stride + n, result, n);
            }
        }
    }

    template <Kind K, int R, int P>
    void float_sums(const Rows& rows, int above, int panel, Floats (&sum)[R][P]) const {
        constexpr int SIDE = unit(K), NUMBERS = K == Kind::PAIRS ? LANES / 2 : LANES;
        const auto* at = numbers<K>(rows) + above * NUMBERS;
        for (int r = 0; r < R; ++r)
            for (int p = 0; p < P; ++p) sum[r][p] = Floats{};
        for (int start = 0; start < depth; start += CHUNK) {
            const int end = start + CHUNK < depth ? start + CHUNK : depth;
            Floats part[R][P];
            FORETOKEN_UNROLL
            for (int r = 0; r < R; ++r)
                FORETOKEN_UNROLL
                for (int p = 0; p < P; ++p) part[r][p] = Floats{};
            for (int input = start; input < end; input += LANES, at += rows.count * NUMBERS) {
                const int width = input + LANES <= end ? LANES : end - input;
                const size_t distance = prefetch_distance<K, P>(input);
                for (int k = 0; k < width; k += SIDE) {
                    Floats weight[SIDE][P];
                    FORETOKEN_UNROLL
                    for (int p = 0; p < P; ++p) load_weights<K, P>((size_t(panel + p) * depth + input + k) * LANES, distance, p, weight);
                    FORETOKEN_UNROLL
                    for (int r = 0; r < R; ++r)
                        FORETOKEN_UNROLL
                        for (int p = 0; p < P; ++p)
                            part[r][p] = multiply_add<K, P>(weight, p, at + r * NUMBERS + k * NUMBERS / LANES, part[r][p]);
                }
            }
            FORETOKEN_UNROLL
            for (int r = 0; r < R; ++r)
                FORETOKEN_UNROLL
                for (int p = 0; p < P; ++p) sum[r][p] = sum[r][p] + part[r][p];
        }
    }

    template <Kind K>
    static auto numbers(const Rows& rows) {
        if constexpr (K == Kind::PAIRS) return rows.words;
        else return rows.values;
    }

    // Load the weights of the next one or two inputs for the sixteen outputs of panel p; prefetch those `distance` bytes behind.
    template <Kind K, int P>
    void load_weights(size_t place, size_t distance, int p, Floats (&weight)[unit(K)][P]) const {
        __builtin_prefetch(weights_.as<char>() + bytes_of(K, place) + distance);
        if constexpr (K == Kind::BF16) {
            Ints both;
            std::memcpy(&both, weights_.as<uint16_t>() + place, sizeof both);
            weight[0][p] = std::bit_cast<Floats>(both << 16);
            weight[1][p] = std::bit_cast<Floats>(both & ~0xffff);
        } else if constexpr (K == Kind::FP16) {
            weight[0][p] = widen_halves(weights_.as<uint16_t>() + place);
        } else weight[0][p] = load(reinterpret_cast<const float*>(weights_.as<char>() + bytes_of(K, place)));
    }

    // Return `sum` plus a row's next one or two inputs times sixteen outputs' weights, the first input first.
    template <Kind K, int P, class Number>
    static Floats multiply_add(const Floats (&weight)[unit(K)][P], int p, const Number* at, Floats sum) {
        if constexpr (K == Kind::PAIRS) {
#if defined(__AVX512BF16__)
            return (Floats)_mm512_dpbf16_ps((__m512)sum, (__m512bh)_mm512_castps_si512((__m512)weight[0][p]),
                                            (__m512bh)_mm512_set1_epi32(*at));
#endif
        }
        sum = fused(weight[0][p], all(float(at[0])), sum);
        if constexpr (K == Kind::BF16) sum = fused(weight[1][p], all(at[1]), sum);
        return sum;
    }

    // Sum table entries within a group; multiply by the scale once, when the groups are added.
    template <int R, int P>
    void nf4_sums(const Rows& rows, int above, int panel, Floats (&sum)[R][P]) const {
        const Floats table = load(NF4_CODE);
        const float* at = rows.values + above * LANES;
        FORETOKEN_UNROLL
        for (int r = 0; r < R; ++r)
            FORETOKEN_UNROLL
            for (int p = 0; p < P; ++p) sum[r][p] = Floats{};
        for (int group = 0; group < inputs / GROUP; ++group) {
            Floats part[R][P];
            FORETOKEN_UNROLL
            for (int r = 0; r < R; ++r)
                FORETOKEN_UNROLL
                for (int p = 0; p < P; ++p) part[r][p] = Floats{};
            for (int start = group * GROUP; start < (group + 1) * GROUP; start += LANES, at += rows.count * LANES) {
                const size_t distance = prefetch_distance<Kind::NF4, P>(start);
                for (int step = 0; step < LANES; step += 2) {
                    Floats first[P], second[P];
                    FORETOKEN_UNROLL
                    for (int p = 0; p < P; ++p) {
                        const size_t place = (size_t(panel + p) * depth + start + step) * LANES / 2;
                        const uint8_t* codes = weights_.as<uint8_t>() + place;
                        if (step % (CACHE_LINE * 2 / LANES) == 0) __builtin_prefetch(codes + distance);
                        const Ints both = widen(codes);
                        first[p] = lookup(table, both);
                        second[p] = lookup(table, both >> 4);
                    }
                    const float* number = at + step;
                    FORETOKEN_UNROLL
                    for (int r = 0; r < R; ++r)
                        FORETOKEN_UNROLL
                        for (int p = 0; p < P; ++p) part[r][p] = fused(first[p], all(number[r * LANES]), part[r][p]);
                    FORETOKEN_UNROLL
                    for (int r = 0; r < R; ++r)
                        FORETOKEN_UNROLL
                        for (int p = 0; p < P; ++p)
                            part[r][p] = fused(second[p], all(number[r * LANES + 1]), part[r][p]);
                }
            }
            FORETOKEN_UNROLL
            for (int p = 0; p < P; ++p) {
                const Floats scale = widen(group_scale(panel + p, group, 0));
                FORETOKEN_UNROLL
                for (int r = 0; r < R; ++r) sum[r][p] = fused(part[r][p], scale, sum[r][p]);
            }
        }
    }

    template <int R, int P>
    void int8_sums(const Rows& rows, int above, int panel, Floats (&sum)[R][P]) const {
        Dots part[R][P];
        FORETOKEN_UNROLL
        for (int r = 0; r < R; ++r)
            FORETOKEN_UNROLL
            for (int p = 0; p < P; ++p) part[r][p] = dots(0);
        constexpr int STEPS = LANES / QUAD;
        const auto* at = rows.words + above * STEPS;
        for (int input = 0; input < depth; input += LANES, at += rows.count * STEPS) {
            const size_t distance = prefetch_distance<Kind::INT8, P>(input);
            for (int step = 0; step < STEPS; ++step) {
                Weights weight[P];
                FORETOKEN_UNROLL
                for (int p = 0; p < P; ++p) {
                    const int8_t* from = weights_.as<int8_t>() + (size_t(panel + p) * depth + input + step * QUAD) * LANES;
                    weight[p] = quads<true>(reinterpret_cast<const uint8_t*>(from));
                    __builtin_prefetch(from + distance);
                }
                FORETOKEN_UNROLL
                for (int r = 0; r < R; ++r)
                    FORETOKEN_UNROLL
                    for (int p = 0; p < P; ++p) part[r][p] = times(part[r][p], weight[p], at + r * STEPS + step);
            }
        }
        FORETOKEN_UNROLL
        for (int p = 0; p < P; ++p) {
            const int n = (panel + p) * LANES;
            Ints centre;  // sums of the weights, to correct for the centre of unsigned rows
            std::memcpy(&centre, sums_.as<int32_t>() + n, sizeof centre);
            const Floats scale = load(scales_.as<float>() + n);
            FORETOKEN_UNROLL
            for (int r = 0; r < R; ++r) {
                // The row's scale is applied with the bias.
                if constexpr (WIDE_IS_SIGNED) sum[r][p] = as_floats(part[r][p]) * scale;
                else sum[r][p] = __builtin_convertvector((Ints)part[r][p] - centre * 128, Floats) * scale;
            }
        }
    }

    using Weights = Quads<true>;

    // Add the dot products of sixteen outputs with four bytes of a row, which are unsigned where the weights' are not.
    static Dots times(Dots sum, const Weights& weight, const int32_t* row) {
#if defined(__AVX512VNNI__)
        return _mm512_dpbusd_epi32(sum, _mm512_set1_epi32(*row), weight);  // broadcast once for all panels
#else
        return dot<true>(sum, weight, reinterpret_cast<const int8_t*>(row));
#endif
    }

    const int depth;  // inputs, padded to whole pairs or quads
    Bytes weights_, scales_, sums_;
};

}  // namespace foretoken
