// Multiply by one matrix on an emulated processor: read a case from stdin and write the results as plain numbers.
//
// In: kind, outputs, inputs, bytes of a row and words of the grid as 32-bit integers; the grid; the rows of the weight; sixteen float rows of inputs.
// Out: the results of the first 1, 2, ... 16 rows; then the weight as rows are looked up.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace foretoken {
class Matrix;
class Pool;
}  // namespace foretoken
using foretoken::Matrix;
using foretoken::Pool;

extern "C" {
Pool* foretoken_pool(int threads);
Matrix* foretoken_matrix(const int* kinds, const int* outputs, int parts, int inputs, const void* mapped);
void foretoken_pack(Matrix* matrix, Pool* pool, int from, const void* rows, const void* scales, int first, int count);
void foretoken_set_grid(int kind, const uint32_t* words, int count);
void foretoken_rows(const Matrix* matrix, const int64_t* numbers, int count, float* to);
void foretoken_multiply(const Matrix* matrix, Pool* pool, const float* from, int rows, int first, int outputs, float* to);
}

template <class T>
std::vector<T> take(size_t count) {
    std::vector<T> found(count);
    if (fread(found.data(), sizeof(T), count, stdin) != count) std::exit(1);
    return found;
}

int main() {
    const auto head = take<int32_t>(5);
    const int outputs = head[1], inputs = head[2];
    const auto grid = take<uint32_t>(head[4]);
    const auto weight = take<uint8_t>(size_t(outputs) * head[3]);
    const auto rows = take<float>(size_t(16) * inputs);
    if (head[4]) foretoken_set_grid(head[0], grid.data(), head[4]);
    Pool* pool = foretoken_pool(2);
    Matrix* matrix = foretoken_matrix(&head[0], &outputs, 1, inputs, nullptr);
    foretoken_pack(matrix, pool, head[0], weight.data(), nullptr, 0, outputs);
    for (int count = 1; count <= 16; ++count) {
        std::vector<float> result(size_t(count) * outputs);
        foretoken_multiply(matrix, pool, rows.data(), count, 0, outputs, result.data());
        fwrite(result.data(), sizeof(float), result.size(), stdout);
    }
    for (int64_t n = 0; n < outputs; ++n) {
        std::vector<float> row(inputs);
        foretoken_rows(matrix, &n, 1, row.data());
        fwrite(row.data(), sizeof(float), row.size(), stdout);
    }
    fflush(stdout);
    std::_Exit(0);  // the threads sleep
}
