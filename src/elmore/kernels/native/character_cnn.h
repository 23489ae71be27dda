// The character CNN of a word encoder. Included inside a namespace, after its vectors, and only for float32.
//
// What a filter of width w sees is the sum of what it makes of each of its w characters, and there are few characters:
// so the products are made once, for each filter, place and character, and a response is w additions of their results.

struct PoolingCall {
    const ElmoreFilters &filters;
    const int64_t *characters;
    int64_t words;
    int64_t length;
    float *out;
    float *positions;  // where the largest responses are, for training; or null
    int64_t out_stride;
    int64_t next_chunk;
};

// Up to four vectors of filters of one width.
struct FilterChunk {
    int64_t width;
    int64_t filters;
    int64_t table;   // where its tables begin,
    int64_t bias;    // its biases,
    int64_t column;  // and its responses
};

// The chunk of a number; false beyond the last.
INLINE bool find_chunk(const ElmoreFilters &filters, int64_t number, FilterChunk &chunk) {
    const int64_t vectors = 4 * LANES;
    int64_t table = 0, bias = 0, column = 0;
    for (int64_t group = 0; group < filters.groups; ++group) {
        const int64_t chunks = divided_up(filters.counts[group], vectors), width = filters.widths[group];
        if (number < chunks) {
            const int64_t first = number * vectors, left = filters.counts[group] - first;
            chunk = {width, left < vectors ? left : vectors, table + number * width * filters.characters * vectors,
                     bias + first, column + first};
            return true;
        }
        number -= chunks;
        table += chunks * width * filters.characters * vectors;
        bias += chunks * vectors;
        column += filters.counts[group];
    }
    return false;
}

// How many of a word's characters differ from all that follow: spans that begin later all see what the first of them saw.
INLINE int64_t varied_length(const int64_t *characters, int64_t length) {
    int64_t varied = length - 1;
    while (varied > 0 && characters[varied - 1] == characters[length - 1]) --varied;
    return varied;
}

// The largest response of up to four vectors of filters over each word, and where POSITIONS, which of them it is: then
// before any activation.
template <bool POSITIONS>
inline void pool_chunk(const PoolingCall &call, const FilterChunk &chunk) {
    const int64_t rows = call.filters.characters, vectors = 4 * LANES, width = chunk.width;
    const float *table = call.filters.tables + chunk.table, *bias = call.filters.bias + chunk.bias;
    for (int64_t word = 0; word < call.words; ++word) {
        const int64_t *characters = call.characters + word * call.length;
        int64_t last = varied_length(characters, call.length);
        if (last > call.length - width) last = call.length - width;
        Vec best[4], positions[4];
        UNROLL for (int v = 0; v < 4; ++v) {
            best[v] = splat(-__builtin_inff());
            positions[v] = splat(0.0f);
        }
        for (int64_t position = 0; position <= last; ++position) {
            const float *row = table + characters[position] * vectors;
            Vec sums[4];
            UNROLL for (int v = 0; v < 4; ++v) sums[v] = load(row + v * LANES);
            for (int64_t place = 1; place < width; ++place) {
                row = table + (place * rows + characters[position + place]) * vectors;
                UNROLL for (int v = 0; v < 4; ++v) sums[v] = add(sums[v], load(row + v * LANES));
            }
            // As float32, so that vectors of them go along with the responses; no word has millions of characters.
            const Vec here = splat(static_cast<float>(position));
            UNROLL for (int v = 0; v < 4; ++v) {
                if constexpr (POSITIONS) positions[v] = where_larger(sums[v], best[v], here, positions[v]);
                best[v] = at_least(best[v], sums[v]);
            }
        }
        const int64_t place = word * call.out_stride + chunk.column;
        UNROLL for (int v = 0; v < 4; ++v) {
            const int64_t count = chunk.filters - v * LANES;
            if (count <= 0) break;
            const Vec response = add(best[v], load(bias + v * LANES));
            if constexpr (POSITIONS) {
                store_some(call.out + place + v * LANES, response, count);
                store_some(call.positions + place + v * LANES, positions[v], count);
            } else {
                store_some(call.out + place + v * LANES, call.filters.tanh ? tanh_of(response) : relu(response), count);
            }
        }
    }
}

// One thread, which takes the next chunk of filters when it is done with one: its part of the tables stays in the cache
// over all words.
inline void pool_chunks(void *context, int) {
    PoolingCall &call = *static_cast<PoolingCall *>(context);
    for (;;) {
        const int64_t number = __atomic_fetch_add(&call.next_chunk, 1, __ATOMIC_RELAXED);
        FilterChunk chunk{};
        if (!find_chunk(call.filters, number, chunk)) return;
        if (call.positions)
            pool_chunk<true>(call, chunk);
        else
            pool_chunk<false>(call, chunk);
    }
}

inline int pool_characters(const ElmoreFilters &filters, const int64_t *characters, int64_t words, int64_t length,
                           float *out, float *positions, int64_t out_stride, int threads) {
    for (int64_t place = 0; place < words * length; ++place)
        if (characters[place] < 0 || characters[place] >= filters.characters) return 2;
    PoolingCall call{filters, characters, words, length, out, positions, out_stride, 0};
    run_on_threads(threads, pool_chunks, &call);
    return 0;
}
