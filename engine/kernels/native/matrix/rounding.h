// Weights of any kind rounded to a few bits as they are packed, sixteen outputs at a time.
//
// 32 inputs of an output share a scale, a float16; codes are whole numbers around 0. Several scales are tried, and the codes
// of each tell the scale that leaves the least squared error (as make_qx_quants in ggml-quants.c does).
#pragma once

#include <cstdint>
#include <cstring>

#include "blocks.h"
#include "../vector.h"

namespace foretoken {

constexpr int ROUNDED = 32;  // inputs that share a scale

namespace rounding {

// Where the number furthest from 0 goes, in steps of the largest code's.
constexpr float STRETCHES[] = {1.0f, 0.94f, 0.88f, 0.81f, 0.74f, 1.07f};

inline Floats whole(Floats x, float least, float most) {
    const Floats near = __builtin_convertvector(nearest(x), Floats);
    return -maximum(-maximum(near, all(least)), all(-most));
}

// The nearest of the finite float16 numbers; the bits of each in the lower half of its lane.
inline Unsigned halves(Floats value) {
    const Floats bounded = -maximum(-maximum(value, all(-65504.0f)), all(-65504.0f));
    // Exponents begin 112 below: so small floats lose the digits that small halves lack.
    const Unsigned bits = std::bit_cast<Unsigned>(bounded * all(0x1p-112f));
    const Unsigned even = bits >> 13 & 1;
    return ((bits & 0x7fffffff) + 0xfff + even) >> 13 | (bits >> 16 & 0x8000);
}

// The scale for x[ROUNDED], whose codes are -reach .. reach - 1.
inline Floats scale_of(const Floats* x, float reach) {
    Floats furthest{};
    for (int k = 0; k < ROUNDED; ++k) {
        const Ints further = maximum(x[k], -x[k]) > maximum(furthest, -furthest);
        furthest = choose(further, x[k], furthest);
    }
    const Floats safe = choose(furthest == Floats{}, all(1.0f), furthest);
    Floats best{}, scale{};
    for (const float stretch : STRETCHES) {
        const Floats inverse = all(-reach / stretch) / safe;
        Floats both{}, squares{};
        for (int k = 0; k < ROUNDED; ++k) {
            const Floats code = whole(x[k] * inverse, -reach, reach - 1);
            both = fused(code, x[k], both);
            squares = fused(code, code, squares);
        }
        const Floats some = maximum(squares, all(1.0f)), gain = both * both / some;
        const Ints better = gain > best;
        best = choose(better, gain, best);
        scale = choose(better, both / some, scale);
    }
    return scale;
}

}  // namespace rounding

// Rounds ROUNDED inputs of sixteen outputs to `format`, as BlockPanels keeps a block: its words, then its scales at `rest`.
inline void round_block(const Floats* x, const Format& format, uint8_t* words, uint8_t* rest) {
    const float reach = float(format.centre);
    const Unsigned scales = rounding::halves(rounding::scale_of(x, reach));
    for (int lane = 0; lane < LANES; ++lane) {
        const uint16_t scale = uint16_t(scales[lane]);
        std::memcpy(rest + lane * sizeof scale, &scale, sizeof scale);
    }
    const Floats scale = widen_halves(scales), inverse = choose(scale == Floats{}, Floats{}, all(1.0f) / scale);
    Unsigned quads[ROUNDED / QUAD] = {};
    for (int k = 0; k < ROUNDED; ++k) {
        const Floats code = rounding::whole(x[k] * inverse, -reach, reach - 1) + all(reach);
        quads[k / QUAD] |= std::bit_cast<Unsigned>(__builtin_convertvector(code, Ints)) << (8 * (k % QUAD));
    }
    format.fold(quads, words);
}

}  // namespace foretoken
