/* One layer of ELMo's LSTM, without gradients, over packed tokens: x (N, P) -> y (N, P). At the end of the file, one
   step of the cell with what training needs of it, and the same backwards.

   Tokens come step after step; sizes[t] rows have a token at step t, and rows are sorted so that these are the first
   ones. P is the projection's size, H the cell's. No allocation, no threads, no global state: several calls may run
   side by side.

   Weights are arranged for vectors of LANES numbers, as native_lstm.py does it:
     gates  (H / LANES, P, 4, LANES): for LANES units of the cell, all four gates of each
     cell   (P / (4 LANES) rounded up, H, 4, LANES): for 4 LANES outputs; zeros beyond P */

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__AVX512F__)
#define LANES 16
#define ROWS 6 /* 6 x 4 sums stay in 32 registers */
#elif defined(__AVX2__) && defined(__FMA__)
#define LANES 8
#define ROWS 3 /* 3 x 4 sums stay in 16 */
#else
#define LANES 4
#define ROWS 6
#endif

#if defined(_WIN32)
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default")))
#endif
#define INLINE static inline __attribute__((always_inline))

typedef float vec __attribute__((vector_size(4 * LANES)));
typedef int32_t ints __attribute__((vector_size(4 * LANES)));

INLINE vec load(const float *from) {
    vec x;
    memcpy(&x, from, sizeof x);
    return x;
}

INLINE void store(float *to, vec x) { memcpy(to, &x, sizeof x); }

INLINE vec all(float x) { return (vec){0} + x; }

/* A number that is none stays none: no comparison with it is true. */
INLINE vec at_most(vec x, float bound) {
    ints above = x > all(bound);
    return (vec)(((ints)all(bound) & above) | ((ints)x & ~above));
}

INLINE vec at_least(vec x, float bound) {
    ints below = x < all(bound);
    return (vec)(((ints)all(bound) & below) | ((ints)x & ~below));
}

INLINE vec clipped(vec x, float bound) { return at_least(at_most(x, bound), -bound); }

/* e^x to two units in the last place: x = n ln 2 + r, a polynomial for e^r, and n added to the exponent. */
INLINE vec exponential(vec x) {
    const float shift = 12582912.0f; /* 1.5 * 2^23: adding it rounds to a whole number in the lowest bits */
    x = at_least(at_most(x, 87.0f), -87.0f);
    vec shifted = x * 1.44269504088896341f + shift;
    vec n = shifted - shift;
    vec r = x - n * 0.693359375f;
    r = r + n * 2.12194440e-4f;
    vec e = all(1.9875691500e-4f);
    e = e * r + 1.3981999507e-3f;
    e = e * r + 8.3334519073e-3f;
    e = e * r + 4.1665795894e-2f;
    e = e * r + 1.6666665459e-1f;
    e = e * r + 5.0000001201e-1f;
    e = e * (r * r) + r + 1.0f;
    ints power = ((ints)shifted - (ints)all(shift)) << 23;
    return (vec)((ints)e + power);
}

INLINE vec sigmoid(vec x) { return 1.0f / (1.0f + exponential(-x)); }

INLINE vec tangent(vec x) { return 2.0f / (1.0f + exponential(-2.0f * x)) - 1.0f; }

/* sigmoid(x) tanh(y) with one division, which takes as long as all the rest. The divisor is infinite only where the
   product is none: tanh(-20) is -1 already. */
INLINE vec sigmoid_tangent(vec x, vec y) {
    vec power = exponential(at_most(-2.0f * y, 40.0f));
    return (1.0f - power) / ((1.0f + exponential(-x)) * (1.0f + power));
}

/* sums[rows][4] += a[rows][depth] times a panel (depth, 4, LANES) of weights.
   A function of its own for each number of rows: inside of a longer one compilers run out of registers for the sums. */
#define MULTIPLY(rows)                                                                                                \
    static __attribute__((noinline)) void multiply_##rows(vec sums[ROWS][4], const float *a, size_t stride,           \
                                                          const float *panel, int depth) {                            \
        vec kept[rows][4];                                                                                            \
        for (int r = 0; r < rows; r++)                                                                                \
            for (int g = 0; g < 4; g++) kept[r][g] = sums[r][g];                                                      \
        for (int k = 0; k < depth; k++, panel += 4 * LANES) {                                                         \
            vec weight[4];                                                                                            \
            for (int g = 0; g < 4; g++) weight[g] = load(panel + g * LANES);                                          \
            for (int r = 0; r < rows; r++)                                                                            \
                for (int g = 0; g < 4; g++) kept[r][g] += weight[g] * a[r * stride + k];                              \
        }                                                                                                             \
        for (int r = 0; r < rows; r++)                                                                                \
            for (int g = 0; g < 4; g++) sums[r][g] = kept[r][g];                                                      \
    }
