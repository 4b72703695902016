// Drawing a token: the race of exponential clocks of noise.py, run only by those who may still win.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "likeliest.h"

namespace foretoken {

constexpr int RUNNERS = 8;

typedef uint64_t Words __attribute__((vector_size(8 * RUNNERS)));
typedef double Doubles __attribute__((vector_size(8 * RUNNERS)));
typedef float Weights __attribute__((vector_size(4 * RUNNERS)));

constexpr uint64_t GOLDEN = 0x9e3779b97f4a7c15;

// SplitMix64's finaliser, as in noise.py.
inline Words mixed(Words x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
}

// Of `width` tokens, the one with the least -log(u) / weight, where u in (0, 1) is the hash of `key` and the token. The
// first of equals; tokens without a weight do not run, and 0 wins where none does.
//
// Since -log(u) >= 1 - u, most tokens have lost before their logarithm is taken.
inline int64_t winner(const float* weights, int width, uint64_t key) {
    constexpr double ROUNDING = 1 + 1e-12;
    double best = std::numeric_limits<double>::infinity();
    int64_t place = 0;
    Words steps;
    for (int lane = 0; lane < RUNNERS; ++lane) steps[lane] = key + GOLDEN * uint64_t(lane + 1);
    for (int first = 0; first < width; first += RUNNERS, steps += GOLDEN * RUNNERS) {
        Weights weight{};
        if (first + RUNNERS <= width) std::memcpy(&weight, weights + first, sizeof weight);
        else std::memcpy(&weight, weights + first, sizeof(float) * (width - first));
        const Doubles wide = __builtin_convertvector(weight, Doubles);
        const Doubles u = (__builtin_convertvector(mixed(steps) >> 12, Doubles) + 0.5) * 0x1p-52;
        const auto runs = (wide > 0) & (1.0 - u < wide * (best * ROUNDING));
        uint64_t any = 0;
        for (int lane = 0; lane < RUNNERS; ++lane) any |= runs[lane];
        if (!any) continue;
        for (int lane = 0; lane < RUNNERS; ++lane) {
            if (!runs[lane]) continue;
            const double time = -std::log(u[lane]) / wide[lane];
            if (time < best) {
                best = time;
                place = first + lane;
            }
        }
    }
    return place;
}

// A token of `width` logits drawn at the temperature 1 / sharpness: the largest logit, the mass beside it, and the token.
// `chance` is the token's probability.
struct Drawn {
    float peak, mass, chance;
    int64_t token;
};

inline Drawn draw(const float* logits, int width, float sharpness, uint64_t key) {
    static thread_local std::vector<float> weights;
    weights.resize(width);
    const float peak = highest(logits, 0, width), mass = weigh(logits, width, peak, sharpness, weights.data());
    const int64_t token = winner(weights.data(), width, key);
    return {peak, mass, mass > 0 ? weights[token] / mass : 0.0f, token};
}

}  // namespace foretoken
