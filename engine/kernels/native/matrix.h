// Weights in panels of sixteen outputs, and their product with 1..16 rows.
//
// A row's sum runs over the inputs from first to last, in chunks of CHUNK that are added up in order,
// whatever stands beside the row: the number of rows decides only how many sums are kept in registers
// while a weight passes by. int8 sums are integers and have no order at all.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <vector>

#ifdef __linux__
#include <sys/mman.h>
#endif

#include "vector.h"

namespace foretoken {

// Sums stay in registers only if loops over them are gone.
#define FORETOKEN_UNROLL _Pragma("GCC unroll 16")

constexpr int ROWS = FORETOKEN_MAX_ROWS;  // of one call: MAX_ROWS of engine/request.py, as build.py passes it
static_assert(ROWS == LANES, "Matrix::tiled has a case for each number of rows, and a tree's rows one group of lanes");
constexpr int CHUNK = 512;
constexpr int QUAD = 4;  // bytes that one integer instruction multiplies and adds
constexpr int GROUP = 64;  // inputs that share a scale in NF4
constexpr int LINE = 64;  // bytes that memory gives at once
constexpr int AHEAD = 2048;  // bytes

#if defined(__AVX512VNNI__)
constexpr bool HAS_INT8 = true;
#else
constexpr bool HAS_INT8 = false;
#endif

#if defined(__AVX512BF16__)
constexpr bool HAS_PAIRS = true;
#else
constexpr bool HAS_PAIRS = false;
#endif

// FP32 and BF16 take rows as they are. PAIRS are bf16 weights for rows rounded to bf16, of which processors
// multiply twice as many at once; INT8 takes rows rounded to bytes. NF4 looks weights up in a table of sixteen
// and takes rows as they are.
enum class Kind : int32_t { FP32 = 0, BF16 = 1, INT8 = 2, PAIRS = 3, NF4 = 4 };

// Inputs that lie side by side for each output; in NF4 they share a byte, the first in its lower half.
constexpr int unit(Kind kind) { return kind == Kind::INT8 ? QUAD : kind == Kind::FP32 ? 1 : 2; }

// Sums that are kept in registers at once, and rows: more rows pass in two halves, so that a weight serves several
// panels' sums while it is at hand.
#ifdef __AVX512F__
constexpr int sums(Kind kind) { return kind == Kind::INT8 || kind == Kind::NF4 ? 16 : 24; }
constexpr int together(Kind kind) { return kind == Kind::INT8 ? 8 : 12; }
#else
constexpr int sums(Kind) { return 4; }
constexpr int together(Kind) { return ROWS; }
#endif

// What so many weights take.
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

// Memory at the start of a page, in large pages where the system has them: fewer misses when streaming.
class Bytes {
public:
    explicit Bytes(size_t size) {
        constexpr size_t PAGE = size_t{1} << 21;
        size_t alignment = size < PAGE ? 4096 : PAGE;
        size = (size + alignment - 1) / alignment * alignment;
        data_ = std::aligned_alloc(alignment, size);
        if (!data_) throw std::bad_alloc();
#ifdef __linux__
        if (alignment == PAGE) madvise(data_, size, MADV_HUGEPAGE);
#endif
    }
    ~Bytes() { std::free(data_); }
    Bytes(const Bytes&) = delete;
    Bytes& operator=(const Bytes&) = delete;

    template <class T>
    T* as() const {
        return static_cast<T*>(data_);
    }

private:
    void* data_;
};

inline int rounded_up(int value, int unit) { return (value + unit - 1) / unit * unit; }

// Rows of numbers as the product reads them: sixteen inputs of each row, then the next sixteen of each.
struct Rows {
    int count;
    const float* values;   // [inputs / 16][count][16]
    const int32_t* words;  // [inputs / 16][count][4], unsigned bytes around 128, or [...][8], bf16
    const float* scales;   // [count], of the bytes
};

// Room for sixteen rows, and how they get there.
class Arranged {
public:
    explicit Arranged(int widest)
        : values_(size_t(ROWS) * rounded_up(widest, LANES)), words_(size_t(ROWS) * rounded_up(widest, LANES) / 2), scales_(ROWS) {}

