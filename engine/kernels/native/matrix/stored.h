// Rows of blocks that are still in a file, on their way into a matrix.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <vector>

#include "file.h"
#include "matrix.h"
#include "../pool.h"

namespace foretoken {

// What became of them.
enum class Taken : int { ALL = 0, UNREADABLE = 1, NOT_FINITE = 2 };

// `count` rows of blocks of a `kind`, one behind the other from `at` on. `halves`: where in a block the float16 numbers lie
// that others are multiplied by; -1: no more. `scales`: as Part::pack takes them.
struct Stored {
    Kind kind;
    File file;
    uint64_t at;
    const int* halves;
    const float* scales;
    int count;
};

// Whether none of the scales in `blocks` is infinite or no number: their exponents are all ones then.
inline bool are_finite(const uint8_t* blocks, size_t count, int size, const int* halves) {
    constexpr int MOST = 2;
    constexpr uint16_t EXPONENT = 0x7c00;
    for (int half = 0; half < MOST && halves[half] >= 0; ++half) {
        bool wrong = false;
        for (size_t block = 0; block < count; ++block) {
            uint16_t bits;
            std::memcpy(&bits, blocks + block * size + halves[half], sizeof bits);
            wrong |= (bits & EXPONENT) == EXPONENT;
        }
        if (wrong) return false;
    }
    return true;
}

// The rows become the outputs from `first` on, a multiple of sixteen, which lie in one part. A thread reads, checks and packs as
// much at once as its caches hold: memory sees the file and the matrix, and nothing between them.
inline Taken take(Matrix& matrix, Pool& pool, const Stored& rows, int first) {
    constexpr size_t TOGETHER = size_t{1} << 18;
    struct Task {
        Matrix& matrix;
        const Stored& rows;
        const int first;
        WorkCounter counter;
        std::atomic<Taken> taken{Taken::ALL};
    } task{matrix, rows, first};
    pool.run(
        [](void* given, int, Pool& pool) {
            Task& task = *static_cast<Task*>(given);
            const Stored& rows = task.rows;
            const Format& format = format_of(rows.kind);
            const size_t blocks = task.matrix.inputs / format.inputs, size = blocks * format.bytes;
            const int some = int(std::max<size_t>(TOGETHER / (size * LANES), 1)) * LANES;
            // Kept: memory that is given back comes back as pages to be cleared.
            thread_local std::vector<uint8_t> room;
            if (room.size() < size * some) room.resize(size * some);
            pool.parallel_for(task.counter, (rows.count + some - 1) / some, [&](int piece, int end) {
                for (; piece < end && task.taken == Taken::ALL; ++piece) {
                    const int row = piece * some, count = std::min(some, rows.count - row);
                    if (!read_at(rows.file, room.data(), size * count, rows.at + size * row)) task.taken = Taken::UNREADABLE;
                    else if (!are_finite(room.data(), blocks * count, format.bytes, rows.halves)) task.taken = Taken::NOT_FINITE;
                    else
                        task.matrix.pack(rows.kind, room.data(), rows.scales ? rows.scales + row : nullptr, task.first + row, count,
                                         {0, (count + LANES - 1) / LANES});
                }
            });
        },
        &task);
    return task.taken;
}

}  // namespace foretoken
