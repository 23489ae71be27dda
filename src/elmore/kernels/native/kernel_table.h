// One entry for each kind of number and CPU: what its file gives to the doors.
#pragma once

#include "kernels.h"

namespace elmore {

// What training needs, for float32.
struct TrainingKernel {
    int (*run_lstm_backward)(const ElmoreLstmGradients &gradients, int threads);
    int (*multiply)(const ElmoreProduct &product, int threads);
    void (*run_highway)(const ElmoreHighway &highway, int threads);
    void (*pool_characters_backward)(const ElmoreFilters &filters, const int64_t *characters, int64_t words,
                                     int64_t length, const float *d_pooled, const float *positions, int64_t stride,
                                     float *d_tables, int threads);
    int (*run_softmax)(const ElmoreSoftmax &softmax, int threads);
};

struct Kernel {
    int lanes;
    int (*run_lstm)(const ElmoreLstm &layer, const ElmoreReading &reading, int threads);
    int (*run_dense)(const ElmoreDense &layer, const float *x, int64_t x_stride, int64_t rows, float *out,
                     int64_t out_stride, int threads);
    // Additions only, so only float32 has it.
    int (*pool_characters)(const ElmoreFilters &filters, const int64_t *characters, int64_t words, int64_t length,
                           float *out, float *positions, int64_t out_stride, int threads);
    TrainingKernel training;
};

extern const Kernel FLOAT32_AVX2, FLOAT32_AVX512, BFLOAT16_AVX512, INT8_AVX512;

}  // namespace elmore
