// Multiply weights in GGUF blocks by rows rounded to bytes.
//
// Weights are unpacked, 256 inputs of sixteen outputs at a time, into a buffer in the innermost cache, and from there one kernel
// serves all formats; or they are multiplied directly (direct.h). Sums within a group of 16 or 32 inputs are integers and have no
// rounding order. The groups are added from first to last, by the same instructions for every number of rows, so a row's bits do
// not depend on the rows beside it.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "blocks.h"
#include "direct.h"
#include "dot.h"
#include "part.h"
#include "rounding.h"

namespace foretoken {

// Add `blocks` blocks of weights times R rows from `above` on; FETCHING: use `prefetch`.
template <int R, int GROUP, int GROUPS, bool MINIMUMS, Codes CODES, bool FETCHING>
void multiply_unit(const uint8_t*, const Unpacked& weights, int blocks, const Rows& rows, int above, int unit, Prefetch prefetch, Floats* results) {
    constexpr bool WIDE = CODES == Codes::WIDE, CORRECTED = CODES == Codes::CENTRED || (WIDE && !WIDE_IS_SIGNED);
    constexpr bool PAIRED = MINIMUMS && GROUPS > 1;
    constexpr int BLOCK = GROUP * GROUPS, SUMS = PAIRED ? GROUPS / 2 : GROUPS;
    const size_t first = (size_t(unit) * UNIT / BLOCK) * rows.count + above;
    const int8_t* codes = rows.codes + first * BLOCK;
    const float* steps = rows.steps + first;
    const int32_t* sums = rows.sums + first * SUMS;
    const auto* quad = weights.codes;
    const Floats *scale = weights.scales, *minimum = weights.minimums;
    Floats result[R];
    FORETOKEN_UNROLL
    for (int r = 0; r < R; ++r) result[r] = results[r];
    for (int block = 0; block < blocks; ++block) {
        Floats part[R];
        FORETOKEN_UNROLL
        for (int r = 0; r < R; ++r) part[r] = Floats{};
        for (int group = 0; group < GROUPS; ++group) {
            Dots sum[R];
            FORETOKEN_UNROLL
            for (int r = 0; r < R; ++r) sum[r] = dots(CORRECTED ? sums[r * SUMS + group] : 0);
            FORETOKEN_UNROLL
            for (int q = 0; q < GROUP / QUAD; ++q) {
                const Quads<WIDE> four = quads<WIDE>(*quad++);
                if constexpr (FETCHING) {
                    fetch(prefetch.from);
                    prefetch.from += prefetch.bytes;
                }
                FORETOKEN_UNROLL
                for (int r = 0; r < R; ++r) sum[r] = dot<WIDE>(sum[r], four, codes + r * BLOCK + group * GROUP + q * QUAD);
            }
            FORETOKEN_UNROLL
            for (int r = 0; r < R; ++r) part[r] = fused(as_floats(sum[r]), *scale, part[r]);
            ++scale;
            if constexpr (MINIMUMS && !PAIRED) {
                FORETOKEN_UNROLL
                for (int r = 0; r < R; ++r) part[r] = fused(*minimum, all(std::bit_cast<float>(sums[r])), part[r]);
                ++minimum;
            }
        }
        if constexpr (PAIRED) add_minimums<R, SUMS>(weights.pairs, weights.least, sums, part);
        FORETOKEN_UNROLL
        for (int r = 0; r < R; ++r) result[r] = fused(part[r], all(steps[r]), result[r]);
        codes += size_t(rows.count) * BLOCK;
        steps += rows.count;
        sums += size_t(rows.count) * SUMS;
    }
    FORETOKEN_UNROLL
    for (int r = 0; r < R; ++r) results[r] = result[r];
}

template <int GROUP, int GROUPS, bool MINIMUMS, Codes CODES>
Kernel kernel_for(int rows, bool fetching) {
    if (rows == DOT_ROWS && !fetching) return multiply_unit<DOT_ROWS, GROUP, GROUPS, MINIMUMS, CODES, false>;
    return with_count<DOT_ROWS>(rows, [](auto count) -> Kernel { return multiply_unit<count, GROUP, GROUPS, MINIMUMS, CODES, true>; });
}

// Return the kernel of a format for at most DOT_ROWS rows. Most kernels of a prompt are not `fetching`: their weights are in the
// cache already.
inline Kernel kernel_for(const Format& format, int rows, bool fetching) {
    if (format.inputs == UNIT) {
        if (format.group == 32) return format.minimums ? kernel_for<32, 8, true, Codes::UNSIGNED>(rows, fetching) : kernel_for<32, 8, false, Codes::WIDE>(rows, fetching);
        return format.minimums ? kernel_for<16, 16, true, Codes::UNSIGNED>(rows, fetching) : kernel_for<16, 16, false, Codes::CENTRED>(rows, fetching);
    }
    if (format.group == 16) return kernel_for<16, 2, false, Codes::CENTRED>(rows, fetching);
    if (format.minimums) return kernel_for<32, 1, true, Codes::UNSIGNED>(rows, fetching);
    return format.codes == Codes::WIDE ? kernel_for<32, 1, false, Codes::WIDE>(rows, fetching) : kernel_for<32, 1, false, Codes::CENTRED>(rows, fetching);
}

class BlockPanels : public Part {
public:
    BlockPanels(Kind kind, int outputs, int inputs, Image* image = nullptr)
        : Part(kind, outputs, inputs),
          format_(format_of(kind)),
          units_((inputs + UNIT - 1) / UNIT),
          unit_bytes_(bytes_of(UNIT / format_.inputs)),
          panel_bytes_((units_ - 1) * unit_bytes_ + bytes_of(blocks_of(units_ - 1))),
          weights_(panels * panel_bytes_, image),
          scales_(size_t(panels) * LANES * sizeof(float), image) {
        if (image && image->is_mapped()) return;
        std::memset(weights_.as<uint8_t>() + (panels - 1) * panel_bytes_, 0, panel_bytes_);  // it may have fewer outputs
        for (int n = 0; n < panels * LANES; ++n) scales_.as<float>()[n] = 1;
    }

