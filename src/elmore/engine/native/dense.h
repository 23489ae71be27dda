// Dense layers and highways over many rows. Included inside a namespace, after its vectors, tiles and factors.
//
//     dense:    out = x @ matrix + bias
//     highway:  out = g * relu(t) + (1 - g) * x, where t, σ⁻¹(g) = x @ matrix + bias
//
// A panel of a highway contains two vectors of t and the same two of g.

struct DenseCall {
    const ElmoreDense &layer;
    const float *x;
    int64_t x_stride;
    int64_t rows;
    float *out;
    int64_t out_stride;
    Element *elements;  // x, converted to the type of the factors
    float *scales;
    int64_t stride;
    int64_t groups;
    WorkQueue row_queue{};
    WorkQueue panel_queue{};
};

constexpr int64_t ROWS_PER_CONVERSION = 64;

inline void convert_dense_rows(void *context, int) {
    DenseCall &call = *static_cast<DenseCall *>(context);
    const int64_t depth = call.layer.depth;
    for (;;) {
        const int64_t first = call.row_queue.take(ROWS_PER_CONVERSION);
        if (first >= call.rows) return;
        const int64_t end = smaller(first + ROWS_PER_CONVERSION, call.rows);
        for (int64_t row = first; row < end; ++row) {
            Element *to = call.elements + row * call.stride;
            for (int64_t index = depth; index < call.groups * GROUP; ++index) to[index] = 0;
            call.scales[row] = convert_row(call.x + row * call.x_stride, depth, to);
        }
    }
}

inline void multiply_dense_panels(void *context, int) {
    DenseCall &call = *static_cast<DenseCall *>(context);
    const ElmoreDense &layer = call.layer;
    const int64_t panel_outputs = layer.highway ? WIDTH / 2 : WIDTH;
    const RowsOf<Element> rows{call.elements, call.stride, call.scales};
    for (;;) {
        const int64_t panel = call.panel_queue.take();
        const int64_t first_column = panel * panel_outputs;
        if (first_column >= layer.columns) return;
        const PanelOf<Element> weights{
            static_cast<const Element *>(layer.matrix.panels) + panel * call.groups * GROUP * WIDTH,
            layer.matrix.scales ? layer.matrix.scales + panel * WIDTH : nullptr,
            layer.matrix.offsets ? layer.matrix.offsets + panel * WIDTH : nullptr};
        const float *bias = layer.bias + panel * WIDTH;
        const int64_t columns = layer.columns - first_column;
        for_each_tile(call.rows, [&](auto height, int64_t first) INLINE_LAMBDA {
            float *out = call.out + first * call.out_stride + first_column;
            const float *x = call.x + first * call.x_stride + first_column;
            multiply<decltype(height)::value>(
                rows.from(first), weights, call.groups,
                [&](int, int v) INLINE_LAMBDA { return load(bias + v * LANES); },
                [&](int r, Vec *sums) INLINE_LAMBDA {
                    float *to = out + r * call.out_stride;
                    if (layer.highway) {
                        // Rows of a highway are padded to whole vectors, so that whole vectors can be loaded.
                        UNROLL for (int v = 0; v < 2; ++v) {
                            if (v * LANES >= columns) break;
                            const Vec before = load(x + r * call.x_stride + v * LANES);
                            const Vec after = fma(sigmoid(sums[v + 2]), sub(relu(sums[v]), before), before);
                            store_some(to + v * LANES, after, columns - v * LANES);
                        }
                        return;
                    }
                    UNROLL for (int v = 0; v < 4; ++v)
                        if (v * LANES < columns) store_some(to + v * LANES, sums[v], columns - v * LANES);
                });
        });
    }
}

struct DenseBuffers {
    Buffer<Element> elements;
    Buffer<float> scales;
};

inline int run_dense(const ElmoreDense &layer, const float *x, int64_t x_stride, int64_t rows, float *out,
                     int64_t out_stride, int threads) {
    if (rows == 0) return ELMORE_OK;
    // Rows that start at multiples of 4 KiB would evict each other from the cache.
    constexpr int64_t PADDING = 64 / sizeof(Element);
    const int64_t stride = rounded_up(layer.depth, PADDING) + PADDING;
    static thread_local DenseBuffers buffers;
    if (!buffers.elements.reserve(rows * stride) || !buffers.scales.reserve(rows)) return ELMORE_OUT_OF_MEMORY;
    DenseCall call{layer,
                   x,
                   x_stride,
                   rows,
                   out,
                   out_stride,
                   buffers.elements.data(),
                   buffers.scales.data(),
                   stride,
                   divided_up(layer.depth, GROUP)};
    run_on_threads(threads, convert_dense_rows, &call);
    run_on_threads(threads, multiply_dense_panels, &call);
    return ELMORE_OK;
}
