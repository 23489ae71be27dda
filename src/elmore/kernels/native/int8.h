// Products of int8, added up exactly (AVX512_VNNI). Included inside a namespace, after `grouped_products.h`.
//
// A row is rounded to 255 steps of its own, from minus to plus its largest number, and stored as value + 128, because
// the instruction wants one factor without sign; the matrix's offsets take the 128 out of the sums again.

using Element = uint8_t;  // of what is multiplied
constexpr int GROUP = 4;  // rows of a matrix that one instruction multiplies

// Bring a row of float32 into the form in which it is multiplied; gives what one step is worth.
INLINE float convert_row(const float *from, int64_t count, Element *to) {
    Vec largest = splat(0.0f);
    __mmask16 no_number = 0;
    for (int64_t place = 0; place < count; place += LANES) {
        const Vec x = _mm512_maskz_loadu_ps(inside_row(count - place), from + place);
        no_number |= _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
        largest = at_least(largest, _mm512_abs_ps(x));
    }
    if (no_number) return __builtin_nanf("");  // `to` holds something, which this makes no number again
    const float bound = _mm512_reduce_max_ps(largest);
    const Vec steps = splat(bound > 0.0f ? 127.0f / bound : 0.0f);
    for (int64_t place = 0; place < count; place += LANES) {
        const __mmask16 inside = inside_row(count - place);
        const __m512i rounded = _mm512_cvtps_epi32(mul(_mm512_maskz_loadu_ps(inside, from + place), steps));
        const __m128i stored = _mm512_cvtepi32_epi8(_mm512_add_epi32(rounded, _mm512_set1_epi32(128)));
        _mm_mask_storeu_epi8(to + place, inside, stored);
    }
    return bound / 127.0f;
}

// finish(row, sums) for `start(row, v)` plus the product of each of R rows with a panel.
template <int R, class Start, class Finish>
INLINE void multiply(RowsOf<Element> rows, PanelOf<Element> panel, int64_t groups, Start start, Finish finish) {
    __m512i sums[R][4];
    UNROLL for (int r = 0; r < R; ++r)
        UNROLL for (int v = 0; v < 4; ++v) sums[r][v] = _mm512_loadu_si512(panel.offsets + v * LANES);
    // By name, because GCC 12 copies every sum to memory and back around the intrinsic, at less than half the speed.
    add_grouped_products(sums, rows, panel, groups, [](__m512i &sum, __m512i x, __m512i w) INLINE_LAMBDA {
        asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(x), "v"(w));
    });
    UNROLL for (int r = 0; r < R; ++r) {
        const Vec row_scale = splat(rows.scales[r]);
        Vec scaled[4];
        UNROLL for (int v = 0; v < 4; ++v)
            scaled[v] = fma(_mm512_cvtepi32_ps(sums[r][v]), mul(row_scale, load(panel.scales + v * LANES)), start(r, v));
        finish(r, scaled);
    }
}
