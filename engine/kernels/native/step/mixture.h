// Gated MLPs and mixtures of experts, computed by all threads of a pool together: by a decoder's layers and by programs.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "arithmetic.h"
#include "experts.h"
#include "../pool.h"

namespace foretoken {

constexpr int GATE_PANELS = 8;  // that are computed before they are applied, while a cache holds them
constexpr size_t GATES = size_t(2) * MAX_STEP_ROWS * GATE_PANELS * LANES;  // numbers of a buffer of these and their other factors

// Multiply by panels first .. end - 1 behind panel `before`, whose outputs begin at `to`.
inline void multiply_panels(const Matrix& matrix, const Arranged& rows, int before, int first, int end, float* to, int stride) {
    // The matrix adds a panel's offset in the whole of it.
    matrix.multiply(rows, before + first, before + end, to - ptrdiff_t(before) * LANES, stride);
}

// Compute panels first .. end - 1, at most GATE_PANELS, of the activations [count][mlp.width]. `gates` [GATES] is a buffer.
inline void activate_some(const Gated& mlp, const Arranged& rows, int count, int first, int end, float* active, float* gates) {
    constexpr int STRIDE = GATE_PANELS * LANES;
    float* up = gates + MAX_STEP_ROWS * STRIDE;
    multiply_panels(*mlp.gate_up, rows, mlp.gates, first, end, gates - ptrdiff_t(first) * LANES, STRIDE);
    if (mlp.is_gated) multiply_panels(*mlp.gate_up, rows, mlp.ups, first, end, up - ptrdiff_t(first) * LANES, STRIDE);
    const Floats most = all(mlp.clamp);
    for (int r = 0; r < count; ++r, gates += STRIDE, up += STRIDE) {
        float* to = active + size_t(r) * mlp.width + first * LANES;
        for (int k = 0; k < (end - first) * LANES; k += LANES) {
            Floats gate = load(gates + k), factor = load(up + k);
            if (mlp.clamp != 0) {
                gate = minimum(gate, most);
                factor = maximum(minimum(factor, most), -most) + all(1.0f);
            }
            const Floats active = gated(mlp.gate, gate);
            store(to + k, mlp.is_gated ? active * factor : active);
        }
    }
}

// The same for any number of panels.
inline void activate(const Gated& mlp, const Arranged& rows, int count, int first, int end, float* active, float* gates) {
    for (; first < end; first += GATE_PANELS) activate_some(mlp, rows, count, first, std::min(first + GATE_PANELS, end), active, gates);
}

class Mixture {
public:
    Mixture(int hidden, float epsilon, Pool& pool) : hidden_(hidden), epsilon_(epsilon), pool_(pool), counters_(LINEARS) {}

    // Make room for the rows of a layer.
    void reserve(const Experts& experts) {
        const auto room = [](auto& buffer, size_t numbers) { buffer.resize(std::max(buffer.size(), MAX_STEP_ROWS * numbers)); };
        room(active_, size_t(experts.chosen) * experts.intermediate + experts.shared.intermediate);
        room(logits_, experts.router->outputs);
        room(chosen_, experts.chosen);
        room(scores_, experts.chosen);
        room(results_, size_t(experts.chosen + 1) * hidden_);
        while (int(buffers_.size()) < pool_.count()) buffers_.push_back(std::make_unique<Buffers>(hidden_));
        for (auto& each : buffers_) each->routing.resize(std::max(each->routing.size(), size_t(rounded_up(experts.count, LANES))));
    }

    // Route the rows [count][hidden] in `from`, then each expert's rows through it, then add each row's results in the order of its
    // choices, to `to`. `arranged`: this thread's. Ends with a barrier.
    void run(const Experts& experts, const float* from, int count, float* to, Arranged& arranged, int thread) {
        Buffers& own = *buffers_[thread];
        arranged.arrange(experts.router->kinds, from, count, hidden_);
        pool_.parallel_for(counters_[ROUTER], experts.router->panels, [&](int first, int end) {
            experts.router->multiply(arranged, first, end, logits_.data(), experts.router->outputs);
        });
        finish(ROUTER, thread);
        const auto [first, end] = share(count, thread, pool_.count());
        for (int r = first; r < end; ++r)
            route(experts, logits_.data() + size_t(r) * experts.router->outputs, own.routing.data(), chosen_.data() + size_t(r) * experts.chosen,
                  scores_.data() + size_t(r) * experts.chosen);
        pool_.barrier();
        own.assignment.make(experts, chosen_.data(), count, hidden_);
        if (!thread) experts_read += int(own.assignment.items.size()) - bool(experts.shared.gate_up);
        const float* rows = scaled(from, count, experts.norm, own.expert_rows);
        const float* shared = scaled(from, count, experts.shared_norm, own.shared_rows);
        activate_assigned(experts, rows, shared, count, arranged, own);
        finish(GATE_UP, thread);
        multiply_assigned(own.assignment, arranged);
        finish(DOWN, thread);
        add_chosen(experts, own.assignment, count, to, thread);
        pool_.barrier();
        if (!experts.norm) return;
        add_normed(experts, count, to, own, thread);
        pool_.barrier();
    }

    int experts_read = 0;  // in all runs since it was 0, each once a run

private:
    enum Linear { ROUTER, GATE_UP, DOWN, LINEARS };

    // Buffers of one thread.
    struct Buffers {
        explicit Buffers(int hidden) : gates(GATES), gathered(size_t(MAX_STEP_ROWS) * hidden) {}