    // `count` rows of `width` numbers, as `kind` reads them; INT8 and PAIRS want a multiple of sixteen.
    Rows arrange(Kind kind, const float* from, int count, int width) {
        if (kind == Kind::INT8) quantise(from, count, width);
        else if (kind == Kind::PAIRS) round(from, count, width);
        else copy(from, count, width);
        return {count, values_.data(), words_.data(), scales_.data()};
    }

private:
    void copy(const float* from, int count, int width) {
        const int whole = width / LANES * LANES;
        for (int r = 0; r < count; ++r, from += width) {
            float* to = values_.data() + size_t(r) * LANES;
            for (int k = 0; k < whole; k += LANES) store(to + size_t(k) * count, load(from + k));
            for (int k = whole; k < width; ++k) to[size_t(whole) * count + k - whole] = from[k];
        }
    }

    void round(const float* from, int count, int width) {
        for (int r = 0; r < count; ++r, from += width)
            for (int k = 0; k < width; k += LANES) {
                const Halves halves = narrow(load(from + k));
                std::memcpy(words_.data() + (size_t(k) * count + r * LANES) / 2, &halves, sizeof halves);
            }
    }

    // Each row by its own largest value, to bytes around 128; see int8.py.
    void quantise(const float* from, int count, int width) {
        for (int r = 0; r < count; ++r, from += width) {
            Floats high{};
            for (int k = 0; k < width; k += LANES) {
                Floats part = load(from + k);
                high = maximum(high, maximum(part, -part));
            }
            const float scale = 1e-30f + largest(high) * (1.0f / 127);
            scales_[r] = scale;
            for (int k = 0; k < width; k += LANES) {
                const Floats steps = load(from + k) / all(scale) + all(128.5f);
                typedef uint8_t Bytes16 __attribute__((vector_size(LANES)));
                const auto bytes = __builtin_convertvector(__builtin_convertvector(steps, Ints), Bytes16);
                std::memcpy(words_.data() + (size_t(k) * count + r * LANES) / QUAD, &bytes, sizeof bytes);
            }
        }
    }

    std::vector<float> values_;
    std::vector<int32_t> words_;
    std::vector<float> scales_;
};

struct Range {
    int first, end;
};

// The part of `count` things that falls to one of `threads`.
inline Range share(int count, int thread, int threads) {
    return {int(int64_t(count) * thread / threads), int(int64_t(count) * (thread + 1) / threads)};
}

class Matrix {
public:
    Matrix(Kind kind, int outputs, int inputs)
        : kind(kind),
          outputs(outputs),
          inputs(inputs),
          panels((outputs + LANES - 1) / LANES),
          depth(rounded_up(inputs, unit(kind))),
          weights_(bytes_of(kind, size_t(panels) * depth * LANES)),
          scales_(size_t(panels) * LANES * (kind == Kind::NF4 ? inputs / GROUP * sizeof(uint16_t) : sizeof(float))),
          sums_(size_t(panels) * LANES * sizeof(int32_t)),
          bias_(size_t(panels) * LANES * sizeof(float)) {
        std::memset(weights_.as<char>(), 0, bytes_of(kind, size_t(panels) * depth * LANES));
        if (kind == Kind::NF4) std::memset(scales_.as<char>(), 0, size_t(panels) * LANES * (inputs / GROUP) * sizeof(uint16_t));
        for (int n = 0; n < panels * LANES; ++n) {
            if (kind != Kind::NF4) scales_.as<float>()[n] = 1;
            sums_.as<int32_t>()[n] = 0;
            bias_.as<float>()[n] = 0;
        }
    }

