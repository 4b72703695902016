// A program: a traced list of operations on float32 rows, run by all threads of a pool in one call.
//
// Heads (see engine/drafting/heads) are small, and no two kinds are alike. What a head computes is traced once, and any range of its
// operations can be run. After an operation there is a barrier, unless the next one reads only rows that the same thread has just
// written.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "attention.h"
#include "decoder.h"
#include "mixture.h"
#include "top_tokens.h"
#include "../matrix/matrix.h"
#include "../pool.h"
#include "sampling.h"

namespace foretoken {

enum class Code : int32_t {
    TAKE = 0,      // to = row `start` + r of the table in `from`
    EMBED = 1,     // to = row tokens[r] of `matrix`, or of the table in `from`
    LINEAR = 2,    // to = `matrix` from + bias
    NORM = 3,      // to = from / its root mean square * scale * weight + bias
    ADD = 4,       // to = from + scale * second
    ACTIVATE = 5,  // to = act(from) * second, or act(from)
    CAP = 6,       // to = scale * tanh(from / scale)
    STORE_KV = 7,  // store keys in `from`, normed and rotated, and values in `second`, in `cache`
    ATTEND = 8,    // to = attention of the queries in `from` to `cache`
    SAMPLE = 9,    // take the most likely token of the logits in `from`, or draw one; and its probability
    GROUPS = 10,   // trim to the groups of tokens with the highest scores in `from`
    CONVOLVE = 11, // to = sum over taps t of from's row r - t * (weight + second), by column and tap
    RANK = 12,     // trim to the tokens with the highest logits in `second`; to = these + their rows of the table in `from` . weight
    KEEP = 13,     // row `start` + r of the float32 table in `to` = from
    EXPERTS = 14,  // to = a mixture of experts of from, at most MAX_STEP_ROWS rows side by side
};

// The dtype of a table.
enum class Table : int32_t { FP32 = 0, BF16 = 1, FP16 = 2 };

// Functions of ACTIVATE beside a decoder's gates.
constexpr int32_t SIGMOID = 5, IDENTITY = 6;

// One layer's keys and values of one sequence, as attention.h reads them: keys [kv_heads][capacity / 16][head_dim][16], values
// [kv_heads][capacity][head_dim]. They move when they grow.
struct LayerCache {
    void *keys, *values;
    const float* rotation;  // [capacity][head_dim / 2][cosine, sine]
    int32_t capacity;       // positions, a multiple of sixteen
    int32_t bf16;           // else float32
};

// Which positions a row of ATTEND sees.
enum class Sees : int32_t {
    STEP = 0,    // up to the last row's
    CAUSAL = 1,  // up to its own
    BEFORE = 2,  // up to the one before its own
};

// How a run samples its tokens: each with its own key as in sampling.h; without keys, each is the most likely. The run ends with
// the token that makes the joint probability less than `floor`.
struct Draws {
    const uint64_t* keys;
    Sampling sampling;
    float floor;
    int32_t count;  // tokens of the last run
};

// Filled in by Python (see program.py). Unused fields are null or 0. Numbers that differ between runs are behind pointers.
struct Op {
    Code code;
    int32_t width;         // of a row; of SAMPLE the vocabulary
    int32_t choice;        // ACTIVATE: the function. TAKE, EMBED: the dtype of the table. ATTEND: what a row sees. GROUPS: how many. CONVOLVE: taps
    int32_t by_columns;    // whether threads divide a row's columns instead of the rows
    int32_t barrier;       // whether there is a barrier after it
    int32_t offset;        // added to `start`. SAMPLE: the index of its key. RANK: the vocabulary
    int32_t window;        // ATTEND: positions that a row sees, its own included; 0: all. GROUPS: panels of each. CONVOLVE: columns of a factor. RANK: how many
    const int32_t* rows;   // their number
    const int32_t* start;  // the first row's position
    const void* from;
    const float* second;
    float* to;
    int32_t from_stride, second_stride, to_stride;  // from row to row
    int32_t heads, kv_heads;                        // `width` is then that of one head
    const Matrix* matrix;
    const float *weight, *bias;
    const LayerCache* cache;
    const int64_t* tokens;   // EMBED: of each row. GROUPS: of each output
    const int64_t* numbers;  // SAMPLE: the token id of each logit; null: its index
    int64_t* chosen;         // SAMPLE: the token. GROUPS: the tokens of the outputs that are left
    float* probability;
    Draws* draws;
    const Experts* experts;
    TrimmedPanels* trimmed;  // LINEAR: the panels to compute. SAMPLE: those that the logits are of. Null: all. GROUPS: is set
    float scale, epsilon;
};

class Program {
public:
    Program(const Op* ops, int count, Pool& pool) : ops_(ops, ops + count), pool_(pool) {
        int head = LANES;
        for (const Op& op : ops_) {
            if (op.heads) head = std::max(head, op.width);
            if (op.code == Code::GROUPS) best_.resize(std::max(best_.size(), size_t(op.choice)));
            if (op.code == Code::RANK) best_.resize(std::max(best_.size(), size_t(op.window))), head = std::max(head, op.width);
            if (!op.experts) continue;
            if (!mixture_) mixture_ = std::make_unique<Mixture>(op.width, op.epsilon, pool);
            mixture_->reserve(*op.experts);
        }
        for (int thread = 0; thread < pool.count(); ++thread)
            scratch_.push_back(std::make_unique<Scratch>(size_t(REGISTER_QUERIES) * head));
    }

