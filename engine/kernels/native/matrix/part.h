// A part of a matrix: some outputs whose weights are all of one kind.
#pragma once

#include <cstring>
#include <memory>
#include <span>

#include "../memory.h"
#include "rows.h"

namespace foretoken {

class Part {
public:
    Part(Kind kind, int outputs, int inputs)
        : kind(kind), outputs(outputs), inputs(inputs), panels((outputs + LANES - 1) / LANES), bias_(size_t(panels) * LANES * sizeof(float)) {
        for (int n = 0; n < panels * LANES; ++n) bias_.as<float>()[n] = 0;
    }
    virtual ~Part() = default;

    // Store `count` rows, from number `row` on, as the outputs of a panel. They are of the kind `from`, which is this part's or one
    // that it can round. The kind says what `rows` and `scales` point to.
    virtual void pack(Kind from, const void* rows, const void* scales, int row, int count, int panel) = 0;
    // Write the weights of one output, as an embedding needs them.
    virtual void row(int n, float* to) const = 0;
    // Write outputs of panels first .. end - 1 for the rows of all tiles, to to[row * stride + output].
    virtual void multiply(std::span<const Rows> tiles, int first, int end, float* to, int stride) const = 0;

    void set_bias(const float* bias) { std::memcpy(bias_.as<float>(), bias, sizeof(float) * outputs); }

    const Kind kind;
    const int outputs, inputs, panels;

protected:
    // Store sixteen outputs from `n` on. The last panel may hold fewer than lanes.
    void finish(float* to, Floats value, int n) const {
        if (n + LANES <= outputs) return store(to, value);
        float lanes[LANES];
        store(lanes, value);
        for (int lane = 0; n + lane < outputs; ++lane) to[lane] = lanes[lane];
    }

    Bytes bias_;
};

// Defined in linear.cpp, so that nothing else depends on the kinds of parts. Only blocks are part of an image.
std::unique_ptr<Part> make_part(Kind kind, int outputs, int inputs, Image& image);

}  // namespace foretoken
