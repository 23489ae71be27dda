// Inference kernels against loops in double precision. Buffers have exactly the sizes that `kernels.h` states. Results
// have the same bits with any number of threads, in any batch, and for sentences that share a row.

#include "support.h"

namespace {

constexpr float NOT_READ = std::numeric_limits<float>::quiet_NaN();

struct LstmResult {
    Floats outputs, h, c;
    bool operator==(const LstmResult &other) const {
        return same_bits(outputs, other.outputs) && same_bits(h, other.h) && same_bits(c, other.c);
    }
};

// A random layer.
struct Layer {
    int precision;
    int64_t directions, vector, cells, lanes;
    bool projected;
    Packed input, recurrent, projection;
    Floats bias, packed_bias;
    float cell_clip, projection_clip;

    static Layer drawn(int precision) {
        const bool projected = draw(0, 3) > 0;
        const int64_t directions = draw(1, 2), vector = draw(1, draw(0, 1) ? 20 : 200);
        return Layer(precision, directions, vector, projected ? draw(1, draw(0, 1) ? 40 : 700) : vector, projected);
    }

    Layer(int precision, int64_t directions, int64_t vector, int64_t cells, bool projected)
        : precision(precision),
          directions(directions),
          vector(vector),
          cells(cells),
          lanes(elmore_lanes(precision)),
          projected(projected),
          input(pack_gates(precision, directions, vector, cells, spread(vector), lanes)),
          recurrent(pack_gates(precision, directions, vector, cells, spread(vector), lanes)),
          projection(projection_of(precision, directions, cells, vector, lanes)),
          bias(draw_floats(directions * 4 * cells, draw(0, 3) ? 0.5f : 60.0f)),  // 60: saturated gates
          packed_bias(pack_gate_numbers(bias, directions, cells, lanes)),
          cell_clip(draw(0, 1) ? 1.0f : INFINITY),
          projection_clip(draw(0, 1) ? 0.5f : INFINITY) {}

    static float spread(int64_t depth) { return 1.0f / std::sqrt(static_cast<float>(depth)); }

    // Its rows are padded to whole vectors of cells.
    static Packed projection_of(int precision, int64_t directions, int64_t cells, int64_t vector, int64_t lanes) {
        return pack(precision, directions, rounded_up(cells, lanes), vector, spread(cells), lanes, ELMORE_CELLS_PER_BLOCK);
    }

    ElmoreLstm layer() const {
        return {directions,         vector,    cells,
                input.matrix(),     recurrent.matrix(), projected ? projection.matrix() : ElmoreMatrix{},
                packed_bias.data(), cell_clip, projection_clip};
    }

    std::string name(const char *what) const {
        char text[200];
        std::snprintf(text, sizeof text, "LSTM in %s (%s), %d directions, vector %d, %d cells: %s", PRECISIONS[precision],
                      elmore_instructions(precision), static_cast<int>(directions), static_cast<int>(vector),
                      static_cast<int>(cells), what);
        return text;
    }
};

// Inputs for a layer.
struct Rows {
    int64_t steps = 0, state_rows = 0;
    std::vector<int64_t> lengths;
    std::vector<uint8_t> starts;
    Floats inputs, h, c;

    int64_t count() const { return static_cast<int64_t>(lengths.size()); }

    LstmResult run(const Layer &layer, int threads) const {
        // Memory that nothing was written to is not zero.
        LstmResult to{Floats(inputs.size(), NOT_READ), Floats(layer.directions * count() * layer.vector, NOT_READ),
                      Floats(layer.directions * count() * layer.cells, NOT_READ)};
        const ElmoreLstm weights = layer.layer();
        const ElmoreLstmRun call{steps,    count(),  state_rows, lengths.data(),
                                 starts.empty() ? nullptr : starts.data(),
                                 inputs.data(), h.data(), c.data(), to.outputs.data(), to.h.data(), to.c.data(),
                                 nullptr, nullptr};
        require(elmore_run_lstm(layer.precision, &weights, &call, threads) == ELMORE_OK, layer.name("not run"));
        return to;
    }

