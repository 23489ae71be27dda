// Products of bfloat16, with sums in float32. Included inside a namespace, after its tiles and the products of its pairs.

using Element = uint16_t;  // the type of the factors
constexpr int GROUP = 2;   // rows of a matrix that one instruction multiplies

// Convert a row of float32 to the type of the factors; returns the row's scale.
INLINE float convert_row(const float *from, int64_t count, Element *to) {
    for (int64_t index = 0; index < count; index += LANES)
        store_bfloat16(to + index, load_some(from + index, count - index), count - index);
    return 1.0f;
}

// finish(row, sums) for `start(row, v)` plus the product of each of R rows with a panel. One sum for each output, from
// the first row of the matrix to the last: it is the same in tiles of any height.
template <int R, class Start, class Finish>
INLINE void multiply(RowsOf<Element> rows, PanelOf<Element> panel, int64_t groups, Start start, Finish finish) {
    Vec sums[R][4];
    UNROLL for (int r = 0; r < R; ++r)
        UNROLL for (int v = 0; v < 4; ++v) sums[r][v] = start(r, v);
    const Element *weights = panel.elements;
    const Element *from = rows.elements;
    for (int64_t k = 0; k < groups; ++k, weights += 4 * LANES * GROUP, from += GROUP) {
        Pairs w[4];
        UNROLL for (int v = 0; v < 4; ++v) w[v] = load_pairs(weights + v * LANES * GROUP);
        UNROLL for (int r = 0; r < R; ++r) {
            const PairGroup x = load_pair_group(from + r * rows.stride);
            UNROLL for (int v = 0; v < 4; ++v) add_pair_products(sums[r][v], x, w[v]);
        }
    }
    UNROLL for (int r = 0; r < R; ++r) finish(r, sums[r]);
}
