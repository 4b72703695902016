// A decoder's step for some rows of one sequence or of several, done by all threads of a pool together.
//
// Linear layers see all rows alike; what looks back looks into the cache of the row's own sequence. A row's bits are
// those it has alone, whoever the others belong to.
//
// Every thread keeps the residual stream for itself and adds what was computed together to it: that costs
// a few thousand additions, and saves a barrier for every norm. What a thread computes for others lies in
// `Shared`; a barrier stands between writing and reading it.
#pragma once

#include <cmath>
#include <algorithm>
#include <memory>
#include <vector>

#include "attention.h"
#include "../matrix/matrix.h"
#include "../pool.h"
#include "structures.h"

namespace foretoken {

inline float norm_factor(const float* x, int width, float epsilon) {
    Floats squares{};
    for (int k = 0; k < width; k += LANES) {
        Floats part = load(x + k);
        squares = fused(part, part, squares);
    }
    return 1.0f / std::sqrt(total(squares) / float(width) + epsilon);
}

// RMSNorm (Zhang and Sennrich 2019).
inline void normalise(const float* x, const float* weight, int width, float epsilon, float* to) {
    const Floats factor = all(norm_factor(x, width, epsilon));
    for (int k = 0; k < width; k += LANES) store(to + k, load(x + k) * factor * load(weight + k));
}

inline Floats gated(Gate gate, Floats x) {
    switch (gate) {
        case Gate::SILU: return x / (all(1.0f) + exponential(-x));
        case Gate::GELU_TANH: {
            Floats inner = all(0.79788456f) * fused(all(0.044715f) * x * x, x, x);
            return all(0.5f) * x * (all(1.0f) + hyperbolic_tangent(inner));
        }
        case Gate::GELU: {
            float lanes[LANES];
            store(lanes, x);
            for (float& lane : lanes) lane = 0.5f * lane * (1.0f + std::erf(lane * 0.70710678f));
            return load(lanes);
        }
        case Gate::RELU: return maximum(x, Floats{});
    }
    return x;
}

constexpr int GATES = 8;  // panels of them that are made before they are applied, while a cache holds them

// What one thread has for itself.
struct Scratch {
    Scratch(const Shape& shape, int widest, int head_dim)
        : x(size_t(MOST_ROWS) * shape.hidden),
          normed(size_t(MOST_ROWS) * shape.hidden),
          arranged(widest),
          scores(size_t(QUERIES) * rounded_up(shape.context, LANES)),
          head(size_t(QUERIES) * head_dim),
          gates(size_t(2) * MOST_ROWS * GATES * LANES) {}

    std::vector<float> x, normed;
    Arranged arranged;
    std::vector<float> scores, head;
    std::vector<float> gates;  // [MOST_ROWS][GATES * 16], and behind them what they are for
};

class Decoder {
public:
    Decoder(const Shape& shape, Pool& pool) : shape_(shape), pool_(pool) {
        int qkv = 0, attended = 0, head_dim = 0, intermediate = 0;  // the widest layer's
        for (int index = 0; index < shape.count; ++index) {
            const Layer& layer = shape.layers[index];
            qkv = std::max(qkv, layer.attention.qkv_width());
            attended = std::max(attended, layer.attention.attended());
            head_dim = std::max(head_dim, layer.attention.head_dim);
            intermediate = std::max(intermediate, layer.mlp.intermediate);
        }
        const int widest = std::max({shape.hidden, attended, intermediate});
        for (int thread = 0; thread < pool.count(); ++thread)
            scratch_.push_back(std::make_unique<Scratch>(shape, widest, head_dim));
        qkv_.resize(size_t(MOST_ROWS) * qkv);
        attended_.resize(size_t(MOST_ROWS) * attended);
        mixed_.resize(size_t(MOST_ROWS) * shape.hidden);
        active_.resize(size_t(MOST_ROWS) * intermediate);
        counters_ = std::vector<WorkCounter>(size_t(shape.count) * LINEARS + 1);
    }

