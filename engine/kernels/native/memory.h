// Memory for weights, and how work on them is divided among threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>

#ifdef __linux__
#include <sys/mman.h>
#endif

namespace foretoken {

// Page-aligned memory, in huge pages where the system has them: fewer TLB misses when streaming. It is allocated by C++'s
// operators because Windows has no aligned_alloc.
class Bytes {
public:
    explicit Bytes(size_t size) : alignment_{HUGE_PAGE && size >= HUGE_PAGE ? HUGE_PAGE : size_t{4096}} {
        const size_t alignment = size_t(alignment_);
        size = (size + alignment - 1) / alignment * alignment;
        data_ = ::operator new(size, alignment_);
#ifdef __linux__
        if (alignment == HUGE_PAGE) madvise(data_, size, MADV_HUGEPAGE);
#endif
    }
    ~Bytes() { ::operator delete(data_, alignment_); }
    Bytes(const Bytes&) = delete;
    Bytes& operator=(const Bytes&) = delete;

    template <class T>
    T* as() const {
        return static_cast<T*>(data_);
    }

private:
#ifdef __linux__
    static constexpr size_t HUGE_PAGE = size_t{1} << 21;
#else
    static constexpr size_t HUGE_PAGE = 0;  // not available
#endif

    const std::align_val_t alignment_;
    void* data_;
};

inline int rounded_up(int value, int unit) { return (value + unit - 1) / unit * unit; }

struct Range {
    int first, end;
};

// Return one thread's part of `count` items.
inline Range share(int count, int thread, int threads) {
    return {int(int64_t(count) * thread / threads), int(int64_t(count) * (thread + 1) / threads)};
}

}  // namespace foretoken
