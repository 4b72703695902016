// The gated delta net (Yang, Kautz, Hatamizadeh 2024, arXiv 2412.06464), with the convolution and the gated norm of
// Qwen3-Next and Qwen3.5. A state S [key_dim][value_dim] of each value head takes in one row after the other:
//
//     S <- decay S;  S <- S + k (beta (v - S^T k))^T;  output = S^T q
//
// A state lies in tiles of sixteen value dimensions, [value_dim / 16][key_dim][16]: a tile stays in the first cache while
// it is read for S^T k and read again for the update. Every row goes through the same two functions, which are not
// inlined: no row's bits can depend on whether it is computed for its output or to catch up with what was committed.
#pragma once

#include <cmath>
#include <vector>

#include "arithmetic.h"
#include "recent_rows.h"

namespace foretoken {

// What one row does to the states of the value heads that share a key head, and what it asks of them.
struct DeltaRow {
    DeltaRow(int key_dim, int values) : query(key_dim), key(key_dim), value(values), output(values) {}
    std::vector<float> query, key, value, output;  // the last two of all these value heads
};

inline float softplus(float x) { return x > 20.0f ? x : std::log1p(std::exp(x)); }

// x to length one, times `scale`.
inline void make_unit(float* x, int width, float scale) {
    Floats squares{};
    for (int k = 0; k < width; k += LANES) squares = fused(load(x + k), load(x + k), squares);
    const Floats factor = all(scale / std::sqrt(total(squares) + 1e-6f));
    for (int k = 0; k < width; k += LANES) store(x + k, load(x + k) * factor);
}

// One sequence's recurrent memory of a layer, with what the layer does to it.
class DeltaNet {
public:
    DeltaNet(const GatedDelta& layer, const Recurrence& memory)
        : layer_(layer), memory_(memory), recent_(memory.recent, layer.channels() + 2 * layer.value_heads) {}

    const RecentRows& recent() const { return recent_; }

    // Keeps what `row` [inputs' outputs] has for key head `head` in `to`, one of the recent rows.
    void remember(const float* row, int head, float* to) const { copy(head, row, row + layer_.channels() + layer_.values(), to); }
    void place(int head, int number, int position) const {
        copy(head, recent_.in_tree(number), recent_.in_tree(number) + layer_.channels(), recent_.at(position));
    }

    // Takes in the row at `position` for key head `head`: states `from` and `to` are 0 or 1, and may be the same.
    void take_in(int head, int position, int from, int to, DeltaRow& row) const {
        make_row(head, position, row);
        const float* rates = recent_.at(position) + layer_.channels();
        const size_t size = size_t(layer_.key_dim) * layer_.value_dim;
        for (int each = 0; each < layer_.group(); ++each) {
            const int h = layer_.value_head(head, each);
            const float decay = std::exp(layer_.decay[h] * softplus(rates[h] + layer_.decay_bias[h]));
            update(memory_.states[from] + h * size, memory_.states[to] + h * size, decay,
                   sigmoid(rates[layer_.value_heads + h]), row, each * layer_.value_dim);
        }
    }

private:
    int values_of(int value_head) const { return 2 * layer_.key_heads * layer_.key_dim + value_head * layer_.value_dim; }

    // The channels of key head `head`, and its alphas and betas.
    void copy(int head, const float* channels, const float* rates, float* to) const {
        const int keys = layer_.key_dim;
        const auto range = [&](size_t first, int count) { std::memcpy(to + first, channels + first, sizeof(float) * count); };
        range(size_t(head) * keys, keys);
        range(size_t(layer_.key_heads + head) * keys, keys);
        for (int each = 0; each < layer_.group(); ++each) {
            const int h = layer_.value_head(head, each);
            range(values_of(h), layer_.value_dim);
            for (const int rate : {h, layer_.value_heads + h}) to[layer_.channels() + rate] = rates[rate];
        }
    }

    __attribute__((noinline)) void make_row(int head, int position, DeltaRow& row) const {
        const int keys = layer_.key_dim;
        convolve(head * keys, keys, position, row.query.data());
        convolve((layer_.key_heads + head) * keys, keys, position, row.key.data());
        for (int each = 0; each < layer_.group(); ++each)
            convolve(values_of(layer_.value_head(head, each)), layer_.value_dim, position, row.value.data() + each * layer_.value_dim);
        make_unit(row.query.data(), keys, 1.0f / std::sqrt(float(keys)));
        make_unit(row.key.data(), keys, 1.0f);
    }

    // Channels first .. first + count - 1, over the last `kernel` positions.
    void convolve(int first, int count, int position, float* to) const {
        for (int c = 0; c < count; c += LANES) {
            const Floats sum = recent_.convolved(layer_.convolution, layer_.kernel, layer_.channels(), position, first + c);
            store(to + c, sum / (all(1.0f) + exponential(-sum)));
        }
    }

    // The state of one value head, whose values and outputs begin at `at` in `row`.
    __attribute__((noinline)) void update(const float* from, float* to, float decay, float beta, DeltaRow& row, int at) const {
        constexpr int SUMS = 4;  // as many as hide the latency of adding; key_dim is a multiple of sixteen
        const int keys = layer_.key_dim;
        for (int d = 0; d < layer_.value_dim; d += LANES, from += size_t(keys) * LANES, to += size_t(keys) * LANES) {
            Floats known[SUMS]{}, output[SUMS]{};
            for (int k = 0; k < keys; k += SUMS)
                for (int s = 0; s < SUMS; ++s) known[s] = fused(load(from + (k + s) * LANES), all(row.key[k + s]), known[s]);
            const Floats before = ((known[0] + known[1]) + (known[2] + known[3])) * all(decay);
            const Floats delta = (load(row.value.data() + at + d) - before) * all(beta);
            for (int k = 0; k < keys; k += SUMS)
                for (int s = 0; s < SUMS; ++s) {
                    const Floats state = fused(delta, all(row.key[k + s]), load(from + (k + s) * LANES) * all(decay));
                    store(to + (k + s) * LANES, state);
                    output[s] = fused(state, all(row.query[k + s]), output[s]);
                }
            store(row.output.data() + at + d, (output[0] + output[1]) + (output[2] + output[3]));
        }
    }

    const GatedDelta& layer_;
    const Recurrence& memory_;
    const RecentRows recent_;
};

}  // namespace foretoken
