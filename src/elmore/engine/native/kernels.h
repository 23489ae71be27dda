// The inference functions of the native CPU kernels: plain C, buffers in and out, without headers of Python or torch.
//
// Each output is summed in an order that depends on its row only: neither on other rows nor on the number of threads. So
// a sentence has the same bits in every batch. Functions may be called from any number of threads at the same time.
#pragma once

#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#define ELMORE_API __declspec(dllexport)
#else
#define ELMORE_API __attribute__((visibility("default")))
#endif

extern "C" {

// The number type of factors. Sums, cells and outputs are always float32.
enum ElmorePrecision { ELMORE_FLOAT32 = 0, ELMORE_BFLOAT16 = 1, ELMORE_INT8 = 2 };

enum ElmoreStatus {
    ELMORE_OK = 0,
    ELMORE_OUT_OF_MEMORY = 1,
    ELMORE_WRONG_INPUT = 2,   // an index or a length is out of range; nothing was computed
    ELMORE_NO_KERNEL = 3,     // the precision is not available here, see `elmore_lanes`
};

// Cells of an LSTM are processed in blocks of this size; int8 rounds m, and has offsets, for each block.
enum { ELMORE_CELLS_PER_BLOCK = 256 };

// A matrix of `depth` rows and `columns` columns, divided into panels of 4 vectors of columns, one panel after the other.
// For each group of 1, 2 or 4 rows (float32, bfloat16, int8) a panel contains the group of each column, so that one load
// brings the factors of one instruction. Columns are padded with zeros to whole panels, rows to whole groups. Numbers of
// int8 are from -127 to 127.
struct ElmoreMatrix {
    const void *panels;
    const float *scales;     // int8 only: of each column
    const int32_t *offsets;  // int8 only: -128 times the sum of each column, for kernels that store inputs as value + 128;
                             // of the projection (blocks, columns)
};

// One LSTM layer. Each pointer leads to the numbers of the first direction; the other direction's follow.
// Gates are in the order of cells: a panel contains i, j, f and o of one vector of cells.
struct ElmoreLstm {
    int64_t directions;
    int64_t vector_dim;
    int64_t cell_dim;
    ElmoreMatrix input;       // vector_dim x 4 cell_dim, cells padded to whole vectors
    ElmoreMatrix recurrent;   // the same
    ElmoreMatrix projection;  // cell_dim (padded) x vector_dim; null panels without a projection
    const float *bias;        // as the columns of `recurrent`
    float cell_clip;          // infinite without a clip
    float projection_clip;
};

// One run of a layer over rows of steps. Lengths never increase from row to row.
//
// A row may hold several sentences, one after the other. `starts` marks the first step of each sentence: before it the
// row's state is set to the start state. A sentence has the same bits as alone in a row.
struct ElmoreLstmRun {
    int64_t steps;
    int64_t rows;
    int64_t state_rows;      // of h and c: `rows`, or 1 for a start state that all rows share
    const int64_t *lengths;  // (rows)
    const uint8_t *starts;   // (directions, steps, rows) not 0 where a row starts again; null if no row does
    const float *inputs;     // (directions, steps, rows, vector_dim)
    const float *h;          // (directions, state_rows, vector_dim) start state
    const float *c;          // (directions, state_rows, cell_dim)
    float *outputs;          // (directions, steps, rows, vector_dim), zero beyond a row's end
    float *last_h;           // (directions, rows, vector_dim); null if not wanted
    float *last_c;           // (directions, rows, cell_dim); null if not wanted
    // For the backward pass, in training with float32; else null. Cells are padded to whole vectors. With these,
    // `state_rows` is `rows` and `starts` is null.
    float *gates;  // (directions, panels, steps, rows, 4 vectors) activated
    float *cells;  // (directions, steps + 1, rows, cells) before the first step and after each
};

// A dense layer or a highway. A highway's panel contains two vectors of the transform and the same two of the gate.
struct ElmoreDense {
    int64_t depth;
    int64_t columns;  // of the output; a highway's matrix has twice as many
    ElmoreMatrix matrix;
    const float *bias;  // as the columns of the matrix, padded
    int32_t highway;
};

// The filters of a character CNN, in groups of one width. `tables` contains, for each chunk of up to 4 vectors of a
// group's filters and each position under them, (characters, 4 vectors): the product of the filter with each character.
struct ElmoreFilters {
    int64_t characters;  // in the table
    int64_t groups;
    const int64_t *widths;
    const int64_t *counts;
    const float *tables;
    const float *bias;  // (chunks of all groups, 4 vectors)
    int32_t tanh;       // the activation: tanh, or relu
};

// Changes with this file, so that a library built from another version is not called.
ELMORE_API int elmore_abi_version(void);

// The size of the struct of this name, in bytes; 0 for an unknown name. Callers compare it with the size they assume.
ELMORE_API size_t elmore_struct_size(const char *name);

// How many float32 a vector of the kernel for a precision holds; 0 if there is no kernel.
ELMORE_API int elmore_lanes(int precision);

// The instructions that the kernel for a precision uses; null if there is no kernel.
ELMORE_API const char *elmore_instructions(int precision);

// The functions below return an `ElmoreStatus`.

// (words, filters) the largest response of each filter over each word of `length` characters, with bias, activated. With
// `positions`, for training: not activated, and with the position of each, as a number of the same type.
ELMORE_API int elmore_pool_characters(const ElmoreFilters *filters, const int64_t *characters, int64_t words,
                                      int64_t length, float *out, float *positions, int64_t out_stride, int threads);

// Run rows through a dense layer or a highway. The rows x of a highway are padded to whole vectors.
ELMORE_API int elmore_run_dense(int precision, const ElmoreDense *layer, const float *x, int64_t x_stride, int64_t rows,
                                float *out, int64_t out_stride, int threads);

// Run a layer over each row to its end.
ELMORE_API int elmore_run_lstm(int precision, const ElmoreLstm *layer, const ElmoreLstmRun *run, int threads);
}
