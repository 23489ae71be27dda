// Training kernels against loops in double precision; their results have the same bits with any number of threads.

#include "support.h"

namespace {

using Results = std::vector<Floats>;

constexpr double TOLERANCE = 1e-5;
constexpr float NOT_WRITTEN = std::numeric_limits<float>::quiet_NaN();

// Run with other numbers of threads, and require the same bits.
Results checked(const std::function<Results(int threads)> &results, const std::string &what) {
    const Results alone = results(1);
    for (int threads : THREAD_COUNTS) {
        const Results others = results(threads);
        for (size_t part = 0; part < alone.size(); ++part)
            require(same_bits(others[part], alone[part]), what + ": another number of threads");
    }
    return alone;
}

// The shape of a layer in training, and of what it is run on.
struct Shape {
    int64_t directions, vector, cells, rows, steps, lanes;
    bool projected;

    int64_t filled() const { return rounded_up(cells, lanes); }
    int64_t panels() const { return filled() / lanes; }
    int64_t columns() const { return rounded_up(vector, 4 * lanes); }
    int64_t row(int64_t direction, int64_t step, int64_t row) const { return (direction * steps + step) * rows + row; }
    // Of the saved gates, (directions, panels, steps, rows, 4 vectors).
    int64_t gate(int64_t direction, int64_t step, int64_t row, int64_t gate, int64_t cell) const {
        return ((((direction * panels() + cell / lanes) * steps + step) * rows + row) * 4 + gate) * lanes + cell % lanes;
    }
    // Of the saved cells, (directions, steps + 1, rows, cells).
    int64_t cell(int64_t direction, int64_t step, int64_t row, int64_t cell) const {
        return ((direction * (steps + 1) + step) * rows + row) * filled() + cell;
    }
};

struct Weights {
    Packed input, recurrent, projection;  // (vector, 4 cells) twice, (cells, vector)
    Floats bias, packed_bias;

    explicit Weights(const Shape &shape)
        : input(pack_gates(ELMORE_FLOAT32, shape.directions, shape.vector, shape.cells, spread(shape), shape.lanes)),
          recurrent(pack_gates(ELMORE_FLOAT32, shape.directions, shape.vector, shape.cells, spread(shape), shape.lanes)),
          projection(pack(ELMORE_FLOAT32, shape.directions, shape.filled(), shape.vector, 0.1f, shape.lanes)),
          bias(draw_floats(shape.directions * 4 * shape.cells, 0.5f)),
          packed_bias(pack_gate_numbers(bias, shape.directions, shape.cells, shape.lanes)) {}

    static float spread(const Shape &shape) { return 1.0f / std::sqrt(static_cast<float>(shape.vector)); }

    // (directions, 4 cells in the order of panels, vector), packed.
    static Floats transposed_gates(const Shape &shape, const Packed &matrix) {
        Floats to(shape.directions * 4 * shape.filled() * shape.columns());
        const int64_t width = 4 * shape.lanes, depth = 4 * shape.filled();
        for (int64_t direction = 0; direction < shape.directions; ++direction)
            for (int64_t column = 0; column < shape.vector; ++column)
                for (int64_t gate = 0; gate < 4; ++gate)
                    for (int64_t cell = 0; cell < shape.cells; ++cell) {
                        const int64_t row = (cell / shape.lanes * 4 + gate) * shape.lanes + cell % shape.lanes;
                        const int64_t panel = direction * (shape.columns() / width) + column / width;
                        to[(panel * depth + row) * width + column % width] =
                            static_cast<float>(matrix.at(direction, column, gate * shape.cells + cell));
                    }
        return to;
    }

