#include "threads.h"

#include <pthread.h>
#include <sched.h>

#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace elmore {
namespace {

// Long enough to bridge the way from one layer to the next, short enough not to take a core from whoever else wants it.
constexpr int SPINS = 4000;
constexpr int YIELDS = 20;

inline void pause_briefly() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

class Pool {
   public:
    std::mutex taken;  // one caller at a time

    void run(int threads, Work work, void *context) {
        while (static_cast<int>(threads_.size()) < threads - 1) {
            const int rank = static_cast<int>(threads_.size()) + 1;
            threads_.emplace_back([this, rank, seen = round_.load()] { serve(rank, seen); });
            threads_.back().detach();
        }
        {
            std::lock_guard<std::mutex> hold(changing_);
            work_ = work;
            context_ = context;
            ranks_ = threads;
            joined_ = 0;
            done_.store(0);
            round_.fetch_add(1);
        }
        round_.notify_all();
        work(context, 0);
        uint32_t joined = 0;
        {
            // Who has not begun by now, because something else has its core, is not waited for: nothing is left to do.
            std::lock_guard<std::mutex> hold(changing_);
            ranks_ = 0;
            joined = joined_;
        }
        for (uint32_t done = done_.load(); done != joined; done = done_.load()) wait_while_equal(done_, done);
    }

   private:
    void serve(int rank, uint32_t seen) {
        for (;;) {
            wait_while_equal(round_, seen);
            Work work = nullptr;
            void *context = nullptr;
            {
                std::lock_guard<std::mutex> hold(changing_);
                seen = round_.load();
                if (rank < ranks_) {
                    work = work_;
                    context = context_;
                    ++joined_;
                }
            }
            if (work == nullptr) continue;
            work(context, rank);
            done_.fetch_add(1);
            done_.notify_all();
        }
    }

    std::vector<std::thread> threads_;
    std::mutex changing_;  // what follows
    Work work_ = nullptr;
    void *context_ = nullptr;
    int ranks_ = 0;
    uint32_t joined_ = 0;
    std::atomic<uint32_t> round_{0};
    std::atomic<uint32_t> done_{0};
};

// Never destroyed: its threads may outlive every static object.
Pool *pool_of_process = nullptr;
std::mutex making_pool;

Pool &pool() {
    std::lock_guard<std::mutex> hold(making_pool);
    if (pool_of_process == nullptr) {
        pool_of_process = new Pool;
        // A forked child has none of its parent's threads, and perhaps its locks: it begins anew.
        static const int registered = pthread_atfork(nullptr, nullptr, [] {
            new (&making_pool) std::mutex;
            pool_of_process = nullptr;
        });
        static_cast<void>(registered);
    }
    return *pool_of_process;
}

}  // namespace

void run_on_threads(int threads, Work work, void *context) {
    if (threads <= 1 || !run_as_team(threads, work, context)) {
        for (int rank = 0; rank < threads; ++rank) work(context, rank);
    }
}

bool run_as_team(int threads, Work work, void *context) {
    Pool &own = pool();
    std::unique_lock<std::mutex> hold(own.taken, std::try_to_lock);
    if (!hold.owns_lock()) return false;
    own.run(threads, work, context);
    return true;
}

void Barrier::wait() {
    const uint32_t round = round_.load();
    if (arrived_.fetch_add(1) + 1 == size_) {
        arrived_.store(0);
        round_.fetch_add(1);
        round_.notify_all();
        return;
    }
    wait_while_equal(round_, round);
}

void wait_while_equal(const std::atomic<uint32_t> &value, uint32_t old) {
    for (int spin = 0; spin < SPINS; ++spin) {
        if (value.load() != old) return;
        pause_briefly();
    }
    for (int yield = 0; yield < YIELDS; ++yield) {
        if (value.load() != old) return;
        sched_yield();
    }
    while (value.load() == old) value.wait(old);
}

}  // namespace elmore
