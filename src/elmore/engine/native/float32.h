// Products of float32. Included inside a namespace, after its tiles.

using Element = float;    // the type of the factors
constexpr int GROUP = 1;  // rows of a matrix that one instruction multiplies

// Convert a row of float32 to the type of the factors; returns the row's scale.
INLINE float convert_row(const float *from, int64_t count, Element *to) {
    std::memcpy(to, from, static_cast<size_t>(count) * sizeof(float));
    return 1.0f;
}

// finish(row, sums) for `start(row, v)` plus the product of each of R rows with a panel. One sum for each output, from
// the first row of the matrix to the last: it is the same in tiles of any height.
template <int R, class Start, class Finish>
INLINE void multiply(RowsOf<Element> rows, PanelOf<Element> panel, int64_t groups, Start start, Finish finish) {
    Vec sums[R][4];
    UNROLL for (int r = 0; r < R; ++r)
        UNROLL for (int v = 0; v < 4; ++v) sums[r][v] = start(r, v);
    const float *weights = panel.elements;
    const float *from = rows.elements;
    for (int64_t k = 0; k < groups; ++k, weights += 4 * LANES, ++from) {
        const Vec w0 = load(weights), w1 = load(weights + LANES), w2 = load(weights + 2 * LANES),
                  w3 = load(weights + 3 * LANES);
        UNROLL for (int r = 0; r < R; ++r) {
            const Vec x = splat(from[r * rows.stride]);
            sums[r][0] = fma(x, w0, sums[r][0]);
            sums[r][1] = fma(x, w1, sums[r][1]);
            sums[r][2] = fma(x, w2, sums[r][2]);
            sums[r][3] = fma(x, w3, sums[r][3]);
        }
    }
    UNROLL for (int r = 0; r < R; ++r) finish(r, sums[r]);
}
