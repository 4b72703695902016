// The token with the largest logit, its probability, and the largest of many numbers.
#pragma once

#include <algorithm>
#include <cmath>

#include "../vector.h"

namespace foretoken {

// The first token with the largest logit of some, and the sum of e^(logit - largest) over them: 0 if there is no such token. On its
// own cache line, since each thread has one.
struct alignas(64) Candidate {
    float value, exp_sum;
    int index;

    float probability() const { return exp_sum > 0 ? 1.0f / exp_sum : 0.0f; }
};

// Return the largest of logits first .. end - 1.
inline float max_logit(const float* logits, int first, int end) {
    const int whole = first + (end - first) / LANES * LANES;
    Floats lanes = all(-INFINITY);
    for (int n = first; n < whole; n += LANES) lanes = maximum(lanes, load(logits + n));
    float result = largest(lanes);
    for (int n = whole; n < end; ++n) result = std::max(result, logits[n]);
    return result;
}

inline Candidate argmax(const float* logits, int first, int end) {
    Candidate best{max_logit(logits, first, end), 0, first};
    const int whole = first + (end - first) / LANES * LANES;
    if (best.value == -INFINITY) return {-INFINITY, 0, first};
    while (best.index < end && !(logits[best.index] == best.value)) ++best.index;
    if (best.index == end) return {-INFINITY, 0, first};
    Floats sums{};
    for (int n = first; n < whole; n += LANES) sums = sums + exponential(load(logits + n) - all(best.value));
    best.exp_sum = total(sums);
    for (int n = whole; n < end; ++n) best.exp_sum += std::exp(logits[n] - best.value);
    return best;
}

// Write the indices of the `count` largest of `width` numbers, largest first, of equals the first; -1 where there are fewer. Runs of
// RUN numbers are skipped unless one exceeds the smallest of those so far.
inline void top_k(const float* numbers, int width, int count, int64_t* indices) {
    constexpr int RUN = 8 * LANES;
    std::fill(indices, indices + count, int64_t{-1});
    const auto least = [&] { return indices[count - 1] < 0 ? -INFINITY : numbers[indices[count - 1]]; };
    for (int begin = 0; begin < width; begin += RUN) {
        const int end = std::min(begin + RUN, width);
        if (!(max_logit(numbers, begin, end) > least())) continue;
        for (int n = begin; n < end; ++n) {
            if (!(numbers[n] > least())) continue;
            int at = count - 1;
            for (; at > 0 && (indices[at - 1] < 0 || numbers[n] > numbers[indices[at - 1]]); --at) indices[at] = indices[at - 1];
            indices[at] = n;
        }
    }
}

// Write e^(sharpness * (logit - peak)) of `width` logits to `weights`; return their sum. All are 0 if `peak` is -infinity.
inline float exponentials(const float* logits, int width, float peak, float sharpness, float* weights) {
    std::fill(weights, weights + width, 0.0f);
    if (peak == -INFINITY) return 0;
    const int whole = width / LANES * LANES;
    Floats sums{};
    for (int n = 0; n < whole; n += LANES) {
        const Floats weight = exponential((load(logits + n) - all(peak)) * all(sharpness));
        store(weights + n, weight);
        sums = sums + weight;
    }
    float sum = total(sums);
    for (int n = whole; n < width; ++n) sum += weights[n] = std::exp((logits[n] - peak) * sharpness);
    return sum;
}

}  // namespace foretoken
