// What a recurrent layer keeps of a sequence's last rows, by position, and of the rows of a tree; and the causal convolution over them.
#pragma once

#include <cstring>

#include "structures.h"
#include "../vector.h"

namespace foretoken {

class RecentRows {
public:
    RecentRows(float* rows, int width) : rows_(rows), width_(width) {}

    float* at(int position) const { return rows_ + position % RECENT_ROWS * width_; }
    float* in_tree(int number) const { return rows_ + (RECENT_ROWS + number) * width_; }

    // Return channels c .. c + 15 of the convolution over the `kernel` positions up to `position`, by `weights` [kernel][channels].
    Floats convolved(const float* weights, int kernel, int channels, int position, int c) const {
        Floats sum{};
        for (int tap = 0; tap < kernel; ++tap) {
            const int past = position - kernel + 1 + tap;
            if (past < 0) continue;
            sum = fused(load(at(past) + c), load(weights + size_t(tap) * channels + c), sum);
        }
        return sum;
    }

private:
    float* rows_;
    size_t width_;
};

}  // namespace foretoken
