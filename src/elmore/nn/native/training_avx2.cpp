// Training kernels for CPUs with AVX2 and FMA.
#include "kernel_headers.h"
#include "training_table.h"

#if ELMORE_X86_64
ELMORE_ENABLE("avx2,fma")

namespace elmore::training_avx2 {
#include "buffer.h"
#include "simd_avx2.h"
#include "training.h"
}  // namespace elmore::training_avx2

ELMORE_ENABLE_END

namespace elmore {

const TrainingKernel TRAINING_AVX2 = training_avx2::KERNEL;

}  // namespace elmore
#endif
