// The backward pass of an LSTM layer. Included inside a namespace, after `row_pieces.h` and `products.h`, for float32;
// `lstm.h` has the equations.
//
// From the last step to the first, some steps at a time: first the gradients of their gates, piece by piece, where no
// piece waits for another; then their contribution to the gradients of the weights, panel by panel, while they are in the
// cache.

// Values of some steps, in slots of one row at one step; panels as in `kernels.h`.
struct BackwardScratch {
    Buffer<float> d_gates;      // (directions, panels, slots, 4 vectors)
    Buffer<float> m;            // (directions, panels of cells, slots, 4 vectors)
    Buffer<float> d_projected;  // (directions, slots, columns)
};

class LstmBackward {
   public:
    LstmBackward(const ElmoreLstmGradients &call)
        : call_(call),
          vector_dim_(call.vector_dim),
          cells_(rounded_up(call.cell_dim, LANES)),
          panels_(cells_ / LANES),
          cell_panels_(divided_up(cells_, WIDTH)),
          columns_(rounded_up(call.vector_dim, WIDTH)),
          column_panels_(columns_ / WIDTH),
          steps_per_pass_(ROWS_PER_PASS > call.rows ? ROWS_PER_PASS / call.rows : 1),
          slots_(smaller(steps_per_pass_, call.steps) * call.rows) {}

    bool reserve(BackwardScratch &scratch) {
        const int64_t all = call_.directions * slots_;
        if (!scratch.d_gates.reserve(all * panels_ * WIDTH) || !scratch.m.reserve(all * cell_panels_ * WIDTH) ||
            !scratch.d_projected.reserve(all * columns_))
            return false;
        d_gates_ = scratch.d_gates.data();
        m_ = scratch.m.data();
        d_projected_ = scratch.d_projected.data();
        return true;
    }

    int64_t steps_per_pass() const { return steps_per_pass_; }
    int64_t sums_per_piece(int64_t rows) const { return 2 * rows * columns_; }
    int64_t weight_parts() const {
        if (call_.d_input == nullptr) return 0;
        return call_.directions * (panels_ + (call_.back_projection ? cell_panels_ : 0));
    }

    // Compute the gradients of some steps, for a piece. `sums` holds the gradients of h and of the inputs of its rows.
    void run_piece(const Piece &piece, int64_t start, int64_t end, float *sums) const {
        for (int64_t step = end - 1; step >= start; --step) {
            const Step at{piece, step, (step - start) * call_.rows + piece.first_row, active_rows(piece, step)};
            if (call_.d_inputs)
                std::memset(d_input_row(at, at.rows), 0, (piece.rows - at.rows) * vector_dim_ * sizeof(float));
            if (at.rows == 0) continue;
            add_output_gradients(at);
            for (int64_t first = 0; first < cell_panels_; first += CELL_PANELS_PER_PASS) {
                const int64_t last = smaller(first + CELL_PANELS_PER_PASS, cell_panels_);
                for (int64_t panel = first; panel < last; ++panel) differentiate_cells(at, panel);
                const int64_t first_gates = first * 4, end_gates = smaller(last * 4, panels_);
                multiply_back(at, call_.back_recurrent, first_gates, end_gates, sums);
                if (call_.d_inputs)
                    multiply_back(at, call_.back_input, first_gates, end_gates, sums + piece.rows * columns_);
            }
            for (int64_t row = 0; row < at.rows; ++row) {
                std::memcpy(d_h_row(at, row), sums + row * columns_, vector_dim_ * sizeof(float));
                if (call_.d_inputs)
                    std::memcpy(d_input_row(at, row), sums + (piece.rows + row) * columns_,
                                     vector_dim_ * sizeof(float));
            }
        }
    }

