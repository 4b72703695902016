// The likeliest of tokens, and how likely it is.
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

inline Candidate best(const float* logits, int first, int end) {
    Candidate found{-INFINITY, 0, first};
    const int whole = first + (end - first) / LANES * LANES;
    Floats highest = all(-INFINITY);
    for (int n = first; n < whole; n += LANES) highest = maximum(highest, load(logits + n));
    found.value = largest(highest);
    for (int n = whole; n < end; ++n) found.value = std::max(found.value, logits[n]);
    if (found.value == -INFINITY) return {-INFINITY, 0, first};
    while (found.place < end && !(logits[found.place] == found.value)) ++found.place;
    if (found.place == end) return {-INFINITY, 0, first};
    Floats mass{};
    for (int n = first; n < whole; n += LANES) mass = mass + exponential(load(logits + n) - all(found.value));
    found.mass = total(mass);
    for (int n = whole; n < end; ++n) found.mass += std::exp(logits[n] - found.value);
    return found;
}

}  // namespace foretoken
