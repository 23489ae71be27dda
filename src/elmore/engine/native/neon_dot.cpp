// Kernels for int8 on 64-bit ARM with dot products (ARMv8.2 and later).
#include "kernel_headers.h"

#if ELMORE_NEON_DOT
#if !defined(__ARM_FEATURE_DOTPROD)
#define ELMORE_ENABLED_DOT 1
#if defined(__clang__)
ELMORE_ENABLE("dotprod")
#else
ELMORE_ENABLE("arch=armv8.2-a+dotprod")
#endif
#endif

namespace elmore::neon_dot {
#include "buffer.h"
#include "simd_neon.h"
#include "activations.h"
#include "tiles.h"
#include "row_pieces.h"

// Add the products of a group with the groups of a vector of columns.
INLINE void add_byte_products(Ints &sum, ByteGroup x, Bytes w) { sum = vdotq_s32(sum, w, x); }

#include "int8.h"
#include "lstm.h"
#include "lstm_teams.h"
#include "dense.h"
}  // namespace elmore::neon_dot

#if ELMORE_ENABLED_DOT
ELMORE_ENABLE_END
#endif

namespace elmore {

const Kernel INT8_NEON_DOT = {InstructionSet::NEON, "NEON dot products", neon_dot::LANES, neon_dot::run_lstm,
                              neon_dot::run_dense, nullptr};

}  // namespace elmore
#endif
