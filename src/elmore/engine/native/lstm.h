// One LSTM layer. Included inside a namespace, after its vectors, tiles, factors and pieces of rows.
//
//     i, j, f, o = x @ input + h @ recurrent + bias
//     c = clip(σ(f) * c + σ(i) * tanh(j))
//     m = σ(o) * tanh(c)
//     h = clip(m @ projection)
//
// A panel of gates contains i, j, f and o of one vector of cells, so cells are updated while their gates are still in
// registers. Cells are processed in blocks: what a block contributes to the projection is added at once, while m is in
// the cache.
//
// One thread runs a piece of rows, or a team of threads that divides its cells and outputs and meets twice per step;
// `lstm_teams.h` decides.

// What the threads of a team share for a piece.
struct SharedState {
    Buffer<float> cells;     // (rows, cells)
    Buffer<float> m;         // (blocks, rows, M_STRIDE) before it is converted
    Buffer<Element> m_rows;  // the same, converted to the type of the factors
    Buffer<float> m_scales;  // (blocks, rows)
    Buffer<float> sums;      // (rows, columns) of the projection
};

// What each thread has.
struct ThreadState {
    Buffer<Element> x_rows;
    Buffer<float> x_scales;
    Buffer<float> products;  // of the inputs: (panels, rows of some steps, 4 vectors)
    Buffer<Element> h_rows;
    Buffer<float> h_scales;
    Buffer<float> clipped;  // one row
};

// The thread of a team that runs a piece, and its blocks of cells.
struct Member {
    int rank;
    int team;
    Barrier *barrier;  // null for a team of one
    int64_t first_block, end_block;

    void wait() const {
        if (barrier) barrier->wait();
    }
};

class LstmRunner {
   public:
    LstmRunner(const ElmoreLstm &layer, const ElmoreLstmRun &run)
        : layer_(layer),
          run_(run),
          vector_dim_(layer.vector_dim),
          cells_(rounded_up(layer.cell_dim, LANES)),
          columns_(rounded_up(layer.vector_dim, WIDTH)),
          groups_(divided_up(layer.vector_dim, GROUP)),
          stride_(rounded_up(layer.vector_dim, PADDING) + PADDING),
          blocks_(divided_up(cells_, ELMORE_CELLS_PER_BLOCK)) {}

    // Allocate memory for pieces of so many rows. False if it ran out.
    bool reserve(SharedState &shared, int64_t rows, int team) const {
        const int64_t slots = (team == 1 ? 1 : blocks_) * rows;
        return shared.cells.reserve(rows * cells_) && shared.m.reserve(slots * M_STRIDE) &&
               shared.m_rows.reserve(slots * M_STRIDE) && shared.m_scales.reserve(slots) &&
               shared.sums.reserve(rows * columns_);
    }

    bool reserve(ThreadState &state, int64_t rows, int team) const {
        const int64_t inputs = rows > HOISTED_ROWS ? rows : HOISTED_ROWS;
        const int64_t panels = divided_up(blocks_, team) * (ELMORE_CELLS_PER_BLOCK / LANES);
        return state.x_rows.reserve(inputs * stride_) && state.x_scales.reserve(inputs) &&
               state.products.reserve((rows > panels * HOISTED_ROWS ? rows : panels * HOISTED_ROWS) * WIDTH) &&
               state.h_rows.reserve(rows * stride_) && state.h_scales.reserve(rows) && state.clipped.reserve(columns_);
    }

    // Run a piece, as the thread `rank` of a team.
    void run(const Piece &piece, SharedState &shared, ThreadState &state, int rank, int team, Barrier *barrier) const {
        const Member member{rank, team, barrier, blocks_ * rank / team, blocks_ * (rank + 1) / team};
        if (rank == 0) start_cells(piece, shared.cells.data());
        start_vectors(piece, state);
        member.wait();
        Chunk chunk{0, 0, 0, false};
        for (int64_t number = 0; number < run_.steps; ++number) {
            const int64_t rows = active_rows(piece, number);
            if (rank == 0) clear_ended_rows(piece, number, rows);
            if (rows == 0) continue;
            if (number == chunk.end) {
                chunk = next_chunk(piece, number);
                convert_inputs(piece, chunk, state);
                if (chunk.hoisted) multiply_inputs(piece, chunk, state, member);
            }
            if (run_.starts) start_sentences(piece, number, rows, shared, state, member);
            run_step(piece, {number, rows, chunk, rows_between(piece, chunk.start, number)}, shared, state, member);
        }
        member.wait();
        if (rank == 0) store_last_state(piece, shared);
    }

