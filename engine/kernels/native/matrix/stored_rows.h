// Load rows of blocks from a file into a matrix.
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

enum class LoadResult : int { LOADED = 0, UNREADABLE = 1, NOT_FINITE = 2 };

// `count` consecutive rows of blocks of a `kind` at offset `at`. `halves`: offsets of a block's float16 scales, ended by -1.
// `scales`: as Part::pack takes them.
struct StoredRows {
    Kind kind;
    File file;
    uint64_t at;
    const int* halves;
    const float* scales;
    int count;
};

// Return whether no scale in `blocks` is infinite or NaN, whose exponents are all ones.
inline bool are_finite(const uint8_t* blocks, size_t count, int size, const int* halves) {
    constexpr int MAX_HALVES = 2;
    constexpr uint16_t EXPONENT = 0x7c00;
    for (int half = 0; half < MAX_HALVES && halves[half] >= 0; ++half) {
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

// Load the rows as outputs from `first` on, a multiple of sixteen; all lie in one part. A thread reads, checks and packs as much
// at once as its caches hold, so memory traffic is the file and the matrix alone.
inline LoadResult load_rows(Matrix& matrix, Pool& pool, const StoredRows& rows, int first) {
    constexpr size_t CHUNK_BYTES = size_t{1} << 18;
    const Format& format = format_of(rows.kind);
    const size_t blocks = matrix.inputs / format.inputs, size = blocks * format.bytes;
    const int chunk_rows = int(std::max<size_t>(CHUNK_BYTES / (size * LANES), 1)) * LANES;
    WorkCounter counter;
    std::atomic<LoadResult> result{LoadResult::LOADED};
    pool.run([&](int) {
        // Kept between calls: freed memory would come back as pages that must be cleared.
        thread_local std::vector<uint8_t> buffer;
        if (buffer.size() < size * chunk_rows) buffer.resize(size * chunk_rows);
        pool.parallel_for(counter, (rows.count + chunk_rows - 1) / chunk_rows, [&](int chunk, int end) {
            for (; chunk < end && result == LoadResult::LOADED; ++chunk) {
                const int row = chunk * chunk_rows, count = std::min(chunk_rows, rows.count - row);
                if (!read_at(rows.file, buffer.data(), size * count, rows.at + size * row)) result = LoadResult::UNREADABLE;
                else if (!are_finite(buffer.data(), blocks * count, format.bytes, rows.halves)) result = LoadResult::NOT_FINITE;
                else
                    matrix.pack(rows.kind, buffer.data(), rows.scales ? rows.scales + row : nullptr, first + row, count,
                                {0, (count + LANES - 1) / LANES});
            }
        });
    });
    return result;
}

}  // namespace foretoken
