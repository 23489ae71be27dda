// The softmax over candidates, forward and backward at once. Included inside a namespace, after `products.h`, for float32.
//
//     logits = hidden @ weights + offsets            of the candidates; the target's logit is an input
//     e = exp(logits - highest), sum = Σ e + exp(target - highest)
//     d_hidden = e / sum @ weightsᵀ, d_weights = hiddenᵀ @ (e / sum), d_offsets = Σ over rows of e / sum
//
// Some rows at a time: first e and all that concerns these rows, piece by piece; then their contribution to the gradients
// of the weights, panel by panel, while they are in the cache. e is never divided: the factors of its products are.

class SoftmaxRunner {
   public:
    static constexpr int64_t ROWS_PER_PIECE = 48;

    SoftmaxRunner(const ElmoreSoftmax &call)
        : call_(call),
          panels_(divided_up(call.candidates, WIDTH)),
          columns_(rounded_up(call.vector_dim, WIDTH)),
          column_panels_(columns_ / WIDTH) {
        const int64_t pieces = smaller(MOST_EXPONENTIALS / (panels_ * WIDTH) / ROWS_PER_PIECE, MOST_PIECES);
        slots_ = (pieces < 1 ? 1 : pieces) * ROWS_PER_PIECE;
    }

    int64_t rows_per_pass() const { return slots_; }
    int64_t panels() const { return panels_; }
    int64_t sums_per_piece() const { return ROWS_PER_PIECE * (columns_ + LANES); }

    bool reserve(Buffer<float> &exponentials, Buffer<float> &divided) {
        if (!exponentials.reserve(panels_ * slots_ * WIDTH) || !divided.reserve(slots_ * (call_.vector_dim + 1)))
            return false;
        exponentials_ = exponentials.data();
        divided_ = divided.data();
        inverse_ = divided_ + slots_ * call_.vector_dim;
        return true;
    }

    // All that concerns some rows, the first of them `start + slot`.
    void run_rows(int64_t start, int64_t slot, int64_t rows, float *sums) const {
        float *extremes = sums + ROWS_PER_PIECE * columns_;
        make_logits(start, slot, rows, extremes);
        for (int64_t row = 0; row < rows; ++row) finish_row(start + slot + row, slot + row, extremes + row * LANES);
        for (int64_t first = 0; first < panels_; first += PANELS_PER_PASS) {
            const int64_t end = smaller(first + PANELS_PER_PASS, panels_);
            multiply_back(slot, rows, first, end, sums);
        }
        for (int64_t row = 0; row < rows; ++row) {
            float *to = call_.d_hidden + (start + slot + row) * call_.vector_dim;
            for (int64_t column = 0; column < call_.vector_dim; ++column)
                to[column] = sums[row * columns_ + column] * inverse_[slot + row];
        }
    }

    // Add the contribution of some rows to the gradients of a panel of candidates.
    void add_to_weights(int64_t panel, int64_t rows) const {
        const float *e = exponentials_ + panel * slots_ * WIDTH;
        for_each_tile(call_.vector_dim, [&](auto height, int64_t first) INLINE_LAMBDA {
            float *tile = call_.d_weights + (panel * call_.vector_dim + first) * WIDTH;
            multiply_segments<decltype(height)::value, true>(
                1, [&](int64_t) INLINE_LAMBDA { return Segment{divided_ + first, e, rows}; }, call_.vector_dim,
                [&](int r, int v) INLINE_LAMBDA { return load(tile + r * WIDTH + v * LANES); },
                [&](int r, Vec *sums) INLINE_LAMBDA {
                    UNROLL for (int v = 0; v < 4; ++v) store(tile + r * WIDTH + v * LANES, sums[v]);
                });
        });
        multiply_segments<1, true>(
            1, [&](int64_t) INLINE_LAMBDA { return Segment{inverse_, e, rows}; }, 1,
            [&](int, int v) INLINE_LAMBDA { return load(call_.d_offsets + panel * WIDTH + v * LANES); },
            [&](int, Vec *sums) INLINE_LAMBDA {
                UNROLL for (int v = 0; v < 4; ++v) store(call_.d_offsets + panel * WIDTH + v * LANES, sums[v]);
            });
    }

   private:
    static constexpr int64_t MOST_EXPONENTIALS = 1 << 21, MOST_PIECES = 16;
    static constexpr int64_t PANELS_PER_PASS = 1024 / WIDTH;

    float *exponentials_of(int64_t panel, int64_t slot) const { return exponentials_ + (panel * slots_ + slot) * WIDTH; }

    // Compute the logits, and a vector of the largest of each row.
    void make_logits(int64_t start, int64_t slot, int64_t rows, float *extremes) const {
        for (int64_t row = 0; row < rows; ++row)
            store(extremes + row * LANES, splat(call_.target_logits[start + slot + row]));
        for (int64_t panel = 0; panel < panels_; ++panel) {
            const float *weights = call_.weights + panel * call_.vector_dim * WIDTH;
            const float *offsets = call_.offsets + panel * WIDTH;
            for_each_tile(rows, [&](auto height, int64_t first) INLINE_LAMBDA {
                const float *hidden = call_.hidden + (start + slot + first) * call_.vector_dim;
                float *tile = exponentials_of(panel, slot + first);
                multiply_segments<decltype(height)::value, false>(
                    1, [&](int64_t) INLINE_LAMBDA { return Segment{hidden, weights, call_.vector_dim}; },
                    call_.vector_dim, [&](int, int v) INLINE_LAMBDA { return load(offsets + v * LANES); },
                    [&](int r, Vec *logits) INLINE_LAMBDA {
                        float *extreme = extremes + (first + r) * LANES;
                        Vec most = load(extreme);
                        UNROLL for (int v = 0; v < 4; ++v) {
                            store(tile + r * WIDTH + v * LANES, logits[v]);
                            most = at_least(most, logits[v]);
                        }
                        store(extreme, most);
                    });
            });
        }
    }