   private:
    // Steps whose input products are computed together. If a step has few rows, it pays to compute them for many steps
    // at once; if it has many, a panel's products are computed when they are needed, and stay in the cache until then.
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
    static constexpr int64_t HOISTED_ROWS = 96;  // of a chunk
    static constexpr int64_t MANY_ROWS = 24;
    // Rows that start at multiples of 4 KiB would evict each other from the cache.
    static constexpr int64_t PADDING = 64 / sizeof(Element);
    static constexpr int64_t M_STRIDE = ELMORE_CELLS_PER_BLOCK + PADDING;

    using Rows = RowsOf<Element>;
    using Panel = PanelOf<Element>;

    void run_step(const Piece &piece, const Step &step, SharedState &shared, ThreadState &state,
                  const Member &member) const {
        const int64_t panels = columns_ / WIDTH;
        if (member.team == 1) {
            for (int64_t block = 0; block < blocks_; ++block) {
                update_cells(piece, block, 0, member, step, shared, state);
                project(piece, block, 0, step.rows, 0, panels, shared);
            }
        } else {
            for (int64_t block = member.first_block; block < member.end_block; ++block)
                update_cells(piece, block, block, member, step, shared, state);
            member.wait();
            for (int64_t block = 0; block < blocks_; ++block)
                project(piece, block, block, step.rows, panels * member.rank / member.team,
                        panels * (member.rank + 1) / member.team, shared);
            member.wait();
        }
        store_outputs(piece, step, shared, state, member);
    }

    int64_t active_rows(const Piece &piece, int64_t step) const {
        int64_t rows = piece.rows;
        while (rows > 0 && run_.lengths[piece.first_row + rows - 1] <= step) --rows;
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
        const int64_t end = smaller(step + HOISTED_ROWS / rows, run_.steps);
        return {step, end, rows_between(piece, step, end), true};
    }

    int64_t row_index(const Piece &piece, int64_t step, int64_t row) const {
        return (piece.direction * run_.steps + step) * run_.rows + piece.first_row + row;
    }
    const float *input_row(const Piece &piece, int64_t step, int64_t row) const {
        return run_.inputs + row_index(piece, step, row) * vector_dim_;
    }
    float *output_row(const Piece &piece, int64_t step, int64_t row) const {
        return run_.outputs + row_index(piece, step, row) * vector_dim_;
    }

    // What training saves of a row: its cells before the first step and after each, and the gates of a panel.
    float *saved_cells(const Piece &piece, int64_t step, int64_t row) const {
        const int64_t index = (piece.direction * (run_.steps + 1) + step) * run_.rows + piece.first_row + row;
        return run_.cells + index * cells_;
    }
    float *saved_gates(const Piece &piece, int64_t panel, int64_t step, int64_t row) const {
        const int64_t block = (piece.direction * (cells_ / LANES) + panel) * run_.steps + step;
        return run_.gates + (block * run_.rows + piece.first_row + row) * WIDTH;
    }

    // The row of the start state from which a row starts.
    int64_t state_row(const Piece &piece, int64_t row) const {
        return piece.direction * run_.state_rows + (run_.state_rows == run_.rows ? piece.first_row + row : 0);
    }

    void start_cells(const Piece &piece, float *cells) const {
        for (int64_t row = 0; row < piece.rows; ++row) {
            float *to = cells + row * cells_;
            std::memcpy(to, run_.c + state_row(piece, row) * layer_.cell_dim, layer_.cell_dim * sizeof(float));
            for (int64_t cell = layer_.cell_dim; cell < cells_; ++cell) to[cell] = 0.0f;
            if (run_.cells) std::memcpy(saved_cells(piece, 0, row), to, cells_ * sizeof(float));
        }
    }

    // Numbers behind a row's end, up to a whole group, are multiplied by zeros and must be finite.
    float convert(const float *from, Element *to) const {
        for (int64_t index = vector_dim_; index < groups_ * GROUP; ++index) to[index] = 0;
        return convert_row(from, vector_dim_, to);
    }

    void start_vectors(const Piece &piece, ThreadState &state) const {
        for (int64_t row = 0; row < piece.rows; ++row) start_vector(piece, row, state);
    }

    void start_vector(const Piece &piece, int64_t row, ThreadState &state) const {
        state.h_scales.data()[row] =
            convert(run_.h + state_row(piece, row) * vector_dim_, state.h_rows.data() + row * stride_);
    }

