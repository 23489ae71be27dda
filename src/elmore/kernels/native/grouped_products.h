// Products of numbers so small that a group of them, of several rows of a matrix, fills 32 bits (AVX-512). Included inside
// a namespace, after its tiles and before its numbers.

// The places of the next vector that are inside a row.
INLINE __mmask16 inside_row(int64_t left) { return left >= LANES ? 0xffff : static_cast<__mmask16>((1u << left) - 1); }

// add(sum, x, w) for each of R rows and each vector of a panel, x a group of the row's numbers in every lane, from the
// first row of the matrix to the last.
template <int R, class Sum, class T, class Add>
INLINE void add_grouped_products(Sum (&sums)[R][4], RowsOf<T> rows, PanelOf<T> panel, int64_t groups, Add add) {
    constexpr int64_t SIZE = sizeof(int32_t) / sizeof(T);
    const T *weights = panel.elements;
    const T *from = rows.elements;
    for (int64_t k = 0; k < groups; ++k, weights += 4 * LANES * SIZE, from += SIZE) {
        __m512i w[4];
        UNROLL for (int v = 0; v < 4; ++v) w[v] = _mm512_loadu_si512(weights + v * LANES * SIZE);
        UNROLL for (int r = 0; r < R; ++r) {
            int32_t group;
            __builtin_memcpy(&group, from + r * rows.stride, sizeof group);
            const __m512i x = _mm512_set1_epi32(group);
            UNROLL for (int v = 0; v < 4; ++v) add(sums[r][v], x, w[v]);
        }
    }
}
