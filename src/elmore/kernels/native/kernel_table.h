// One entry for each kind of number and CPU: what its file gives to the doors.
#pragma once

#include "kernels.h"

namespace elmore {

struct Kernel {
    int lanes;
    int (*run_lstm)(const ElmoreLstm &layer, const ElmoreReading &reading, int threads);
};

extern const Kernel FLOAT32_AVX2, FLOAT32_AVX512, BFLOAT16_AVX512, INT8_AVX512;

}  // namespace elmore
