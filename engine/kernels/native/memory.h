// Memory for weights, and how work on them is shared out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

#ifdef __linux__
#include <sys/mman.h>
#endif

namespace foretoken {

// Memory at the start of a page, in large pages where the system has them: fewer misses when streaming.
class Bytes {
public:
    explicit Bytes(size_t size) {
        constexpr size_t PAGE = size_t{1} << 21;
        size_t alignment = size < PAGE ? 4096 : PAGE;
        size = (size + alignment - 1) / alignment * alignment;
        data_ = std::aligned_alloc(alignment, size);
        if (!data_) throw std::bad_alloc();
#ifdef __linux__
        if (alignment == PAGE) madvise(data_, size, MADV_HUGEPAGE);
#endif
    }
    ~Bytes() { std::free(data_); }
    Bytes(const Bytes&) = delete;
    Bytes& operator=(const Bytes&) = delete;

    template <class T>
    T* as() const {
        return static_cast<T*>(data_);
    }

private:
    void* data_;
};

inline int rounded_up(int value, int unit) { return (value + unit - 1) / unit * unit; }

struct Range {
    int first, end;
};

// The part of `count` things that falls to one of `threads`.
inline Range share(int count, int thread, int threads) {
    return {int(int64_t(count) * thread / threads), int(int64_t(count) * (thread + 1) / threads)};
}

}  // namespace foretoken
