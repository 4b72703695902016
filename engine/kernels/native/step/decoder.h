// A decoder's step for some rows of one sequence or of several, computed by all threads of a pool together.
//
// Linear layers treat all rows alike; attention reads the cache of the row's own sequence. A row has the bits it has alone, whatever
// sequences the other rows belong to.
//
// Every thread has its own copy of the residual stream and adds each layer's update to it: that costs a few thousand additions, and
// saves a barrier for every norm. Results for other threads lie in the decoder's buffers; a barrier separates writing from reading.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "arithmetic.h"
#include "attention.h"
#include "gated_delta.h"
#include "mamba2.h"
#include "mixture.h"
#include "short_convolution.h"
#include "../matrix/matrix.h"
#include "../pool.h"
#include "structures.h"

namespace foretoken {

// Rotate a head of queries or keys by the cosines and sines of its position (RoPE).
__attribute__((always_inline)) inline void rope(const float* rotation, int width, float* to) {
    for (int d = 0; d < width; d += 2) {
        const float real = to[d], imaginary = to[d + 1];
        to[d] = real * rotation[d] - imaginary * rotation[d + 1];
        to[d + 1] = real * rotation[d + 1] + imaginary * rotation[d];
    }
}

// Normalise a head of queries or keys by `norm`, and rotate it. Null: skip that.
__attribute__((always_inline)) inline void norm_and_rope(const float* from, const float* norm, const float* rotation, int width, float epsilon, float* to) {
    if (norm) normalise(from, norm, width, epsilon, to);
    else std::memcpy(to, from, sizeof(float) * width);
    if (rotation) rope(rotation, width, to);
}

// Buffers of one thread.
struct Scratch {
    Scratch(const Shape& shape, int head_dim, const DeltaRow& delta)
        : x(size_t(MAX_STEP_ROWS) * shape.hidden),
          normed(size_t(MAX_STEP_ROWS) * shape.hidden),
          head(size_t(QUERY_TILE) * head_dim),
          turned(head_dim),
          gates(GATES),
          embedded(size_t(shape.count) * shape.own_width),
          delta(delta) {}

    std::vector<float> x, normed;
    Arranged arranged;
    std::vector<float> head;
    std::vector<float> turned;    // a row's cosines and sines, where these are not those of one position
    std::vector<float> gates;     // of an MLP
    std::vector<float> embedded;  // a token's row of the second embedding
    DeltaRow delta;
};

class Decoder {
public:
    Decoder(const Shape& shape, Pool& pool) : shape_(shape), pool_(pool), mixture_(shape.hidden, shape.epsilon, pool) {
        int qkv = 0, attended = 0, head_dim = 0, active = shape.own_width, keys = 0, values = 0;  // the widest layer's
        for (int index = 0; index < shape.count; ++index) {
            const Layer& layer = shape.layers[index];
            if (layer.feed_forward == FeedForward::EXPERTS) mixture_.reserve(layer.experts);
            else active = std::max(active, layer.mlp.intermediate);
            if (layer.mixer == Mixer::GATED_DELTA) {
                const GatedDelta& delta = layer.delta;
                qkv = std::max(qkv, delta.inputs_width());
                attended = std::max(attended, delta.values());
                keys = std::max(keys, delta.key_dim);
                values = std::max(values, delta.group() * delta.value_dim);
            } else if (layer.mixer == Mixer::MAMBA2) {
                qkv = std::max(qkv, layer.mamba.inputs_width());
                attended = std::max(attended, layer.mamba.values());
                keys = std::max(keys, layer.mamba.groups * layer.mamba.state * (RECENT_ROWS + MAX_STEP_ROWS));
                values = std::max(values, layer.mamba.head_dim);
            } else if (layer.mixer == Mixer::SHORT_CONVOLUTION) {
                qkv = std::max(qkv, 3 * layer.convolution.width);
                attended = std::max(attended, layer.convolution.width);
            } else {
                qkv = std::max(qkv, layer.attention.qkv_width());
                attended = std::max(attended, layer.attention.attended());
                head_dim = std::max(head_dim, layer.attention.head_dim);
            }
        }
        for (int thread = 0; thread < pool.count(); ++thread)
            scratch_.push_back(std::make_unique<Scratch>(shape, head_dim, DeltaRow(keys, values)));
        qkv_.resize(size_t(MAX_STEP_ROWS) * qkv);
        attended_.resize(size_t(MAX_STEP_ROWS) * attended);
        update_.resize(size_t(MAX_STEP_ROWS) * shape.hidden);
        active_.resize(size_t(MAX_STEP_ROWS) * active);
        own_.resize(size_t(MAX_STEP_ROWS) * shape.count * shape.own_width);
        counters_ = std::vector<WorkCounter>(size_t(shape.count) * LINEARS + 2);
    }

