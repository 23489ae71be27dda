// Training kernels for any CPU, in standard C++.
#define ELMORE_PLAIN_LOOPS 1
#include "kernel_headers.h"
#include "training_table.h"

namespace elmore::training_portable {
#include "buffer.h"
#include "simd_portable.h"
#include "training.h"
}  // namespace elmore::training_portable

namespace elmore {

const TrainingKernel TRAINING_PORTABLE = training_portable::KERNEL;

}  // namespace elmore
