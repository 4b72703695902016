// Save packed matrices in a file, which can be mapped in place of packing them again.
#pragma once

#include <cstring>
#include <memory>
#include <span>
#include <thread>

#include "file.h"
#include "matrix.h"

#ifdef __linux__
#include <sys/resource.h>
#endif

namespace foretoken {

inline uint64_t image_bytes(const Matrix& matrix) {
    uint64_t bytes = 0;
    for (const auto piece : matrix.image.pieces()) bytes += piece.size();
    return bytes;
}

// Write the images of `matrices`, one after the other. Linux keeps what is written at once in pages of that size, so whole chunks
// can later be mapped by huge pages (read times: docs/log/loading.md).
inline bool save_images(std::span<const Matrix* const> matrices, File file) {
    constexpr size_t CHUNK = size_t{1} << 23;
    bool saved = true;
    std::thread([&] {
#ifdef __linux__
        setpriority(PRIO_PROCESS, 0, 10);  // of this thread
#endif
        const auto chunk = std::make_unique<uint8_t[]>(CHUNK);
        size_t filled = 0;
        for (const Matrix* matrix : matrices)
            for (auto piece : matrix->image.pieces())
                while (saved && !piece.empty()) {
                    const auto some = piece.first(std::min(piece.size(), CHUNK - filled));
                    std::memcpy(chunk.get() + filled, some.data(), some.size());
                    piece = piece.subspan(some.size());
                    if ((filled += some.size()) == CHUNK) saved = write_all(file, chunk.get(), std::exchange(filled, 0));
                }
        saved = saved && write_all(file, chunk.get(), filled);
    }).join();
    return saved;
}

}  // namespace foretoken