    // Return the number of logits of a row.
    int width(const Step& step) const { return step.trimmed.count ? step.trimmed.panels * LANES : shape_.vocabulary; }

    // Return how many experts the last step read, those of all layers.
    int experts_read() const { return mixture_.experts_read; }

    // Compute a step of up to MAX_STEP_ROWS rows in all.
    void run(const Step& step) {
        step_ = step;
        rows_ = mixture_.experts_read = 0;
        for_each_sequence([&](const Sequence& sequence, int before) {
            const int32_t* parents = sequence.parents;
            int* positions = positions_ + before;
            for (int r = 0; r < sequence.rows; ++r) {
                positions[r] = !parents ? sequence.start + r : parents[r] < 0 ? sequence.start : positions[parents[r]] + 1;
                places_[before + r] = sequence.places ? sequence.places + 3 * r : nullptr;
                turns_[before + r] = positions[r] + sequence.shift;
                embedded_[before + r] = sequence.embedded ? sequence.embedded[r] : nullptr;
            }
            rows_ += sequence.rows;
        });
        for (WorkCounter& each : counters_) each.next.store(0, std::memory_order_relaxed);
        pool_.run([this](int thread) { work(thread); });
    }

private:
    enum Linear { QKV, OUTPUT, GATE_UP, DOWN, OWN_GATE, OWN_OUTPUT, LINEARS };  // of a layer

    void work(int thread) {
        Scratch& scratch = *scratch_[thread];
        embed(scratch);
        if (shape_.own_width) own_inputs(scratch, thread);
        for (int index = 0; index < shape_.count; ++index) {
            const Layer& layer = shape_.layers[index];
            write_aux(index, scratch, thread);
            switch (layer.mixer) {
                case Mixer::ATTENTION: attention(index, layer, scratch, thread); break;
                case Mixer::GATED_DELTA: gated_delta(index, layer, scratch, thread); break;
                case Mixer::MAMBA2: mamba2(index, layer, scratch, thread); break;
                case Mixer::SHORT_CONVOLUTION: short_convolution(index, layer, scratch, thread); break;
            }
            add(scratch, layer.mixer_after);
            switch (layer.feed_forward) {
                case FeedForward::GATED_MLP:
                case FeedForward::MLP: mlp(index, layer, scratch); break;
                case FeedForward::EXPERTS:
                    mixture_.run(layer.experts, feed_forward_input(layer, scratch), rows_, update_.data(), scratch.arranged, thread);
                    break;
            }
            add(scratch, layer.mlp_after);
            finish(index, layer, scratch);
        }
        write_aux(shape_.count, scratch, thread);
        if (step_.last > 0) logits(scratch);
    }

    // Store this thread's share of the rows that enter layer `index`, for the sequences whose heads read them.
    void write_aux(int index, Scratch& scratch, int thread) {
        for_each_sequence([&](const Sequence& sequence, int before) {
            for (int place = 0; place < sequence.cache.aux_count; ++place) {
                const AuxLayer& aux = sequence.cache.aux_layers[place];
                if (aux.layer != index && !(aux.layer < 0 && index == shape_.count)) continue;
                const auto [first, end] = part(sequence.rows, thread);
                for (int r = first; r < end; ++r) write_aux_row(sequence, aux, r, scratch.x.data() + size_t(before + r) * shape_.hidden, scratch);
            }
        });
    }

    void write_aux_row(const Sequence& sequence, const AuxLayer& aux, int r, const float* row, Scratch& scratch) {
        if (aux.layer < 0) {
            norm_row(row, shape_.norm, scratch.normed.data());
            row = scratch.normed.data();
        }
        const size_t start = size_t(sequence.start + r) * shape_.hidden;
        if (sequence.cache.bf16)
            for (int k = 0; k < shape_.hidden; ++k) put(static_cast<uint16_t*>(aux.rows) + start + k, row[k]);
        else std::memcpy(static_cast<float*>(aux.rows) + start, row, sizeof(float) * shape_.hidden);
    }

