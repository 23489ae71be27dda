// Differences between compilers and CPUs. The standard headers that kernels need are included here: a file includes this
// header before it enables instructions, so that no code of these headers is compiled for them.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#if defined(__x86_64__) || defined(_M_X64)
#define ELMORE_X86_64 1
#include <immintrin.h>
#elif defined(__aarch64__) || defined(_M_ARM64)
#define ELMORE_ARM64 1
#include <arm_neon.h>
// Older versions of Clang have the intrinsics of dot products only if the whole build may use them.
#if defined(__ARM_FEATURE_DOTPROD) || !defined(__clang__) || __clang_major__ >= 16
#define ELMORE_NEON_DOT 1
#endif
#endif

#define ELMORE_PRAGMA(text) _Pragma(#text)

// ELMORE_STANDARD_CPP leaves the GNU extensions out, as for MSVC; for tests.
#if defined(__GNUC__) && !defined(ELMORE_STANDARD_CPP)
#define INLINE static inline __attribute__((always_inline))
#define INLINE_MEMBER __attribute__((always_inline))
#define INLINE_LAMBDA __attribute__((always_inline))
#if defined(__clang__)
#define UNROLL _Pragma("unroll")
#define EACH_LANE for (int lane = 0; lane < LANES; ++lane)
#else
#define UNROLL _Pragma("GCC unroll 8")
// GCC vectorizes such a loop only if it has not unrolled it before.
#define EACH_LANE _Pragma("GCC unroll 1") for (int lane = 0; lane < LANES; ++lane)
#endif
#elif defined(_MSC_VER)
#define INLINE static __forceinline
#define INLINE_MEMBER __forceinline
#define INLINE_LAMBDA
#define UNROLL
#define EACH_LANE for (int lane = 0; lane < LANES; ++lane)
#else
#define INLINE static inline
#define INLINE_MEMBER
#define INLINE_LAMBDA
#define UNROLL
#define EACH_LANE for (int lane = 0; lane < LANES; ++lane)
#endif

// Activations in plain loops are long: as functions they take the compiler a third of the time, and are as fast.
#if defined(ELMORE_PLAIN_LOOPS) && defined(_MSC_VER)
#define ACTIVATION [[maybe_unused]] static __declspec(noinline)
#elif defined(ELMORE_PLAIN_LOOPS) && defined(__GNUC__)
#define ACTIVATION [[maybe_unused]] static __attribute__((noinline))
#else
#define ACTIVATION INLINE
#endif

// What stands between ENABLE and its end may use more instructions than the rest of the library. MSVC needs no pragma.
#if defined(__clang__)
#define ELMORE_ENABLE(features) \
    ELMORE_PRAGMA(clang attribute push(__attribute__((target(features))), apply_to = function))
#define ELMORE_ENABLE_END ELMORE_PRAGMA(clang attribute pop)
#elif defined(__GNUC__)
#define ELMORE_ENABLE(features) ELMORE_PRAGMA(GCC target(features))
#define ELMORE_ENABLE_END
#else
#define ELMORE_ENABLE(features)
#define ELMORE_ENABLE_END
#endif

namespace elmore {

inline constexpr float INFINITE = std::numeric_limits<float>::infinity();
inline constexpr float NOT_A_NUMBER = std::numeric_limits<float>::quiet_NaN();

}  // namespace elmore