    // Logits of a row.
    int width(const Step& step) const { return step.trimmed.count ? step.trimmed.panels * LANES : shape_.vocabulary; }

    // Up to MOST_ROWS rows in all.
    void run(const Step& step) {
        step_ = step;
        rows_ = 0;
        for (int number = 0; number < step.count; ++number) {
            const Sequence& own = step.sequences[number];
            int* positions = positions_ + rows_;
            for (int r = 0; r < own.rows; ++r)
                positions[r] = !own.parents ? own.start + r : own.parents[r] < 0 ? own.start : positions[own.parents[r]] + 1;
            rows_ += own.rows;
        }
        for (WorkCounter& each : counters_) each.next.store(0, std::memory_order_relaxed);
        pool_.run([](void* self, int thread, Pool&) { static_cast<Decoder*>(self)->work(thread); }, this);
    }

private:
    enum Linear { QKV, OUTPUT, GATE_UP, DOWN, LINEARS };  // of a layer

    void work(int thread) {
        Scratch& own = *scratch_[thread];
        embed(own);
        for (int index = 0; index < shape_.count; ++index) {
            const Layer& layer = shape_.layers[index];
            write_aux(index, own, thread);
            switch (layer.mixer) {
                case Mixer::ATTENTION: attention(index, layer, own, thread); break;
            }
            add(own, layer.mixer_after);
            switch (layer.feed_forward) {
                case FeedForward::GATED_MLP: gated_mlp(index, layer, own); break;
            }
            add(own, layer.mlp_after);
        }
        write_aux(shape_.count, own, thread);
        if (step_.last > 0) logits(own);
    }

    // Stores this thread's share of the rows that enter layer `index`, where somebody wants them.
    void write_aux(int index, Scratch& own, int thread) {
        each_sequence([&](const Sequence& sequence, int before) {
            for (int place = 0; place < sequence.cache.aux_count; ++place) {
                const AuxLayer& aux = sequence.cache.aux_layers[place];
                if (aux.layer != index && !(aux.layer < 0 && index == shape_.count)) continue;
                const auto [first, end] = part(sequence.rows, thread);
                for (int r = first; r < end; ++r) write_aux_row(sequence, aux, r, own.x.data() + size_t(before + r) * shape_.hidden, own);
            }
        });
    }

    void write_aux_row(const Sequence& sequence, const AuxLayer& aux, int r, const float* row, Scratch& own) {
        if (aux.layer < 0) {
            normalise(row, shape_.norm, shape_.hidden, shape_.epsilon, own.normed.data());
            row = own.normed.data();
        }
        const size_t start = size_t(sequence.start + r) * shape_.hidden;
        if (sequence.cache.bf16)
            for (int k = 0; k < shape_.hidden; ++k) put(static_cast<uint16_t*>(aux.rows) + start + k, row[k]);
        else std::memcpy(static_cast<float*>(aux.rows) + start, row, sizeof(float) * shape_.hidden);
    }

    void embed(Scratch& own) {
        for (int r = 0; r < rows_; ++r) {
            float* row = own.x.data() + size_t(r) * shape_.hidden;
            shape_.embedding->row(int(step_.tokens[r]), row);
            if (shape_.embedding_scale != 1.0f)
                for (int k = 0; k < shape_.hidden; ++k) row[k] *= shape_.embedding_scale;
        }
    }

    // Mixers and feed-forwards leave their result in `mixed_`, and end with a barrier.
    void attention(int index, const Layer& layer, Scratch& own, int thread) {
        const Attention& weights = layer.attention;
        linear(*weights.qkv, normed(own, layer.mixer_norm), shape_.hidden, own, counter(index, QKV), qkv_);
        pool_.barrier();
        if (step_.sequences[0].cache.bf16) attend_all<uint16_t>(weights, own, thread);
        else attend_all<float>(weights, own, thread);
        pool_.barrier();
        linear(*weights.output, attended_.data(), weights.attended(), own, counter(index, OUTPUT), mixed_);
        pool_.barrier();
    }