    // (directions, vector, cells), packed.
    static Floats transposed_projection(const Shape &shape, const Packed &matrix) {
        const int64_t width = 4 * shape.lanes, panels = divided_up(shape.filled(), width);
        Floats to(shape.directions * panels * width * shape.vector);
        for (int64_t direction = 0; direction < shape.directions; ++direction)
            for (int64_t cell = 0; cell < shape.cells; ++cell)
                for (int64_t column = 0; column < shape.vector; ++column)
                    to[((direction * panels + cell / width) * shape.vector + column) * width + cell % width] =
                        static_cast<float>(matrix.at(direction, cell, column));
        return to;
    }
};

// The gradients of a layer, unpacked.
struct Gradients {
    Doubles inputs, h, c, input, recurrent, bias, projection;
    explicit Gradients(const Shape &shape)
        : inputs(shape.directions * shape.steps * shape.rows * shape.vector),
          h(shape.directions * shape.rows * shape.vector),
          c(shape.directions * shape.rows * shape.cells),
          input(shape.directions * shape.vector * 4 * shape.cells),
          recurrent(input.size()),
          bias(shape.directions * 4 * shape.cells),
          projection(shape.directions * shape.cells * shape.vector) {}
};

// What the backward pass reads.
struct Forward {
    std::vector<int64_t> lengths;
    Floats inputs, h, c, outputs, gates, cells, d_outputs;
    float cell_clip, projection_clip;
    float d_last;  // the gradient of each number of the last state
};

// One step back, of one row, in double precision. d_h and d_c are replaced by those of the step before.
void step_back(const Shape &shape, const Weights &weights, const Forward &forward, int64_t direction, int64_t step,
               int64_t row, double *d_h, double *d_c, Gradients &to) {
    const int64_t vector = shape.vector, cells = shape.cells, here = shape.row(direction, step, row);
    const float *const x = forward.inputs.data() + here * vector;
    const float *const before = step == 0 ? forward.h.data() + (direction * shape.rows + row) * vector
                                          : forward.outputs.data() + shape.row(direction, step - 1, row) * vector;
    const double clip = shape.projected ? forward.projection_clip : INFINITY;
    Doubles d_projected(vector), d_m(cells), d_gates(4 * cells), d_before(vector);
    for (int64_t column = 0; column < vector; ++column) {
        const double gradient = d_h[column] + forward.d_outputs[here * vector + column];
        d_projected[column] = std::fabs(forward.outputs[here * vector + column]) >= clip ? 0.0 : gradient;
    }
    for (int64_t cell = 0; cell < cells; ++cell) {
        const auto gate = [&](int64_t number) { return static_cast<double>(forward.gates[shape.gate(direction, step, row, number, cell)]); };
        const double i = gate(0), j = gate(1), f = gate(2), o = gate(3);
        const double c_before = forward.cells[shape.cell(direction, step, row, cell)];
        const double c_after = forward.cells[shape.cell(direction, step + 1, row, cell)], squashed = std::tanh(c_after);
        if (shape.projected)
            for (int64_t column = 0; column < vector; ++column) {
                d_m[cell] += d_projected[column] * weights.projection.at(direction, cell, column);
                to.projection[(direction * cells + cell) * vector + column] += d_projected[column] * o * squashed;
            }
        else
            d_m[cell] = d_projected[cell];
        double d = d_c[cell] + d_m[cell] * o * (1 - squashed * squashed);
        if (std::fabs(c_after) >= forward.cell_clip) d = 0.0;
        d_gates[cell] = d * j * i * (1 - i);
        d_gates[cells + cell] = d * i * (1 - j * j);
        d_gates[2 * cells + cell] = d * c_before * f * (1 - f);
        d_gates[3 * cells + cell] = d_m[cell] * squashed * o * (1 - o);
        d_c[cell] = d * f;
    }
    for (int64_t column = 0; column < 4 * cells; ++column) {
        to.bias[direction * 4 * cells + column] += d_gates[column];
        for (int64_t k = 0; k < vector; ++k) {
            const int64_t index = (direction * vector + k) * 4 * cells + column;
            to.input[index] += x[k] * d_gates[column];
            to.recurrent[index] += before[k] * d_gates[column];
            to.inputs[here * vector + k] += d_gates[column] * weights.input.at(direction, k, column);
            d_before[k] += d_gates[column] * weights.recurrent.at(direction, k, column);
        }
    }
    std::copy(d_before.begin(), d_before.end(), d_h);
}

Gradients gradients_in_double(const Shape &shape, const Weights &weights, const Forward &forward) {
    Gradients to(shape);
    std::fill(to.h.begin(), to.h.end(), forward.d_last);
    std::fill(to.c.begin(), to.c.end(), forward.d_last);
    for (int64_t direction = 0; direction < shape.directions; ++direction)
        for (int64_t row = 0; row < shape.rows; ++row) {
            const int64_t state = direction * shape.rows + row;
            for (int64_t step = forward.lengths[row] - 1; step >= 0; --step)
                step_back(shape, weights, forward, direction, step, row, to.h.data() + state * shape.vector,
                          to.c.data() + state * shape.cells, to);
        }
    return to;
}

// From packed gradients of gates (directions, panels, rows, 4 vectors) to (directions, rows, 4 cells).
Floats unpacked_gates(const Shape &shape, const Floats &packed, int64_t rows) {
    Floats to(shape.directions * rows * 4 * shape.cells);
    for (int64_t direction = 0; direction < shape.directions; ++direction)
        for (int64_t row = 0; row < rows; ++row)
            for (int64_t gate = 0; gate < 4; ++gate)
                for (int64_t cell = 0; cell < shape.cells; ++cell)
                    to[(direction * rows + row) * 4 * shape.cells + gate * shape.cells + cell] =
                        packed[((direction * shape.panels() + cell / shape.lanes) * rows + row) * 4 * shape.lanes +
                               gate * shape.lanes + cell % shape.lanes];
    return to;
}

Shape draw_shape() {
    const bool projected = draw(0, 3) > 0;
    const int64_t vector = draw(1, draw(0, 2) ? 20 : 150), cells = projected ? draw(1, draw(0, 2) ? 40 : 400) : vector;
    const int64_t rows = draw(1, draw(0, 3) ? 10 : 150);
    return {draw(1, 2), vector, cells, rows, draw(1, 7), elmore_lanes(ELMORE_FLOAT32), projected};
}

}  // namespace

