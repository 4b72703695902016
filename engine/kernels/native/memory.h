// Memory for weights, and how work on them is divided among threads.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <span>
#include <utility>
#include <vector>

#ifdef __linux__
#include <sys/mman.h>
#endif

namespace foretoken {

// Memory that several owners share, in huge pages where the system has them: fewer TLB misses when streaming. It is allocated by
// C++'s operators because Windows has no aligned_alloc.
class Slab {
public:
    explicit Slab(size_t size) : size_(size), data_(::operator new(size, ALIGNMENT)) {
#ifdef __linux__
        madvise(data_, size, MADV_HUGEPAGE);
#endif
    }
    ~Slab() { ::operator delete(data_, ALIGNMENT); }
    Slab(const Slab&) = delete;
    Slab& operator=(const Slab&) = delete;

    // Return the next `size` bytes, null if so many are not left.
    void* take(size_t size) {
        if (size > size_ - used_) return nullptr;
        used_ += size;
        return static_cast<char*>(data_) + used_ - size;
    }

    static constexpr size_t HUGE_PAGE = size_t{1} << 21;

private:
    static constexpr std::align_val_t ALIGNMENT{HUGE_PAGE};

    const size_t size_;
    size_t used_ = 0;
    void* const data_;
};

// The memory of a packed matrix: pieces in the order in which they were made, or one piece of a mapped file that was saved so.
class Image {
public:
    explicit Image(const void* mapped) : mapped_(static_cast<const uint8_t*>(mapped)) {}
    bool is_mapped() const { return mapped_; }

    const uint8_t* take(size_t size) { return std::exchange(mapped_, mapped_ + size); }
    void add(const uint8_t* piece, size_t size) { pieces_.emplace_back(piece, size); }
    const std::vector<std::span<const uint8_t>>& pieces() const { return pieces_; }

private:
    const uint8_t* mapped_;
    std::vector<std::span<const uint8_t>> pieces_;
};

// Page-aligned memory. Weights lie one after the other in slabs: a huge page for each one's end took a tenth of their memory.
class Bytes {
public:
    // `image`: what this memory is a part of, if anything. Mapped memory must not be written to.
    explicit Bytes(size_t size, Image* image = nullptr) : mapped_(image && image->is_mapped()) {
        size = (size + PAGE - 1) / PAGE * PAGE;
        if (mapped_) data_ = const_cast<uint8_t*>(image->take(size));
        else allocate(size);
        if (image && !mapped_) image->add(as<uint8_t>(), size);
    }
    ~Bytes() {
        if (!slab_ && !mapped_) ::operator delete(data_, std::align_val_t{PAGE});
    }
    Bytes(const Bytes&) = delete;
    Bytes& operator=(const Bytes&) = delete;

    template <class T>
    T* as() const {
        return static_cast<T*>(data_);
    }

private:
    static constexpr size_t PAGE = 4096, SLAB = size_t{1} << 26, SHARED = size_t{1} << 18;

    void allocate(size_t size) {
        if (size < SHARED) {
            data_ = ::operator new(size, std::align_val_t{PAGE});
            std::memset(data_, 0, size);  // a saved image must not hold what lay here; slabs are fresh pages
            return;
        }
        static std::mutex mutex;
        static std::weak_ptr<Slab> last;
        const std::lock_guard lock(mutex);
        slab_ = last.lock();
        data_ = slab_ ? slab_->take(size) : nullptr;
        if (data_) return;
        slab_ = std::make_shared<Slab>(std::max(SLAB, (size + Slab::HUGE_PAGE - 1) / Slab::HUGE_PAGE * Slab::HUGE_PAGE));
        last = slab_;
        data_ = slab_->take(size);
    }

    const bool mapped_;
    std::shared_ptr<Slab> slab_;
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
