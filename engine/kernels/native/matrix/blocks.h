// Unpack GGUF blocks (engine/kernels/formats/blocks.py) of sixteen outputs side by side.
#pragma once

#include "grid_blocks.h"
#include "unpacking.h"

namespace foretoken {

namespace unpacking {

alignas(LANES) constexpr int8_t IQ4_CODE[] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
alignas(LANES) constexpr int8_t FP4_CODE[] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};  // twice the number, around 12

// Return bit `index` of each byte as the fifth bit of a code.
inline Unsigned fifth(Unsigned bits, int index) { return (index < 4 ? bits << (4 - index) : bits >> (index - 4)) & 0x10101010; }

inline PairOfQuads halves_of(Unsigned both) { return {both & LOW, both >> 4 & LOW}; }

// A block of 32 with a scale behind its words. `pair` returns quads i and 4 + i.
template <class Kind>
struct OneScale {
    static void unpack(Words words, const uint8_t* rest, const Target& to) {
        FORETOKEN_UNROLL
        for (int i = 0; i < 4; ++i) {
            const auto [low, high] = Kind::pair(words, i);
            to.put(i, low);
            to.put(4 + i, high);
        }
        to.scales[0] = Kind::scale(rest);
    }
    static Floats scale(const uint8_t* rest) { return half(rest); }
};

struct Q8_0 : OneScale<Q8_0> {
    static constexpr Direct DIRECT = Direct::BYTES;
    static constexpr int WORDS = 8, REST = 2;
    static PairOfQuads pair(Words words, int i) { return {words[i] ^ FLIPPED, words[4 + i] ^ FLIPPED}; }
};

struct Q4_0 : OneScale<Q4_0> {
    static constexpr Direct DIRECT = Direct::NIBBLES;
    static constexpr int WORDS = 4, REST = 2;
    static PairOfQuads pair(Words words, int i) { return halves_of(words[i]); }
    static void fold(const Unsigned* quads, uint8_t* words) {
        for (int i = 0; i < 4; ++i) put_word(quads[i] | quads[4 + i] << 4, words, i);
    }
};

// A word of fifth bits, then the lower four.
struct Q5_0 : OneScale<Q5_0> {
    static constexpr Direct DIRECT = Direct::FIFTHS;
    static constexpr int WORDS = 5, REST = 2;
    static constexpr uint64_t ARRANGED = 1;
    static constexpr auto arrange = by_quads;
    static PairOfQuads pair(Words words, int i) {
        const auto [low, high] = halves_of(words[1 + i]);
        return {low | fifth(words[0], i), high | fifth(words[0], 4 + i)};
    }
};

struct IQ4_NL : OneScale<IQ4_NL> {
    static constexpr Direct DIRECT = Direct::LOOKED_UP;
    static constexpr int WORDS = 4, REST = 2;
    static PairOfQuads pair(Words words, int i) {
        const auto [low, high] = halves_of(words[i]);
        return {lookup(IQ4_CODE, low) ^ FLIPPED, lookup(IQ4_CODE, high) ^ FLIPPED};
    }
};

struct MXFP4 : OneScale<MXFP4> {
    static constexpr Direct DIRECT = Direct::FP4;
    static constexpr int WORDS = 4, REST = 1;
    static PairOfQuads pair(Words words, int i) {
        const auto [low, high] = halves_of(words[i]);
        return {lookup(FP4_CODE, low), lookup(FP4_CODE, high)};
    }
    // Return half of 2^(e - 127), since the codes are twice the numbers; the smallest are subnormal.
    static Floats scale(const uint8_t* rest) {
        const Unsigned e = std::bit_cast<Unsigned>(widen(rest));
        const Unsigned small = e < 2;
        return std::bit_cast<Floats>(Unsigned((small & Unsigned(0x00200000u << (e & 1))) | (~small & Unsigned((e - 1) << 23))));
    }
};

// A word of scale and minimum, a word of fifth bits, if there are any, and the lower four bits.
template <bool FIFTH>
struct Nibbles {
    static constexpr uint64_t ARRANGED = FIFTH << 1;
    static constexpr auto arrange = by_quads;
    static void unpack(Words words, const uint8_t*, const Target& to) {
        const Unsigned bits = FIFTH ? words[1] : Unsigned{};
        FORETOKEN_UNROLL
        for (int i = 0; i < 4; ++i) {
            const auto [low, high] = halves_of(words[1 + FIFTH + i]);
            to.put(i, FIFTH ? low | fifth(bits, i) : low);
            to.put(4 + i, FIFTH ? high | fifth(bits, 4 + i) : high);
        }
        to.scales[0] = widen_halves(words[0] & 0xffff);
        to.minimums[0] = widen_halves(words[0] >> 16);
    }
};
using Q4_1 = Nibbles<false>;
using Q5_1 = Nibbles<true>;

// Four scales of eight bits, UE4M3, each for two words: the lower halves of eight bytes, then the upper halves.
struct NVFP4 {
    static void unpack(Words words, const uint8_t*, const Target& to) {
        const Unsigned scales = words[0];
        FORETOKEN_UNROLL
        for (int g = 0; g < 4; ++g) {
            for (int i = 0; i < 2; ++i) {
                const Unsigned both = words[1 + 2 * g + i];
                to.put(4 * g + i, lookup(FP4_CODE, both & LOW));
                to.put(4 * g + 2 + i, lookup(FP4_CODE, both >> 4 & LOW));
            }
            // Half of it, since the codes are twice the numbers. 0x7f means none.
            const Unsigned bits = scales >> (8 * g) & 0x7f;
            const Floats normal = std::bit_cast<Floats>((bits << 20) + (119u << 23));
            const Floats scale = choose(std::bit_cast<Ints>(bits) < 8, number(bits) * all(0x1p-10f), normal);
            to.scales[g] = choose((scales >> (8 * g) & 0xff) == 0x7f, Floats{}, scale);
        }
    }
};

// Four words, a bit for each of 32 inputs: -1 or 1.
struct Q1_0 {
    static constexpr uint64_t ARRANGED = 15;
    static constexpr auto arrange = by_quads;
    static void unpack(Words words, const uint8_t* rest, const Target& to) {
        FORETOKEN_UNROLL
        for (int i = 0; i < 32; ++i) to.put(i, (words[i / 8] >> (i % 8) & 0x01010101) << 1);
        for (int g = 0; g < 4; ++g) to.scales[g] = half(rest);
    }
};

// Four words, two bits for each of sixteen inputs: -1 to 2.
struct Q2_0 {
    static constexpr uint64_t ARRANGED = 15;
    static Unsigned arrange(Unsigned word) {
        Unsigned moved{};
        for (int k = 0; k < 16; ++k) moved |= (word >> (2 * k) & 3) << (k % 4 * 8 + k / 4 * 2);
        return moved;
    }
    static void unpack(Words words, const uint8_t* rest, const Target& to) {
        FORETOKEN_UNROLL
        for (int i = 0; i < 16; ++i) to.put(i, words[i / 4] >> (i % 4 * 2) & 0x03030303);
        for (int g = 0; g < 2; ++g) to.scales[g] = half(rest);
    }
};

inline void same_scales(const uint8_t* rest, const Target& to) {
    const Floats scale = half(rest);
    for (int g = 0; g < 8; ++g) to.scales[g] = scale;
}

// As Q2_K, with one scale: -1 to 2.
struct TQ2_0 {
    static void unpack(Words words, const uint8_t* rest, const Target& to) {
        FORETOKEN_UNROLL
        for (int i = 0; i < 64; ++i) to.put(i, widened(words[i / 32 * 8 + i % 8] >> (i / 8 % 4 * 2) & 0x03030303, 1));
        same_scales(rest, to);
    }
};

// A byte is a fraction of 256, whose first five digits of base 3 are five codes. Eight words hold 160 inputs, the next four 80, and
// four digits of the last word sixteen.
struct TQ1_0 {
    template <int DIGITS>
    static void digits(Words words, int first, int count, int quad, const Target& to) {
        for (int word = 0; word < count; ++word) {
            Unsigned even = words[first + word] & 0x00ff00ff, odd = words[first + word] >> 8 & 0x00ff00ff;
            FORETOKEN_UNROLL
            for (int digit = 0; digit < DIGITS; ++digit) {
                even *= 3;
                odd *= 3;
                to.put(quad + digit * count + word, widened((even >> 8 & 0x00030003) | (odd & 0x03000300), 1));
                even &= 0x00ff00ff;
                odd &= 0x00ff00ff;
            }
        }
    }
    static void unpack(Words words, const uint8_t* rest, const Target& to) {
        digits<5>(words, 0, 8, 0, to);
        digits<5>(words, 8, 4, 40, to);
        digits<4>(words, 12, 1, 60, to);
        same_scales(rest, to);
    }
};

// Two bits a code: eight words hold 128 inputs, the first 32 in the lowest bits.
struct Q2_K {
    static void unpack(Words words, const uint8_t*, const Target& to) {
        FORETOKEN_UNROLL
        for (int i = 0; i < 64; ++i) to.put(i, words[4 + i / 32 * 8 + i % 8] >> (i / 8 % 4 * 2) & 0x03030303);
        const Floats scale = widen_halves(words[20] & 0xffff);
        FORETOKEN_UNROLL
        for (int g = 0; g < 16; ++g) to.scales[g] = scale * byte(words[g / 4] & LOW, g % 4);
        FORETOKEN_UNROLL
        for (int pair = 0; pair < 8; ++pair) to.pairs[pair] = pair_of(words[pair / 2] >> 4 & LOW, pair % 2);
        *to.least = -widen_halves(words[20] >> 16);
    }
};

// As Q2_K, with third bits in another plane, those of each 32 inputs one bit higher.
struct Q3_K {
    static void unpack(Words words, const uint8_t* rest, const Target& to) {
        FORETOKEN_UNROLL
        for (int i = 0; i < 64; ++i) {
            const Unsigned high = words[i % 8], low = words[8 + i / 32 * 8 + i % 8] >> (i / 8 % 4 * 2) & 0x03030303;
            to.put(i, low | ((i < 16 ? high << (2 - i / 8) : high >> (i / 8 - 2)) & 0x04040404));
        }
        const Floats scale = half(rest);
        const Unsigned high = words[26];
        FORETOKEN_UNROLL
        for (int g = 0; g < 16; ++g) {
            const Unsigned low = words[24 + g / 4 % 2] >> (g / 8 * 4) & LOW;
            const Unsigned both = low | (high >> (g / 4 * 2) & 0x03030303) << 4;
            to.scales[g] = scale * (byte(both, g % 4) - all(32.0f));
        }
    }
};

// Eight scales and eight minimums of six bits, in three words, times the two factors in the first word.
struct SixBits {
    explicit SixBits(Words words)
        : factor(widen_halves(words[0] & 0xffff)),
          least(-widen_halves(words[0] >> 16)),
          scales{words[1] & 0x3f3f3f3f, (words[3] & LOW) | (words[1] >> 2 & 0x30303030)},
          minimums{words[2] & 0x3f3f3f3f, (words[3] >> 4 & LOW) | (words[2] >> 2 & 0x30303030)} {}
    Floats scale(int group) const { return factor * byte(scales[group / 4], group % 4); }
    Ints pair(int index) const { return pair_of(minimums[index / 2], index % 2); }