void test_lstm_training() {
    const Shape shape = draw_shape();
    const Weights weights(shape);
    Forward forward{};
    for (int64_t row = 0; row < shape.rows; ++row) forward.lengths.push_back(draw(0, shape.steps));
    std::sort(forward.lengths.rbegin(), forward.lengths.rend());
    forward.inputs = draw_floats(shape.directions * shape.steps * shape.rows * shape.vector, 1.0f);
    forward.h = draw_floats(shape.directions * shape.rows * shape.vector, 1.0f);
    forward.c = draw_floats(shape.directions * shape.rows * shape.cells, 1.0f);
    forward.d_outputs = draw_floats(forward.inputs.size(), 1.0f);
    forward.cell_clip = draw(0, 1) ? 1.0f : INFINITY;
    forward.projection_clip = draw(0, 1) ? 0.5f : INFINITY;
    forward.d_last = 0.5f;
    const Floats back_input = Weights::transposed_gates(shape, weights.input);
    const Floats back_recurrent = Weights::transposed_gates(shape, weights.recurrent);
    const Floats back_projection = Weights::transposed_projection(shape, weights.projection);
    const ElmoreLstm layer{shape.directions, shape.vector, shape.cells, weights.input.matrix(), weights.recurrent.matrix(),
                           shape.projected ? weights.projection.matrix() : ElmoreMatrix{}, weights.packed_bias.data(),
                           forward.cell_clip, forward.projection_clip};
    const bool wants_inputs = draw(0, 3) > 0, frozen = draw(0, 3) == 0;
    const int64_t cell_columns = rounded_up(shape.filled(), 4 * shape.lanes);
    const auto results = [&](int threads) -> Results {
        Floats outputs(forward.inputs.size(), NOT_WRITTEN), last_h(forward.h.size()), last_c(forward.c.size());
        Floats gates(shape.directions * shape.panels() * shape.steps * shape.rows * 4 * shape.lanes);
        Floats cells(shape.directions * (shape.steps + 1) * shape.rows * shape.filled());
        const ElmoreLstmRun run{shape.steps, shape.rows, shape.rows, forward.lengths.data(), nullptr, forward.inputs.data(),
                                forward.h.data(), forward.c.data(), outputs.data(), last_h.data(), last_c.data(),
                                gates.data(), cells.data()};
        require(elmore_run_lstm(ELMORE_FLOAT32, &layer, &run, threads) == ELMORE_OK, "LSTM training: forward");
        Floats d_inputs(wants_inputs ? outputs.size() : 0, NOT_WRITTEN), d_h(last_h.size(), forward.d_last);
        Floats d_c(shape.directions * shape.rows * shape.filled(), forward.d_last);
        Floats d_input(frozen ? 0 : weights.input.floats().size()), d_recurrent(d_input.size());
        Floats d_bias(frozen ? 0 : weights.packed_bias.size());
        Floats d_projection(frozen ? 0 : shape.directions * shape.vector * cell_columns);
        const ElmoreLstmGradients gradients{
            shape.directions, shape.vector, shape.cells, back_input.data(), back_recurrent.data(),
            shape.projected ? back_projection.data() : nullptr, forward.cell_clip, forward.projection_clip, shape.steps,
            shape.rows, forward.lengths.data(), forward.inputs.data(), forward.h.data(), outputs.data(), gates.data(),
            cells.data(), forward.d_outputs.data(), wants_inputs ? d_inputs.data() : nullptr, d_h.data(), d_c.data(),
            frozen ? nullptr : d_input.data(), d_recurrent.data(), d_bias.data(), d_projection.data()};
        require(elmore_run_lstm_backward(&gradients, threads) == ELMORE_OK, "LSTM training: backward");
        return {outputs, last_h, last_c, gates, cells, d_inputs, d_h, d_c, d_input, d_recurrent, d_bias, d_projection};
    };
    const Results found = checked(results, "LSTM training");
    forward.outputs = found[0];
    forward.gates = found[3];
    forward.cells = found[4];
    const Gradients expected = gradients_in_double(shape, weights, forward);
    if (wants_inputs) require_close(found[5], expected.inputs, TOLERANCE, "LSTM training: inputs");
    require_close(found[6], expected.h, TOLERANCE, "LSTM training: h");
    Floats d_c;
    for (int64_t row = 0; row < shape.directions * shape.rows; ++row)
        d_c.insert(d_c.end(), found[7].begin() + row * shape.filled(), found[7].begin() + row * shape.filled() + shape.cells);
    require_close(d_c, expected.c, TOLERANCE, "LSTM training: c");
    if (frozen) return;
    require_close(unpacked_gates(shape, found[8], shape.vector), expected.input, TOLERANCE, "LSTM training: input weights");
    require_close(unpacked_gates(shape, found[9], shape.vector), expected.recurrent, TOLERANCE,
                  "LSTM training: recurrent weights");
    require_close(unpacked_gates(shape, found[10], 1), expected.bias, TOLERANCE, "LSTM training: bias");
    if (!shape.projected) return;
    const int64_t width = 4 * shape.lanes;
    Floats d_projection(expected.projection.size());
    for (int64_t direction = 0; direction < shape.directions; ++direction)
        for (int64_t cell = 0; cell < shape.cells; ++cell)
            for (int64_t column = 0; column < shape.vector; ++column)
                d_projection[(direction * shape.cells + cell) * shape.vector + column] =
                    found[11][((direction * (cell_columns / width) + cell / width) * shape.vector + column) * width + cell % width];
    require_close(d_projection, expected.projection, TOLERANCE, "LSTM training: projection");
}

