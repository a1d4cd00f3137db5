/* One layer of ELMo's LSTM, without gradients, over packed tokens: x (N, P) -> y (N, P), in one of three kinds of
   products: float32, bfloat16 or int8. Inputs, outputs and states are float32 in all of them.

   Tokens come step after step; sizes[t] rows have a token at step t, and rows are sorted so that these are the first
   ones. P is the projection's size, H the cell's. No allocation, no threads, no global state: several calls may run
   side by side.

   Weights are arranged for vectors of LANES numbers, as native_lstm.py does it, in words of 1, 2 or 4 numbers:
     gates  (H / LANES, words of P, 4, LANES): for LANES units of the cell, all four gates of each
     cell   (P / (4 LANES) rounded up, words of H, 4, LANES): for 4 LANES outputs; zeros beyond P */

#include "hash.h"
#include "products.h"

typedef struct {
    int projection, cell;                  /* P, H */
    const float *bias;                     /* (4H), the forget gate's 1 in it */
    Weight of_input, of_state, of_cell;    /* of_cell has no panels where H = P and nothing is projected */
    float cell_clip, projection_clip;      /* below 0: none */
} Layer;

/* Rows of H numbers begin LANES later than they would: multiples of 4 kB share a few places of the nearest cache. */
INLINE size_t spread(const Layer *layer) { return (size_t)layer->cell + LANES; }

/* sums += a times the gates of LANES units. */
INLINE void add_gates(const int kind, const int rows, const Layer *layer, const Weight *weight, int unit,
                      Activations a, vec sums[ROWS][4]) {
    const int depth = words_of(kind, layer->projection);
    add_product(kind, rows, weight, (size_t)unit * depth * 4, unit, layer->cell, 1, a, depth, sums);
}

/* The input half of the gates of LANES units: bias + x times the panel. */
INLINE void from_input(const int kind, const int rows, const Layer *layer, int unit, Activations x,
                       vec sums[ROWS][4]) {
    for (int g = 0; g < 4; g++) {
        vec bias = load(layer->bias + (size_t)g * layer->cell + unit);
        for (int r = 0; r < rows; r++) sums[r][g] = bias;
    }
    add_gates(kind, rows, layer, &layer->of_input, unit, x, sums);
}

/* The same for a block of tokens: gates (rows, 4, LANES).

   A block's gates lie as (H / LANES, tokens, 4, LANES): what is written and read together is side by side. Rows of all
   gates would begin at multiples of 4 kB, for which a cache near the processor has few places. */
INLINE void input_rows(const int kind, const int rows, const Layer *layer, int unit, Activations x, float *gates) {
    vec sums[ROWS][4];
    from_input(kind, rows, layer, unit, x, sums);
    for (int r = 0; r < rows; r++)
        for (int g = 0; g < 4; g++) store(gates + (r * 4 + g) * LANES, sums[r][g]);
}

/* One step of LANES units: the gates' input half, or x where it is not computed yet -> c in place, and m. */
INLINE void cell_rows(const int kind, const int rows, const Layer *layer, int unit, const float *gates, Activations x,
                      Activations h, float *c, float *m) {
    vec sums[ROWS][4];
    if (gates) {
        for (int r = 0; r < rows; r++)
            for (int g = 0; g < 4; g++) sums[r][g] = load(gates + (r * 4 + g) * LANES);
    } else {
        from_input(kind, rows, layer, unit, x, sums);
    }
    add_gates(kind, rows, layer, &layer->of_state, unit, h, sums);
    for (int r = 0; r < rows; r++) {
        float *state = c + r * spread(layer) + unit;
        vec new = sigmoid(sums[r][2]) * load(state) + sigmoid_tangent(sums[r][0], sums[r][1]);
        if (layer->cell_clip >= 0) new = clipped(new, layer->cell_clip);
        store(state, new);
        store(m + r * spread(layer) + unit, sigmoid_tangent(sums[r][3], new));
    }
}

/* Words of the cell's row whose share of 4 LANES outputs is added at a time: their weights stay in a near cache for all
   rows. */
