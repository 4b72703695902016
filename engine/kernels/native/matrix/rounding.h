// Round weights of any kind to a few bits as they are packed, sixteen outputs at a time.
//
// 32 inputs of an output share a float16 scale; codes are integers around 0. Several scales are tried. For the codes of each, the
// scale with the least squared error is known in closed form (as in make_qx_quants of ggml-quants.c).
#pragma once

#include <cstdint>
#include <cstring>

#include "blocks.h"
#include "../vector.h"

namespace foretoken {

constexpr int ROUNDED_INPUTS = 32;  // that share a scale

namespace rounding {

// Where the number furthest from 0 goes, as multiples of the largest code.
constexpr float STRETCHES[] = {1.0f, 0.94f, 0.88f, 0.81f, 0.74f, 1.07f};

// Round to integers in least .. most.
inline Floats whole(Floats x, float least, float most) {
    const Floats near = __builtin_convertvector(nearest(x), Floats);
    return -maximum(-maximum(near, all(least)), all(-most));
}

// Round to the nearest finite float16; the bits are in the lower half of each lane.
inline Unsigned halves(Floats value) {
    const Floats bounded = -maximum(-maximum(value, all(-65504.0f)), all(-65504.0f));
    // Exponents are lowered by 112, so that small floats lose the digits that subnormal halves lack.
    const Unsigned bits = std::bit_cast<Unsigned>(bounded * all(0x1p-112f));
    const Unsigned even = bits >> 13 & 1;
    return ((bits & 0x7fffffff) + 0xfff + even) >> 13 | (bits >> 16 & 0x8000);
}

// Return the best scale for x[ROUNDED_INPUTS], whose codes are -reach .. reach - 1.
inline Floats scale_of(const Floats* x, float reach) {
    Floats furthest{};
    for (int k = 0; k < ROUNDED_INPUTS; ++k) {
        const Ints further = maximum(x[k], -x[k]) > maximum(furthest, -furthest);
        furthest = choose(further, x[k], furthest);
    }
    const Floats divisor = choose(furthest == Floats{}, all(1.0f), furthest);
    Floats best{}, scale{};
    for (const float stretch : STRETCHES) {
        const Floats inverse = all(-reach / stretch) / divisor;
        Floats products{}, squares{};
        for (int k = 0; k < ROUNDED_INPUTS; ++k) {
            const Floats code = whole(x[k] * inverse, -reach, reach - 1);
            products = fused(code, x[k], products);
            squares = fused(code, code, squares);
        }
        const Floats norm = maximum(squares, all(1.0f)), gain = products * products / norm;
        const Ints better = gain > best;
        best = choose(better, gain, best);
        scale = choose(better, products / norm, scale);
    }
    return scale;
}

}  // namespace rounding

// Round ROUNDED_INPUTS inputs of sixteen outputs to `format`, as BlockPanels stores a block: words to `words`, scales to `rest`.
inline void round_block(const Floats* x, const Format& format, uint8_t* words, uint8_t* rest) {
    const float reach = float(format.centre);
    const Unsigned scales = rounding::halves(rounding::scale_of(x, reach));
    for (int lane = 0; lane < LANES; ++lane) {
        const uint16_t scale = uint16_t(scales[lane]);
        std::memcpy(rest + lane * sizeof scale, &scale, sizeof scale);
    }
    const Floats scale = widen_halves(scales), inverse = choose(scale == Floats{}, Floats{}, all(1.0f) / scale);
    Unsigned quads[ROUNDED_INPUTS / QUAD] = {};
    for (int k = 0; k < ROUNDED_INPUTS; ++k) {
        const Floats code = rounding::whole(x[k] * inverse, -reach, reach - 1) + all(reach);
        quads[k / QUAD] |= std::bit_cast<Unsigned>(__builtin_convertvector(code, Ints)) << (8 * (k % QUAD));
    }
    format.fold(quads, words);
}

}  // namespace foretoken
