// The doors of the native CPU kernels: plain C, buffers in, buffers out, no headers of Python or torch.
//
// Whatever the call, an output is summed in an order that depends on nothing but its own row: neither on the rows beside
// it, nor on how many threads there are. That is what makes a sentence have the same bits in every batch.
#pragma once

#include <cstdint>

#define ELMORE_DOOR __attribute__((visibility("default")))

extern "C" {

// In which form numbers are multiplied; sums, cells and outputs are float32 always.
enum ElmoreNumber { ELMORE_FLOAT32 = 0, ELMORE_BFLOAT16 = 1, ELMORE_INT8 = 2 };

// Cells of an LSTM are taken in blocks of so many; int8 rounds, and has offsets, for each block by itself.
enum { ELMORE_CELLS_AT_ONCE = 256 };

// A matrix of `depth` rows and `columns` columns, cut into panels of 4 vectors of columns, one panel after the other.
// In a panel stands for each group of 1, 2 or 4 rows (float32, bfloat16, int8) every column's group, so that one vector
// load brings what one instruction multiplies. Columns are filled up with zeros to whole panels, rows to whole groups.
struct ElmoreMatrix {
    const void *panels;
    const float *scales;     // int8 only: what one step of each column is worth
    const int32_t *offsets;  // int8 only: -128 times the sum of each column, since inputs are stored as value + 128;
                             // of the projection (blocks, columns)
};

// One LSTM layer; each pointer leads to the first direction's numbers, and the others follow.
// Gates are laid out cell by cell: a panel holds i, j, f and o of one vector of cells.
struct ElmoreLstm {
    int64_t directions;
    int64_t vector_dim;
    int64_t cell_dim;
    ElmoreMatrix input;       // vector_dim x 4 cell_dim, cells filled up to whole vectors
    ElmoreMatrix recurrent;   // the same
    ElmoreMatrix projection;  // cell_dim (filled up) x vector_dim; null panels without a projection
    const float *bias;        // as the columns of `recurrent`
    float cell_clip;          // infinite without a clip
    float projection_clip;
};

// What a layer reads and fills; lengths never rise.
struct ElmoreReading {
    int64_t steps;
    int64_t rows;
    const int64_t *lengths;  // (rows)
    const float *inputs;     // (directions, steps, rows, vector_dim)
    const float *h;          // (directions, rows, vector_dim) the state to start from
    const float *c;          // (directions, rows, cell_dim)
    float *outputs;          // (directions, steps, rows, vector_dim), zero beyond a row's end
    float *last_h;           // (directions, rows, vector_dim)
    float *last_c;           // (directions, rows, cell_dim)
};

// A dense layer, or a highway: there a panel's columns are two vectors of the transform and the same two of the gate.
struct ElmoreDense {
    int64_t depth;
    int64_t columns;  // of the output; a highway's matrix has twice as many
    ElmoreMatrix matrix;
    const float *bias;  // as the columns of the matrix, filled up
    int32_t highway;
};

// The filters of a character CNN, in groups of one width. In tables, for each chunk of up to 4 vectors of a group's
// filters, for each place of a character under them: (characters, 4 vectors) what they make of each character there.
struct ElmoreFilters {
    int64_t characters;  // there are
    int64_t groups;
    const int64_t *widths;
    const int64_t *counts;
    const float *tables;
    const float *bias;  // (chunks of all groups, 4 vectors)
    int32_t tanh;       // the activation: tanh, or relu
};

// Changes whenever anything in this file does, so that a library of another time is not called.
ELMORE_DOOR int elmore_abi_version(void);

// How many float32 a vector of this machine holds for a kind of number; 0 where it cannot be computed here.
ELMORE_DOOR int elmore_lanes(int number);

// (words, filters) the largest response of each filter over each word of `length` characters, biased and activated.
// 0, or 2 where a character is none of the table's.
ELMORE_DOOR int elmore_pool_characters(const ElmoreFilters *filters, const int64_t *characters, int64_t words,
                                       int64_t length, float *out, int64_t out_stride, int threads);

// Rows through a dense layer or a highway, whose rows x are filled up to whole vectors. 0, or 1 where memory ran out.
ELMORE_DOOR int elmore_run_dense(int number, const ElmoreDense *layer, const float *x, int64_t x_stride, int64_t rows,
                                 float *out, int64_t out_stride, int threads);

// Read every row to its own end. 0, or 1 where memory ran out.
ELMORE_DOOR int elmore_run_lstm(int number, const ElmoreLstm *layer, const ElmoreReading *reading, int threads);
}