#define DEPTH 1024

/* 4 LANES outputs, from `first`, of the projection of m: the share of the words from `start` is added to h. In int8,
   `remainder` is what m lost when it was rounded. */
INLINE void projection_rows(const int kind, const int rows, const Layer *layer, int first, int start, Activations m,
                            Activations remainder, float *h) {
    const size_t size = layer->projection;
    const size_t count = size - first < 4 * LANES ? size - first : 4 * LANES;
    const int words = words_of(kind, layer->cell), depth = words - start < DEPTH ? words - start : DEPTH;
    const int clips = start + depth == words && layer->projection_clip >= 0;
    float outputs[4 * LANES] = {0};
    vec sums[ROWS][4];
    for (int r = 0; r < rows; r++) {
        if (start) memcpy(outputs, h + r * size + first, count * sizeof(float));
        for (int g = 0; g < 4; g++) sums[r][g] = load(outputs + g * LANES);
    }
    const size_t panel = (size_t)first * words + (size_t)start * 4 * LANES;
    const Activations part = {m.words + start, m.stride};
    add_product(kind, rows, &layer->of_cell, panel, first, LANES, !start, part, depth, sums);
    if (kind == INT8) {
        const Activations rest = {remainder.words + start, remainder.stride};
        add_product(kind, rows, &layer->of_cell, panel, first, LANES, !start, rest, depth, sums);
    }
    for (int r = 0; r < rows; r++) {
        for (int g = 0; g < 4; g++)
            store(outputs + g * LANES, clips ? clipped(sums[r][g], layer->projection_clip) : sums[r][g]);
        memcpy(h + r * size + first, outputs, count * sizeof(float));
    }
}

/* gates: those of the step's first row in the block's first panel, the next panel `panel` numbers later; or none.
   room: for the words of h, then of m. Every other step takes the units from the last to the first, because the weights
   of the last ones are still in a near cache. */
INLINE void step(const int kind, const Layer *layer, int rows, const float *gates, size_t panel, Activations x,
                 float *h, float *c, float *m, uint32_t *room, int is_backwards) {
    const size_t cell = spread(layer), size = layer->projection;
    const Activations state = activations(kind, h, rows, size, layer->projection, room);
    for (int at = 0; at < layer->cell; at += LANES) {
        const int unit = is_backwards ? layer->cell - LANES - at : at;
        const float *of_unit = gates ? gates + unit / LANES * panel : 0;
#define CELL(n)                                                                                                       \
    cell_rows(kind, n, layer, unit, of_unit ? of_unit + row * 4 * LANES : 0, from_row(x, row), from_row(state, row), \
              c + row * cell, m + row * cell)
        IN_ROWS(rows, CELL)
    }
    if (!layer->of_cell.panels) {
        for (int row = 0; row < rows; row++) memcpy(h + row * size, m + row * cell, size * sizeof(float));
        return;
    }
    const Activations output = activations(kind, m, rows, cell, layer->cell, room);
    Activations remainder = output;
    if (kind == INT8) {
        /* Most numbers of m are small beside its largest one: rounded once, they would cost 0.35% of perplexity. */
        for (int row = 0; row < rows; row++)
            keep_remainder(m + row * cell, layer->cell, from_row(output, row).words);
        remainder = activations(kind, m, rows, cell, layer->cell, room + rows * output.stride);
    }
    for (int first = 0; first < layer->projection; first += 4 * LANES)
        for (int start = 0; start < words_of(kind, layer->cell); start += DEPTH) {
#define PROJECTION(n)                                                                                             \
    projection_rows(kind, n, layer, first, start, from_row(output, row), from_row(remainder, row), h + row * size)
            IN_ROWS(rows, PROJECTION)
        }
}

/* A run of whole steps with at most `block` tokens, or one step of more: those before `after`. */
INLINE int steps_after(int first, int steps, const int32_t *sizes, int block) {
    int tokens = 0, after = first;
    for (; after < steps && tokens + sizes[after] <= block; after++) tokens += sizes[after];
    return after == first ? first + 1 : after;
}

