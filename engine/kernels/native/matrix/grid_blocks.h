// Unpack GGUF blocks whose codes are indices into a grid: a table of the values that four or eight neighbouring inputs take.
//
// The grids come from the package gguf (engine/kernels/formats/blocks.py). Their values are sizes, whose signs are stored beside
// the indices; only those of IQ1 have signs of their own.
#pragma once

#include "unpacking.h"

namespace foretoken {

namespace unpacking {

// The values of each index, a byte for an input. Where there are four, the first values of all indices follow, then the second ones
// of all, and so on.
template <class Kind>
inline std::vector<uint32_t> grid;

struct Sixteen {
    Unsigned fours[4];
};

// Look up sixteen inputs by the four bytes of each lane; bit k of `ninth`, below 16, is the ninth bit of index k, in grids of 512 indices.
template <int INDICES>
inline Sixteen sixteen_of(const std::vector<uint32_t>& grid, Unsigned indices, Unsigned ninth) {
    Sixteen found;
#ifdef __AVX512VBMI__
    // A table of 128 bytes is looked up in two registers at once, for all bytes.
    const auto index = (__m512i)indices;
    const __mmask64 eighth = _mm512_movepi8_mask(index);
    const __mmask64 upper = _mm512_movepi8_mask((__m512i)((ninth << 7 | ninth << 14 | ninth << 21 | ninth << 28) & 0x80808080));
    const auto* bytes = reinterpret_cast<const uint8_t*>(grid.data() + INDICES);
    Unsigned values[4];  // of the first, second, ... input of all four indices
    FORETOKEN_UNROLL
    for (int input = 0; input < 4; ++input, bytes += INDICES) {
        const auto part = [&](int from) { return _mm512_permutex2var_epi8(_mm512_loadu_si512(bytes + from), index, _mm512_loadu_si512(bytes + from + 64)); };
        auto value = _mm512_mask_blend_epi8(eighth, part(0), part(128));
        if constexpr (INDICES == 512) value = _mm512_mask_blend_epi8(upper, value, _mm512_mask_blend_epi8(eighth, part(256), part(384)));
        values[input] = (Unsigned)value;
    }
    FORETOKEN_UNROLL
    for (int odd = 0; odd < 2; ++odd) {
        const auto pair = [&](Unsigned a, Unsigned b) {
            return odd ? (a >> 8 & 0x00ff00ff) | (b & 0xff00ff00) : (a & 0x00ff00ff) | (b << 8 & 0xff00ff00);
        };
        const Unsigned first = pair(values[0], values[1]), second = pair(values[2], values[3]);
        found.fours[odd] = (first & 0xffff) | second << 16;
        found.fours[2 + odd] = first >> 16 | (second & 0xffff0000);
    }
#else
    for (int k = 0; k < 4; ++k)
        for (int lane = 0; lane < LANES; ++lane)
            found.fours[k][lane] = grid[(indices[lane] >> (8 * k) & 0xff) | (INDICES == 512 ? (ninth[lane] >> k & 1) << 8 : 0)];
#endif
    return found;
}

struct Eight {
    Unsigned fours[2];
};

// Look up eight inputs by each lane's index.
inline Eight eight_of(const std::vector<uint32_t>& grid, Unsigned index) {
    Eight found;
#ifdef __AVX512F__
    const auto eights = [&](__m256i half) { return _mm512_i32gather_epi64(half, grid.data(), 8); };
    const auto low = (Unsigned)eights(_mm512_castsi512_si256((__m512i)index)), high = (Unsigned)eights(_mm512_extracti64x4_epi64((__m512i)index, 1));
    found.fours[0] = __builtin_shufflevector(low, high, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    found.fours[1] = __builtin_shufflevector(low, high, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
#else
    for (int lane = 0; lane < LANES; ++lane)
        for (int q = 0; q < 2; ++q) found.fours[q][lane] = grid[2 * index[lane] + q];
#endif
    return found;
}

// Negate the bytes of a quad that have a sign, by signs in the order of `by_quads`. No byte is 0, so no sum carries.
inline Unsigned negated(Unsigned sizes, Unsigned signs, int quad) {
    const Unsigned bits = signs >> quad & 0x01010101;
    return (sizes ^ ((bits << 8) - bits)) + bits;
}

// Return signed bytes as codes around 64.
inline Unsigned around_64(Unsigned bytes) { return (bytes ^ 0x80808080) - 0x40404040; }

// Seven signs of each eight inputs, of which an even number is negative, and four bits of a scale. The bits of the scale stand
// where the eighth signs would.
struct EvenSigns {
    static Unsigned arrange(Unsigned word) {
        Unsigned bits{};
        for (int eight = 0; eight < 4; ++eight) bits |= ((word >> (7 * eight) & 127) | (word >> (28 + eight) & 1) << 7) << (8 * eight);
        return by_quads(bits);
    }
    static Unsigned signs(Unsigned word) {
        const Unsigned known = word & 0x55ffffff;
        Unsigned odd = known ^ known >> 16;
        odd ^= odd >> 8;
        odd ^= odd >> 1;
        return known | (odd & 0x55) << 25;
    }
    static Floats scale(Unsigned word) {
        return number((word >> 25 & 1) | (word >> 26 & 2) | (word >> 27 & 4) | (word >> 28 & 8)) + all(0.5f);
    }
};

// Eight pairs of words: four indices of eight inputs, then signs and scale.
struct IQ2_XXS {
    static constexpr auto GRID = &grid<IQ2_XXS>;
    static constexpr uint64_t ARRANGED = 0xaaaa;
    static constexpr auto arrange = EvenSigns::arrange;
    static void unpack(Words words, const uint8_t* rest, const Target& to) {
        const Floats scale = half(rest);
        for (int g = 0; g < 8; ++g) {
            const Unsigned indices = words[2 * g], word = words[2 * g + 1], signs = EvenSigns::signs(word);
            FORETOKEN_UNROLL
            for (int eight = 0; eight < 4; ++eight) {
                const Eight sizes = eight_of(*GRID, indices >> (8 * eight) & 0xff);
                for (int q = 0; q < 2; ++q) to.put(8 * g + 2 * eight + q, negated(sizes.fours[q], signs, 2 * eight + q) ^ FLIPPED);
            }
            to.scales[g] = scale * EvenSigns::scale(word) * all(0.25f);
        }
    }
};

// Sixteen words of two indices of nine bits, each with seven signs; then four bits of a scale for each word.
struct IQ2_XS {
    static constexpr auto GRID = &grid<IQ2_XS>;
    static void unpack(Words words, const uint8_t* rest, const Target& to) {
        const Floats scale = half(rest);
        for (int g = 0; g < 16; ++g) {
            const Unsigned word = words[g];
            FORETOKEN_UNROLL
            for (int eight = 0; eight < 2; ++eight) {
                const Unsigned index = word >> (16 * eight) & 511, seven = word >> (16 * eight + 9) & 127;
                Unsigned odd = seven ^ seven >> 4;
                odd ^= odd >> 2;
                odd ^= odd >> 1;
                const Unsigned signs = seven | (odd & 1) << 7;
                const Eight sizes = eight_of(*GRID, index);
                for (int q = 0; q < 2; ++q) {
                    const Unsigned four = signs >> (4 * q) & 15;
                    to.put(4 * g + 2 * eight + q, around_64(negated(sizes.fours[q], four | four << 7 | four << 14 | four << 21, 0)));
                }
            }
            to.scales[g] = scale * (number(words[16 + g / 8] >> (g % 8 * 4) & 15) + all(0.5f)) * all(0.25f);
        }
    }
};

// 32 bytes of indices, 32 of signs, two more bits of each index, and a scale of four bits for each sixteen inputs.
struct IQ2_S {
    static constexpr auto GRID = &grid<IQ2_S>;
    static constexpr uint64_t ARRANGED = 0xff << 8;
    static constexpr auto arrange = by_quads;
    static void unpack(Words words, const uint8_t* rest, const Target& to) {
        const Floats scale = half(rest);
        for (int g = 0; g < 8; ++g) {
            const Unsigned low = words[g], signs = words[8 + g], high = words[16 + g / 4] >> (g % 4 * 8);
            FORETOKEN_UNROLL
            for (int eight = 0; eight < 4; ++eight) {
                const Eight sizes = eight_of(*GRID, (low >> (8 * eight) & 0xff) | (high >> (2 * eight) & 3) << 8);
                for (int q = 0; q < 2; ++q) to.put(8 * g + 2 * eight + q, around_64(negated(sizes.fours[q], signs, 2 * eight + q)));
            }
            for (int part = 0; part < 2; ++part)
                to.scales[2 * g + part] = scale * (number(words[18 + g / 4] >> (g % 4 * 8 + part * 4) & 15) + all(0.5f)) * all(0.25f);
        }
    }
};

// 64 bytes of indices of four inputs, then eight words of signs and scale.
struct IQ3_XXS {
    static constexpr auto GRID = &grid<IQ3_XXS>;
    static constexpr uint64_t ARRANGED = 0xff << 16;
    static constexpr auto arrange = EvenSigns::arrange;
    static void unpack(Words words, const uint8_t* rest, const Target& to) {
        const Floats scale = half(rest);
        for (int g = 0; g < 8; ++g) {
            const Unsigned word = words[16 + g], signs = EvenSigns::signs(word);
            FORETOKEN_UNROLL
            for (int half = 0; half < 2; ++half) {
                const Sixteen sizes = sixteen_of<256>(*GRID, words[2 * g + half], Unsigned{});
                for (int q = 0; q < 4; ++q) to.put(8 * g + 4 * half + q, negated(sizes.fours[q], signs, 4 * half + q) ^ FLIPPED);
            }
            to.scales[g] = scale * EvenSigns::scale(word) * all(0.5f);
        }
    }
};

// 64 bytes of indices, a ninth bit of each, 32 bytes of signs, and a scale of four bits for each 32 inputs.
struct IQ3_S {
    static constexpr auto GRID = &grid<IQ3_S>;
    static constexpr uint64_t ARRANGED = 0xff << 18;
    static constexpr auto arrange = by_quads;
    static void unpack(Words words, const uint8_t* rest, const Target& to) {
        const Floats scale = half(rest);
        for (int g = 0; g < 8; ++g) {
            const Unsigned high = words[16 + g / 4] >> (g % 4 * 8), signs = words[18 + g];
            FORETOKEN_UNROLL
            for (int half = 0; half < 2; ++half) {
                const Sixteen sizes = sixteen_of<512>(*GRID, words[2 * g + half], high >> (4 * half) & 15);
                for (int q = 0; q < 4; ++q) to.put(8 * g + 4 * half + q, negated(sizes.fours[q], signs, 4 * half + q) ^ FLIPPED);
            }
            to.scales[g] = scale * number((words[26] >> (4 * g) & 15) * 2 + 1);
        }
    }
};

// The grid holds 8 (v + 1) for values v of -1, 0 or 1, and an eighth is added to or subtracted from all eight: codes around 9.
inline Eight shifted(const std::vector<uint32_t>& grid, Unsigned index, Unsigned subtracted) {
    Eight codes = eight_of(grid, index);
    for (Unsigned& four : codes.fours) four += (1 - subtracted) * 0x02020202;
    return codes;
}

// 32 bytes of indices of eight inputs; then for each 32 inputs three more bits of each index, three of the scale, and the shift.
struct IQ1_S {
    static constexpr auto GRID = &grid<IQ1_S>;
    static void unpack(Words words, const uint8_t* rest, const Target& to) {
        const Floats scale = half(rest);
        for (int g = 0; g < 8; ++g) {
            const Unsigned low = words[g], high = words[8 + g / 2] >> (g % 2 * 16);
            FORETOKEN_UNROLL
            for (int eight = 0; eight < 4; ++eight) {
                const Eight codes = shifted(*GRID, (low >> (8 * eight) & 0xff) | (high >> (3 * eight) & 7) << 8, high >> 15 & 1);
                for (int q = 0; q < 2; ++q) to.put(8 * g + 2 * eight + q, widened(codes.fours[q], 9));
            }
            to.scales[g] = scale * number((high >> 12 & 7) * 2 + 1) * all(0.125f);
        }
    }
};

// As IQ1_S, but a byte holds the upper bits and the shifts of two indices, and sixteen inputs share a scale. The highest four bits
// of each sixteen bits of scales are the factor of all.
struct IQ1_M {
    static constexpr auto GRID = IQ1_S::GRID;
    static void unpack(Words words, const uint8_t*, const Target& to) {
        const Unsigned one = words[12], two = words[13];
        const Floats scale = widen_halves((one >> 12 & 0xf) | (one >> 24 & 0xf0) | (two >> 4 & 0xf00) | (two >> 16 & 0xf000));
        for (int g = 0; g < 16; ++g) {
            const Unsigned low = words[g / 2] >> (g % 2 * 16), high = words[8 + g / 4] >> (g % 4 * 8);
            FORETOKEN_UNROLL
            for (int eight = 0; eight < 2; ++eight) {
                const Eight codes = shifted(*GRID, (low >> (8 * eight) & 0xff) | (high >> (4 * eight) & 7) << 8, high >> (4 * eight + 3) & 1);
                for (int q = 0; q < 2; ++q) to.put(4 * g + 2 * eight + q, codes.fours[q]);
            }
            const Unsigned scales = g < 8 ? one : two;
            to.scales[g] = scale * number((scales >> (g / 4 % 2 * 16 + g % 4 * 3) & 7) * 2 + 1) * all(0.125f);
        }
    }
};

}  // namespace unpacking
}  // namespace foretoken
