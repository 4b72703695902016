// Which experts a step's rows choose, and which rows each expert has.
//
// An expert's weights are streamed once for all rows that chose it. Every thread works out the same assignment.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "structures.h"
#include "../vector.h"

namespace foretoken {

// Write the experts that a row chooses, the best first, and their scores. `logits` [count]; `space` has room for as many numbers,
// rounded up to sixteen. Of equal scores the first expert's wins.
inline void route(const Experts& experts, const float* logits, float* space, int32_t* chosen, float* scores) {
    const int padded = rounded_up(experts.count, LANES);
    std::copy_n(logits, experts.count, space);
    std::fill(space + experts.count, space + padded, -INFINITY);
    if (experts.sigmoid) {
        for (int k = 0; k < padded; k += LANES) store(space + k, all(1.0f) / (all(1.0f) + exponential(-load(space + k))));
    } else {
        const Floats high = all(*std::max_element(space, space + experts.count));
        Floats sum{};
        for (int k = 0; k < padded; k += LANES) {
            store(space + k, exponential(load(space + k) - high));
            sum = sum + load(space + k);
        }
        const Floats factor = all(1.0f / total(sum));
        for (int k = 0; k < padded; k += LANES) store(space + k, load(space + k) * factor);
    }
    const auto rank = [&](int expert) { return space[expert] + (experts.score_bias ? experts.score_bias[expert] : 0.0f); };
    int count = 0;
    for (int expert = 0; expert < experts.count; ++expert) {
        if (count == experts.chosen && !(rank(expert) > rank(chosen[count - 1]))) continue;
        int place = count < experts.chosen ? count++ : count - 1;
        for (; place > 0 && rank(expert) > rank(chosen[place - 1]); --place) chosen[place] = chosen[place - 1];
        chosen[place] = expert;
    }
    float sum = 0;
    for (int choice = 0; choice < count; ++choice) sum += scores[choice] = space[chosen[choice]];
    const float factor = experts.renormalised ? experts.scale / (sum + 1e-20f) : experts.scale;
    for (int choice = 0; choice < count; ++choice)
        scores[choice] *= experts.score_scale ? factor * experts.score_scale[chosen[choice]] : factor;
}

// An MLP within two matrices, from which panels on: of a layer that has one, or of an expert. One that is not gated has no `ups`.
struct Gated {
    const Matrix *gate_up, *down;
    int gates, ups, outputs;
    int width;
    Gate gate;
    float clamp;  // of an expert's factors; 0: none
    bool is_gated;

    int panels() const { return width / LANES; }
};

inline Gated whole(const GatedMlp& mlp, bool is_gated) {
    return {mlp.gate_up, mlp.down, 0, mlp.intermediate / LANES, 0, mlp.intermediate, mlp.gate, 0.0f, is_gated};
}

inline Gated expert_of(const Experts& experts, int expert, int hidden) {
    const int panels = experts.intermediate / LANES;
    return {experts.gate_up, experts.down, expert * panels, (experts.count + expert) * panels, expert * (hidden / LANES),
            experts.intermediate, experts.gate, experts.clamp, true};
}

// An expert with its rows: those of slots first .. first + count - 1, whose activations begin at `active`. `panels_before`: of the
// experts before it.
struct Assigned {
    Gated mlp;
    int first, count;
    size_t active;
    int panels_before;
};

// The experts that rows chose, in order, and at last the shared one. Each has its rows in slots side by side.
class Assignment {
public:
    // `chosen` [rows][experts.chosen].
    void make(const Experts& experts, const int32_t* chosen, int rows, int hidden) {
        const int choices = rows * experts.chosen;
        items.clear();
        rows_of.resize(choices + rows);
        slots.resize(choices);
        next_.assign(experts.count, 0);
        panels = 0;
        for (int choice = 0; choice < choices; ++choice) ++next_[chosen[choice]];
        int first = 0;
        for (int expert = 0; expert < experts.count; ++expert) {
            const int count = next_[expert];
            next_[expert] = first;
            if (count) add(expert_of(experts, expert, hidden), first, count, size_t(first) * experts.intermediate);
            first += count;
        }
        for (int choice = 0; choice < choices; ++choice) {
            slots[choice] = next_[chosen[choice]]++;
            rows_of[slots[choice]] = choice / experts.chosen;
        }
        for (int r = 0; r < rows; ++r) rows_of[first + r] = r;
        if (experts.shared.gate_up) add(whole(experts.shared, true), first, rows, size_t(first) * experts.intermediate);
    }

    std::vector<Assigned> items;
    std::vector<int> rows_of;  // the row of each slot
    std::vector<int> slots;    // the slot of each choice
    int panels = 0;            // of all items, in their activations

private:
    void add(const Gated& mlp, int first, int count, size_t active) {
        items.push_back({mlp, first, count, active, panels});
        panels += mlp.panels();
    }

    std::vector<int> next_;  // slot of each expert
};

}  // namespace foretoken