    // Takes over outputs first .. first + count - 1 from rows of `inputs` numbers. `scales`: for INT8 a float
    // a row; for NF4, whose rows are bytes of two numbers, the first in the upper half, a bf16 a group.
    void pack(const void* rows, const void* scales, int first, int count) {
        for (int row = 0; row < count; ++row) {
            int n = first + row;
            size_t start = (size_t(n / LANES) * depth) * LANES;
            int lane = n % LANES;
            if (kind == Kind::INT8) {
                auto from = static_cast<const int8_t*>(rows) + size_t(row) * inputs;
                auto to = weights_.as<int8_t>() + start;
                int32_t sum = 0;
                for (int k = 0; k < inputs; ++k) {
                    to[place(k, lane)] = from[k];
                    sum += from[k];
                }
                sums_.as<int32_t>()[n] = sum;
                scales_.as<float>()[n] = static_cast<const float*>(scales)[row];
            } else if (kind == Kind::NF4) {
                auto from = static_cast<const uint8_t*>(rows) + size_t(row) * inputs / 2;
                auto to = weights_.as<uint8_t>() + start / 2;
                for (int k = 0; k < inputs / 2; ++k) to[size_t(k) * LANES + lane] = uint8_t(from[k] << 4 | from[k] >> 4);
                const int groups = inputs / GROUP;
                auto peaks = static_cast<const uint16_t*>(scales) + size_t(row) * groups;
                for (int g = 0; g < groups; ++g) *peak(n / LANES, g, lane) = peaks[g];
            } else if (kind == Kind::FP32) {
                auto from = static_cast<const float*>(rows) + size_t(row) * inputs;
                auto to = weights_.as<float>() + start;
                for (int k = 0; k < inputs; ++k) to[place(k, lane)] = from[k];
            } else {
                auto from = static_cast<const uint16_t*>(rows) + size_t(row) * inputs;
                auto to = weights_.as<uint16_t>() + start;
                for (int k = 0; k < inputs; ++k) to[place(k, lane)] = from[k];
            }
        }
    }

    void set_bias(const float* bias) { std::memcpy(bias_.as<float>(), bias, sizeof(float) * outputs); }

    // The weights of one output, as an embedding is looked up.
    void row(int n, float* to) const {
        size_t start = (size_t(n / LANES) * depth) * LANES;
        int lane = n % LANES;
        for (int k = 0; k < inputs; ++k) {
            const size_t at = start + place(k, lane);
            if (kind == Kind::INT8) to[k] = weights_.as<int8_t>()[at] * scales_.as<float>()[n];
            else if (kind == Kind::NF4) {
                const int both = weights_.as<uint8_t>()[start / 2 + size_t(k / 2) * LANES + lane];
                to[k] = NF4_CODE[k % 2 ? both >> 4 : both & 15] * widen(*peak(n / LANES, k / GROUP, lane));
            }
            else if (kind == Kind::FP32) to[k] = weights_.as<float>()[at];
            else to[k] = widen(weights_.as<uint16_t>()[at]);
        }
    }

    // Outputs of panels first .. end - 1 for all rows, to to[row * stride + output].
    void multiply(const Rows& rows, int first, int end, float* to, int stride) const {
        switch (kind) {
            case Kind::FP32: return tiled<Kind::FP32>(rows, first, end, to, stride);
            case Kind::BF16: return tiled<Kind::BF16>(rows, first, end, to, stride);
            case Kind::INT8: return tiled<Kind::INT8>(rows, first, end, to, stride);
            case Kind::PAIRS: return tiled<Kind::PAIRS>(rows, first, end, to, stride);
            case Kind::NF4: return tiled<Kind::NF4>(rows, first, end, to, stride);
        }
    }

    const Kind kind;
    const int outputs, inputs, panels;

private:
    // The scale, in bf16, of a group of inputs of one output.
    uint16_t* peak(int panel, int group, int lane) const {
        return scales_.as<uint16_t>() + (size_t(panel) * (inputs / GROUP) + group) * LANES + lane;
    }

    // Where input k of an output lies within its panel.
    size_t place(int k, int lane) const {
        const int side = unit(kind);
        return (size_t(k / side) * LANES + lane) * side + k % side;
    }

