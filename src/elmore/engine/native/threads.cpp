#include "threads.h"

#include <chrono>
#include <new>
#include <system_error>
#include <thread>

#if !defined(_WIN32)
#include <pthread.h>
#endif
#if defined(__x86_64__) || defined(_M_X64)
#include <immintrin.h>
#elif defined(_M_ARM64)
#include <intrin.h>
#endif

namespace elmore {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto SPIN_TIME = std::chrono::microseconds(50);
constexpr int PAUSES = 64;  // from one look at the clock to the next
constexpr int YIELDS = 20;

inline void pause_briefly() {
#if defined(__x86_64__) || defined(_M_X64)
    _mm_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#elif defined(_M_ARM64)
    __yield();
#endif
}

// Threads of the process, used by one call at a time.
class Pool {
   public:
    std::mutex in_use;

    // Start threads until there are `count`; returns how many there are. The system may refuse to start more.
    int start_threads(int count) {
        while (started_ < count) {
            const int rank = started_ + 1;
            try {
                std::thread([this, rank, seen = round_.value()] { serve(rank, seen); }).detach();
            } catch (const std::system_error &) {
                break;
            } catch (const std::bad_alloc &) {
                break;
            }
            started_ = rank;
        }
        return started_;
    }

    void run(int threads, Work work, void *context) {
        {
            std::lock_guard<std::mutex> lock(changes_);
            work_ = work;
            context_ = context;
            ranks_ = threads;
            joined_ = 0;
            done_.reset();
            // Under the lock: a thread that is late for the last round must not join this one twice.
            round_.increment();
        }
        work(context, 0);
        uint32_t joined = 0;
        {
            // A thread that has not joined by now, because another program uses its core, is not needed any more.
            std::lock_guard<std::mutex> lock(changes_);
            ranks_ = 0;
            joined = joined_;
        }
        for (uint32_t done = done_.value(); done != joined; done = done_.value()) done_.wait_while_equal(done);
    }

   private:
    void serve(int rank, uint32_t seen) {
        for (;;) {
            round_.wait_while_equal(seen);
            Work work = nullptr;
            void *context = nullptr;
            {
                std::lock_guard<std::mutex> lock(changes_);
                seen = round_.value();
                if (rank < ranks_) {
                    work = work_;
                    context = context_;
                    ++joined_;
                }
            }
            if (work == nullptr) continue;
            work(context, rank);
            done_.increment();
        }
    }

    int started_ = 0;
    std::mutex changes_;  // guards the following
    Work work_ = nullptr;
    void *context_ = nullptr;
    int ranks_ = 0;
    uint32_t joined_ = 0;
    Event round_;
    Event done_;
};

// Never destroyed: its threads may run longer than static objects live.
Pool *process_pool = nullptr;
std::mutex pool_creation;

// A forked child has none of its parent's threads, and perhaps its locks: it gets a new pool.
void forget_pool() {
    new (&pool_creation) std::mutex;
    process_pool = nullptr;
}

// Null if memory ran out.
Pool *pool() {
    std::lock_guard<std::mutex> lock(pool_creation);
    if (process_pool == nullptr) {
#if !defined(_WIN32)
        static const int registered = pthread_atfork(nullptr, nullptr, forget_pool);
        static_cast<void>(registered);
#endif
        process_pool = new (std::nothrow) Pool;
    }
    return process_pool;
}

// Run on the pool with at least `fewest` threads. False if another call uses the pool, or if there are fewer.
bool run_on_pool(int threads, int fewest, Work work, void *context) {
    Pool *const shared = pool();
    if (shared == nullptr) return false;
    std::unique_lock<std::mutex> lock(shared->in_use, std::try_to_lock);
    if (!lock.owns_lock()) return false;
    const int available = shared->start_threads(threads - 1) + 1;
    if (available < fewest) return false;
    shared->run(available < threads ? available : threads, work, context);
    return true;
}

}  // namespace

int64_t WorkQueue::take(int64_t count) noexcept { return next_.fetch_add(count, std::memory_order_relaxed); }
void WorkQueue::fail() noexcept { failed_.store(true, std::memory_order_relaxed); }
bool WorkQueue::failed() const noexcept { return failed_.load(std::memory_order_relaxed); }

void run_on_threads(int threads, Work work, void *context) noexcept {
    if (threads > 1 && run_on_pool(threads, 2, work, context)) return;
    for (int rank = 0; rank < threads; ++rank) work(context, rank);
}

bool run_as_team(int threads, Work work, void *context) noexcept {
    return run_on_pool(threads, threads, work, context);
}

Event::Event() noexcept = default;
Event::~Event() = default;

// Sequentially consistent: either the waiting thread sees the new value, or this one sees that it sleeps.
void Event::increment() noexcept {
    value_.fetch_add(1);
    if (sleepers_.load() == 0) return;
    std::lock_guard<std::mutex> lock(mutex_);
    changed_.notify_all();
}

void Event::wait_while_equal(uint32_t old) noexcept {
    const Clock::time_point end = Clock::now() + SPIN_TIME;
    do {
        for (int pause = 0; pause < PAUSES; ++pause) {
            if (value_.load() != old) return;
            pause_briefly();
        }
    } while (Clock::now() < end);
    for (int yield = 0; yield < YIELDS; ++yield) {
        if (value_.load() != old) return;
        std::this_thread::yield();
    }
    sleepers_.fetch_add(1);
    {
        std::unique_lock<std::mutex> lock(mutex_);
        while (value_.load() == old) changed_.wait(lock);
    }
    sleepers_.fetch_sub(1);
}

Barrier::Barrier(int size) noexcept : size_(size) {}
Barrier::~Barrier() = default;

void Barrier::wait() noexcept {
    const uint32_t round = round_.value();
    if (arrived_.fetch_add(1) + 1 == size_) {
        arrived_.store(0);
        round_.increment();
        return;
    }
    round_.wait_while_equal(round);
}

}  // namespace elmore
