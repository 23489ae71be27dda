// Kernels for int8 on CPUs with AVX-512 and AVX512_VNNI.
#include "kernel_headers.h"

#if ELMORE_X86_64
ELMORE_ENABLE("avx2,fma,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,prefer-vector-width=512")

namespace elmore::avx512_vnni {
#include "buffer.h"
#include "simd_avx512.h"
#include "activations.h"
#include "tiles.h"
#include "row_pieces.h"

constexpr bool SIGNED_BYTES = false;  // the instruction multiplies bytes without a sign by bytes with one

using Bytes = __m512i;  // a vector of columns, in groups
INLINE Bytes load_bytes(const int8_t *from) { return _mm512_loadu_si512(from); }

using ByteGroup = __m512i;  // a group of a row, in each lane
INLINE ByteGroup load_byte_group(const uint8_t *from) {
    int32_t group;
    std::memcpy(&group, from, sizeof group);
    return _mm512_set1_epi32(group);
}

// Add the products of a group with the groups of a vector of columns.
INLINE void add_byte_products(Ints &sum, ByteGroup x, Bytes w) {
#if defined(__GNUC__) && !defined(ELMORE_STANDARD_CPP)
    // Around the intrinsic GCC 12 copies each sum to memory and back, at less than half the speed.
    __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(x), "v"(w));
#else
    sum = _mm512_dpbusd_epi32(sum, x, w);
#endif
}

#include "int8.h"
#include "lstm.h"
#include "lstm_teams.h"
#include "dense.h"
}  // namespace elmore::avx512_vnni

ELMORE_ENABLE_END

namespace elmore {

const Kernel INT8_AVX512 = {InstructionSet::AVX512, "AVX-512 VNNI", avx512_vnni::LANES, avx512_vnni::run_lstm,
                            avx512_vnni::run_dense, nullptr};

}  // namespace elmore
#endif
