// Drawing a token: the earliest of noise.py's exponential clocks, computed only for those that may still be it.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "top_tokens.h"

namespace foretoken {

constexpr int CLOCKS = 8;

typedef uint64_t Words __attribute__((vector_size(8 * CLOCKS)));
typedef double Doubles __attribute__((vector_size(8 * CLOCKS)));
typedef float Weights __attribute__((vector_size(4 * CLOCKS)));

constexpr uint64_t GOLDEN = 0x9e3779b97f4a7c15;

// SplitMix64's finaliser, as in noise.py.
inline Words mixed(Words x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
}

// The earliest clock of some tokens: whose it is, and its time. On a line of the cache of its own, since threads find one each.
struct alignas(64) Clock {
    double time = std::numeric_limits<double>::infinity();
    int place = 0;
};

// Some of `numbers`, zeros behind `end`.
inline Words some(const int64_t* numbers, int first, int end) {
    Words found{};
    if (first + CLOCKS <= end) std::memcpy(&found, numbers + first, sizeof found);
    else std::memcpy(&found, numbers + first, sizeof(int64_t) * (end - first));
    return found;
}

// Of tokens first .. end - 1, the one with the least -log(u) / weight, where u in (0, 1) is the hash of `key` and what the
// token is called: as it is counted, or as `numbers` say. The first of equals; tokens without a weight have no clock, and
// the place is `first` where none has.
//
// Since -log(u) >= 1 - u, most tokens are too late before their logarithm is taken.
inline Clock earliest(const float* weights, int first, int end, uint64_t key, const int64_t* numbers = nullptr) {
    constexpr double ROUNDING = 1 + 1e-12;
    Clock best{.place = first};
    Words counted;
    for (int lane = 0; lane < CLOCKS; ++lane) counted[lane] = key + GOLDEN * uint64_t(first + lane + 1);
    for (; first < end; first += CLOCKS, counted += GOLDEN * CLOCKS) {
        Weights weight{};
        if (first + CLOCKS <= end) std::memcpy(&weight, weights + first, sizeof weight);
        else std::memcpy(&weight, weights + first, sizeof(float) * (end - first));
        const Doubles wide = __builtin_convertvector(weight, Doubles);
        const Words steps = numbers ? key + (some(numbers, first, end) + 1) * GOLDEN : counted;
        const Doubles u = (__builtin_convertvector(mixed(steps) >> 12, Doubles) + 0.5) * 0x1p-52;
        const auto may = (wide > 0) & (1.0 - u < wide * (best.time * ROUNDING));
        uint64_t any = 0;
        for (int lane = 0; lane < CLOCKS; ++lane) any |= may[lane];
        if (!any) continue;
        for (int lane = 0; lane < CLOCKS; ++lane) {
            if (!may[lane]) continue;
            const double time = -std::log(u[lane]) / wide[lane];
            if (time < best.time) best = {time, first + lane};
        }
    }
    return best;
}

// One of `width` logits drawn at the temperature 1 / sharpness: the largest logit, the mass beside it, and the place of the
// one drawn, which is its token unless `numbers` say which tokens these are. `chance` is its probability.
struct Drawn {
    float peak, mass, chance;
    int64_t token;
};

inline Drawn draw(const float* logits, int width, float sharpness, uint64_t key, const int64_t* numbers = nullptr) {
    static thread_local std::vector<float> weights;
    weights.resize(width);
    const float peak = highest(logits, 0, width), mass = weigh(logits, 0, width, peak, sharpness, weights.data());
    const int64_t token = earliest(weights.data(), 0, width, key, numbers).place;
    return {peak, mass, mass > 0 ? weights[token] / mass : 0.0f, token};
}

}  // namespace foretoken
