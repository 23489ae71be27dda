// The character CNN in training. Included after `character_cnn.h`.
//
// A filter's largest response has one position in a word, so on the way back as many entries of its tables get the
// gradient as it is wide. Each chunk of filters has its own tables, to which one thread adds word by word.

struct PoolingGradientCall {
    const ElmoreFilters &filters;
    const int64_t *characters;
    int64_t words;
    int64_t length;
    const float *d_pooled;   // (words, filters)
    const float *positions;  // the same
    int64_t stride;
    float *d_tables;  // as the tables
    int64_t next_chunk;
};

inline void add_chunk_gradients(const PoolingGradientCall &call, const FilterChunk &chunk) {
    const int64_t rows = call.filters.characters;
    float *table = call.d_tables + chunk.table;
    for (int64_t word = 0; word < call.words; ++word) {
        const int64_t *characters = call.characters + word * call.length;
        const float *gradients = call.d_pooled + word * call.stride + chunk.column;
        const float *positions = call.positions + word * call.stride + chunk.column;
        for (int64_t filter = 0; filter < chunk.filters; ++filter) {
            const int64_t *seen = characters + static_cast<int64_t>(positions[filter]);
            const float gradient = gradients[filter];
            if (gradient == 0.0f) continue;  // as of every filter that relu holds
            for (int64_t place = 0; place < chunk.width; ++place)
                table[(place * rows + seen[place]) * 4 * LANES + filter] += gradient;
        }
    }
}

inline void add_gradients_of_chunks(void *context, int) {
    PoolingGradientCall &call = *static_cast<PoolingGradientCall *>(context);
    for (;;) {
        const int64_t number = __atomic_fetch_add(&call.next_chunk, 1, __ATOMIC_RELAXED);
        FilterChunk chunk{};
        if (!find_chunk(call.filters, number, chunk)) return;
        add_chunk_gradients(call, chunk);
    }
}

inline void pool_characters_backward(const ElmoreFilters &filters, const int64_t *characters, int64_t words,
                                     int64_t length, const float *d_pooled, const float *positions, int64_t stride,
                                     float *d_tables, int threads) {
    PoolingGradientCall call{filters, characters, words, length, d_pooled, positions, stride, d_tables, 0};
    run_on_threads(threads, add_gradients_of_chunks, &call);
}
