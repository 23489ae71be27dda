// The character CNN of a word encoder. Included inside a namespace, after its vectors and tiles, for float32.
//
// The response of a filter of width w is a sum over its w positions of the product with the character there. There are
// few characters: the products are computed once for each filter, position and character, and a response is w additions.

struct PoolingCall {
    const ElmoreFilters &filters;
    const int64_t *characters;
    int64_t words;
    int64_t length;
    float *out;
    float *positions;  // of the largest responses, for training; or null
    int64_t out_stride;
    WorkQueue queue{};
};

// Up to four vectors of filters of one width.
struct FilterChunk {
    int64_t width;
    int64_t filters;
    int64_t table;   // where its tables start,
    int64_t bias;    // its biases,
    int64_t column;  // and its responses
};

// Find the chunk of a number; false beyond the last.
INLINE bool find_chunk(const ElmoreFilters &filters, int64_t number, FilterChunk &chunk) {
    int64_t table = 0, bias = 0, column = 0;
    for (int64_t group = 0; group < filters.groups; ++group) {
        const int64_t chunks = divided_up(filters.counts[group], WIDTH), width = filters.widths[group];
        if (number < chunks) {
            const int64_t first = number * WIDTH;
            chunk = {width, smaller(filters.counts[group] - first, WIDTH),
                     table + number * width * filters.characters * WIDTH, bias + first, column + first};
            return true;
        }
        number -= chunks;
        table += chunks * width * filters.characters * WIDTH;
        bias += chunks * WIDTH;
        column += filters.counts[group];
    }
    return false;
}

// How many of a word's characters come before its padding: spans that start later equal the first span of padding.
INLINE int64_t varied_length(const int64_t *characters, int64_t length) {
    int64_t varied = length - 1;
    while (varied > 0 && characters[varied - 1] == characters[length - 1]) --varied;
    return varied;
}

// The largest response of up to four vectors of filters over each word. With POSITIONS, where it is, and not activated.
template <bool POSITIONS>
inline void pool_chunk(const PoolingCall &call, const FilterChunk &chunk) {
    const int64_t rows = call.filters.characters, width = chunk.width;
    const float *table = call.filters.tables + chunk.table, *bias = call.filters.bias + chunk.bias;
    for (int64_t word = 0; word < call.words; ++word) {
        const int64_t *characters = call.characters + word * call.length;
        const int64_t last = smaller(varied_length(characters, call.length), call.length - width);
        Vec best[4], positions[4];
        UNROLL for (int v = 0; v < 4; ++v) {
            best[v] = splat(-INFINITE);
            positions[v] = splat(0.0f);
        }
        for (int64_t position = 0; position <= last; ++position) {
            const float *row = table + characters[position] * WIDTH;
            Vec sums[4];
            UNROLL for (int v = 0; v < 4; ++v) sums[v] = load(row + v * LANES);
            for (int64_t offset = 1; offset < width; ++offset) {
                row = table + (offset * rows + characters[position + offset]) * WIDTH;
                UNROLL for (int v = 0; v < 4; ++v) sums[v] = add(sums[v], load(row + v * LANES));
            }
            // As float32, in vectors like the responses; no word has millions of characters.
            const Vec here = splat(static_cast<float>(position));
            UNROLL for (int v = 0; v < 4; ++v) {
                if constexpr (POSITIONS) positions[v] = where_larger(sums[v], best[v], here, positions[v]);
                best[v] = at_least(best[v], sums[v]);
            }
        }
        const int64_t column = word * call.out_stride + chunk.column;
        UNROLL for (int v = 0; v < 4; ++v) {
            const int64_t count = chunk.filters - v * LANES;
            if (count <= 0) break;
            const Vec response = add(best[v], load(bias + v * LANES));
            if constexpr (POSITIONS) {
                store_some(call.out + column + v * LANES, response, count);
                store_some(call.positions + column + v * LANES, positions[v], count);
            } else {
                store_some(call.out + column + v * LANES, call.filters.tanh ? tanh_of(response) : relu(response), count);
            }
        }
    }
}

// One thread, which takes one chunk of filters after the other: its tables stay in the cache over all words.
inline void pool_chunks(void *context, int) {
    PoolingCall &call = *static_cast<PoolingCall *>(context);
    for (;;) {
        FilterChunk chunk{};
        if (!find_chunk(call.filters, call.queue.take(), chunk)) return;
        if (call.positions)
            pool_chunk<true>(call, chunk);
        else
            pool_chunk<false>(call, chunk);
    }
}

inline int pool_characters(const ElmoreFilters &filters, const int64_t *characters, int64_t words, int64_t length,
                           float *out, float *positions, int64_t out_stride, int threads) {
    PoolingCall call{filters, characters, words, length, out, positions, out_stride};
    run_on_threads(threads, pool_chunks, &call);
    return ELMORE_OK;
}
