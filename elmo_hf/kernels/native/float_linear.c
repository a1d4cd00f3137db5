/* x @ weight.T + bias in float32 for a few rows of x, by a weight as PyTorch has it: (outputs, columns).

   A block of the weight at a time is transposed into a buffer in the nearest cache and used for all rows, while the
   memory of the next block is already requested. Other libraries copy the whole weight first. */

#include "products.h"

#define OUTPUTS (4 * LANES) /* of a block */
#define COLUMNS 128

/* Like the halves of a pack of cards: the numbers of vectors 0 and LANES / 2 in turn, then those of the next two. */
INLINE void shuffle(const vec from[LANES], vec to[LANES]) {
    for (int n = 0; n < LANES / 2; n++) {
        to[2 * n] = first_in_turn(from[n], from[n + LANES / 2]);
        to[2 * n + 1] = last_in_turn(from[n], from[n + LANES / 2]);
    }
}

/* LANES outputs and columns of a block -> the panel, where the outputs of a column lie side by side: the vectors are
   shuffled log2(LANES) times. */
INLINE void transpose(const float *weight, const float *next, size_t columns, float *panel) {
    vec x[LANES], y[LANES];
    for (int n = 0; n < LANES; n++) {
        x[n] = load(weight + n * columns);
        __builtin_prefetch(next + n * columns);
    }
    shuffle(x, y);
    shuffle(y, x);
    if (LANES > 4) shuffle(x, y);
    if (LANES > 8) shuffle(y, x);
    for (int n = 0; n < LANES; n++) store(panel + n * OUTPUTS, LANES == 8 ? y[n] : x[n]);
}

/* y = start + x times the panel, where start is the bias or y. */
INLINE void add_block(const int rows, const float *x, size_t columns, const float *panel, int depth, const float *start,
                      size_t distance, float *y, size_t outputs) {
    vec sums[ROWS][4];
    for (int r = 0; r < rows; r++)
        for (int g = 0; g < 4; g++) sums[r][g] = load(start + r * distance + g * LANES);
    multiply_float32(rows, sums, (const uint32_t *)x, columns, (const uint32_t *)panel, depth);
    for (int r = 0; r < rows; r++)
        for (int g = 0; g < 4; g++) store(y + r * outputs + g * LANES, sums[r][g]);
}

/* The outputs from `first` to before `after`; y (rows, outputs). Columns are a multiple of LANES, first and after of
   4 LANES. */
typedef struct {
    int rows, columns, outputs, first, after;
    const float *weight, *bias, *x;
    float *y;
} FloatLinearCall;

EXPORT void elmo_float_linear(const FloatLinearCall *call) {
    const int rows = call->rows, columns = call->columns, outputs = call->outputs, after = call->after;
    const float *weight = call->weight, *bias = call->bias, *x = call->x;
    float *y = call->y;
    float panel[COLUMNS * OUTPUTS];
    for (int output = call->first; output < after; output += OUTPUTS) {
        for (int column = 0, depth; column < columns; column += depth) {
            const float *block = weight + (size_t)output * columns + column, *next = block;
            depth = columns - column < COLUMNS ? columns - column : COLUMNS;
            if (column + 2 * COLUMNS <= columns)
                next = block + COLUMNS;
            else if (output + OUTPUTS < after)
                next = block - column + (size_t)OUTPUTS * columns;
            for (int n = 0; n < OUTPUTS; n += LANES)
                for (int k = 0; k < depth; k += LANES) {
                    const size_t at = (size_t)n * columns + k;
                    transpose(block + at, next + at, columns, panel + k * OUTPUTS + n);
                }
#define BLOCK(n)                                                                                                     \
    add_block(n, x + (size_t)row * columns + column, columns, panel, depth,                                          \
              column ? y + (size_t)row * outputs + output : bias + output, column ? outputs : 0,                     \
              y + (size_t)row * outputs + output, outputs)
            IN_ROWS(rows, BLOCK)
        }
    }
}
