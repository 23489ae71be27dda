// Kernels for bfloat16 on CPUs with AVX-512 and AVX512_BF16.
#include "kernel_headers.h"

#if ELMORE_X86_64
ELMORE_ENABLE("avx2,fma,avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,prefer-vector-width=512")

namespace elmore::avx512_bf16 {
#include "buffer.h"
#include "simd_avx512.h"
#include "activations.h"
#include "tiles.h"
#include "row_pieces.h"

using Pairs = __m512i;  // a vector of columns, in pairs
INLINE Pairs load_pairs(const uint16_t *from) { return _mm512_loadu_si512(from); }

using PairGroup = __m512i;  // a pair of a row, in each lane
INLINE PairGroup load_pair_group(const uint16_t *from) {
    int32_t pair;
    std::memcpy(&pair, from, sizeof pair);
    return _mm512_set1_epi32(pair);
}

// Add the products of a pair with the pairs of a vector of columns.
INLINE void add_pair_products(Vec &sum, PairGroup x, Pairs w) {
#if defined(__GNUC__) && !defined(ELMORE_STANDARD_CPP)
    // Around the intrinsic GCC 12 copies each sum between registers and memory.
    __asm__("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(x), "v"(w));
#else
    sum = _mm512_dpbf16_ps(sum, (__m512bh)x, (__m512bh)w);
#endif
}
INLINE void store_bfloat16(uint16_t *to, Vec x, int64_t count) {
    _mm256_mask_storeu_epi16(to, first_lanes(count), (__m256i)_mm512_cvtneps_pbh(x));
}

#include "bfloat16.h"
#include "lstm.h"
#include "lstm_teams.h"
#include "dense.h"
}  // namespace elmore::avx512_bf16

ELMORE_ENABLE_END

namespace elmore {

const Kernel BFLOAT16_AVX512 = {InstructionSet::AVX512, "AVX-512 BF16", avx512_bf16::LANES, avx512_bf16::run_lstm,
                                avx512_bf16::run_dense, nullptr};

}  // namespace elmore
#endif
