// Mamba-2 (Dao and Gu 2024, arXiv 2405.21060), with the convolution and the gated norm of Granite 4's hybrids. A state S
// [head_dim][state] of each head takes in one row after the other:
//
//     S <- exp(dt A) S + (dt x) B^T;  output = S C + D x
//
// A state lies in tiles of sixteen of its head's dimensions, [head_dim / 16][state][16]. B and C are shared by the heads of a group: so
// rows are kept for later ones once all threads have read them; until then they are read where the linear layer put them.
#pragma once

#include "gated_delta.h"

namespace foretoken {

constexpr int MOST_TAPS = 16;  // of the convolution

// One sequence's memory of a layer, with what the layer does to it.
class StateSpace {
public:
    StateSpace(const Mamba2& layer, const Recurrence& memory)
        : layer_(layer), memory_(memory), recent_(memory.recent, layer.kept()) {}

    const RecentRows& recent() const { return recent_; }

    // Convolve what all heads share of the row that `past` ends with: the inputs of the last `kernel` positions, null before the first.
    // It becomes the n-th of `rows`.
    __attribute__((noinline)) void share(const float* const* past, int n, DeltaRow& rows) const {
        const int keys = layer_.groups * layer_.state;
        convolve(past, layer_.values(), keys, rows.key.data() + size_t(n) * keys);
        convolve(past, layer_.values() + keys, keys, rows.query.data() + size_t(n) * keys);
    }

    // Take in the n-th of `rows` for a head: states `from` and `to` are 0 or 1, and may be the same. Write its output [head_dim].
    __attribute__((noinline)) void take_in(const float* const* past, int head, int from, int to, int n, DeltaRow& rows, float* output) const {
        convolve(past, head * layer_.head_dim, layer_.head_dim, rows.value.data());
        const float step = softplus(past[layer_.kernel - 1][layer_.channels() + head] + layer_.step_bias[head]);
        const float decay = std::exp(layer_.decay[head] * step);
        const size_t size = size_t(layer_.head_dim) * layer_.state, first = head * size;
        const int group = head / (layer_.heads / layer_.groups), key = (n * layer_.groups + group) * layer_.state;
        update(memory_.states[from] + first, memory_.states[to] + first, decay, step, layer_.skip[head], rows, key, output);
    }

private:
    void convolve(const float* const* past, int first, int count, float* to) const {
        for (int c = 0; c < count; c += LANES) {
            Floats sum = load(layer_.convolution_bias + first + c);
            for (int tap = 0; tap < layer_.kernel; ++tap)
                if (past[tap]) sum = fused(load(past[tap] + first + c), load(layer_.convolution + size_t(tap) * layer_.channels() + first + c), sum);
            store(to + c, sum / (all(1.0f) + exponential(-sum)));
        }
    }

    void update(const float* from, float* to, float decay, float step, float skip, const DeltaRow& row, int first, float* output) const {
        constexpr int SUMS = 4;  // as many as hide the latency of adding; state is a multiple of sixteen
        const float *key = row.key.data() + first, *query = row.query.data() + first;
        const int width = layer_.state;
        for (int d = 0; d < layer_.head_dim; d += LANES, from += size_t(width) * LANES, to += size_t(width) * LANES) {
            const Floats value = load(row.value.data() + d), added = value * all(step);
            Floats sums[SUMS]{};
            for (int n = 0; n < width; n += SUMS)
                for (int s = 0; s < SUMS; ++s) {
                    const Floats state = fused(added, all(key[n + s]), load(from + (n + s) * LANES) * all(decay));
                    store(to + (n + s) * LANES, state);
                    sums[s] = fused(state, all(query[n + s]), sums[s]);
                }
            store(output + d, fused(value, all(skip), (sums[0] + sums[1]) + (sums[2] + sums[3])));
        }
    }

    const Mamba2& layer_;
    const Recurrence& memory_;
    const RecentRows recent_;
};

}  // namespace foretoken
