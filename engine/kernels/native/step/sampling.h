// Draw a token: the earliest of noise.py's exponential clocks (an exponential race). Only clocks that may be the earliest are computed.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <utility>
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

// Load CLOCKS numbers from `first` on, zeros from `end` on.
inline Words load_some(const int64_t* numbers, int first, int end) {
    Words result{};
    if (first + CLOCKS <= end) std::memcpy(&result, numbers + first, sizeof result);
    else std::memcpy(&result, numbers + first, sizeof(int64_t) * (end - first));
    return result;
}

// Return the index of the token, of `width`, with the least -log(u) / weight, where u in (0, 1) is the hash of `key` and the token's
// id: its index, or what `numbers` has there. Of equals it is the first, also if none has a weight, and so a clock.
//
// Since -log(u) >= 1 - u, most tokens are known to be too late without a logarithm.
inline int earliest(const float* weights, int width, uint64_t key, const int64_t* numbers = nullptr) {
    constexpr double ROUNDING = 1 + 1e-12;
    double soonest = std::numeric_limits<double>::infinity();
    int best = 0;
    Words counted;
    for (int lane = 0; lane < CLOCKS; ++lane) counted[lane] = key + GOLDEN * uint64_t(lane + 1);
    for (int first = 0; first < width; first += CLOCKS, counted += GOLDEN * CLOCKS) {
        Weights weight{};
        if (first + CLOCKS <= width) std::memcpy(&weight, weights + first, sizeof weight);
        else std::memcpy(&weight, weights + first, sizeof(float) * (width - first));
        const Doubles wide = __builtin_convertvector(weight, Doubles);
        const Words steps = numbers ? key + (load_some(numbers, first, width) + 1) * GOLDEN : counted;
        const Doubles u = (__builtin_convertvector(mixed(steps) >> 12, Doubles) + 0.5) * 0x1p-52;
        const auto may = (wide > 0) & (1.0 - u < wide * (soonest * ROUNDING));
        uint64_t any = 0;
        for (int lane = 0; lane < CLOCKS; ++lane) any |= may[lane];
        if (!any) continue;
        for (int lane = 0; lane < CLOCKS; ++lane) {
            if (!may[lane]) continue;
            const double time = -std::log(u[lane]) / wide[lane];
            if (time < soonest) soonest = time, best = first + lane;
        }
    }
    return best;
}

// The distribution that tokens are drawn from, as in engine/values/sampling.py; `sharpness` is 1 / temperature.
struct Sampling {
    float sharpness, top_p, min_p;
    int32_t top_k;

    bool truncates() const { return top_k > 0 || top_p < 1 || min_p > 0; }
};

// Return the least of `width` logits that top-k, top-p and min-p leave, in this order; -infinity if one is no number. Equal logits stay
// or go together. `weights` are their exponentials, whose sum is `sum`.
inline float least_kept(const float* logits, const float* weights, int width, float peak, double sum, const Sampling& sampling) {
    static thread_local std::vector<std::pair<float, float>> ranked;
    float least = -INFINITY;
    if (!(sum > 0 && sum < INFINITY)) return least;
    const auto rank = [&](double lightest) {
        ranked.clear();
        for (int n = 0; n < width; ++n)
            if (weights[n] >= lightest && logits[n] >= least) ranked.emplace_back(logits[n], weights[n]);
    };
    if (sampling.top_k > 0 && sampling.top_k < width) {
        rank(0);
        std::nth_element(ranked.begin(), ranked.begin() + sampling.top_k - 1, ranked.end(), std::greater());
        least = ranked[sampling.top_k - 1].first;
        sum = 0;
        for (int n = 0; n < width; ++n) sum += logits[n] >= least ? weights[n] : 0.0f;
    }
    if (sampling.top_p < 1) {
        rank((1 - sampling.top_p) * sum / width);  // all that are lighter have less than 1 - top_p together
        std::make_heap(ranked.begin(), ranked.end());
        double mass = 0;
        for (auto end = ranked.end(); end != ranked.begin() && mass < sampling.top_p * sum; --end) {
            std::pop_heap(ranked.begin(), end);
            least = end[-1].first, mass += end[-1].second;
        }
    }
    return sampling.min_p > 0 ? std::max(least, peak + std::log(sampling.min_p) / sampling.sharpness) : least;
}

// Take the weights of logits below `least`; return the sum of the others.
inline float keep_from(float least, const float* logits, int width, float* weights) {
    const int whole = width / LANES * LANES;
    Floats sums{};
    for (int n = 0; n < whole; n += LANES) {
        const Floats weight = load(logits + n) < all(least) ? Floats{} : load(weights + n);
        store(weights + n, weight);
        sums = sums + weight;
    }
    float sum = total(sums);
    for (int n = whole; n < width; ++n) sum += weights[n] = logits[n] < least ? 0.0f : weights[n];
    return sum;
}

// A drawn token: the largest and the least logit that can be drawn, the sum of e^(sharpness * (logit - peak)) of all these, the token's
// probability and its index.
struct Drawn {
    float peak, least, exp_sum, probability;
    int64_t index;
};

// Take the first of the largest of `width` logits, as if it were drawn; a sum of 0 says that none is a number.
inline Drawn most_likely(const float* logits, int width) {
    const float peak = max_logit(logits, 0, width);
    const int best = int(std::find(logits, logits + width, peak) - logits), whole = width / LANES * LANES;
    if (peak == -INFINITY || best == width) return {-INFINITY, -INFINITY, 0, 0, 0};
    Floats sums{};
    for (int n = 0; n < whole; n += LANES) sums = sums + exponential(load(logits + n) - all(peak));
    float sum = total(sums);
    for (int n = whole; n < width; ++n) sum += std::exp(logits[n] - peak);
    return {peak, -INFINITY, sum, sum > 0 ? 1 / sum : 0.0f, best};
}

// Draw one of `width` logits; `key` and `numbers` as in `earliest`.
inline Drawn draw(const float* logits, int width, const Sampling& sampling, uint64_t key, const int64_t* numbers = nullptr) {
    static thread_local std::vector<float> weights;
    weights.resize(width);
    const float peak = max_logit(logits, 0, width);
    float least = -INFINITY, sum = exponentials(logits, width, peak, sampling.sharpness, weights.data());
    if (sampling.truncates()) {
        least = least_kept(logits, weights.data(), width, peak, sum, sampling);
        sum = keep_from(least, logits, width, weights.data());
    }
    const int64_t index = earliest(weights.data(), width, key, numbers);
    return {peak, least, sum, sum > 0 ? weights[index] / sum : 0.0f, index};
}

}  // namespace foretoken
