// What Python calls of decoders and programs, through ctypes (see library.py). Objects are made and freed by the caller; null
// or -1 is a failure.
#include <algorithm>
#include <new>

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
    } catch (const std::bad_alloc&) {
        return nullptr;
    }
}
EXPORTED void foretoken_free_decoder(Decoder* decoder) { delete decoder; }

// Appends tokens and computes the logits of the `last` ones. Of several sequences MOST_ROWS rows in all; one may have any
// number in a chain.
EXPORTED void foretoken_forward(Decoder* decoder, const Step* whole) {
    if (whole->count > 1) return decoder->run(*whole);
    Sequence part = *whole->sequences;
    Step step = *whole;
    step.sequences = &part;
    const int end = part.rows, start = part.start;
    for (int done = 0; done < end; done += MOST_ROWS) {
        step.tokens = whole->tokens + done;
        part.start = start + done;
        part.rows = std::min(MOST_ROWS, end - done);
        // Of the last rows, those in this part; the earlier ones come first.
        const int wanted_from = end - whole->last;
        step.last = std::min(part.rows, std::max(0, done + part.rows - wanted_from));
        step.logits = whole->logits + size_t(std::max(0, done - wanted_from)) * decoder->width(*whole);
        decoder->run(step);
    }
}

// Appends the tokens of `step`, then chooses `depth` tokens after all before them: each the likeliest of the first
// `limit` ones or, with `keys`, one drawn among them as in sampling.h, `sharpness` being 1 / temperature. The last one is not
// appended. One that makes all of them together less likely than `floor` is the last. Returns how many there are. `step` has one
// sequence, and one row of logits for scratch; where it wants some panels, `numbers` are the tokens of their logits.
EXPORTED int foretoken_continue(Decoder* decoder, const Step* step, int depth, int limit, const int64_t* numbers,
                                float sharpness, const uint64_t* keys, float floor, int64_t* tokens,
                                float* probabilities) {
    Step next = *step;
    Sequence sequence = *step->sequences;
    next.sequences = &sequence;
    float likely = 1;
    for (int index = 0; index < depth; ++index) {
        foretoken_forward(decoder, &next);
        if (keys) {
            const Drawn found = draw(next.logits, limit, sharpness, keys[index], numbers);
            tokens[index] = found.token;
            probabilities[index] = found.chance;
        } else {
            const Candidate found = best(next.logits, 0, limit);
            tokens[index] = found.place;
            probabilities[index] = found.probability();
        }
        if (numbers) tokens[index] = numbers[tokens[index]];
        likely *= probabilities[index];
        if (likely < floor) return index + 1;
        sequence.start += sequence.rows;
        sequence.rows = 1;
        next.tokens = tokens + index;
    }
    return depth;
}

// For each of `rows` rows of `width` logits, `stride` apart: the likeliest token, its logit, and the mass beside it.
EXPORTED void foretoken_greedy(const float* logits, int rows, int width, int64_t stride, int64_t* tokens,
                                  float* peaks, float* masses) {
    for (int r = 0; r < rows; ++r) {
        const Candidate found = best(logits + r * stride, 0, width);
        tokens[r] = found.place;
        peaks[r] = found.value;
        masses[r] = found.mass;
    }
}

// See first_places.
EXPORTED void foretoken_first_places(const float* numbers, int width, int count, int64_t* places) {
    first_places(numbers, width, count, places);
}

// As foretoken_greedy, but the token is drawn; `sharpness` is 1 / temperature, the keys are sampling.h's.
EXPORTED void foretoken_drawn(const float* logits, int rows, int width, int64_t stride, float sharpness,
                              const uint64_t* keys, int64_t* tokens, float* peaks, float* masses) {
    for (int r = 0; r < rows; ++r) {
        const Drawn found = draw(logits + r * stride, width, sharpness, keys[r]);
        tokens[r] = found.token;
        peaks[r] = found.peak;
        masses[r] = found.mass;
    }
}

// A token for each of `rows` rows of `width` weights; see sampling.h.
EXPORTED void foretoken_sample(const float* weights, int rows, int width, const uint64_t* keys, int64_t* tokens) {
    for (int r = 0; r < rows; ++r) tokens[r] = earliest(weights + size_t(r) * width, 0, width, keys[r]).place;
}

EXPORTED Program* foretoken_program(const Op* ops, int count, Pool* pool) {
    try {
        return new Program(ops, count, *pool);
    } catch (const std::bad_alloc&) {
        return nullptr;
    }
}
EXPORTED void foretoken_free_program(Program* program) { delete program; }
// Operations first .. end - 1.
EXPORTED void foretoken_run(Program* program, int first, int end) { program->run(first, end); }
}
