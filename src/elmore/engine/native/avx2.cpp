// Kernels for CPUs with AVX2 and FMA.
#include "kernel_headers.h"

#if ELMORE_X86_64
ELMORE_ENABLE("avx2,fma")

namespace elmore::avx2 {
#include "buffer.h"
#include "simd_avx2.h"
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
#include "int8.h"
#include "lstm.h"
#include "lstm_teams.h"
#include "dense.h"
}  // namespace int8
}  // namespace elmore::avx2

ELMORE_ENABLE_END

namespace elmore {

using avx2::LANES;

const Kernel FLOAT32_AVX2 = {InstructionSet::AVX2, "AVX2", LANES, avx2::float32::run_lstm, avx2::float32::run_dense,
                             avx2::float32::pool_characters};
const Kernel BFLOAT16_AVX2 = {InstructionSet::AVX2, "AVX2", LANES, avx2::bfloat16::run_lstm,
                              avx2::bfloat16::run_dense, nullptr};
const Kernel INT8_AVX2 = {InstructionSet::AVX2, "AVX2", LANES, avx2::int8::run_lstm, avx2::int8::run_dense, nullptr};

}  // namespace elmore
#endif
