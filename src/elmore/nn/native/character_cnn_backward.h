// The backward pass of a character CNN. Included inside a namespace, after `character_cnn.h`.
//
// A filter's largest response has one position in a word: it adds its gradient to as many entries of its tables as the
// filter is wide. Each chunk of filters has separate tables, to which one thread adds word by word.

struct PoolingGradientCall {
    const ElmoreFilters &filters;
    const int64_t *characters;
    int64_t words;
    int64_t length;
    const float *d_pooled;   // (words, filters)
    const float *positions;  // the same
    int64_t stride;
    float *d_tables;  // as the tables
    WorkQueue queue{};
};

inline void add_chunk_gradients(const PoolingGradientCall &call, const FilterChunk &chunk) {
    const int64_t table_size = call.filters.characters * WIDTH;
    for (int64_t word = 0; word < call.words; ++word) {
        const int64_t *characters = call.characters + word * call.length;
        const float *gradients = call.d_pooled + word * call.stride + chunk.column;
        const float *positions = call.positions + word * call.stride + chunk.column;
        for (int64_t filter = 0; filter < chunk.filters; ++filter) {
            const float gradient = gradients[filter];
            if (gradient == 0.0f) continue;  // as for each filter that relu sets to zero
            const int64_t *character = characters + static_cast<int64_t>(positions[filter]);
            float *table = call.d_tables + chunk.table + filter;
            for (int64_t offset = 0; offset < chunk.width; ++offset, ++character, table += table_size)
                table[*character * WIDTH] += gradient;
        }
    }
}

inline void add_gradients_of_chunks(void *context, int) {
    PoolingGradientCall &call = *static_cast<PoolingGradientCall *>(context);
    for (;;) {
        FilterChunk chunk{};
        if (!find_chunk(call.filters, call.queue.take(), chunk)) return;
        add_chunk_gradients(call, chunk);
    }
}

inline int pool_characters_backward(const ElmoreFilters &filters, const int64_t *characters, int64_t words,
                                    int64_t length, const float *d_pooled, const float *positions, int64_t stride,
                                    float *d_tables, int threads) {
    PoolingGradientCall call{filters, characters, words, length, d_pooled, positions, stride, d_tables};
    run_on_threads(threads, add_gradients_of_chunks, &call);
    return ELMORE_OK;
}
