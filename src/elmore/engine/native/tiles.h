// How products are divided into tiles: a few rows by one panel of columns. Included inside a namespace, after its vectors.

// Rows on the left of a product, converted to the type of the factors.
template <class T>
struct RowsOf {
    const T *elements;
    int64_t stride;
    const float *scales;  // of each row; int8 only
    RowsOf from(int64_t row) const { return {elements + row * stride, stride, scales + row}; }
};

// Four vectors of columns of a packed matrix.
template <class T>
struct PanelOf {
    const T *elements;
    const float *scales;
    const int32_t *offsets;
};

constexpr int64_t WIDTH = 4 * LANES;  // columns of a panel

INLINE int64_t divided_up(int64_t count, int64_t size) { return (count + size - 1) / size; }
INLINE int64_t rounded_up(int64_t count, int64_t size) { return divided_up(count, size) * size; }
INLINE int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

// body(height, first row) for tiles of similar height: 13 rows are 5, 4 and 4, because tiles of one row are slow.
template <class Body>
INLINE void for_each_tile(int64_t rows, Body body) {
    const int64_t tiles = divided_up(rows, MOST_ROWS);
    for (int64_t tile = 0; tile < tiles; ++tile) {
        const int64_t first = rows * tile / tiles;
        switch (rows * (tile + 1) / tiles - first) {
            case 1: body(std::integral_constant<int, 1>(), first); break;
            case 2: if constexpr (MOST_ROWS >= 2) body(std::integral_constant<int, 2>(), first); break;
            case 3: if constexpr (MOST_ROWS >= 3) body(std::integral_constant<int, 3>(), first); break;
            case 4: if constexpr (MOST_ROWS >= 4) body(std::integral_constant<int, 4>(), first); break;
            case 5: if constexpr (MOST_ROWS >= 5) body(std::integral_constant<int, 5>(), first); break;
            case 6: if constexpr (MOST_ROWS >= 6) body(std::integral_constant<int, 6>(), first); break;
        }
    }
}