    // Replace logits by exponentials, and sum these.
    void finish_row(int64_t row, int64_t slot, const float *extreme) const {
        const int64_t target = call_.target_columns[row];
        if (target >= 0 && target < call_.candidates)
            exponentials_of(target / WIDTH, slot)[target % WIDTH] = -INFINITE;
        float highest = extreme[0];
        for (int lane = 1; lane < LANES; ++lane) highest = extreme[lane] > highest ? extreme[lane] : highest;
        Vec totals[4];
        UNROLL for (int v = 0; v < 4; ++v) totals[v] = splat(0.0f);
        const Vec down = splat(highest);
        for (int64_t panel = 0; panel < panels_; ++panel) {
            float *at = exponentials_of(panel, slot);
            UNROLL for (int v = 0; v < 4; ++v) {
                const Vec logit = load(at + v * LANES);
                // A logit of minus infinity is no candidate.
                const Vec e =
                    zero_where_clipped(exponential(at_least(splat(-80.0f), sub(logit, down))), logit, INFINITE);
                store(at + v * LANES, e);
                totals[v] = add(totals[v], e);
            }
        }
        float lanes[LANES];
        store(lanes, add(add(totals[0], totals[1]), add(totals[2], totals[3])));
        float sum = exponential_of(call_.target_logits[row] - highest);
        for (int lane = 0; lane < LANES; ++lane) sum += lanes[lane];
        call_.highest[row] = highest;
        call_.sums[row] = sum;
        const float inverse = 1.0f / sum;
        inverse_[slot] = inverse;
        const float *hidden = call_.hidden + row * call_.vector_dim;
        float *to = divided_ + slot * call_.vector_dim;
        for (int64_t column = 0; column < call_.vector_dim; ++column) to[column] = hidden[column] * inverse;
    }

    static float exponential_of(float x) {
        float lanes[LANES];
        store(lanes, exponential(at_least(splat(-80.0f), splat(x))));
        return lanes[0];
    }

    void multiply_back(int64_t slot, int64_t rows, int64_t first_panel, int64_t end_panel, float *sums) const {
        for (int64_t column_panel = 0; column_panel < column_panels_; ++column_panel) {
            const float *weights = call_.back_weights + (column_panel * panels_ + first_panel) * WIDTH * WIDTH;
            for_each_tile(rows, [&](auto height, int64_t first) INLINE_LAMBDA {
                float *tile = sums + first * columns_ + column_panel * WIDTH;
                multiply_segments<decltype(height)::value, false>(
                    end_panel - first_panel,
                    [&](int64_t number) INLINE_LAMBDA {
                        return Segment{exponentials_of(first_panel + number, slot + first),
                                       weights + number * WIDTH * WIDTH, WIDTH};
                    },
                    WIDTH,
                    [&](int r, int v) INLINE_LAMBDA {
                        return first_panel == 0 ? splat(0.0f) : load(tile + r * columns_ + v * LANES);
                    },
                    [&](int r, Vec *totals) INLINE_LAMBDA {
                        UNROLL for (int v = 0; v < 4; ++v) store(tile + r * columns_ + v * LANES, totals[v]);
                    });
            });
        }
    }

    const ElmoreSoftmax &call_;
    const int64_t panels_, columns_, column_panels_;
    int64_t slots_ = 0;
    float *exponentials_ = nullptr;  // (panels, slots, 4 vectors)
    float *divided_ = nullptr;       // (slots, vector) the hidden vectors divided by their sums
    float *inverse_ = nullptr;       // (slots)
};

struct SoftmaxCall {
    const SoftmaxRunner &runner;
    int64_t start, rows;
    WorkQueue row_queue{};
    WorkQueue panel_queue{};
};

inline void run_softmax_rows(void *context, int) {
    SoftmaxCall &call = *static_cast<SoftmaxCall *>(context);
    static thread_local Buffer<float> sums;
    if (!sums.reserve(call.runner.sums_per_piece())) return call.row_queue.fail();
    for (;;) {
        const int64_t slot = call.row_queue.take(SoftmaxRunner::ROWS_PER_PIECE);
        if (slot >= call.rows) return;
        call.runner.run_rows(call.start, slot, smaller(call.rows - slot, SoftmaxRunner::ROWS_PER_PIECE), sums.data());
    }
}

inline void add_softmax_gradients(void *context, int) {
    SoftmaxCall &call = *static_cast<SoftmaxCall *>(context);
    for (;;) {
        const int64_t panel = call.panel_queue.take();
        if (panel >= call.runner.panels()) return;
        call.runner.add_to_weights(panel, call.rows);
    }
}

inline int run_softmax(const ElmoreSoftmax &softmax, int threads) {
    static thread_local Buffer<float> exponentials, divided;
    SoftmaxRunner runner(softmax);
    if (!runner.reserve(exponentials, divided)) return ELMORE_OUT_OF_MEMORY;
    for (int64_t start = 0; start < softmax.rows; start += runner.rows_per_pass()) {
        SoftmaxCall call{runner, start, smaller(softmax.rows - start, runner.rows_per_pass())};
        run_on_threads(threads, run_softmax_rows, &call);
        if (call.row_queue.failed()) return ELMORE_OUT_OF_MEMORY;
        run_on_threads(threads, add_softmax_gradients, &call);
    }
    return ELMORE_OK;
}
