// Structures that Python fills in (structures.py): a decoder's weights, sequences' caches, and a step.
#pragma once

#include <cstdint>

#include "../matrix/matrix.h"
#include "../memory.h"

namespace foretoken {

enum class Gate : int32_t { SILU = 0, GELU = 1, GELU_TANH = 2, RELU = 3 };

enum class Mixer : int32_t { ATTENTION = 0 };
enum class FeedForward : int32_t { GATED_MLP = 0 };

// Grouped-query attention. `qk_norm` and `rotation` are null in models without them.
struct Attention {
    const Matrix *qkv, *output;
    const float* qk_norm;   // [heads + kv_heads][head_dim]
    const float* rotation;  // [context][head_dim / 2][cosine, sine]
    int32_t heads, kv_heads, head_dim;
    int32_t window;  // positions that a row sees; 0: all
    int32_t slot;    // of the layer's keys and values in a cache
    float score_cap;

    int group() const { return heads / kv_heads; }
    int attended() const { return heads * head_dim; }
    int qkv_width() const { return (heads + 2 * kv_heads) * head_dim; }
};

struct GatedMlp {
    const Matrix *gate_up, *down;
    int32_t intermediate;
    Gate gate;
};

// A mixer and a feed-forward; the weights of their kinds are filled in. The norms after them may be null.
struct Layer {
    const float *mixer_norm, *mixer_after, *mlp_norm, *mlp_after;
    Mixer mixer;
    FeedForward feed_forward;
    Attention attention;
    GatedMlp mlp;
};

struct Shape {
    const Layer* layers;
    const Matrix *embedding, *head;
    const float* norm;
    int32_t count, vocabulary, hidden, context;
    float epsilon, embedding_scale;
};

// Where to write a layer's hidden states, in the cache's dtype.
struct AuxLayer {
    void* rows;     // [positions][hidden]
    int32_t layer;  // the input of this layer; the number of layers: the output of the last; -1: that, normed
};

// The cache of one sequence. In each slot: keys [kv_heads][context / 16][head_dim][16], values [kv_heads][context][head_dim].
struct Cache {
    void *const *keys, *const *values;
    const AuxLayer* aux_layers;
    int32_t aux_count;
    int32_t bf16;
    int32_t context;  // positions, a multiple of sixteen; the last sixteen are for the rows of a tree
};

// Panels of the output head that a trimmed vocabulary keeps, in order; without runs it is whole.
struct TrimmedPanels {
    const Range* runs;
    int32_t count, panels;  // runs, and panels of all runs
};

// Rows of one sequence that a step computes, the first at position `start`.
struct Sequence {
    Cache cache;
    const int32_t* parents;  // null: a chain; else of at most sixteen rows in a tree, the first -1, parents before children
    int32_t rows, start;
};

struct Step {
    const int64_t* tokens;      // of all sequences' rows, in order
    const Sequence* sequences;  // each with its own cache, all of the same dtype
    int32_t count;              // of sequences
    int32_t last;               // the number of last rows to compute logits of
    float* logits;              // [last][vocabulary], or [last][trimmed.panels * 16]
    TrimmedPanels trimmed;
};

}  // namespace foretoken
