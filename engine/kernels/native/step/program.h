// A program of few plain operations on float32 rows, done by all threads of a pool in one call.
//
// Heads that draft (see engine/drafting/heads) are small, and no two kinds are alike: what one computes is written
// down once, as a list of operations, and run from any of them to any other. After an operation the threads
// wait for each other, unless the next one reads, of each row, what the same thread has just written.
#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "attention.h"
#include "decoder.h"
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
    REMEMBER = 7,  // keys in `from`, normed and rotated, and values in `second`, into `cache`
    ATTEND = 8,    // to = what the queries in `from` take from `cache`
    CHOOSE = 9,    // a token of the logits in `from`, and its probability: the likeliest, or one drawn
};

// What a table holds.
enum class Table : int32_t { FP32 = 0, BF16 = 1, FP16 = 2 };

// What ACTIVATE applies: a decoder's gates, and these.
constexpr int32_t SIGMOID = 4, IDENTITY = 5;

// One layer's keys and values of one sequence, as attention.h reads them: keys
// [kv_heads][room / 16][head_dim][16], values [kv_heads][room][head_dim]. They move when they grow.
struct LayerCache {
    float *keys, *values;
    const float* rotation;  // [room][head_dim / 2][cosine, sine]
    int32_t room;           // positions, a multiple of sixteen
};

// How a run draws its tokens, each by a key of its own as in sampling.h; no keys: each is the likeliest. The run ends
// with a token that makes all of them together less likely than `floor`.
struct Draws {
    const uint64_t* keys;
    float sharpness;  // 1 / temperature
    float floor;
    int32_t count;  // tokens that the last run chose
};

// Filled in by Python (see program.py). What an operation does not use is null or 0. Numbers that a run decides
// stand behind pointers.
struct Op {
    Code code;
    int32_t width;         // numbers of a row; of CHOOSE all that count
    int32_t choice;        // ACTIVATE: its function. TAKE, EMBED: the kind of table. ATTEND: whether rows see
                           // only what is not behind them
    int32_t by_columns;    // whether threads share a row's columns instead of the rows
    int32_t barrier;       // whether threads wait for each other behind it
    int32_t offset;        // added to `start`. CHOOSE: the place of its key
    const int32_t* rows;   // how many there are
    const int32_t* start;  // the first row's position
    const void* from;
    const float* second;
    float* to;
    int32_t from_stride, second_stride, to_stride;  // from row to row
    int32_t heads, kv_heads;                        // `width` is then that of one head
    const Matrix* matrix;
    const float *weight, *bias;
    const LayerCache* cache;
    const int64_t* tokens;   // EMBED: of each row
    const int64_t* numbers;  // CHOOSE: what the tokens are called; null: as they are counted
    int64_t* chosen;
    float* probability;
    Draws* draws;
    float scale, epsilon;
};

class Program {
public:
    Program(const Op* ops, int count, Pool& pool) : ops_(ops, ops + count), pool_(pool), candidates_(pool.count()), earliest_(pool.count()) {
        int widest = LANES, head = LANES, choice = 0;
        for (const Op& op : ops_) {
            if (op.matrix) widest = std::max(widest, op.matrix->inputs);
            if (op.heads) head = std::max(head, op.width);
            if (op.code == Code::CHOOSE) choice = std::max(choice, op.width);
        }
        weights_.resize(choice);
        for (int thread = 0; thread < pool.count(); ++thread)
            scratch_.push_back(std::make_unique<Own>(widest, size_t(TILE) * head));
    }

    // Operations first .. end - 1, or to the token that ends the run.
    void run(int first, int end) {
        first_ = first, end_ = end, likely_ = 1, over_ = false;
        pool_.run([](void* self, int thread, Pool&) { static_cast<Program*>(self)->work(thread); }, this);
    }

private:
    // What one thread has for itself.
    struct Own {
        Own(int widest, size_t head) : arranged(widest), head(head) {}
        Arranged arranged;
        std::vector<float> head, scores;
    };

    // The rows and columns that are a thread's.
    struct Part {
        Range rows, columns;
    };

    void work(int thread) {
        Own& own = *scratch_[thread];
        for (int index = first_; index < end_; ++index) {
            const Op& op = ops_[index];
            apply(op, own, thread);
            if (!op.barrier || index + 1 == end_) continue;
            pool_.barrier();
            if (over_) return;
        }
    }

