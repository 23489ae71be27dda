// The kernels of each precision and instruction set, and which of them this CPU runs.
#pragma once

#include "kernels.h"

namespace elmore {

// In the order of preference.
enum class InstructionSet { NONE, PORTABLE, NEON, AVX2, AVX512 };

struct Kernel {
    InstructionSet set;
    const char *instructions;  // for people
    int lanes;
    int (*run_lstm)(const ElmoreLstm &layer, const ElmoreLstmRun &run, int threads);
    int (*run_dense)(const ElmoreDense &layer, const float *x, int64_t x_stride, int64_t rows, float *out,
                     int64_t out_stride, int threads);
    // Additions only: kernels for float32 have it, others not.
    int (*pool_characters)(const ElmoreFilters &filters, const int64_t *characters, int64_t words, int64_t length,
                           float *out, float *positions, int64_t out_stride, int threads);
};

extern const Kernel FLOAT32_PORTABLE, BFLOAT16_PORTABLE, INT8_PORTABLE;
extern const Kernel FLOAT32_NEON, BFLOAT16_NEON, INT8_NEON, INT8_NEON_DOT;
extern const Kernel FLOAT32_AVX2, BFLOAT16_AVX2, INT8_AVX2;
extern const Kernel FLOAT32_AVX512, BFLOAT16_AVX512, INT8_AVX512;

// The kernel for a precision; null if there is none.
const Kernel *kernel_for(int precision);

// Choose the kernels again, of no set above the one of this name; null for no limit. For tests: no call may run meanwhile.
void limit_instructions(const char *name);

}  // namespace elmore