    // `rows`: whole blocks, row after row. `scales`: a float per row that multiplies all of it; null: 1. Rows of another kind,
    // blocks or floats, are rounded to this one, which then has a `fold`.
    void pack(Kind from, const void* rows, const void* scales, int row, int count, int panel) override {
        if (from == kind) return copy(rows, scales, row, count, panel);
        if (!is_blocks(from))
            return round(panel, [&](int unit, Floats* to) { gather(static_cast<const float*>(rows) + size_t(row) * inputs, count, unit, to); });
        const Format& format = format_of(from);
        const size_t size = row_bytes(format);
        const auto* blocks = static_cast<const uint8_t*>(rows) + row * size;
        std::optional<BlockPanels> wide;  // of a unit: what a whole panel takes of a slab would not come back
        round(panel, [&](int unit, Floats* to) {
            if (!wide || wide->inputs != inputs_of(unit)) wide.emplace(from, LANES, inputs_of(unit));
            wide->transpose(blocks, size, count, 0);
            wide->set_scales(scales, row, count, 0);
            wide->dequantise(0, 0, to);
            blocks += size_t(wide->inputs / format.inputs) * format.bytes;
        });
    }

    void row(int n, float* to) const override {
        Floats values[UNIT];
        for (int unit = 0; unit < units_; ++unit) {
            const int width = dequantise(n / LANES, unit, values);
            for (int k = 0; k < width; ++k) *to++ = values[k][n % LANES];
        }
    }

    void multiply(std::span<const Rows> tiles, int first, int end, float* to, int stride) const override {
        const Direct direct = DIRECTLY && tiles.size() == 1 ? format_.direct : Direct::NO;
        Pass passes[MAX_STEP_ROWS];
        const int count = passes_over(tiles, direct, passes);
        const size_t part = unit_bytes_ / (direct == Direct::NO ? 1 : count);  // that a pass prefetches
        const Prefetching prefetching(part, steps_of(direct));
        Unpacked unpacked;
        for (int panel = first; panel < end; ++panel) {
            Floats results[MAX_STEP_ROWS];
            for (size_t r = 0; r < (tiles.size() - 1) * ROWS + tiles.back().count; ++r) results[r] = Floats{};
            for (int unit = 0; unit < units_; ++unit) {
                const uint8_t* from = at(panel, unit);
                if (direct == Direct::NO) unpack(panel, unit, unpacked);
                size_t fetched = 0;
                for (const Pass& pass : std::span(passes, count)) {
                    const Prefetch prefetch = fetched < unit_bytes_ ? prefetching.begin(from + PREFETCH_DISTANCE + fetched) : Prefetch{from, 0};
                    pass.kernel(from, unpacked, inputs_of(unit) / format_.row_block(), tiles[pass.tile], pass.above, unit, prefetch, results + pass.tile * ROWS + pass.above);
                    fetched += part;
                }
            }
            const int n = panel * LANES;
            for (size_t tile = 0; tile < tiles.size(); ++tile)
                for (int r = 0; r < tiles[tile].count; ++r) {
                    const size_t row = tile * ROWS + r;
                    finish(to + row * stride + n, fused(results[row], load(scales_.as<float>() + n), load(bias_.as<float>() + n)), n);
                }
        }
    }

private:
    void copy(const void* rows, const void* scales, int row, int count, int panel) {
        const size_t size = row_bytes(format_);
        transpose(static_cast<const uint8_t*>(rows) + row * size, size, count, panel);
        set_scales(scales, row, count, panel);
    }

    void set_scales(const void* scales, int row, int count, int panel) {
        if (scales) std::memcpy(scales_.as<float>() + panel * LANES, static_cast<const float*>(scales) + row, count * sizeof(float));
    }

    size_t row_bytes(const Format& format) const { return size_t(inputs / format.inputs) * format.bytes; }

