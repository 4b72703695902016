// What Python calls, through ctypes (see library.py). Objects are made and freed by the caller; null or -1 is a failure.
#include <algorithm>
#include <new>

#include "decoder.h"

using namespace foretoken;

extern "C" {

int foretoken_has_int8() { return HAS_INT8; }

Pool* foretoken_pool(int threads) { return new (std::nothrow) Pool(threads); }
Matrix* foretoken_matrix(int kind, int outputs, int inputs) {
    try {
        return new Matrix(static_cast<Kind>(kind), outputs, inputs);
    } catch (const std::bad_alloc&) {
        return nullptr;
    }
}
void foretoken_pack(Matrix* matrix, const void* rows, const float* scales, int first, int count) {
    matrix->pack(rows, scales, first, count);
}
void foretoken_bias(Matrix* matrix, const float* bias) { matrix->set_bias(bias); }
// [rows][inputs] -> [rows][outputs], for up to sixteen rows.
void foretoken_multiply(const Matrix* matrix, Pool* pool, const float* from, int rows, float* to) {
    struct Task {
        const Matrix& matrix;
        const float* from;
        int rows;
        float* to;
    } task{*matrix, from, rows, to};
    pool->run(
        [](void* given, int thread, Pool& pool) {
            const Task& task = *static_cast<Task*>(given);
            Arranged arranged(task.matrix.inputs);
            const Rows rows = arranged.arrange(task.matrix.kind, task.from, task.rows, task.matrix.inputs);
            const Range part = share(task.matrix.panels, thread, pool.count());
            task.matrix.multiply(rows, part.first, part.end, task.to, task.matrix.outputs);
        },
        &task);
}
void foretoken_free_matrix(Matrix* matrix) { delete matrix; }

Decoder* foretoken_decoder(const Shape* shape, Pool* pool) {
    try {
        return new Decoder(*shape, *pool);
    } catch (const std::bad_alloc&) {
        return nullptr;
    }
}
void foretoken_free_decoder(Decoder* decoder) { delete decoder; }

// Appends `rows` tokens at `start` and computes the logits of the `last` ones.
void foretoken_forward(Decoder* decoder, const Step* all_rows) {
    Step part = *all_rows;
    const int end = all_rows->rows;
    for (int done = 0; done < end; done += ROWS) {
        part.tokens = all_rows->tokens + done;
        part.start = all_rows->start + done;
        part.rows = std::min(ROWS, end - done);
        // Of the last rows, those in this part; the earlier ones come first.
        const int wanted_from = end - all_rows->last;
        part.last = std::min(part.rows, std::max(0, done + part.rows - wanted_from));
        part.logits = all_rows->logits + size_t(std::max(0, done - wanted_from)) * decoder->vocabulary();
        decoder->run(part);
    }
}
}
