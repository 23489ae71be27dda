// Vectors of 4 float32 (NEON, which each CPU of 64-bit ARM has). Included inside a namespace.

constexpr int LANES = 4;
constexpr int MOST_ROWS = 6;  // of a tile: 6 x 4 sums, 4 weights and a broadcast fit into 32 registers

using Vec = float32x4_t;

INLINE Vec load(const float *from) { return vld1q_f32(from); }
INLINE void store(float *to, Vec x) { vst1q_f32(to, x); }
INLINE Vec splat(float x) { return vdupq_n_f32(x); }
INLINE Vec fma(Vec a, Vec b, Vec c) { return vfmaq_f32(c, a, b); }
INLINE Vec add(Vec a, Vec b) { return vaddq_f32(a, b); }
INLINE Vec sub(Vec a, Vec b) { return vsubq_f32(a, b); }
INLINE Vec mul(Vec a, Vec b) { return vmulq_f32(a, b); }
INLINE Vec div(Vec a, Vec b) { return vdivq_f32(a, b); }
// If an operand is NaN, so is the result.
INLINE Vec at_most(Vec bound, Vec x) { return vminq_f32(bound, x); }
INLINE Vec at_least(Vec bound, Vec x) { return vmaxq_f32(bound, x); }
INLINE Vec magnitude(Vec x) { return vabsq_f32(x); }
INLINE Vec round_to_even(Vec x) { return vrndnq_f32(x); }
INLINE Vec two_to_the(Vec n) {
    return vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(vcvtq_s32_f32(n), vdupq_n_s32(127)), 23));
}
// x, but 0 where `value` is at a bound or beyond it.
INLINE Vec zero_where_clipped(Vec x, Vec value, float bound) {
    return vbslq_f32(vcageq_f32(value, vdupq_n_f32(bound)), vdupq_n_f32(0.0f), x);
}
INLINE Vec zero_unless_positive(Vec x, Vec sign) { return vbslq_f32(vclezq_f32(sign), vdupq_n_f32(0.0f), x); }
// `then` where x is larger than y, or one of them is NaN.
INLINE Vec where_larger(Vec x, Vec y, Vec then, Vec otherwise) { return vbslq_f32(vcleq_f32(x, y), otherwise, then); }
INLINE float largest_lane(Vec x) { return vmaxvq_f32(x); }
INLINE bool has_nan(Vec x) { return vminvq_u32(vceqq_f32(x, x)) == 0; }
INLINE Vec load_some(const float *from, int64_t count) {
    if (count >= LANES) return load(from);
    float some[LANES] = {};
    for (int64_t lane = 0; lane < count; ++lane) some[lane] = from[lane];
    return load(some);
}
INLINE void store_some(float *to, Vec x, int64_t count) {
    if (count >= LANES) return store(to, x);
    float all[LANES];
    store(all, x);
    for (int64_t lane = 0; lane < count; ++lane) to[lane] = all[lane];
}

// Vectors of int32, and products of groups of 4 int8.
using Ints = int32x4_t;
constexpr bool SIGNED_BYTES = true;  // rows of int8 are multiplied as they are

INLINE Ints load_ints(const int32_t *from) { return vld1q_s32(from); }
INLINE Ints zero_ints() { return vdupq_n_s32(0); }
INLINE Vec to_floats(Ints x) { return vcvtq_f32_s32(x); }
// Store x, from -127 to 127, as bytes: rounded to even, plus an offset of 0 or 128.
INLINE void store_bytes(uint8_t *to, Vec x, int offset, int64_t count) {
    const uint32x4_t ints = vreinterpretq_u32_s32(vaddq_s32(vcvtnq_s32_f32(x), vdupq_n_s32(offset)));
    const uint16x4_t halves = vmovn_u32(ints);
    const uint32_t bytes = vget_lane_u32(vreinterpret_u32_u8(vmovn_u16(vcombine_u16(halves, halves))), 0);
    std::memcpy(to, &bytes, static_cast<size_t>(count < LANES ? count : LANES));
}

using ByteGroup = int8x16_t;  // a group of a row in each lane
INLINE ByteGroup load_byte_group(const uint8_t *from) {
    int32_t group;
    std::memcpy(&group, from, sizeof group);
    return vreinterpretq_s8_s32(vdupq_n_s32(group));
}
using Bytes = int8x16_t;  // a vector of columns, in groups
INLINE Bytes load_bytes(const int8_t *from) { return vld1q_s8(from); }

// The first and the second of each pair of bfloat16, as float32.
struct VecPair {
    Vec first, second;
};
INLINE VecPair load_bfloat16_pairs(const uint16_t *from) {
    const uint32x4_t pairs = vreinterpretq_u32_u16(vld1q_u16(from));
    return {vreinterpretq_f32_u32(vshlq_n_u32(pairs, 16)),
            vreinterpretq_f32_u32(vandq_u32(pairs, vdupq_n_u32(0xffff0000u)))};
}
