// The recurrence of one LSTM layer. Included inside a namespace, after its vectors, numbers and tiles.
//
//     i, j, f, o = x @ input + h @ recurrent + bias
//     c = clip(σ(f) * c + σ(i) * tanh(j))
//     m = σ(o) * tanh(c)
//     h = clip(m @ projection)
//
// A panel of gates holds i, j, f and o of one vector of cells, so cells are updated while their gates are still in
// registers. Cells are taken in blocks: what a block gives to the projection is added up at once, while m is at hand.
//
// Some rows of one direction are read at once, by one thread, or by a team that shares their cells and outputs and waits
// for each other twice a step; `lstm_pieces.h` decides.

// One piece of work: some rows of one direction, read by a team of threads.
struct Piece {
    int64_t direction;
    int64_t first_row;
    int64_t rows;
};

// What a team shares of a piece.
struct SharedState {
    Buffer<float> cells;     // (rows, cells)
    Buffer<float> m;         // (blocks, rows, M_STRIDE) before it is converted
    Buffer<Element> m_rows;  // the same in the form in which it is multiplied
    Buffer<float> m_scales;  // (blocks, rows)
    Buffer<float> sums;      // (rows, columns) of the projection
};

// What each thread has for itself.
struct OwnState {
    Buffer<Element> x_rows;
    Buffer<float> x_scales;
    Buffer<float> products;  // of the inputs: (panels, rows of some steps, 4 vectors)
    Buffer<Element> h_rows;
    Buffer<float> h_scales;
    Buffer<float> clipped;  // one row
};

class LstmRun {
   public:
    LstmRun(const ElmoreLstm &layer, const ElmoreReading &reading)
        : layer_(layer),
          reading_(reading),
          vector_dim_(layer.vector_dim),
          cells_(rounded_up(layer.cell_dim, LANES)),
          columns_(rounded_up(layer.vector_dim, 4 * LANES)),
          groups_(divided_up(layer.vector_dim, GROUP)),
          stride_(rounded_up(layer.vector_dim, PADDING) + PADDING),
          blocks_(divided_up(cells_, ELMORE_CELLS_AT_ONCE)) {}

    // Have memory for pieces of so many rows. False where it ran out.
    bool reserve(SharedState &shared, int64_t rows, int team) const {
        const int64_t slots = (team == 1 ? 1 : blocks_) * rows;
        return shared.cells.reserve(rows * cells_) && shared.m.reserve(slots * M_STRIDE) &&
               shared.m_rows.reserve(slots * M_STRIDE) && shared.m_scales.reserve(slots) &&
               shared.sums.reserve(rows * columns_);
    }

    bool reserve(OwnState &own, int64_t rows, int team) const {
        const int64_t inputs = rows > ROWS_HOISTED ? rows : ROWS_HOISTED;
        const int64_t panels = divided_up(blocks_, team) * (ELMORE_CELLS_AT_ONCE / LANES);
        return own.x_rows.reserve(inputs * stride_) && own.x_scales.reserve(inputs) &&
               own.products.reserve((rows > panels * ROWS_HOISTED ? rows : panels * ROWS_HOISTED) * 4 * LANES) &&
               own.h_rows.reserve(rows * stride_) && own.h_scales.reserve(rows) && own.clipped.reserve(columns_);
    }

    // Read a piece, as the thread `rank` of a team, which has a barrier if there are several.
    void read(const Piece &piece, SharedState &shared, OwnState &own, int rank, int team, Barrier *barrier) const {
        if (rank == 0) start_cells(piece, shared.cells.data());
        convert_start(piece, own);
        if (barrier) barrier->wait();
        const int64_t first_block = blocks_ * rank / team, end_block = blocks_ * (rank + 1) / team;
        Chunk chunk{0, 0, 0, false};
        for (int64_t step = 0; step < reading_.steps; ++step) {
            const int64_t rows = active_rows(piece, step);
            if (rank == 0) clear_beyond_end(piece, step, rows);
            if (rows == 0) continue;
            if (step == chunk.end) {
                chunk = next_chunk(piece, step);
                convert_inputs(piece, chunk, own);
                if (chunk.hoisted) multiply_inputs(piece, chunk, own, first_block, end_block);
            }
            const Step now{step, rows, chunk, rows_between(piece, chunk.start, step)};
            if (team == 1) {
                for (int64_t block = 0; block < blocks_; ++block) {
                    update_cells(piece, block, 0, first_block, now, shared, own);
                    project(piece, block, 0, rows, 0, columns_ / (4 * LANES), shared);
                }
            } else {
                for (int64_t block = first_block; block < end_block; ++block)
                    update_cells(piece, block, block, first_block, now, shared, own);
                barrier->wait();
                const int64_t panels = columns_ / (4 * LANES);
                for (int64_t block = 0; block < blocks_; ++block)
                    project(piece, block, block, rows, panels * rank / team, panels * (rank + 1) / team, shared);
                barrier->wait();
            }
            give_out(piece, step, rows, shared, own, rank, team);
        }
        if (barrier) barrier->wait();
        if (rank == 0) give_state(piece, shared);
    }

