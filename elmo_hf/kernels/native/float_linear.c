/* x @ weight.T + bias in float32 or bfloat16 for a few rows of x, by a weight as PyTorch has it: (outputs, columns).

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

/* OUTPUTS outputs of some rows of x, in words of one number or two. A function of its own for each number of rows, which
   reads each vector once: otherwise compilers run out of registers, or read a vector anew for each of its products. */
#define DOT(rows, name, target, PRODUCT)                                                                              \
    static target __attribute__((noinline)) void dot_##name##_##rows(const uint32_t *x, const uint32_t *weight,       \
                                                                     int words, const float *bias, float *y,          \
                                                                     size_t outputs) {                                \
        vec sums[rows][OUTPUTS] = {0};                                                                                \
        for (int k = 0; k < words; k += LANES) {                                                                      \
            ints of_row[rows];                                                                                        \
            UNROLL for (int r = 0; r < rows; r++) {                                                                   \
                memcpy(&of_row[r], x + (size_t)r * words + k, sizeof of_row[r]);                                      \
                IN_REGISTER(of_row[r]);                                                                               \
            }                                                                                                         \
            UNROLL for (int g = 0; g < OUTPUTS; g++) {                                                                \
                ints of_output;                                                                                       \
                memcpy(&of_output, weight + (size_t)g * words + k, sizeof of_output);                                 \
                IN_REGISTER(of_output);                                                                               \
                __builtin_prefetch(weight + (size_t)(g + OUTPUTS) * words + k, 0, 2);                                 \
                UNROLL for (int r = 0; r < rows; r++) sums[r][g] = PRODUCT(sums[r][g], of_output, of_row[r]);         \
            }                                                                                                         \
        }                                                                                                             \
        UNROLL for (int r = 0; r < rows; r++) add_up(sums[r], bias, y + r * outputs);                                 \
    }
#define DOT_CASE(rows, name) case rows: dot_##name##_##rows(x, weight, words, bias, y, call->outputs); break;
#if ROWS > 3
#define DOTS(...)                                                                                                     \
    DOT(1, __VA_ARGS__) DOT(2, __VA_ARGS__) DOT(3, __VA_ARGS__)                                                       \
    DOT(4, __VA_ARGS__) DOT(5, __VA_ARGS__) DOT(6, __VA_ARGS__)
#define DOT_CASES(name)                                                                                               \
    DOT_CASE(1, name) DOT_CASE(2, name) DOT_CASE(3, name) DOT_CASE(4, name) DOT_CASE(5, name) DOT_CASE(6, name)
#else
#define DOTS(...) DOT(1, __VA_ARGS__) DOT(2, __VA_ARGS__) DOT(3, __VA_ARGS__)
#define DOT_CASES(name) DOT_CASE(1, name) DOT_CASE(2, name) DOT_CASE(3, name)
#endif

/* The outputs from `first` to before `after`; y (rows, outputs), in float32. Columns are a multiple of the numbers in a
   vector, first and after of 4. */
typedef struct {
    int kind, rows, columns, outputs, first, after;
    const uint32_t *weight;
    const float *bias;
    const uint32_t *x;
    float *y;
} FloatLinearCall;

#define LINEAR(name)                                                                                                  \
    static void linear_##name(const FloatLinearCall *call) {                                                          \
        const int rows = call->rows, words = words_of(call->kind, call->columns);                                     \
        for (int output = call->first; output < call->after; output += OUTPUTS) {                                     \
            const uint32_t *weight = call->weight + (size_t)output * words;                                           \
            const float *bias = call->bias + output;                                                                  \
            for (int row = 0, runs = (rows + ROWS - 1) / ROWS; row < rows; runs--) {                                  \
                const int run = (rows - row + runs - 1) / runs;                                                       \
                const uint32_t *x = call->x + (size_t)row * words;                                                    \
                float *y = call->y + (size_t)row * call->outputs + output;                                            \
                switch (run) { DOT_CASES(name) }                                                                      \
                row += run;                                                                                           \
            }                                                                                                         \
        }                                                                                                             \
    }

DOTS(float32, , DOT_FLOAT32)
LINEAR(float32)
#if defined(HAS_BFLOAT16)
DOTS(bfloat16, HAS_BFLOAT16, DOT_BFLOAT16)
LINEAR(bfloat16)
#endif

EXPORT void elmo_float_linear(const FloatLinearCall *call) {
    if (call->kind == FLOAT32) linear_float32(call);
#if defined(HAS_BFLOAT16)
    if (call->kind == BFLOAT16) linear_bfloat16(call);
#endif
}