    // Some steps of one row, of `source` (outer, steps, rows, size).
    Floats steps_of(const Floats &source, int64_t directions, int64_t size, int64_t row, int64_t first, int64_t length) const {
        Floats some;
        for (int64_t direction = 0; direction < directions; ++direction)
            for (int64_t step = first; step < first + length; ++step) {
                const float *start = source.data() + ((direction * steps + step) * count() + row) * size;
                some.insert(some.end(), start, start + size);
            }
        return some;
    }

    // The state of one row, of `source` (directions, rows, size).
    static Floats row_of(const Floats &source, int64_t directions, int64_t rows, int64_t size, int64_t row) {
        Floats some;
        for (int64_t direction = 0; direction < directions; ++direction) {
            const float *start = source.data() + (direction * rows + row) * size;
            some.insert(some.end(), start, start + size);
        }
        return some;
    }

    // A sentence of a row, alone.
    Rows sentence(const Layer &layer, int64_t row, int64_t first, int64_t length) const {
        const int64_t state_row = state_rows == 1 ? 0 : row;
        return {length, 1, {length}, {}, steps_of(inputs, layer.directions, layer.vector, row, first, length),
                row_of(h, layer.directions, state_rows, layer.vector, state_row),
                row_of(c, layer.directions, state_rows, layer.cells, state_row)};
    }
};

Rows draw_rows(const Layer &layer) {
    Rows rows;
    const int64_t count = draw(1, draw(0, 1) ? 10 : 150);
    rows.steps = draw(1, 12);
    for (int64_t row = 0; row < count; ++row) rows.lengths.push_back(draw(0, rows.steps));
    std::sort(rows.lengths.rbegin(), rows.lengths.rend());
    rows.state_rows = draw(0, 1) ? 1 : count;
    rows.inputs = draw_floats(layer.directions * rows.steps * count * layer.vector, 1.0f);
    // Beyond its end a row is not read.
    for (int64_t step = 0; step < layer.directions * rows.steps; ++step)
        for (int64_t row = 0; row < count; ++row)
            if (step % rows.steps >= rows.lengths[row])
                std::fill_n(rows.inputs.begin() + (step * count + row) * layer.vector, layer.vector, NOT_READ);
    rows.h = draw_floats(layer.directions * rows.state_rows * layer.vector, 1.0f);
    rows.c = draw_floats(layer.directions * rows.state_rows * layer.cells, 1.0f);
    return rows;
}

// One step of a direction in double precision; h and c are replaced.
void step_in_double(const Layer &layer, int64_t direction, const float *input, Doubles &h, Doubles &c) {
    const Doubles wide(input, input + layer.vector);
    const Doubles x = rounded_row(layer.precision, wide.data(), layer.vector);
    const Doubles last = rounded_row(layer.precision, h.data(), layer.vector);
    Doubles m(layer.cells);
    for (int64_t cell = 0; cell < layer.cells; ++cell) {
        double gates[4];
        for (int64_t gate = 0; gate < 4; ++gate) {
            const int64_t column = gate * layer.cells + cell;
            gates[gate] = layer.bias[direction * 4 * layer.cells + column];
            for (int64_t k = 0; k < layer.vector; ++k)
                gates[gate] += x[k] * layer.input.at(direction, k, column) + last[k] * layer.recurrent.at(direction, k, column);
        }
        c[cell] = clipped(sigmoid(gates[2]) * c[cell] + sigmoid(gates[0]) * std::tanh(gates[1]), layer.cell_clip);
        m[cell] = sigmoid(gates[3]) * std::tanh(c[cell]);
    }
    if (!layer.projected) {
        h = m;
        return;
    }
    for (int64_t first = 0; first < layer.cells; first += ELMORE_CELLS_PER_BLOCK) {
        const int64_t count = std::min<int64_t>(ELMORE_CELLS_PER_BLOCK, layer.cells - first);
        const Doubles rounded = rounded_row(layer.precision, m.data() + first, count);
        std::copy(rounded.begin(), rounded.end(), m.begin() + first);
    }
    for (int64_t column = 0; column < layer.vector; ++column) {
        double sum = 0.0;
        for (int64_t cell = 0; cell < layer.cells; ++cell) sum += m[cell] * layer.projection.at(direction, cell, column);
        h[column] = clipped(sum, layer.projection_clip);
    }
}

void compare_with_double(const Layer &layer, const Rows &rows, const LstmResult &found) {
    const int64_t row = draw_one_of(rows.count()), state_row = rows.state_rows == 1 ? 0 : row;
    const Rows own = rows.sentence(layer, row, 0, rows.lengths[row]);
    Doubles outputs, last_h, last_c;
    for (int64_t direction = 0; direction < layer.directions; ++direction) {
        const float *const start_h = rows.h.data() + (direction * rows.state_rows + state_row) * layer.vector;
        const float *const start_c = rows.c.data() + (direction * rows.state_rows + state_row) * layer.cells;
        Doubles h(start_h, start_h + layer.vector), c(start_c, start_c + layer.cells);
        for (int64_t step = 0; step < own.steps; ++step) {
            step_in_double(layer, direction, own.inputs.data() + (direction * own.steps + step) * layer.vector, h, c);
            outputs.insert(outputs.end(), h.begin(), h.end());
        }
        last_h.insert(last_h.end(), h.begin(), h.end());
        last_c.insert(last_c.end(), c.begin(), c.end());
    }
    // Errors grow from step to step.
    const double tolerance = tolerance_of(layer.precision) * static_cast<double>(1 + own.steps);
    require_close(rows.steps_of(found.outputs, layer.directions, layer.vector, row, 0, own.steps), outputs, tolerance,
                  layer.name("outputs"));
    require_close(Rows::row_of(found.h, layer.directions, rows.count(), layer.vector, row), last_h, tolerance,
                  layer.name("last h"));
    require_close(Rows::row_of(found.c, layer.directions, rows.count(), layer.cells, row), last_c, tolerance,
                  layer.name("last c"));
    for (int64_t direction = 0; direction < layer.directions; ++direction)
        for (int64_t step = rows.lengths[row]; step < rows.steps; ++step)
            for (int64_t column = 0; column < layer.vector; ++column)
                require(found.outputs[((direction * rows.steps + step) * rows.count() + row) * layer.vector + column] == 0,
                        layer.name("outputs beyond a row's end"));
}

void compare_with_rows_alone(const Layer &layer, const Rows &rows, const LstmResult &together) {
    const int64_t row = draw_one_of(rows.count()), length = rows.lengths[row];
    const Rows alone = rows.sentence(layer, row, 0, length);
    const LstmResult expected{rows.steps_of(together.outputs, layer.directions, layer.vector, row, 0, length),
                              Rows::row_of(together.h, layer.directions, rows.count(), layer.vector, row),
                              Rows::row_of(together.c, layer.directions, rows.count(), layer.cells, row)};
    for (int threads : {1, 2, 3}) require(alone.run(layer, threads) == expected, layer.name("a row alone"));
}

// Let sentences start at random steps of the rows, and compare one of them with the sentence alone.
void compare_packed_rows(const Layer &layer, Rows rows) {
    const int64_t count = rows.count();
    rows.starts.assign(layer.directions * rows.steps * count, 0);
    for (uint8_t &start : rows.starts) start = draw(0, 3) == 0 ? static_cast<uint8_t>(draw(1, 255)) : 0;
    // Sentences are the same in both directions here.
    for (int64_t direction = 1; direction < layer.directions; ++direction)
        std::copy_n(rows.starts.begin(), rows.steps * count, rows.starts.begin() + direction * rows.steps * count);
    const LstmResult together = rows.run(layer, 1);
    for (int threads : THREAD_COUNTS)
        require(rows.run(layer, threads) == together, layer.name("packed rows with another number of threads"));
    const int64_t row = draw(0, count - 1);
    int64_t first = 0;
    for (int64_t step = 1; step <= rows.lengths[row]; ++step) {
        if (step < rows.lengths[row] && rows.starts[step * count + row] == 0) continue;
        const Rows alone = rows.sentence(layer, row, first, step - first);
        require(same_bits(alone.run(layer, 1).outputs,
                          rows.steps_of(together.outputs, layer.directions, layer.vector, row, first, step - first)),
                layer.name("a sentence of a packed row"));
        first = step;
    }
}

void test_wrong_rows(const Layer &layer, const Rows &rows) {
    const ElmoreLstm weights = layer.layer();
    Floats outputs(rows.inputs.size());
    const auto status = [&](const Rows &wrong, int precision) {
        const ElmoreLstmRun call{wrong.steps, wrong.count(), wrong.state_rows, wrong.lengths.data(), nullptr,
                                 wrong.inputs.data(), wrong.h.data(), wrong.c.data(), outputs.data(), nullptr, nullptr,
                                 nullptr, nullptr};
        return elmore_run_lstm(precision, &weights, &call, 2);
    };
    Rows wrong = rows;
    wrong.lengths[draw(0, rows.count() - 1)] = draw(0, 1) ? rows.steps + 1 : -1;
    require(status(wrong, layer.precision) == ELMORE_WRONG_INPUT, layer.name("a wrong length is accepted"));
    wrong = rows;
    wrong.state_rows = rows.count() + 1;
    require(status(wrong, layer.precision) == ELMORE_WRONG_INPUT, layer.name("wrong state rows are accepted"));
    if (rows.count() > 1 && rows.lengths[0] > rows.lengths[rows.count() - 1]) {
        wrong = rows;
        std::reverse(wrong.lengths.begin(), wrong.lengths.end());
        require(status(wrong, layer.precision) == ELMORE_WRONG_INPUT, layer.name("increasing lengths are accepted"));
    }
    require(status(rows, 3) == ELMORE_NO_KERNEL, layer.name("a wrong precision is accepted"));
}

// A NaN in an input makes all later outputs of its row NaN, in its direction, and changes no other output.
void test_nan(const Layer &layer, Rows rows, const LstmResult &expected) {
    if (rows.lengths[0] == 0) return;
    int64_t longest = 0;
    while (longest < rows.count() && rows.lengths[longest] > 0) ++longest;
    const int64_t row = draw(0, longest - 1), step = draw(0, rows.lengths[row] - 1), direction = draw(0, layer.directions - 1);
    const auto first_of = [&](int64_t of_direction, int64_t of_step, int64_t of_row) {
        return ((of_direction * rows.steps + of_step) * rows.count() + of_row) * layer.vector;
    };
    // The last two become another number if they are rounded to bfloat16 as numbers are.
    constexpr uint32_t NANS[] = {0x7fc00000u, 0x7fffffffu, 0xffffffffu};
    // An infinite number has no scale in int8.
    const float wrong = layer.precision == ELMORE_INT8 && draw(0, 1) ? INFINITY : std::bit_cast<float>(NANS[draw(0, 2)]);
    rows.inputs[first_of(direction, step, row) + draw(0, layer.vector - 1)] = wrong;
    const LstmResult found = rows.run(layer, static_cast<int>(draw(1, 3)));
    for (int64_t d = 0; d < layer.directions; ++d)
        for (int64_t t = 0; t < rows.steps; ++t)
            for (int64_t r = 0; r < rows.count(); ++r)
                for (int64_t column = 0; column < layer.vector; ++column) {
                    const size_t index = first_of(d, t, r) + column;
                    if (d == direction && r == row && t >= step && t < rows.lengths[row])
                        require(std::isnan(found.outputs[index]), layer.name("an output after a NaN is not NaN"));
                    else
                        require(found.outputs[index] == expected.outputs[index], layer.name("a NaN changes another output"));
                }
}

}  // namespace