   private:
    // Steps whose input products are made together. With few rows at a step it pays to make them for many steps at
    // once; with many rows, a panel's products are made when they are needed, and stay in the cache until then.
    struct Chunk {
        int64_t start, end;
        int64_t rows;  // of all its steps
        bool hoisted;
    };
    struct Step {
        int64_t number;
        int64_t rows;  // that have not ended
        const Chunk &chunk;
        int64_t row_in_chunk;
    };
    static constexpr int64_t ROWS_HOISTED = 96;  // at once
    static constexpr int64_t MANY_ROWS = 24;
    // Rows that begin at a multiple of 4 KiB would drive each other out of the cache.
    static constexpr int64_t PADDING = 64 / sizeof(Element);
    static constexpr int64_t M_STRIDE = ELMORE_CELLS_AT_ONCE + PADDING;

    using Rows = RowsOf<Element>;
    using Panel = PanelOf<Element>;

    int64_t active_rows(const Piece &piece, int64_t step) const {
        int64_t rows = piece.rows;
        while (rows > 0 && reading_.lengths[piece.first_row + rows - 1] <= step) --rows;
        return rows;
    }

    int64_t rows_between(const Piece &piece, int64_t start, int64_t end) const {
        int64_t rows = 0;
        for (int64_t step = start; step < end; ++step) rows += active_rows(piece, step);
        return rows;
    }

    Chunk next_chunk(const Piece &piece, int64_t step) const {
        const int64_t rows = active_rows(piece, step);
        if (rows >= MANY_ROWS) return {step, step + 1, rows, false};
        int64_t end = step + ROWS_HOISTED / rows;
        if (end > reading_.steps) end = reading_.steps;
        return {step, end, rows_between(piece, step, end), true};
    }

    const float *input_row(const Piece &piece, int64_t step, int64_t row) const {
        const int64_t place = (piece.direction * reading_.steps + step) * reading_.rows + piece.first_row + row;
        return reading_.inputs + place * vector_dim_;
    }

    float *output_row(const Piece &piece, int64_t step, int64_t row) const {
        const int64_t place = (piece.direction * reading_.steps + step) * reading_.rows + piece.first_row + row;
        return reading_.outputs + place * vector_dim_;
    }

    // What training keeps of a row: its cells before the first step and after each, and the gates of a panel.
    float *kept_cells(const Piece &piece, int64_t step, int64_t row) const {
        const int64_t place = (piece.direction * (reading_.steps + 1) + step) * reading_.rows + piece.first_row + row;
        return reading_.cells + place * cells_;
    }

    float *kept_gates(const Piece &piece, int64_t panel, int64_t step, int64_t row) const {
        const int64_t block = (piece.direction * (cells_ / LANES) + panel) * reading_.steps + step;
        return reading_.gates + (block * reading_.rows + piece.first_row + row) * 4 * LANES;
    }

    void start_cells(const Piece &piece, float *cells) const {
        for (int64_t row = 0; row < piece.rows; ++row) {
            const int64_t place = piece.direction * reading_.rows + piece.first_row + row;
            float *to = cells + row * cells_;
            __builtin_memcpy(to, reading_.c + place * layer_.cell_dim, layer_.cell_dim * sizeof(float));
            for (int64_t cell = layer_.cell_dim; cell < cells_; ++cell) to[cell] = 0.0f;
            if (reading_.cells) __builtin_memcpy(kept_cells(piece, 0, row), to, cells_ * sizeof(float));
        }
    }

    // Numbers behind a row's end, up to a whole group, are multiplied by zeros, and must be finite.
    float convert(const float *from, Element *to) const {
        for (int64_t place = vector_dim_; place < groups_ * GROUP; ++place) to[place] = 0;
        return convert_row(from, vector_dim_, to);
    }

    void convert_start(const Piece &piece, OwnState &own) const {
        for (int64_t row = 0; row < piece.rows; ++row) {
            const int64_t place = piece.direction * reading_.rows + piece.first_row + row;
            own.h_scales.data()[row] =
                convert(reading_.h + place * vector_dim_, own.h_rows.data() + row * stride_);
        }
    }

    void convert_inputs(const Piece &piece, const Chunk &chunk, OwnState &own) const {
        Element *to = own.x_rows.data();
        float *scale = own.x_scales.data();
        for (int64_t step = chunk.start; step < chunk.end; ++step) {
            const int64_t rows = active_rows(piece, step);
            for (int64_t row = 0; row < rows; ++row, to += stride_, ++scale)
                *scale = convert(input_row(piece, step, row), to);
        }
    }