        std::vector<float> gates;
        std::vector<float> gathered;  // rows of one expert
        std::vector<float> routing;   // scores of one row
        std::vector<float> expert_rows, shared_rows;  // what experts and the shared one read, where they have norms of their own
        Assignment assignment;
    };

    // Wait until all threads have done their part of a linear layer, whose counter is then used again behind a further barrier.
    void finish(Linear linear, int thread) {
        pool_.barrier();
        if (thread == 0) counters_[linear].next.store(0, std::memory_order_relaxed);
    }

    // Return rows times `weight`, in `to`; the rows themselves where there is none.
    const float* scaled(const float* rows, int count, const float* weight, std::vector<float>& to) const {
        if (!weight) return rows;
        to.resize(size_t(MAX_STEP_ROWS) * hidden_);
        for (int r = 0; r < count; ++r)
            for (int k = 0; k < hidden_; k += LANES) {
                const size_t at = size_t(r) * hidden_ + k;
                store(to.data() + at, load(rows + at) * load(weight + k));
            }
        return to.data();
    }

    // `shared`: the rows of the shared expert.
    void activate_assigned(const Experts& experts, const float* from, const float* shared, int count, Arranged& arranged, Buffers& own) {
        const Assignment& assignment = own.assignment;
        // What was arranged last, so that it is not done again: all rows, or those of an item.
        const Matrix* arranged_for = nullptr;
        int last = 0;
        pool_.parallel_for(counters_[GATE_UP], assignment.panels, [&](int first, int end) {
            for (size_t number = 0; number < assignment.items.size(); ++number) {
                const Assigned& item = assignment.items[number];
                const int begin = std::max(first - item.panels_before, 0), stop = std::min(end - item.panels_before, item.mlp.panels());
                if (begin >= stop) continue;
                const int wanted = item.count == count ? -1 : int(number);
                if (arranged_for != item.mlp.gate_up || last != wanted) {
                    const float* rows = item.mlp.gate_up == experts.shared.gate_up ? shared : wanted < 0 ? from : gather(assignment, item, from, own);
                    arranged.arrange(item.mlp.gate_up->kinds, rows, item.count, hidden_);
                    arranged_for = item.mlp.gate_up;
                    last = wanted;
                }
                activate(item.mlp, arranged, item.count, begin, stop, active_.data() + item.active, own.gates.data());
            }
        });
    }

    const float* gather(const Assignment& assignment, const Assigned& item, const float* from, Buffers& own) const {
        for (int r = 0; r < item.count; ++r)
            std::copy_n(from + size_t(assignment.rows_of[item.first + r]) * hidden_, hidden_, own.gathered.data() + size_t(r) * hidden_);
        return own.gathered.data();
    }

    void multiply_assigned(const Assignment& assignment, Arranged& arranged) {
        const int panels = hidden_ / LANES;
        int last = -1;
        pool_.parallel_for(counters_[DOWN], panels * int(assignment.items.size()), [&](int first, int end) {
            for (int number = first / panels; number * panels < end; ++number) {
                const Assigned& item = assignment.items[number];
                if (last != number) arranged.arrange(item.mlp.down->kinds, active_.data() + item.active, item.count, item.mlp.width);
                last = number;
                multiply_panels(*item.mlp.down, arranged, item.mlp.outputs, std::max(first - number * panels, 0),
                                std::min(end - number * panels, panels), results_.data() + size_t(item.first) * hidden_, hidden_);
            }
        });
    }

    // Write this thread's columns of each row's sum.
    void add_chosen(const Experts& experts, const Assignment& assignment, int count, float* sums, int thread) {
        const auto [first, end] = share(hidden_ / LANES, thread, pool_.count());
        for (int r = 0; r < count; ++r) {
            float* to = sums + size_t(r) * hidden_;
            const auto add = [&](int slot, float score, bool fresh) {
                const float* result = results_.data() + size_t(slot) * hidden_;
                for (int k = first * LANES; k < end * LANES; k += LANES)
                    store(to + k, fused(load(result + k), all(score), fresh ? Floats{} : load(to + k)));
            };
            for (int choice = r * experts.chosen; choice < (r + 1) * experts.chosen; ++choice)
                add(assignment.slots[choice], scores_[choice], choice == r * experts.chosen);
            if (!experts.shared.gate_up || experts.norm) continue;
            const float* logits = logits_.data() + size_t(r) * experts.router->outputs;
            add(count * experts.chosen + r, experts.shared_gate ? sigmoid(logits[experts.count]) : 1.0f, false);
        }
    }

    // Normalise the experts' sum and the shared expert's result, and add them, for this thread's rows.
    void add_normed(const Experts& experts, int count, float* sums, Buffers& own, int thread) {
        const auto [first, end] = share(count, thread, pool_.count());
        for (int r = first; r < end; ++r) {
            float *sum = sums + size_t(r) * hidden_, *shared = own.shared_rows.data();
            normalise(sum, experts.after, hidden_, epsilon_, sum);
            normalise(results_.data() + size_t(count * experts.chosen + r) * hidden_, experts.shared_after, hidden_, epsilon_, shared);
            for (int k = 0; k < hidden_; k += LANES) store(sum + k, load(sum + k) + load(shared + k));
        }
    }

    const int hidden_;
    const float epsilon_;
    Pool& pool_;
    std::vector<WorkCounter> counters_;
    std::vector<std::unique_ptr<Buffers>> buffers_;
    std::vector<float> active_, logits_, scores_, results_;  // for each slot, row, choice and slot
    std::vector<int32_t> chosen_;
};

}  // namespace foretoken