    void embed(Scratch& scratch) {
        for (int r = 0; r < rows_; ++r) {
            float* row = scratch.x.data() + size_t(r) * shape_.hidden;
            if (embedded_[r]) {
                std::memcpy(row, embedded_[r], sizeof(float) * shape_.hidden);
                continue;
            }
            shape_.embedding->row(int(step_.tokens[r]), row);
            if (shape_.embedding_scale != 1.0f)
                for (int k = 0; k < shape_.hidden; ++k) row[k] *= shape_.embedding_scale;
        }
    }

    // Mixers and feed-forwards write `update_`, and end with a barrier.
    void attention(int index, const Layer& layer, Scratch& scratch, int thread) {
        const Attention& weights = layer.attention;
        mix(index, layer, *weights.qkv, *weights.output, scratch, [&] {
            if (step_.sequences[0].cache.bf16) attend_all<uint16_t>(weights, scratch, thread);
            else attend_all<float>(weights, scratch, thread);
        });
    }

    // Compute a mixer's first linear layer, then what lies between, then the last one.
    template <class Between>
    void mix(int index, const Layer& layer, const Matrix& inputs, const Matrix& output, Scratch& scratch, const Between& between) {
        linear(inputs, normed(scratch, layer.mixer_norm), scratch, counter(index, QKV), qkv_);
        pool_.barrier();
        between();
        pool_.barrier();
        linear(output, attended_.data(), scratch, counter(index, OUTPUT), update_);
        pool_.barrier();
    }

    void gated_delta(int index, const Layer& layer, Scratch& scratch, int thread) {
        const GatedDelta& delta = layer.delta;
        const Range heads = part(delta.key_heads, thread);
        mix(index, layer, *delta.inputs, *delta.output, scratch, [&] {
            for_each_sequence([&](const Sequence& sequence, int before) {
                for (int head = heads.first; head < heads.end; ++head) recur(delta, sequence, head, before, scratch);
            });
        });
    }

    // Compute a sequence's rows, from `before` on, for the value heads that share a key head.
    void recur(const GatedDelta& delta, const Sequence& sequence, int head, int before, Scratch& scratch) {
        const DeltaNet net(delta, sequence.cache.recurrences[delta.slot]);
        for (int position = sequence.absorbed; position < sequence.start; ++position)
            net.take_in(head, position, sequence.from, sequence.from, scratch.delta);
        for (int r = 0; r < sequence.rows; ++r) {
            const float* row = qkv_.data() + size_t(before + r) * delta.inputs_width();
            if (sequence.parents) {
                net.remember(row, head, net.recent().in_tree(r));
                take_in_branch(net, sequence, head, before, r, scratch);
            } else {
                net.remember(row, head, net.recent().at(sequence.start + r));
                net.take_in(head, sequence.start + r, r ? sequence.to : sequence.from, sequence.to, scratch.delta);
            }
            gate_output(delta, row, head, before + r, scratch);
        }
    }

    // Take in a row of a tree after its ancestors, which stand meanwhile at their positions.
    void take_in_branch(const DeltaNet& net, const Sequence& sequence, int head, int before, int r, Scratch& scratch) {
        int branch[ROWS], depth = 0;
        for (int up = r; up >= 0; up = sequence.parents[up]) branch[depth++] = up;
        for (int from = sequence.from; depth > 0; from = sequence.to) {
            const int number = branch[--depth], position = positions_[before + number];
            net.place(head, number, position);
            net.take_in(head, position, from, sequence.to, scratch.delta);
        }
    }

    // Normalise and gate the outputs of a key head's value heads for row r of the step.
    void gate_output(const GatedDelta& delta, const float* row, int head, int r, Scratch& scratch) {
        for (int each = 0; each < delta.group(); ++each) {
            const int at = delta.value_head(head, each) * delta.value_dim;
            float* to = attended_.data() + size_t(r) * delta.values() + at;
            normalise(scratch.delta.output.data() + each * delta.value_dim, delta.norm, delta.value_dim, shape_.epsilon, to);
            const float* gates = row + delta.channels() + at;
            for (int d = 0; d < delta.value_dim; d += LANES) store(to + d, load(to + d) * gated(Gate::SILU, load(gates + d)));
        }
    }

