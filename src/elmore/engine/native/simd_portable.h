// Vectors of 8 float32 in plain loops, for any CPU and compiler. Included inside a namespace.

constexpr int LANES = 8;
constexpr int MOST_ROWS = 1;  // of a tile: its 32 sums fill 8 registers of 128 bits

struct Vec {
    float lanes[LANES];
};

INLINE Vec load(const float *from) {
    Vec x;
    EACH_LANE x.lanes[lane] = from[lane];
    return x;
}
INLINE void store(float *to, Vec x) { EACH_LANE to[lane] = x.lanes[lane]; }
INLINE Vec splat(float value) {
    Vec x;
    EACH_LANE x.lanes[lane] = value;
    return x;
}
// Rounded twice: not every CPU has a fused instruction, and all builds of this form give the same numbers.
INLINE Vec fma(Vec a, Vec b, Vec c) {
    EACH_LANE c.lanes[lane] = a.lanes[lane] * b.lanes[lane] + c.lanes[lane];
    return c;
}
INLINE Vec add(Vec a, Vec b) {
    EACH_LANE a.lanes[lane] += b.lanes[lane];
    return a;
}
INLINE Vec sub(Vec a, Vec b) {
    EACH_LANE a.lanes[lane] -= b.lanes[lane];
    return a;
}
INLINE Vec mul(Vec a, Vec b) {
    EACH_LANE a.lanes[lane] *= b.lanes[lane];
    return a;
}
INLINE Vec div(Vec a, Vec b) {
    EACH_LANE a.lanes[lane] /= b.lanes[lane];
    return a;
}
// If an operand is NaN, the second is returned: so a NaN in x stays.
INLINE Vec at_most(Vec bound, Vec x) {
    EACH_LANE x.lanes[lane] = bound.lanes[lane] < x.lanes[lane] ? bound.lanes[lane] : x.lanes[lane];
    return x;
}
INLINE Vec at_least(Vec bound, Vec x) {
    EACH_LANE x.lanes[lane] = bound.lanes[lane] > x.lanes[lane] ? bound.lanes[lane] : x.lanes[lane];
    return x;
}
INLINE Vec magnitude(Vec x) {
    EACH_LANE x.lanes[lane] = x.lanes[lane] < 0.0f ? -x.lanes[lane] : x.lanes[lane];
    return x;
}
// Adding 1.5 * 2^23 leaves no bits after the point, for |x| below 2^22; the last bits of the sum are the integer.
constexpr float INTEGER_BITS = 12582912.0f;
INLINE Vec round_to_even(Vec x) {
    EACH_LANE x.lanes[lane] = (x.lanes[lane] + INTEGER_BITS) - INTEGER_BITS;
    return x;
}
INLINE Vec two_to_the(Vec n) {
    EACH_LANE n.lanes[lane] =
        std::bit_cast<float>((std::bit_cast<uint32_t>(n.lanes[lane] + INTEGER_BITS) + 127u) << 23);
    return n;
}
// x, but 0 where `value` is at a bound or beyond it.
INLINE Vec zero_where_clipped(Vec x, Vec value, float bound) {
    EACH_LANE x.lanes[lane] = value.lanes[lane] >= bound || value.lanes[lane] <= -bound ? 0.0f : x.lanes[lane];
    return x;
}
INLINE Vec zero_unless_positive(Vec x, Vec sign) {
    EACH_LANE x.lanes[lane] = sign.lanes[lane] <= 0.0f ? 0.0f : x.lanes[lane];
    return x;
}
// `then` where x is larger than y, or one of them is NaN.
INLINE Vec where_larger(Vec x, Vec y, Vec then, Vec otherwise) {
    EACH_LANE otherwise.lanes[lane] = x.lanes[lane] <= y.lanes[lane] ? otherwise.lanes[lane] : then.lanes[lane];
    return otherwise;
}
INLINE float largest_lane(Vec x) {
    float largest = x.lanes[0];
    for (int lane = 1; lane < LANES; ++lane) largest = x.lanes[lane] > largest ? x.lanes[lane] : largest;
    return largest;
}
INLINE bool has_nan(Vec x) {
    bool found = false;
    for (int lane = 0; lane < LANES; ++lane) found |= x.lanes[lane] != x.lanes[lane];
    return found;
}
INLINE Vec load_some(const float *from, int64_t count) {
    if (count >= LANES) return load(from);
    Vec x = splat(0.0f);
    for (int64_t lane = 0; lane < count; ++lane) x.lanes[lane] = from[lane];
    return x;
}
INLINE void store_some(float *to, Vec x, int64_t count) {
    if (count >= LANES) return store(to, x);
    for (int64_t lane = 0; lane < count; ++lane) to[lane] = x.lanes[lane];
}

