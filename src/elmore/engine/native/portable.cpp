// Kernels for any CPU, in standard C++.
#define ELMORE_PLAIN_LOOPS 1
#include "kernel_headers.h"

namespace elmore::portable {
#include "buffer.h"
#include "simd_portable.h"
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
}  // namespace elmore::portable

namespace elmore {

using portable::LANES;

const Kernel FLOAT32_PORTABLE = {InstructionSet::PORTABLE, "portable", LANES, portable::float32::run_lstm,
                                 portable::float32::run_dense, portable::float32::pool_characters};
const Kernel BFLOAT16_PORTABLE = {InstructionSet::PORTABLE, "portable", LANES, portable::bfloat16::run_lstm,
                                  portable::bfloat16::run_dense, nullptr};
const Kernel INT8_PORTABLE = {InstructionSet::PORTABLE, "portable", LANES, portable::int8::run_lstm,
                              portable::int8::run_dense, nullptr};

}  // namespace elmore
