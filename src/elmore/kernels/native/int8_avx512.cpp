// int8 on CPUs with AVX-512 and AVX512_VNNI.
#include "target.h"

#pragma GCC target("avx2,fma,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,prefer-vector-width=512")

namespace elmore::int8_avx512 {
#include "buffer.h"
#include "simd_avx512.h"
#include "activations.h"
#include "tiles.h"
#include "grouped_products.h"
#include "int8.h"
#include "lstm.h"
#include "lstm_pieces.h"
#include "dense.h"
}  // namespace elmore::int8_avx512

namespace elmore {
extern const Kernel INT8_AVX512 = {int8_avx512::LANES, int8_avx512::run_lstm, int8_avx512::run_dense, nullptr, {}};
}
