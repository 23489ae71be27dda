// Threads that wait for work, and how they divide it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace elmore {

// A function of the caller's data and the rank of a thread. Not std::function: its code might be shared between a file
// that is compiled for AVX-512 and one that runs everywhere.
using Work = void (*)(void *context, int rank);

// Numbers that the threads of a call take one after the other, until nothing is left.
class WorkQueue {
   public:
    // Take the next `count` numbers; returns the first of them.
    int64_t take(int64_t count = 1) noexcept;
    // Report that memory ran out.
    void fail() noexcept;
    bool failed() const noexcept;

   private:
    std::atomic<int64_t> next_{0};
    std::atomic<bool> failed_{false};
};

// Run `work(context, rank)` for each rank below `threads`, rank 0 on the calling thread; returns when all are done.
//
// A rank may run late, on the calling thread, or not at all: if another call uses the pool, if the system starts no more
// threads, or if rank 0 was done first. So `work` takes what is next from a queue and never waits for other ranks.
void run_on_threads(int threads, Work work, void *context) noexcept;

// The same for ranks that wait for each other at a barrier. False, and nothing done, if not all of them can run.
bool run_as_team(int threads, Work work, void *context) noexcept;

// A number that changes, and threads that wait until it does. A waiting thread spins for a short time, which bridges the
// way from one layer to the next, and then sleeps: other programs may need its core.
class Event {
   public:
    // Not inline: files that enable instructions include this header.
    Event() noexcept;
    ~Event();
    uint32_t value() const noexcept { return value_.load(); }
    void increment() noexcept;
    void reset() noexcept { value_.store(0); }
    void wait_while_equal(uint32_t old) noexcept;

   private:
    std::atomic<uint32_t> value_{0};
    std::atomic<int> sleepers_{0};
    std::mutex mutex_;
    std::condition_variable changed_;
};

// Each thread of a team waits here for the others.
class Barrier {
   public:
    explicit Barrier(int size) noexcept;
    ~Barrier();
    void wait() noexcept;

   private:
    const int size_;
    std::atomic<int> arrived_{0};
    Event round_;
};

}  // namespace elmore
