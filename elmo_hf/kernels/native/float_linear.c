/* x @ weight.T + bias in float32 for a few rows of x, by a weight as PyTorch has it: (outputs, columns).

   A sum is a dot product along the columns, LANES of them at a time, so that nothing is transposed: the weight is read
   once and in its own order. Other libraries copy it into another order first. While some rows of the weight are
   multiplied, the next ones are requested into the second cache: that takes a quarter off for 20 rows of x. */

#include "products.h"

#define OUTPUTS 4 /* rows of the weight at a time, which stay in a near cache for all rows of x */

/* y[OUTPUTS] = bias + the sums of LANES partial sums. */
INLINE void add_up(const vec partial[OUTPUTS], const float *bias, float *y) {
    const vec even = first_in_turn(partial[0], partial[2]) + last_in_turn(partial[0], partial[2]);
    const vec odd = first_in_turn(partial[1], partial[3]) + last_in_turn(partial[1], partial[3]);
    const vec sums = first_in_turn(even, odd) + last_in_turn(even, odd); /* of outputs 0, 1, 2, 3, 0, 1 ... */
    for (int g = 0; g < OUTPUTS; g++) {
        float sum = bias[g];
        for (int n = g; n < LANES; n += OUTPUTS) sum += sums[n];
        y[g] = sum;
    }
}

/* OUTPUTS outputs of some rows of x. A function of its own for each number of rows, which reads each vector once:
   otherwise compilers run out of registers, or read a vector anew for each of its products. */
#define DOT(rows)                                                                                                     \
    static __attribute__((noinline)) void dot_##rows(const float *x, const float *weight, int columns,                \
                                                     const float *bias, float *y, size_t outputs) {                   \
        vec sums[rows][OUTPUTS] = {0};                                                                                \
        for (int k = 0; k < columns; k += LANES) {                                                                    \
            vec of_row[rows];                                                                                         \
            UNROLL for (int r = 0; r < rows; r++) {                                                                   \
                of_row[r] = load(x + (size_t)r * columns + k);                                                        \
                IN_REGISTER(of_row[r]);                                                                               \
            }                                                                                                         \
            UNROLL for (int g = 0; g < OUTPUTS; g++) {                                                                \
                vec of_output = load(weight + (size_t)g * columns + k);                                               \
                IN_REGISTER(of_output);                                                                               \
                __builtin_prefetch(weight + (size_t)(g + OUTPUTS) * columns + k, 0, 2);                               \
                UNROLL for (int r = 0; r < rows; r++) sums[r][g] += of_row[r] * of_output;                            \
            }                                                                                                         \
        }                                                                                                             \
        UNROLL for (int r = 0; r < rows; r++) add_up(sums[r], bias, y + r * outputs);                                 \
    }
#define DOT_CASE(rows) case rows: dot_##rows(x, weight, columns, bias, y, call->outputs); break;
DOT(1)
DOT(2)
DOT(3)
#if ROWS > 3
DOT(4)
DOT(5)
DOT(6)
#define DOT_CASES DOT_CASE(1) DOT_CASE(2) DOT_CASE(3) DOT_CASE(4) DOT_CASE(5) DOT_CASE(6)
#else
#define DOT_CASES DOT_CASE(1) DOT_CASE(2) DOT_CASE(3)
#endif

/* The outputs from `first` to before `after`; y (rows, outputs). Columns are a multiple of LANES, first and after of 4. */
typedef struct {
    int rows, columns, outputs, first, after;
    const float *weight, *bias, *x;
    float *y;
} FloatLinearCall;

EXPORT void elmo_float_linear(const FloatLinearCall *call) {
    const int rows = call->rows, columns = call->columns;
    for (int output = call->first; output < call->after; output += OUTPUTS) {
        const float *weight = call->weight + (size_t)output * columns, *bias = call->bias + output;
        for (int row = 0, runs = (rows + ROWS - 1) / ROWS; row < rows; runs--) {
            const int run = (rows - row + runs - 1) / runs;
            const float *x = call->x + (size_t)row * columns;
            float *y = call->y + (size_t)row * call->outputs + output;
            switch (run) { DOT_CASES }
            row += run;
        }
    }
}
