// Tests of the native kernels, for each set of instructions that this CPU has; `make test-native` builds and runs them.
//
//     native_test [rounds] [seed] [no-fork]
//
// An emulator of another CPU cannot fork a process with threads: `no-fork` leaves these tests out.

#include "cpu.h"
#include "support.h"

namespace {

// The kernels that are chosen now.
std::vector<const elmore::Kernel *> chosen() {
    return {elmore::kernel_for(ELMORE_FLOAT32), elmore::kernel_for(ELMORE_BFLOAT16), elmore::kernel_for(ELMORE_INT8)};
}

void test_kernels(int rounds, unsigned seed) {
    for (int precision : {ELMORE_FLOAT32, ELMORE_BFLOAT16, ELMORE_INT8}) {
        generator.seed(seed);
        for (int round = 0; round < rounds; ++round) {
            test_lstm(precision);
            test_dense(precision);
            if (precision != ELMORE_FLOAT32) continue;
            test_characters();
            test_lstm_training();
            test_product();
            test_highway_training();
            test_softmax();
            test_characters_training();
        }
        std::printf("%s with %s: %d random cases of each kernel\n", PRECISIONS[precision], elmore_instructions(precision), rounds);
        std::fflush(stdout);
    }
}

#if defined(__x86_64__) && defined(__GNUC__)
// The compiler's own detection must agree.
void test_detection() {
    const elmore::Cpu cpu = elmore::detect_cpu();
    __builtin_cpu_init();
    require(cpu.avx2 == (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")), "detection of AVX2");
    require(cpu.avx512 == (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")),
            "detection of AVX-512");
    require(!cpu.avx512 || cpu.avx512_vnni == !!__builtin_cpu_supports("avx512vnni"), "detection of VNNI");
    require(!cpu.avx512 || cpu.avx512_bf16 == !!__builtin_cpu_supports("avx512bf16"), "detection of BF16");
}
#else
void test_detection() {}
#endif

void test_struct_sizes() {
    require(elmore_struct_size("ElmoreMatrix") == sizeof(ElmoreMatrix), "size of a matrix");
    require(elmore_struct_size("ElmoreLstm") == sizeof(ElmoreLstm), "size of an LSTM layer");
    require(elmore_struct_size("ElmoreLstmRun") == sizeof(ElmoreLstmRun), "size of a run");
    require(elmore_struct_size("ElmoreDense") == sizeof(ElmoreDense), "size of a dense layer");
    require(elmore_struct_size("ElmoreFilters") == sizeof(ElmoreFilters), "size of filters");
    require(elmore_struct_size("ElmoreProduct") == 0, "size of an unknown struct");
    require(elmore_training_struct_size("ElmoreLstmGradients") == sizeof(ElmoreLstmGradients), "size of LSTM gradients");
    require(elmore_training_struct_size("ElmoreProduct") == sizeof(ElmoreProduct), "size of a product");
    require(elmore_training_struct_size("ElmoreHighway") == sizeof(ElmoreHighway), "size of a highway");
    require(elmore_training_struct_size("ElmoreSoftmax") == sizeof(ElmoreSoftmax), "size of a softmax");
}

void test_without_kernels() {
    elmore::limit_instructions("none");
    require(elmore_lanes(ELMORE_FLOAT32) == 0 && elmore_instructions(ELMORE_INT8) == nullptr, "kernels without instructions");
    const ElmoreHighway highway{};
    require(elmore_run_highway(&highway, 1) == ELMORE_NO_KERNEL, "training without kernels");
}

}  // namespace

int main(int count, char **arguments) {
    const int rounds = count > 1 ? std::atoi(arguments[1]) : 100;
    const unsigned seed = count > 2 ? static_cast<unsigned>(std::atoi(arguments[2])) : 1;
    test_detection();
    test_struct_sizes();
    const bool forks = count <= 3 || std::strcmp(arguments[3], "no-fork") != 0;
    std::vector<const elmore::Kernel *> last;
    for (const char *set : {"portable", "neon", "avx2", "avx512"}) {
        elmore::limit_instructions(set);
        if (chosen() == last) continue;
        last = chosen();
        test_kernels(rounds, seed);
        test_threads(std::max(1, rounds / 10), forks);
        std::printf("threads: callers, lack of memory%s\n", forks ? ", forks, refused threads" : "");
        std::fflush(stdout);
    }
    test_without_kernels();
    std::printf("all native tests passed\n");
}
