// Products of pairs of bfloat16 for CPUs without an instruction for them: as float32, which is exact. Included inside a
// namespace, after its vectors and before `bfloat16.h`.

// A vector of columns, in pairs.
using Pairs = VecPair;
INLINE Pairs load_pairs(const uint16_t *from) { return load_bfloat16_pairs(from); }

// A pair of a row, in each lane.
struct PairGroup {
    Vec first, second;
};
INLINE float widened(uint16_t number) { return std::bit_cast<float>(static_cast<uint32_t>(number) << 16); }
INLINE PairGroup load_pair_group(const uint16_t *from) { return {splat(widened(from[0])), splat(widened(from[1]))}; }

// Add the products of a pair with the pairs of a vector of columns.
INLINE void add_pair_products(Vec &sum, const PairGroup &x, const Pairs &w) {
    sum = fma(x.second, w.second, fma(x.first, w.first, sum));
}

// Round to even. A NaN stays NaN: its lowest bits must not overflow into the sign.
INLINE uint16_t rounded_to_bfloat16(float x) {
    const uint32_t bits = std::bit_cast<uint32_t>(x);
    if (x != x) return static_cast<uint16_t>(bits >> 16 | 0x40);
    return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
INLINE void store_bfloat16(uint16_t *to, Vec x, int64_t count) {
    float numbers[LANES];
    store(numbers, x);
    for (int64_t lane = 0; lane < LANES && lane < count; ++lane) to[lane] = rounded_to_bfloat16(numbers[lane]);
}
