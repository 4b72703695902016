// Structures that Python fills in (structures.py): a decoder's weights, sequences' caches, and a step.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "../matrix/matrix.h"
#include "../memory.h"

namespace foretoken {

enum class Gate : int32_t { SILU = 0, GELU = 1, GELU_TANH = 2, RELU = 3, QUICK_GELU = 4 };

enum class Mixer : int32_t { ATTENTION = 0, GATED_DELTA = 1, SHORT_CONVOLUTION = 2, MAMBA2 = 3 };
enum class FeedForward : int32_t { GATED_MLP = 0, MLP = 1, EXPERTS = 2 };

// Grouped-query attention. `qk_norm`, `rotation` and `temperature` are null in models without them.
struct Attention {
    const Matrix *qkv, *output;  // qkv: also a gate for each number that is attended to, where `output_gate`
    const float* qk_norm;   // [heads + kv_heads][head_dim]
    const float* sinks;     // [heads], or null
    const float* rotation;  // [context][head_dim / 2][cosine, sine]
    const float* temperature;  // [context]: multiplies queries
    const int32_t* axes;       // [head_dim / 2]: which number of a row's place in an image turns each pair; null: its position does
    int32_t heads, kv_heads, head_dim;
    int32_t window;  // positions that a row sees; 0: all
    int32_t slot;    // of the layer's keys and values in a cache
    int32_t output_gate;
    int32_t shared;  // another layer stores the keys and values of the slot; qkv makes none
    int32_t value_norm;  // values are normalised per head
    int32_t qk_norm_across_heads, qk_norm_after_rope;
    float score_cap;

    int group() const { return heads / kv_heads; }
    int attended() const { return heads * head_dim; }
    int gates_head() const { return heads + (shared ? 0 : 2 * kv_heads); }  // the first head of gates in a row of qkv
    int qkv_width() const { return (gates_head() + (output_gate ? heads : 0)) * head_dim; }
};

// See gated_delta.h. `inputs` makes queries and keys [key_heads][key_dim] and values [value_heads][value_dim], which are
// convolved; then gates like the values; then alpha and beta [value_heads], which say how much is forgotten and learned.
struct GatedDelta {
    const Matrix *inputs, *output;
    const float *convolution;         // [kernel][channels]
    const float *decay, *decay_bias;  // [value_heads]
    const float *norm;                // [value_dim]
    int32_t key_heads, value_heads, key_dim, value_dim, kernel;
    int32_t slot;   // of the layer's memory in a cache
    int32_t tiled;  // value head h uses key head h % key_heads, otherwise h / group()

    int group() const { return value_heads / key_heads; }
    // Return the value head that is the `each`-th to use `key_head`.
    int value_head(int key_head, int each) const { return tiled ? each * key_heads + key_head : key_head * group() + each; }
    int values() const { return value_heads * value_dim; }
    int channels() const { return 2 * key_heads * key_dim + values(); }
    int inputs_width() const { return channels() + values() + 2 * value_heads; }
};

// See short_convolution.h. `inputs` makes B, C and x, each `width` wide.
struct ShortConvolution {
    const Matrix *inputs, *output;
    const float* convolution;  // [kernel][width]
    int32_t width, kernel;
    int32_t slot;  // of the layer's memory in a cache
};

// See mamba2.h. `inputs` makes gates [heads][head_dim]; then values like them, B and C [groups][state], which are convolved; then dt [heads].
struct Mamba2 {
    const Matrix *inputs, *output;
    const float *convolution, *convolution_bias;  // [kernel][channels], [channels]
    const float *decay, *step_bias, *skip;        // [heads]
    const float* norm;                            // [heads][head_dim]
    int32_t heads, head_dim, groups, state, kernel;
    int32_t slot;  // of the layer's memory in a cache