// Vectors of int32, and products of groups of 4 int8.
struct Ints {
    int32_t lanes[LANES];
};
constexpr bool SIGNED_BYTES = true;  // rows of int8 are multiplied as they are

INLINE Ints load_ints(const int32_t *from) {
    Ints x;
    EACH_LANE x.lanes[lane] = from[lane];
    return x;
}
INLINE Ints zero_ints() { return Ints{}; }
INLINE Vec to_floats(Ints x) {
    Vec y;
    EACH_LANE y.lanes[lane] = static_cast<float>(x.lanes[lane]);
    return y;
}
// Store x, from -127 to 127, as bytes: rounded to even, plus an offset of 0 or 128.
INLINE void store_bytes(uint8_t *to, Vec x, int offset, int64_t count) {
    for (int64_t lane = 0; lane < LANES && lane < count; ++lane)
        to[lane] = static_cast<uint8_t>(
            std::bit_cast<uint32_t>(x.lanes[lane] + INTEGER_BITS) + static_cast<uint32_t>(offset));
}

// A group of a row: its 4 numbers.
struct ByteGroup {
    int32_t values[4];
};
INLINE ByteGroup load_byte_group(const uint8_t *from) {
    ByteGroup group;
    for (int byte = 0; byte < 4; ++byte) group.values[byte] = static_cast<int8_t>(from[byte]);
    return group;
}
// The byte at an index of 4 that were loaded at once, with its sign.
template <int INDEX>
INLINE int32_t byte_of(uint32_t word) {
    constexpr int LEFT = std::endian::native == std::endian::little ? 24 - 8 * INDEX : 8 * INDEX;
    return static_cast<int32_t>(word << LEFT) >> 24;
}
// A vector of columns, in groups.
using Bytes = const int8_t *;
INLINE Bytes load_bytes(const int8_t *from) { return from; }
// Add the products of a group with the groups of a vector of columns.
INLINE void add_byte_products(Ints &sum, ByteGroup x, Bytes w) {
    EACH_LANE {
        uint32_t word;
        std::memcpy(&word, w + lane * 4, sizeof word);
        sum.lanes[lane] += x.values[0] * byte_of<0>(word) + x.values[1] * byte_of<1>(word) +
                           x.values[2] * byte_of<2>(word) + x.values[3] * byte_of<3>(word);
    }
}

// The first and the second of each pair of bfloat16, as float32.
struct VecPair {
    Vec first, second;
};
INLINE VecPair load_bfloat16_pairs(const uint16_t *from) {
    VecPair pair;
    EACH_LANE {
        uint32_t word;
        std::memcpy(&word, from + lane * 2, sizeof word);
        const uint32_t high = word & 0xffff0000u, low = word << 16;
        constexpr bool LITTLE = std::endian::native == std::endian::little;
        pair.first.lanes[lane] = std::bit_cast<float>(LITTLE ? low : high);
        pair.second.lanes[lane] = std::bit_cast<float>(LITTLE ? high : low);
    }
    return pair;
}
