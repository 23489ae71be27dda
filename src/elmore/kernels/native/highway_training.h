// The pointwise parts of a highway in training, forth and back; its products are those of `products.h`. Included inside a
// namespace, after its vectors, and only for float32.
//
//     out = g * t + (1 - g) * x, where t = relu(zt + bt), g = σ(zg + bg)
//
// Threads share out columns, over all rows, so that the gradient of a bias is one sum from the first row to the last.

struct HighwayCall {
    const ElmoreHighway &highway;
    int64_t next_column;
};

constexpr int64_t HIGHWAY_COLUMNS = 16 * LANES;  // at once

// body(first column, how many) for some vectors of columns, the last of them perhaps not whole.
template <class Body>
INLINE void for_some_columns(HighwayCall &call, Body body) {
    const int64_t columns = call.highway.columns;
    for (;;) {
        const int64_t first = __atomic_fetch_add(&call.next_column, HIGHWAY_COLUMNS, __ATOMIC_RELAXED);
        if (first >= columns) return;
        body(first, columns - first < HIGHWAY_COLUMNS ? columns - first : HIGHWAY_COLUMNS);
    }
}

inline void activate_highway(void *context, int) {
    HighwayCall &call = *static_cast<HighwayCall *>(context);
    const ElmoreHighway &own = call.highway;
    for_some_columns(call, [&](int64_t first, int64_t count) INLINE_LAMBDA {
        for (int64_t row = 0; row < own.rows; ++row)
            for (int64_t column = first; column < first + count; column += LANES) {
                const int64_t some = first + count - column, place = row * own.columns + column;
                float *t = own.both + place + row * own.columns, *g = t + own.columns;
                const Vec x = load_some(own.x + place, some);
                const Vec transformed = relu(add(load_some(t, some), load_some(own.bias + column, some)));
                const Vec gate = sigmoid(add(load_some(g, some), load_some(own.bias + own.columns + column, some)));
                store_some(t, transformed, some);
                store_some(g, gate, some);
                store_some(own.out + place, fma(gate, sub(transformed, x), x), some);
            }
    });
}

inline void differentiate_highway(void *context, int) {
    HighwayCall &call = *static_cast<HighwayCall *>(context);
    const ElmoreHighway &own = call.highway;
    for_some_columns(call, [&](int64_t first, int64_t count) INLINE_LAMBDA {
        Vec sums[2][HIGHWAY_COLUMNS / LANES];
        for (int64_t v = 0; v < HIGHWAY_COLUMNS / LANES; ++v) sums[0][v] = sums[1][v] = splat(0.0f);
        for (int64_t row = 0; row < own.rows; ++row)
            for (int64_t v = 0; v * LANES < count; ++v) {
                const int64_t column = first + v * LANES, some = count - v * LANES, place = row * own.columns + column;
                const int64_t both = place + row * own.columns;
                const Vec t = load_some(own.both + both, some), g = load_some(own.both + both + own.columns, some);
                const Vec x = load_some(own.x + place, some), d = load_some(own.d_out + place, some);
                const Vec d_g_part = mul(d, g);
                const Vec d_t = zero_unless_positive(d_g_part, t);
                const Vec d_g = mul(mul(d_g_part, sub(t, x)), sub(splat(1.0f), g));
                store_some(own.d_both + both, d_t, some);
                store_some(own.d_both + both + own.columns, d_g, some);
                store_some(own.d_x + place, sub(d, d_g_part), some);
                sums[0][v] = add(sums[0][v], d_t);
                sums[1][v] = add(sums[1][v], d_g);
            }
        for (int64_t v = 0; v * LANES < count; ++v) {
            store_some(own.d_bias + first + v * LANES, sums[0][v], count - v * LANES);
            store_some(own.d_bias + own.columns + first + v * LANES, sums[1][v], count - v * LANES);
        }
    });
}

inline void run_highway(const ElmoreHighway &highway, int threads) {
    HighwayCall call{highway, 0};
    run_on_threads(threads, highway.d_bias ? differentiate_highway : activate_highway, &call);
}
