// Training kernels for CPUs with AVX-512.
#include "kernel_headers.h"
#include "training_table.h"

#if ELMORE_X86_64
ELMORE_ENABLE("avx2,fma,avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512")

namespace elmore::training_avx512 {
#include "buffer.h"
#include "simd_avx512.h"
#include "training.h"
}  // namespace elmore::training_avx512

ELMORE_ENABLE_END

namespace elmore {

const TrainingKernel TRAINING_AVX512 = training_avx512::KERNEL;

}  // namespace elmore
#endif