    void mamba2(int index, const Layer& layer, Scratch& scratch, int thread) {
        const Mamba2& mixer = layer.mamba;
        mix(index, layer, *mixer.inputs, *mixer.output, scratch, [&] {
            for_each_sequence([&](const Sequence& sequence, int before) { scan(mixer, sequence, before, thread, scratch); });
            pool_.barrier();
            for_each_sequence([&](const Sequence& sequence, int before) { keep(mixer, sequence, before, thread); });
            const Range rows = part(rows_, thread);
            for (int r = rows.first; r < rows.end; ++r) gate_output(mixer, r);
        });
    }

    // Compute a sequence's rows for this thread's heads, one head after the other, while its state is in the first cache.
    void scan(const Mamba2& mixer, const Sequence& sequence, int before, int thread, Scratch& scratch) {
        const StateSpace own(mixer, sequence.cache.recurrences[mixer.slot]);
        const int behind = sequence.start - sequence.absorbed;  // rows to catch up with
        const float* past[MOST_TAPS];
        int branch[ROWS];
        for (int n = 0; n < behind + sequence.rows; ++n) {
            const int depth = find_branch(sequence, n - behind, branch);
            find_past(own, mixer, sequence, before, branch, sequence.absorbed + (depth ? behind + depth - 1 : n), past);
            own.share(past, n, scratch.delta);
        }
        const auto [first, end] = part(mixer.heads, thread);
        for (int head = first; head < end; ++head)
            for (int n = 0; n < behind + sequence.rows; ++n) {
                const int r = n - behind, depth = find_branch(sequence, r, branch);
                float* output = r < 0 ? scratch.delta.output.data() : attended_.data() + size_t(before + r) * mixer.values() + size_t(head) * mixer.head_dim;
                // In a tree a row's ancestors are taken in before it.
                for (int at = depth ? 0 : n - behind; at < (depth ? depth : n - behind + 1); ++at) {
                    const int from = at > 0 ? sequence.to : sequence.from, to = r < 0 ? sequence.from : sequence.to;
                    find_past(own, mixer, sequence, before, branch, sequence.start + at, past);
                    own.take_in(past, head, from, to, behind + (depth ? branch[at] : at), scratch.delta, output);
                }
            }
    }

    // Write the rows from the root of a tree to row r; return how many. 0 for a row of a chain.
    static int find_branch(const Sequence& sequence, int r, int* branch) {
        if (!sequence.parents || r < 0) return 0;
        int depth = 0;
        for (int up = r; up >= 0; up = sequence.parents[up]) ++depth;
        for (int up = r, at = depth; up >= 0; up = sequence.parents[up]) branch[--at] = up;
        return depth;
    }

    // Find what is needed of the `kernel` positions up to `position`. Rows from `start` on are this step's, of a branch of its tree or in order.
    void find_past(const StateSpace& own, const Mamba2& mixer, const Sequence& sequence, int before, const int* branch, int position, const float** past) {
        for (int tap = 0; tap < mixer.kernel; ++tap) {
            const int at = position - mixer.kernel + 1 + tap, r = at - sequence.start;
            if (at < 0) past[tap] = nullptr;
            else if (r < 0) past[tap] = own.recent().at(at);
            else past[tap] = kept(mixer, before + (sequence.parents ? branch[r] : r));
        }
    }

    // Return what later rows need of row r of the step.
    const float* kept(const Mamba2& mixer, int r) const { return qkv_.data() + size_t(r) * mixer.inputs_width() + mixer.values(); }

    // Keep this thread's share of a sequence's last rows for later ones.
    void keep(const Mamba2& mixer, const Sequence& sequence, int before, int thread) {
        const RecentRows recent(sequence.cache.recurrences[mixer.slot].recent, mixer.kept());
        const auto [first, end] = part(sequence.rows, thread);
        for (int r = std::max(first, sequence.rows - RECENT_ROWS); r < end; ++r)
            std::memcpy(sequence.parents ? recent.in_tree(r) : recent.at(sequence.start + r), kept(mixer, before + r), sizeof(float) * mixer.kept());
    }

    // Gate the outputs of row r of the step, then normalise them by groups.
    void gate_output(const Mamba2& mixer, int r) {
        const int width = mixer.values() / mixer.groups;
        const float* gates = qkv_.data() + size_t(r) * mixer.inputs_width();
        float* output = attended_.data() + size_t(r) * mixer.values();
        for (int c = 0; c < mixer.values(); c += LANES) store(output + c, load(output + c) * gated(Gate::SILU, load(gates + c)));
        for (int at = 0; at < mixer.values(); at += width) normalise(output + at, mixer.norm + at, width, shape_.epsilon, output + at);
    }

