// Vectors of 16 float32 (AVX-512). Included inside a namespace and under the target it needs.

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
// Of two operands the second is given back where either is not a number: so what is no number stays none.
INLINE Vec at_most(Vec bound, Vec x) { return _mm512_min_ps(bound, x); }
INLINE Vec at_least(Vec bound, Vec x) { return _mm512_max_ps(bound, x); }
INLINE Vec round_to_even(Vec x) { return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
INLINE Vec two_to_the(Vec n) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_add_epi32(_mm512_cvtps_epi32(n), _mm512_set1_epi32(127)), 23));
}
// x, but zero where `held` lies at a bound or beyond it.
INLINE Vec zero_where_clipped(Vec x, Vec held, float bound) {
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(_mm512_abs_ps(held), _mm512_set1_ps(bound), _CMP_NGE_UQ), x);
}
INLINE Vec zero_unless_positive(Vec x, Vec sign) {
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(sign, _mm512_setzero_ps(), _CMP_NLE_UQ), x);
}
// `then` where x is larger than y, or either is no number.
INLINE Vec where_larger(Vec x, Vec y, Vec then, Vec otherwise) {
    return _mm512_mask_mov_ps(otherwise, _mm512_cmp_ps_mask(x, y, _CMP_NLE_UQ), then);
}
INLINE __mmask16 first_lanes(int64_t count) {
    return count >= LANES ? 0xffff : static_cast<__mmask16>((1u << count) - 1);
}
INLINE Vec load_some(const float *from, int64_t count) { return _mm512_maskz_loadu_ps(first_lanes(count), from); }
INLINE void store_some(float *to, Vec x, int64_t count) { _mm512_mask_storeu_ps(to, first_lanes(count), x); }
