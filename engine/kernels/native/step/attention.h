// Attention of queries over cached positions. Each query's sums run over the positions in order, so no query beside it can change
// its bits.
//
// Keys lie in groups of sixteen positions, dimension by dimension, so that sixteen scores are summed at once without a horizontal
// add; values lie position by position.
#pragma once

#include <algorithm>
#include <cmath>

#include "../vector.h"

namespace foretoken {

inline Floats at(const float* from) { return load(from); }
inline Floats at(const uint16_t* from) { return widen(from); }
inline void put(float* to, float value) { *to = value; }
inline void put(uint16_t* to, float value) { *to = narrow(value); }

// The cache of one key-value head: keys [groups][width][16], values [positions][width].
template <class T>
struct HeadCache {
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

constexpr int QUERY_TILE = 16;                    // queries that read a tile of positions in turn, while it is in the cache
constexpr int REGISTER_QUERIES = 4;               // of them at once: one load serves them all
constexpr int REGISTER_GROUPS = 4;                // groups of positions at once: as many sums as hide the latency of adding
constexpr int KV_TILE = REGISTER_GROUPS * LANES;  // positions

// A query and the positions it sees.
struct Query {
    const float* values;  // [width]
    int first, last;
    float* acc;  // [width]; in the end the output
    float sink = -INFINITY;  // a score that takes part in the softmax, without a value
};

// Write scores of Q queries for G groups of positions from `group` on, to scores[q * capacity + position].
template <int Q, int G, class T>
inline void score(const HeadCache<T>& cache, const Query* queries, int group, float* scores, size_t capacity) {
    const T* keys = cache.keys + size_t(group) * cache.width * LANES;
    Floats sum[Q][G];
    for (int q = 0; q < Q; ++q)
        for (int g = 0; g < G; ++g) sum[q][g] = Floats{};
    for (int d = 0; d < cache.width; ++d) {
        Floats key[G];
        for (int g = 0; g < G; ++g) key[g] = at(keys + (size_t(g) * cache.width + d) * LANES);
        for (int q = 0; q < Q; ++q) {
            const Floats value = all(queries[q].values[d]);
            for (int g = 0; g < G; ++g) sum[q][g] = fused(key[g], value, sum[q][g]);
        }
    }
    for (int q = 0; q < Q; ++q)
        for (int g = 0; g < G; ++g) store(scores + q * capacity + size_t(group + g) * LANES, sum[q][g]);
}

// Replace scores s of groups begin .. end - 1 by p = e^(s - m_i), where m_i is the largest; return l_i, the sum of p and the sink's.
inline float exponentiate(const Query& query, float cap, int begin, int end, float* scores) {
    if (cap != 0)
        for (int g = begin; g < end; ++g) {
            float* part = scores + g * LANES;
            store(part, all(cap) * hyperbolic_tangent(load(part) / all(cap)));
        }
    for (int p = begin * LANES; p < query.first; ++p) scores[p] = -INFINITY;
    for (int p = query.last + 1; p < end * LANES; ++p) scores[p] = -INFINITY;
    Floats high = load(scores + begin * LANES);
    for (int g = begin + 1; g < end; ++g) high = maximum(high, load(scores + g * LANES));
    const Floats m_i = all(std::max(largest(high), query.sink));
    Floats l_i{};
    for (int g = begin; g < end; ++g) {
        const Floats p = exponential(load(scores + g * LANES) - m_i);
        store(scores + g * LANES, p);
        l_i = l_i + p;
    }
    return total(l_i) + exponential(all(query.sink) - m_i)[0];
}

// Add p * value of positions first .. last to 16 * C dimensions of acc, from `d` on, of Q queries.
template <int Q, int C, class T>
inline void accumulate(const HeadCache<T>& cache, const Query* queries, int first, int last, int d,
                       const float* weights, size_t capacity) {
    Floats acc[Q][C];
    for (int q = 0; q < Q; ++q)
        for (int c = 0; c < C; ++c) acc[q][c] = load(queries[q].acc + d + c * LANES);
    for (int position = first; position <= last; ++position) {
        const T* row = cache.values + size_t(position) * cache.width + d;
        Floats value[C];
        for (int c = 0; c < C; ++c) value[c] = at(row + c * LANES);
        for (int q = 0; q < Q; ++q) {
            const Floats p = all(weights[q * capacity + position]);
            for (int c = 0; c < C; ++c) acc[q][c] = fused(value[c], p, acc[q][c]);
        }
    }
    for (int q = 0; q < Q; ++q)
        for (int c = 0; c < C; ++c) store(queries[q].acc + d + c * LANES, acc[q][c]);
}

// Call use.operator()<Q>(q) for queries q .. q + Q - 1, until all `count` are done.
template <class Use>
inline void in_register_tiles(int count, Use&& use) {
    static_assert(REGISTER_QUERIES == 4);
    int q = 0;
    for (; q + REGISTER_QUERIES <= count; q += REGISTER_QUERIES) use.template operator()<REGISTER_QUERIES>(q);
    switch (count - q) {
        case 1: return use.template operator()<1>(q);
        case 2: return use.template operator()<2>(q);
        case 3: return use.template operator()<3>(q);
    }
}

// Compute the attention output of up to QUERY_TILE queries. A position that one of them does not see has p = 0 and adds nothing,
// so a query has the bits it has alone. `scores` has space for `capacity` positions, a multiple of sixteen, of each query. With a
// cap other than 0, a score s becomes cap * tanh(s / cap).
template <class T>
inline void attend(const HeadCache<T>& cache, const Query* queries, int count, float cap, float* scores,
                   size_t capacity) {
    int first = queries[0].first, last = queries[0].last;
    for (int q = 1; q < count; ++q) {
        first = std::min(first, queries[q].first);
        last = std::max(last, queries[q].last);
    }
    const int begin = first / LANES, end = last / LANES + 1;
    for (int group = begin; group < end; group += REGISTER_GROUPS)
        in_register_tiles(count, [&]<int Q>(int q) {
            float* to = scores + q * capacity;
            if (group + REGISTER_GROUPS <= end) return score<Q, REGISTER_GROUPS>(cache, queries + q, group, to, capacity);
            for (int one = group; one < end; ++one) score<Q, 1>(cache, queries + q, one, to, capacity);
        });
    float l_i[QUERY_TILE];
    for (int q = 0; q < count; ++q) {
        l_i[q] = exponentiate(queries[q], cap, begin, end, scores + q * capacity);
        for (int d = 0; d < cache.width; d += LANES) store(queries[q].acc + d, Floats{});
    }
    for (int start = first; start <= last; start += KV_TILE) {
        const int stop = std::min(start + KV_TILE - 1, last);
        in_register_tiles(count, [&]<int Q>(int q) {
            int d = 0;
            for (; d + 4 * LANES <= cache.width; d += 4 * LANES)
                accumulate<Q, 4>(cache, queries + q, start, stop, d, scores + q * capacity, capacity);
            for (; d < cache.width; d += LANES)
                accumulate<Q, 1>(cache, queries + q, start, stop, d, scores + q * capacity, capacity);
        });
    }
    for (int q = 0; q < count; ++q) {
        const Floats scale = all(1.0f / l_i[q]);
        for (int d = 0; d < cache.width; d += LANES) store(queries[q].acc + d, load(queries[q].acc + d) * scale);
    }
}

}  // namespace foretoken