    const Floats factor, least;
    const Unsigned scales[2], minimums[2];
};

// 32 words of lower four bits: the lower halves of eight words hold 32 inputs, the upper halves the next 32. Before them eight
// words of fifth bits, if there are any: a bit for each 32 inputs. Return quad `i` of both groups of a pair.
template <bool FIFTH>
inline PairOfQuads pair_of_quads(Words words, int pair, int i) {
    const auto [low, high] = halves_of(words[(FIFTH ? 12 : 4) + 8 * pair + i]);
    if constexpr (!FIFTH) return {low, high};
    const Unsigned bits = words[4 + i];
    return {low | fifth(bits, 2 * pair), high | fifth(bits, 2 * pair + 1)};
}

template <bool FIFTH>
struct Nibbles_K {
    static constexpr Direct DIRECT = FIFTH ? Direct::FIFTHS_K : Direct::NIBBLES_K;
    static void unpack(Words words, const uint8_t*, const Target& to) {
        FORETOKEN_UNROLL
        for (int i = 0; i < 32; ++i) {
            const auto [low, high] = pair_of_quads<FIFTH>(words, i / 8, i % 8);
            const int quad = i / 8 * 16 + i % 8;
            to.put(quad, low);
            to.put(quad + 8, high);
        }
        const SixBits factors(words);
        FORETOKEN_UNROLL
        for (int g = 0; g < 8; ++g) to.scales[g] = factors.scale(g);
        FORETOKEN_UNROLL
        for (int pair = 0; pair < 4; ++pair) to.pairs[pair] = factors.pair(pair);
        *to.least = factors.least;
    }
};
using Q4_K = Nibbles_K<false>;
using Q5_K = Nibbles_K<true>;

struct Q6_K {
    static constexpr Direct DIRECT = Direct::SIX_K;
    static constexpr int WORDS = 52;

