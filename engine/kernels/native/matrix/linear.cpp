// The C functions for threads and matrices that Python calls through ctypes (see library.py). This file compiles without the
// step, so that matrices can be tested for other processors.
#include <algorithm>
#include <memory>
#include <new>

#include "block_panels.h"
#include "../exported.h"
#include "matrix.h"
#include "panels.h"
#include "../pool.h"
#include "saving.h"
#include "stored_rows.h"

namespace foretoken {

std::unique_ptr<Part> make_part(Kind kind, int outputs, int inputs, Image& image) {
    if (is_blocks(kind)) return std::make_unique<BlockPanels>(kind, outputs, inputs, &image);
    return std::make_unique<Panels>(kind, outputs, inputs);
}

}  // namespace foretoken

using namespace foretoken;

extern "C" {

// Return whether the processor has instructions for this kind of weights.
EXPORTED int foretoken_has(int kind) { return static_cast<Kind>(kind) != Kind::PAIRS || HAS_PAIRS; }

EXPORTED Pool* foretoken_pool(int threads) { return new (std::nothrow) Pool(threads); }
// Set what indices of a kind of blocks stand for; see unpacking::grid. Only the first call for a kind has an effect.
EXPORTED void foretoken_set_grid(int kind, const uint32_t* words, int count) {
    std::vector<uint32_t>& grid = *format_of(static_cast<Kind>(kind)).grid;
    if (grid.empty()) grid.assign(words, words + count);
}
// Make a matrix of at most MAX_PARTS parts; null without memory. `mapped`: its image, which must outlive it; null: it will be packed.
EXPORTED Matrix* foretoken_matrix(const int* kinds, const int* outputs, int parts, int inputs, const void* mapped) {
    try {
        return new Matrix(reinterpret_cast<const Kind*>(kinds), outputs, parts, inputs, mapped);
    } catch (const std::bad_alloc&) {
        return nullptr;
    }
}
// Pack `count` outputs, which lie in one part, from `first`, a multiple of sixteen; `rows` are of the kind `from`.
EXPORTED void foretoken_pack(Matrix* matrix, Pool* pool, int from, const void* rows, const void* scales, int first, int count) {
    pool->run([&](int thread) {
        const Range part = share((count + LANES - 1) / LANES, thread, pool->count());
        matrix->pack(static_cast<Kind>(from), rows, scales, first, count, part);
    });
}
// Do the same with `count` rows in a file at offset `at`, in blocks of the kind `from`. Return a LoadResult.
EXPORTED int foretoken_load(Matrix* matrix, Pool* pool, int from, File file, uint64_t at, const int* halves, const float* scales, int first, int count) {
    return int(load_rows(*matrix, *pool, {static_cast<Kind>(from), file, at, halves, scales, count}, first));
}
EXPORTED void foretoken_bias(Matrix* matrix, const float* bias) { matrix->set_bias(bias); }
// Write rows of the weight as floats [count][inputs].
EXPORTED void foretoken_rows(const Matrix* matrix, const int64_t* numbers, int count, float* to) {
    for (int r = 0; r < count; ++r) matrix->row(int(numbers[r]), to + size_t(r) * matrix->inputs);
}
// Multiply up to MAX_STEP_ROWS rows by `outputs` outputs from `first` on, a multiple of sixteen: [rows][inputs] -> [rows][outputs].
EXPORTED void foretoken_multiply(const Matrix* matrix, Pool* pool, const float* from, int rows, int first, int outputs, float* to) {
    pool->run([&](int thread) {
        Arranged arranged;
        arranged.arrange(matrix->kinds, from, rows, matrix->inputs);
        const int before = first / LANES;
        const Range part = share((outputs + LANES - 1) / LANES, thread, pool->count());
        matrix->multiply(arranged, before + part.first, before + part.end, to - first, outputs);
    });
}
// Return the bytes of the image of a matrix that was packed.
EXPORTED uint64_t foretoken_image_bytes(const Matrix* matrix) { return image_bytes(*matrix); }
// Write the images of matrices to a file, one after the other, at the lowest priority. Return whether all was written.
EXPORTED int foretoken_save_images(const Matrix* const* matrices, int count, File file) { return save_images({matrices, size_t(count)}, file); }
EXPORTED void foretoken_free_matrix(Matrix* matrix) { delete matrix; }
}
