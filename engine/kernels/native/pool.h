// Threads that run one function together and meet at barriers inside it.
//
// A step of a small model takes a few hundred microseconds and has five barriers a layer. Waking threads for each would take
// longer than the work. So threads spin while a step runs, and for a moment after it, since the next one usually follows; then
// they sleep.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>
#include <vector>

namespace foretoken {

inline void cpu_relax() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

// The number of items that threads have begun.
struct alignas(64) WorkCounter {
    std::atomic<int> next{0};
};

class Pool {
public:
    explicit Pool(int count) : count_(count) {
        for (int thread = 1; thread < count; ++thread)
            threads_.emplace_back([this, thread] { serve(thread); });
    }

    ~Pool() {
        stopping_ = true;
        round_.fetch_add(1);
        round_.notify_all();
        for (auto& thread : threads_) thread.join();
    }

    int count() const { return count_; }

    // Call work(thread) on every thread; return when all are done.
    template <class Work>
    void run(const Work& work) {
        std::lock_guard<std::mutex> guard(busy_);
        work_ = [](const void* work, int thread) { (*static_cast<const Work*>(work))(thread); };
        task_ = &work;
        round_.fetch_add(1, std::memory_order_release);
        round_.notify_all();
        work(0);
        barrier();
    }

    // Return when every thread has called it.
    void barrier() {
        if (count_ == 1) return;
        uint32_t phase = phase_.load(std::memory_order_relaxed);
        if (arrived_.fetch_add(1, std::memory_order_acq_rel) == count_ - 1) {
            arrived_.store(0, std::memory_order_relaxed);
            phase_.store(phase + 1, std::memory_order_release);
            return;
        }
        for (int spins = 0; phase_.load(std::memory_order_acquire) == phase; ++spins) {
            // A thread that was preempted cannot arrive while this one holds the core.
            if (spins > SPINS) std::this_thread::yield();
            else cpu_relax();
        }
    }

    // Call work(first, end) for chunks of `count` items, on whichever thread is free (dynamic scheduling): cores differ, and other
    // programs may occupy some. `counter` is 0 before the first thread comes. Does not wait for the others.
    template <class Work>
    void parallel_for(WorkCounter& counter, int count, const Work& work) {
        const int size = count_ == 1 ? count : std::max(1, count / (count_ * CHUNKS_PER_THREAD));
        for (int first; (first = counter.next.fetch_add(size, std::memory_order_relaxed)) < count;)
            work(first, std::min(first + size, count));
    }

private:
    static constexpr int CHUNKS_PER_THREAD = 8;  // if all were equally fast
    static constexpr int SPINS = 4000;
    static constexpr std::chrono::microseconds SPIN_TIME{1000};

    void serve(int thread) {
        uint32_t seen = 0;
        while (true) {
            await(seen);
            seen = round_.load(std::memory_order_acquire);
            if (stopping_) return;
            work_(task_, thread);
            barrier();
        }
    }

    void await(uint32_t seen) {
        auto until = std::chrono::steady_clock::now() + SPIN_TIME;
        while (round_.load(std::memory_order_acquire) == seen) {
            for (int spins = 0; spins < 64; ++spins) cpu_relax();
            if (std::chrono::steady_clock::now() > until) round_.wait(seen);
        }
    }

    const int count_;
    std::vector<std::thread> threads_;
    std::mutex busy_;
    void (*work_)(const void* task, int thread) = nullptr;
    const void* task_ = nullptr;
    std::atomic<bool> stopping_{false};
    alignas(64) std::atomic<uint32_t> round_{0};
    alignas(64) std::atomic<int> arrived_{0};
    alignas(64) std::atomic<uint32_t> phase_{0};
};

}  // namespace foretoken
