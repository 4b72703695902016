// The C functions for decoders and programs that Python calls through ctypes (see library.py). The caller frees what is made; null
// means that there is no memory, or that a size is none.
#include <algorithm>
#include <exception>

#include "decoder.h"
#include "../exported.h"
#include "top_tokens.h"
#include "program.h"
#include "sampling.h"

using namespace foretoken;

extern "C" {

EXPORTED Decoder* foretoken_decoder(const Shape* shape, Pool* pool) {
    try {
        return new Decoder(*shape, *pool);
    } catch (const std::exception&) {
        return nullptr;
    }
}
EXPORTED void foretoken_free_decoder(Decoder* decoder) { delete decoder; }
EXPORTED int foretoken_experts_read(const Decoder* decoder) { return decoder->experts_read(); }

// Append tokens and compute the logits of the `last` ones. Several sequences may have MAX_STEP_ROWS rows in all; a single chain may
// have any number.
EXPORTED void foretoken_forward(Decoder* decoder, const Step* whole) {
    if (whole->count > 1) return decoder->run(*whole);
    Sequence part = *whole->sequences;
    Step step = *whole;
    step.sequences = &part;
    const int end = part.rows;
    part.rows = std::min(MAX_STEP_ROWS, end);
    for (int done = 0; done < end; done += part.rows, advance(part, std::min(MAX_STEP_ROWS, end - done))) {
        step.tokens = whole->tokens + done;
        // The part's share of the last rows; earlier ones come first.
        const int wanted_from = end - whole->last;
        step.last = std::min(part.rows, std::max(0, done + part.rows - wanted_from));
        step.logits = whole->logits + size_t(std::max(0, done - wanted_from)) * decoder->width(*whole);
        decoder->run(step);
    }
}

// Append the tokens of `step`, then draft up to `depth` tokens, each from the first `limit` logits: the most likely one or, with
// `keys`, one drawn as in sampling.h. The last token is not appended. Drafting ends with the token
// that makes the joint probability less than `floor`. Return the number of tokens. `step` has one sequence and a buffer for one row
// of logits; if its head is trimmed, `numbers` has the token id of each logit.
EXPORTED int foretoken_draft(Decoder* decoder, const Step* step, int depth, int limit, const int64_t* numbers,
                                const Sampling* sampling, const uint64_t* keys, float floor, int64_t* tokens,
                                float* probabilities) {
    Step next = *step;
    Sequence sequence = *step->sequences;
    next.sequences = &sequence;
    float joint_probability = 1;
    for (int index = 0; index < depth; ++index) {
        foretoken_forward(decoder, &next);
        const Drawn drawn = keys ? draw(next.logits, limit, *sampling, keys[index], numbers) : most_likely(next.logits, limit);
        tokens[index] = numbers ? numbers[drawn.index] : drawn.index;
        probabilities[index] = drawn.probability;
        joint_probability *= probabilities[index];
        if (joint_probability < floor) return index + 1;
        advance(sequence, 1);
        sequence.embedded = nullptr;  // it is behind the prompt
        sequence.places = nullptr;
        sequence.to = sequence.pending;
        next.tokens = tokens + index;
    }
    return depth;
}

// Draw a token of each of `rows` rows of `width` logits, `stride` apart, as in sampling.h; without `keys`, take the most likely one.
EXPORTED void foretoken_sample_logits(const float* logits, int rows, int width, int64_t stride, const Sampling* sampling,
                                      const uint64_t* keys, Drawn* drawn) {
    for (int r = 0; r < rows; ++r, logits += stride) drawn[r] = keys ? draw(logits, width, *sampling, keys[r]) : most_likely(logits, width);
}

EXPORTED void foretoken_top_k(const float* numbers, int width, int count, int64_t* indices) { top_k(numbers, width, count, indices); }

// Draw a token for each of `rows` rows of `width` weights; see sampling.h.
EXPORTED void foretoken_sample_weights(const float* weights, int rows, int width, const uint64_t* keys, int64_t* tokens) {
    for (int r = 0; r < rows; ++r) tokens[r] = earliest(weights + size_t(r) * width, width, keys[r]);
}

EXPORTED Program* foretoken_program(const Op* ops, int count, Pool* pool) {
    try {
        return new Program(ops, count, *pool);
    } catch (const std::exception&) {
        return nullptr;
    }
}
EXPORTED void foretoken_free_program(Program* program) { delete program; }
// Run operations first .. end - 1.
EXPORTED void foretoken_run(Program* program, int first, int end) { program->run(first, end); }
}