    // Set the state of rows in which a sentence starts at this step. Each thread of a team has a copy of h, and sets the
    // cells that it updates.
    void start_sentences(const Piece &piece, int64_t step, int64_t rows, SharedState &shared, ThreadState &state,
                         const Member &member) const {
        const uint8_t *starts = run_.starts + row_index(piece, step, 0);
        const int64_t first = member.first_block * ELMORE_CELLS_PER_BLOCK;
        const int64_t end = smaller(member.end_block * ELMORE_CELLS_PER_BLOCK, layer_.cell_dim);
        for (int64_t row = 0; row < rows; ++row) {
            if (starts[row] == 0) continue;
            start_vector(piece, row, state);
            if (first >= end) continue;
            std::memcpy(shared.cells.data() + row * cells_ + first,
                        run_.c + state_row(piece, row) * layer_.cell_dim + first, (end - first) * sizeof(float));
        }
    }

    void convert_inputs(const Piece &piece, const Chunk &chunk, ThreadState &state) const {
        Element *to = state.x_rows.data();
        float *scale = state.x_scales.data();
        for (int64_t step = chunk.start; step < chunk.end; ++step) {
            const int64_t rows = active_rows(piece, step);
            for (int64_t row = 0; row < rows; ++row, to += stride_, ++scale)
                *scale = convert(input_row(piece, step, row), to);
        }
    }

    Panel panel_of(const ElmoreMatrix &matrix, int64_t direction, int64_t panels, int64_t panel, int64_t depth,
                   int64_t row, int64_t offset_rows, int64_t offset_row) const {
        const int64_t number = direction * panels + panel;
        return {static_cast<const Element *>(matrix.panels) + (number * depth + row) * WIDTH,
                matrix.scales ? matrix.scales + number * WIDTH : nullptr,
                matrix.offsets ? matrix.offsets + ((direction * offset_rows + offset_row) * panels + panel) * WIDTH
                               : nullptr};
    }

    Panel gate_panel(const ElmoreMatrix &matrix, const Piece &piece, int64_t panel) const {
        return panel_of(matrix, piece.direction, cells_ / LANES, panel, groups_ * GROUP, 0, 1, 0);
    }

    int64_t first_panel(int64_t block) const { return block * (ELMORE_CELLS_PER_BLOCK / LANES); }
    int64_t end_panel(int64_t block) const { return smaller(first_panel(block + 1), cells_ / LANES); }

    void multiply_inputs_by_panel(const Piece &piece, int64_t panel, const Chunk &chunk, float *to,
                                  ThreadState &state) const {
        const Rows rows{state.x_rows.data(), stride_, state.x_scales.data()};
        const Panel weights = gate_panel(layer_.input, piece, panel);
        const float *bias = layer_.bias + (piece.direction * cells_ + panel * LANES) * 4;
        for_each_tile(chunk.rows, [&](auto height, int64_t first) INLINE_LAMBDA {
            float *tile = to + first * WIDTH;
            multiply<decltype(height)::value>(
                rows.from(first), weights, groups_,
                [&](int, int v) INLINE_LAMBDA { return load(bias + v * LANES); },
                [&](int r, Vec *sums) INLINE_LAMBDA {
                    UNROLL for (int v = 0; v < 4; ++v) store(tile + (r * 4 + v) * LANES, sums[v]);
                });
        });
    }

    void multiply_inputs(const Piece &piece, const Chunk &chunk, ThreadState &state, const Member &member) const {
        if (member.first_block == member.end_block) return;
        float *products = state.products.data();
        const int64_t end = end_panel(member.end_block - 1);
        for (int64_t panel = first_panel(member.first_block); panel < end; ++panel, products += chunk.rows * WIDTH)
            multiply_inputs_by_panel(piece, panel, chunk, products, state);
    }

