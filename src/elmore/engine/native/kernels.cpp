// The functions of `kernels.h`: choose the kernels for this CPU and call them.
#include "kernels.h"

#include <cstdlib>
#include <cstring>

#include "cpu.h"
#include "kernel_table.h"
#include "platform.h"

namespace elmore {
namespace {

struct Choice {
    const Kernel *kernels[3];
};

// A set of instructions as named by ELMORE_ISA. A name that is not known leaves no kernels; the caller reports it.
InstructionSet set_named(const char *name) {
    if (name == nullptr || *name == '\0' || std::strcmp(name, "avx512") == 0) return InstructionSet::AVX512;
    if (std::strcmp(name, "avx2") == 0) return InstructionSet::AVX2;
    if (std::strcmp(name, "neon") == 0) return InstructionSet::NEON;
    if (std::strcmp(name, "portable") == 0) return InstructionSet::PORTABLE;
    return InstructionSet::NONE;
}

Choice choose(InstructionSet limit) {
    if (limit == InstructionSet::NONE) return {};
    Choice choice{{&FLOAT32_PORTABLE, &BFLOAT16_PORTABLE, &INT8_PORTABLE}};
    [[maybe_unused]] const Cpu cpu = detect_cpu();
#if ELMORE_ARM64
    if (limit >= InstructionSet::NEON) choice = {{&FLOAT32_NEON, &BFLOAT16_NEON, &INT8_NEON}};
#if ELMORE_NEON_DOT
    if (limit >= InstructionSet::NEON && cpu.neon_dot) choice.kernels[ELMORE_INT8] = &INT8_NEON_DOT;
#endif
#elif ELMORE_X86_64
    if (limit >= InstructionSet::AVX2 && cpu.avx2) choice = {{&FLOAT32_AVX2, &BFLOAT16_AVX2, &INT8_AVX2}};
    if (limit >= InstructionSet::AVX512 && cpu.avx512) {
        choice.kernels[ELMORE_FLOAT32] = &FLOAT32_AVX512;
        if (cpu.avx512_bf16) choice.kernels[ELMORE_BFLOAT16] = &BFLOAT16_AVX512;
        if (cpu.avx512_vnni) choice.kernels[ELMORE_INT8] = &INT8_AVX512;
    }
#endif
    return choice;
}

Choice &choice() {
    static Choice chosen = choose(set_named(std::getenv("ELMORE_ISA")));
    return chosen;
}

// Whether each row's length is in range and none is longer than the row before it.
bool lengths_are_valid(const ElmoreLstmRun &run) {
    int64_t longest = run.steps;
    for (int64_t row = 0; row < run.rows; ++row) {
        if (run.lengths[row] < 0 || run.lengths[row] > longest) return false;
        longest = run.lengths[row];
    }
    return true;
}

bool is_valid(const ElmoreLstmRun &run) {
    if (run.steps < 0 || run.rows < 0 || (run.state_rows != run.rows && run.state_rows != 1)) return false;
    if (run.gates && (run.starts || run.state_rows != run.rows)) return false;
    return (run.gates == nullptr) == (run.cells == nullptr) && lengths_are_valid(run);
}

bool is_valid(const ElmoreFilters &filters, const int64_t *characters, int64_t words, int64_t length) {
    for (int64_t group = 0; group < filters.groups; ++group)
        if (filters.widths[group] < 1 || filters.widths[group] > length) return false;
    for (int64_t index = 0; index < words * length; ++index)
        if (characters[index] < 0 || characters[index] >= filters.characters) return false;
    return true;
}

int at_least_one(int threads) { return threads < 1 ? 1 : threads; }

}  // namespace

const Kernel *kernel_for(int precision) {
    return precision < ELMORE_FLOAT32 || precision > ELMORE_INT8 ? nullptr : choice().kernels[precision];
}

void limit_instructions(const char *name) { choice() = choose(set_named(name)); }

}  // namespace elmore

extern "C" {

using namespace elmore;

int elmore_abi_version(void) { return 5; }

size_t elmore_struct_size(const char *name) {
    if (std::strcmp(name, "ElmoreMatrix") == 0) return sizeof(ElmoreMatrix);
    if (std::strcmp(name, "ElmoreLstm") == 0) return sizeof(ElmoreLstm);
    if (std::strcmp(name, "ElmoreLstmRun") == 0) return sizeof(ElmoreLstmRun);
    if (std::strcmp(name, "ElmoreDense") == 0) return sizeof(ElmoreDense);
    if (std::strcmp(name, "ElmoreFilters") == 0) return sizeof(ElmoreFilters);
    return 0;
}

int elmore_lanes(int precision) {
    const Kernel *kernel = kernel_for(precision);
    return kernel == nullptr ? 0 : kernel->lanes;
}

const char *elmore_instructions(int precision) {
    const Kernel *kernel = kernel_for(precision);
    return kernel == nullptr ? nullptr : kernel->instructions;
}

int elmore_pool_characters(const ElmoreFilters *filters, const int64_t *characters, int64_t words, int64_t length,
                           float *out, float *positions, int64_t out_stride, int threads) {
    const Kernel *kernel = kernel_for(ELMORE_FLOAT32);
    if (kernel == nullptr) return ELMORE_NO_KERNEL;
    if (!is_valid(*filters, characters, words, length)) return ELMORE_WRONG_INPUT;
    return kernel->pool_characters(*filters, characters, words, length, out, positions, out_stride,
                                   at_least_one(threads));
}

int elmore_run_dense(int precision, const ElmoreDense *layer, const float *x, int64_t x_stride, int64_t rows, float *out,
                     int64_t out_stride, int threads) {
    const Kernel *kernel = kernel_for(precision);
    if (kernel == nullptr) return ELMORE_NO_KERNEL;
    return kernel->run_dense(*layer, x, x_stride, rows, out, out_stride, at_least_one(threads));
}

int elmore_run_lstm(int precision, const ElmoreLstm *layer, const ElmoreLstmRun *run, int threads) {
    const Kernel *kernel = kernel_for(precision);
    if (kernel == nullptr) return ELMORE_NO_KERNEL;
    if (!is_valid(*run)) return ELMORE_WRONG_INPUT;
    return kernel->run_lstm(*layer, *run, at_least_one(threads));
}
}
