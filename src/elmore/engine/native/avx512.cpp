// Kernels for float32 on CPUs with AVX-512 (F, BW, DQ and VL).
#include "kernel_headers.h"

#if ELMORE_X86_64
ELMORE_ENABLE("avx2,fma,avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512")

namespace elmore::avx512 {
#include "buffer.h"
#include "simd_avx512.h"
#include "activations.h"
#include "tiles.h"
#include "row_pieces.h"
#include "float32.h"
#include "lstm.h"
#include "lstm_teams.h"
#include "dense.h"
#include "character_cnn.h"
}  // namespace elmore::avx512

ELMORE_ENABLE_END

namespace elmore {

const Kernel FLOAT32_AVX512 = {InstructionSet::AVX512, "AVX-512", avx512::LANES, avx512::run_lstm, avx512::run_dense,
                               avx512::pool_characters};

}  // namespace elmore
#endif
