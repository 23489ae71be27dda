// What every file that is compiled for one kind of CPU needs, before its target is set: headers whose code it must not
// carry, compiled for that CPU, into files that run everywhere.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <type_traits>

#include "kernel_table.h"
#include "kernels.h"
#include "threads.h"

#define INLINE static inline __attribute__((always_inline))
#define INLINE_LAMBDA __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 8")