    void short_convolution(int index, const Layer& layer, Scratch& scratch, int thread) {
        const ShortConvolution& mixer = layer.convolution;
        const Range own = part(mixer.width / LANES, thread);
        mix(index, layer, *mixer.inputs, *mixer.output, scratch, [&] {
            for_each_sequence([&](const Sequence& sequence, int before) {
                const ShortConvolver some(mixer, sequence.cache.recurrences[mixer.slot], own.first * LANES, (own.end - own.first) * LANES);
                for (int r = 0; r < sequence.rows; ++r) convolve(some, mixer, sequence, before, r);
            });
        });
    }

    // Compute row r of a sequence. In a tree its ancestors stand meanwhile at their positions.
    void convolve(const ShortConvolver& own, const ShortConvolution& mixer, const Sequence& sequence, int before, int r) {
        const float* row = qkv_.data() + size_t(before + r) * 3 * mixer.width;
        if (sequence.parents) {
            own.remember(row, own.recent().in_tree(r));
            for (int up = r; up >= 0; up = sequence.parents[up]) own.place(up, positions_[before + up]);
        } else own.remember(row, own.recent().at(positions_[before + r]));
        own.mix(row, positions_[before + r], attended_.data() + size_t(before + r) * mixer.width);
    }

    void mlp(int index, const Layer& layer, Scratch& scratch) {
        const Gated mlp = whole(layer.mlp, layer.feed_forward == FeedForward::GATED_MLP);
        const Arranged& rows = scratch.arranged.arrange(mlp.gate_up->kinds, feed_forward_input(layer, scratch), rows_, shape_.hidden);
        pool_.parallel_for(counter(index, GATE_UP), mlp.panels(), [&](int first, int end) { activate(mlp, rows, rows_, first, end, active_.data(), scratch.gates.data()); });
        pool_.barrier();
        linear(*mlp.down, active_.data(), scratch, counter(index, DOWN), update_);
        pool_.barrier();
    }

    // Make the layers' own inputs of the embedded rows.
    void own_inputs(Scratch& scratch, int thread) {
        const int part_width = shape_.own_width, width = shape_.count * part_width;
        linear(*shape_.own_projection, scratch.x.data(), scratch, counters_[counters_.size() - 2], own_);
        pool_.barrier();
        const auto [first, end] = part(rows_, thread);
        for (int r = first; r < end; ++r) {
            float *row = own_.data() + size_t(r) * width, *embedded = scratch.embedded.data();
            shape_.own_embedding->row(int(step_.tokens[r]), embedded);
            for (int at = 0; at < width; at += part_width) normalise(row + at, shape_.own_norm, part_width, shape_.own_epsilon, row + at);
            for (int k = 0; k < width; k += LANES) store(row + k, fused(load(embedded + k), all(shape_.own_scale), load(row + k)));
        }
        pool_.barrier();
    }

    // Add what a layer makes of its own input, and scale the result.
    void finish(int index, const Layer& layer, Scratch& scratch) {
        if (shape_.own_width) {
            own_input(index, layer.own, scratch);
            add(scratch, layer.own.after);
        }
        if (layer.scalar == 1.0f) return;
        float* x = scratch.x.data();
        for (int k = 0; k < rows_ * shape_.hidden; k += LANES) store(x + k, load(x + k) * all(layer.scalar));
    }

    void own_input(int index, const OwnInput& weights, Scratch& scratch) {
        const int width = shape_.own_width, all_layers = shape_.count * width;
        const Arranged& rows = scratch.arranged.arrange(weights.gate->kinds, scratch.x.data(), rows_, shape_.hidden);
        pool_.parallel_for(counter(index, OWN_GATE), weights.gate->panels, [&](int first, int end) {
            weights.gate->multiply(rows, first, end, active_.data(), width);
            for (int r = 0; r < rows_; ++r) {
                const float* input = own_.data() + size_t(r) * all_layers + size_t(index) * width;
                float* to = active_.data() + size_t(r) * width;
                for (int k = first * LANES; k < end * LANES; k += LANES) store(to + k, gated(weights.function, load(to + k)) * load(input + k));
            }
        });
        pool_.barrier();
        linear(*weights.output, active_.data(), scratch, counter(index, OWN_OUTPUT), update_);
        pool_.barrier();
    }

