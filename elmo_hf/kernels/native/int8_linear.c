/* x @ weight.T + bias in int8, with a scale for each row of x and of the weight, in two calls: rows of x to words, then
   a range of the outputs, so that several threads may share a product. */

#include "products.h"

/* Rows whose words stay in a near cache while all panels pass by. */
#define ROWS_AT_ONCE 192

EXPORT void elmo_to_words(int rows, int columns, const float *x, uint32_t *words) {
    activations(INT8, x, rows, columns, columns, words);
}

INLINE void linear_rows(const int rows, const Weight *weight, const float *bias, int first, int count, int depth,
                        Activations x, float *y, size_t stride) {
    vec sums[ROWS][4];
    for (int g = 0; g < 4; g++)
        for (int r = 0; r < rows; r++) sums[r][g] = load(bias + first + g * LANES);
    add_product(INT8, rows, weight, (size_t)first * depth, first, LANES, 1, x, depth, sums);
    for (int r = 0; r < rows; r++) memcpy(y + r * stride + first, sums[r], count * sizeof(float));
}

/* The outputs from `first` to before `after`, which is a multiple of 4 LANES or their number; y (rows, outputs). The
   weight (outputs / (4 LANES) rounded up, words of a row, 4, LANES), bias, scales and offsets have zeros behind the last
   output. */
typedef struct {
    int rows, columns, outputs, first, after;
    const uint32_t *panels;
    const float *bias, *scales;
    const int32_t *offsets;
    const uint32_t *words;
    float *y;
} Int8LinearCall;

EXPORT void elmo_int8_linear(const Int8LinearCall *call) {
    const int rows = call->rows, outputs = call->outputs, after = call->after;
    const Weight weight = {call->panels, call->scales, call->offsets};
    const int depth = words_of(INT8, call->columns);
    for (int start = 0; start < rows; start += ROWS_AT_ONCE) {
        const int some = rows - start < ROWS_AT_ONCE ? rows - start : ROWS_AT_ONCE;
        const Activations x = {call->words + 1 + (size_t)start * (depth + 1), depth + 1};
        float *of_rows = call->y + (size_t)start * outputs;
        for (int output = call->first; output < after; output += 4 * LANES) {
            const int count = after - output < 4 * LANES ? after - output : 4 * LANES;
#define LINEAR(n)                                                                                                     \
    linear_rows(n, &weight, call->bias, output, count, depth, from_row(x, row), of_rows + (size_t)row * outputs, \
                outputs)
            IN_ROWS(some, LINEAR)
        }
    }
}