void test_lstm(int precision) {
    const Layer layer = Layer::drawn(precision);
    const Rows rows = draw_rows(layer);
    const LstmResult together = rows.run(layer, 1);
    compare_with_double(layer, rows, together);
    for (int threads : THREAD_COUNTS)
        require(rows.run(layer, threads) == together, layer.name("another number of threads"));
    compare_with_rows_alone(layer, rows, together);
    compare_packed_rows(layer, rows);
    test_wrong_rows(layer, rows);
    test_nan(layer, rows, together);
}

// A dense layer or a highway, over rows with gaps between them.
void test_dense(int precision) {
    const int64_t lanes = elmore_lanes(precision);
    const bool highway = draw(0, 1);
    const int64_t depth = draw(1, draw(0, 1) ? 20 : 600), columns = highway ? depth : draw(1, draw(0, 1) ? 20 : 300);
    const float spread = 1.0f / std::sqrt(static_cast<float>(depth));
    const Packed packed = highway ? pack_highway(precision, depth, spread, lanes)
                                  : pack(precision, 1, depth, columns, spread, lanes);
    const Floats bias = draw_floats((highway ? 2 : 1) * columns, 0.5f);
    Floats packed_bias(highway ? 2 * rounded_up(columns, 2 * lanes) : rounded_up(columns, 4 * lanes));
    for (int64_t column = 0; column < static_cast<int64_t>(bias.size()); ++column) {
        const int64_t own = column % columns, part = column / columns;
        packed_bias[highway ? own / (2 * lanes) * 4 * lanes + part * 2 * lanes + own % (2 * lanes) : own] = bias[column];
    }
    const ElmoreDense layer{depth, columns, packed.matrix(), packed_bias.data(), highway};
    const int64_t rows = draw(0, draw(0, 1) ? 10 : 150);
    // The last row has no padding but that of a highway, to whole vectors.
    const int64_t filled = highway ? rounded_up(depth, lanes) : depth;
    const int64_t x_stride = filled + draw(0, 5), out_stride = columns + draw(0, 5);
    Floats x = draw_floats(rows ? (rows - 1) * x_stride + filled : 0, 1.0f);
    // Multiples of 1/256 from 1 to 2 lie on a bfloat16, or in the middle between two.
    if (draw(0, 1))
        for (float &number : x) number = std::nearbyint(number * 256.0f) / 256.0f;
    const std::string name = std::string(highway ? "highway" : "dense layer") + " in " + PRECISIONS[precision] + " (" +
                             elmore_instructions(precision) + "): ";
    const auto run = [&](const float *from, int64_t count, int threads) {
        Floats out(count ? (count - 1) * out_stride + columns : 0, NOT_READ);
        require(elmore_run_dense(precision, &layer, from, x_stride, count, out.data(), out_stride, threads) == ELMORE_OK,
                name + "not run");
        return out;
    };
    const Floats together = run(x.data(), rows, 1);
    for (int threads : THREAD_COUNTS)
        require(same_bits(run(x.data(), rows, threads), together), name + "another number of threads");
    if (rows == 0) return;
    const int64_t row = draw_one_of(rows);
    const Floats own(x.begin() + row * x_stride, x.begin() + row * x_stride + filled);
    const Floats found(together.begin() + row * out_stride, together.begin() + row * out_stride + columns);
    require(same_bits(run(own.data(), 1, 2), found), name + "a row alone");
    const Doubles wide(own.begin(), own.begin() + depth), factors = rounded_row(precision, wide.data(), depth);
    Doubles expected;
    const auto output = [&](int64_t column) {
        double sum = bias[column];
        for (int64_t k = 0; k < depth; ++k) sum += factors[k] * packed.at(0, k, column);
        return sum;
    };
    for (int64_t column = 0; column < columns; ++column) {
        if (!highway) {
            expected.push_back(output(column));
            continue;
        }
        const double t = std::max(0.0, output(column)), g = sigmoid(output(columns + column));
        expected.push_back(g * t + (1 - g) * wide[column]);
    }
    // Inputs are rounded once, so bfloat16 gives nearly the same sums.
    require_close(found, expected, precision == ELMORE_BFLOAT16 ? 2e-5 : tolerance_of(precision), name + "outputs");
}

