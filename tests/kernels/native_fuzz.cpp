// Random shapes through the native kernels, in buffers of exactly the size that `kernels.h` asks for: built with
// AddressSanitizer and UBSan, any step beyond one is an error. Every reading must also have the same bits with other
// numbers of threads, and each row the same bits alone.
//
//     make fuzz-native

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#include "../../src/elmore/kernels/native/kernels.h"

namespace {

std::mt19937 generator;

int64_t draw(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(generator); }

std::vector<float> draw_floats(int64_t count, float spread) {
    std::normal_distribution<float> normal(0.0f, spread);
    std::vector<float> drawn(count);
    for (float &one : drawn) one = normal(generator);
    return drawn;
}

int64_t rounded_up(int64_t count, int64_t size) { return (count + size - 1) / size * size; }

// A packed matrix of random numbers; where they stand in it does not matter here.
struct Packed {
    std::vector<float> floats;
    std::vector<uint16_t> halves;
    std::vector<int8_t> bytes;
    std::vector<float> scales;
    std::vector<int32_t> offsets;
    ElmoreMatrix matrix{};

    Packed(int number, int64_t matrices, int64_t depth, int64_t columns, int64_t blocks) {
        const int64_t count = matrices * depth * columns;
        const float spread = 1.0f / std::sqrt(static_cast<float>(depth));
        floats = draw_floats(count, spread);
        if (number == ELMORE_FLOAT32) matrix.panels = floats.data();
        if (number == ELMORE_BFLOAT16) {
            for (float one : floats) {
                uint32_t bits;
                std::memcpy(&bits, &one, sizeof bits);
                halves.push_back(static_cast<uint16_t>(bits >> 16));
            }
            matrix.panels = halves.data();
        }
        if (number == ELMORE_INT8) {
            for (float one : floats) bytes.push_back(static_cast<int8_t>(std::fmax(-127.0f, std::fmin(127.0f, one * 40 / spread))));
            scales.assign(matrices * columns, spread / 40);
            for (int64_t place = 0; place < matrices * blocks * columns; ++place) offsets.push_back(draw(-1000, 1000));
            matrix = {bytes.data(), scales.data(), offsets.data()};
        }
        if (number != ELMORE_FLOAT32) floats = {};
    }
};

struct Case {
    int number = 0;
    ElmoreLstm layer{};
    std::vector<int64_t> lengths;
    int64_t steps = 0;
    std::vector<float> inputs, h, c;

    struct Result {
        std::vector<float> outputs, h, c;
        bool operator==(const Result &other) const {
            return same(outputs, other.outputs) && same(h, other.h) && same(c, other.c);
        }
        static bool same(const std::vector<float> &a, const std::vector<float> &b) {
            return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
        }
    };

    Result run(int threads) const {
        Result to{std::vector<float>(inputs.size()), std::vector<float>(h.size()), std::vector<float>(c.size())};
        const ElmoreReading reading{steps,    static_cast<int64_t>(lengths.size()), lengths.data(), inputs.data(), h.data(),
                                    c.data(), to.outputs.data(),                    to.h.data(),    to.c.data()};
        if (elmore_run_lstm(number, &layer, &reading, threads) != 0) std::abort();
        return to;
    }

    // `source` as (outer, rows, size), of which one row is kept.
    std::vector<float> row_of(const std::vector<float> &source, int64_t outer, int64_t size, int64_t row) const {
        const int64_t rows = lengths.size();
        std::vector<float> kept;
        for (int64_t place = 0; place < outer; ++place) {
            const float *start = source.data() + (place * rows + row) * size;
            kept.insert(kept.end(), start, start + size);
        }
        return kept;
    }

    void check() const {
        const Result together = run(1);
        for (int threads : {2, 3, 7})
            if (!(run(threads) == together)) fail("another number of threads");
        const int64_t row = draw(0, static_cast<int64_t>(lengths.size()) - 1);
        const int64_t directions = layer.directions, outer = directions * steps;
        Case alone = *this;
        alone.lengths = {lengths[row]};
        alone.inputs = row_of(inputs, outer, layer.vector_dim, row);
        alone.h = row_of(h, directions, layer.vector_dim, row);
        alone.c = row_of(c, directions, layer.cell_dim, row);
        const Result expected{row_of(together.outputs, outer, layer.vector_dim, row),
                              row_of(together.h, directions, layer.vector_dim, row),
                              row_of(together.c, directions, layer.cell_dim, row)};
        if (!(alone.run(1) == expected) || !(alone.run(2) == expected)) fail("a row alone");
    }

    void fail(const char *what) const {
        std::printf("%s gives other bits: number %d, vector %ld, cells %ld, rows %zu, steps %ld\n", what, number,
                    static_cast<long>(layer.vector_dim), static_cast<long>(layer.cell_dim), lengths.size(),
                    static_cast<long>(steps));
        std::exit(1);
    }
};

void fuzz(int number, int64_t lanes) {
    const int64_t group = number == ELMORE_FLOAT32 ? 1 : number == ELMORE_BFLOAT16 ? 2 : 4;
    const bool projected = draw(0, 3) > 0;
    Case drawn;
    drawn.number = number;
    const int64_t directions = draw(1, 2), vector = draw(1, draw(0, 1) ? 20 : 200);
    const int64_t cells = projected ? draw(1, draw(0, 1) ? 40 : 700) : vector;
    const int64_t filled = rounded_up(cells, lanes), columns = rounded_up(vector, 4 * lanes);
    const int64_t depth = rounded_up(vector, group), blocks = (filled + ELMORE_CELLS_AT_ONCE - 1) / ELMORE_CELLS_AT_ONCE;
    const Packed input(number, directions, depth, 4 * filled, 1), recurrent(number, directions, depth, 4 * filled, 1),
        projection(number, directions, filled, columns, blocks);
    std::vector<float> bias = draw_floats(directions * 4 * filled, 0.5f);
    drawn.layer = {directions,  vector,      cells,      input.matrix, recurrent.matrix, projected ? projection.matrix : ElmoreMatrix{},
                   bias.data(), draw(0, 1) ? 3.0f : INFINITY, draw(0, 1) ? 1.0f : INFINITY};
    const int64_t rows = draw(1, draw(0, 1) ? 10 : 150);
    drawn.steps = draw(1, 12);
    for (int64_t row = 0; row < rows; ++row) drawn.lengths.push_back(draw(0, drawn.steps));
    std::sort(drawn.lengths.rbegin(), drawn.lengths.rend());
    drawn.inputs = draw_floats(directions * drawn.steps * rows * vector, 1.0f);
    drawn.h = draw_floats(directions * rows * vector, 1.0f);
    drawn.c = draw_floats(directions * rows * cells, 1.0f);
    drawn.check();
}

}  // namespace

int main(int count, char **arguments) {
    const int rounds = count > 1 ? std::atoi(arguments[1]) : 100;
    const unsigned seed = count > 2 ? static_cast<unsigned>(std::atoi(arguments[2])) : 1;
    for (int number : {ELMORE_FLOAT32, ELMORE_BFLOAT16, ELMORE_INT8}) {
        const int lanes = elmore_lanes(number);
        if (lanes == 0) {
            std::printf("number %d cannot be computed on this CPU\n", number);
            continue;
        }
        generator.seed(seed);
        for (int round = 0; round < rounds; ++round) fuzz(number, lanes);
        std::printf("number %d: %d random layers, all clean\n", number, rounds);
    }
}
