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
    int64_t out_stride;
    int64_t next_chunk;
};

// How many of a word's characters differ from all that follow: spans that begin later all see what the first of them saw.
INLINE int64_t varied_length(const int64_t *characters, int64_t length) {
    int64_t varied = length - 1;
    while (varied > 0 && characters[varied - 1] == characters[length - 1]) --varied;
    return varied;
}

// The largest response of up to four vectors of filters over each word.
inline void pool_chunk(const PoolingCall &call, int64_t width, const float *table, const float *bias, int64_t filters,
                       int64_t column) {
    const int64_t rows = call.filters.characters, vectors = 4 * LANES;
    for (int64_t word = 0; word < call.words; ++word) {
        const int64_t *characters = call.characters + word * call.length;
        int64_t last = varied_length(characters, call.length);
        if (last > call.length - width) last = call.length - width;
        Vec best[4];
        UNROLL for (int v = 0; v < 4; ++v) best[v] = splat(-__builtin_inff());
        for (int64_t position = 0; position <= last; ++position) {
            const float *row = table + characters[position] * vectors;
            Vec sums[4];
            UNROLL for (int v = 0; v < 4; ++v) sums[v] = load(row + v * LANES);
            for (int64_t place = 1; place < width; ++place) {
                row = table + (place * rows + characters[position + place]) * vectors;
                UNROLL for (int v = 0; v < 4; ++v) sums[v] = add(sums[v], load(row + v * LANES));
            }
            UNROLL for (int v = 0; v < 4; ++v) best[v] = at_least(best[v], sums[v]);
        }
        float *to = call.out + word * call.out_stride + column;
        UNROLL for (int v = 0; v < 4; ++v) {
            if (v * LANES >= filters) break;
            const Vec response = add(best[v], load(bias + v * LANES));
            store_some(to + v * LANES, call.filters.tanh ? tanh_of(response) : relu(response), filters - v * LANES);
        }
    }
}

// One thread, which takes the next chunk of filters when it is done with one: its part of the tables stays in the cache
// over all words.
inline void pool_chunks(void *context, int) {
    PoolingCall &call = *static_cast<PoolingCall *>(context);
    const ElmoreFilters &filters = call.filters;
    const int64_t vectors = 4 * LANES;
    for (;;) {
        int64_t chunk = __atomic_fetch_add(&call.next_chunk, 1, __ATOMIC_RELAXED);
        const float *table = filters.tables, *bias = filters.bias;
        int64_t column = 0, group = 0;
        for (; group < filters.groups; ++group) {
            const int64_t chunks = divided_up(filters.counts[group], vectors);
            if (chunk < chunks) break;
            chunk -= chunks;
            table += chunks * filters.widths[group] * filters.characters * vectors;
            bias += chunks * vectors;
            column += filters.counts[group];
        }
        if (group == filters.groups) return;
        const int64_t width = filters.widths[group], first = chunk * vectors;
        pool_chunk(call, width, table + chunk * width * filters.characters * vectors, bias + first,
                   filters.counts[group] - first, column + first);
    }
}

inline int pool_characters(const ElmoreFilters &filters, const int64_t *characters, int64_t words, int64_t length,
                           float *out, int64_t out_stride, int threads) {
    for (int64_t place = 0; place < words * length; ++place)
        if (characters[place] < 0 || characters[place] >= filters.characters) return 2;
    PoolingCall call{filters, characters, words, length, out, out_stride, 0};
    run_on_threads(threads, pool_chunks, &call);
    return 0;
}