// Filters of a character CNN.
void test_characters() {
    const int64_t lanes = elmore_lanes(ELMORE_FLOAT32), width = 4 * lanes;
    const int64_t characters = draw(1, 300), groups = draw(1, 4), words = draw(1, 30);
    std::vector<int64_t> widths, counts;
    int64_t longest = 1, columns = 0, tables = 0, biases = 0;
    for (int64_t group = 0; group < groups; ++group) {
        widths.push_back(draw(1, 7));
        counts.push_back(draw(1, draw(0, 1) ? 20 : 150));
        longest = std::max(longest, widths.back());
        columns += counts.back();
        biases += rounded_up(counts.back(), width);
        tables += rounded_up(counts.back(), width) * widths.back() * characters;
    }
    const Floats table = draw_floats(tables, 0.5f), bias = draw_floats(biases, 0.5f);
    const int64_t length = draw(longest, longest + 20), out_stride = columns + draw(0, 5);
    std::vector<int64_t> ids(words * length);
    for (int64_t word = 0; word < words; ++word) {
        const int64_t padding = draw(0, length);  // words end with copies of one character
        for (int64_t index = 0; index < length; ++index)
            ids[word * length + index] = index < length - padding ? draw(0, characters - 1) : characters - 1;
    }
    const ElmoreFilters filters{characters, groups, widths.data(), counts.data(), table.data(), bias.data(), draw(0, 1) == 1};
    const auto run = [&](const std::vector<int64_t> &from, int threads, int expected) {
        const int64_t count = static_cast<int64_t>(from.size()) / length;
        Floats out((count - 1) * out_stride + columns, NOT_READ);
        require(elmore_pool_characters(&filters, from.data(), count, length, out.data(), nullptr, out_stride, threads) == expected,
                "characters: status");
        return out;
    };
    const Floats together = run(ids, 1, ELMORE_OK);
    for (int threads : THREAD_COUNTS)
        require(same_bits(run(ids, threads, ELMORE_OK), together), "characters: another number of threads");
    const int64_t word = draw_one_of(words);
    const std::vector<int64_t> own(ids.begin() + word * length, ids.begin() + (word + 1) * length);
    const Floats found(together.begin() + word * out_stride, together.begin() + word * out_stride + columns);
    require(same_bits(run(own, 2, ELMORE_OK), found), "characters: a word alone");
    Doubles expected;
    int64_t chunk_table = 0, chunk_bias = 0;
    for (int64_t group = 0; group < groups; ++group) {
        for (int64_t filter = 0; filter < counts[group]; ++filter) {
            const int64_t chunk = chunk_table + filter / width * widths[group] * characters * width;
            double largest = -INFINITY;
            for (int64_t position = 0; position + widths[group] <= length; ++position) {
                double sum = 0.0;
                for (int64_t offset = 0; offset < widths[group]; ++offset)
                    sum += table[chunk + (offset * characters + own[position + offset]) * width + filter % width];
                largest = std::max(largest, sum);
            }
            largest += bias[chunk_bias + filter];
            expected.push_back(filters.tanh ? std::tanh(largest) : std::max(0.0, largest));
        }
        chunk_table += rounded_up(counts[group], width) * widths[group] * characters;
        chunk_bias += rounded_up(counts[group], width);
    }
    require_close(found, expected, tolerance_of(ELMORE_FLOAT32), "characters: responses");
    const int64_t far = std::numeric_limits<int64_t>::max();
    for (int64_t wrong : {int64_t{-1}, -far - 1, characters, far}) {
        std::vector<int64_t> broken = ids;
        broken[draw(0, words * length - 1)] = wrong;
        run(broken, 2, ELMORE_WRONG_INPUT);
    }
}
