// What the formats of GGUF blocks have in common: their layout, and the operand that one is unpacked to.
//
// A block holds the codes of 32 to 256 inputs of one output, and their scales, in planes of bytes: four bytes of a plane are the
// codes of four neighbouring inputs, or parts of them. With the same four bytes of sixteen outputs side by side, a few shifts and
// masks give the operand of an integer dot product. So blocks are only transposed: no bit is lost, and they take no more memory.
// Source of the layouts: ggml-quants.c.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "dot.h"
#include "../vector.h"

namespace foretoken {

constexpr int UNIT = 256;  // inputs that are unpacked at once

// Codes are multiplied as unsigned bytes; sums of CENTRED codes are corrected for their centre. WIDE codes need all eight bits,
// with the centre 128; processors that multiply signed bytes take them as signed.
enum class Codes { UNSIGNED, CENTRED, WIDE };

// Formats that are multiplied by a few rows as they are read, where enough sums stay in registers; see DirectKernel.
enum class Direct { NO, NIBBLES, FIFTHS, LOOKED_UP, NIBBLES_K, FIFTHS_K, SIX_K, FP4, BYTES };
constexpr bool DIRECTLY = DOT_ROWS == 8;

// 256 inputs of sixteen outputs: weight = scale * (code - centre) + minimum, by groups of 16 or 32 inputs.
struct Unpacked {
    alignas(64) uint8_t codes[UNIT / QUAD][LANES * QUAD];  // of four inputs: [16][4]
    Floats scales[UNIT / 16];                              // of each group
    Floats minimums[UNIT / 32];                            // of blocks of 32
    Ints pairs[UNIT / 32];                                 // of larger blocks: see pair_of
    Floats least;                                          // which multiplies these
};

// The layout of a block format, and how to unpack it.
struct Format {
    int inputs, bytes;
    int words, words_at;  // of 4 bytes, of sixteen outputs side by side
    int rest, rest_at;    // bytes: the scale, if it is in none of the words
    int group;            // inputs that share a scale
    bool minimums;
    Codes codes;
    int centre;
    void (*unpack)(const uint8_t* words, const uint8_t* rest, int blocks, Unpacked& to);
    uint64_t arranged = 0;                                          // words whose bits are reordered while blocks are packed
    Unsigned (*arrange)(Unsigned word) = nullptr;                   // how
    void (*fold)(const Unsigned* quads, uint8_t* words) = nullptr;  // codes to words, for formats that weights are rounded to
    std::vector<uint32_t>* grid = nullptr;                          // see unpacking::grid
    Direct direct = Direct::NO;

    // Whether minimums are integers, with a factor for the block.
    constexpr bool paired() const { return minimums && inputs == UNIT; }
    // Inputs of a row that are rounded to bytes with one scale.
    constexpr int row_block() const { return inputs == UNIT ? UNIT : 32; }
    constexpr int sums() const { return row_block() / group / (paired() ? 2 : 1); }
};

namespace unpacking {

constexpr uint32_t LOW = 0x0f0f0f0f;
constexpr uint32_t FLIPPED = WIDE_IS_SIGNED ? 0 : 0x80808080;  // makes signed bytes unsigned if those are multiplied

// The words of a block of sixteen outputs.
struct Words {
    const uint8_t* from;
    Unsigned operator[](int index) const {
        Unsigned word;
        std::memcpy(&word, from + size_t(index) * sizeof word, sizeof word);
        return word;
    }
};

inline void put_word(Unsigned word, uint8_t* words, int index) { std::memcpy(words + size_t(index) * sizeof word, &word, sizeof word); }

// Where one block is unpacked to.
struct Target {
    uint8_t (*codes)[LANES * QUAD];
    Floats *scales, *minimums;
    Ints* pairs;
    Floats* least;
    void put(int quad, Unsigned four) const { std::memcpy(codes[quad], &four, sizeof four); }
};

struct PairOfQuads {
    Unsigned low, high;
};

inline Floats number(Unsigned value) { return __builtin_convertvector(std::bit_cast<Ints>(value), Floats); }
inline Floats byte(Unsigned word, int index) { return number(word >> (8 * index) & 0xff); }
inline Floats signed_byte(Unsigned word, int index) {
    return __builtin_convertvector(std::bit_cast<Ints>(word << (24 - 8 * index)) >> 24, Floats);
}
inline Floats half(const uint8_t* rest) { return widen_halves(reinterpret_cast<const uint16_t*>(rest)); }

// The minimums of four groups, a byte each, lie in two words of two: 0 and 2, then 1 and 3. So do the sums of the rows' codes.
inline Ints pair_of(Unsigned four, int odd) { return std::bit_cast<Ints>(four >> (8 * odd) & 0x00ff00ff); }

// Reorder 32 bits, so that the bit of input 4 q + b is bit 8 b + q.
inline Unsigned by_quads(Unsigned bits) {
    Unsigned moved{};
    for (int q = 0; q < 8; ++q) moved |= ((bits >> (4 * q) & 15) * 0x00204081 & 0x01010101) << q;
    return moved;
}

// Return codes below 128 around `centre` as WIDE codes.
inline Unsigned widened(Unsigned codes, int centre) { return (codes + uint32_t(128 - centre) * 0x01010101u) ^ (FLIPPED ^ 0x80808080u); }

}  // namespace unpacking
}  // namespace foretoken