// A product of matrices in rows or in columns, with gaps.
void test_product() {
    const int64_t rows = draw(1, draw(0, 3) ? 60 : 200), depth = draw(1, draw(0, 3) ? 40 : 2100), columns = draw(1, 150);
    const bool left_transposed = draw(0, 1), right_transposed = draw(0, 1), adds = draw(0, 1);
    const int64_t left_stride = (left_transposed ? rows : depth) + draw(0, 5);
    const int64_t right_stride = (right_transposed ? depth : columns) + draw(0, 5), out_stride = columns + draw(0, 5);
    const auto size = [](int64_t count, int64_t stride, int64_t last) { return (count - 1) * stride + last; };
    const Floats left = draw_floats(left_transposed ? size(depth, left_stride, rows) : size(rows, left_stride, depth), 1.0f);
    const Floats right =
        draw_floats(right_transposed ? size(columns, right_stride, depth) : size(depth, right_stride, columns), 1.0f);
    const int64_t left_row = left_transposed ? 1 : left_stride, left_depth = left_transposed ? left_stride : 1;
    const int64_t right_depth = right_transposed ? 1 : right_stride, right_column = right_transposed ? right_stride : 1;
    const auto results = [&](int threads) -> Results {
        Floats out(size(rows, out_stride, columns), 0.25f);
        const ElmoreProduct product{rows, depth, columns, left.data(), left_row, left_depth, right.data(), right_depth,
                                    right_column, out.data(), out_stride, adds};
        require(elmore_multiply(&product, threads) == ELMORE_OK, "product: not run");
        return {out};
    };
    const Floats found = checked(results, "product")[0];
    Doubles expected(found.size(), 0.25);
    for (int64_t row = 0; row < rows; ++row)
        for (int64_t column = 0; column < columns; ++column) {
            double sum = adds ? 0.25 : 0.0;
            for (int64_t k = 0; k < depth; ++k)
                sum += static_cast<double>(left[row * left_row + k * left_depth]) * right[k * right_depth + column * right_column];
            expected[row * out_stride + column] = sum;
        }
    require_close(found, expected, TOLERANCE, "product");
}

