// A few threads that wait for work, and a barrier for those who share one piece of it.
#pragma once

#include <atomic>
#include <cstdint>

namespace elmore {

// A function of its own data and the number of a thread. No std::function, whose code might be shared between a file
// that was compiled for AVX-512 and one that runs everywhere.
using Work = void (*)(void *context, int rank);

// Run `work(context, rank)` for each rank below `threads`, rank 0 on the calling thread; returns when all are done.
// While another caller has the threads, the calling thread does all ranks by itself, one after the other; and a rank that
// has not begun when rank 0 is done is left out. So `work` takes what is to be done next, until there is nothing left, and
// never waits for others.
void run_on_threads(int threads, Work work, void *context);

// The same for work whose ranks wait for each other at a barrier; false, and nothing done, where the threads are taken.
bool run_as_team(int threads, Work work, void *context);

// Where all threads of a team wait for the last. Waiting burns little: after a short spin it yields, then sleeps.
class Barrier {
   public:
    explicit Barrier(int size) : size_(size) {}
    void wait();

   private:
    const int size_;
    std::atomic<int> arrived_{0};
    std::atomic<uint32_t> round_{0};
};

// Spin, then yield, then sleep until `value` is no longer `old`.
void wait_while_equal(const std::atomic<uint32_t> &value, uint32_t old);

}  // namespace elmore