    // Add the contribution of some steps to the gradients of a part of the weights: of one panel, for all rows.
    void add_to_weights(int64_t part, int64_t start, int64_t end) const {
        const int64_t gate_parts = call_.directions * panels_;
        if (part >= gate_parts) {
            const int64_t direction = (part - gate_parts) / cell_panels_, panel = (part - gate_parts) % cell_panels_;
            add_products(
                start, end, m_ + (direction * cell_panels_ + panel) * slots_ * WIDTH, columns_,
                [&](int64_t step) { return d_projected_ + (direction * slots_ + (step - start) * call_.rows) * columns_; },
                call_.d_projection + (direction * cell_panels_ + panel) * vector_dim_ * WIDTH);
            return;
        }
        const int64_t direction = part / panels_;
        const float *d_gates = d_gates_ + part * slots_ * WIDTH;
        add_products(
            start, end, d_gates, vector_dim_,
            [&](int64_t step) { return call_.inputs + row_index(direction, step) * vector_dim_; },
            call_.d_input + part * vector_dim_ * WIDTH);
        add_products(
            start, end, d_gates, vector_dim_,
            [&](int64_t step) {
                return step == 0 ? call_.h + direction * call_.rows * vector_dim_
                                 : call_.outputs + row_index(direction, step - 1) * vector_dim_;
            },
            call_.d_recurrent + part * vector_dim_ * WIDTH);
        Vec sums[4];
        UNROLL for (int v = 0; v < 4; ++v) sums[v] = load(call_.d_bias + part * WIDTH + v * LANES);
        for (int64_t step = start; step < end; ++step) {
            const float *from = d_gates + (step - start) * call_.rows * WIDTH;
            for (int64_t row = 0; row < all_active_rows(step); ++row, from += WIDTH)
                UNROLL for (int v = 0; v < 4; ++v) sums[v] = add(sums[v], load(from + v * LANES));
        }
        UNROLL for (int v = 0; v < 4; ++v) store(call_.d_bias + part * WIDTH + v * LANES, sums[v]);
    }

   private:
    static constexpr int64_t ROWS_PER_PASS = 512;
    static constexpr int64_t CELL_PANELS_PER_PASS = 256 / WIDTH;

    // Rows of a piece at one step.
    struct Step {
        const Piece &piece;
        int64_t number;
        int64_t slot;  // of its first row
        int64_t rows;  // that have not ended
    };

    int64_t all_active_rows(int64_t step) const {
        int64_t rows = call_.rows;
        while (rows > 0 && call_.lengths[rows - 1] <= step) --rows;
        return rows;
    }

    int64_t active_rows(const Piece &piece, int64_t step) const {
        int64_t rows = piece.rows;
        while (rows > 0 && call_.lengths[piece.first_row + rows - 1] <= step) --rows;
        return rows;
    }

    int64_t row_index(int64_t direction, int64_t step) const { return (direction * call_.steps + step) * call_.rows; }
    int64_t row_index(const Step &at, int64_t row) const {
        return row_index(at.piece.direction, at.number) + at.piece.first_row + row;
    }
    int64_t state_index(const Step &at, int64_t row) const {
        return at.piece.direction * call_.rows + at.piece.first_row + row;
    }
    float *d_input_row(const Step &at, int64_t row) const { return call_.d_inputs + row_index(at, row) * vector_dim_; }
    float *d_h_row(const Step &at, int64_t row) const { return call_.d_h + state_index(at, row) * vector_dim_; }
    float *d_projected_row(const Step &at, int64_t row) const {
        return d_projected_ + (at.piece.direction * slots_ + at.slot + row) * columns_;
    }
    float *d_gates_row(const Step &at, int64_t panel, int64_t row) const {
        return d_gates_ + ((at.piece.direction * panels_ + panel) * slots_ + at.slot + row) * WIDTH;
    }

    // Add the gradients of the outputs and of the next step's h. Where h is clipped the gradient is 0.
    void add_output_gradients(const Step &at) const {
        const float clip = call_.back_projection ? call_.projection_clip : INFINITE;
        for (int64_t row = 0; row < at.rows; ++row) {
            const float *h = call_.outputs + row_index(at, row) * vector_dim_, *d_h = d_h_row(at, row);
            const float *d_output = call_.d_outputs ? call_.d_outputs + row_index(at, row) * vector_dim_ : nullptr;
            float *to = d_projected_row(at, row);
            for (int64_t column = 0; column < vector_dim_; ++column) {
                const float both = d_output ? d_output[column] + d_h[column] : d_h[column];
                to[column] = h[column] >= clip || h[column] <= -clip ? 0.0f : both;
            }
            for (int64_t column = vector_dim_; column < columns_; ++column) to[column] = 0.0f;
        }
    }