void test_highway_training() {
    const int64_t rows = draw(0, 40), columns = draw(1, 600);
    const Floats x = draw_floats(rows * columns, 1.0f), bias = draw_floats(2 * columns, 1.0f);
    const Floats products = draw_floats(rows * 2 * columns, 1.0f), d_out = draw_floats(x.size(), 1.0f);
    const auto results = [&](int threads) -> Results {
        Floats both = products, out(x.size(), NOT_WRITTEN), d_x(x.size(), NOT_WRITTEN), d_both(both.size(), NOT_WRITTEN),
               d_bias(bias.size(), NOT_WRITTEN);
        const ElmoreHighway forward{rows, columns, x.data(), bias.data(), both.data(), out.data(), nullptr, nullptr, nullptr, nullptr};
        require(elmore_run_highway(&forward, threads) == ELMORE_OK, "highway training: forward");
        const ElmoreHighway back{rows, columns, x.data(), nullptr, both.data(), nullptr, d_out.data(), d_x.data(), d_both.data(), d_bias.data()};
        require(elmore_run_highway(&back, threads) == ELMORE_OK, "highway training: backward");
        return {out, d_x, d_both, d_bias};
    };
    const Results found = checked(results, "highway training");
    Doubles out(x.size()), d_x(x.size()), d_both(products.size()), d_bias(bias.size());
    for (int64_t row = 0; row < rows; ++row)
        for (int64_t column = 0; column < columns; ++column) {
            const int64_t index = row * columns + column, both = index + row * columns;
            const double t = std::max(0.0, static_cast<double>(products[both]) + bias[column]);
            const double g = sigmoid(static_cast<double>(products[both + columns]) + bias[columns + column]);
            out[index] = g * t + (1 - g) * x[index];
            d_x[index] = d_out[index] * (1 - g);
            d_both[both] = t > 0 ? d_out[index] * g : 0.0;
            d_both[both + columns] = d_out[index] * (t - x[index]) * g * (1 - g);
            d_bias[column] += d_both[both];
            d_bias[columns + column] += d_both[both + columns];
        }
    const Doubles *const expected[] = {&out, &d_x, &d_both, &d_bias};
    for (size_t part = 0; part < found.size(); ++part) require_close(found[part], *expected[part], TOLERANCE, "highway training");
}

