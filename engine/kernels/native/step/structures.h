// What Python fills in and hands over: a decoder's weights, caches of sequences, and what a step computes (structures.py).
#pragma once

#include <cstdint>

#include "../matrix/matrix.h"
#include "../memory.h"

namespace foretoken {

enum class Gate : int32_t { SILU = 0, GELU = 1, GELU_TANH = 2, RELU = 3 };

enum class Mixer : int32_t { ATTENTION = 0 };
enum class FeedForward : int32_t { GATED_MLP = 0 };

// Grouped-query attention. Null where a model has no such thing.
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

// A mixer and a feed-forward, each of a kind, whose weights are filled in. Norms after them are null where there are none.
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

// Where hidden states go, in the cache's type: [positions][hidden].
struct AuxLayer {
    void* rows;
    int32_t layer;  // whose input it is; the number of layers: what leaves the last; -1: that, normed
};

// What one sequence keeps. Of each slot: keys [kv_heads][context / 16][head_dim][16], values [kv_heads][context][head_dim].
struct Cache {
    void *const *keys, *const *values;
    const AuxLayer* aux_layers;
    int32_t aux_count;
    int32_t bf16;
    int32_t context;  // positions, a multiple of sixteen; the last sixteen are for the rows of a tree
};

// Panels of the output head that a trimmed vocabulary keeps, in order; no runs: all of them.
struct TrimmedPanels {
    const Range* runs;
    int32_t count, panels;  // of all runs together
};

// Rows of one sequence that a step computes, the first at position `start`.
struct Sequence {
    Cache cache;
    const int32_t* parents;  // of at most sixteen rows in a tree, the first -1, each before its children; null: a chain
    int32_t rows, start;
};

struct Step {
    const int64_t* tokens;      // of all sequences' rows, one after the other
    const Sequence* sequences;  // no two with the same cache; their caches keep the same type
    int32_t count;              // of sequences
    int32_t last;               // rows at the end whose logits are wanted
    float* logits;              // [last][vocabulary], or [last][trimmed.panels * 16]
    TrimmedPanels trimmed;
};

}  // namespace foretoken
