/* The maximum of each character filter over the windows of a word, and the window that has it. */

#include "vectors.h"

/* The strongest of `count` windows for each word and filter: values (words * count, filters) -> (words, filters) both,
   the value, and the number of its row. The first one of equal values; what is no number is stronger than all. */
EXPORT void elmo_strongest(int words, int count, int filters, int64_t first, const float *values, float *largest,
                           int64_t *winners) {
    const size_t size = filters;
    for (int word = 0; word < words; word++, first += count, values += count * size) {
        size_t f = 0;
        for (; f + LANES <= size; f += LANES) {
            vec best = load(values + f);
            ints which = {0};
            for (int k = 1; k < count; k++) {
                vec x = load(values + k * size + f);
                ints stronger = (x > best) | ((x != x) & (best == best));
                best = (vec)(((ints)x & stronger) | ((ints)best & ~stronger));
                which = ((which * 0 + k) & stronger) | (which & ~stronger);
            }
            store(largest + f, best);
            for (int lane = 0; lane < LANES; lane++) winners[f + lane] = first + which[lane];
        }
        for (; f < size; f++) {
            float best = values[f];
            int which = 0;
            for (int k = 1; k < count; k++) {
                float x = values[k * size + f];
                if (x > best || (x != x && best == best)) best = x, which = k;
            }
            largest[f] = best;
            winners[f] = first + which;
        }
        largest += size, winners += size;
    }
}