MULTIPLY(1)
MULTIPLY(2)
MULTIPLY(3)
#if ROWS > 3
MULTIPLY(4)
MULTIPLY(5)
MULTIPLY(6)
#endif

INLINE void multiply(const int rows, vec sums[ROWS][4], const float *a, size_t stride, const float *panel, int depth) {
    switch (rows) {
        case 1: multiply_1(sums, a, stride, panel, depth); break;
        case 2: multiply_2(sums, a, stride, panel, depth); break;
        case 3: multiply_3(sums, a, stride, panel, depth); break;
#if ROWS > 3
        case 4: multiply_4(sums, a, stride, panel, depth); break;
        case 5: multiply_5(sums, a, stride, panel, depth); break;
        case 6: multiply_6(sums, a, stride, panel, depth); break;
#endif
    }
}

typedef struct {
    int projection, cell;               /* P, H */
    const float *of_input, *bias;       /* bias (4H), the forget gate's 1 in it */
    const float *of_state, *of_cell;    /* of_cell is null where H = P and nothing is projected */
    float cell_clip, projection_clip;   /* below 0: none */
} Layer;

/* Rows of H numbers begin LANES later than they would: multiples of 4 kB share a few places of the nearest cache. */
INLINE size_t spread(const Layer *layer) { return (size_t)layer->cell + LANES; }

/* The input half of the gates of LANES units, bias + x times the panel. */
INLINE void from_input(const int rows, const Layer *layer, int unit, const float *x, vec sums[ROWS][4]) {
    const size_t cell = layer->cell, size = layer->projection;
    for (int g = 0; g < 4; g++) {
        vec bias = load(layer->bias + g * cell + unit);
        for (int r = 0; r < rows; r++) sums[r][g] = bias;
    }
    multiply(rows, sums, x, size, layer->of_input + (size_t)unit * size * 4, (int)size);
}

/* The same for a block of tokens: gates (rows, 4, LANES).

   A block's gates lie as (H / LANES, tokens, 4, LANES): what is written and read together is side by side. Rows of all
   gates would begin at multiples of 4 kB, for which a cache near the processor has few places. */
INLINE void input_rows(const int rows, const Layer *layer, int unit, const float *x, float *gates) {
    vec sums[ROWS][4];
    from_input(rows, layer, unit, x, sums);
    for (int r = 0; r < rows; r++)
        for (int g = 0; g < 4; g++) store(gates + (r * 4 + g) * LANES, sums[r][g]);
}

/* One step of LANES units: the gates' input half, or x where it is not computed yet -> c in place, and m. */
INLINE void cell_rows(const int rows, const Layer *layer, int unit, const float *gates, const float *x, const float *h,
                      float *c, float *m) {
    const size_t size = layer->projection;
    vec sums[ROWS][4];
    if (gates) {
        for (int r = 0; r < rows; r++)
            for (int g = 0; g < 4; g++) sums[r][g] = load(gates + (r * 4 + g) * LANES);
    } else {
        from_input(rows, layer, unit, x, sums);
    }
    multiply(rows, sums, h, size, layer->of_state + (size_t)unit * size * 4, (int)size);
    for (int r = 0; r < rows; r++) {
        float *state = c + r * spread(layer) + unit;
        vec new = sigmoid(sums[r][2]) * load(state) + sigmoid_tangent(sums[r][0], sums[r][1]);
        if (layer->cell_clip >= 0) new = clipped(new, layer->cell_clip);
        store(state, new);
        store(m + r * spread(layer) + unit, sigmoid_tangent(sums[r][3], new));
    }
}

/* Units of the cell whose share of 4 LANES outputs is added at a time: their weights stay in a near cache for all rows. */
#define DEPTH 1024

