// The functions of `training_kernels.h`: call the kernels that belong to the inference kernel for float32.
#include "training_kernels.h"

#include <cstring>

#include "kernel_table.h"
#include "platform.h"
#include "training_table.h"

namespace elmore {
namespace {

const TrainingKernel *training_kernel() {
    const Kernel *kernel = kernel_for(ELMORE_FLOAT32);
    if (kernel == nullptr) return nullptr;
    switch (kernel->set) {
#if ELMORE_X86_64
        case InstructionSet::AVX512: return &TRAINING_AVX512;
        case InstructionSet::AVX2: return &TRAINING_AVX2;
#elif ELMORE_ARM64
        case InstructionSet::NEON: return &TRAINING_NEON;
#endif
        default: return &TRAINING_PORTABLE;
    }
}

int at_least_one(int threads) { return threads < 1 ? 1 : threads; }

bool lengths_are_valid(const ElmoreLstmGradients &call) {
    int64_t longest = call.steps;
    for (int64_t row = 0; row < call.rows; ++row) {
        if (call.lengths[row] < 0 || call.lengths[row] > longest) return false;
        longest = call.lengths[row];
    }
    return call.steps >= 0 && call.rows >= 0;
}

bool characters_are_valid(const ElmoreFilters &filters, const int64_t *characters, int64_t words, int64_t length) {
    for (int64_t index = 0; index < words * length; ++index)
        if (characters[index] < 0 || characters[index] >= filters.characters) return false;
    return true;
}

}  // namespace
}  // namespace elmore

extern "C" {

using namespace elmore;

size_t elmore_training_struct_size(const char *name) {
    if (std::strcmp(name, "ElmoreLstmGradients") == 0) return sizeof(ElmoreLstmGradients);
    if (std::strcmp(name, "ElmoreProduct") == 0) return sizeof(ElmoreProduct);
    if (std::strcmp(name, "ElmoreHighway") == 0) return sizeof(ElmoreHighway);
    if (std::strcmp(name, "ElmoreSoftmax") == 0) return sizeof(ElmoreSoftmax);
    return 0;
}

int elmore_pool_characters_backward(const ElmoreFilters *filters, const int64_t *characters, int64_t words,
                                    int64_t length, const float *d_pooled, const float *positions, int64_t stride,
                                    float *d_tables, int threads) {
    const TrainingKernel *kernel = training_kernel();
    if (kernel == nullptr) return ELMORE_NO_KERNEL;
    if (!characters_are_valid(*filters, characters, words, length)) return ELMORE_WRONG_INPUT;
    return kernel->pool_characters_backward(*filters, characters, words, length, d_pooled, positions, stride, d_tables,
                                            at_least_one(threads));
}

int elmore_run_lstm_backward(const ElmoreLstmGradients *gradients, int threads) {
    const TrainingKernel *kernel = training_kernel();
    if (kernel == nullptr) return ELMORE_NO_KERNEL;
    if (!lengths_are_valid(*gradients)) return ELMORE_WRONG_INPUT;
    return kernel->run_lstm_backward(*gradients, at_least_one(threads));
}

int elmore_multiply(const ElmoreProduct *product, int threads) {
    const TrainingKernel *kernel = training_kernel();
    return kernel == nullptr ? ELMORE_NO_KERNEL : kernel->multiply(*product, at_least_one(threads));
}

int elmore_run_highway(const ElmoreHighway *highway, int threads) {
    const TrainingKernel *kernel = training_kernel();
    return kernel == nullptr ? ELMORE_NO_KERNEL : kernel->run_highway(*highway, at_least_one(threads));
}

int elmore_run_softmax(const ElmoreSoftmax *softmax, int threads) {
    const TrainingKernel *kernel = training_kernel();
    return kernel == nullptr ? ELMORE_NO_KERNEL : kernel->run_softmax(*softmax, at_least_one(threads));
}
}