    template <Kind K>
    void tiled(const Rows& rows, int first, int end, float* to, int stride) const {
        switch (rows.count) {
#define FORETOKEN_ROWS(R) \
    case R: return part<K, R>(rows, first, end, to, stride);
            FORETOKEN_ROWS(1) FORETOKEN_ROWS(2) FORETOKEN_ROWS(3) FORETOKEN_ROWS(4)
            FORETOKEN_ROWS(5) FORETOKEN_ROWS(6) FORETOKEN_ROWS(7) FORETOKEN_ROWS(8)
            FORETOKEN_ROWS(9) FORETOKEN_ROWS(10) FORETOKEN_ROWS(11) FORETOKEN_ROWS(12)
            FORETOKEN_ROWS(13) FORETOKEN_ROWS(14) FORETOKEN_ROWS(15) FORETOKEN_ROWS(16)
#undef FORETOKEN_ROWS
        }
    }

    template <Kind K, int R>
    void part(const Rows& rows, int first, int end, float* to, int stride) const {
        constexpr int FIRST = R > together(K) ? (R + 1) / 2 : R;
        constexpr int P = std::clamp(sums(K) / FIRST, 1, 4);  // panels at once
        int panel = first;
        for (; panel + P <= end; panel += P) halves<K, FIRST, R - FIRST, P>(rows, panel, to, stride);
        for (; panel < end; ++panel) halves<K, FIRST, R - FIRST, 1>(rows, panel, to, stride);
    }

    template <Kind K, int FIRST, int REST, int P>
    void halves(const Rows& rows, int panel, float* to, int stride) const {
        block<K, FIRST, P>(rows, 0, panel, to, stride);
        if constexpr (REST > 0) block<K, REST, P>(rows, FIRST, panel, to, stride);
    }

    // How far behind a weight of `input` lies what to fetch while it is used: AHEAD, or, at a panel's end, where the next
    // P panels begin. From memory, several rows take no longer than one only if they never wait for a weight.
    template <Kind K, int P>
    size_t ahead(int input) const {
        const bool ends = bytes_of(K, size_t(input) * LANES) + AHEAD >= bytes_of(K, size_t(depth) * LANES);
        return AHEAD + (ends ? bytes_of(K, size_t(P - 1) * depth * LANES) : 0);
    }

    // P panels' outputs of R rows from `above` on.
    template <Kind K, int R, int P>
    void block(const Rows& rows, int above, int panel, float* to, int stride) const {
        Floats sum[R][P];
        if constexpr (K == Kind::INT8) integers<R, P>(rows, above, panel, sum);
        else if constexpr (K == Kind::NF4) codes<R, P>(rows, above, panel, sum);
        else floats<K, R, P>(rows, above, panel, sum);
        for (int p = 0; p < P; ++p) {
            int n = (panel + p) * LANES;
            Floats bias = load(bias_.as<float>() + n);
            for (int r = 0; r < R; ++r) {
                // Said here and not left to the compiler, which might fuse for one number of rows alone.
                const Floats result = K == Kind::INT8 ? fused(sum[r][p], all(rows.scales[above + r]), bias) : sum[r][p] + bias;
                finish(to + size_t(above + r) * stride + n, result, n);
            }
        }
    }

    // The last panel may hold fewer outputs than lanes.
    void finish(float* to, Floats value, int n) const {
        if (n + LANES <= outputs) return store(to, value);
        float lanes[LANES];
        store(lanes, value);
        for (int lane = 0; n + lane < outputs; ++lane) to[lane] = lanes[lane];
    }

