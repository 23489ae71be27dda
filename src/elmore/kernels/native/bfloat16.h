// Products of bfloat16, added up in float32 (AVX512_BF16). Included inside a namespace, after `grouped_products.h`.

using Element = uint16_t;  // of what is multiplied
constexpr int GROUP = 2;   // rows of a matrix that one instruction multiplies

// Bring a row of float32 into the form in which it is multiplied.
INLINE float convert_row(const float *from, int64_t count, Element *to) {
    for (int64_t place = 0; place < count; place += LANES) {
        const __mmask16 inside = inside_row(count - place);
        const __m256i rounded = (__m256i)_mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(inside, from + place));
        _mm256_mask_storeu_epi16(to + place, inside, rounded);
    }
    return 1.0f;
}

// finish(row, sums) for `start(row, v)` plus the product of each of R rows with a panel. One sum for each output, from
// the first row of the matrix to the last: so it is the same in tiles of any height.
template <int R, class Start, class Finish>
INLINE void multiply(RowsOf<Element> rows, PanelOf<Element> panel, int64_t groups, Start start, Finish finish) {
    Vec sums[R][4];
    UNROLL for (int r = 0; r < R; ++r)
        UNROLL for (int v = 0; v < 4; ++v) sums[r][v] = start(r, v);
    // By name, because GCC 12 copies every sum around the intrinsic, from register to register and to memory.
    add_grouped_products(sums, rows, panel, groups, [](Vec &sum, __m512i x, __m512i w) INLINE_LAMBDA {
        asm("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(x), "v"(w));
    });
    UNROLL for (int r = 0; r < R; ++r) finish(r, sums[r]);
}
