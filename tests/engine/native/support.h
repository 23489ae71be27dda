// Support for the tests of the native kernels: random numbers, packed matrices, comparisons.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "kernel_table.h"
#include "kernels.h"
#include "training_kernels.h"

using Floats = std::vector<float>;
using Doubles = std::vector<double>;

inline const char *const PRECISIONS[] = {"float32", "bfloat16", "int8"};
inline constexpr int THREAD_COUNTS[] = {2, 3, 8};

inline thread_local std::mt19937 generator;

inline int64_t draw(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(generator); }

// An index below `count`: often the last, where loops end wrongly.
inline int64_t draw_one_of(int64_t count) { return draw(0, 2) ? draw(0, count - 1) : count - 1; }

inline Floats draw_floats(int64_t count, float spread) {
    std::normal_distribution<float> normal(0.0f, spread);
    Floats numbers(count);
    for (float &number : numbers) number = normal(generator);
    return numbers;
}

inline int64_t divided_up(int64_t count, int64_t size) { return (count + size - 1) / size; }
inline int64_t rounded_up(int64_t count, int64_t size) { return divided_up(count, size) * size; }

// Print what failed and end the program.
[[noreturn]] inline void fail(const std::string &what) {
    std::printf("FAILED: %s\n", what.c_str());
    std::exit(1);
}

inline void require(bool condition, const std::string &what) {
    if (!condition) fail(what);
}