    // Compute c and m of a block of cells. m goes to `slot`; hoisted products start with the first block of the thread.
    void update_cells(const Piece &piece, int64_t block, int64_t slot, const Member &member, const Step &step,
                      SharedState &shared, ThreadState &state) const {
        const Chunk &chunk = step.chunk;
        const Rows h_rows{state.h_rows.data(), stride_, state.h_scales.data()};
        float *m = shared.m.data() + slot * piece.rows * M_STRIDE;
        Element *m_rows = shared.m_rows.data() + slot * piece.rows * M_STRIDE;
        if constexpr (std::is_same_v<Element, float>) m = reinterpret_cast<float *>(m_rows);
        for (int64_t panel = first_panel(block); panel < end_panel(block); ++panel) {
            const float *products = state.products.data();
            if (chunk.hoisted)
                products += ((panel - first_panel(member.first_block)) * chunk.rows + step.row_in_chunk) * WIDTH;
            else
                multiply_inputs_by_panel(piece, panel, chunk, state.products.data(), state);
            const Panel weights = gate_panel(layer_.recurrent, piece, panel);
            float *cells = shared.cells.data() + panel * LANES;
            float *m_column = m + (panel - first_panel(block)) * LANES;
            const float clip = layer_.cell_clip;
            for_each_tile(step.rows, [&](auto height, int64_t first) INLINE_LAMBDA {
                const float *start = products + first * WIDTH;
                multiply<decltype(height)::value>(
                    h_rows.from(first), weights, groups_,
                    [&](int r, int v) INLINE_LAMBDA { return load(start + (r * 4 + v) * LANES); },
                    [&](int r, Vec *gates) INLINE_LAMBDA {
                        float *cell = cells + (first + r) * cells_;
                        if (run_.gates) {
                            float *saved = saved_gates(piece, panel, step.number, first + r);
                            const Vec c = bounded(next_cell_in_training(gates, load(cell), saved), clip);
                            store(cell, c);
                            store(saved_cells(piece, step.number + 1, first + r) + panel * LANES, c);
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
            for (int64_t row = 0; row < step.rows; ++row)
                shared.m_scales.data()[slot * piece.rows + row] =
                    convert_row(m + row * M_STRIDE, count, m_rows + row * M_STRIDE);
        }
    }

    // Add what a block of cells contributes to some panels of the projection.
    void project(const Piece &piece, int64_t block, int64_t slot, int64_t rows, int64_t first_column_panel,
                 int64_t end_column_panel, SharedState &shared) const {
        float *sums = shared.sums.data();
        const int64_t first_cell = first_panel(block) * LANES, count = end_panel(block) * LANES - first_cell;
        if (layer_.projection.panels == nullptr) {
            const float *m = std::is_same_v<Element, float> ? reinterpret_cast<float *>(shared.m_rows.data())
                                                            : shared.m.data();
            m += slot * piece.rows * M_STRIDE;
            const int64_t first = first_column_panel * WIDTH, end = end_column_panel * WIDTH;
            for (int64_t row = 0; row < rows; ++row)
                for (int64_t cell = first_cell; cell < first_cell + count; ++cell)
                    if (cell >= first && cell < end) sums[row * columns_ + cell] = m[row * M_STRIDE + cell - first_cell];
            return;
        }
        const Rows m_rows{shared.m_rows.data() + slot * piece.rows * M_STRIDE, M_STRIDE,
                          shared.m_scales.data() + slot * piece.rows};
        for (int64_t panel = first_column_panel; panel < end_column_panel; ++panel) {
            const Panel weights = panel_of(layer_.projection, piece.direction, columns_ / WIDTH, panel, cells_,
                                           first_cell, blocks_, block);
            for_each_tile(rows, [&](auto height, int64_t first) INLINE_LAMBDA {
                float *tile = sums + first * columns_ + panel * WIDTH;
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

    // Clip h and store it: to the outputs, each row by one thread, and into the next step, by each thread.
    void store_outputs(const Piece &piece, const Step &step, SharedState &shared, ThreadState &state,
                       const Member &member) const {
        float *clipped = state.clipped.data();
        const float clip = layer_.projection.panels ? layer_.projection_clip : INFINITE;
        for (int64_t row = 0; row < step.rows; ++row) {
            const float *sums = shared.sums.data() + row * columns_;
            for (int64_t column = 0; column < columns_; column += LANES)
                store(clipped + column, bounded(load(sums + column), clip));
            state.h_scales.data()[row] = convert(clipped, state.h_rows.data() + row * stride_);
            if (row % member.team == member.rank)
                std::memcpy(output_row(piece, step.number, row), clipped, vector_dim_ * sizeof(float));
        }
    }

    void clear_ended_rows(const Piece &piece, int64_t step, int64_t rows) const {
        if (rows < piece.rows)
            std::memset(output_row(piece, step, rows), 0, (piece.rows - rows) * vector_dim_ * sizeof(float));
    }

    void store_last_state(const Piece &piece, SharedState &shared) const {
        for (int64_t row = 0; row < piece.rows; ++row) {
            const int64_t index = piece.direction * run_.rows + piece.first_row + row;
            const int64_t length = run_.lengths[piece.first_row + row];
            const float *h = length > 0 ? output_row(piece, length - 1, row)
                                        : run_.h + state_row(piece, row) * vector_dim_;
            if (run_.last_h) std::memcpy(run_.last_h + index * vector_dim_, h, vector_dim_ * sizeof(float));
            if (run_.last_c)
                std::memcpy(run_.last_c + index * layer_.cell_dim, shared.cells.data() + row * cells_,
                            layer_.cell_dim * sizeof(float));
        }
    }

    const ElmoreLstm &layer_;
    const ElmoreLstmRun &run_;
    const int64_t vector_dim_, cells_, columns_, groups_, stride_, blocks_;
};
