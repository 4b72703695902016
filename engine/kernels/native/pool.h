// Threads that run one function together and meet at barriers inside it.
//
// A step of a small model is done in a few hundred microseconds, and has five barriers a layer: waking
// threads for each would take longer than the work. So they spin while a step runs, and for a moment
// after it, since the next one usually follows; then they sleep.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>
#include <vector>

namespace foretoken {

inline void relax() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

// The number of items of some work that threads have begun.
struct alignas(64) WorkCounter {
    std::atomic<int> next{0};
};

class Pool {
public:
    using Work = void (*)(void* task, int thread, Pool& pool);

    explicit Pool(int count) : count_(count) {
        for (int thread = 1; thread < count; ++thread)
            threads_.emplace_back([this, thread] { serve(thread); });
    }

    ~Pool() {
        ending_ = true;
        round_.fetch_add(1);
        round_.notify_all();
        for (auto& thread : threads_) thread.join();
    }

    int count() const { return count_; }

    // Calls work(task, thread, *this) on every thread; returns when all are done.
    void run(Work work, void* task) {
        std::lock_guard<std::mutex> guard(busy_);
        work_ = work;
        task_ = task;
        round_.fetch_add(1, std::memory_order_release);
        round_.notify_all();
        work(task, 0, *this);
        barrier();
    }

    // Returns when every thread has called it.
    void barrier() {
        if (count_ == 1) return;
        uint32_t phase = phase_.load(std::memory_order_relaxed);
        if (arrived_.fetch_add(1, std::memory_order_acq_rel) == count_ - 1) {
            arrived_.store(0, std::memory_order_relaxed);
            phase_.store(phase + 1, std::memory_order_release);
            return;
        }
        for (int spins = 0; phase_.load(std::memory_order_acquire) == phase; ++spins) {
            // A thread that lost its core cannot arrive while we hold it.
            if (spins > SPINS) std::this_thread::yield();
            else relax();
        }
    }

    // Calls work(first, end) for parts of `count` things, on whichever thread is free (dynamic scheduling): cores differ, and something
    // else may have one of them. `counter` is at 0 before the first thread comes. Does not wait for the others.
    template <class Work>
    void parallel_for(WorkCounter& counter, int count, const Work& work) {
        const int size = count_ == 1 ? count : std::max(1, count / (count_ * PARTS_EACH));
        for (int first; (first = counter.next.fetch_add(size, std::memory_order_relaxed)) < count;)
            work(first, std::min(first + size, count));
    }

private:
    static constexpr int PARTS_EACH = 8;  // of a thread's work, if all were equally fast
    static constexpr int SPINS = 4000;
    static constexpr std::chrono::microseconds PATIENCE{1000};

    void serve(int thread) {
        uint32_t seen = 0;
        while (true) {
            await(seen);
            seen = round_.load(std::memory_order_acquire);
            if (ending_) return;
            work_(task_, thread, *this);
            barrier();
        }
    }

    void await(uint32_t seen) {
        auto until = std::chrono::steady_clock::now() + PATIENCE;
        while (round_.load(std::memory_order_acquire) == seen) {
            for (int spins = 0; spins < 64; ++spins) relax();
            if (std::chrono::steady_clock::now() > until) round_.wait(seen);
        }
    }

    const int count_;
    std::vector<std::thread> threads_;
    std::mutex busy_;
    Work work_ = nullptr;
    void* task_ = nullptr;
    std::atomic<bool> ending_{false};
    alignas(64) std::atomic<uint32_t> round_{0};
    alignas(64) std::atomic<int> arrived_{0};
    alignas(64) std::atomic<uint32_t> phase_{0};
};

}  // namespace foretoken
