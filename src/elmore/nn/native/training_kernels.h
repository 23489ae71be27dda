// The training functions of the native CPU kernels, for float32; `kernels.h` in `engine/native/` has the inference
// functions that they share a library with. Matrices are packed as described there, in panels of 4 vectors of columns.
//
// A gradient of weights is a sum over rows and steps in one order: it has the same bits with any number of threads.
#pragma once

#include "kernels.h"

extern "C" {

// The backward pass of a layer. Matrices are packed transposed, and so are their gradients, which are added to the
// buffers. A panel of gates contains i, j, f and o of one vector of cells.
struct ElmoreLstmGradients {
    int64_t directions;
    int64_t vector_dim;
    int64_t cell_dim;
    const float *back_input;       // 4 cells (as in the panels of gates) x vector_dim
    const float *back_recurrent;   // the same
    const float *back_projection;  // vector_dim x cells; null without a projection
    float cell_clip;
    float projection_clip;
    // Inputs, outputs and saved values of the forward run, as in `ElmoreLstmRun`.
    int64_t steps;
    int64_t rows;
    const int64_t *lengths;
    const float *inputs;
    const float *h;
    const float *outputs;
    const float *gates;
    const float *cells;
    const float *d_outputs;  // as the outputs; null if they have no gradient
    float *d_inputs;         // as the inputs; null if not wanted
    float *d_h;              // (directions, rows, vector_dim) of the last state, replaced by that of the first
    float *d_c;              // (directions, rows, cells padded) the same
    float *d_input;          // (directions, panels, vector_dim, 4 vectors); null, as are the rest, for frozen weights
    float *d_recurrent;      // the same
    float *d_bias;           // (directions, panels, 4 vectors)
    float *d_projection;     // (directions, cells / 4 vectors, vector_dim, 4 vectors)
};

// out (rows, columns) = left (rows, depth) @ right (depth, columns), or that added to out. Depth is not 0. It is fast if
// one of the two strides of each matrix is 1.
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

// The pointwise parts of a highway: forward without `d_bias`, backward with it. All arrays are contiguous.
struct ElmoreHighway {
    int64_t rows;
    int64_t columns;
    const float *x;     // (rows, columns)
    const float *bias;  // (2, columns) of transform and gate
    float *both;        // (rows, 2, columns) forward the products of transform and gate, which are activated in place
    float *out;         // (rows, columns)
    const float *d_out;
    float *d_x;     // (rows, columns) the part that does not go through the products
    float *d_both;  // (rows, 2, columns)
    float *d_bias;  // (2, columns)
};

// The softmax over candidates and the target of each row, forward and backward at once.
struct ElmoreSoftmax {
    int64_t rows;
    int64_t vector_dim;
    int64_t candidates;
    const float *hidden;            // (rows, vector_dim)
    const float *weights;           // vector_dim x candidates, packed
    const float *back_weights;      // candidates (padded to whole panels) x vector_dim, packed
    const float *offsets;           // of the candidates, padded to whole panels with minus infinity
    const float *target_logits;     // (rows)
    const int64_t *target_columns;  // (rows) the candidate that equals the target and is left out; outside if there is none
    float *highest;                 // (rows) the largest logit,
    float *sums;                    // (rows) and the sum of all exponentials of logit - largest
    float *d_hidden;                // (rows, vector_dim) from the candidates
    float *d_weights;               // vector_dim x candidates, packed; added
    float *d_offsets;               // as the offsets; added
};

// As `elmore_struct_size`, for the structs above.
ELMORE_API size_t elmore_training_struct_size(const char *name);

// The functions below return an `ElmoreStatus`.

// Add the gradients of responses (words, filters) to the gradients of the tables, which are laid out as the tables.
ELMORE_API int elmore_pool_characters_backward(const ElmoreFilters *filters, const int64_t *characters, int64_t words,
                                               int64_t length, const float *d_pooled, const float *positions,
                                               int64_t stride, float *d_tables, int threads);

ELMORE_API int elmore_run_lstm_backward(const ElmoreLstmGradients *gradients, int threads);

ELMORE_API int elmore_multiply(const ElmoreProduct *product, int threads);

ELMORE_API int elmore_run_highway(const ElmoreHighway *highway, int threads);

ELMORE_API int elmore_run_softmax(const ElmoreSoftmax *softmax, int threads);
}
