/* Character filters and their maximum over the windows of each word, whose values are never written to memory. */

#include "products.h"

/* What is no number is larger than all. */
INLINE vec larger(vec x, vec y) {
    const ints first = (x >= y) | (x != x);
    return (vec)(((ints)x & first) | ((ints)y & ~first));
}

/* largest[4]: of 4 LANES filters, also over `rows` windows; each begins one character of `size` numbers later. */
INLINE void add_windows(const int rows, const float *characters, size_t size, const uint32_t *panel, int depth,
                        vec largest[4]) {
    vec values[ROWS][4] = {0};
    multiply_float32(rows, values, (const uint32_t *)characters, size, panel, depth);
    for (int r = 0; r < rows; r++)
        for (int g = 0; g < 4; g++) largest[g] = larger(largest[g], values[r][g]);
}

/* The filters from `first` to before `after`, which is a multiple of 4 LANES or their number; y (words, filters).
   characters (words, length, size); counts: windows of each word. Panels (filters / (4 LANES) rounded up,
   width * size, 4, LANES), of which the first depths[panel] words are not zero; bias, with zeros behind the last filter. */
typedef struct {
    int words, length, size, width, filters, first, after;
    const int32_t *counts, *depths;
    const uint32_t *panels;
    const float *bias, *characters;
    float *y;
} FeaturesCall;

EXPORT void elmo_features(const FeaturesCall *call) {
    const int size = call->size, after = call->after;
    for (int filter = call->first; filter < after; filter += 4 * LANES) {
        const int number = filter / (4 * LANES), count = after - filter < 4 * LANES ? after - filter : 4 * LANES;
        const uint32_t *panel = call->panels + (size_t)number * call->width * size * 4 * LANES;
        for (int word = 0; word < call->words; word++) {
            const float *of_word = call->characters + (size_t)word * call->length * size;
            vec largest[4];
            for (int g = 0; g < 4; g++) largest[g] = all(-1.0f / 0.0f);
#define WINDOWS(n) add_windows(n, of_word + row * size, size, panel, call->depths[number], largest)
            IN_ROWS(call->counts[word], WINDOWS)
            for (int g = 0; g < 4; g++) largest[g] += load(call->bias + filter + g * LANES);
            memcpy(call->y + (size_t)word * call->filters + filter, largest, count * sizeof(float));
        }
    }
}
