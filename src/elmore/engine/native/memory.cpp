#include "memory.h"

#include <cstdlib>

#if defined(_WIN32)
#include <malloc.h>
#endif

namespace elmore {
namespace {

constexpr size_t CACHE_LINE = 64;

}  // namespace

#if defined(_WIN32)

void *allocate(size_t bytes) noexcept { return _aligned_malloc(bytes, CACHE_LINE); }
void release(void *memory) noexcept { _aligned_free(memory); }

#else

void *allocate(size_t bytes) noexcept {
    void *memory = nullptr;
    return posix_memalign(&memory, CACHE_LINE, bytes) == 0 ? memory : nullptr;
}
void release(void *memory) noexcept { std::free(memory); }

#endif

}  // namespace elmore
