// Random shapes through the native kernels of training; see `native_fuzz.cpp`. Gradients must have the same bits with any
// number of threads; that they are right, tests compare with float64.

#include <algorithm>
#include <cmath>

#include "native_fuzz.h"

namespace {

constexpr int OTHER_THREADS[] = {2, 3, 7};

// `results(threads)` must be what one thread gives.
template <class Results>
void check(Results results, const char *kernel, int64_t rows, int64_t in, int64_t out) {
    const std::vector<std::vector<float>> alone = results(1);
    for (int threads : OTHER_THREADS) {
        const std::vector<std::vector<float>> others = results(threads);
        for (size_t part = 0; part < alone.size(); ++part)
            if (!same(others[part], alone[part])) fail("another number of threads", kernel, ELMORE_FLOAT32, rows, in, out);
    }
}

void fuzz_lstm(int64_t lanes) {
    const bool projected = draw(0, 3) > 0;
    const int64_t directions = draw(1, 2), vector = draw(1, draw(0, 1) ? 20 : 150);
    const int64_t cells = projected ? draw(1, draw(0, 1) ? 40 : 400) : vector;
    const int64_t filled = rounded_up(cells, lanes), columns = rounded_up(vector, 4 * lanes), panels = filled / lanes;
    const int64_t cell_columns = rounded_up(filled, 4 * lanes);
    const int64_t rows = draw(1, draw(0, 1) ? 10 : 150), steps = draw(1, 12);
    std::vector<int64_t> lengths(rows);
    for (int64_t &length : lengths) length = draw(0, steps);
    std::sort(lengths.rbegin(), lengths.rend());
    const float spread = 1.0f / std::sqrt(static_cast<float>(vector));
    const auto input = draw_floats(directions * vector * 4 * filled, spread), recurrent = input;
    const auto projection = draw_floats(directions * filled * columns, spread);
    const auto bias = draw_floats(directions * 4 * filled, 0.5f);
    const auto back = draw_floats(directions * 4 * filled * columns, spread);
    const auto back_projection = draw_floats(directions * vector * cell_columns, spread);
    const auto inputs = draw_floats(directions * steps * rows * vector, 1.0f), h = draw_floats(directions * rows * vector, 1.0f);
    const auto c = draw_floats(directions * rows * cells, 1.0f), d_outputs = draw_floats(inputs.size(), 1.0f);
    const float cell_clip = draw(0, 1) ? 3.0f : INFINITY, projection_clip = draw(0, 1) ? 1.0f : INFINITY;
    const bool wants_inputs = draw(0, 3) > 0, frozen = draw(0, 3) == 0;
    const ElmoreLstm layer{directions, vector, cells, {input.data(), nullptr, nullptr}, {recurrent.data(), nullptr, nullptr},
                           {projected ? projection.data() : nullptr, nullptr, nullptr}, bias.data(), cell_clip, projection_clip};
    const auto results = [&](int threads) {
        std::vector<float> outputs(inputs.size()), last_h(h.size()), last_c(c.size());
        std::vector<float> gates(directions * panels * steps * rows * 4 * lanes), kept((directions * (steps + 1)) * rows * filled);
        const ElmoreReading reading{steps, rows, lengths.data(), inputs.data(), h.data(), c.data(), outputs.data(),
                                    last_h.data(), last_c.data(), gates.data(), kept.data()};
        if (elmore_run_lstm(ELMORE_FLOAT32, &layer, &reading, threads) != 0) std::abort();
        std::vector<float> d_inputs(wants_inputs ? inputs.size() : 0), d_h(h.size(), 0.5f), d_c(directions * rows * filled, 0.5f);
        std::vector<float> d_input(frozen ? 0 : input.size()), d_recurrent(d_input.size()), d_bias(frozen ? 0 : bias.size());
        std::vector<float> d_projection(frozen ? 0 : directions * vector * cell_columns);
        const ElmoreLstmGradients gradients{
            directions, vector, cells, back.data(), back.data(), projected ? back_projection.data() : nullptr, cell_clip,
            projection_clip, steps, rows, lengths.data(), inputs.data(), h.data(), outputs.data(), gates.data(), kept.data(),
            d_outputs.data(), wants_inputs ? d_inputs.data() : nullptr, d_h.data(), d_c.data(),
            frozen ? nullptr : d_input.data(), d_recurrent.data(), d_bias.data(), d_projection.data()};
        if (elmore_run_lstm_backward(&gradients, threads) != 0) std::abort();
        return std::vector<std::vector<float>>{outputs, last_h, last_c, d_inputs, d_h, d_c, d_input, d_recurrent, d_bias, d_projection};
    };
    check(results, "lstm backward", rows, vector, cells);
}

// A product of matrices that lie in rows or in columns, and apart from each other.
void fuzz_product() {
    const int64_t rows = draw(1, 60), depth = draw(1, draw(0, 3) ? 40 : 2100), columns = draw(1, 150);
    const bool left_turned = draw(0, 1), right_turned = draw(0, 1), adds = draw(0, 1);
    const int64_t left_stride = (left_turned ? rows : depth) + draw(0, 5), right_stride = (right_turned ? depth : columns) + draw(0, 5);
    const int64_t out_stride = columns + draw(0, 5);
    const auto size = [](int64_t count, int64_t stride, int64_t last) { return (count - 1) * stride + last; };
    const auto left = draw_floats(left_turned ? size(depth, left_stride, rows) : size(rows, left_stride, depth), 1.0f);
    const auto right = draw_floats(right_turned ? size(columns, right_stride, depth) : size(depth, right_stride, columns), 1.0f);
    const auto results = [&](int threads) {
        std::vector<float> out(size(rows, out_stride, columns), 0.25f);
        const ElmoreProduct product{rows, depth, columns, left.data(), left_turned ? 1 : left_stride, left_turned ? left_stride : 1,
                                    right.data(), right_turned ? 1 : right_stride, right_turned ? right_stride : 1,
                                    out.data(), out_stride, adds};
        if (elmore_multiply(&product, threads) != 0) std::abort();
        return std::vector<std::vector<float>>{out};
    };
    check(results, "product", rows, depth, columns);
}

void fuzz_highway() {
    const int64_t rows = draw(0, 40), columns = draw(1, 600);
    const auto x = draw_floats(rows * columns, 1.0f), bias = draw_floats(2 * columns, 1.0f), products = draw_floats(rows * 2 * columns, 1.0f);
    const auto results = [&](int threads) {
        std::vector<float> both = products, out(x.size()), d_x(x.size()), d_both(both.size()), d_bias(bias.size());
        const ElmoreHighway forth{rows, columns, x.data(), bias.data(), both.data(), out.data(), nullptr, nullptr, nullptr, nullptr};
        elmore_run_highway(&forth, threads);
        const ElmoreHighway back{rows, columns, x.data(), nullptr, both.data(), nullptr, out.data(), d_x.data(), d_both.data(), d_bias.data()};
        elmore_run_highway(&back, threads);
        return std::vector<std::vector<float>>{both, out, d_x, d_both, d_bias};
    };
    check(results, "highway", rows, columns, columns);
}

void fuzz_softmax(int64_t lanes) {
    const int64_t rows = draw(0, draw(0, 1) ? 10 : 200), vector = draw(1, draw(0, 1) ? 20 : 150), candidates = draw(1, draw(0, 3) ? 300 : 3000);
    const int64_t filled = rounded_up(candidates, 4 * lanes), columns = rounded_up(vector, 4 * lanes);
    const auto hidden = draw_floats(rows * vector, 1.0f), weights = draw_floats(vector * filled, 1.0f), back = draw_floats(filled * columns, 1.0f);
    auto offsets = draw_floats(filled, 1.0f);
    std::fill(offsets.begin() + candidates, offsets.end(), -INFINITY);
    const auto target_logits = draw_floats(rows, 1.0f);
    std::vector<int64_t> target_columns(rows);
    for (int64_t &column : target_columns) column = draw(-1, 2 * candidates);
    const auto results = [&](int threads) {
        std::vector<float> highest(rows), sums(rows), d_hidden(hidden.size()), d_weights(weights.size()), d_offsets(filled);
        const ElmoreSoftmax softmax{rows, vector, candidates, hidden.data(), weights.data(), back.data(), offsets.data(),
                                    target_logits.data(), target_columns.data(), highest.data(), sums.data(),
                                    d_hidden.data(), d_weights.data(), d_offsets.data()};
        if (elmore_run_softmax(&softmax, threads) != 0) std::abort();
        return std::vector<std::vector<float>>{highest, sums, d_hidden, d_weights, d_offsets};
    };
    check(results, "softmax", rows, vector, candidates);
}

void fuzz_pooling(int64_t lanes) {
    const int64_t characters = draw(1, 300), groups = draw(1, 4), words = draw(0, 30);
    std::vector<int64_t> widths, counts;
    int64_t longest = 1, columns = 0, tables = 0, biases = 0;
    for (int64_t group = 0; group < groups; ++group) {
        widths.push_back(draw(1, 7));
        counts.push_back(draw(1, draw(0, 1) ? 20 : 150));
        longest = std::max(longest, widths.back());
        columns += counts.back();
        biases += rounded_up(counts.back(), 4 * lanes);
        tables += rounded_up(counts.back(), 4 * lanes) * widths.back() * characters;
    }
    const auto table = draw_floats(tables, 0.5f), bias = draw_floats(biases, 0.5f);
    const int64_t length = draw(longest, longest + 20), stride = columns + draw(0, 5);
    std::vector<int64_t> ids(words * length);
    for (int64_t &id : ids) id = draw(0, characters - 1);
    const ElmoreFilters filters{characters, groups, widths.data(), counts.data(), table.data(), bias.data(), 0};
    const auto results = [&](int threads) {
        std::vector<float> out(words ? (words - 1) * stride + columns : 0), positions(out.size()), d_tables(tables);
        if (elmore_pool_characters(&filters, ids.data(), words, length, out.data(), positions.data(), stride, threads) != 0) std::abort();
        elmore_pool_characters_backward(&filters, ids.data(), words, length, out.data(), positions.data(), stride, d_tables.data(), threads);
        return std::vector<std::vector<float>>{out, positions, d_tables};
    };
    check(results, "pooling", words, length, columns);
}

}  // namespace

void fuzz_training(int64_t lanes) {
    fuzz_lstm(lanes);
    fuzz_product();
    fuzz_highway();
    fuzz_softmax(lanes);
    fuzz_pooling(lanes);
}
