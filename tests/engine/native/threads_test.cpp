// Threads: any number of callers at the same time, forks, a system that starts no more threads, and memory that runs out.

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "failing_memory.h"
#include "support.h"

namespace {

// One piece of work for each kind of kernel, and what it gives on one thread.
class Job {
   public:
    Job(int precision, int64_t vector, int64_t cells, int64_t rows)
        : precision_(precision),
          lanes_(elmore_lanes(precision)),
          vector_(vector),
          cells_(cells),
          rows_(rows),
          gates_(pack_gates(precision, 1, vector, cells, 0.1f, lanes_)),
          projection_(pack(precision, 1, rounded_up(cells, lanes_), vector, 0.1f, lanes_, ELMORE_CELLS_PER_BLOCK)),
          highway_(pack_highway(precision, vector, 0.1f, lanes_)),
          bias_(4 * rounded_up(cells, lanes_) + 4 * rounded_up(vector, 2 * lanes_), 0.1f),
          lengths_(rows, STEPS),
          inputs_(draw_floats(STEPS * rows * vector + 16, 1.0f)),
          h_(vector),
          c_(cells) {
        status_ = run(1, expected_);
    }

    int status() const { return status_; }

    // ELMORE_OK and the same bits, or what went wrong.
    int run(int threads) const {
        std::vector<Floats> found;
        const int status = run(threads, found);
        if (status != ELMORE_OK) return status;
        for (size_t part = 0; part < found.size(); ++part)
            require(same_bits(found[part], expected_[part]), "threads: other bits");
        return status;
    }

   private:
    static constexpr int64_t STEPS = 4;

    int run(int threads, std::vector<Floats> &to) const {
        const ElmoreLstm layer{1, vector_, cells_, gates_.matrix(), gates_.matrix(), projection_.matrix(), bias_.data(), 3.0f, 3.0f};
        Floats outputs(STEPS * rows_ * vector_), highway(rows_ * vector_), product(64 * 64);
        const ElmoreLstmRun call{STEPS, rows_, 1, lengths_.data(), nullptr, inputs_.data(), h_.data(), c_.data(),
                                 outputs.data(), nullptr, nullptr, nullptr, nullptr};
        if (const int status = elmore_run_lstm(precision_, &layer, &call, threads)) return status;
        const ElmoreDense dense{vector_, vector_, highway_.matrix(), bias_.data(), 1};
        if (const int status = elmore_run_dense(precision_, &dense, inputs_.data(), vector_, rows_, highway.data(), vector_, threads))
            return status;
        const ElmoreProduct factors{64, vector_, 64, inputs_.data(), 1, 1, inputs_.data(), 1, 1, product.data(), 64, 0};
        if (const int status = elmore_multiply(&factors, threads)) return status;
        to = {outputs, highway, product};
        return ELMORE_OK;
    }

    int precision_;
    int64_t lanes_, vector_, cells_, rows_;
    Packed gates_, projection_, highway_;
    Floats bias_;
    std::vector<int64_t> lengths_;
    Floats inputs_, h_, c_;
    std::vector<Floats> expected_;
    int status_;
};

// In a child process, so that limits and signals end with it. The child's code, or -1 if a signal ended it.
int in_child(const std::function<void()> &work) {
    std::fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        alarm(300);  // a child that waits forever fails
        work();
        std::fflush(stdout);
        _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// How many threads this process has; 0 where that is not known.
int count_threads() {
    int threads = 0;
    if (FILE *file = std::fopen("/proc/self/status", "r")) {
        char line[256];
        while (std::fgets(line, sizeof line, file)) std::sscanf(line, "Threads: %d", &threads);
        std::fclose(file);
    }
    return threads;
}

void test_callers(const std::vector<Job> &jobs, int rounds) {
    std::vector<std::thread> callers;
    for (unsigned seed = 0; seed < 8; ++seed)
        callers.emplace_back([&jobs, rounds, seed] {
            generator.seed(seed);
            for (int round = 0; round < rounds; ++round)
                require(jobs[draw(0, static_cast<int64_t>(jobs.size()) - 1)].run(static_cast<int>(draw(1, 6))) == ELMORE_OK,
                        "callers: status");
        });
    for (std::thread &caller : callers) caller.join();
}

void test_fork(const std::vector<Job> &jobs) {
    for (const Job &job : jobs) require(job.run(4) == ELMORE_OK, "fork: parent");
    // Other threads use the library while the process forks.
    std::atomic<bool> done{false};
    std::thread other([&] {
        while (!done) jobs[0].run(4);
    });
    for (int round = 0; round < 5; ++round) {
        const int code = in_child([&] {
            for (const Job &job : jobs) require(job.run(4) == ELMORE_OK, "fork: child");
            if (count_threads() != 0) require(count_threads() >= 4, "fork: the child uses one thread");
        });
        require(code == 0, "fork: the child did not end well");
    }
    done = true;
    other.join();
}

// With a limit of processes that is reached, no further thread starts; root has no such limit.
void test_refused_threads(const std::vector<Job> &jobs) {
    const int code = in_child([&] {
        const rlimit none{1, 1};
        if (setuid(geteuid() == 0 ? 65534 : geteuid()) != 0 || setrlimit(RLIMIT_NPROC, &none) != 0) return;
        for (const Job &job : jobs) require(job.run(8) == ELMORE_OK, "refused threads: status");
        require(count_threads() <= 2, "refused threads: the limit has no effect");  // a sanitizer has a thread too
    });
    require(code == 0, "refused threads: the process did not end well");
}

// A call whose memory runs out reports that, and the next calls have the right bits. The first of them needs less memory
// than buffers had before they failed to grow.
void test_memory() {
    int failures = 0;
    for (int precision : {ELMORE_FLOAT32, ELMORE_BFLOAT16, ELMORE_INT8})
        for (int threads : {1, 3})
            for (int allowed = 0; allowed < 12; ++allowed) {
                // The buffers of a new thread are empty.
                std::thread caller([&] {
                    const Job job(precision, 40 + 8 * allowed, 300, 9 * threads);
                    require(job.status() == ELMORE_OK, "memory: a job without a limit");
                    const Job smaller(precision, 24, 70, 4);
                    std::thread([&] {
                        require(smaller.run(threads) == ELMORE_OK, "memory: a smaller call before");
                        allow_allocations(allowed);
                        const int status = job.run(threads);
                        allow_allocations(-1);
                        require(status == ELMORE_OK || status == ELMORE_OUT_OF_MEMORY, "memory: status");
                        failures += status == ELMORE_OUT_OF_MEMORY;
                        require(smaller.run(threads) == ELMORE_OK, "memory: a smaller call after it");
                        require(job.run(threads) == ELMORE_OK, "memory: the same call after it");
                    }).join();
                });
                caller.join();
            }
    require(failures > 20, "memory: it never ran out");
}

}  // namespace

void test_threads(int rounds, bool forks) {
    generator.seed(7);
    std::vector<Job> jobs;
    for (int precision : {ELMORE_FLOAT32, ELMORE_BFLOAT16, ELMORE_INT8}) {
        jobs.emplace_back(precision, 24, 70, 40);   // pieces of rows
        jobs.emplace_back(precision, 30, 600, 2);  // a team of threads
    }
    test_callers(jobs, 10 * rounds);
    for (const Job &job : jobs) require(job.run(100) == ELMORE_OK, "threads: more than a team has members");
    test_memory();
    if (!forks) return;
    test_fork(jobs);
    test_refused_threads(jobs);
}