INLINE void through_time(const int kind, const Layer *layer, int steps, const int32_t *sizes, int block,
                         const float *x, float *h, float *c, float *y, float *gates, float *m, uint32_t *room) {
    const size_t size = layer->projection;
    for (int first = 0, after; first < steps; first = after) {
        int tokens = 0;
        after = steps_after(first, steps, sizes, block);
        for (int t = first; t < after; t++) tokens += sizes[t];
        const int at_once = after == first + 1; /* one step: both halves of its gates together */
        const size_t panel = (size_t)tokens * 4 * LANES;
        /* The words of x are needed until the block ends; those of h and m come behind them. */
        const Activations inputs = activations(kind, x, tokens, size, layer->projection, room);
        for (int unit = 0; unit < layer->cell && !at_once; unit += LANES) {
            float *of_unit = gates + unit / LANES * panel;
#define INPUT(n) input_rows(kind, n, layer, unit, from_row(inputs, row), of_unit + row * 4 * LANES)
            IN_ROWS(tokens, INPUT)
        }
        const float *of_step = gates;
        for (int t = first; t < after; t++) {
            step(kind, layer, sizes[t], at_once ? 0 : of_step, panel, inputs, h, c, m, room + tokens * inputs.stride,
                 t & 1);
            memcpy(y, h, sizes[t] * size * sizeof(float));
            of_step += (size_t)sizes[t] * 4 * LANES;
            y += sizes[t] * size;
        }
        x += tokens * size;
    }
}

/* h (B, P) and c (B, H) are the states before, and after the call those after each row's last token.
   scales and offsets: of the 4H gates' input half, of its other half, and of the projection, rounded up to 4 LANES; for
   int8 only. gates: room for (block, 4H); a step of more rows than a block needs none. m: room for
   (2, sizes[0], H + LANES). room, but for float32: for max(block, sizes[0]) rows of P numbers in words, and for
   2 sizes[0] rows of the larger of P and H, each with one word more.
   hash_count: stretches of memory, those of the weights from which the layer's were arranged, whose hashes must be
   these: is_done says whether they were, and otherwise nothing is computed. */
typedef struct {
    int kind, projection, cell, steps, block, hash_count, is_done;
    float cell_clip, projection_clip;
    const uint32_t *of_input;
    const float *bias;
    const uint32_t *of_state, *of_cell;
    const float *scales;
    const int32_t *offsets, *sizes;
    const float *x;
    float *h, *c, *y, *gates, *m;
    uint32_t *room;
    const uint64_t *stretches, *hashes;
} LayerCall;

EXPORT void elmo_layer(LayerCall *call) {
    call->is_done = have_hashes(call->hash_count, call->stretches, call->hashes);
    if (!call->is_done) return;
    const int cell = call->cell, rows = call->sizes[0];
    const size_t of_gates = call->kind == INT8 ? 4 * (size_t)cell : 0;
    const Layer layer = {call->projection,
                         cell,
                         call->bias,
                         {call->of_input, call->scales, call->offsets},
                         {call->of_state, call->scales + of_gates, call->offsets + of_gates},
                         {call->of_cell, call->scales + 2 * of_gates, call->offsets + 2 * of_gates},
                         call->cell_clip,
                         call->projection_clip};
    const size_t width = spread(&layer);
    float *states = call->m + rows * width; /* c with room between its rows */
    for (int row = 0; row < rows; row++)
        memcpy(states + row * width, call->c + (size_t)row * cell, cell * sizeof(float));
#define THROUGH_TIME(kind)                                                                                          \
    through_time(kind, &layer, call->steps, call->sizes, call->block, call->x, call->h, states, call->y, call->gates, \
                 call->m, call->room)
    switch (call->kind) {
        case FLOAT32: THROUGH_TIME(FLOAT32); break;
        case BFLOAT16: THROUGH_TIME(BFLOAT16); break;
        case INT8: THROUGH_TIME(INT8); break;
    }
    for (int row = 0; row < rows; row++)
        memcpy(call->c + (size_t)row * cell, states + row * width, cell * sizeof(float));
}