    // Run operations first .. end - 1, or as far as the token that ends the run.
    void run(int first, int end) {
        first_ = first, end_ = end, joint_probability_ = 1, ended_ = false;
        pool_.run([this](int thread) { work(thread); });
    }

private:
    // Buffers of one thread.
    struct Scratch {
        explicit Scratch(size_t head) : head(head) {}
        Arranged arranged;
        std::vector<float> head;
    };

    // One thread's rows and columns.
    struct Slice {
        Range rows, columns;
    };

    void work(int thread) {
        Scratch& scratch = *scratch_[thread];
        for (int index = first_; index < end_; ++index) {
            const Op& op = ops_[index];
            apply(op, scratch, thread);
            if (!op.barrier || index + 1 == end_) continue;
            pool_.barrier();
            // Behind any other operation a thread could still read what the next token has changed.
            if (op.code == Code::SAMPLE && ended_) return;
        }
    }

    void apply(const Op& op, Scratch& scratch, int thread) {
        switch (op.code) {
            case Code::TAKE: return take(op, thread);
            case Code::EMBED: return embed(op, thread);
            case Code::LINEAR: return linear(op, scratch, thread);
            case Code::NORM: return norm(op, thread);
            case Code::ADD: return add(op, thread);
            case Code::ACTIVATE: return activate(op, thread);
            case Code::CAP: return cap(op, thread);
            case Code::STORE_KV: return store_kv(op, scratch, thread);
            case Code::ATTEND: return attend_to(op, scratch, thread);
            case Code::GROUPS: return choose_groups(op, thread);
            case Code::CONVOLVE: return convolve(op, thread);
            case Code::RANK: return rank(op, scratch, thread);
            case Code::SAMPLE: return sample(op, thread);
            case Code::KEEP: return keep(op, thread);
            case Code::EXPERTS: return mixture_->run(*op.experts, from_of(op, 0), *op.rows, to_of(op, 0), scratch.arranged, thread);
        }
    }

    Range part(int count, int thread) const { return share(count, thread, pool_.count()); }

    // Return this thread's slice. Columns are divided in whole vectors, to which rows are padded.
    Slice slice_of(const Op& op, int thread) const {
        const int rows = *op.rows, vectors = (op.width + LANES - 1) / LANES;
        if (!op.by_columns) return {part(rows, thread), {0, vectors * LANES}};
        const Range columns = part(vectors, thread);
        return {{0, rows}, {columns.first * LANES, columns.end * LANES}};
    }