    Panel panel_of(const ElmoreMatrix &matrix, int64_t direction, int64_t panels, int64_t panel, int64_t depth,
                   int64_t row, int64_t offset_rows, int64_t offset_row) const {
        const int64_t width = 4 * LANES, number = direction * panels + panel;
        return {static_cast<const Element *>(matrix.panels) + (number * depth + row) * width,
                matrix.scales ? matrix.scales + number * width : nullptr,
                matrix.offsets ? matrix.offsets + ((direction * offset_rows + offset_row) * panels + panel) * width
                               : nullptr};
    }

    Panel gate_panel(const ElmoreMatrix &matrix, const Piece &piece, int64_t panel) const {
        return panel_of(matrix, piece.direction, cells_ / LANES, panel, groups_ * GROUP, 0, 1, 0);
    }

    int64_t first_panel(int64_t block) const { return block * (ELMORE_CELLS_AT_ONCE / LANES); }
    int64_t end_panel(int64_t block) const {
        const int64_t end = first_panel(block + 1), all = cells_ / LANES;
        return end < all ? end : all;
    }

    void multiply_inputs_by_panel(const Piece &piece, int64_t panel, const Chunk &chunk, float *to, OwnState &own) const {
        const Rows rows{own.x_rows.data(), stride_, own.x_scales.data()};
        const Panel weights = gate_panel(layer_.input, piece, panel);
        const float *bias = layer_.bias + (piece.direction * cells_ + panel * LANES) * 4;
        for_each_tile(chunk.rows, [&](auto height, int64_t first) INLINE_LAMBDA {
            float *tile = to + first * 4 * LANES;
            multiply<decltype(height)::value>(
                rows.from(first), weights, groups_,
                [&](int, int v) INLINE_LAMBDA { return load(bias + v * LANES); },
                [&](int r, Vec *sums) INLINE_LAMBDA {
                    UNROLL for (int v = 0; v < 4; ++v) store(tile + (r * 4 + v) * LANES, sums[v]);
                });
        });
    }

    void multiply_inputs(const Piece &piece, const Chunk &chunk, OwnState &own, int64_t first_block,
                         int64_t end_block) const {
        const int64_t first = first_panel(first_block), end = first_block < end_block ? end_panel(end_block - 1) : first;
        float *products = own.products.data();
        for (int64_t panel = first; panel < end; ++panel, products += chunk.rows * 4 * LANES)
            multiply_inputs_by_panel(piece, panel, chunk, products, own);
    }

    // c and m of a block of cells. `slot` is where m goes; products of hoisted inputs begin with `own_block`.
    void update_cells(const Piece &piece, int64_t block, int64_t slot, int64_t own_block, const Step &now,
                      SharedState &shared, OwnState &own) const {
        const Chunk &chunk = now.chunk;
        const Rows h_rows{own.h_rows.data(), stride_, own.h_scales.data()};
        float *m = shared.m.data() + slot * piece.rows * M_STRIDE;
        Element *m_rows = shared.m_rows.data() + slot * piece.rows * M_STRIDE;
        if constexpr (std::is_same_v<Element, float>) m = reinterpret_cast<float *>(m_rows);
        for (int64_t panel = first_panel(block); panel < end_panel(block); ++panel) {
            const float *products = own.products.data();
            if (chunk.hoisted)
                products += ((panel - first_panel(own_block)) * chunk.rows + now.row_in_chunk) * 4 * LANES;
            else
                multiply_inputs_by_panel(piece, panel, chunk, own.products.data(), own);
            const Panel weights = gate_panel(layer_.recurrent, piece, panel);
            float *cells = shared.cells.data() + panel * LANES;
            float *m_column = m + (panel - first_panel(block)) * LANES;
            const float clip = layer_.cell_clip;
            for_each_tile(now.rows, [&](auto height, int64_t first) INLINE_LAMBDA {
                const float *start = products + first * 4 * LANES;
                multiply<decltype(height)::value>(
                    h_rows.from(first), weights, groups_,
                    [&](int r, int v) INLINE_LAMBDA { return load(start + (r * 4 + v) * LANES); },
                    [&](int r, Vec *gates) INLINE_LAMBDA {
                        float *cell = cells + (first + r) * cells_;
                        if (reading_.gates) {
                            float *kept = kept_gates(piece, panel, now.number, first + r);
                            const Vec c = bounded(next_cell_kept(gates, load(cell), kept), clip);
                            store(cell, c);
                            store(kept_cells(piece, now.number + 1, first + r) + panel * LANES, c);
                            store(m_column + (first + r) * M_STRIDE, mul(gates[3], tanh_of(c)));
                            return;
                        }
                        const Vec c = bounded(next_cell(gates[0], gates[1], gates[2], load(cell)), clip);
                        store(cell, c);
                        store(m_column + (first + r) * M_STRIDE, sigmoid_times_tanh(gates[3], c));
                    });
            });
        }
        if constexpr (!std::is_same_v<Element, float>) {
            const int64_t count = (end_panel(block) - first_panel(block)) * LANES;
            for (int64_t row = 0; row < now.rows; ++row)
                shared.m_scales.data()[slot * piece.rows + row] =
                    convert_row(m + row * M_STRIDE, count, m_rows + row * M_STRIDE);
        }
    }

