// Memory for weights, and how work on them is shared out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>

#ifdef __linux__
#include <sys/mman.h>
#endif

namespace foretoken {

// Memory at the start of a page, in large pages where the system makes them of what lies so: fewer misses when
// streaming. Through C++'s operators: Windows has no aligned_alloc.
class Bytes {
public:
    explicit Bytes(size_t size) : alignment_{LARGE && size >= LARGE ? LARGE : size_t{4096}} {
        const size_t alignment = size_t(alignment_);
        size = (size + alignment - 1) / alignment * alignment;
        data_ = ::operator new(size, alignment_);
#ifdef __linux__
        if (alignment == LARGE) madvise(data_, size, MADV_HUGEPAGE);
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
    static constexpr size_t LARGE = size_t{1} << 21;
#else
    static constexpr size_t LARGE = 0;  // none of their own accord
#endif

    const std::align_val_t alignment_;
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