    // Round the floats of sixteen outputs that `read(unit, to)` writes.
    template <class Read>
    void round(int panel, Read read) {
        Floats wide[UNIT];
        for (int unit = 0; unit < units_; ++unit) {
            read(unit, wide);
            uint8_t* words = at(panel, unit);
            const int blocks = blocks_of(unit);
            uint8_t* rest = words + size_t(blocks) * format_.words * 4 * LANES;
            for (int block = 0; block < blocks; ++block, words += format_.words * 4 * LANES, rest += format_.rest * LANES)
                round_block(wide + block * ROUNDED_INPUTS, format_, words, rest);
        }
    }

    void gather(const float* rows, int count, int unit, Floats* to) const {
        for (int k = 0; k < inputs_of(unit); ++k)
            for (int lane = 0; lane < LANES; ++lane) to[k][lane] = lane < count ? rows[size_t(lane) * inputs + unit * UNIT + k] : 0;
    }

    // Dequantise a unit; return the number of its inputs.
    int dequantise(int panel, int unit, Floats* to) const {
        Unpacked unpacked;
        unpack(panel, unit, unpacked);
        const int width = inputs_of(unit);
        const Floats factor = load(scales_.as<float>() + panel * LANES);
        const bool is_signed = format_.codes == Codes::WIDE && WIDE_IS_SIGNED;
        const Floats centre = all(is_signed ? 0.0f : float(format_.centre));
        for (int quad = 0; quad < width / QUAD; ++quad) {
            const int group = quad * QUAD / format_.group;
            const Floats scale = unpacked.scales[group];
            Unsigned four;
            std::memcpy(&four, unpacked.codes[quad], sizeof four);
            for (int k = 0; k < QUAD; ++k) {
                const Floats code = is_signed ? unpacking::signed_byte(four, k) : unpacking::byte(four, k);
                Floats value = scale * (code - centre);
                if (format_.minimums) value += minimum_of(unpacked, group);
                *to++ = value * factor;
            }
        }
        return width;
    }

    Floats minimum_of(const Unpacked& unpacked, int group) const {
        if (!format_.paired()) return unpacked.minimums[group];
        const Ints pair = unpacked.pairs[group / 4 * 2 + group % 2];
        return unpacked.least * __builtin_convertvector(group & 2 ? pair >> 16 : pair & 0xffff, Floats);
    }

    // The rows of a tile, from `above` on, that one call of a kernel multiplies.
    struct Pass {
        Kernel kernel;
        int tile, above;
    };

    // Divide the rows of all tiles into passes; return their number.
    int passes_over(std::span<const Rows> tiles, Direct direct, Pass* to) const {
        int count = 0;
        for (size_t tile = 0; tile < tiles.size(); ++tile) {
            const int rows = tiles[tile].count, passes = (rows + DOT_ROWS - 1) / DOT_ROWS, size = (rows + passes - 1) / passes;
            for (int above = 0; above < rows; above += size, ++count) {
                const int some = std::min(size, rows - above);
                to[count] = {direct == Direct::NO ? kernel_for(format_, some, count == 0) : direct_kernel_for(direct, some), int(tile), above};
            }
        }
        return count;
    }

    // Every unit begins at a cache line.
    size_t bytes_of(int blocks) const { return (size_t(blocks) * format_.bytes * LANES + 63) / 64 * 64; }
    int inputs_of(int unit) const { return std::min(UNIT, inputs - unit * UNIT); }
    int blocks_of(int unit) const { return inputs_of(unit) / format_.inputs; }

    // Return a unit: [blocks][words][16] words, then [blocks][16][rest] bytes.
    uint8_t* at(int panel, int unit) const { return weights_.as<uint8_t>() + panel * panel_bytes_ + unit * unit_bytes_; }

    const uint8_t* rest_of(int panel, int unit) const { return at(panel, unit) + size_t(blocks_of(unit)) * format_.words * 4 * LANES; }
    void unpack(int panel, int unit, Unpacked& to) const { format_.unpack(at(panel, unit), rest_of(panel, unit), blocks_of(unit), to); }

    // Store `count` rows of `size` bytes: one word of all rows after the other, so that whole cache lines are written.
    void transpose(const uint8_t* from, size_t size, int count, int panel) {
        for (int unit = 0; unit < units_; ++unit) {
            const int blocks = blocks_of(unit);
            uint8_t* to = at(panel, unit);
            uint8_t* rest = to + size_t(blocks) * format_.words * 4 * LANES;
            for (int block = 0; block < blocks; ++block, from += format_.bytes) {
                for (int word = 0; word < format_.words; ++word, to += 4 * LANES) {
                    const uint8_t* first = from + format_.words_at + word * 4;
                    for (int lane = 0; lane < count; ++lane) std::memcpy(to + 4 * lane, first + lane * size, 4);
                    if (format_.arranged >> word & 1) unpacking::put_word(format_.arrange(unpacking::Words{to}[0]), to, 0);
                }
                for (int lane = 0; lane < count; ++lane, rest += format_.rest)
                    std::memcpy(rest, from + lane * size + format_.rest_at, format_.rest);
                rest += (LANES - count) * format_.rest;
            }
        }
    }

    const Format& format_;
    const int units_;
    const size_t unit_bytes_, panel_bytes_;
    Bytes weights_, scales_;
};

}  // namespace foretoken
