// float32 on CPUs with AVX2 and FMA.
#include "target.h"

#pragma GCC target("avx2,fma")

namespace elmore::float32_avx2 {
#include "buffer.h"
#include "simd_avx2.h"
#include "activations.h"
#include "tiles.h"
#include "float32.h"
#include "lstm.h"
#include "lstm_pieces.h"
#include "dense.h"
#include "character_cnn.h"
#include "character_cnn_backward.h"
#include "products.h"
#include "lstm_backward.h"
#include "highway_training.h"
#include "softmax_training.h"
}  // namespace elmore::float32_avx2

namespace elmore {
extern const Kernel FLOAT32_AVX2 = {
    float32_avx2::LANES,
    float32_avx2::run_lstm,
    float32_avx2::run_dense,
    float32_avx2::pool_characters,
    {float32_avx2::run_lstm_backward, float32_avx2::run_product, float32_avx2::run_highway,
     float32_avx2::pool_characters_backward, float32_avx2::run_softmax},
};
}
