// Kernels for 64-bit ARM.
#include "kernel_headers.h"

#if ELMORE_ARM64

namespace elmore::neon {
#include "buffer.h"
#include "simd_neon.h"
#include "activations.h"
#include "tiles.h"
#include "row_pieces.h"

namespace float32 {
#include "float32.h"
#include "lstm.h"
#include "lstm_teams.h"
#include "dense.h"
#include "character_cnn.h"
}  // namespace float32

namespace bfloat16 {
#include "bfloat16_pairs.h"
#include "bfloat16.h"
#include "lstm.h"
#include "lstm_teams.h"
#include "dense.h"
}  // namespace bfloat16

namespace int8 {
// Add the products of a group with the groups of a vector of columns.
INLINE void add_byte_products(Ints &sum, ByteGroup x, Bytes w) {
    const int32x4_t low = vpaddlq_s16(vmull_s8(vget_low_s8(w), vget_low_s8(x)));
    const int32x4_t high = vpaddlq_s16(vmull_high_s8(w, x));
    sum = vaddq_s32(sum, vpaddq_s32(low, high));
}

#include "int8.h"
#include "lstm.h"
#include "lstm_teams.h"
#include "dense.h"
}  // namespace int8
}  // namespace elmore::neon

namespace elmore {

using neon::LANES;

const Kernel FLOAT32_NEON = {InstructionSet::NEON, "NEON", LANES, neon::float32::run_lstm, neon::float32::run_dense,
                             neon::float32::pool_characters};
const Kernel BFLOAT16_NEON = {InstructionSet::NEON, "NEON", LANES, neon::bfloat16::run_lstm,
                              neon::bfloat16::run_dense, nullptr};
const Kernel INT8_NEON = {InstructionSet::NEON, "NEON", LANES, neon::int8::run_lstm, neon::int8::run_dense, nullptr};

}  // namespace elmore
#endif
