// Attention of queries over cached positions. Each query's sums run over the positions in one fixed order, so no query beside it
// can change its bits. Where the processor multiplies pairs of bf16 numbers, a cache in bf16 is read so: two dimensions of a key or two positions
// of values at once. Queries and probabilities are then rounded to bf16 too, as GPUs do (FlashAttention).
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

// How numbers of type T are multiplied: COUNT of them of each lane at once. The factors that all lanes share were rounded by `round`.
template <class T>
struct Unit {
    static constexpr int COUNT = 1;
    static Floats of(const T* first, const T*) { return at(first); }
    static Floats shared(const float* factors, int index) { return all(factors[index]); }
    static void round(float*, int) {}
    static Floats multiply_add(Floats a, Floats b, Floats sum) { return fused(a, b, sum); }
};

#if defined(__AVX512BF16__)
template <>
struct Unit<uint16_t> {
    static constexpr int COUNT = 2;
    static Floats of(const uint16_t* first, const uint16_t* second) { return pairs(first, second); }
    static Floats shared(const float* factors, int index) {
        int32_t both;  // not a float: its bits may be any
        std::memcpy(&both, factors + index / 2, sizeof both);
        return std::bit_cast<Floats>(all(both));
    }
    static void round(float* factors, int count) {
        for (int k = 0; k < count; k += LANES) {
            const Halves narrowed = narrow(load(factors + k));
            std::memcpy(reinterpret_cast<uint16_t*>(factors) + k, &narrowed, sizeof narrowed);
        }
    }
    static Floats multiply_add(Floats a, Floats b, Floats sum) { return fused_pairs(a, b, sum); }
};
#endif

constexpr int REGISTER_QUERIES = 4;               // queries at once: one load serves them all
constexpr int REGISTER_GROUPS = 4;                // groups of positions at once: as many sums as hide the latency of adding
constexpr int KV_TILE = REGISTER_GROUPS * LANES;  // positions that all queries attend to while they are in the cache
constexpr int QUERY_TILE = 64;                    // queries that one stream of the keys and values serves
constexpr float LOWEST = -1e30f;

// The cache of one key-value head: keys [groups][width][16], values [positions][width].
template <class T>
struct HeadCache {
    T* keys;
    T* values;
    int width;

