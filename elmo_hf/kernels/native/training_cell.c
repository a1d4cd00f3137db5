/* One step of the cell with what training needs of it, and the same backwards. */

#include "vectors.h"

/* One step of the cell, whose rows (4H) of gates are in the order of the weights; they become sigmoid(i), tanh(j),
   sigmoid(f), sigmoid(o). c is the state; H is a multiple of LANES. */
EXPORT void elmo_cell(int rows, int cell, float cell_clip, float *gates, float *c, float *m) {
    const size_t size = cell;
    for (int row = 0; row < rows; row++, gates += 4 * size, c += size, m += size)
        for (size_t unit = 0; unit < size; unit += LANES) {
            float *at = gates + unit;
            vec i = sigmoid(load(at)), j = tangent(load(at + size));
            vec f = sigmoid(load(at + 2 * size)), o = sigmoid(load(at + 3 * size));
            vec state = load(c + unit) * f + i * j;
            if (cell_clip >= 0) state = clipped(state, cell_clip);
            store(at, i), store(at + size, j), store(at + 2 * size, f), store(at + 3 * size, o);
            store(c + unit, state);
            store(m + unit, o * tangent(state));
        }
}

/* One step backwards: d_c, the gradient of the state after it, becomes that of the one before; m is made again. */
EXPORT void elmo_cell_backward(int rows, int cell, float cell_clip, const float *gates, const float *before,
                               const float *after, const float *d_m, float *d_c, float *d_gates, float *m) {
    const size_t size = cell, all_rows = (size_t)rows * size;
    for (size_t at = 0; at < all_rows; at += LANES) {
        const size_t unit = at % size;
        const float *of_gates = gates + (at - unit) * 4 + unit;
        float *to_gates = d_gates + (at - unit) * 4 + unit;
        vec i = load(of_gates), j = load(of_gates + size);
        vec f = load(of_gates + 2 * size), o = load(of_gates + 3 * size);
        vec state = load(after + at), squashed = tangent(state), d_output = load(d_m + at);
        vec d_state = load(d_c + at) + d_output * o * (1.0f - squashed * squashed);
        if (cell_clip >= 0) {
            ints inside = (state < all(cell_clip)) & (state > all(-cell_clip));
            d_state = d_state * (vec)((ints)all(1.0f) & inside);
        }
        store(to_gates, d_state * j * (i * (1.0f - i)));
        store(to_gates + size, d_state * i * (1.0f - j * j));
        store(to_gates + 2 * size, d_state * load(before + at) * (f * (1.0f - f)));
        store(to_gates + 3 * size, d_output * squashed * (o * (1.0f - o)));
        store(d_c + at, d_state * f);
        store(m + at, o * squashed);
    }
}