void test_softmax() {
    const int64_t lanes = elmore_lanes(ELMORE_FLOAT32), width = 4 * lanes;
    const bool in_passes = draw(0, 7) == 0;  // more rows than are computed at once
    const int64_t rows = in_passes ? draw(769, 1700) : draw(0, draw(0, 3) ? 10 : 200);
    const int64_t vector = draw(1, in_passes || draw(0, 1) ? 20 : 150);
    const int64_t candidates = draw(1, in_passes ? 100 : draw(0, 3) ? 300 : 3000);
    const int64_t filled = rounded_up(candidates, width), columns = rounded_up(vector, width);
    const Floats hidden = draw_floats(rows * vector, 1.0f);
    const Packed weights = pack(ELMORE_FLOAT32, 1, vector, candidates, 1.0f / std::sqrt(static_cast<float>(vector)), lanes);
    Floats back(filled * columns);
    for (int64_t candidate = 0; candidate < candidates; ++candidate)
        for (int64_t column = 0; column < vector; ++column)
            back[(column / width * filled + candidate) * width + column % width] = static_cast<float>(weights.at(0, column, candidate));
    Floats offsets = draw_floats(filled, 1.0f);
    std::fill(offsets.begin() + candidates, offsets.end(), -INFINITY);
    const Floats target_logits = draw_floats(rows, 1.0f);
    std::vector<int64_t> target_columns(rows);
    for (int64_t &column : target_columns) column = draw(-1, 2 * candidates);
    const auto results = [&](int threads) -> Results {
        Floats highest(rows, NOT_WRITTEN), sums(rows, NOT_WRITTEN), d_hidden(hidden.size(), NOT_WRITTEN), d_weights(vector * filled), d_offsets(filled);
        const ElmoreSoftmax softmax{rows, vector, candidates, hidden.data(), weights.floats().data(), back.data(),
                                    offsets.data(), target_logits.data(), target_columns.data(), highest.data(),
                                    sums.data(), d_hidden.data(), d_weights.data(), d_offsets.data()};
        require(elmore_run_softmax(&softmax, threads) == ELMORE_OK, "softmax: not run");
        return {highest, sums, d_hidden, d_weights, d_offsets};
    };
    const Results found = checked(results, "softmax");
    Doubles losses(rows), d_hidden(hidden.size()), d_weights(vector * filled), d_offsets(filled);
    Floats found_losses(rows);
    for (int64_t row = 0; row < rows; ++row) {
        Doubles logits(candidates);
        double highest = target_logits[row], sum = 0.0;
        for (int64_t candidate = 0; candidate < candidates; ++candidate) {
            double logit = offsets[candidate];
            for (int64_t k = 0; k < vector; ++k) logit += hidden[row * vector + k] * weights.at(0, k, candidate);
            logits[candidate] = candidate == target_columns[row] ? -INFINITY : logit;
            highest = std::max(highest, logits[candidate]);
        }
        for (double logit : logits) sum += std::exp(logit - highest);
        sum += std::exp(target_logits[row] - highest);
        losses[row] = highest + std::log(sum);
        found_losses[row] = found[0][row] + std::log(found[1][row]);
        for (int64_t candidate = 0; candidate < candidates; ++candidate) {
            const double share = std::exp(logits[candidate] - highest) / sum;
            d_offsets[candidate] += share;
            for (int64_t k = 0; k < vector; ++k) {
                d_hidden[row * vector + k] += share * weights.at(0, k, candidate);
                d_weights[(candidate / width * vector + k) * width + candidate % width] += share * hidden[row * vector + k];
            }
        }
    }
    require_close(found_losses, losses, TOLERANCE, "softmax: losses");
    require_close(found[2], d_hidden, TOLERANCE, "softmax: hidden");
    require_close(found[3], d_weights, TOLERANCE, "softmax: weights");
    require_close(found[4], d_offsets, TOLERANCE, "softmax: offsets");
}