    static int start_of(const Op& op) { return (op.start ? *op.start : 0) + op.offset; }
    static const float* from_of(const Op& op, int row) {
        return static_cast<const float*>(op.from) + size_t(row) * op.from_stride;
    }
    static const float* second_of(const Op& op, int row) { return op.second + size_t(row) * op.second_stride; }
    static float* to_of(const Op& op, int row) { return op.to + size_t(row) * op.to_stride; }

    static void copy(const Op& op, int64_t row, float* to) {
        const auto* halves = static_cast<const uint16_t*>(op.from) + size_t(row) * op.from_stride;
        const auto* floats = static_cast<const float*>(op.from) + size_t(row) * op.from_stride;
        switch (static_cast<Table>(op.choice)) {
            case Table::FP32: std::memcpy(to, floats, sizeof(float) * op.width); return;
            case Table::BF16:
                for (int k = 0; k < op.width; ++k) to[k] = widen(halves[k]);
                return;
            case Table::FP16:
                for (int k = 0; k < op.width; ++k) to[k] = widen_half(halves[k]);
                return;
        }
    }

    void take(const Op& op, int thread) const {
        const Range rows = part(*op.rows, thread);
        for (int r = rows.first; r < rows.end; ++r) copy(op, start_of(op) + r, to_of(op, r));
    }

    void keep(const Op& op, int thread) const {
        const Range rows = part(*op.rows, thread);
        for (int r = rows.first; r < rows.end; ++r) std::copy_n(from_of(op, r), op.width, to_of(op, start_of(op) + r));
    }

    void embed(const Op& op, int thread) const {
        const Range rows = part(*op.rows, thread);
        for (int r = rows.first; r < rows.end; ++r) {
            if (op.matrix) op.matrix->row(int(op.tokens[r]), to_of(op, r));
            else copy(op, op.tokens[r], to_of(op, r));
        }
    }

    void linear(const Op& op, Scratch& scratch, int thread) const {
        const Matrix& matrix = *op.matrix;
        const bool whole = is_whole(op);
        const Range panels = part(whole ? matrix.panels : op.trimmed->panels, thread);
        for (int done = 0; done < *op.rows; done += MAX_STEP_ROWS) {
            const int count = std::min(MAX_STEP_ROWS, *op.rows - done);
            const Arranged& rows = scratch.arranged.arrange(matrix.kinds, from_of(op, done), count, matrix.inputs);
            if (whole) matrix.multiply(rows, panels.first, panels.end, to_of(op, done), op.to_stride);
            else multiply_trimmed(matrix, rows, *op.trimmed, panels.first, panels.end, to_of(op, done), op.to_stride);
            if (!op.bias) continue;
            const int end = std::min(panels.end * LANES, matrix.outputs);
            for (int r = done; r < done + count; ++r)
                for (int n = panels.first * LANES; n < end; ++n) to_of(op, r)[n] += op.bias[n];
        }
    }

    void norm(const Op& op, int thread) const {
        const Range rows = part(*op.rows, thread);
        for (int r = rows.first; r < rows.end; ++r) {
            const float* from = from_of(op, r);
            float* to = to_of(op, r);
            const Floats factor = all(norm_factor(from, op.width, op.epsilon) * op.scale);
            for (int k = 0; k < op.width; k += LANES) {
                Floats value = load(from + k) * factor;
                if (op.weight) value = value * load(op.weight + k);
                if (op.bias) value = value + load(op.bias + k);
                store(to + k, value);
            }
        }
    }

    // Store f(vector of `from`, row, column) for the vectors of a slice.
    template <class F>
    static void elementwise(const Op& op, const Slice& slice, const F& f) {
        for (int r = slice.rows.first; r < slice.rows.end; ++r)
            for (int k = slice.columns.first; k < slice.columns.end; k += LANES) store(to_of(op, r) + k, f(load(from_of(op, r) + k), r, k));
    }