    // Add what a block of cells gives to some panels of the projection.
    void project(const Piece &piece, int64_t block, int64_t slot, int64_t rows, int64_t first_column_panel,
                 int64_t end_column_panel, SharedState &shared) const {
        float *sums = shared.sums.data();
        const int64_t first_cell = first_panel(block) * LANES, count = end_panel(block) * LANES - first_cell;
        if (layer_.projection.panels == nullptr) {
            const float *m = std::is_same_v<Element, float> ? reinterpret_cast<float *>(shared.m_rows.data())
                                                            : shared.m.data();
            m += slot * piece.rows * M_STRIDE;
            const int64_t first = first_column_panel * 4 * LANES, end = end_column_panel * 4 * LANES;
            for (int64_t row = 0; row < rows; ++row)
                for (int64_t cell = first_cell; cell < first_cell + count; ++cell)
                    if (cell >= first && cell < end) sums[row * columns_ + cell] = m[row * M_STRIDE + cell - first_cell];
            return;
        }
        const Rows m_rows{shared.m_rows.data() + slot * piece.rows * M_STRIDE, M_STRIDE,
                          shared.m_scales.data() + slot * piece.rows};
        for (int64_t panel = first_column_panel; panel < end_column_panel; ++panel) {
            const Panel weights = panel_of(layer_.projection, piece.direction, columns_ / (4 * LANES), panel, cells_,
                                           first_cell, blocks_, block);
            for_each_tile(rows, [&](auto height, int64_t first) INLINE_LAMBDA {
                float *tile = sums + first * columns_ + panel * 4 * LANES;
                multiply<decltype(height)::value>(
                    m_rows.from(first), weights, count / GROUP,
                    [&](int r, int v) INLINE_LAMBDA {
                        return block == 0 ? splat(0.0f) : load(tile + r * columns_ + v * LANES);
                    },
                    [&](int r, Vec *totals) INLINE_LAMBDA {
                        UNROLL for (int v = 0; v < 4; ++v) store(tile + r * columns_ + v * LANES, totals[v]);
                    });
            });
        }
    }

    // h out of its sums: to the outputs, by one thread each row, and into the next step, by every thread for itself.
    void give_out(const Piece &piece, int64_t step, int64_t rows, SharedState &shared, OwnState &own, int rank,
                  int team) const {
        float *clipped = own.clipped.data();
        const float clip = layer_.projection.panels ? layer_.projection_clip : __builtin_inff();
        for (int64_t row = 0; row < rows; ++row) {
            const float *sums = shared.sums.data() + row * columns_;
            for (int64_t column = 0; column < columns_; column += LANES)
                store(clipped + column, bounded(load(sums + column), clip));
            own.h_scales.data()[row] = convert(clipped, own.h_rows.data() + row * stride_);
            if (row % team == rank)
                __builtin_memcpy(output_row(piece, step, row), clipped, vector_dim_ * sizeof(float));
        }
    }

    void clear_beyond_end(const Piece &piece, int64_t step, int64_t rows) const {
        if (rows < piece.rows)
            __builtin_memset(output_row(piece, step, rows), 0, (piece.rows - rows) * vector_dim_ * sizeof(float));
    }

    void give_state(const Piece &piece, SharedState &shared) const {
        for (int64_t row = 0; row < piece.rows; ++row) {
            const int64_t place = piece.direction * reading_.rows + piece.first_row + row;
            const int64_t length = reading_.lengths[piece.first_row + row];
            const float *h =
                length > 0 ? output_row(piece, length - 1, row) : reading_.h + place * vector_dim_;
            __builtin_memcpy(reading_.last_h + place * vector_dim_, h, vector_dim_ * sizeof(float));
            __builtin_memcpy(reading_.last_c + place * layer_.cell_dim, shared.cells.data() + row * cells_,
                             layer_.cell_dim * sizeof(float));
        }
    }

    const ElmoreLstm &layer_;
    const ElmoreReading &reading_;
    const int64_t vector_dim_, cells_, columns_, groups_, stride_, blocks_;
};
