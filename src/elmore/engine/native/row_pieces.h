// How the rows of an LSTM layer are divided into pieces of work. Included inside a namespace, after its tiles.

// Some rows of one direction. No piece waits for another.
struct Piece {
    int64_t direction;
    int64_t first_row;
    int64_t rows;
};

// Pieces of equal size: as many as there are threads if there are enough rows, and small enough to stay in the cache.
struct RowPieces {
    static constexpr int64_t FEWEST_ROWS = 8, MOST_ROWS_OF_PIECE = 64;

    int64_t all_rows;
    int64_t row_pieces;
    int64_t pieces;
    int64_t rows;  // of a piece, at most

    RowPieces(int64_t all, int64_t directions, int threads) : all_rows(all) {
        int64_t size = divided_up(all * directions, threads);
        size = size < FEWEST_ROWS ? FEWEST_ROWS : smaller(size, MOST_ROWS_OF_PIECE);
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
