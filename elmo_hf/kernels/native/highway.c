/* The output of a highway in one pass over memory. */

#include "vectors.h"

/* s relu(transformed) + (1 - s) x with the gate s = sigmoid(carried); what is no number stays none. */
INLINE vec gated(vec x, vec transformed, vec carried) {
    const ints is_negative = transformed < all(0.0f);
    const vec changed = (vec)((ints)transformed & ~is_negative);
    return x + sigmoid(carried) * (changed - x);
}

typedef struct {
    int size, first, after; /* rows from `first` to before `after` */
    const float *x, *transformed, *carried;
    float *y;
} HighwayCall;

EXPORT void elmo_highway(const HighwayCall *call) {
    const size_t start = (size_t)call->first * call->size, count = (size_t)(call->after - call->first) * call->size;
    const float *x = call->x + start, *transformed = call->transformed + start, *carried = call->carried + start;
    float *y = call->y + start;
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
