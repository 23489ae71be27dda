#include "cpu.h"

#include "platform.h"

#if ELMORE_X86_64 && defined(_MSC_VER)
#include <intrin.h>
#elif ELMORE_X86_64
#include <cpuid.h>
#elif ELMORE_ARM64 && defined(__linux__)
#include <sys/auxv.h>
#elif ELMORE_ARM64 && defined(__APPLE__)
#include <sys/sysctl.h>
#elif ELMORE_ARM64 && defined(_WIN32)
#include <windows.h>
#endif

namespace elmore {

#if ELMORE_X86_64

namespace {

struct Registers {
    uint32_t eax, ebx, ecx, edx;
};

Registers cpuid(uint32_t leaf, uint32_t subleaf) {
    Registers found{};
#if defined(_MSC_VER)
    int values[4];
    __cpuidex(values, static_cast<int>(leaf), static_cast<int>(subleaf));
    std::memcpy(&found, values, sizeof found);
#else
    __cpuid_count(leaf, subleaf, found.eax, found.ebx, found.ecx, found.edx);
#endif
    return found;
}

// Which registers the operating system saves.
uint64_t saved_registers() {
#if defined(_MSC_VER)
    return _xgetbv(0);
#else
    uint32_t low, high;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return static_cast<uint64_t>(high) << 32 | low;
#endif
}

bool bit(uint32_t value, int index) { return value >> index & 1; }

}  // namespace

Cpu detect_cpu() {
    Cpu cpu{};
    const uint32_t leaves = cpuid(0, 0).eax;
    if (leaves < 7) return cpu;
    const Registers basic = cpuid(1, 0), extended = cpuid(7, 0);
    const bool can_read = bit(basic.ecx, 27);
    const uint64_t saved = can_read ? saved_registers() : 0;
    const bool saves_256 = (saved & 0x6) == 0x6, saves_512 = (saved & 0xe6) == 0xe6;
    cpu.avx2 = saves_256 && bit(basic.ecx, 12) && bit(basic.ecx, 28) && bit(extended.ebx, 5);
    cpu.avx512 = cpu.avx2 && saves_512 && bit(extended.ebx, 16) && bit(extended.ebx, 17) && bit(extended.ebx, 30) &&
                 bit(extended.ebx, 31);  // F, DQ, BW and VL
    cpu.avx512_vnni = cpu.avx512 && bit(extended.ecx, 11);
    cpu.avx512_bf16 = cpu.avx512 && extended.eax >= 1 && bit(cpuid(7, 1).eax, 5);
    return cpu;
}

#elif ELMORE_ARM64

Cpu detect_cpu() {
    Cpu cpu{};
#if defined(__ARM_FEATURE_DOTPROD)
    cpu.neon_dot = true;
#elif defined(__linux__)
    cpu.neon_dot = (getauxval(AT_HWCAP) & 1ul << 20) != 0;  // HWCAP_ASIMDDP
#elif defined(__APPLE__)
    int has_dot = 0;
    size_t size = sizeof has_dot;
    cpu.neon_dot = sysctlbyname("hw.optional.arm.FEAT_DotProd", &has_dot, &size, nullptr, 0) == 0 && has_dot != 0;
#elif defined(_WIN32)
    cpu.neon_dot = IsProcessorFeaturePresent(43) != 0;  // PF_ARM_V82_DP_INSTRUCTIONS_AVAILABLE
#endif
    return cpu;
}

#else

Cpu detect_cpu() { return {}; }

#endif

}  // namespace elmore
