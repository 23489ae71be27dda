// Which of the kernels runs on this CPU.
#include "kernels.h"

#include <cstdlib>
#include <cstring>

#include "kernel_table.h"

namespace elmore {
namespace {

// For tests: ELMORE_ISA=avx2 leaves AVX-512 alone, ELMORE_ISA=none leaves all of it.
bool may_use(const char *instructions) {
    static const char *const limit = std::getenv("ELMORE_ISA");
    return limit == nullptr || std::strcmp(limit, instructions) == 0 ||
           (std::strcmp(limit, "avx512") == 0 && std::strcmp(instructions, "avx2") == 0);
}

bool has_avx2() { return may_use("avx2") && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }

bool has_avx512() {
    return may_use("avx512") && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

const Kernel *kernel_for(int number) {
    __builtin_cpu_init();
    if (number == ELMORE_FLOAT32 && has_avx512()) return &FLOAT32_AVX512;
    if (number == ELMORE_FLOAT32 && has_avx2()) return &FLOAT32_AVX2;
    if (number == ELMORE_BFLOAT16 && has_avx512() && __builtin_cpu_supports("avx512bf16")) return &BFLOAT16_AVX512;
    if (number == ELMORE_INT8 && has_avx512() && __builtin_cpu_supports("avx512vnni")) return &INT8_AVX512;
    return nullptr;
}

}  // namespace
}  // namespace elmore

extern "C" {

int elmore_abi_version(void) { return 3; }

int elmore_lanes(int number) {
    const elmore::Kernel *kernel = elmore::kernel_for(number);
    return kernel == nullptr ? 0 : kernel->lanes;
}

int elmore_pool_characters(const ElmoreFilters *filters, const int64_t *characters, int64_t words, int64_t length,
                           float *out, float *positions, int64_t out_stride, int threads) {
    return elmore::kernel_for(ELMORE_FLOAT32)
        ->pool_characters(*filters, characters, words, length, out, positions, out_stride, threads < 1 ? 1 : threads);
}

void elmore_pool_characters_backward(const ElmoreFilters *filters, const int64_t *characters, int64_t words,
                                     int64_t length, const float *d_pooled, const float *positions, int64_t stride,
                                     float *d_tables, int threads) {
    elmore::kernel_for(ELMORE_FLOAT32)
        ->training.pool_characters_backward(*filters, characters, words, length, d_pooled, positions, stride, d_tables,
                                            threads < 1 ? 1 : threads);
}

int elmore_run_lstm_backward(const ElmoreLstmGradients *gradients, int threads) {
    return elmore::kernel_for(ELMORE_FLOAT32)->training.run_lstm_backward(*gradients, threads < 1 ? 1 : threads);
}

int elmore_multiply(const ElmoreProduct *product, int threads) {
    return elmore::kernel_for(ELMORE_FLOAT32)->training.multiply(*product, threads < 1 ? 1 : threads);
}

void elmore_run_highway(const ElmoreHighway *highway, int threads) {
    elmore::kernel_for(ELMORE_FLOAT32)->training.run_highway(*highway, threads < 1 ? 1 : threads);
}

int elmore_run_dense(int number, const ElmoreDense *layer, const float *x, int64_t x_stride, int64_t rows, float *out,
                     int64_t out_stride, int threads) {
    return elmore::kernel_for(number)->run_dense(*layer, x, x_stride, rows, out, out_stride, threads < 1 ? 1 : threads);
}

int elmore_run_lstm(int number, const ElmoreLstm *layer, const ElmoreReading *reading, int threads) {
    return elmore::kernel_for(number)->run_lstm(*layer, *reading, threads < 1 ? 1 : threads);
}

int elmore_run_softmax(const ElmoreSoftmax *softmax, int threads) {
    return elmore::kernel_for(ELMORE_FLOAT32)->training.run_softmax(*softmax, threads < 1 ? 1 : threads);
}
}
