// The pointwise parts of a highway in training, forward and backward; `products.h` has its products. Included inside a
// namespace, after its vectors, for float32.
//
//     out = g * t + (1 - g) * x, where t = relu(zt + bt), g = σ(zg + bg)
//
// Threads divide the columns, each over all rows: the gradient of a bias is one sum from the first row to the last.

struct HighwayCall {
    const ElmoreHighway &highway;
    WorkQueue queue{};
};

constexpr int64_t HIGHWAY_VECTORS = 16;  // of columns, for one thread at a time

// body(first column, count) for some vectors of columns; the last vector may be incomplete.
template <class Body>
INLINE void for_some_columns(HighwayCall &call, Body body) {
    const int64_t columns = call.highway.columns;
    for (;;) {
        const int64_t first = call.queue.take(HIGHWAY_VECTORS * LANES);
        if (first >= columns) return;
        body(first, smaller(columns - first, HIGHWAY_VECTORS * LANES));
    }
}

inline void activate_highway(void *context, int) {
    HighwayCall &call = *static_cast<HighwayCall *>(context);
    const ElmoreHighway &parts = call.highway;
    for_some_columns(call, [&](int64_t first, int64_t count) INLINE_LAMBDA {
        for (int64_t row = 0; row < parts.rows; ++row)
            for (int64_t column = first; column < first + count; column += LANES) {
                const int64_t some = first + count - column, index = row * parts.columns + column;
                float *t = parts.both + index + row * parts.columns, *g = t + parts.columns;
                const Vec x = load_some(parts.x + index, some);
                const Vec transformed = relu(add(load_some(t, some), load_some(parts.bias + column, some)));
                const Vec gate = sigmoid(add(load_some(g, some), load_some(parts.bias + parts.columns + column, some)));
                store_some(t, transformed, some);
                store_some(g, gate, some);
                store_some(parts.out + index, fma(gate, sub(transformed, x), x), some);
            }
    });
}

inline void differentiate_highway(void *context, int) {
    HighwayCall &call = *static_cast<HighwayCall *>(context);
    const ElmoreHighway &parts = call.highway;
    for_some_columns(call, [&](int64_t first, int64_t count) INLINE_LAMBDA {
        Vec sums[2][HIGHWAY_VECTORS];
        for (int64_t v = 0; v < HIGHWAY_VECTORS; ++v) sums[0][v] = sums[1][v] = splat(0.0f);
        for (int64_t row = 0; row < parts.rows; ++row)
            for (int64_t v = 0; v * LANES < count; ++v) {
                const int64_t column = first + v * LANES, some = count - v * LANES, index = row * parts.columns + column;
                const int64_t both = index + row * parts.columns;
                const Vec t = load_some(parts.both + both, some), g = load_some(parts.both + both + parts.columns, some);
                const Vec x = load_some(parts.x + index, some), d = load_some(parts.d_out + index, some);
                const Vec d_g_part = mul(d, g);
                const Vec d_t = zero_unless_positive(d_g_part, t);
                const Vec d_g = mul(mul(d_g_part, sub(t, x)), sub(splat(1.0f), g));
                store_some(parts.d_both + both, d_t, some);
                store_some(parts.d_both + both + parts.columns, d_g, some);
                store_some(parts.d_x + index, sub(d, d_g_part), some);
                sums[0][v] = add(sums[0][v], d_t);
                sums[1][v] = add(sums[1][v], d_g);
            }
        for (int64_t v = 0; v * LANES < count; ++v) {
            store_some(parts.d_bias + first + v * LANES, sums[0][v], count - v * LANES);
            store_some(parts.d_bias + parts.columns + first + v * LANES, sums[1][v], count - v * LANES);
        }
    });
}

inline int run_highway(const ElmoreHighway &highway, int threads) {
    HighwayCall call{highway};
    run_on_threads(threads, highway.d_bias ? differentiate_highway : activate_highway, &call);
    return ELMORE_OK;
}