    void gated_mlp(int index, const Layer& layer, Scratch& own) {
        const GatedMlp& mlp = layer.mlp;
        const Matrix& gate_up = *mlp.gate_up;
        const int width = mlp.intermediate, panels = width / LANES;
        const Arranged& rows = own.arranged.arrange(gate_up.kinds, normed(own, layer.mlp_norm), rows_, shape_.hidden);
        pool_.parallel_for(counter(index, GATE_UP), panels, [&](int first, int end) {
            for (; first < end; first += GATES) activate(mlp, rows, first, std::min(first + GATES, end), own);
        });
        pool_.barrier();
        linear(*mlp.down, active_.data(), width, own, counter(index, DOWN), mixed_);
        pool_.barrier();
    }

    // Panels first .. end - 1, at most GATES, of what the gates let through.
    void activate(const GatedMlp& mlp, const Arranged& rows, int first, int end, Scratch& own) {
        constexpr int STRIDE = GATES * LANES;
        const Matrix& gate_up = *mlp.gate_up;
        const int panels = mlp.intermediate / LANES;
        float *gates = own.gates.data(), *up = gates + MOST_ROWS * STRIDE;
        // Where the first panel's outputs would stand if these began with them.
        gate_up.multiply(rows, first, end, gates - ptrdiff_t(first) * LANES, STRIDE);
        gate_up.multiply(rows, panels + first, panels + end, up - ptrdiff_t(panels + first) * LANES, STRIDE);
        for (int r = 0; r < rows_; ++r, gates += STRIDE, up += STRIDE) {
            float* to = active_.data() + size_t(r) * mlp.intermediate + first * LANES;
            for (int k = 0; k < (end - first) * LANES; k += LANES) store(to + k, gated(mlp.gate, load(gates + k)) * load(up + k));
        }
    }

    void logits(Scratch& own) {
        const Matrix& head = *shape_.head;
        const float* kept = own.x.data() + size_t(rows_ - step_.last) * shape_.hidden;
        for (int r = 0; r < step_.last; ++r) {
            const size_t start = size_t(r) * shape_.hidden;
            normalise(kept + start, shape_.norm, shape_.hidden, shape_.epsilon, own.normed.data() + start);
        }
        const Arranged& rows = own.arranged.arrange(head.kinds, own.normed.data(), step_.last, shape_.hidden);
        const TrimmedPanels& trimmed = step_.trimmed;
        pool_.parallel_for(counters_.back(), trimmed.count ? trimmed.panels : head.panels, [&](int first, int end) {
            if (trimmed.count) trimmed_logits(rows, first, end);
            else head.multiply(rows, first, end, step_.logits, shape_.vocabulary);
        });
    }

    // Computes panels first .. end - 1, counted over the trimmed head's.
    void trimmed_logits(const Arranged& rows, int first, int end) {
        const TrimmedPanels& trimmed = step_.trimmed;
        int before = 0;  // panels
        for (int number = 0; number < trimmed.count && before < end; ++number) {
            const Range run = trimmed.runs[number];
            const int size = run.end - run.first, from = std::max(first - before, 0), until = std::min(end - before, size);
            // Where the run's first logit would stand if all panels before it were computed too.
            float* to = step_.logits + (ptrdiff_t(before) - run.first) * LANES;
            if (from < until) shape_.head->multiply(rows, run.first + from, run.first + until, to, width(step_));
            before += size;
        }
    }

    // Outputs of `matrix` for `from` [rows][width], as many as come to this thread.
    void linear(const Matrix& matrix, const float* from, int width, Scratch& own, WorkCounter& counter, std::vector<float>& to) {
        const Arranged& rows = own.arranged.arrange(matrix.kinds, from, rows_, width);
        pool_.parallel_for(counter, matrix.panels, [&](int first, int end) { matrix.multiply(rows, first, end, to.data(), matrix.outputs); });
    }

