// Random shapes through the native kernels, in buffers of exactly the size that `kernels.h` asks for: built with
// AddressSanitizer and UBSan, any step beyond one is an error. Every result must also have the same bits with other
// numbers of threads, and each row the same bits alone.
//
//     make fuzz-native

#include <algorithm>
#include <cmath>
#include <limits>

#include "native_fuzz.h"

namespace {

int64_t group_of(int number) { return number == ELMORE_FLOAT32 ? 1 : number == ELMORE_BFLOAT16 ? 2 : 4; }

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

    int64_t rows() const { return static_cast<int64_t>(lengths.size()); }

    struct Result {
        std::vector<float> outputs, h, c;
        bool operator==(const Result &other) const {
            return same(outputs, other.outputs) && same(h, other.h) && same(c, other.c);
        }
    };

    Result run(int threads) const {
        Result to{std::vector<float>(inputs.size()), std::vector<float>(h.size()), std::vector<float>(c.size())};
        const ElmoreReading reading{steps,    static_cast<int64_t>(lengths.size()), lengths.data(), inputs.data(), h.data(),
                                    c.data(), to.outputs.data(),                    to.h.data(),    to.c.data(),   nullptr,       nullptr};
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
            if (!(run(threads) == together)) fail("another number of threads", "lstm", number, rows(), layer.vector_dim, layer.cell_dim);
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
        if (!(alone.run(1) == expected) || !(alone.run(2) == expected)) 
            fail("a row alone", "lstm", number, rows(), layer.vector_dim, layer.cell_dim);
    }
};

void fuzz_lstm(int number, int64_t lanes) {
    const int64_t group = group_of(number);
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

// A dense layer or a highway, over rows that lie apart from each other.
void fuzz_dense(int number, int64_t lanes) {
    const bool highway = draw(0, 1);
    const int64_t depth = draw(1, draw(0, 1) ? 20 : 600), columns = highway ? depth : draw(1, draw(0, 1) ? 20 : 300);
    const int64_t width = highway ? 2 * rounded_up(columns, 2 * lanes) : rounded_up(columns, 4 * lanes);
    const Packed packed(number, 1, rounded_up(depth, group_of(number)), width, 1);
    const std::vector<float> bias = draw_floats(width, 0.5f);
    const ElmoreDense layer{depth, columns, packed.matrix, bias.data(), highway};
    const int64_t rows = draw(0, draw(0, 1) ? 10 : 150);
    // The last row has no more than its own numbers, which only a highway wants filled up.
    const int64_t filled = highway ? rounded_up(depth, lanes) : depth;
    const int64_t x_stride = filled + draw(0, 5), out_stride = columns + draw(0, 5);
    const std::vector<float> x = draw_floats(rows ? (rows - 1) * x_stride + filled : 0, 1.0f);
    const auto run = [&](const float *from, int64_t count, int threads) {
        std::vector<float> out(count ? (count - 1) * out_stride + columns : 0);
        if (elmore_run_dense(number, &layer, from, x_stride, count, out.data(), out_stride, threads) != 0) std::abort();
        return out;
    };
    const char *const kernel = highway ? "highway" : "dense";
    const std::vector<float> together = run(x.data(), rows, 1);
    for (int threads : {2, 3, 7})
        if (!same(run(x.data(), rows, threads), together))
            fail("another number of threads", kernel, number, rows, depth, columns);
    if (rows == 0) return;
    const int64_t row = draw(0, rows - 1);
    const std::vector<float> own(x.begin() + row * x_stride, x.begin() + row * x_stride + filled);
    const auto start = together.begin() + row * out_stride;
    if (!same(run(own.data(), 1, 2), {start, start + columns})) fail("a row alone", kernel, number, rows, depth, columns);
}

// A character CNN; now and then a character is none of its table's, which must be refused and nothing read.
void fuzz_characters(int64_t lanes) {
    const int64_t characters = draw(1, 300), groups = draw(1, 4), words = draw(0, 30);
    std::vector<int64_t> widths, counts;
    int64_t longest = 1, columns = 0, chunks = 0, tables = 0;
    for (int64_t group = 0; group < groups; ++group) {
        widths.push_back(draw(1, 7));
        counts.push_back(draw(1, draw(0, 1) ? 20 : 150));
        longest = std::max(longest, widths.back());
        columns += counts.back();
        const int64_t own = rounded_up(counts.back(), 4 * lanes) / (4 * lanes);
        chunks += own;
        tables += own * widths.back() * characters * 4 * lanes;
    }
    const std::vector<float> table = draw_floats(tables, 0.5f), bias = draw_floats(chunks * 4 * lanes, 0.5f);
    const ElmoreFilters filters{characters,   groups,      widths.data(),           counts.data(),
                                table.data(), bias.data(), static_cast<int32_t>(draw(0, 1))};
    const int64_t length = draw(longest, longest + 20), out_stride = columns + draw(0, 5);
    std::vector<int64_t> ids(words * length);
    for (int64_t word = 0; word < words; ++word) {
        // Most words end in one character over and over: in their padding.
        const int64_t varied = draw(0, length), padding = draw(0, characters - 1);
        for (int64_t place = 0; place < length; ++place)
            ids[word * length + place] = place < varied ? draw(0, characters - 1) : padding;
    }
    const auto run = [&](const int64_t *from, int64_t count, int threads, int expected) {
        std::vector<float> out(count ? (count - 1) * out_stride + columns : 0);
        if (elmore_pool_characters(&filters, from, count, length, out.data(), nullptr, out_stride, threads) != expected) std::abort();
        return out;
    };
    const std::vector<float> together = run(ids.data(), words, 1, 0);
    for (int threads : {2, 3, 7})
        if (!same(run(ids.data(), words, threads, 0), together))
            fail("another number of threads", "characters", ELMORE_FLOAT32, words, length, columns);
    if (words == 0) return;
    const int64_t word = draw(0, words - 1);
    const std::vector<int64_t> own(ids.begin() + word * length, ids.begin() + (word + 1) * length);
    const auto start = together.begin() + word * out_stride;
    if (!same(run(own.data(), 1, 2, 0), {start, start + columns}))
        fail("a word alone", "characters", ELMORE_FLOAT32, words, length, columns);
    const int64_t far = std::numeric_limits<int64_t>::max();
    for (int64_t strange : {int64_t{-1}, -far - 1, characters, far}) {
        std::vector<int64_t> broken = ids;
        broken[draw(0, words * length - 1)] = strange;
        run(broken.data(), words, 2, 2);
    }
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
        for (int round = 0; round < rounds; ++round) {
            fuzz_lstm(number, lanes);
            fuzz_dense(number, lanes);
            if (number == ELMORE_FLOAT32) {
                fuzz_characters(lanes);
                fuzz_training(lanes);
            }
        }
        std::printf("number %d: %d random layers of each kind, all clean\n", number, rounds);
    }
}