    template <Kind K, int R, int P>
    void floats(const Rows& rows, int above, int panel, Floats (&sum)[R][P]) const {
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
            for (int block = start; block < end; block += LANES, at += rows.count * NUMBERS) {
                const int width = block + LANES <= end ? LANES : end - block;
                const size_t later = ahead<K, P>(block);
                for (int k = 0; k < width; k += SIDE) {
                    Floats weight[SIDE][P];
                    FORETOKEN_UNROLL
                    for (int p = 0; p < P; ++p) take<K, P>((size_t(panel + p) * depth + block + k) * LANES, later, p, weight);
                    FORETOKEN_UNROLL
                    for (int r = 0; r < R; ++r)
                        FORETOKEN_UNROLL
                        for (int p = 0; p < P; ++p)
                            part[r][p] = multiplied<K, P>(weight, p, at + r * NUMBERS + k * NUMBERS / LANES, part[r][p]);
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

    // The weights of the next inputs, one or two, for the sixteen outputs of panel p; fetches those `later` bytes behind.
    template <Kind K, int P>
    void take(size_t place, size_t later, int p, Floats (&weight)[unit(K)][P]) const {
        __builtin_prefetch(weights_.as<char>() + bytes_of(K, place) + later);
        if constexpr (K == Kind::BF16) {
            Ints both;
            std::memcpy(&both, weights_.as<uint16_t>() + place, sizeof both);
            weight[0][p] = std::bit_cast<Floats>(both << 16);
            weight[1][p] = std::bit_cast<Floats>(both & ~0xffff);
        } else weight[0][p] = load(reinterpret_cast<const float*>(weights_.as<char>() + bytes_of(K, place)));
    }

    // A row's next input, or two, times sixteen outputs' weights, added to `sum`, the first input first.
    template <Kind K, int P, class Number>
    static Floats multiplied(const Floats (&weight)[unit(K)][P], int p, const Number* at, Floats sum) {
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

    // A group's sum is of table entries; the scale comes once, with the sum over the groups.
    template <int R, int P>
    void codes(const Rows& rows, int above, int panel, Floats (&sum)[R][P]) const {
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
                const size_t later = ahead<Kind::NF4, P>(start);
                for (int step = 0; step < LANES; step += 2) {
                    Floats first[P], second[P];
                    FORETOKEN_UNROLL
                    for (int p = 0; p < P; ++p) {
                        const size_t place = (size_t(panel + p) * depth + start + step) * LANES / 2;
                        const uint8_t* codes = weights_.as<uint8_t>() + place;
                        if (step % (LINE * 2 / LANES) == 0) __builtin_prefetch(codes + later);
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
                const Floats scale = widen(peak(panel + p, group, 0));
                FORETOKEN_UNROLL
                for (int r = 0; r < R; ++r) sum[r][p] = fused(part[r][p], scale, sum[r][p]);
            }
        }
    }

    template <int R, int P>
    void integers(const Rows& rows, int above, int panel, Floats (&sum)[R][P]) const {
#if defined(__AVX512VNNI__)
        __m512i part[R][P];
        FORETOKEN_UNROLL
        for (int r = 0; r < R; ++r)
            FORETOKEN_UNROLL
            for (int p = 0; p < P; ++p) part[r][p] = _mm512_setzero_si512();
        constexpr int STEPS = LANES / QUAD;
        const auto* at = rows.words + above * STEPS;
        for (int block = 0; block < depth; block += LANES, at += rows.count * STEPS) {
            const size_t later = ahead<Kind::INT8, P>(block);
            for (int step = 0; step < STEPS; ++step) {
                __m512i weight[P];
                FORETOKEN_UNROLL
                for (int p = 0; p < P; ++p) {
                    const int8_t* from = weights_.as<int8_t>() + (size_t(panel + p) * depth + block + step * QUAD) * LANES;
                    weight[p] = _mm512_loadu_si512(from);
                    __builtin_prefetch(from + later);
                }
                FORETOKEN_UNROLL
                for (int r = 0; r < R; ++r) {
                    __m512i value = _mm512_set1_epi32(at[r * STEPS + step]);
                    FORETOKEN_UNROLL
                    for (int p = 0; p < P; ++p)
                        part[r][p] = _mm512_dpbusd_epi32(part[r][p], value, weight[p]);
                }
            }
        }
        FORETOKEN_UNROLL
        for (int p = 0; p < P; ++p) {
            int n = (panel + p) * LANES;
            __m512i centre = _mm512_slli_epi32(_mm512_loadu_si512(sums_.as<int32_t>() + n), 7);
            Floats scale = load(scales_.as<float>() + n);
            FORETOKEN_UNROLL
            for (int r = 0; r < R; ++r) {
                auto exact = (Floats)_mm512_cvtepi32_ps(_mm512_sub_epi32(part[r][p], centre));
                sum[r][p] = exact * scale;  // the row's own scale comes with the bias
            }
        }
#endif
    }

    const int depth;  // inputs, padded to whole pairs or quads
    Bytes weights_, scales_, sums_, bias_;
};

}  // namespace foretoken