    void add(const Op& op, int thread) const {
        elementwise(op, slice_of(op, thread), [&](Floats x, int r, int k) { return fused(load(second_of(op, r) + k), all(op.scale), x); });
    }

    static Floats activated(int32_t choice, Floats x) {
        if (choice == SIGMOID) return all(1.0f) / (all(1.0f) + exponential(-x));
        return choice == IDENTITY ? x : gated(static_cast<Gate>(choice), x);
    }

    void activate(const Op& op, int thread) const {
        elementwise(op, slice_of(op, thread), [&](Floats x, int r, int k) {
            const Floats value = activated(op.choice, x);
            return op.second ? value * load(second_of(op, r) + k) : value;
        });
    }

    void cap(const Op& op, int thread) const {
        elementwise(op, slice_of(op, thread), [&](Floats x, int, int) { return all(op.scale) * hyperbolic_tangent(x / all(op.scale)); });
    }

    template <class T>
    static HeadCache<T> head_cache(const Op& op, int head) {
        const size_t start = size_t(head) * op.cache->capacity * op.width;
        return {static_cast<T*>(op.cache->keys) + start, static_cast<T*>(op.cache->values) + start, op.width};
    }

    static void rotate(const Op& op, const float* from, int head, int position, float* to) {
        const float* norm = op.weight ? op.weight + size_t(head) * op.width : nullptr;
        norm_and_rope(from, norm, op.cache->rotation + size_t(position) * op.width, op.width, op.epsilon, to);
    }

    void store_kv(const Op& op, Scratch& scratch, int thread) const {
        const int start = start_of(op);
        const Range items = part(*op.rows * op.kv_heads, thread);
        for (int item = items.first; item < items.end; ++item) {
            const int r = item / op.kv_heads, head = item % op.kv_heads;
            const size_t place = size_t(head) * op.width;
            rotate(op, from_of(op, r) + place, head, start + r, scratch.head.data());
            head_cache<float>(op, head).write(start + r, scratch.head.data(), second_of(op, r) + place);
        }
    }

    static int last_seen(const Op& op, int start, int r) {
        switch (static_cast<Sees>(op.choice)) {
            case Sees::STEP: return start + *op.rows - 1;
            case Sees::CAUSAL: return start + r;
            case Sees::BEFORE: return start + r - 1;
        }
        return start + r;
    }

    void attend_to(const Op& op, Scratch& scratch, int thread) const {
        if (op.cache->bf16) attend_in<uint16_t>(op, scratch, thread);
        else attend_in<float>(op, scratch, thread);
    }

    // Queries of one key-value head lie side by side: query i belongs to row i % rows.
    template <class T>
    void attend_in(const Op& op, Scratch& scratch, int thread) const {
        const int rows = *op.rows, start = start_of(op), group = op.heads / op.kv_heads;
        const int count = group * rows, tiles = (count + REGISTER_QUERIES - 1) / REGISTER_QUERIES;
        const Range items = part(op.kv_heads * tiles, thread);
        for (int item = items.first; item < items.end; ++item) {
            const int kv_head = item / tiles, from = item % tiles * REGISTER_QUERIES, to = std::min(from + REGISTER_QUERIES, count);
            Query queries[REGISTER_QUERIES];
            for (int query = from; query < to; ++query) {
                const int head = kv_head * group + query / rows, r = query % rows;
                float* rotated = scratch.head.data() + size_t(query - from) * op.width;
                rotate(op, from_of(op, r) + size_t(head) * op.width, head, start + r, rotated);
                const int first = op.window ? std::max(start + r - op.window + 1, 0) : 0;
                queries[query - from] = {rotated, first, last_seen(op, start, r), to_of(op, r) + size_t(head) * op.width};
            }
            attend(head_cache<T>(op, kv_head), queries, to - from, 0.0f);
        }
    }