    const float* normed(Scratch& own, const float* weight) {
        for (int r = 0; r < rows_; ++r) {
            const size_t start = size_t(r) * shape_.hidden;
            normalise(own.x.data() + start, weight, shape_.hidden, shape_.epsilon,
                      own.normed.data() + start);
        }
        return own.normed.data();
    }

    // Adds what was mixed to the residual stream, normalised by `weight` if there is one.
    void add(Scratch& own, const float* weight) {
        for (int r = 0; r < rows_; ++r) {
            float* x = own.x.data() + size_t(r) * shape_.hidden;
            const float* mixed = mixed_.data() + size_t(r) * shape_.hidden;
            if (weight) {
                normalise(mixed, weight, shape_.hidden, shape_.epsilon, own.normed.data());
                mixed = own.normed.data();
            }
            for (int k = 0; k < shape_.hidden; k += LANES) store(x + k, load(x + k) + load(mixed + k));
        }
    }

    // Stores keys and values, then attends. Heads that share a memory stay on one thread where they can,
    // which saves the barrier.
    template <class T>
    void attend_all(const Attention& layer, Scratch& own, int thread) {
        const bool split = layer.kv_heads % pool_.count() != 0;
        each_sequence([&](const Sequence& sequence, int before) {
            if (!sequence.parents) store_all<T>(layer, sequence, before, own, thread);
        });
        if (split) pool_.barrier();
        each_sequence([&](const Sequence& sequence, int before) {
            if (sequence.parents) attend_tree<T>(layer, sequence, before, own, thread);
            else attend_chain<T>(layer, sequence, before, split, own, thread);
        });
    }

    // Calls use(sequence, rows of those before it) for each.
    template <class Use>
    void each_sequence(const Use& use) const {
        int before = 0;
        for (int number = 0; number < step_.count; ++number) {
            use(step_.sequences[number], before);
            before += step_.sequences[number].rows;
        }
    }

    template <class T>
    void store_all(const Attention& layer, const Sequence& sequence, int before, Scratch& own, int thread) {
        const auto [first, end] = part(layer.kv_heads, thread);
        for (int head = first; head < end; ++head) {
            const auto memory = memory_of<T>(sequence, layer, head);
            for (int r = before; r < before + sequence.rows; ++r) store_row(memory, layer, head, r, positions_[r], own);
        }
    }

    template <class T>
    void attend_chain(const Attention& layer, const Sequence& sequence, int before, bool split, Scratch& own, int thread) {
        const int kv_heads = layer.kv_heads;
        const auto [first_kv, end_kv] = part(kv_heads, thread);
        // Queries of one key-value head lie side by side: query i is that of row i % rows.
        const int together = layer.group() * sequence.rows;
        const int most = split ? TILE : QUERIES;  // smaller parts can be shared out more evenly
        const int tiles = (together + most - 1) / most;
        const auto [begin, end] = split ? part(kv_heads * tiles, thread) : Range{first_kv * tiles, end_kv * tiles};
        for (int tile = begin; tile < end; ++tile) {
            const int head = tile / tiles, from = tile % tiles * most, to = std::min(from + most, together);
            attend_queries(memory_of<T>(sequence, layer, head), layer, head, before, sequence.rows, from, to, own);
        }
    }

    // Rows of a tree take turns: where a row's ancestors would stand if they were all there is, there they
    // stand while it looks, so its bits are those it has in a text. All are kept in the spare positions.
    template <class T>
    void attend_tree(const Attention& layer, const Sequence& sequence, int before, Scratch& own, int thread) {
        const int group = layer.group(), spare = sequence.cache.context - ROWS;
        const int* positions = positions_ + before;
        const auto [first, end] = part(layer.kv_heads, thread);
        for (int head = first; head < end; ++head) {
            const auto memory = memory_of<T>(sequence, layer, head);
            for (int r = 0; r < sequence.rows; ++r) store_row(memory, layer, head, before + r, spare + r, own);
            int there[ROWS];  // the row that stands at each position from `start` on
            std::fill_n(there, ROWS, -1);
            for (int r = 0; r < sequence.rows; ++r) {
                for (int up = r; up >= 0; up = sequence.parents[up]) {
                    int& row = there[positions[up] - sequence.start];
                    if (row != up) memory.copy(spare + up, positions[up]);
                    row = up;
                }
                for (int from = 0; from < group; from += QUERIES)
                    attend_queries(memory, layer, head, before + r, 1, from, std::min(from + QUERIES, group), own);
            }
        }
    }