    int values() const { return heads * head_dim; }
    int channels() const { return values() + 2 * groups * state; }
    int kept() const { return channels() + heads; }  // numbers of a row that later ones need
    int inputs_width() const { return values() + kept(); }
};

// Also the weights of an Mlp, whose `gate_up` is `up` alone.
struct GatedMlp {
    const Matrix *gate_up, *down;
    int32_t intermediate;
    Gate gate;
};

// How a layer reads its own input, `own_width` numbers: output(function(gate(x)) * input), normalised by `after`. Null where there is none.
struct OwnInput {
    const Matrix *gate, *output;
    const float* after;
    Gate function;
};

// See experts.h. `router` makes a logit for each expert, and one for the gate of the shared one where `shared_gate`. `gate_up` makes
// the gates of all experts, then their other factors; `down` the outputs of one after the other.
struct Experts {
    const Matrix *router, *gate_up, *down;
    const float *score_bias, *score_scale;  // [count], or null
    // Where the parts have norms of their own, else null. Rows come without a weight; the first two are those before experts and
    // shared expert, the others those after them.
    const float *norm, *shared_norm, *after, *shared_after;
    GatedMlp shared;          // without matrices: none
    int32_t count, chosen, intermediate;
    Gate gate;
    int32_t sigmoid, renormalised, shared_gate;
    float scale, clamp;  // clamp 0: none
};

// A mixer and a feed-forward; the weights of their kinds are filled in. Any of the norms before and after them may be null.
struct Layer {
    const float *mixer_norm, *mixer_after, *mlp_norm, *mlp_after;
    Mixer mixer;
    FeedForward feed_forward;
    Attention attention;
    GatedDelta delta;
    ShortConvolution convolution;
    Mamba2 mamba;
    GatedMlp mlp;
    Experts experts;
    OwnInput own;
    float scalar;  // the layer's result is multiplied by it
};

// The norms of the residual stream have weights [hidden] and, with `norm_bias`, biases [hidden] behind them.
struct Shape {
    const Layer* layers;
    const Matrix *embedding, *head;
    const float* norm;
    int32_t count, vocabulary, hidden, context;
    int32_t layer_norms;  // they subtract the mean first
    int32_t norm_bias;
    int32_t parallel;  // a feed-forward reads what its mixer reads
    float epsilon, embedding_scale, residual_scale, logit_scale;
    float logit_cap;  // 0: none
    // The layers' own inputs: projection(x), normalised in parts of `own_width`, plus the token's row of a second embedding.
    const Matrix *own_projection, *own_embedding;
    const float* own_norm;  // [own_width]
    int32_t own_width;      // 0: there are none
    float own_epsilon, own_scale;
};

// Where to write a layer's hidden states, in the cache's dtype.
struct AuxLayer {
    void* rows;     // [positions][hidden]
    int32_t layer;  // the input of this layer; the number of layers: the output of the last; -1: that, normed
};

constexpr int RECENT_ROWS = 2 * ROWS;  // as in structures.py

// The memory of a recurrent layer for one sequence: two states, and what its mixer keeps of recent rows (see recent_rows.h). Sizes are
// those of a gated delta net, which keeps the inputs of the convolution, alpha and beta.
struct Recurrence {
    float* states[2];  // [value_heads][value_dim / 16][key_dim][16]
    float* recent;     // [RECENT_ROWS + ROWS][channels + 2 * value_heads], by position; then the rows of a tree
};

// The cache of one sequence. In each slot: keys [kv_heads][context / 16][head_dim][16], values [kv_heads][context][head_dim].
struct Cache {
    void *const *keys, *const *values;
    const Recurrence* recurrences;
    const AuxLayer* aux_layers;
    int32_t aux_count;
    int32_t bf16;
    int32_t context;  // positions, a multiple of sixteen; the last sixteen are for the rows of a tree
};

// Panels of the output head that a trimmed vocabulary keeps, in order; without runs it is whole.
struct TrimmedPanels {
    const Range* runs;
    int32_t count, panels, tokens;  // runs, panels of all runs, and their tokens, of which the last panel may have fewer
};

// Compute panels first .. end - 1 of those that a trimmed `head` keeps: to [rows][width].
inline void multiply_trimmed(const Matrix& head, const Arranged& rows, const TrimmedPanels& trimmed, int first, int end, float* to, int width) {
    int before = 0;  // panels
    for (int number = 0; number < trimmed.count && before < end; ++number) {
        const Range run = trimmed.runs[number];
        const int size = run.end - run.first, from = std::max(first - before, 0), until = std::min(end - before, size);
        // `multiply` adds the offset of the run's first panel in the whole head.
        if (from < until) head.multiply(rows, run.first + from, run.first + until, to + (ptrdiff_t(before) - run.first) * LANES, width);
        before += size;
    }
}

// Rows of one sequence that a step computes, the first at position `start`.
struct Sequence {
    Cache cache;
    const int32_t* parents;  // null: a chain; else of at most sixteen rows in a tree, the first -1, parents before children
    const float* const* embedded;  // of each row, null where its token's is looked up; null: all are
    const int32_t* places;         // time, row and column of each row [rows][3]; null: all three are its position plus `shift`
    int32_t rows, start;
    // Of recurrent layers. State `from` has taken in the first `absorbed` tokens; it takes in those up to `start` before the
    // rows go to state `to`. Rows behind them go from there to `pending`.
    int32_t from, to, pending, absorbed;
    int32_t shift;  // what images before add to positions
};

// Makes `sequence` go on behind its rows, where the next ones are in `rows`.
inline void advance(Sequence& sequence, int rows) {
    sequence.start += sequence.rows;
    if (sequence.embedded) sequence.embedded += sequence.rows;
    if (sequence.places) sequence.places += 3 * size_t(sequence.rows);
    sequence.rows = rows;
    sequence.from = sequence.to;
    sequence.absorbed = sequence.start;
}

struct Step {
    const int64_t* tokens;      // of all sequences' rows, in order
    const Sequence* sequences;  // each with its own cache, all of the same dtype
    int32_t count;              // of sequences
    int32_t last;               // the number of last rows to compute logits of
    float* logits;              // [last][vocabulary], or [last][trimmed.panels * 16]
    TrimmedPanels trimmed;
};

}  // namespace foretoken