    void logits(Scratch& scratch) {
        const Matrix& head = *shape_.head;
        const float* last = scratch.x.data() + size_t(rows_ - step_.last) * shape_.hidden;
        for (int r = 0; r < step_.last; ++r) {
            float* normed = scratch.normed.data() + size_t(r) * shape_.hidden;
            norm_row(last + size_t(r) * shape_.hidden, shape_.norm, normed);
            for (int k = 0; k < shape_.hidden; ++k) normed[k] *= shape_.logit_scale;
        }
        const Arranged& rows = scratch.arranged.arrange(head.kinds, scratch.normed.data(), step_.last, shape_.hidden);
        const TrimmedPanels& trimmed = step_.trimmed;
        pool_.parallel_for(counters_.back(), trimmed.count ? trimmed.panels : head.panels, [&](int first, int end) {
            if (trimmed.count) multiply_trimmed(head, rows, trimmed, first, end, step_.logits, width(step_));
            else head.multiply(rows, first, end, step_.logits, shape_.vocabulary);
            if (shape_.logit_cap != 0) cap_logits(first * LANES, std::min(end * LANES, width(step_)));
        });
    }

    // Cap logits first .. end - 1 of each row as scores of attention are.
    void cap_logits(int first, int end) {
        for (int r = 0; r < step_.last; ++r) {
            float* logits = step_.logits + size_t(r) * width(step_);
            for (int k = first; k < end; k += LANES) {
                float part[LANES] = {};
                const int count = std::min(LANES, end - k);
                std::copy_n(logits + k, count, part);
                store(part, all(shape_.logit_cap) * hyperbolic_tangent(load(part) / all(shape_.logit_cap)));
                std::copy_n(part, count, logits + k);
            }
        }
    }

    // Compute this thread's outputs of `matrix` for `from` [rows][inputs].
    void linear(const Matrix& matrix, const float* from, Scratch& scratch, WorkCounter& counter, std::vector<float>& to) {
        const Arranged& rows = scratch.arranged.arrange(matrix.kinds, from, rows_, matrix.inputs);
        pool_.parallel_for(counter, matrix.panels, [&](int first, int end) { matrix.multiply(rows, first, end, to.data(), matrix.outputs); });
    }

    // Return the rows that a feed-forward reads. In a parallel block these are the mixer's, which are still there.
    const float* feed_forward_input(const Layer& layer, Scratch& scratch) {
        return shape_.parallel ? scratch.normed.data() : normed(scratch, layer.mlp_norm);
    }

    // Return the rows of the residual stream, normalised by `weight` if there is one.
    const float* normed(Scratch& scratch, const float* weight) {
        if (!weight) return scratch.x.data();
        for (int r = 0; r < rows_; ++r) {
            const size_t start = size_t(r) * shape_.hidden;
            norm_row(scratch.x.data() + start, weight, scratch.normed.data() + start);
        }
        return scratch.normed.data();
    }

    // Normalise a row of the residual stream, or what is added to it. A bias lies behind `weight`.
    void norm_row(const float* x, const float* weight, float* to) const {
        const int width = shape_.hidden;
        if (shape_.layer_norms) centre(x, width, to);
        normalise(shape_.layer_norms ? to : x, weight, width, shape_.epsilon, to);
        if (!shape_.norm_bias) return;
        for (int k = 0; k < width; k += LANES) store(to + k, load(to + k) + load(weight + width + k));
    }

    // Add `update_` to the residual stream, normalised by `weight` if there is one, and scaled.
    void add(Scratch& scratch, const float* weight) {
        for (int r = 0; r < rows_; ++r) {
            float* x = scratch.x.data() + size_t(r) * shape_.hidden;
            const float* update = update_.data() + size_t(r) * shape_.hidden;
            if (weight) {
                norm_row(update, weight, scratch.normed.data());
                update = scratch.normed.data();
            }
            const Floats scale = all(shape_.residual_scale);
            for (int k = 0; k < shape_.hidden; k += LANES) store(x + k, fused(load(update + k), scale, load(x + k)));
        }
    }

    // Store keys and values, then attend. If the key-value heads divide among the threads, the same thread does both for a head,
    // which saves the barrier.
    template <class T>
    void attend_all(const Attention& layer, Scratch& scratch, int thread) {
        const bool split = layer.kv_heads % pool_.count() != 0;
        for_each_sequence([&](const Sequence& sequence, int before) {
            if (!sequence.parents && !layer.shared) store_all<T>(layer, sequence, before, scratch, thread);
        });
        if (split) pool_.barrier();
        for_each_sequence([&](const Sequence& sequence, int before) {
            if (sequence.parents) attend_tree<T>(layer, sequence, before, scratch, thread);
            else attend_chain<T>(layer, sequence, before, split, scratch, thread);
        });
    }

