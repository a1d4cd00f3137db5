/* The output of a highway in one pass over memory. */

#include "vectors.h"

/* s relu(transformed) + (1 - s) x with the gate s = sigmoid(carried); what is no number stays none. */
INLINE vec gated(vec x, vec transformed, vec carried) {
    const ints is_negative = transformed < all(0.0f);
    const vec changed = (vec)((ints)transformed & ~is_negative);
    return x + sigmoid(carried) * (changed - x);
}

EXPORT void elmo_highway(int rows, int size, const float *x, const float *transformed, const float *carried, float *y) {
    const size_t count = (size_t)rows * size;
    size_t k = 0;
    for (; k + LANES <= count; k += LANES) store(y + k, gated(load(x + k), load(transformed + k), load(carried + k)));
    if (k < count) {
        float last[4][LANES] = {0};
        const size_t bytes = (count - k) * sizeof(float);
        memcpy(last[0], x + k, bytes);
        memcpy(last[1], transformed + k, bytes);
        memcpy(last[2], carried + k, bytes);
        store(last[3], gated(load(last[0]), load(last[1]), load(last[2])));
        memcpy(y + k, last[3], bytes);
    }
}
