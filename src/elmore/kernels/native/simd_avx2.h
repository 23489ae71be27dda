// Vectors of 8 float32 (AVX2 and FMA). Included inside a namespace and under the target it needs.

constexpr int LANES = 8;
constexpr int MOST_ROWS = 3;  // of a tile: 3 x 4 sums, a weight and 3 broadcasts fit into 16 registers

using Vec = __m256;

INLINE Vec load(const float *from) { return _mm256_loadu_ps(from); }
INLINE void store(float *to, Vec x) { _mm256_storeu_ps(to, x); }
INLINE Vec splat(float x) { return _mm256_set1_ps(x); }
INLINE Vec fma(Vec a, Vec b, Vec c) { return _mm256_fmadd_ps(a, b, c); }
INLINE Vec add(Vec a, Vec b) { return _mm256_add_ps(a, b); }
INLINE Vec sub(Vec a, Vec b) { return _mm256_sub_ps(a, b); }
INLINE Vec mul(Vec a, Vec b) { return _mm256_mul_ps(a, b); }
INLINE Vec div(Vec a, Vec b) { return _mm256_div_ps(a, b); }
// Of two operands the second is given back where either is not a number: so what is no number stays none.
INLINE Vec at_most(Vec bound, Vec x) { return _mm256_min_ps(bound, x); }
INLINE Vec at_least(Vec bound, Vec x) { return _mm256_max_ps(bound, x); }
INLINE Vec round_to_even(Vec x) { return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
INLINE Vec two_to_the(Vec n) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23));
}
// x, but zero where `held` lies at a bound or beyond it.
INLINE Vec zero_where_clipped(Vec x, Vec held, float bound) {
    const Vec size = _mm256_andnot_ps(_mm256_set1_ps(-0.0f), held);
    return _mm256_andnot_ps(_mm256_cmp_ps(size, _mm256_set1_ps(bound), _CMP_GE_OQ), x);
}
INLINE Vec zero_unless_positive(Vec x, Vec sign) {
    return _mm256_and_ps(_mm256_cmp_ps(sign, _mm256_setzero_ps(), _CMP_NLE_UQ), x);
}
// `then` where x is larger than y, or either is no number.
INLINE Vec where_larger(Vec x, Vec y, Vec then, Vec otherwise) {
    return _mm256_blendv_ps(otherwise, then, _mm256_cmp_ps(x, y, _CMP_NLE_UQ));
}
INLINE __m256i first_lanes(int64_t count) {
    const __m256i place = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(count >= LANES ? LANES : static_cast<int>(count)), place);
}
INLINE Vec load_some(const float *from, int64_t count) { return _mm256_maskload_ps(from, first_lanes(count)); }
INLINE void store_some(float *to, Vec x, int64_t count) { _mm256_maskstore_ps(to, first_lanes(count), x); }