    // Compute the gradients of a panel of cells and of their gates, and m again.
    void differentiate_cells(const Step &at, int64_t panel) const {
        if (call_.back_projection == nullptr) {
            for (int64_t row = 0; row < at.rows; ++row) {
                Vec d_m[4];
                UNROLL for (int v = 0; v < 4; ++v) d_m[v] = load(d_projected_row(at, row) + panel * WIDTH + v * LANES);
                differentiate_row(at, panel, row, d_m);
            }
            return;
        }
        const float *weights =
            call_.back_projection + (at.piece.direction * cell_panels_ + panel) * vector_dim_ * WIDTH;
        for_each_tile(at.rows, [&](auto height, int64_t first) INLINE_LAMBDA {
            multiply_segments<decltype(height)::value, false>(
                1, [&](int64_t) INLINE_LAMBDA { return Segment{d_projected_row(at, first), weights, vector_dim_}; },
                columns_, [&](int, int) INLINE_LAMBDA { return splat(0.0f); },
                [&](int r, Vec *d_m) INLINE_LAMBDA { differentiate_row(at, panel, first + r, d_m); });
        });
    }

    INLINE_MEMBER void differentiate_row(const Step &at, int64_t panel, int64_t row, const Vec *d_m) const {
        const int64_t cells = ((at.piece.direction * (call_.steps + 1) + at.number) * call_.rows + at.piece.first_row + row) *
                              cells_;
        float *m = m_ + ((at.piece.direction * cell_panels_ + panel) * slots_ + at.slot + row) * WIDTH;
        for (int v = 0; v < 4; ++v) {
            const int64_t gate_panel = panel * 4 + v, cell = gate_panel * LANES;
            if (gate_panel >= panels_) {
                store(m + v * LANES, splat(0.0f));
                continue;
            }
            const float *gates = call_.gates + (((at.piece.direction * panels_ + gate_panel) * call_.steps + at.number) *
                                                    call_.rows + at.piece.first_row + row) * WIDTH;
            const Vec i = load(gates), j = load(gates + LANES), f = load(gates + 2 * LANES), o = load(gates + 3 * LANES);
            const Vec before = load(call_.cells + cells + cell);
            const Vec after = load(call_.cells + cells + call_.rows * cells_ + cell);
            const Vec one = splat(1.0f), squashed = tanh_of(after);
            float *carried = call_.d_c + state_index(at, row) * cells_ + cell;
            const Vec d_m_o = mul(d_m[v], o);
            Vec d_c = add(load(carried), sub(d_m_o, mul(d_m_o, mul(squashed, squashed))));
            // Where the cell is clipped its gradient is 0.
            d_c = zero_where_clipped(d_c, after, call_.cell_clip);
            float *d_gates = d_gates_row(at, gate_panel, row);
            const Vec d_i = mul(d_c, i);
            store(d_gates, mul(mul(d_i, j), sub(one, i)));
            store(d_gates + LANES, sub(d_i, mul(d_i, mul(j, j))));
            store(d_gates + 2 * LANES, mul(mul(mul(d_c, before), f), sub(one, f)));
            store(d_gates + 3 * LANES, mul(mul(d_m_o, squashed), sub(one, o)));
            store(carried, mul(d_c, f));
            store(m + v * LANES, mul(o, squashed));
        }
    }

