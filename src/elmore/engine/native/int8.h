// Products of int8, with exact sums. Included inside a namespace, after its tiles and the products of its bytes.
//
// A row is scaled so that its largest number becomes 127, and rounded. Instructions that multiply bytes without a sign by
// bytes with one (SIGNED_BYTES is false) need the row as value + 128; the offsets of a matrix subtract these 128 again.

using Element = uint8_t;  // the type of the factors
constexpr int GROUP = 4;  // rows of a matrix that one instruction multiplies

// Convert a row of float32 to the type of the factors; returns the row's scale. With a NaN in the row the scale is NaN,
// and so are all products.
INLINE float convert_row(const float *from, int64_t count, Element *to) {
    Vec largest = splat(0.0f);
    bool found_nan = false;
    for (int64_t index = 0; index < count; index += LANES) {
        const Vec x = load_some(from + index, count - index);
        found_nan |= has_nan(x);
        largest = at_least(largest, magnitude(x));
    }
    const float bound = largest_lane(largest);
    if (found_nan || bound == INFINITE) {
        std::memset(to, 0, static_cast<size_t>(count));
        return NOT_A_NUMBER;
    }
    const Vec steps = splat(bound > 0.0f ? 127.0f / bound : 0.0f);
    for (int64_t index = 0; index < count; index += LANES) {
        const Vec x = mul(load_some(from + index, count - index), steps);
        store_bytes(to + index, x, SIGNED_BYTES ? 0 : 128, count - index);
    }
    return bound / 127.0f;
}

// finish(row, sums) for `start(row, v)` plus the product of each of R rows with a panel.
template <int R, class Start, class Finish>
INLINE void multiply(RowsOf<Element> rows, PanelOf<Element> panel, int64_t groups, Start start, Finish finish) {
    Ints sums[R][4];
    UNROLL for (int r = 0; r < R; ++r)
        UNROLL for (int v = 0; v < 4; ++v) sums[r][v] = SIGNED_BYTES ? zero_ints() : load_ints(panel.offsets + v * LANES);
    const int8_t *weights = reinterpret_cast<const int8_t *>(panel.elements);
    const Element *from = rows.elements;
    for (int64_t k = 0; k < groups; ++k, weights += 4 * LANES * GROUP, from += GROUP) {
        Bytes w[4];
        UNROLL for (int v = 0; v < 4; ++v) w[v] = load_bytes(weights + v * LANES * GROUP);
        UNROLL for (int r = 0; r < R; ++r) {
            const ByteGroup x = load_byte_group(from + r * rows.stride);
            UNROLL for (int v = 0; v < 4; ++v) add_byte_products(sums[r][v], x, w[v]);
        }
    }
    UNROLL for (int r = 0; r < R; ++r) {
        const Vec row_scale = splat(rows.scales[r]);
        Vec scaled[4];
        UNROLL for (int v = 0; v < 4; ++v)
            scaled[v] = fma(to_floats(sums[r][v]), mul(row_scale, load(panel.scales + v * LANES)), start(r, v));
        finish(r, scaled);
    }
}
