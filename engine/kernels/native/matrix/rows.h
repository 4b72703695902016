// Activations arranged as matrices read them, and the kinds of weights, which decide how.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
#include <vector>

#include "blocks.h"
#include "../memory.h"
#include "../vector.h"

namespace foretoken {

constexpr int ROWS = FORETOKEN_MAX_ROWS;  // of a tile: MAX_ROWS of engine/values, as build.py passes it
static_assert(ROWS == LANES, "matrices have a case for each number of rows, and a tree's rows are one group of lanes");
constexpr int MAX_TILES = 4;                     // that one stream of the weights serves
constexpr int MAX_STEP_ROWS = MAX_TILES * ROWS;  // of one call
constexpr int MAX_PARTS = 4;                     // of a matrix

// FP32, FP16, BF16 and NF4 weights take rows as they are; NF4 weights are looked up in a table of sixteen. PAIRS are bf16
// weights for rows rounded to bf16, of which processors multiply twice as many at once. INT8 takes rows rounded to bytes. The
// formats of blocks.h follow from BLOCKS on; they take rows rounded to bytes in blocks.
enum class Kind : int32_t { FP32 = 0, BF16 = 1, INT8 = 2, PAIRS = 3, NF4 = 4, FP16 = 5, BLOCKS = 16 };

constexpr bool is_blocks(Kind kind) { return kind >= Kind::BLOCKS; }
inline const Format& format_of(Kind kind) { return FORMATS[int(kind) - int(Kind::BLOCKS)]; }

// A tile as one part of a matrix reads it: sixteen inputs of each row, then the next sixteen of each; blocks likewise.
struct Rows {
    int count;
    const float* values;   // [inputs / 16][count][16]
    const int32_t* words;  // [inputs / 16][count][4]: bytes around 128, or around 0 if WIDE_IS_SIGNED; or [...][8]: bf16
    const float* scales;   // [count], of the bytes
    const int8_t* codes;   // [inputs / block][count][block]
    const float* steps;    // [inputs / block][count], the scales of the codes
    const int32_t* sums;   // [inputs / block][count][Format::sums()], of the codes; see Blocks::group_sums
};

// Call use(number), whose value is `count` of 1 .. MOST as a constant, so that loops over it are unrolled; return what it does.
template <int MOST, class Use>
auto with_count(int count, const Use& use) {
    if constexpr (MOST > 1)
        if (count < MOST) return with_count<MOST - 1>(count, use);
    return use(std::integral_constant<int, MOST>{});
}

// The largest absolute value of `count` numbers, a multiple of sixteen.
inline float absmax(const float* from, int count) {
    Floats high{};
    for (int k = 0; k < count; k += LANES) {
        const Floats part = load(from + k);
        high = maximum(high, maximum(part, -part));
    }
    return largest(high);
}

// Make room for so many numbers, whose old ones are not needed.
template <class T>
void make_room(std::vector<T>& buffer, size_t numbers) {
    if (buffer.size() < numbers) buffer = std::vector<T>(numbers);
}

// Buffers for a tile, and how its rows are arranged there. Each is made when it is first needed, since most models need one or two.
class ArrangedTile {
public:
    // Arrange `count` rows of `width` numbers for each of `parts`; write the views to `to[part * MAX_TILES]`.
    void arrange(const std::vector<Kind>& parts, const float* from, int count, int width, Rows* to) {
        bool done[2] = {};
        for (size_t part = 0; part < parts.size(); ++part, to += MAX_TILES) {
            const Kind kind = parts[part];
            *to = {.count = count};
            if (is_blocks(kind)) {
                const Format& format = format_of(kind);
                const bool large = format.row_block() == UNIT;
                Blocks& blocks = blocks_[large];
                if (!done[large]) blocks.quantise(from, count, width, format.row_block());
                done[large] = true;
                to->codes = blocks.codes.data();
                to->steps = blocks.steps.data();
                to->sums = blocks.group_sums(format, count * width / LANES, sums_[part]);
                continue;
            }
            if (part == 0 || parts[part - 1] != kind) {
                if (kind == Kind::INT8) quantise(from, count, width);
                else if (kind == Kind::PAIRS) round(from, count, width);
                else copy(from, count, width);
            }
            to->values = values_.data(), to->words = words_.data(), to->scales = scales_;
        }
    }

private:
    // Rows rounded to bytes, each block by its largest absolute value.
    struct Blocks {
        void quantise(const float* from, int count, int width, int block) {
            const size_t room = size_t(ROWS) * width;
            make_room(codes, room), make_room(steps, room / block), make_room(sums, room / LANES);
            for (int r = 0; r < count; ++r, from += width)
                for (int b = 0; b < width / block; ++b) {
                    const float* numbers = from + size_t(b) * block;
                    const float peak = absmax(numbers, block);
                    const Floats inverse = all(peak > 1e-30f ? 127 / peak : 0);
                    const size_t place = size_t(b) * count + r;
                    steps[place] = peak / 127;
                    for (int k = 0; k < block; k += LANES) {
                        const Ints rounded = nearest(load(numbers + k) * inverse);
                        const auto bytes = __builtin_convertvector(rounded, SignedBytes16);
                        std::memcpy(codes.data() + place * block + k, &bytes, sizeof bytes);
                        sums[(place * block + k) / LANES] = total(rounded);
                    }
                }
        }

