// bfloat16 on CPUs with AVX-512 and AVX512_BF16.
#include "target.h"

#pragma GCC target("avx2,fma,avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,prefer-vector-width=512")

namespace elmore::bfloat16_avx512 {
#include "buffer.h"
#include "simd_avx512.h"
#include "activations.h"
#include "tiles.h"
#include "grouped_products.h"
#include "bfloat16.h"
#include "lstm.h"
#include "lstm_pieces.h"
#include "dense.h"
}  // namespace elmore::bfloat16_avx512

namespace elmore {
extern const Kernel BFLOAT16_AVX512 = {
    bfloat16_avx512::LANES,
    bfloat16_avx512::run_lstm,
    bfloat16_avx512::run_dense,
    nullptr,
    {},
};
}
