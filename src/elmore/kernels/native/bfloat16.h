// Products of bfloat16, added up in float32 (AVX512_BF16). Included inside a namespace, after its vectors.

using Element = uint16_t;  // of what is multiplied
constexpr int GROUP = 2;   // rows of a matrix that one instruction multiplies

// Bring a row of float32 into the form in which it is multiplied.
INLINE float convert_row(const float *from, int64_t count, Element *to) {
    for (int64_t place = 0; place < count; place += LANES) {
        const int64_t left = count - place;
        const __mmask16 inside = left >= LANES ? 0xffff : static_cast<__mmask16>((1u << left) - 1);
        const __m256i rounded = (__m256i)_mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(inside, from + place));
        _mm256_mask_storeu_epi16(to + place, inside, rounded);
    }
    return 1.0f;
}

// By name, because GCC 12 copies every sum around the intrinsic, from register to register and to memory.
INLINE void add_products(Vec &sum, __m512i x, __m512i w) { asm("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(x), "v"(w)); }

// finish(row, sums) for `start(row, v)` plus the product of each of R rows with a panel. One sum for each output, from
// the first row of the matrix to the last: so it is the same in tiles of any height.
template <int R, class Start, class Finish>
INLINE void multiply(RowsOf<Element> rows, PanelOf<Element> panel, int64_t groups, Start start, Finish finish) {
    Vec sums[R][4];
    UNROLL for (int r = 0; r < R; ++r)
        UNROLL for (int v = 0; v < 4; ++v) sums[r][v] = start(r, v);
    const Element *weights = panel.elements;
    const Element *from = rows.elements;
    for (int64_t k = 0; k < groups; ++k, weights += 4 * LANES * GROUP, from += GROUP) {
        __m512i w[4];
        UNROLL for (int v = 0; v < 4; ++v) w[v] = _mm512_loadu_si512(weights + v * LANES * GROUP);
        UNROLL for (int r = 0; r < R; ++r) {
            int32_t pair;
            __builtin_memcpy(&pair, from + r * rows.stride, sizeof pair);
            const __m512i x = _mm512_set1_epi32(pair);
            UNROLL for (int v = 0; v < 4; ++v) add_products(sums[r][v], x, w[v]);
        }
    }
    UNROLL for (int r = 0; r < R; ++r) finish(r, sums[r]);
}
