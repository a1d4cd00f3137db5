/* For training in mixed precision: one step of the cell, and the same backwards. The state and all sums are floats; what
   products take and give is bfloat16, the upper half of a float. Gates are saved as the product gave them, and their
   functions are computed again: rounding these too would spoil derivatives such as 1 - i of a gate that is nearly open. */

#include "vectors.h"

typedef uint16_t halves __attribute__((vector_size(2 * LANES)));
typedef uint32_t bits __attribute__((vector_size(4 * LANES)));

INLINE vec widen(const uint16_t *from) {
    halves x;
    memcpy(&x, from, sizeof x);
    return (vec)(__builtin_convertvector(x, bits) << 16);
}

/* Rounds to the nearest bfloat16, to an even one between two; what is no number stays none. */
INLINE void narrow(uint16_t *to, vec x) {
    bits all_bits = (bits)x, rounded = all_bits + 0x7fff + ((all_bits >> 16) & 1);
    bits is_number = (bits)(x == x);
    halves result = __builtin_convertvector(((rounded & is_number) | (0x7fc00000 & ~is_number)) >> 16, halves);
    memcpy(to, &result, sizeof result);
}

/* gates (rows, 4H) without the bias (4H), and the state before (rows, H) -> the state after, and m. */
EXPORT void elmo_mixed_cell(int rows, int cell, float cell_clip, const uint16_t *gates, const float *bias,
                            const float *before, float *after, uint16_t *m) {
    const size_t size = cell;
    for (int row = 0; row < rows; row++, gates += 4 * size, before += size, after += size, m += size)
        for (size_t unit = 0; unit < size; unit += LANES) {
            const uint16_t *at = gates + unit;
            const float *of_unit = bias + unit;
            vec i = widen(at) + load(of_unit), j = widen(at + size) + load(of_unit + size);
            vec f = widen(at + 2 * size) + load(of_unit + 2 * size), o = widen(at + 3 * size) + load(of_unit + 3 * size);
            vec state = sigmoid(f) * load(before + unit) + sigmoid_tangent(i, j);
            if (cell_clip >= 0) state = clipped(state, cell_clip);
            store(after + unit, state);
            narrow(m + unit, sigmoid_tangent(o, state));
        }
}

/* One step backwards: d_c, the gradient of the state after it, becomes that of the one before; the gradients of gates
   are added to d_bias (4H) before they are rounded. */
EXPORT void elmo_mixed_cell_backward(int rows, int cell, float cell_clip, const uint16_t *gates, const float *bias,
                                     const float *before, const float *after, const uint16_t *d_m, float *d_c,
                                     uint16_t *d_gates, float *d_bias) {
    const size_t size = cell;
    for (int row = 0; row < rows; row++) {
        for (size_t unit = 0; unit < size; unit += LANES) {
            const uint16_t *at = gates + unit;
            const float *of_unit = bias + unit;
            vec i = sigmoid(widen(at) + load(of_unit)), j = tangent(widen(at + size) + load(of_unit + size));
            vec f = sigmoid(widen(at + 2 * size) + load(of_unit + 2 * size));
            vec o = sigmoid(widen(at + 3 * size) + load(of_unit + 3 * size));
            vec state = load(after + unit), squashed = tangent(state), d_output = widen(d_m + unit);
            vec d_state = load(d_c + unit) + d_output * o * (1.0f - squashed * squashed);
            if (cell_clip >= 0) {
                ints inside = (state < all(cell_clip)) & (state > all(-cell_clip));
                d_state = d_state * (vec)((ints)all(1.0f) & inside);
            }
            vec of_gates[4] = {d_state * j * (i * (1.0f - i)), d_state * i * (1.0f - j * j),
                               d_state * load(before + unit) * (f * (1.0f - f)), d_output * squashed * (o * (1.0f - o))};
            for (int g = 0; g < 4; g++) {
                float *sum = d_bias + g * size + unit;
                store(sum, load(sum) + of_gates[g]);
                narrow(d_gates + g * size + unit, of_gates[g]);
            }
            store(d_c + unit, d_state * f);
        }
        gates += 4 * size, d_gates += 4 * size, before += size, after += size, d_m += size, d_c += size;
    }
}
