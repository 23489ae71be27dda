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
    // What the backward pass needs, in training with float32; else null. Cells are filled up to whole vectors.
    float *gates;  // (directions, panels, steps, rows, 4 vectors) activated
    float *cells;  // (directions, steps + 1, rows, cells) before the first step and after each
};

// The backward pass of a layer, in float32. Matrices are packed the other way round, and so are their gradients, which are
// added to what is there. A panel of gates holds i, j, f and o of one vector of cells.
struct ElmoreLstmGradients {
    int64_t directions;
    int64_t vector_dim;
    int64_t cell_dim;
    const float *back_input;       // 4 cells (as in the panels of gates) x vector_dim
    const float *back_recurrent;   // the same
    const float *back_projection;  // vector_dim x cells; null without a projection
    float cell_clip;
    float projection_clip;
    // What was read, and what was kept of it; as in `ElmoreReading`.
    int64_t steps;
    int64_t rows;
    const int64_t *lengths;
    const float *inputs;
    const float *h;
    const float *outputs;
    const float *gates;
    const float *cells;
    const float *d_outputs;  // as the outputs; null where they have no gradient
    float *d_inputs;         // as the inputs; null where nobody wants it
    float *d_h;              // (directions, rows, vector_dim) of the last state, and then of the first
    float *d_c;              // (directions, rows, cells filled up) the same
    float *d_input;          // (directions, panels, vector_dim, 4 vectors); null, as are the rest, for frozen weights
    float *d_recurrent;      // the same
    float *d_bias;           // (directions, panels, 4 vectors)
    float *d_projection;     // (directions, cells / 4 vectors, vector_dim, 4 vectors)
};

// out (rows, columns) = left (rows, depth) @ right (depth, columns), or that added to what is there. Depth is not 0; it is
// fast where of the two strides of a matrix one is 1.
struct ElmoreProduct {
    int64_t rows;
    int64_t depth;
    int64_t columns;
    const float *left;
    int64_t left_row_stride;
    int64_t left_depth_stride;
    const float *right;
    int64_t right_depth_stride;
    int64_t right_column_stride;
    float *out;
    int64_t out_stride;
    int32_t adds;
};

// The pointwise parts of a highway in training: without `d_bias` forth, with it back. All lie without gaps.
struct ElmoreHighway {
    int64_t rows;
    int64_t columns;
    const float *x;     // (rows, columns)
    const float *bias;  // (2, columns) of transform and gate
    float *both;        // (rows, 2, columns) forth the products of transform and gate, which are activated in place
    float *out;         // (rows, columns)
    const float *d_out;
    float *d_x;     // (rows, columns) what goes past the products
    float *d_both;  // (rows, 2, columns)
    float *d_bias;  // (2, columns)
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

// The softmax over candidates beside a target of each row, forth and back at once.
struct ElmoreSoftmax {
    int64_t rows;
    int64_t vector_dim;
    int64_t candidates;
    const float *hidden;            // (rows, vector_dim)
    const float *weights;           // vector_dim x candidates, packed
    const float *back_weights;      // candidates (filled up to whole panels) x vector_dim, packed
    const float *offsets;           // of the candidates, filled up to whole panels with minus infinity
    const float *target_logits;     // (rows)
    const int64_t *target_columns;  // (rows) the candidate that is the target again, and gets nothing; or none of them
    float *highest;                 // (rows) the largest logit,
    float *sums;                    // (rows) and the sum of the exponentials of all, less that
    float *d_hidden;                // (rows, vector_dim) by the candidates
    float *d_weights;               // vector_dim x candidates, packed; added to what is there
    float *d_offsets;               // as the offsets; added
};

// Changes whenever anything in this file does, so that a library of another time is not called.
ELMORE_DOOR int elmore_abi_version(void);

// How many float32 a vector of this machine holds for a kind of number; 0 where it cannot be computed here.
ELMORE_DOOR int elmore_lanes(int number);

// (words, filters) the largest response of each filter over each word of `length` characters, biased and activated. Where
// `positions` is given, for training, not activated, and with the positions at which they were found, as numbers of the
// same kind. 0, or 2 where a character is none of the table's.
ELMORE_DOOR int elmore_pool_characters(const ElmoreFilters *filters, const int64_t *characters, int64_t words,
                                       int64_t length, float *out, float *positions, int64_t out_stride, int threads);

// Add the gradients of responses (words, filters) to those of the tables, which lie as the tables do.
ELMORE_DOOR void elmore_pool_characters_backward(const ElmoreFilters *filters, const int64_t *characters, int64_t words,
                                                 int64_t length, const float *d_pooled, const float *positions,
                                                 int64_t stride, float *d_tables, int threads);

// Rows through a dense layer or a highway, whose rows x are filled up to whole vectors. 0, or 1 where memory ran out.
ELMORE_DOOR int elmore_run_dense(int number, const ElmoreDense *layer, const float *x, int64_t x_stride, int64_t rows,
                                 float *out, int64_t out_stride, int threads);

// Read every row to its own end. 0, or 1 where memory ran out.
ELMORE_DOOR int elmore_run_lstm(int number, const ElmoreLstm *layer, const ElmoreReading *reading, int threads);

// The backward pass. 0, or 1 where memory ran out.
ELMORE_DOOR int elmore_run_lstm_backward(const ElmoreLstmGradients *gradients, int threads);

// A product. 0, or 1 where memory ran out.
ELMORE_DOOR int elmore_multiply(const ElmoreProduct *product, int threads);

ELMORE_DOOR void elmore_run_highway(const ElmoreHighway *highway, int threads);

// 0, or 1 where memory ran out.
ELMORE_DOOR int elmore_run_softmax(const ElmoreSoftmax *softmax, int threads);
}