    // Call use(sequence, number of rows before it) for each sequence of the step.
    template <class Use>
    void for_each_sequence(const Use& use) const {
        int before = 0;
        for (int number = 0; number < step_.count; ++number) {
            use(step_.sequences[number], before);
            before += step_.sequences[number].rows;
        }
    }

    template <class T>
    void store_all(const Attention& layer, const Sequence& sequence, int before, Scratch& scratch, int thread) {
        const auto [first, end] = part(layer.kv_heads, thread);
        for (int head = first; head < end; ++head) {
            const auto cache = head_cache<T>(sequence, layer, head);
            for (int r = before; r < before + sequence.rows; ++r) store_row(cache, layer, head, r, positions_[r], scratch);
        }
    }

    template <class T>
    void attend_chain(const Attention& layer, const Sequence& sequence, int before, bool split, Scratch& scratch, int thread) {
        const int kv_heads = layer.kv_heads;
        const auto [first_kv, end_kv] = part(kv_heads, thread);
        // Queries of one key-value head lie side by side: query i is that of row i % rows.
        const int queries = layer.group() * sequence.rows;
        const int most = split ? (queries + pool_.count() - 1) / pool_.count() : queries;  // of one thread
        const int size = std::min(rounded_up(most, REGISTER_QUERIES), QUERY_TILE), tiles = (queries + size - 1) / size;
        const auto [begin, end] = split ? part(kv_heads * tiles, thread) : Range{first_kv * tiles, end_kv * tiles};
        for (int tile = begin; tile < end; ++tile) {
            const int head = tile / tiles, from = tile % tiles * size, to = std::min(from + size, queries);
            attend_queries(head_cache<T>(sequence, layer, head), layer, head, before, sequence.rows, from, to, scratch);
        }
    }

    // Attend for one row of a tree after the other. A row's ancestors are copied to the positions they would have in a chain, so the
    // row has the same bits as there. All rows of the tree stay in the cache's last sixteen positions.
    template <class T>
    void attend_tree(const Attention& layer, const Sequence& sequence, int before, Scratch& scratch, int thread) {
        const int group = layer.group(), spare = sequence.cache.context - ROWS;
        const int* positions = positions_ + before;
        const auto [first, end] = part(layer.kv_heads, thread);
        for (int head = first; head < end; ++head) {
            const auto cache = head_cache<T>(sequence, layer, head);
            for (int r = 0; r < sequence.rows && !layer.shared; ++r) store_row(cache, layer, head, before + r, spare + r, scratch);
            int row_at[ROWS];  // the row that was copied to each position from `start` on
            std::fill_n(row_at, ROWS, -1);
            for (int r = 0; r < sequence.rows; ++r) {
                for (int up = r; up >= 0; up = sequence.parents[up]) {
                    int& row = row_at[positions[up] - sequence.start];
                    if (row != up) cache.copy(spare + up, positions[up]);
                    row = up;
                }
                for (int from = 0; from < group; from += QUERY_TILE)
                    attend_queries(cache, layer, head, before + r, 1, from, std::min(from + QUERY_TILE, group), scratch);
            }
        }
    }

    // Write the key and value of one row and head to a position of the cache.
    template <class T>
    void store_row(const HeadCache<T>& cache, const Attention& layer, int head, int r, int place, Scratch& scratch) const {
        const int heads = layer.heads, width = layer.head_dim;
        const float* row = row_of(layer, r);
        rotate(layer, row + size_t(heads + head) * width, heads + head, turning(layer, r, scratch), scratch.head.data());
        const float* value = row + size_t(heads + layer.kv_heads + head) * width;
        if (layer.value_norm) {
            float* normed = scratch.head.data() + width;
            const Floats factor = all(norm_factor(value, width, shape_.epsilon));
            for (int d = 0; d < width; d += LANES) store(normed + d, load(value + d) * factor);
            value = normed;
        }
        cache.write(place, scratch.head.data(), value);
    }

