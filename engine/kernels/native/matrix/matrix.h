// A matrix: parts one below the other, each in a kind of weights of its own.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "part.h"

namespace foretoken {

class Matrix {
public:
    // `outputs` of each kind; a multiple of sixteen of all but the last, so that panels are whole.
    Matrix(const Kind* kinds, const int* outputs, int parts, int inputs) : outputs(total_of(outputs, parts)), inputs(inputs), kinds(kinds, kinds + parts) {
        for (int part = 0; part < parts; ++part) {
            parts_.push_back(make_part(kinds[part], outputs[part], inputs));
            panels += parts_.back()->panels;
        }
    }

    // Outputs first .. first + count - 1, which lie in one part and begin a panel: those of some panels, as Part takes them.
    void pack(Kind from, const void* rows, const void* scales, int first, int count, Range panels) {
        Part& part = holding(first);
        for (int panel = panels.first; panel < panels.end; ++panel) {
            const int row = panel * LANES;
            part.pack(from, rows, scales, row, std::min(LANES, count - row), first / LANES + panel);
        }
    }

    void set_bias(const float* bias) {
        for (auto& part : parts_) {
            part->set_bias(bias);
            bias += part->outputs;
        }
    }

    void row(int n, float* to) const {
        const Part& part = holding(n);
        part.row(n, to);
    }

    // `rows` were arranged for `kinds`.
    void multiply(const Arranged& rows, int first, int end, float* to, int stride) const {
        int before = 0;  // panels
        for (size_t number = 0; number < parts_.size(); ++number) {
            const Part& part = *parts_[number];
            const int from = std::max(first - before, 0), until = std::min(end - before, part.panels);
            if (from < until) part.multiply(rows.tiles(int(number)), from, until, to + size_t(before) * LANES, stride);
            before += part.panels;
        }
    }

    const int outputs, inputs;
    int panels = 0;
    const std::vector<Kind> kinds;

private:
    static int total_of(const int* outputs, int parts) {
        int sum = 0;
        for (int part = 0; part < parts; ++part) sum += outputs[part];
        return sum;
    }

    // The part that holds output n, which becomes its number there.
    Part& holding(int& n) const {
        size_t part = 0;
        for (; n >= parts_[part]->outputs && part + 1 < parts_.size(); ++part) n -= parts_[part]->outputs;
        return *parts_[part];
    }

    std::vector<std::unique_ptr<Part>> parts_;
};

}  // namespace foretoken