    // Return quad `i` of eight of a quarter of a half of a block.
    template <int QUARTER>
    static Unsigned quad(Words words, int half, int i) {
        const Unsigned low = words[16 * half + QUARTER % 2 * 8 + i], high = words[32 + 8 * half + i];
        const Unsigned upper = QUARTER < 2 ? high << (4 - 2 * QUARTER) : high >> (2 * QUARTER - 4);
        return (QUARTER < 2 ? low & LOW : low >> 4 & LOW) | (upper & 0x30303030);
    }
    static Floats scale(Words words, const Floats& factor, int group) { return factor * signed_byte(words[48 + group / 4], group % 4); }

    static void unpack(Words words, const uint8_t* rest, const Target& to) {
        FORETOKEN_UNROLL
        for (int i = 0; i < 16; ++i) {
            const int part = i / 8, first = part * 32 + i % 8;
            to.put(first, quad<0>(words, part, i % 8));
            to.put(first + 8, quad<1>(words, part, i % 8));
            to.put(first + 16, quad<2>(words, part, i % 8));
            to.put(first + 24, quad<3>(words, part, i % 8));
        }
        const Floats factor = half(rest);
        FORETOKEN_UNROLL
        for (int g = 0; g < 16; ++g) to.scales[g] = scale(words, factor, g);
    }
};

struct IQ4_XS {
    static void unpack(Words words, const uint8_t*, const Target& to) {
        const Unsigned first = words[0], low = words[1];
        const Floats scale = widen_halves(first & 0xffff);
        FORETOKEN_UNROLL
        for (int g = 0; g < 8; ++g) {
            FORETOKEN_UNROLL
            for (int i = 0; i < 4; ++i) {
                const auto [low, high] = IQ4_NL::pair({words.from + (2 + 4 * g) * sizeof first}, i);
                to.put(8 * g + i, low);
                to.put(8 * g + 4 + i, high);
            }
            const Unsigned both = (low >> (4 * g) & 15) | (first >> (16 + 2 * g) & 3) << 4;
            to.scales[g] = scale * (number(both) - all(32.0f));
        }
    }
};

template <class Kind, int INPUTS, int WORDS, int REST, int GROUP>
void unpack(const uint8_t* words, const uint8_t* rest, int blocks, Unpacked& to) {
    for (int block = 0; block < blocks; ++block) {
        const int group = block * INPUTS / GROUP;
        Kind::unpack({words + size_t(block) * WORDS * sizeof(Unsigned)}, rest + size_t(block) * REST * LANES,
                     {to.codes + block * INPUTS / QUAD, to.scales + group, to.minimums + block, to.pairs, &to.least});
    }
}

template <class Kind, int INPUTS, int BYTES, int WORDS, int WORDS_AT, int REST, int REST_AT, int GROUP>
constexpr Format format(bool minimums, Codes codes, int centre) {
    static_assert(BYTES == WORDS * 4 + REST);
    if constexpr (requires { Kind::WORDS; }) static_assert(Kind::WORDS == WORDS);
    Format result{INPUTS, BYTES, WORDS, WORDS_AT, REST, REST_AT, GROUP, minimums, codes, centre, unpack<Kind, INPUTS, WORDS, REST, GROUP>};
    if constexpr (requires { Kind::ARRANGED; }) {
        result.arranged = Kind::ARRANGED;
        result.arrange = Kind::arrange;
    }
    if constexpr (requires { Kind::fold; }) result.fold = Kind::fold;
    if constexpr (requires { Kind::GRID; }) result.grid = Kind::GRID;
    if constexpr (requires { Kind::DIRECT; }) result.direct = Kind::DIRECT;
    return result;
}

}  // namespace unpacking

