// Vectors of 16 float32 (AVX-512). Included inside a namespace, with these instructions enabled.

constexpr int LANES = 16;
constexpr int MOST_ROWS = 6;  // of a tile: 6 x 4 sums, 4 weights and a broadcast fit into 32 registers

using Vec = __m512;

INLINE Vec load(const float *from) { return _mm512_loadu_ps(from); }
INLINE void store(float *to, Vec x) { _mm512_storeu_ps(to, x); }
INLINE Vec splat(float x) { return _mm512_set1_ps(x); }
INLINE Vec fma(Vec a, Vec b, Vec c) { return _mm512_fmadd_ps(a, b, c); }
INLINE Vec add(Vec a, Vec b) { return _mm512_add_ps(a, b); }
INLINE Vec sub(Vec a, Vec b) { return _mm512_sub_ps(a, b); }
INLINE Vec mul(Vec a, Vec b) { return _mm512_mul_ps(a, b); }
INLINE Vec div(Vec a, Vec b) { return _mm512_div_ps(a, b); }
// If an operand is NaN, the second is returned: so a NaN in x stays.
INLINE Vec at_most(Vec bound, Vec x) { return _mm512_min_ps(bound, x); }
INLINE Vec at_least(Vec bound, Vec x) { return _mm512_max_ps(bound, x); }
INLINE Vec magnitude(Vec x) { return _mm512_abs_ps(x); }
INLINE Vec round_to_even(Vec x) { return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
INLINE Vec two_to_the(Vec n) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_add_epi32(_mm512_cvtps_epi32(n), _mm512_set1_epi32(127)), 23));
}
// x, but 0 where `value` is at a bound or beyond it.
INLINE Vec zero_where_clipped(Vec x, Vec value, float bound) {
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(magnitude(value), _mm512_set1_ps(bound), _CMP_NGE_UQ), x);
}
INLINE Vec zero_unless_positive(Vec x, Vec sign) {
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(sign, _mm512_setzero_ps(), _CMP_NLE_UQ), x);
}
// `then` where x is larger than y, or one of them is NaN.
INLINE Vec where_larger(Vec x, Vec y, Vec then, Vec otherwise) {
    return _mm512_mask_mov_ps(otherwise, _mm512_cmp_ps_mask(x, y, _CMP_NLE_UQ), then);
}
INLINE float largest_lane(Vec x) { return _mm512_reduce_max_ps(x); }
INLINE bool has_nan(Vec x) { return _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q) != 0; }
INLINE __mmask16 first_lanes(int64_t count) {
    return count >= LANES ? 0xffff : static_cast<__mmask16>((1u << count) - 1);
}
INLINE Vec load_some(const float *from, int64_t count) { return _mm512_maskz_loadu_ps(first_lanes(count), from); }
INLINE void store_some(float *to, Vec x, int64_t count) { _mm512_mask_storeu_ps(to, first_lanes(count), x); }

// Vectors of int32.
using Ints = __m512i;

INLINE Ints load_ints(const int32_t *from) { return _mm512_loadu_si512(from); }
INLINE Ints zero_ints() { return _mm512_setzero_si512(); }
INLINE Vec to_floats(Ints x) { return _mm512_cvtepi32_ps(x); }
// Store x, from -127 to 127, as bytes: rounded to even, plus an offset of 0 or 128.
INLINE void store_bytes(uint8_t *to, Vec x, int offset, int64_t count) {
    const __m512i ints = _mm512_add_epi32(_mm512_cvtps_epi32(x), _mm512_set1_epi32(offset));
    _mm_mask_storeu_epi8(to, first_lanes(count), _mm512_cvtepi32_epi8(ints));
}
