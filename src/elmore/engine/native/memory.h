// Memory that starts at a cache line.
#pragma once

#include <cstddef>

namespace elmore {

void *allocate(size_t bytes) noexcept;  // null if memory ran out
void release(void *memory) noexcept;

}  // namespace elmore
