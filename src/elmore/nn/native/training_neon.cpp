// Training kernels for 64-bit ARM.
#include "kernel_headers.h"
#include "training_table.h"

#if ELMORE_ARM64

namespace elmore::training_neon {
#include "buffer.h"
#include "simd_neon.h"
#include "training.h"
}  // namespace elmore::training_neon

namespace elmore {

const TrainingKernel TRAINING_NEON = training_neon::KERNEL;

}  // namespace elmore
#endif
