// The instructions of this CPU that kernels use.
#pragma once

namespace elmore {

struct Cpu {
    bool avx2;  // and FMA
    bool avx512;
    bool avx512_bf16;
    bool avx512_vnni;
    bool neon_dot;
};

Cpu detect_cpu();

}  // namespace elmore
