// How the rows of an LSTM layer are cut into pieces, and shared out among threads. Included after `lstm.h`.
//
// Work is cut by direction and rows, of which none waits for another. Where there is too little of it for all threads,
// they share each piece, a part of the cells and of the outputs each.

// Pieces of one size for all, as many as there are threads where rows suffice, and small enough to stay in the cache.
struct RowPieces {
    static constexpr int64_t FEWEST_ROWS = 8, MOST_ROWS_AT_ONCE = 64;

    int64_t all_rows;
    int64_t row_pieces;
    int64_t pieces;
    int64_t rows;  // of a piece, at most

    RowPieces(int64_t all, int64_t directions, int threads) : all_rows(all) {
        int64_t size = divided_up(all * directions, threads);
        size = size < FEWEST_ROWS ? FEWEST_ROWS : size > MOST_ROWS_AT_ONCE ? MOST_ROWS_AT_ONCE : size;
        row_pieces = divided_up(all, size);
        rows = divided_up(all, row_pieces);
        pieces = row_pieces * directions;
    }

    Piece piece(int64_t number) const {
        const int64_t part = number % row_pieces;
        const int64_t first = all_rows * part / row_pieces;
        return {number / row_pieces, first, all_rows * (part + 1) / row_pieces - first};
    }
};

struct LstmPlan : RowPieces {
    // More than this does not stay in a cache between two steps, so all threads read one direction after the other.
    static constexpr int64_t CACHE_BYTES = 24 << 20;

    int team;

    LstmPlan(const ElmoreLstm &layer, const ElmoreReading &reading, int threads)
        : RowPieces(reading.rows, layer.directions, threads) {
        const int64_t matrices = layer.vector_dim * layer.cell_dim * (layer.projection.panels ? 5 : 4);
        const bool too_large = layer.directions * matrices * static_cast<int64_t>(sizeof(Element)) > CACHE_BYTES;
        team = pieces < threads || (too_large && reading.rows <= FEWEST_ROWS) ? threads : 1;
        if (team > MOST_IN_A_TEAM) team = MOST_IN_A_TEAM;
    }

    static constexpr int MOST_IN_A_TEAM = 64;
};

struct LstmStates {
    SharedState shared;
    OwnState own[LstmPlan::MOST_IN_A_TEAM];
};

struct LstmCall {
    const LstmRun &run;
    const LstmPlan &plan;
    LstmStates *team_states;
    Barrier *barrier;
    int64_t next;
    bool out_of_memory;
};

inline LstmStates &lstm_states() {
    static thread_local LstmStates states;
    return states;
}

// One thread, which takes the next piece when it is done with one.
inline void read_pieces(void *context, int) {
    LstmCall &call = *static_cast<LstmCall *>(context);
    LstmStates &states = lstm_states();
    if (!call.run.reserve(states.shared, call.plan.rows, 1) || !call.run.reserve(states.own[0], call.plan.rows, 1)) {
        __atomic_store_n(&call.out_of_memory, true, __ATOMIC_RELAXED);
        return;
    }
    for (;;) {
        const int64_t number = __atomic_fetch_add(&call.next, 1, __ATOMIC_RELAXED);
        if (number >= call.plan.pieces) return;
        call.run.read(call.plan.piece(number), states.shared, states.own[0], 0, 1, nullptr);
    }
}

// One thread of a team that shares every piece.
inline void share_pieces(void *context, int rank) {
    LstmCall &call = *static_cast<LstmCall *>(context);
    for (int64_t number = 0; number < call.plan.pieces; ++number)
        call.run.read(call.plan.piece(number), call.team_states->shared, call.team_states->own[rank],
                      rank, call.plan.team, call.barrier);
}

inline int run_lstm(const ElmoreLstm &layer, const ElmoreReading &reading, int threads) {
    if (reading.rows == 0) return 0;
    const LstmRun run(layer, reading);
    const LstmPlan plan(layer, reading, threads);
    LstmCall call{run, plan, nullptr, nullptr, 0, false};
    if (plan.team > 1) {
        // All memory before anybody starts: one that gave up would leave the others waiting.
        LstmStates &states = lstm_states();
        bool reserved = run.reserve(states.shared, plan.rows, plan.team);
        for (int rank = 0; reserved && rank < plan.team; ++rank)
            reserved = run.reserve(states.own[rank], plan.rows, plan.team);
        if (!reserved) return 1;
        Barrier barrier(plan.team);
        call.team_states = &states;
        call.barrier = &barrier;
        if (run_as_team(plan.team, share_pieces, &call)) return 0;
    }
    const int64_t useful = plan.pieces < threads ? plan.pieces : threads;
    run_on_threads(static_cast<int>(useful), read_pieces, &call);
    return call.out_of_memory ? 1 : 0;
}
