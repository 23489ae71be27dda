// What the fuzzers of the native kernels share: random numbers from one seed, and comparing bits.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#include "../../src/elmore/kernels/native/kernels.h"

inline std::mt19937 generator;

inline int64_t draw(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(generator);
}

inline std::vector<float> draw_floats(int64_t count, float spread) {
    std::normal_distribution<float> normal(0.0f, spread);
    std::vector<float> drawn(count);
    for (float &one : drawn) one = normal(generator);
    return drawn;
}

inline int64_t rounded_up(int64_t count, int64_t size) { return (count + size - 1) / size * size; }

inline bool same(const std::vector<float> &a, const std::vector<float> &b) {
    return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

inline void fail(const char *what, const char *kernel, int number, int64_t rows, int64_t in, int64_t out) {
    std::printf("%s gives other bits: %s, number %d, %ld rows, %ld to %ld\n", what, kernel, number,
                static_cast<long>(rows), static_cast<long>(in), static_cast<long>(out));
    std::exit(1);
}

// Random work through everything that only training calls; float32 only.
void fuzz_training(int64_t lanes);
