// Unpack GGUF blocks whose codes are indices into a grid: a table of the values that four or eight neighbouring inputs take.
//
// The grids come from the package gguf (engine/kernels/native/library.py). Their values are sizes, whose signs are stored beside
// the indices; only those of IQ1 have signs of their own.
#pragma once

#include "unpacking.h"

namespace foretoken {

namespace unpacking {

// The values of four inputs in a word, by index. Where an index stands for eight inputs, those of the last four inputs follow
// after those of the first four of all indices.
template <class Kind>
inline std::vector<uint32_t> grid;

inline Unsigned looked_up(const uint32_t* values, Unsigned index) {
    alignas(64) uint32_t lanes[LANES];
    std::memcpy(lanes, &index, sizeof lanes);
    for (uint32_t& lane : lanes) lane = values[lane];
    std::memcpy(&index, lanes, sizeof lanes);
    return index;
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
    static uint32_t arrange(uint32_t word) {
        uint32_t bits = 0;
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
    static uint32_t arrange(int index, uint32_t word) { return index % 2 ? EvenSigns::arrange(word) : word; }
    static void unpack(Words words, const uint8_t* rest, const Target& to) {
        const uint32_t *first = GRID->data(), *second = first + GRID->size() / 2;
        const Floats scale = half(rest);
        for (int g = 0; g < 8; ++g) {
            const Unsigned indices = words[2 * g], word = words[2 * g + 1], signs = EvenSigns::signs(word);
            FORETOKEN_UNROLL
            for (int q = 0; q < 8; ++q) to.put(8 * g + q, negated(looked_up(q % 2 ? second : first, indices >> (q / 2 * 8) & 0xff), signs, q) ^ FLIPPED);
            to.scales[g] = scale * EvenSigns::scale(word) * all(0.25f);
        }
    }
};

// Sixteen words of two indices of nine bits, each with seven signs; then four bits of a scale for each word.
struct IQ2_XS {
    static constexpr auto GRID = &grid<IQ2_XS>;
    static void unpack(Words words, const uint8_t* rest, const Target& to) {
        const uint32_t *first = GRID->data(), *second = first + GRID->size() / 2;
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
                for (int q = 0; q < 2; ++q) {
                    const Unsigned four = signs >> (4 * q) & 15;
                    to.put(4 * g + 2 * eight + q, around_64(negated(looked_up(q ? second : first, index), four | four << 7 | four << 14 | four << 21, 0)));
                }
            }
            to.scales[g] = scale * (number(words[16 + g / 8] >> (g % 8 * 4) & 15) + all(0.5f)) * all(0.25f);
        }
    }
};

// 32 bytes of indices, 32 of signs, two more bits of each index, and a scale of four bits for each sixteen inputs.
struct IQ2_S {
    static constexpr auto GRID = &grid<IQ2_S>;
    static uint32_t arrange(int index, uint32_t word) { return index / 8 == 1 ? by_quads(word) : word; }
    static void unpack(Words words, const uint8_t* rest, const Target& to) {
        const uint32_t *first = GRID->data(), *second = first + GRID->size() / 2;
        const Floats scale = half(rest);
        for (int g = 0; g < 8; ++g) {
            const Unsigned low = words[g], signs = words[8 + g], high = words[16 + g / 4] >> (g % 4 * 8);
            FORETOKEN_UNROLL
            for (int q = 0; q < 8; ++q) {
                const Unsigned index = (low >> (q / 2 * 8) & 0xff) | (high >> (q / 2 * 2) & 3) << 8;
                to.put(8 * g + q, around_64(negated(looked_up(q % 2 ? second : first, index), signs, q)));
            }
            for (int part = 0; part < 2; ++part)
                to.scales[2 * g + part] = scale * (number(words[18 + g / 4] >> (g % 4 * 8 + part * 4) & 15) + all(0.5f)) * all(0.25f);
        }
    }
};

// 64 bytes of indices of four inputs, then eight words of signs and scale.
struct IQ3_XXS {
    static constexpr auto GRID = &grid<IQ3_XXS>;
    static uint32_t arrange(int index, uint32_t word) { return index < 16 ? word : EvenSigns::arrange(word); }
    static void unpack(Words words, const uint8_t* rest, const Target& to) {
        const Floats scale = half(rest);
        for (int g = 0; g < 8; ++g) {
            const Unsigned word = words[16 + g], signs = EvenSigns::signs(word);
            FORETOKEN_UNROLL
            for (int q = 0; q < 8; ++q)
                to.put(8 * g + q, negated(looked_up(GRID->data(), words[2 * g + q / 4] >> (q % 4 * 8) & 0xff), signs, q) ^ FLIPPED);
            to.scales[g] = scale * EvenSigns::scale(word) * all(0.5f);
        }
    }
};

// 64 bytes of indices, a ninth bit of each, 32 bytes of signs, and a scale of four bits for each 32 inputs.
struct IQ3_S {
    static constexpr auto GRID = &grid<IQ3_S>;
    static uint32_t arrange(int index, uint32_t word) { return index >= 18 && index < 26 ? by_quads(word) : word; }
    static void unpack(Words words, const uint8_t* rest, const Target& to) {
        const Floats scale = half(rest);
        for (int g = 0; g < 8; ++g) {
            const Unsigned high = words[16 + g / 4] >> (g % 4 * 8), signs = words[18 + g];
            FORETOKEN_UNROLL
            for (int q = 0; q < 8; ++q) {
                const Unsigned index = (words[2 * g + q / 4] >> (q % 4 * 8) & 0xff) | (high >> q & 1) << 8;
                to.put(8 * g + q, negated(looked_up(GRID->data(), index), signs, q) ^ FLIPPED);
            }
            to.scales[g] = scale * number((words[26] >> (4 * g) & 15) * 2 + 1);
        }
    }
};

// The grid holds 8 (v + 1) for values v of -1, 0 or 1, and an eighth is added to or subtracted from all eight: codes around 9.
inline void shifted(const std::vector<uint32_t>& grid, Unsigned index, Unsigned subtracted, Unsigned (&fours)[2]) {
    const Unsigned shift = (1 - subtracted) * 0x02020202;
    for (int q = 0; q < 2; ++q) fours[q] = looked_up(grid.data() + q * grid.size() / 2, index) + shift;
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
                Unsigned fours[2];
                shifted(*GRID, (low >> (8 * eight) & 0xff) | (high >> (3 * eight) & 7) << 8, high >> 15 & 1, fours);
                for (int q = 0; q < 2; ++q) to.put(8 * g + 2 * eight + q, widened(fours[q], 9));
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
                Unsigned fours[2];
                shifted(*GRID, (low >> (8 * eight) & 0xff) | (high >> (4 * eight) & 7) << 8, high >> (4 * eight + 3) & 1, fours);
                for (int q = 0; q < 2; ++q) to.put(4 * g + 2 * eight + q, fours[q]);
            }
            const Unsigned scales = g < 8 ? one : two;
            to.scales[g] = scale * number((scales >> (g / 4 % 2 * 16 + g % 4 * 3) & 7) * 2 + 1) * all(0.125f);
        }
    }
};

}  // namespace unpacking
}  // namespace foretoken