    void apply(const Op& op, Own& own, int thread) {
        switch (op.code) {
            case Code::TAKE: return take(op, thread);
            case Code::EMBED: return embed(op, thread);
            case Code::LINEAR: return linear(op, own, thread);
            case Code::NORM: return norm(op, thread);
            case Code::ADD: return add(op, thread);
            case Code::ACTIVATE: return activate(op, thread);
            case Code::CAP: return cap(op, thread);
            case Code::REMEMBER: return remember(op, own, thread);
            case Code::ATTEND: return attend_to(op, own, thread);
            case Code::CHOOSE: return op.draws && op.draws->keys ? draw(op, thread) : greedy(op, thread);
        }
    }

    Range part(int count, int thread) const { return share(count, thread, pool_.count()); }

    // Rows are padded to whole vectors, so columns are counted in these.
    Part part_of(const Op& op, int thread) const {
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

    void embed(const Op& op, int thread) const {
        const Range rows = part(*op.rows, thread);
        for (int r = rows.first; r < rows.end; ++r) {
            if (op.matrix) op.matrix->row(int(op.tokens[r]), to_of(op, r));
            else copy(op, op.tokens[r], to_of(op, r));
        }
    }

    void linear(const Op& op, Own& own, int thread) const {
        const Matrix& matrix = *op.matrix;
        const Range panels = part(matrix.panels, thread);
        for (int done = 0; done < *op.rows; done += MOST_ROWS) {
            const int count = std::min(MOST_ROWS, *op.rows - done);
            const Arranged& rows = own.arranged.arrange(matrix.kinds, from_of(op, done), count, matrix.inputs);
            matrix.multiply(rows, panels.first, panels.end, to_of(op, done), op.to_stride);
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

    void add(const Op& op, int thread) const {
        const auto [rows, columns] = part_of(op, thread);
        for (int r = rows.first; r < rows.end; ++r)
            for (int k = columns.first; k < columns.end; k += LANES)
                store(to_of(op, r) + k, fused(load(second_of(op, r) + k), all(op.scale), load(from_of(op, r) + k)));
    }

    static Floats activated(int32_t choice, Floats x) {
        if (choice == SIGMOID) return all(1.0f) / (all(1.0f) + exponential(-x));
        return choice == IDENTITY ? x : gated(static_cast<Gate>(choice), x);
    }

    void activate(const Op& op, int thread) const {
        const auto [rows, columns] = part_of(op, thread);
        for (int r = rows.first; r < rows.end; ++r)
            for (int k = columns.first; k < columns.end; k += LANES) {
                const Floats value = activated(op.choice, load(from_of(op, r) + k));
                store(to_of(op, r) + k, op.second ? value * load(second_of(op, r) + k) : value);
            }
    }

    void cap(const Op& op, int thread) const {
        const auto [rows, columns] = part_of(op, thread);
        for (int r = rows.first; r < rows.end; ++r)
            for (int k = columns.first; k < columns.end; k += LANES) {
                const Floats part = load(from_of(op, r) + k) / all(op.scale);
                store(to_of(op, r) + k, all(op.scale) * hyperbolic_tangent(part));
            }
    }

    static Memory<float> memory_of(const Op& op, int head) {
        const size_t start = size_t(head) * op.cache->room * op.width;
        return {op.cache->keys + start, op.cache->values + start, op.width};
    }

    // A head, normed by its own weight where there is one, and rotated to its position.
    static void apply_rope(const Op& op, const float* from, int head, int position, float* to) {
        if (op.weight) normalise(from, op.weight + size_t(head) * op.width, op.width, op.epsilon, to);
        else std::memcpy(to, from, sizeof(float) * op.width);
        const float* angle = op.cache->rotation + size_t(position) * op.width;
        for (int d = 0; d < op.width; d += 2) {
            const float real = to[d], imaginary = to[d + 1];
            to[d] = real * angle[d] - imaginary * angle[d + 1];
            to[d + 1] = real * angle[d + 1] + imaginary * angle[d];
        }
    }

    void remember(const Op& op, Own& own, int thread) const {
        const int start = start_of(op);
        const Range items = part(*op.rows * op.kv_heads, thread);
        for (int item = items.first; item < items.end; ++item) {
            const int r = item / op.kv_heads, head = item % op.kv_heads;
            const size_t place = size_t(head) * op.width;
            apply_rope(op, from_of(op, r) + place, head, start + r, own.head.data());
            memory_of(op, head).write(start + r, own.head.data(), second_of(op, r) + place);
        }
    }

    // Queries of one key-value head lie side by side: query i is that of row i % rows.
    void attend_to(const Op& op, Own& own, int thread) const {
        own.scores.resize(std::max(own.scores.size(), size_t(TILE) * op.cache->room));
        const int rows = *op.rows, start = start_of(op), group = op.heads / op.kv_heads;
        const int together = group * rows, tiles = (together + TILE - 1) / TILE;
        const Range items = part(op.kv_heads * tiles, thread);
        for (int item = items.first; item < items.end; ++item) {
            const int kv_head = item / tiles, from = item % tiles * TILE, to = std::min(from + TILE, together);
            Query queries[TILE];
            for (int query = from; query < to; ++query) {
                const int head = kv_head * group + query / rows, r = query % rows;
                float* rotated = own.head.data() + size_t(query - from) * op.width;
                apply_rope(op, from_of(op, r) + size_t(head) * op.width, head, start + r, rotated);
                const int last = start + (op.choice ? r : rows - 1);
                queries[query - from] = {rotated, 0, last, to_of(op, r) + size_t(head) * op.width};
            }
            attend(memory_of(op, kv_head), queries, to - from, 0.0f, own.scores.data(), op.cache->room);
        }
    }

    Range logits_of(const Op& op, int thread) const {
        const Range vectors = part((op.width + LANES - 1) / LANES, thread);
        return {vectors.first * LANES, std::min(vectors.end * LANES, op.width)};
    }

    // Sets a run's next token; the other threads wait for it at the barrier behind.
    void name(const Op& op, int place, float probability) {
        *op.chosen = op.numbers ? op.numbers[place] : place;
        *op.probability = probability;
        if (!op.draws) return;
        likely_ *= probability;
        ++op.draws->count;
        if (likely_ < op.draws->floor) over_ = true;
    }

    // The first of several; its probability is that among all. Each thread finds its part's, the first of
    // the threads the best of these.
    void greedy(const Op& op, int thread) {
        const Range logits = logits_of(op, thread);
        candidates_[thread] = best(from_of(op, 0), logits.first, logits.end);
        pool_.barrier();
        if (thread) return;
        Candidate found = candidates_[0];
        for (const Candidate& other : candidates_)
            if (other.value > found.value) found = other;
        found.mass = 0;
        for (const Candidate& other : candidates_)
            if (other.mass > 0) found.mass += other.mass * std::exp(other.value - found.value);
        name(op, found.place, found.probability());
    }

    // As `draw` in sampling.h, each thread with its part of the tokens.
    void draw(const Op& op, int thread) {
        const float* logits = from_of(op, 0);
        const auto [first, end] = logits_of(op, thread);
        Candidate& own = candidates_[thread];
        own.value = highest(logits, first, end);
        pool_.barrier();
        float peak = -INFINITY;
        for (const Candidate& other : candidates_) peak = std::max(peak, other.value);
        own.mass = weigh(logits, first, end, peak, op.draws->sharpness, weights_.data());
        earliest_[thread] = earliest(weights_.data(), first, end, op.draws->keys[op.offset], op.numbers);
        pool_.barrier();
        if (thread) return;
        Clock found = earliest_[0];
        for (const Clock& other : earliest_)
            if (other.time < found.time) found = other;
        float mass = 0;
        for (const Candidate& other : candidates_) mass += other.mass;
        name(op, found.place, mass > 0 ? weights_[found.place] / mass : 0.0f);
    }

    const std::vector<Op> ops_;
    Pool& pool_;
    int first_ = 0, end_ = 0;
    float likely_ = 1;   // how likely the tokens of this run are, together
    bool over_ = false;  // the last one was too much
    std::vector<std::unique_ptr<Own>> scratch_;
    std::vector<Candidate> candidates_;
    std::vector<Clock> earliest_;
    std::vector<float> weights_;
};

}  // namespace foretoken
