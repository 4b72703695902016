// Norms and gates of rows.
#pragma once

#include <cmath>

#include "structures.h"
#include "../vector.h"

namespace foretoken {

inline float norm_factor(const float* x, int width, float epsilon) {
    Floats squares{};
    for (int k = 0; k < width; k += LANES) {
        Floats part = load(x + k);
        squares = fused(part, part, squares);
    }
    return 1.0f / std::sqrt(total(squares) / float(width) + epsilon);
}

inline void multiply(const float* x, float factor, const float* weight, int width, float* to) {
    for (int k = 0; k < width; k += LANES) store(to + k, load(x + k) * all(factor) * load(weight + k));
}

// RMSNorm (Zhang and Sennrich 2019). `to` may be `x`.
inline void normalise(const float* x, const float* weight, int width, float epsilon, float* to) {
    multiply(x, norm_factor(x, width, epsilon), weight, width, to);
}

// Subtract the mean, as LayerNorm does first (Ba, Kiros, Hinton 2016).
inline void centre(const float* x, int width, float* to) {
    Floats sum{};
    for (int k = 0; k < width; k += LANES) sum += load(x + k);
    const Floats mean = all(total(sum) / float(width));
    for (int k = 0; k < width; k += LANES) store(to + k, load(x + k) - mean);
}

inline float sigmoid(float x) { return 1.0f / (1.0f + std::exp(-x)); }

inline Floats gated(Gate gate, Floats x) {
    switch (gate) {
        case Gate::SILU: return x / (all(1.0f) + exponential(-x));
        case Gate::GELU_TANH: {
            Floats inner = all(0.79788456f) * fused(all(0.044715f) * x * x, x, x);
            return all(0.5f) * x * (all(1.0f) + hyperbolic_tangent(inner));
        }
        case Gate::GELU: {
            float lanes[LANES];
            store(lanes, x);
            for (float& lane : lanes) lane = 0.5f * lane * (1.0f + std::erf(lane * 0.70710678f));
            return load(lanes);
        }
        case Gate::RELU: return maximum(x, Floats{});
        case Gate::QUICK_GELU: return x / (all(1.0f) + exponential(all(-1.702f) * x));
    }
    return x;
}

}  // namespace foretoken
