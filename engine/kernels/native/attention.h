// One query against the positions it sees. Each query is alone, so nothing beside it can change its bits.
//
// Keys lie sixteen positions to a group, dimension by dimension, so that sixteen scores are summed at once
// without adding up lanes; values lie position by position.
#pragma once

#include <cmath>

#include "vector.h"

namespace foretoken {

inline Floats at(const float* from) { return load(from); }
inline Floats at(const uint16_t* from) { return widen(from); }
inline void put(float* to, float value) { *to = value; }
inline void put(uint16_t* to, float value) { *to = narrow(value); }

// The memory of one key-value head: keys [groups][width][16], values [positions][width].
template <class T>
struct Memory {
    T* keys;
    T* values;
    int width;

    void write(int position, const float* key, const float* value) const {
        T* group = keys + (size_t(position / LANES) * width) * LANES + position % LANES;
        T* row = values + size_t(position) * width;
        for (int d = 0; d < width; ++d) {
            put(group + size_t(d) * LANES, key[d]);
            put(row + d, value[d]);
        }
    }
};

constexpr int GROUPS = 4;  // of positions at once: as many sums as hide the latency of adding

template <class T, int G>
inline void score(const Memory<T>& memory, const float* query, int group, float* scores) {
    const T* keys = memory.keys + size_t(group) * memory.width * LANES;
    Floats sum[G];
    for (int g = 0; g < G; ++g) sum[g] = Floats{};
    for (int d = 0; d < memory.width; ++d) {
        Floats value = all(query[d]);
        for (int g = 0; g < G; ++g)
            sum[g] = fused(at(keys + (size_t(g) * memory.width + d) * LANES), value, sum[g]);
    }
    for (int g = 0; g < G; ++g) store(scores + g * LANES, sum[g]);
}

// What `query` takes from positions first .. position. `scores` has room for all positions, rounded up to
// sixteen; a score s becomes cap * tanh(s / cap) where cap is not 0.
template <class T>
inline void attend(const Memory<T>& memory, const float* query, int first, int position, float cap,
                   float* scores, float* to) {
    const int begin = first / LANES, end = position / LANES + 1;
    float* base = scores - begin * LANES;  // by absolute position
    int group = begin;
    for (; group + GROUPS <= end; group += GROUPS)
        score<T, GROUPS>(memory, query, group, base + group * LANES);
    for (; group < end; ++group) score<T, 1>(memory, query, group, base + group * LANES);

    if (cap != 0)
        for (int g = begin; g < end; ++g) {
            float* part = base + g * LANES;
            store(part, all(cap) * hyperbolic_tangent(load(part) / all(cap)));
        }
    for (int p = begin * LANES; p < first; ++p) base[p] = -INFINITY;
    for (int p = position + 1; p < end * LANES; ++p) base[p] = -INFINITY;

    Floats high = load(base + begin * LANES);
    for (int g = begin + 1; g < end; ++g) high = maximum(high, load(base + g * LANES));
    const Floats peak = all(largest(high));
    Floats mass{};
    for (int g = begin; g < end; ++g) {
        Floats weight = exponential(load(base + g * LANES) - peak);
        store(base + g * LANES, weight);
        mass = mass + weight;
    }
    const Floats share = all(1.0f / total(mass));

    for (int d = 0; d < memory.width; d += 4 * LANES) {
        const int count = (memory.width - d) / LANES < 4 ? (memory.width - d) / LANES : 4;
        Floats sum[4] = {};
        for (int p = first; p <= position; ++p) {
            const T* row = memory.values + size_t(p) * memory.width + d;
            const Floats weight = all(base[p]);
            for (int c = 0; c < count; ++c) sum[c] = fused(at(row + c * LANES), weight, sum[c]);
        }
        for (int c = 0; c < count; ++c) store(to + d + c * LANES, sum[c] * share);
    }
}

}  // namespace foretoken
