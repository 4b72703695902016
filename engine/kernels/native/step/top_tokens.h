// The token with the largest logit, its probability, and the largest of many numbers.
#pragma once

#include <algorithm>
#include <cmath>

#include "../vector.h"

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

// The places of the `count` largest of `width` numbers, the largest first and the first of equals; -1 where there are
// fewer. A number is looked at by itself only if it stands among RUN that reach what is there already.
inline void first_places(const float* numbers, int width, int count, int64_t* places) {
    constexpr int RUN = 8 * LANES;
    std::fill(places, places + count, int64_t{-1});
    const auto least = [&] { return places[count - 1] < 0 ? -INFINITY : numbers[places[count - 1]]; };
    for (int begin = 0; begin < width; begin += RUN) {
        const int end = std::min(begin + RUN, width);
        if (!(highest(numbers, begin, end) > least())) continue;
        for (int n = begin; n < end; ++n) {
            if (!(numbers[n] > least())) continue;
            int at = count - 1;
            for (; at > 0 && (places[at - 1] < 0 || numbers[n] > numbers[places[at - 1]]); --at) places[at] = places[at - 1];
            places[at] = n;
        }
    }
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