/* 4 LANES outputs, from `first`, of the projection of m: the share of the units from `unit` is added to h. */
INLINE void projection_rows(const int rows, const Layer *layer, int first, int unit, const float *m, float *h) {
    const size_t size = layer->projection;
    const size_t count = size - first < 4 * LANES ? size - first : 4 * LANES;
    const int depth = layer->cell - unit < DEPTH ? layer->cell - unit : DEPTH;
    const int clips = unit + depth == layer->cell && layer->projection_clip >= 0;
    float outputs[4 * LANES] = {0};
    vec sums[ROWS][4];
    for (int r = 0; r < rows; r++) {
        if (unit) memcpy(outputs, h + r * size + first, count * sizeof(float));
        for (int g = 0; g < 4; g++) sums[r][g] = load(outputs + g * LANES);
    }
    const float *panel = layer->of_cell + (size_t)first * layer->cell + (size_t)unit * 4 * LANES;
    multiply(rows, sums, m + unit, spread(layer), panel, depth);
    for (int r = 0; r < rows; r++) {
        for (int g = 0; g < 4; g++)
            store(outputs + g * LANES, clips ? clipped(sums[r][g], layer->projection_clip) : sums[r][g]);
        memcpy(h + r * size + first, outputs, count * sizeof(float));
    }
}

/* Runs CALL with its number of rows as a constant, on as few runs of up to ROWS as there can be, of like lengths: a
   short one wastes more than it leaves to the others. */
#define IN_ROWS(count, CALL)                                                               \
    for (int row = 0, runs = ((count) + ROWS - 1) / ROWS; row < (count); runs--) {         \
        const int run = ((count)-row + runs - 1) / runs;                                   \
        switch (run) {                                                                     \
            case 1: CALL(1); break;                                                        \
            case 2: CALL(2); break;                                                        \
            case 3: CALL(3); break;                                                        \
            case 4: CALL((ROWS < 4 ? ROWS : 4)); break;                                    \
            case 5: CALL((ROWS < 5 ? ROWS : 5)); break;                                    \
            default: CALL(ROWS); break;                                                    \
        }                                                                                  \
        row += run;                                                                        \
    }

/* gates: those of the step's first row in the block's first panel, the next panel `panel` numbers later; or none. */
static void step(const Layer *layer, int rows, const float *gates, size_t panel, const float *x, float *h, float *c,
                 float *m) {
    const size_t cell = spread(layer), size = layer->projection;
    for (int unit = 0; unit < layer->cell; unit += LANES) {
        const float *of_unit = gates ? gates + unit / LANES * panel : 0;
#define CELL(n)                                                                                                       \
    cell_rows(n, layer, unit, of_unit ? of_unit + row * 4 * LANES : 0, x + row * size, h + row * size, c + row * cell, \
              m + row * cell)
        IN_ROWS(rows, CELL)
    }
    if (!layer->of_cell) {
        for (int row = 0; row < rows; row++) memcpy(h + row * size, m + row * cell, size * sizeof(float));
        return;
    }
    for (int first = 0; first < layer->projection; first += 4 * LANES)
        for (int unit = 0; unit < layer->cell; unit += DEPTH) {
#define PROJECTION(n) projection_rows(n, layer, first, unit, m + row * cell, h + row * size)
            IN_ROWS(rows, PROJECTION)
        }
}

EXPORT int elmo_lanes(void) { return LANES; }

/* A hash of bytes that depends on the place of each: weights that were prepared for this file are used only as long as
   the bytes that they were made from have the same hash. Not meant against an adversary. It runs as fast as memory is
   read: CHAINS independent vectors hide the latency of the multiplication. */
#define CHAINS 8
typedef uint64_t words __attribute__((vector_size(4 * LANES)));
#define WORDS (LANES / 2)

EXPORT uint64_t elmo_hash(const void *data, uint64_t bytes) {
    const unsigned char *at = data;
    const uint64_t factor = 0x9E3779B97F4A7C15u;
    words chains[CHAINS];
    for (int k = 0; k < CHAINS; k++)
        for (int n = 0; n < WORDS; n++) chains[k][n] = factor * (uint64_t)(k * WORDS + n + 1);
    const uint64_t block = sizeof chains;
    for (; bytes >= block; bytes -= block, at += block)
        for (int k = 0; k < CHAINS; k++) {
            words x;
            memcpy(&x, at + k * sizeof x, sizeof x);
            /* High bits are folded down, or two changed signs could cancel each other. */
            words mixed = (chains[k] ^ x) * factor;
            chains[k] = mixed ^ (mixed >> 29);
        }
    uint64_t hash = bytes;
    for (int k = 0; k < CHAINS; k++)
        for (int n = 0; n < WORDS; n++) hash = (hash ^ chains[k][n]) * factor, hash ^= hash >> 29;
    for (uint64_t n = 0; n < bytes; n++) hash = (hash ^ at[n]) * factor, hash ^= hash >> 29;
    return hash;
}

/* h (B, P) and c (B, H) are the states before, and after the call those after each row's last token.
   gates: room for (block, 4H); a step of more rows than a block needs none. m: room for (2, sizes[0], H + LANES). */
