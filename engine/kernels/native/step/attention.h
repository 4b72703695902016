// Queries against the positions they see. Each is summed for itself, in the order of the positions: nothing
// beside it can change its bits.
//
// Keys lie sixteen positions to a group, dimension by dimension, so that sixteen scores are summed at once
// without adding up lanes; values lie position by position.
#pragma once

#include <algorithm>
#include <cmath>

#include "../vector.h"

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

    void copy(int from, int to) const {
        const T* source = keys + (size_t(from / LANES) * width) * LANES + from % LANES;
        T* group = keys + (size_t(to / LANES) * width) * LANES + to % LANES;
        for (int d = 0; d < width; ++d) group[size_t(d) * LANES] = source[size_t(d) * LANES];
        std::memcpy(values + size_t(to) * width, values + size_t(from) * width, sizeof(T) * width);
    }
};

constexpr int QUERIES = 16;  // that look at a block of the memory one after the other, while it is in the cache
constexpr int TILE = 4;      // of them at once: one reading serves them all
constexpr int GROUPS = 4;    // of positions at once: as many sums as hide the latency of adding
constexpr int BLOCK_OF_POSITIONS = GROUPS * LANES;

// A query and the positions it sees.
struct Query {
    const float* values;  // [width]
    int first, position;
    float* to;  // [width]
};

// Scores of Q queries for G groups of positions from `group` on, to scores[q * room + position].
template <int Q, int G, class T>
inline void score(const Memory<T>& memory, const Query* queries, int group, float* scores, size_t room) {
    const T* keys = memory.keys + size_t(group) * memory.width * LANES;
    Floats sum[Q][G];
    for (int q = 0; q < Q; ++q)
        for (int g = 0; g < G; ++g) sum[q][g] = Floats{};
    for (int d = 0; d < memory.width; ++d) {
        Floats key[G];
        for (int g = 0; g < G; ++g) key[g] = at(keys + (size_t(g) * memory.width + d) * LANES);
        for (int q = 0; q < Q; ++q) {
            const Floats value = all(queries[q].values[d]);
            for (int g = 0; g < G; ++g) sum[q][g] = fused(key[g], value, sum[q][g]);
        }
    }
    for (int q = 0; q < Q; ++q)
        for (int g = 0; g < G; ++g) store(scores + q * room + size_t(group + g) * LANES, sum[q][g]);
}

// Scores to weights, in place, for groups begin .. end - 1; returns what the weights are to be divided by.
inline float soften(const Query& query, float cap, int begin, int end, float* scores) {
    if (cap != 0)
        for (int g = begin; g < end; ++g) {
            float* part = scores + g * LANES;
            store(part, all(cap) * hyperbolic_tangent(load(part) / all(cap)));
        }
    for (int p = begin * LANES; p < query.first; ++p) scores[p] = -INFINITY;
    for (int p = query.position + 1; p < end * LANES; ++p) scores[p] = -INFINITY;
    Floats high = load(scores + begin * LANES);
    for (int g = begin + 1; g < end; ++g) high = maximum(high, load(scores + g * LANES));
    const Floats peak = all(largest(high));
    Floats mass{};
    for (int g = begin; g < end; ++g) {
        const Floats weight = exponential(load(scores + g * LANES) - peak);
        store(scores + g * LANES, weight);
        mass = mass + weight;
    }
    return total(mass);
}

// Adds the weighted values of positions first .. last to 16 * C dimensions from `d` on of what Q queries get.
template <int Q, int C, class T>
inline void mix(const Memory<T>& memory, const Query* queries, int first, int last, int d,
                const float* weights, size_t room) {
    Floats sum[Q][C];
    for (int q = 0; q < Q; ++q)
        for (int c = 0; c < C; ++c) sum[q][c] = load(queries[q].to + d + c * LANES);
    for (int p = first; p <= last; ++p) {
        const T* row = memory.values + size_t(p) * memory.width + d;
        Floats value[C];
        for (int c = 0; c < C; ++c) value[c] = at(row + c * LANES);
        for (int q = 0; q < Q; ++q) {
            const Floats weight = all(weights[q * room + p]);
            for (int c = 0; c < C; ++c) sum[q][c] = fused(value[c], weight, sum[q][c]);
        }
    }
    for (int q = 0; q < Q; ++q)
        for (int c = 0; c < C; ++c) store(queries[q].to + d + c * LANES, sum[q][c]);
}

// Calls use.operator()<Q>(q) for queries q .. q + Q - 1 until all of them had their turn.
template <class Use>
inline void in_tiles(int count, Use&& use) {
    static_assert(TILE == 4);
    int q = 0;
    for (; q + TILE <= count; q += TILE) use.template operator()<TILE>(q);
    switch (count - q) {
        case 1: return use.template operator()<1>(q);
        case 2: return use.template operator()<2>(q);
        case 3: return use.template operator()<3>(q);
    }
}

// What up to QUERIES queries take from what each of them sees. A position that one of them does not see has
// the weight 0 for it and adds nothing, so that a query's bits are those it has alone. `scores` has room
// for `room` positions, a multiple of sixteen, of each query; a score s becomes cap * tanh(s / cap) where
// cap is not 0.
template <class T>
inline void attend(const Memory<T>& memory, const Query* queries, int count, float cap, float* scores,
                   size_t room) {
    int first = queries[0].first, last = queries[0].position;
    for (int q = 1; q < count; ++q) {
        first = std::min(first, queries[q].first);
        last = std::max(last, queries[q].position);
    }
    const int begin = first / LANES, end = last / LANES + 1;
    for (int group = begin; group < end; group += GROUPS)
        in_tiles(count, [&]<int Q>(int q) {
            float* to = scores + q * room;
            if (group + GROUPS <= end) return score<Q, GROUPS>(memory, queries + q, group, to, room);
            for (int one = group; one < end; ++one) score<Q, 1>(memory, queries + q, one, to, room);
        });
    float masses[QUERIES];
    for (int q = 0; q < count; ++q) {
        masses[q] = soften(queries[q], cap, begin, end, scores + q * room);
        for (int d = 0; d < memory.width; d += LANES) store(queries[q].to + d, Floats{});
    }
    for (int start = first; start <= last; start += BLOCK_OF_POSITIONS) {
        const int stop = std::min(start + BLOCK_OF_POSITIONS - 1, last);
        in_tiles(count, [&]<int Q>(int q) {
            int d = 0;
            for (; d + 4 * LANES <= memory.width; d += 4 * LANES)
                mix<Q, 4>(memory, queries + q, start, stop, d, scores + q * room, room);
            for (; d < memory.width; d += LANES)
                mix<Q, 1>(memory, queries + q, start, stop, d, scores + q * room, room);
        });
    }
    for (int q = 0; q < count; ++q) {
        const Floats share = all(1.0f / masses[q]);
        for (int d = 0; d < memory.width; d += LANES) store(queries[q].to + d, load(queries[q].to + d) * share);
    }
}

}  // namespace foretoken