    // Attend for queries from .. to - 1 of those that share `kv_head`, of `rows` rows from `row` on.
    template <class T>
    void attend_queries(const HeadCache<T>& cache, const Attention& layer, int kv_head, int row, int rows, int from, int to, Scratch& scratch) {
        const int width = layer.head_dim, group = layer.group();
        Query queries[QUERY_TILE];
        for (int query = from; query < to; ++query) {
            const int head = kv_head * group + query / rows, r = row + query % rows;
            const int position = positions_[r];
            float* rotated = scratch.head.data() + size_t(query - from) * width;
            rotate(layer, row_of(layer, r) + size_t(head) * width, head, turning(layer, r, scratch), rotated);
            if (layer.temperature)
                for (int d = 0; d < width; ++d) rotated[d] *= layer.temperature[position];
            const int first = layer.window && position >= layer.window ? position - layer.window + 1 : 0;
            float* result = attended_.data() + (size_t(r) * layer.heads + head) * width;
            queries[query - from] = {rotated, first, position, result, layer.sinks ? layer.sinks[head] : -INFINITY};
        }
        attend(cache, queries, to - from, layer.score_cap);
        if (!layer.output_gate) return;
        for (int query = from; query < to; ++query) {
            const int head = kv_head * group + query / rows, r = row + query % rows;
            const float* gates = row_of(layer, r) + size_t(layer.gates_head() + head) * width;
            float* output = queries[query - from].acc;
            for (int d = 0; d < width; d += LANES) store(output + d, load(output + d) / (all(1.0f) + exponential(-load(gates + d))));
        }
    }

    const float* row_of(const Attention& layer, int r) const { return qkv_.data() + size_t(r) * layer.qkv_width(); }

    template <class T>
    HeadCache<T> head_cache(const Sequence& sequence, const Attention& layer, int head) const {
        const Cache& cache = sequence.cache;
        const size_t start = size_t(head) * cache.context * layer.head_dim;
        return {static_cast<T*>(cache.keys[layer.slot]) + start, static_cast<T*>(cache.values[layer.slot]) + start,
                layer.head_dim};
    }

    // Return the cosines and sines that turn row r; null without positions. In an image each pair follows one of three numbers.
    const float* turning(const Attention& layer, int r, Scratch& scratch) const {
        if (!layer.rotation) return nullptr;
        const int width = layer.head_dim;
        const int32_t* place = places_[r];
        if (!layer.axes) return layer.rotation + size_t(positions_[r]) * width;
        if (!place) return layer.rotation + size_t(turns_[r]) * width;
        for (int d = 0; d < width; d += 2)
            std::copy_n(layer.rotation + size_t(place[layer.axes[d / 2]]) * width + d, 2, scratch.turned.data() + d);
        return scratch.turned.data();
    }

    void rotate(const Attention& layer, const float* from, int head, const float* rotation, float* to) const {
        const int width = layer.head_dim;
        const float* norm = layer.qk_norm ? layer.qk_norm + size_t(head) * width : nullptr;
        if (layer.qk_norm_across_heads) {
            const int first = head < layer.heads ? 0 : layer.heads, count = first ? layer.kv_heads : layer.heads;
            const float factor = norm_factor(from - ptrdiff_t(head - first) * width, count * width, shape_.epsilon);
            multiply(from, factor, norm, width, to);
            if (rotation) rope(rotation, width, to);
        } else if (layer.qk_norm_after_rope) {
            norm_and_rope(from, nullptr, rotation, width, shape_.epsilon, to);
            normalise(to, norm, width, shape_.epsilon, to);
        } else norm_and_rope(from, norm, rotation, width, shape_.epsilon, to);
    }

    Range part(int count, int thread) const { return share(count, thread, pool_.count()); }
    WorkCounter& counter(int layer, Linear linear) { return counters_[size_t(layer) * LINEARS + linear]; }

    const Shape shape_;
    Pool& pool_;
    Mixture mixture_;
    Step step_{};
    int rows_ = 0;                  // of all sequences
    int positions_[MAX_STEP_ROWS];  // of each row in its sequence
    int turns_[MAX_STEP_ROWS];      // the positions by which rows are turned
    const int32_t* places_[MAX_STEP_ROWS];   // in an image, or null
    const float* embedded_[MAX_STEP_ROWS];   // or null
    std::vector<std::unique_ptr<Scratch>> scratch_;
    std::vector<float> qkv_, attended_, update_, active_, own_;
    std::vector<WorkCounter> counters_;  // of each linear layer in a step; the own inputs' and the head's last
};

}  // namespace foretoken
