// Vectors of 8 float32 (AVX2 and FMA). Included inside a namespace, with these instructions enabled.

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
// If an operand is NaN, the second is returned: so a NaN in x stays.
INLINE Vec at_most(Vec bound, Vec x) { return _mm256_min_ps(bound, x); }
INLINE Vec at_least(Vec bound, Vec x) { return _mm256_max_ps(bound, x); }
INLINE Vec magnitude(Vec x) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x); }
INLINE Vec round_to_even(Vec x) { return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
INLINE Vec two_to_the(Vec n) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23));
}
// x, but 0 where `value` is at a bound or beyond it.
INLINE Vec zero_where_clipped(Vec x, Vec value, float bound) {
    return _mm256_andnot_ps(_mm256_cmp_ps(magnitude(value), _mm256_set1_ps(bound), _CMP_GE_OQ), x);
}
INLINE Vec zero_unless_positive(Vec x, Vec sign) {
    return _mm256_and_ps(_mm256_cmp_ps(sign, _mm256_setzero_ps(), _CMP_NLE_UQ), x);
}
// `then` where x is larger than y, or one of them is NaN.
INLINE Vec where_larger(Vec x, Vec y, Vec then, Vec otherwise) {
    return _mm256_blendv_ps(otherwise, then, _mm256_cmp_ps(x, y, _CMP_NLE_UQ));
}
INLINE float largest_lane(Vec x) {
    __m128 most = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    most = _mm_max_ps(most, _mm_movehl_ps(most, most));
    return _mm_cvtss_f32(_mm_max_ss(most, _mm_movehdup_ps(most)));
}
INLINE bool has_nan(Vec x) { return _mm256_movemask_ps(_mm256_cmp_ps(x, x, _CMP_UNORD_Q)) != 0; }
INLINE __m256i first_lanes(int64_t count) {
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(count >= LANES ? LANES : static_cast<int>(count)), lane);
}
INLINE Vec load_some(const float *from, int64_t count) { return _mm256_maskload_ps(from, first_lanes(count)); }
INLINE void store_some(float *to, Vec x, int64_t count) { _mm256_maskstore_ps(to, first_lanes(count), x); }

// Vectors of int32, and products of groups of 4 int8.
using Ints = __m256i;
constexpr bool SIGNED_BYTES = true;  // rows of int8 are multiplied as they are

INLINE Ints load_ints(const int32_t *from) { return _mm256_loadu_si256(reinterpret_cast<const __m256i *>(from)); }
INLINE Ints zero_ints() { return _mm256_setzero_si256(); }
INLINE Vec to_floats(Ints x) { return _mm256_cvtepi32_ps(x); }
// Store x, from -127 to 127, as bytes: rounded to even, plus an offset of 0 or 128.
INLINE void store_bytes(uint8_t *to, Vec x, int offset, int64_t count) {
    const __m256i ints = _mm256_add_epi32(_mm256_cvtps_epi32(x), _mm256_set1_epi32(offset));
    const __m256i low_bytes = _mm256_shuffle_epi8(ints, _mm256_set1_epi32(0x0c080400));
    const uint64_t low = static_cast<uint32_t>(_mm256_extract_epi32(low_bytes, 0));
    const uint64_t high = static_cast<uint32_t>(_mm256_extract_epi32(low_bytes, 4));
    const uint64_t bytes = low | high << 32;
    std::memcpy(to, &bytes, static_cast<size_t>(count < LANES ? count : LANES));
}

// A group of a row in each lane, and its magnitude: the instruction multiplies bytes without a sign by bytes with one.
struct ByteGroup {
    __m256i values, magnitudes;
};
INLINE ByteGroup load_byte_group(const uint8_t *from) {
    int32_t group;
    std::memcpy(&group, from, sizeof group);
    const __m256i values = _mm256_set1_epi32(group);
    return {values, _mm256_abs_epi8(values)};
}
using Bytes = __m256i;  // a vector of columns, in groups
INLINE Bytes load_bytes(const int8_t *from) { return _mm256_loadu_si256(reinterpret_cast<const __m256i *>(from)); }
// Add the products of a group with the groups of a vector of columns. A sum of two products fits into an int16, because
// no number exceeds 127.
INLINE void add_byte_products(Ints &sum, ByteGroup x, Bytes w) {
    const __m256i pairs = _mm256_maddubs_epi16(x.magnitudes, _mm256_sign_epi8(w, x.values));
    sum = _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

// The first and the second of each pair of bfloat16, as float32.
struct VecPair {
    Vec first, second;
};
INLINE VecPair load_bfloat16_pairs(const uint16_t *from) {
    const __m256i pairs = _mm256_loadu_si256(reinterpret_cast<const __m256i *>(from));
    return {_mm256_castsi256_ps(_mm256_slli_epi32(pairs, 16)),
            _mm256_castsi256_ps(_mm256_and_si256(pairs, _mm256_set1_epi32(static_cast<int>(0xffff0000u))))};
}