    // Fetch, beside dimension d of the keys of the tile at `group`, as much of its values and of the next tile's keys. Inlined, since
    // GCC 12 leaves calls out that only prefetch.
    __attribute__((always_inline)) void fetch(int group, int d) const {
        const T *value = values + size_t(group) * LANES * width + size_t(d) * KV_TILE, *key = keys + size_t(group + REGISTER_GROUPS) * LANES * width + size_t(d) * KV_TILE;
        for (int k = 0; k < KV_TILE; k += 64 / sizeof(T)) {
            __builtin_prefetch(value + k, 0, 2);
            __builtin_prefetch(key + k, 0, 2);
        }
    }

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

// A query and the positions it sees.
struct Query {
    float* values;  // [width]; rounded in place, see Unit
    int first, last;
    float* acc;  // [width]; in the end the output
    float sink = -INFINITY;  // a score that takes part in the softmax, without a value
    float m_i = LOWEST;      // the largest score so far
    Floats l_i{};            // the sum of e^(s - m_i)
};

// Write scores of Q queries for G groups of positions from `group` on, to scores[q * KV_TILE].
template <int Q, int G, class T>
inline void score(const HeadCache<T>& cache, const Query* queries, int group, float* scores) {
    const T* keys = cache.keys + size_t(group) * cache.width * LANES;
    Floats sum[Q][G];
    for (int q = 0; q < Q; ++q)
        for (int g = 0; g < G; ++g) sum[q][g] = Floats{};
    for (int d = 0; d < cache.width; d += Unit<T>::COUNT) {
        Floats key[G];
        for (int g = 0; g < G; ++g) {
            const T* from = keys + (size_t(g) * cache.width + d) * LANES;
            key[g] = Unit<T>::of(from, from + LANES);
        }
        if constexpr (G == REGISTER_GROUPS)
            for (int k = 0; k < Unit<T>::COUNT; ++k) cache.fetch(group, d + k);
        for (int q = 0; q < Q; ++q) {
            const Floats value = Unit<T>::shared(queries[q].values, d);
            for (int g = 0; g < G; ++g) sum[q][g] = Unit<T>::multiply_add(key[g], value, sum[q][g]);
        }
    }
    for (int q = 0; q < Q; ++q)
        for (int g = 0; g < G; ++g) store(scores + q * KV_TILE + g * LANES, sum[q][g]);
}

// Replace scores s of the positions from `start` on by p = e^(s - m_i), with the largest score m_i so far. Where it has grown, scale
// what was added up before (online softmax, Milakov and Gimelshein 2018).
inline void exponentiate(Query& query, float cap, int start, int groups, int width, float* scores) {
    if (cap != 0)
        for (int k = 0; k < groups * LANES; k += LANES) store(scores + k, all(cap) * hyperbolic_tangent(load(scores + k) / all(cap)));
    for (int p = start; p < std::min(query.first, start + groups * LANES); ++p) scores[p - start] = -INFINITY;
    for (int p = std::max(query.last + 1, start); p < start + groups * LANES; ++p) scores[p - start] = -INFINITY;
    Floats high = load(scores);
    for (int g = 1; g < groups; ++g) high = maximum(high, load(scores + g * LANES));
    const float m_i = std::max(query.m_i, largest(high));
    if (m_i > query.m_i) {
        const Floats scale = exponential(all(query.m_i - m_i));
        query.l_i *= scale;
        for (int d = 0; d < width; d += LANES) store(query.acc + d, load(query.acc + d) * scale);
        query.m_i = m_i;
    }
    for (int g = 0; g < groups; ++g) {
        const Floats p = exponential(load(scores + g * LANES) - all(m_i));
        store(scores + g * LANES, p);
        query.l_i += p;
    }
}

// Add p * value of the positions first .. end - 1 to 16 * C dimensions of acc, from `d` on, of Q queries. `weights`: p from `start` on.
template <int Q, int C, class T>
inline void accumulate(const HeadCache<T>& cache, const Query* queries, int start, int first, int end, int d, const float* weights) {
    Floats acc[Q][C];
    for (int q = 0; q < Q; ++q)
        for (int c = 0; c < C; ++c) acc[q][c] = load(queries[q].acc + d + c * LANES);
    for (int position = first; position < end; position += Unit<T>::COUNT) {
        const T* row = cache.values + size_t(position) * cache.width + d;
        Floats value[C];
        for (int c = 0; c < C; ++c) value[c] = Unit<T>::of(row + c * LANES, row + cache.width + c * LANES);
        for (int q = 0; q < Q; ++q) {
            const Floats p = Unit<T>::shared(weights + q * KV_TILE, position - start);
            for (int c = 0; c < C; ++c) acc[q][c] = Unit<T>::multiply_add(value[c], p, acc[q][c]);
        }
    }
    for (int q = 0; q < Q; ++q)
        for (int c = 0; c < C; ++c) store(queries[q].acc + d + c * LANES, acc[q][c]);
}

// Attend to positions first .. last of one tile for Q queries.
template <int Q, class T>
inline void attend_tile(const HeadCache<T>& cache, Query* queries, float cap, int first, int last) {
    const int start = first / LANES * LANES, groups = last / LANES + 1 - start / LANES;
    float scores[Q * KV_TILE];
    if (groups == REGISTER_GROUPS) score<Q, REGISTER_GROUPS>(cache, queries, start / LANES, scores);
    else
        for (int g = 0; g < groups; ++g) score<Q, 1>(cache, queries, start / LANES + g, scores + g * LANES);
    for (int q = 0; q < Q; ++q) {
        exponentiate(queries[q], cap, start, groups, cache.width, scores + q * KV_TILE);
        Unit<T>::round(scores + q * KV_TILE, groups * LANES);
    }
    first -= first % Unit<T>::COUNT;  // p is 0 before it and behind the last
    int d = 0;
    for (; d + 4 * LANES <= cache.width; d += 4 * LANES) accumulate<Q, 4>(cache, queries, start, first, last + 1, d, scores);
    for (; d < cache.width; d += LANES) accumulate<Q, 1>(cache, queries, start, first, last + 1, d, scores);
}

// Compute the attention output of some queries, tile after tile of positions, so that keys and values are read once. Tiles begin at
// multiples of KV_TILE for every query, and a position that one does not see has p = 0 and adds nothing, so a query has the bits it has
// alone. With a cap other than 0, a score s becomes cap * tanh(s / cap).
template <class T>
inline void attend(const HeadCache<T>& cache, Query* queries, int count, float cap) {
    int first = queries[0].first, last = queries[0].last;
    for (int q = 0; q < count; ++q) {
        first = std::min(first, queries[q].first);
        last = std::max(last, queries[q].last);
        queries[q].m_i = std::max(queries[q].sink, LOWEST);
        Unit<T>::round(queries[q].values, cache.width);
        for (int d = 0; d < cache.width; d += LANES) store(queries[q].acc + d, Floats{});
    }
    for (int end; first <= last; first = end) {
        end = std::min((first / KV_TILE + 1) * KV_TILE, last + 1);
        int q = 0;
        for (; q + REGISTER_QUERIES <= count; q += REGISTER_QUERIES) attend_tile<REGISTER_QUERIES>(cache, queries + q, cap, first, end - 1);
        static_assert(REGISTER_QUERIES == 4);
        switch (count - q) {
            case 1: attend_tile<1>(cache, queries + q, cap, first, end - 1); break;
            case 2: attend_tile<2>(cache, queries + q, cap, first, end - 1); break;
            case 3: attend_tile<3>(cache, queries + q, cap, first, end - 1); break;
        }
    }
    for (int q = 0; q < count; ++q) {
        const float l_i = total(queries[q].l_i) + exponential(all(queries[q].sink - queries[q].m_i))[0];
        const Floats scale = all(1.0f / l_i);
        for (int d = 0; d < cache.width; d += LANES) store(queries[q].acc + d, load(queries[q].acc + d) * scale);
    }
}

}  // namespace foretoken
