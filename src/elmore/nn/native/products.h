// Products for training, of matrices as they are in memory or as another kernel left them. Included inside a namespace,
// after its vectors and tiles, for float32.
//
// Each output is one sum over the depth, from first to last. Storing a sum and continuing it later changes no bit.

// A part of the depth: the left numbers of the first row, and the right ones, in rows of four vectors.
struct Segment {
    const float *left;
    const float *right;
    int64_t depth;
};

// finish(row, sums) for `start(row, v)` plus the products of all segments, for R rows. The left numbers of a row are
// adjacent, and rows a stride apart; or, if TRANSPOSED, the numbers of one depth are adjacent.
template <int R, bool TRANSPOSED, class SegmentAt, class Start, class Finish>
INLINE void multiply_segments(int64_t count, SegmentAt segment_at, int64_t stride, Start start, Finish finish) {
    Vec sums[R][4];
    UNROLL for (int r = 0; r < R; ++r)
        UNROLL for (int v = 0; v < 4; ++v) sums[r][v] = start(r, v);
    for (int64_t number = 0; number < count; ++number) {
        const Segment segment = segment_at(number);
        const float *left = segment.left, *right = segment.right;
        for (int64_t k = 0; k < segment.depth; ++k, right += WIDTH, left += TRANSPOSED ? stride : 1) {
            const Vec w0 = load(right), w1 = load(right + LANES), w2 = load(right + 2 * LANES),
                      w3 = load(right + 3 * LANES);
            UNROLL for (int r = 0; r < R; ++r) {
                const Vec x = splat(left[TRANSPOSED ? r : r * stride]);
                sums[r][0] = fma(x, w0, sums[r][0]);
                sums[r][1] = fma(x, w1, sums[r][1]);
                sums[r][2] = fma(x, w2, sums[r][2]);
                sums[r][3] = fma(x, w3, sums[r][3]);
            }
        }
    }
    UNROLL for (int r = 0; r < R; ++r) finish(r, sums[r]);
}

// Copy numbers at from[row * row_stride + column * column_stride] to `to` (rows, columns).
INLINE void copy_matrix(const float *from, int64_t row_stride, int64_t column_stride, int64_t rows, int64_t columns,
                        float *to, int64_t to_stride) {
    if (column_stride == 1) {
        for (int64_t row = 0; row < rows; ++row)
            std::memcpy(to + row * to_stride, from + row * row_stride, static_cast<size_t>(columns) * sizeof(float));
        return;
    }
    constexpr int64_t SQUARE = 16;
    for (int64_t first_row = 0; first_row < rows; first_row += SQUARE)
        for (int64_t first = 0; first < columns; first += SQUARE) {
            const int64_t end_row = smaller(first_row + SQUARE, rows), end = smaller(first + SQUARE, columns);
            for (int64_t column = first; column < end; ++column)
                for (int64_t row = first_row; row < end_row; ++row)
                    to[row * to_stride + column] = from[row * row_stride + column * column_stride];
        }
}

struct ProductCall {
    const ElmoreProduct &product;
    float *left;  // a copy, in rows that do not evict each other from the cache
    int64_t stride;
    WorkQueue row_queue{};
    WorkQueue panel_queue{};
};

constexpr int64_t PANEL_DEPTH = 1024;  // of a panel's part that stays in the cache over all rows
constexpr int64_t ROWS_PER_COPY = 64;

inline void copy_left_rows(void *context, int) {
    ProductCall &call = *static_cast<ProductCall *>(context);
    const ElmoreProduct &product = call.product;
    for (;;) {
        const int64_t first = call.row_queue.take(ROWS_PER_COPY);
        if (first >= product.rows) return;
        copy_matrix(product.left + first * product.left_row_stride, product.left_row_stride, product.left_depth_stride,
                    smaller(product.rows - first, ROWS_PER_COPY), product.depth, call.left + first * call.stride,
                    call.stride);
    }
}

// Multiply all rows by the part of a panel that starts at a depth.
INLINE void multiply_panel_part(const ProductCall &call, const float *panel, int64_t column, int64_t columns,
                                int64_t start, int64_t depth) {
    const ElmoreProduct &product = call.product;
    for_each_tile(product.rows, [&](auto height, int64_t first) INLINE_LAMBDA {
        float *out = product.out + first * product.out_stride + column;
        multiply_segments<decltype(height)::value, false>(
            1, [&](int64_t) INLINE_LAMBDA { return Segment{call.left + first * call.stride + start, panel, depth}; },
            call.stride,
            [&](int r, int v) INLINE_LAMBDA {
                if ((start == 0 && !product.adds) || v * LANES >= columns) return splat(0.0f);
                return load_some(out + r * product.out_stride + v * LANES, columns - v * LANES);
            },
            [&](int r, Vec *sums) INLINE_LAMBDA {
                UNROLL for (int v = 0; v < 4; ++v)
                    if (v * LANES < columns)
                        store_some(out + r * product.out_stride + v * LANES, sums[v], columns - v * LANES);
            });
    });
}

inline void multiply_product_panels(void *context, int) {
    ProductCall &call = *static_cast<ProductCall *>(context);
    const ElmoreProduct &product = call.product;
    static thread_local Buffer<float> buffer;
    if (!buffer.reserve(PANEL_DEPTH * WIDTH)) return call.panel_queue.fail();
    float *panel = buffer.data();
    for (;;) {
        const int64_t column = call.panel_queue.take() * WIDTH;
        if (column >= product.columns) return;
        const int64_t columns = smaller(product.columns - column, WIDTH);
        if (columns < WIDTH) std::memset(panel, 0, PANEL_DEPTH * WIDTH * sizeof(float));
        for (int64_t start = 0; start < product.depth; start += PANEL_DEPTH) {
            const int64_t depth = smaller(product.depth - start, PANEL_DEPTH);
            copy_matrix(product.right + start * product.right_depth_stride + column * product.right_column_stride,
                        product.right_depth_stride, product.right_column_stride, depth, columns, panel, WIDTH);
            multiply_panel_part(call, panel, column, columns, start, depth);
        }
    }
}

inline int run_product(const ElmoreProduct &product, int threads) {
    static thread_local Buffer<float> left;
    constexpr int64_t PADDING = 16;
    const int64_t stride = rounded_up(product.depth, PADDING) + PADDING;
    if (!left.reserve(product.rows * stride)) return ELMORE_OUT_OF_MEMORY;
    ProductCall call{product, left.data(), stride};
    run_on_threads(threads, copy_left_rows, &call);
    run_on_threads(threads, multiply_product_panels, &call);
    return call.panel_queue.failed() ? ELMORE_OUT_OF_MEMORY : ELMORE_OK;
}
