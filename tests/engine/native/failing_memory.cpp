// Instead of `memory.cpp` of the library.
#include "failing_memory.h"

#include <atomic>
#include <cstdlib>
#include <cstring>

#include "memory.h"

namespace {

std::atomic<int> allowed{-1};

// Whether another allocation may succeed.
bool take_allocation() {
    int left = allowed.load();
    while (left > 0 && !allowed.compare_exchange_weak(left, left - 1)) {
    }
    return left != 0;
}

}  // namespace

void allow_allocations(int count) { allowed.store(count); }

namespace elmore {

void *allocate(size_t bytes) noexcept {
    void *memory = nullptr;
    if (!take_allocation() || posix_memalign(&memory, 64, bytes) != 0) return nullptr;
    // NaN as float32 and as bfloat16: what reads memory before it is written gives other results.
    std::memset(memory, 0xff, bytes);
    return memory;
}
void release(void *memory) noexcept { std::free(memory); }

}  // namespace elmore