void test_characters_training() {
    const int64_t lanes = elmore_lanes(ELMORE_FLOAT32), table_width = 4 * lanes;
    const int64_t characters = draw(1, 300), words = draw(1, 30), width = draw(1, 7), filters_count = draw(1, 150);
    const int64_t filled = rounded_up(filters_count, table_width), length = draw(width, width + 20);
    const Floats table = draw_floats(filled * width * characters, 0.5f), bias = draw_floats(filled, 0.5f);
    std::vector<int64_t> ids(words * length);
    for (int64_t &id : ids) id = draw(0, characters - 1);
    const int64_t stride = filters_count + draw(0, 5);
    const ElmoreFilters filters{characters, 1, &width, &filters_count, table.data(), bias.data(), 0};
    const auto results = [&](int threads) -> Results {
        Floats out((words - 1) * stride + filters_count), positions(out.size()), d_tables(table.size());
        require(elmore_pool_characters(&filters, ids.data(), words, length, out.data(), positions.data(), stride, threads) ==
                    ELMORE_OK, "characters training: forward");
        require(elmore_pool_characters_backward(&filters, ids.data(), words, length, out.data(), positions.data(), stride,
                                                d_tables.data(), threads) == ELMORE_OK, "characters training: backward");
        return {out, positions, d_tables};
    };
    const Results found = checked(results, "characters training");
    Floats responses;
    Doubles expected, d_tables(table.size());
    const auto entry = [&](int64_t filter, int64_t offset, int64_t character) {
        return (filter / table_width * width + offset) * characters * table_width + character * table_width + filter % table_width;
    };
    for (int64_t word = 0; word < words; ++word)
        for (int64_t filter = 0; filter < filters_count; ++filter) {
            const auto response = [&](int64_t position) {
                double sum = 0.0;
                for (int64_t offset = 0; offset < width; ++offset) sum += table[entry(filter, offset, ids[word * length + position + offset])];
                return sum;
            };
            double largest = -INFINITY;
            for (int64_t position = 0; position + width <= length; ++position) largest = std::max(largest, response(position));
            const int64_t place = word * stride + filter, position = static_cast<int64_t>(found[1][place]);
            require(position >= 0 && position + width <= length, "characters training: a position is out of range");
            require(std::fabs(response(position) - largest) < 1e-5, "characters training: not the largest response");
            responses.push_back(found[0][place]);
            expected.push_back(largest + bias[filter]);
            for (int64_t offset = 0; offset < width; ++offset)
                d_tables[entry(filter, offset, ids[word * length + position + offset])] += found[0][place];
        }
    require_close(responses, expected, TOLERANCE, "characters training: responses");
    require_close(found[2], d_tables, TOLERANCE, "characters training: tables");
    std::vector<int64_t> wrong = ids;
    wrong[draw(0, words * length - 1)] = characters;
    Floats same = found[2];
    require(elmore_pool_characters_backward(&filters, wrong.data(), words, length, found[0].data(), found[1].data(), stride,
                                            same.data(), 1) == ELMORE_WRONG_INPUT, "characters training: wrong character");
}
