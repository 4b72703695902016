// The gated short convolution of LFM2 (Liquid AI 2025, arXiv 2511.23404): C * convolve(B * x), where a linear layer makes B, C and
// x [width] of each row. The products B * x of the last rows are all that it keeps, so there is nothing to catch up with.
#pragma once

#include "recent_rows.h"

namespace foretoken {

// Computes `count` channels from `first` on of one sequence's rows.
class ShortConvolver {
public:
    ShortConvolver(const ShortConvolution& layer, const Recurrence& memory, int first, int count)
        : layer_(layer), recent_(memory.recent, layer.width), first_(first), count_(count) {}

    const RecentRows& recent() const { return recent_; }

    // Keep what `row` [inputs' outputs] has for later rows in `to`, one of the recent rows.
    void remember(const float* row, float* to) const {
        for (int c = first_; c < first_ + count_; c += LANES) store(to + c, load(row + c) * load(row + 2 * layer_.width + c));
    }
    void place(int number, int position) const {
        std::memcpy(recent_.at(position) + first_, recent_.in_tree(number) + first_, sizeof(float) * count_);
    }

    // Write the result of `row`, which is remembered at `position`.
    __attribute__((noinline)) void mix(const float* row, int position, float* to) const {
        for (int c = first_; c < first_ + count_; c += LANES)
            store(to + c, load(row + layer_.width + c) * recent_.convolved(layer_.convolution, layer_.kernel, layer_.width, position, c));
    }

private:
    const ShortConvolution& layer_;
    const RecentRows recent_;
    const int first_, count_;
};

}  // namespace foretoken
