// The likeliest of tokens, and how likely each is.
#pragma once

#include <algorithm>
#include <cmath>

#include "vector.h"

namespace foretoken {

// The first token with the largest logit of some, and the sum of e^(logit - largest) over all of them: 0 where
// there is no such token. On a line of the cache of its own, since threads find one each.
struct alignas(64) Candidate {
    float value, mass;
    int place;

    float probability() const { return mass > 0 ? 1.0f / mass : 0.0f; }
};

// The largest of logits first .. end - 1.
inline float highest(const float* logits, int first, int end) {
    const int whole = first + (end - first) / LANES * LANES;
    Floats lanes = all(-INFINITY);
    for (int n = first; n < whole; n += LANES) lanes = maximum(lanes, load(logits + n));
    float found = largest(lanes);
    for (int n = whole; n < end; ++n) found = std::max(found, logits[n]);
    return found;
}

inline Candidate best(const float* logits, int first, int end) {
    Candidate found{highest(logits, first, end), 0, first};
    const int whole = first + (end - first) / LANES * LANES;
    if (found.value == -INFINITY) return {-INFINITY, 0, first};
    while (found.place < end && !(logits[found.place] == found.value)) ++found.place;
    if (found.place == end) return {-INFINITY, 0, first};
    Floats mass{};
    for (int n = first; n < whole; n += LANES) mass = mass + exponential(load(logits + n) - all(found.value));
    found.mass = total(mass);
    for (int n = whole; n < end; ++n) found.mass += std::exp(logits[n] - found.value);
    return found;
}

// e^(sharpness * (logit - peak)) of logits first .. end - 1 to `weights`, and their sum; zeros where `peak` is no number.
inline float weigh(const float* logits, int first, int end, float peak, float sharpness, float* weights) {
    std::fill(weights + first, weights + end, 0.0f);
    if (peak == -INFINITY) return 0;
    const int whole = first + (end - first) / LANES * LANES;
    Floats mass{};
    for (int n = first; n < whole; n += LANES) {
        const Floats weight = exponential((load(logits + n) - all(peak)) * all(sharpness));
        store(weights + n, weight);
        mass = mass + weight;
    }
    float sum = total(mass);
    for (int n = whole; n < end; ++n) sum += weights[n] = std::exp((logits[n] - peak) * sharpness);
    return sum;
}

}  // namespace foretoken
