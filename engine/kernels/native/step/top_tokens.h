// The largest of many numbers, and exponentials of logits.
#pragma once

#include <algorithm>
#include <cmath>

#include "../vector.h"

namespace foretoken {

// Return the largest of logits first .. end - 1.
inline float max_logit(const float* logits, int first, int end) {
    const int whole = first + (end - first) / LANES * LANES;
    Floats lanes = all(-INFINITY);
    for (int n = first; n < whole; n += LANES) lanes = maximum(lanes, load(logits + n));
    float result = largest(lanes);
    for (int n = whole; n < end; ++n) result = std::max(result, logits[n]);
    return result;
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