// In the order of LAYOUTS of engine/kernels/formats/block_formats.py.
constexpr Format FORMATS[] = {
    unpacking::format<unpacking::Q8_0, 32, 34, 8, 2, 2, 0, 32>(false, Codes::WIDE, 128),
    unpacking::format<unpacking::Q4_0, 32, 18, 4, 2, 2, 0, 32>(false, Codes::CENTRED, 8),
    unpacking::format<unpacking::Q4_1, 32, 20, 5, 0, 0, 0, 32>(true, Codes::UNSIGNED, 0),
    unpacking::format<unpacking::Q5_0, 32, 22, 5, 2, 2, 0, 32>(false, Codes::CENTRED, 16),
    unpacking::format<unpacking::Q5_1, 32, 24, 6, 0, 0, 0, 32>(true, Codes::UNSIGNED, 0),
    unpacking::format<unpacking::Q2_K, 256, 84, 21, 0, 0, 0, 16>(true, Codes::UNSIGNED, 0),
    unpacking::format<unpacking::Q3_K, 256, 110, 27, 0, 2, 108, 16>(false, Codes::CENTRED, 4),
    unpacking::format<unpacking::Q4_K, 256, 144, 36, 0, 0, 0, 32>(true, Codes::UNSIGNED, 0),
    unpacking::format<unpacking::Q5_K, 256, 176, 44, 0, 0, 0, 32>(true, Codes::UNSIGNED, 0),
    unpacking::format<unpacking::Q6_K, 256, 210, 52, 0, 2, 208, 16>(false, Codes::CENTRED, 32),
    unpacking::format<unpacking::IQ4_NL, 32, 18, 4, 2, 2, 0, 32>(false, Codes::WIDE, 128),
    unpacking::format<unpacking::IQ4_XS, 256, 136, 34, 0, 0, 0, 32>(false, Codes::WIDE, 128),
    unpacking::format<unpacking::MXFP4, 32, 17, 4, 1, 1, 0, 32>(false, Codes::CENTRED, 12),
    unpacking::format<unpacking::NVFP4, 64, 36, 9, 0, 0, 0, 16>(false, Codes::CENTRED, 12),
    unpacking::format<unpacking::Q1_0, 128, 18, 4, 2, 2, 0, 32>(false, Codes::CENTRED, 1),
    unpacking::format<unpacking::Q2_0, 64, 18, 4, 2, 2, 0, 32>(false, Codes::CENTRED, 1),
    unpacking::format<unpacking::TQ1_0, 256, 54, 13, 0, 2, 52, 32>(false, Codes::WIDE, 128),
    unpacking::format<unpacking::TQ2_0, 256, 66, 16, 0, 2, 64, 32>(false, Codes::WIDE, 128),
    unpacking::format<unpacking::IQ2_XXS, 256, 66, 16, 2, 2, 0, 32>(false, Codes::WIDE, 128),
    unpacking::format<unpacking::IQ2_XS, 256, 74, 18, 2, 2, 0, 16>(false, Codes::CENTRED, 64),
    unpacking::format<unpacking::IQ2_S, 256, 82, 20, 2, 2, 0, 16>(false, Codes::CENTRED, 64),
    unpacking::format<unpacking::IQ3_XXS, 256, 98, 24, 2, 2, 0, 32>(false, Codes::WIDE, 128),
    unpacking::format<unpacking::IQ3_S, 256, 110, 27, 2, 2, 0, 32>(false, Codes::WIDE, 128),
    unpacking::format<unpacking::IQ1_S, 256, 50, 12, 2, 2, 0, 32>(false, Codes::WIDE, 128),
    unpacking::format<unpacking::IQ1_M, 256, 56, 14, 0, 0, 0, 16>(false, Codes::CENTRED, 9),
};

}  // namespace foretoken