    void convolve(const Op& op, int thread) const {
        const int factors = op.width / op.window;
        const Slice slice = slice_of(op, thread);
        for (int r = slice.rows.first; r < slice.rows.end; ++r) {
            for (int k = slice.columns.first; k < slice.columns.end; k += LANES) {
                Floats sum{};
                for (int tap = 0; tap < op.choice && tap <= r; ++tap) {
                    const Floats own = all(second_of(op, r)[tap * factors + k / op.window]);
                    sum = fused(load(op.weight + size_t(tap) * op.width + k) + own, load(from_of(op, r - tap) + k), sum);
                }
                store(to_of(op, r) + k, sum);
            }
        }
    }

    void rank(const Op& op, Scratch& scratch, int thread) {
        if (thread) return;
        top_k(op.second, op.offset, op.window, best_.data());
        int count = 0;
        for (; count < op.window && best_[count] >= 0; ++count) {
            float product = 0;
            copy(op, best_[count], scratch.head.data());
            for (int k = 0; k < op.width; ++k) product += scratch.head[k] * op.weight[k];
            op.to[count] = op.second[best_[count]] + product;
            op.chosen[count] = best_[count];
        }
        op.trimmed->count = 1, op.trimmed->tokens = count;
    }

    // Groups lie one after the other in `trimmed`; adjacent ones are one run.
    void choose_groups(const Op& op, int thread) {
        if (thread) return;
        constexpr int64_t NONE = -1;
        const auto end = best_.begin() + op.choice;
        top_k(from_of(op, 0), op.width, op.choice, best_.data());
        std::sort(best_.begin(), end);
        TrimmedPanels& trimmed = *op.trimmed;
        auto* runs = const_cast<Range*>(trimmed.runs);
        trimmed.count = trimmed.panels = 0;
        int64_t* to = op.chosen;
        for (auto group = std::find_if(best_.begin(), end, [](int64_t number) { return number != NONE; }); group != end; ++group) {
            const int first = int(*group) * op.window;
            if (trimmed.count && runs[trimmed.count - 1].end == first) runs[trimmed.count - 1].end += op.window;
            else runs[trimmed.count++] = {first, first + op.window};
            trimmed.panels += op.window;
            to = std::copy_n(op.tokens + size_t(first) * LANES, op.window * LANES, to);
        }
        trimmed.tokens = trimmed.panels * LANES;
    }

    static bool is_whole(const Op& op) { return !op.trimmed || !op.trimmed->count; }

    // Return the token id of each logit; null: its index.
    static const int64_t* numbers_of(const Op& op) { return op.trimmed && is_whole(op) ? nullptr : op.numbers; }

    // Set the run's next token. The other threads wait for it at the barrier that follows.
    void set_token(const Op& op, int index, float probability) {
        const int64_t* numbers = numbers_of(op);
        *op.chosen = numbers ? numbers[index] : index;
        *op.probability = probability;
        if (!op.draws) return;
        joint_probability_ *= probability;
        ++op.draws->count;
        if (joint_probability_ < op.draws->floor) ended_ = true;
    }

    // Sample as in sampling.h. The first thread does it alone, which takes less than the barriers of several.
    void sample(const Op& op, int thread) {
        if (thread) return;
        const int width = is_whole(op) ? op.width : op.trimmed->tokens;
        const float* logits = from_of(op, 0);
        const bool draws = op.draws && op.draws->keys;
        const Drawn drawn = draws ? draw(logits, width, op.draws->sampling, op.draws->keys[op.offset], numbers_of(op)) : most_likely(logits, width);
        set_token(op, int(drawn.index), drawn.probability);
    }

    const std::vector<Op> ops_;
    Pool& pool_;
    int first_ = 0, end_ = 0;
    float joint_probability_ = 1;  // of the tokens of this run
    bool ended_ = false;           // by `floor`
    std::vector<std::unique_ptr<Scratch>> scratch_;
    std::unique_ptr<Mixture> mixture_;  // of all layers, which are equally wide
    std::vector<int64_t> best_;
};

}  // namespace foretoken