        // Write each group's sum of codes to `to`: a float if a block's minimum is one, two of sixteen bits if minimums are paired,
        // else the correction for the centre.
        const int32_t* group_sums(const Format& format, int count, std::vector<int32_t>& to) const {
            const int together = format.group / LANES;
            make_room(to, sums.size());
            const int groups = count / together;
            const auto sum = [&](int group) { return together == 2 ? sums[2 * group] + sums[2 * group + 1] : sums[group]; };
            if (format.paired())
                for (int pair = 0; pair < groups / 2; ++pair) {
                    const int group = pair / 2 * 4 + pair % 2;
                    to[pair] = (sum(group) & 0xffff) | sum(group + 2) << 16;
                }
            else
                for (int group = 0; group < groups; ++group)
                    to[group] = format.minimums ? std::bit_cast<int32_t>(float(sum(group))) : -format.centre * sum(group);
            return to.data();
        }

        std::vector<int8_t> codes;
        std::vector<float> steps;
        std::vector<int32_t> sums;  // of sixteen codes
    };

    void copy(const float* from, int count, int width) {
        make_room(values_, size_t(ROWS) * rounded_up(width, LANES));
        const int whole = width / LANES * LANES;
        for (int r = 0; r < count; ++r, from += width) {
            float* to = values_.data() + size_t(r) * LANES;
            for (int k = 0; k < whole; k += LANES) store(to + size_t(k) * count, load(from + k));
            for (int k = whole; k < width; ++k) to[size_t(whole) * count + k - whole] = from[k];
        }
    }

    void round(const float* from, int count, int width) {
        make_room(words_, size_t(ROWS) * width / 2);
        for (int r = 0; r < count; ++r, from += width)
            for (int k = 0; k < width; k += LANES) {
                const Halves halves = narrow(load(from + k));
                std::memcpy(words_.data() + (size_t(k) * count + r * LANES) / 2, &halves, sizeof halves);
            }
    }

    // Round each row by its largest absolute value, to bytes around 128; see int8.py.
    void quantise(const float* from, int count, int width) {
        make_room(words_, size_t(ROWS) * width / QUAD);
        for (int r = 0; r < count; ++r, from += width) {
            const float scale = 1e-30f + absmax(from, width) * (1.0f / 127);
            scales_[r] = scale;
            for (int k = 0; k < width; k += LANES) {
                const Floats steps = load(from + k) / all(scale) + all(128.5f);
                auto bytes = __builtin_convertvector(__builtin_convertvector(steps, Ints), Bytes16);
                if constexpr (WIDE_IS_SIGNED) bytes ^= 128;  // around zero
                std::memcpy(words_.data() + (size_t(k) * count + r * LANES) / QUAD, &bytes, sizeof bytes);
            }
        }
    }

    std::vector<float> values_;
    std::vector<int32_t> words_;
    float scales_[ROWS];
    Blocks blocks_[2];  // of 32 numbers, and of 256
    std::vector<int32_t> sums_[MAX_PARTS];
};

// The rows of a call in tiles, as each part of a matrix reads them.
class Arranged {
public:
    // Arrange up to MAX_STEP_ROWS rows of `width` numbers: a multiple of sixteen for INT8 and PAIRS, whole blocks for blocks. Parts
    // that are not in blocks must take rows in the same form. Valid until the next call. A tile's buffers are made when one is
    // first needed: most calls have a single tile.
    const Arranged& arrange(const std::vector<Kind>& parts, const float* from, int count, int width) {
        tiles_ = (count + ROWS - 1) / ROWS;
        for (int tile = 0, done = 0; tile < tiles_; ++tile, done += ROWS) {
            if (!buffers_[tile]) buffers_[tile] = std::make_unique<ArrangedTile>();
            buffers_[tile]->arrange(parts, from + size_t(done) * width, std::min(ROWS, count - done), width, rows_[0] + tile);
        }
        return *this;
    }

    std::span<const Rows> tiles(int part) const { return {rows_[part], size_t(tiles_)}; }

private:
    int tiles_ = 0;
    std::unique_ptr<ArrangedTile> buffers_[MAX_TILES];
    Rows rows_[MAX_PARTS][MAX_TILES];
};

}  // namespace foretoken
