// The training kernels of each instruction set.
#pragma once

#include "training_kernels.h"

namespace elmore {

struct TrainingKernel {
    int (*run_lstm_backward)(const ElmoreLstmGradients &gradients, int threads);
    int (*multiply)(const ElmoreProduct &product, int threads);
    int (*run_highway)(const ElmoreHighway &highway, int threads);
    int (*pool_characters_backward)(const ElmoreFilters &filters, const int64_t *characters, int64_t words,
                                    int64_t length, const float *d_pooled, const float *positions, int64_t stride,
                                    float *d_tables, int threads);
    int (*run_softmax)(const ElmoreSoftmax &softmax, int threads);
};

extern const TrainingKernel TRAINING_PORTABLE, TRAINING_NEON, TRAINING_AVX2, TRAINING_AVX512;

}  // namespace elmore
