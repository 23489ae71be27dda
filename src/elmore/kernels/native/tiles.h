// How a product is cut into tiles of a few rows by one panel of columns. Included inside a namespace, before its numbers.

// Rows of a matrix that is multiplied from the left, in the form in which they are multiplied.
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

INLINE int64_t divided_up(int64_t count, int64_t size) { return (count + size - 1) / size; }
INLINE int64_t rounded_up(int64_t count, int64_t size) { return divided_up(count, size) * size; }

// body(height, first row) for tiles of about one height: 13 rows are 5, 4 and 4, since tiles of one row are slow.
template <class Body>
INLINE void for_each_tile(int64_t rows, Body body) {
    const int64_t tiles = divided_up(rows, MOST_ROWS);
    for (int64_t tile = 0; tile < tiles; ++tile) {
        const int64_t first = rows * tile / tiles;
        switch (rows * (tile + 1) / tiles - first) {
            case 1: body(std::integral_constant<int, 1>(), first); break;
            case 2: body(std::integral_constant<int, 2>(), first); break;
            case 3: body(std::integral_constant<int, 3>(), first); break;
            case 4: if constexpr (MOST_ROWS >= 4) body(std::integral_constant<int, 4>(), first); break;
            case 5: if constexpr (MOST_ROWS >= 5) body(std::integral_constant<int, 5>(), first); break;
            case 6: if constexpr (MOST_ROWS >= 6) body(std::integral_constant<int, 6>(), first); break;
        }
    }
}