inline bool same_bits(const Floats &a, const Floats &b) {
    return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

// Compare with a computation in double precision: the largest difference, relative to the largest number if that is above 1.
inline void require_close(const Floats &found, const Doubles &expected, double tolerance, const std::string &what) {
    require(found.size() == expected.size(), what + ": sizes differ");
    double largest = 1.0, difference = 0.0;
    for (double number : expected) largest = std::max(largest, std::fabs(number));
    for (size_t index = 0; index < found.size(); ++index) {
        const double error = std::fabs(found[index] - expected[index]);
        difference = std::isnan(error) ? std::numeric_limits<double>::infinity() : std::max(difference, error);
    }
    if (difference > tolerance * largest) {
        char numbers[120];
        std::snprintf(numbers, sizeof numbers, ": differs by %g, of %g; allowed are %g", difference, largest, tolerance);
        fail(what + numbers);
    }
}

// How close a kernel must be to the same computation in double precision with the same rounded factors. A factor that
// lies between two rounded values may be rounded to the other one.
inline double tolerance_of(int precision) {
    return precision == ELMORE_FLOAT32 ? 2e-6 : precision == ELMORE_BFLOAT16 ? 0.004 : 0.03;
}

inline float as_bfloat16(float x) {
    uint32_t bits = std::bit_cast<uint32_t>(x);
    bits += 0x7fff + (bits >> 16 & 1);
    return std::bit_cast<float>(bits & 0xffff0000u);
}

// A row of inputs as the kernels round it.
inline Doubles rounded_row(int precision, const double *row, int64_t count) {
    Doubles rounded(row, row + count);
    if (precision == ELMORE_BFLOAT16)
        for (double &x : rounded) x = as_bfloat16(static_cast<float>(x));
    if (precision == ELMORE_INT8) {
        double largest = 0.0;
        for (double x : rounded) largest = std::max(largest, std::fabs(x));
        if (largest > 0.0)
            for (double &x : rounded) x = std::nearbyint(x * 127.0 / largest) * largest / 127.0;
    }
    return rounded;
}

// Matrices (matrices, depth, columns), packed as `kernels.h` describes. `index(panel, vector, lane)` is the column of the
// matrix that stands there, or -1.
class Packed {
   public:
    using ColumnAt = std::function<int64_t(int64_t panel, int vector, int64_t lane)>;

    Packed(int precision, int64_t matrices, int64_t depth, int64_t columns, int64_t packed_columns, int64_t block,
           float spread, int64_t lanes, const ColumnAt &column_at)
        : depth_(depth), columns_(columns), values_(matrices * depth * columns) {
        const Floats numbers = draw_floats(matrices * depth * columns, spread);
        const int64_t group = precision == ELMORE_FLOAT32 ? 1 : precision == ELMORE_BFLOAT16 ? 2 : 4;
        const int64_t panels = packed_columns / (4 * lanes), rows = rounded_up(depth, group), blocks = divided_up(rows, block);
        const int64_t count = matrices * rows * packed_columns;
        if (precision == ELMORE_FLOAT32) floats_.resize(count);
        if (precision == ELMORE_BFLOAT16) halves_.resize(count);
        if (precision == ELMORE_INT8) {
            bytes_.resize(count);
            scales_.resize(matrices * packed_columns);
            offsets_.resize(matrices * blocks * packed_columns);
        }
        for (int64_t matrix = 0; matrix < matrices; ++matrix)
            for (int64_t panel = 0; panel < panels; ++panel)
                for (int64_t place = 0; place < 4 * lanes; ++place) {
                    const int64_t column = column_at(panel, static_cast<int>(place / lanes), place % lanes);
                    if (column < 0) continue;
                    const auto at = [&](int64_t row) { return (matrix * depth + row) * columns + column; };
                    float largest = 0.0f;
                    for (int64_t row = 0; row < depth; ++row) largest = std::max(largest, std::fabs(numbers[at(row)]));
                    const float scale = largest / 127.0f;
                    if (precision == ELMORE_INT8) scales_[(matrix * panels + panel) * 4 * lanes + place] = scale;
                    for (int64_t row = 0; row < depth; ++row) {
                        const float x = numbers[at(row)];
                        const int64_t to =
                            (((matrix * panels + panel) * (rows / group) + row / group) * 4 * lanes + place) * group +
                            row % group;
                        if (precision == ELMORE_FLOAT32) {
                            floats_[to] = x;
                            values_[at(row)] = x;
                        } else if (precision == ELMORE_BFLOAT16) {
                            halves_[to] = static_cast<uint16_t>(std::bit_cast<uint32_t>(as_bfloat16(x)) >> 16);
                            values_[at(row)] = as_bfloat16(x);
                        } else {
                            bytes_[to] = static_cast<int8_t>(scale > 0 ? std::lrint(x / scale) : 0);
                            values_[at(row)] = static_cast<double>(bytes_[to]) * scale;
                            offsets_[((matrix * blocks + row / block) * panels + panel) * 4 * lanes + place] -= 128 * bytes_[to];
                        }
                    }
                }
    }

    ElmoreMatrix matrix() const {
        if (!floats_.empty()) return {floats_.data(), nullptr, nullptr};
        if (!halves_.empty()) return {halves_.data(), nullptr, nullptr};
        return {bytes_.data(), scales_.data(), offsets_.data()};
    }

    const Floats &floats() const { return floats_; }

    // The number that a kernel multiplies.
    double at(int64_t matrix, int64_t row, int64_t column) const {
        return values_[(matrix * depth_ + row) * columns_ + column];
    }

   private:
    int64_t depth_, columns_;
    Doubles values_;
    Floats floats_;
    std::vector<uint16_t> halves_;
    std::vector<int8_t> bytes_;
    Floats scales_;
    std::vector<int32_t> offsets_;
};

// Columns in the order of the matrix.
inline Packed pack(int precision, int64_t matrices, int64_t depth, int64_t columns, float spread, int64_t lanes,
                   int64_t block = std::numeric_limits<int32_t>::max()) {
    return Packed(precision, matrices, depth, columns, rounded_up(columns, 4 * lanes), block, spread, lanes,
                  [=](int64_t panel, int vector, int64_t lane) {
                      const int64_t column = (panel * 4 + vector) * lanes + lane;
                      return column < columns ? column : -1;
                  });
}

// The gates of an LSTM layer: (vector, 4 cells), of which a panel holds i, j, f and o of one vector of cells.
inline Packed pack_gates(int precision, int64_t matrices, int64_t depth, int64_t cells, float spread, int64_t lanes) {
    return Packed(precision, matrices, depth, 4 * cells, 4 * rounded_up(cells, lanes),
                  std::numeric_limits<int32_t>::max(), spread, lanes, [=](int64_t panel, int vector, int64_t lane) {
                      const int64_t cell = panel * lanes + lane;
                      return cell < cells ? vector * cells + cell : -1;
                  });
}

// A highway: (columns, 2 columns), of which a panel holds two vectors of the transform and the same two of the gate.
inline Packed pack_highway(int precision, int64_t columns, float spread, int64_t lanes) {
    return Packed(precision, 1, columns, 2 * columns, 2 * rounded_up(columns, 2 * lanes),
                  std::numeric_limits<int32_t>::max(), spread, lanes, [=](int64_t panel, int vector, int64_t lane) {
                      const int64_t column = (panel * 2 + vector % 2) * lanes + lane;
                      return column < columns ? (vector / 2) * columns + column : -1;
                  });
}

// Numbers per gate and cell, (directions, 4, cells), in the order of the panels of gates.
inline Floats pack_gate_numbers(const Floats &numbers, int64_t directions, int64_t cells, int64_t lanes) {
    const int64_t filled = rounded_up(cells, lanes);
    Floats packed(directions * 4 * filled);
    for (int64_t direction = 0; direction < directions; ++direction)
        for (int64_t gate = 0; gate < 4; ++gate)
            for (int64_t cell = 0; cell < cells; ++cell)
                packed[direction * 4 * filled + (cell / lanes * 4 + gate) * lanes + cell % lanes] =
                    numbers[(direction * 4 + gate) * cells + cell];
    return packed;
}

inline double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }
inline double clipped(double x, double bound) { return std::max(-bound, std::min(bound, x)); }

// Tests of one set of kernels; each draws a random case.
void test_lstm(int precision);
void test_dense(int precision);
void test_characters();
void test_lstm_training();
void test_product();
void test_highway_training();
void test_softmax();
void test_characters_training();
// Tests of threads, with the kernels that are chosen.
void test_threads(int rounds, bool forks);
