// How threads divide the work of an LSTM layer. Included inside a namespace, after `lstm.h`.
//
// Work is divided by direction and rows; no such piece waits for another. If there are too few pieces for all threads,
// or if the weights of a direction do not fit into the cache together with others, a team of all threads runs one piece
// after the other.

struct LstmPlan : RowPieces {
    // More than this does not stay in a cache between two steps, so all threads run one direction after the other.
    static constexpr int64_t CACHE_BYTES = 24 << 20;
    static constexpr int MOST_MEMBERS = 64;

    int team;

    LstmPlan(const ElmoreLstm &layer, const ElmoreLstmRun &run, int threads)
        : RowPieces(run.rows, layer.directions, threads) {
        const int64_t matrices = layer.vector_dim * layer.cell_dim * (layer.projection.panels ? 5 : 4);
        const bool too_large = layer.directions * matrices * static_cast<int64_t>(sizeof(Element)) > CACHE_BYTES;
        team = pieces < threads || (too_large && run.rows <= FEWEST_ROWS) ? threads : 1;
        if (team > MOST_MEMBERS) team = MOST_MEMBERS;
    }
};

struct LstmStates {
    SharedState shared;
    ThreadState members[LstmPlan::MOST_MEMBERS];
};

struct LstmCall {
    const LstmRunner &runner;
    const LstmPlan &plan;
    LstmStates *team_states = nullptr;
    Barrier *barrier = nullptr;
    WorkQueue queue{};
};

inline LstmStates &lstm_states() {
    static thread_local LstmStates states;
    return states;
}

// One thread, which takes one piece after the other.
inline void run_pieces(void *context, int) {
    LstmCall &call = *static_cast<LstmCall *>(context);
    LstmStates &states = lstm_states();
    if (!call.runner.reserve(states.shared, call.plan.rows, 1) ||
        !call.runner.reserve(states.members[0], call.plan.rows, 1))
        return call.queue.fail();
    for (;;) {
        const int64_t number = call.queue.take();
        if (number >= call.plan.pieces) return;
        call.runner.run(call.plan.piece(number), states.shared, states.members[0], 0, 1, nullptr);
    }
}

// One thread of a team that runs each piece together.
inline void run_pieces_in_team(void *context, int rank) {
    LstmCall &call = *static_cast<LstmCall *>(context);
    for (int64_t number = 0; number < call.plan.pieces; ++number)
        call.runner.run(call.plan.piece(number), call.team_states->shared, call.team_states->members[rank], rank,
                        call.plan.team, call.barrier);
}

inline int run_lstm(const ElmoreLstm &layer, const ElmoreLstmRun &run, int threads) {
    if (run.rows == 0) return ELMORE_OK;
    const LstmRunner runner(layer, run);
    const LstmPlan plan(layer, run, threads);
    LstmCall call{runner, plan};
    if (plan.team > 1) {
        // All memory is allocated before the team starts: a thread that returned early would leave the others waiting.
        LstmStates &states = lstm_states();
        bool reserved = runner.reserve(states.shared, plan.rows, plan.team);
        for (int rank = 0; reserved && rank < plan.team; ++rank)
            reserved = runner.reserve(states.members[rank], plan.rows, plan.team);
        if (!reserved) return ELMORE_OUT_OF_MEMORY;
        Barrier barrier(plan.team);
        call.team_states = &states;
        call.barrier = &barrier;
        if (run_as_team(plan.team, run_pieces_in_team, &call)) return ELMORE_OK;
    }
    run_on_threads(static_cast<int>(smaller(plan.pieces, threads)), run_pieces, &call);
    return call.queue.failed() ? ELMORE_OUT_OF_MEMORY : ELMORE_OK;
}