    // Writes the key and value of one row and head to a place in the memory.
    template <class T>
    void store_row(const Memory<T>& memory, const Attention& layer, int head, int r, int place, Scratch& own) const {
        const int heads = layer.heads, width = layer.head_dim;
        const float* row = row_of(layer, r);
        rotate(layer, row + size_t(heads + head) * width, heads + head, positions_[r], own.head.data());
        memory.write(place, own.head.data(), row + size_t(heads + layer.kv_heads + head) * width);
    }

    // Queries from .. to - 1 of those of `rows` rows from `row` on that share the memory of `kv_head`.
    template <class T>
    void attend_queries(const Memory<T>& memory, const Attention& layer, int kv_head, int row, int rows, int from, int to,
                 Scratch& own) {
        const int width = layer.head_dim, group = layer.group();
        Query queries[QUERIES];
        for (int query = from; query < to; ++query) {
            const int head = kv_head * group + query / rows, r = row + query % rows;
            const int position = positions_[r];
            float* rotated = own.head.data() + size_t(query - from) * width;
            rotate(layer, row_of(layer, r) + size_t(head) * width, head, position, rotated);
            const int first = layer.window && position >= layer.window ? position - layer.window + 1 : 0;
            float* result = attended_.data() + (size_t(r) * layer.heads + head) * width;
            queries[query - from] = {rotated, first, position, result};
        }
        attend(memory, queries, to - from, layer.score_cap, own.scores.data(), own.scores.size() / QUERIES);
    }

    const float* row_of(const Attention& layer, int r) const { return qkv_.data() + size_t(r) * layer.qkv_width(); }

    template <class T>
    Memory<T> memory_of(const Sequence& sequence, const Attention& layer, int head) const {
        const Cache& cache = sequence.cache;
        const size_t start = size_t(head) * cache.context * layer.head_dim;
        return {static_cast<T*>(cache.keys[layer.slot]) + start, static_cast<T*>(cache.values[layer.slot]) + start,
                layer.head_dim};
    }

    // A head of queries or keys: normalised if the model does, then rotated to its position.
    void rotate(const Attention& layer, const float* from, int head, int position, float* to) const {
        const int width = layer.head_dim;
        if (layer.qk_norm)
            normalise(from, layer.qk_norm + size_t(head) * width, width, shape_.epsilon, to);
        else std::memcpy(to, from, sizeof(float) * width);
        if (!layer.rotation) return;
        const float* angle = layer.rotation + size_t(position) * width;
        for (int d = 0; d < width; d += 2) {
            const float real = to[d], imaginary = to[d + 1];
            to[d] = real * angle[d] - imaginary * angle[d + 1];
            to[d + 1] = real * angle[d + 1] + imaginary * angle[d];
        }
    }

    Range part(int count, int thread) const { return share(count, thread, pool_.count()); }
    WorkCounter& counter(int layer, Linear linear) { return counters_[size_t(layer) * LINEARS + linear]; }

    const Shape shape_;
    Pool& pool_;
    Step step_{};
    int rows_ = 0;              // of all sequences
    int positions_[MOST_ROWS];  // of each row in its text
    std::vector<std::unique_ptr<Scratch>> scratch_;
    std::vector<float> qkv_, attended_, mixed_, active_;
    std::vector<WorkCounter> counters_;  // of each linear layer in a step, the head's last
};

}  // namespace foretoken