    // Add to sums (rows, columns) the products of some panels of gates with a transposed matrix.
    void multiply_back(const Step &at, const float *matrix, int64_t first_gates, int64_t end_gates, float *sums) const {
        for (int64_t panel = 0; panel < column_panels_; ++panel) {
            const float *weights =
                matrix + ((at.piece.direction * column_panels_ + panel) * panels_ + first_gates) * WIDTH * WIDTH;
            for_each_tile(at.rows, [&](auto height, int64_t first) INLINE_LAMBDA {
                float *tile = sums + first * columns_ + panel * WIDTH;
                multiply_segments<decltype(height)::value, false>(
                    end_gates - first_gates,
                    [&](int64_t number) INLINE_LAMBDA {
                        return Segment{d_gates_row(at, first_gates + number, first), weights + number * WIDTH * WIDTH,
                                       WIDTH};
                    },
                    WIDTH,
                    [&](int r, int v) INLINE_LAMBDA {
                        return first_gates == 0 ? splat(0.0f) : load(tile + r * columns_ + v * LANES);
                    },
                    [&](int r, Vec *totals) INLINE_LAMBDA {
                        UNROLL for (int v = 0; v < 4; ++v) store(tile + r * columns_ + v * LANES, totals[v]);
                    });
            });
        }
    }

    // Add to out (vector, 4 vectors), over all steps and rows, the products of the rows `left_of(step)`, a stride apart,
    // with a panel of slots.
    template <class LeftOf>
    void add_products(int64_t start, int64_t end, const float *panel, int64_t stride, LeftOf left_of,
                      float *out) const {
        for_each_tile(vector_dim_, [&](auto height, int64_t first) INLINE_LAMBDA {
            float *tile = out + first * WIDTH;
            multiply_segments<decltype(height)::value, true>(
                end - start,
                [&](int64_t number) INLINE_LAMBDA {
                    return Segment{left_of(start + number) + first, panel + number * call_.rows * WIDTH,
                                   all_active_rows(start + number)};
                },
                stride, [&](int r, int v) INLINE_LAMBDA { return load(tile + r * WIDTH + v * LANES); },
                [&](int r, Vec *sums) INLINE_LAMBDA {
                    UNROLL for (int v = 0; v < 4; ++v) store(tile + r * WIDTH + v * LANES, sums[v]);
                });
        });
    }

    const ElmoreLstmGradients &call_;
    const int64_t vector_dim_, cells_, panels_, cell_panels_, columns_, column_panels_, steps_per_pass_, slots_;
    float *d_gates_ = nullptr, *m_ = nullptr, *d_projected_ = nullptr;
};

struct BackwardCall {
    const LstmBackward &backward;
    const RowPieces &pieces;
    int64_t start, end;  // steps
    WorkQueue piece_queue{};
    WorkQueue part_queue{};
};

inline void run_backward_pieces(void *context, int) {
    BackwardCall &call = *static_cast<BackwardCall *>(context);
    static thread_local Buffer<float> sums;
    if (!sums.reserve(call.backward.sums_per_piece(call.pieces.rows))) return call.piece_queue.fail();
    for (;;) {
        const int64_t number = call.piece_queue.take();
        if (number >= call.pieces.pieces) return;
        call.backward.run_piece(call.pieces.piece(number), call.start, call.end, sums.data());
    }
}

inline void add_to_all_weights(void *context, int) {
    BackwardCall &call = *static_cast<BackwardCall *>(context);
    for (;;) {
        const int64_t part = call.part_queue.take();
        if (part >= call.backward.weight_parts()) return;
        call.backward.add_to_weights(part, call.start, call.end);
    }
}

inline int run_lstm_backward(const ElmoreLstmGradients &gradients, int threads) {
    if (gradients.rows == 0 || gradients.steps == 0) return ELMORE_OK;
    static thread_local BackwardScratch scratch;
    LstmBackward backward(gradients);
    if (!backward.reserve(scratch)) return ELMORE_OUT_OF_MEMORY;
    const RowPieces pieces(gradients.rows, gradients.directions, threads);
    for (int64_t end = gradients.steps; end > 0;) {
        const int64_t start = end > backward.steps_per_pass() ? end - backward.steps_per_pass() : 0;
        BackwardCall call{backward, pieces, start, end};
        run_on_threads(threads, run_backward_pieces, &call);
        if (call.piece_queue.failed()) return ELMORE_OUT_OF_MEMORY;
        run_on_threads(threads, add_to_all_weights, &call);
        end = start;
    }
    return ELMORE_OK;
}