EXPORT void elmo_layer(int projection, int cell, const float *of_input, const float *bias, const float *of_state,
                       const float *of_cell, float cell_clip, float projection_clip, int steps, const int32_t *sizes,
                       int block, const float *x, float *h, float *c, float *y, float *gates, float *m) {
    const Layer layer = {projection, cell, of_input, bias, of_state, of_cell, cell_clip, projection_clip};
    const size_t size = projection, width = spread(&layer);
    float *states = m + sizes[0] * width; /* c with room between its rows */
    for (int row = 0; row < sizes[0]; row++)
        memcpy(states + row * width, c + (size_t)row * cell, cell * sizeof(float));
    for (int first = 0, after; first < steps; first = after) {
        int tokens = 0;
        for (after = first; after < steps && tokens + sizes[after] <= block; after++) tokens += sizes[after];
        const int at_once = after <= first + 1; /* one step: both halves of its gates together */
        if (after == first) tokens = sizes[after++];
        const size_t panel = (size_t)tokens * 4 * LANES;
        for (int unit = 0; unit < cell && !at_once; unit += LANES) {
            float *of_unit = gates + unit / LANES * panel;
#define INPUT(n) input_rows(n, &layer, unit, x + row * size, of_unit + row * 4 * LANES)
            IN_ROWS(tokens, INPUT)
        }
        const float *of_step = gates;
        for (int t = first; t < after; t++) {
            step(&layer, sizes[t], at_once ? 0 : of_step, panel, x, h, states, m);
            memcpy(y, h, sizes[t] * size * sizeof(float));
            of_step += (size_t)sizes[t] * 4 * LANES;
            x += sizes[t] * size;
            y += sizes[t] * size;
        }
    }
    for (int row = 0; row < sizes[0]; row++)
        memcpy(c + (size_t)row * cell, states + row * width, cell * sizeof(float));
}

/* For training: one step of the cell, whose rows (4H) of gates are in the order of the weights. As in cell.py,
   c is -2 times the state, and gates become sigmoid(i), tanh(j) / 2, sigmoid(f), sigmoid(o). H is a multiple of LANES. */
EXPORT void elmo_cell(int rows, int cell, float cell_clip, float *gates, float *c, float *m) {
    const size_t size = cell;
    for (int row = 0; row < rows; row++, gates += 4 * size, c += size, m += size)
        for (size_t unit = 0; unit < size; unit += LANES) {
            float *at = gates + unit;
            vec i = sigmoid(load(at)), j = 0.5f * tangent(load(at + size));
            vec f = sigmoid(load(at + 2 * size)), o = sigmoid(load(at + 3 * size));
            vec state = load(c + unit) * f - 4.0f * i * j;
            if (cell_clip >= 0) state = clipped(state, 2 * cell_clip);
            store(at, i), store(at + size, j), store(at + 2 * size, f), store(at + 3 * size, o);
            store(c + unit, state);
            store(m + unit, o * tangent(-0.5f * state));
        }
}

/* One step backwards: d_c, the gradient of the true state after it, becomes that of the one before; m is made again. */
EXPORT void elmo_cell_backward(int rows, int cell, float cell_clip, const float *gates, const float *before,
                               const float *after, const float *d_m, float *d_c, float *d_gates, float *m) {
    const size_t size = cell, all_rows = (size_t)rows * size;
    for (size_t at = 0; at < all_rows; at += LANES) {
        const size_t unit = at % size;
        const float *of_gates = gates + (at - unit) * 4 + unit;
        float *to_gates = d_gates + (at - unit) * 4 + unit;
        vec i = load(of_gates), j = 2.0f * load(of_gates + size);
        vec f = load(of_gates + 2 * size), o = load(of_gates + 3 * size);
        vec state = load(after + at), squashed = tangent(-0.5f * state), d_output = load(d_m + at);
        vec d_state = load(d_c + at) + d_output * o * (1.0f - squashed * squashed);
        if (cell_clip >= 0) {
            ints inside = (state < all(2 * cell_clip)) & (state > all(-2 * cell_clip));
            d_state = d_state * (vec)((ints)all(1.0f) & inside);
        }
        store(to_gates, d_state * j * (i * (1.0f - i)));
        store(to_gates + size, d_state * i * (1.0f - j * j));
        store(to_gates + 2 * size, d_state * load(before + at) * -0.5f * (f * (1.0f - f)));
        store(to_gates + 3 * size, d_output * squashed * (o * (1.0f - o)));
        store(d_c + at, d_state * f);
        store(m + at, o * squashed);
    }
}
