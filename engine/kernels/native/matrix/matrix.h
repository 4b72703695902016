// A matrix: parts stacked by outputs, each with its own kind of weights.
#pragma once

#include <algorithm>
#include <memory>
#include <numeric>
#include <vector>

#include "part.h"

namespace foretoken {

class Matrix {
public:
    // `outputs` of each kind: a multiple of sixteen in all parts but the last, so that panels are whole.
    Matrix(const Kind* kinds, const int* outputs, int parts, int inputs, const void* mapped)
        : outputs(std::accumulate(outputs, outputs + parts, 0)), inputs(inputs), kinds(kinds, kinds + parts), image(mapped) {
        for (int part = 0; part < parts; ++part) {
            parts_.push_back(make_part(kinds[part], outputs[part], inputs, image));
            panels += parts_.back()->panels;
        }
    }

    // Pack outputs first .. first + count - 1, which lie in one part and begin a panel: those of the given panels, as Part::pack does.
    void pack(Kind from, const void* rows, const void* scales, int first, int count, Range panels) {
        Part& part = part_of(first);
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
        const Part& part = part_of(n);
        part.row(n, to);
    }

    // Multiply by `rows`, which were arranged for `kinds`; see Part::multiply.
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
    Image image;

private:
    // Return the part that holds output n, and set n to its number there.
    Part& part_of(int& n) const {
        size_t part = 0;
        for (; n >= parts_[part]->outputs && part + 1 < parts_.size(); ++part) n -= parts_[part]->outputs;
        return *parts_[part];
    }

    std::vector<std::unique_ptr<Part>> parts_;
};

}  // namespace foretoken
