/* Products of a few rows of activations and a panel of weights, in float32, bfloat16 and int8.

   A word of 32 bits holds one activation in float32, two in bfloat16 or four in int8. A panel (depth, 4, LANES) has for
   each word of a row the weights of 4 LANES outputs. So the three kinds share their loops and differ in one operation.
   The processor's units for bfloat16 and int8 are looked up at run time (units.c); functions that use them are compiled
   for them, whatever the rest of the library is compiled for. */

#pragma once
#include "vectors.h"

enum { FLOAT32, BFLOAT16, INT8 };

#if defined(FLOAT32_ONLY)
/* For compilers that do not know the units. */
#elif defined(__AVX512F__)
#include <immintrin.h>
#define HAS_BFLOAT16 __attribute__((target("avx512bf16")))
#define DOT_BFLOAT16(sum, w, a) (vec) _mm512_dpbf16_ps((__m512)(sum), (__m512bh)(w), (__m512bh)(a))
#define HAS_INT8 __attribute__((target("avx512vnni")))
#define DOT_INT8(sum, w, a) (ints) _mm512_dpbusd_epi32((__m512i)(sum), (__m512i)(a), (__m512i)(w))
#elif LANES == 8
#include <immintrin.h>
#define HAS_INT8 __attribute__((target("avxvnni")))
#define DOT_INT8(sum, w, a) (ints) _mm256_dpbusd_avx_epi32((__m256i)(sum), (__m256i)(a), (__m256i)(w))
#elif defined(__aarch64__)
#include <arm_neon.h>
#define HAS_BFLOAT16 __attribute__((target("arch=armv8.2-a+bf16")))
#define DOT_BFLOAT16(sum, w, a) (vec) vbfdotq_f32((float32x4_t)(sum), (bfloat16x8_t)(w), (bfloat16x8_t)(a))
#define HAS_INT8 __attribute__((target("arch=armv8.2-a+dotprod")))
#define DOT_INT8(sum, w, a) (ints) vdotq_s32((int32x4_t)(sum), (int8x16_t)(w), (int8x16_t)(a))
#endif

#define DOT_FLOAT32(sum, w, a) (sum) + (vec)(w) * (vec)(a)

/* x86 multiplies signed weights by unsigned activations: these are stored with 128 as their zero. */
#if defined(__aarch64__)
#define ZERO_POINT 0
#else
#define ZERO_POINT 128
#endif

/* sums[rows][4] += a[rows][depth] times a panel. Few rows take several words at a time, each with sums of its own, or
   every operation would wait for the one before.
   A function of its own for each number of rows, which reads the activations before the weights, and each weight once:
   otherwise compilers run out of registers for the sums, and the product takes up to four times as long. */
#define MULTIPLY(rows, chains, name, type, target, DOT)                                                               \
    static target __attribute__((noinline)) void multiply_##name##_##rows(type sums[ROWS][4], const uint32_t *a,      \
                                                                          size_t stride, const uint32_t *panel,       \
                                                                          int depth) {                                \
        type kept[chains][rows][4];                                                                                   \
        UNROLL for (int chain = 0; chain < chains; chain++)                                                           \
            UNROLL for (int r = 0; r < rows; r++)                                                                     \
                UNROLL for (int g = 0; g < 4; g++) kept[chain][r][g] = chain ? (type){0} : sums[r][g];                \
        int k = 0;                                                                                                    \
        for (; k + chains <= depth; k += chains)                                                                      \
            UNROLL for (int chain = 0; chain < chains; chain++, panel += 4 * LANES) {                                 \
                ints x[rows];                                                                                         \
                UNROLL for (int r = 0; r < rows; r++) x[r] = (ints){0} + (int32_t)a[r * stride + k + chain];          \
                UNROLL for (int g = 0; g < 4; g++) {                                                                  \
                    ints weight;                                                                                      \
                    memcpy(&weight, panel + g * LANES, sizeof weight);                                                \
                    IN_REGISTER(weight);                                                                              \
                    UNROLL for (int r = 0; r < rows; r++) kept[chain][r][g] = DOT(kept[chain][r][g], weight, x[r]);   \
                }                                                                                                     \
            }                                                                                                         \
        for (; k < depth; k++, panel += 4 * LANES)                                                                    \
            UNROLL for (int r = 0; r < rows; r++)                                                                     \
                UNROLL for (int g = 0; g < 4; g++) {                                                                  \
                    ints weight;                                                                                      \
                    memcpy(&weight, panel + g * LANES, sizeof weight);                                                \
                    kept[0][r][g] = DOT(kept[0][r][g], weight, ((ints){0} + (int32_t)a[r * stride + k]));             \
                }                                                                                                     \
        UNROLL for (int r = 0; r < rows; r++)                                                                         \
            UNROLL for (int g = 0; g < 4; g++) {                                                                      \
                UNROLL for (int chain = 1; chain < chains; chain++) kept[0][r][g] += kept[chain][r][g];               \
                sums[r][g] = kept[0][r][g];                                                                           \
            }                                                                                                         \
    }

#define CASE(rows, name) case rows: multiply_##name##_##rows(sums, a, stride, panel, depth); break;
#if ROWS > 3
#define EACH(name, type, target, DOT)                                                                                 \
    MULTIPLY(1, 4, name, type, target, DOT)                                                                           \
    MULTIPLY(2, 2, name, type, target, DOT)                                                                           \
    MULTIPLY(3, 2, name, type, target, DOT)                                                                           \
    MULTIPLY(4, 1, name, type, target, DOT)                                                                           \
    MULTIPLY(5, 1, name, type, target, DOT)                                                                           \
    MULTIPLY(6, 1, name, type, target, DOT)
#define CASES(name) CASE(1, name) CASE(2, name) CASE(3, name) CASE(4, name) CASE(5, name) CASE(6, name)
#else
#define EACH(name, type, target, DOT)                                                                                 \
    MULTIPLY(1, 2, name, type, target, DOT)                                                                           \
    MULTIPLY(2, 1, name, type, target, DOT)                                                                           \
    MULTIPLY(3, 1, name, type, target, DOT)
#define CASES(name) CASE(1, name) CASE(2, name) CASE(3, name)
#endif
#define MULTIPLY_ALL(name, type, target, DOT)                                                                         \
    EACH(name, type, target, DOT)                                                                                     \
    INLINE void multiply_##name(const int rows, type sums[ROWS][4], const uint32_t *a, size_t stride,                 \
                                const uint32_t *panel, int depth) {                                                   \
        switch (rows) { CASES(name) }                                                                                 \
    }

MULTIPLY_ALL(float32, vec, , DOT_FLOAT32)
#if defined(HAS_BFLOAT16)
MULTIPLY_ALL(bfloat16, vec, HAS_BFLOAT16, DOT_BFLOAT16)
#endif
#if defined(HAS_INT8)
MULTIPLY_ALL(int8, ints, HAS_INT8, DOT_INT8)
#endif

/* A weight's panels, one behind the other. Of int8: the scale of each output, and the product of its weights and the
   zero point, with a minus. */
typedef struct {
    const uint32_t *panels;
    const float *scale;
    const int32_t *offset;
} Weight;

/* Where rows of activations in words begin, and their distance. In front of each row of int8 stands its scale. */
typedef struct {
    const uint32_t *words;
    size_t stride;
} Activations;

INLINE Activations from_row(Activations a, int row) { return (Activations){a.words + row * a.stride, a.stride}; }

/* Numbers in a word, and words of a row of numbers. */
INLINE int per_word(const int kind) { return kind == INT8 ? 4 : kind == BFLOAT16 ? 2 : 1; }
INLINE int words_of(const int kind, int count) { return (count + per_word(kind) - 1) / per_word(kind); }

/* sums[rows][4] += a times the part of a weight from its word `start`, which has `depth` words in each row. Output g of
   the panel is number first + g * step. */
INLINE void add_product(const int kind, const int rows, const Weight *weight, size_t start, int first, int step,
                        int is_first_part, Activations a, int depth, vec sums[ROWS][4]) {
    const uint32_t *panel = weight->panels + start;
    if (kind == FLOAT32) multiply_float32(rows, sums, a.words, a.stride, panel, depth);
#if defined(HAS_BFLOAT16)
    if (kind == BFLOAT16) multiply_bfloat16(rows, sums, a.words, a.stride, panel, depth);
#endif
#if defined(HAS_INT8)
    if (kind == INT8) {
        ints whole[ROWS][4] = {0};
        for (int g = 0; g < 4 && is_first_part; g++) {
            memcpy(&whole[0][g], weight->offset + first + g * step, sizeof **whole);
            for (int r = 1; r < rows; r++) whole[r][g] = whole[0][g];
        }
        multiply_int8(rows, whole, a.words, a.stride, panel, depth);
        for (int g = 0; g < 4; g++) {
            const vec scale = load(weight->scale + first + g * step);
            for (int r = 0; r < rows; r++) {
                float of_row;
                memcpy(&of_row, a.words + r * a.stride - 1, sizeof of_row);
                sums[r][g] += __builtin_convertvector(whole[r][g], vec) * (scale * of_row);
            }
        }
    }
#endif
}

/* One row of numbers -> words of bfloat16, rounded to the nearest, ties to even. */
INLINE void to_bfloat16(const float *x, int count, uint32_t *words) {
    typedef uint16_t halves __attribute__((vector_size(2 * LANES)));
    for (int k = 0; k < count; k += LANES) {
        float some[LANES] = {0};
        const int whole = count - k >= LANES;
        if (!whole) memcpy(some, x + k, (count - k) * sizeof(float));
        const vec value = load(whole ? x + k : some);
        const ints bits = (ints)value, is_number = value == value;
        const ints rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16;
        const halves half = __builtin_convertvector((rounded & is_number) | (0x7FC0 & ~is_number), halves);
        memcpy((uint16_t *)words + k, &half, whole ? sizeof half : words_of(BFLOAT16, count - k) * sizeof *words);
    }
}

/* One row of numbers -> its scale, and words of int8: the largest number becomes 127 or -127. A row with an infinite
   number, or one that is none, has a scale that is none, and so have all products. */
INLINE void to_int8(const float *x, int count, uint32_t *words) {
    typedef uint8_t bytes __attribute__((vector_size(LANES)));
    const float shift = 12582912.0f + ZERO_POINT; /* adding it rounds to a whole number in the lowest bits */
    ints largest = {0};
    int k = 0;
    for (; k + LANES <= count; k += LANES) {
        const ints bits = (ints)load(x + k) & 0x7FFFFFFF, above = bits > largest;
        largest = (bits & above) | (largest & ~above);
    }
    int32_t bits = 1; /* of the largest: no number is larger than one that is none */
    for (int n = 0; n < LANES; n++) bits = largest[n] > bits ? largest[n] : bits;
    float some[LANES] = {0}, scale;
    memcpy(some, x + k, (count - k) * sizeof(float));
    for (int n = 0; n < LANES; n++) {
        int32_t of_one;
        memcpy(&of_one, some + n, sizeof of_one);
        bits = (of_one & 0x7FFFFFFF) > bits ? of_one & 0x7FFFFFFF : bits;
    }
    memcpy(&scale, &bits, sizeof scale);
    scale = scale > 1e-30f ? scale / 127 : scale == scale ? 1e-30f : scale;
    scale += scale - scale;
    memcpy(words - 1, &scale, sizeof scale);
    const float factor = 1 / scale;
    for (int at = 0; at < count; at += LANES) {
        const int whole = count - at >= LANES;
        const ints rounded = (ints)(load(whole ? x + at : some) * factor + shift);
        const bytes byte = __builtin_convertvector(rounded & 255, bytes);
        memcpy((uint8_t *)words + at, &byte, whole ? sizeof byte : words_of(INT8, count - at) * sizeof *words);
    }
}

/* What a row lost when it was rounded, in place of the row. */
INLINE void keep_remainder(float *x, int count, const uint32_t *words) {
    const uint8_t *bytes = (const uint8_t *)words;
    float scale;
    memcpy(&scale, words - 1, sizeof scale);
    for (int k = 0; k < count; k++) x[k] -= scale * (int8_t)(bytes[k] - ZERO_POINT);
}

/* Rows of numbers, `distance` apart, as activations; those of float32 stay where they are. */
INLINE Activations activations(const int kind, const float *x, int rows, size_t distance, int count, uint32_t *room) {
    if (kind == FLOAT32) return (Activations){(const uint32_t *)x, distance};
    const Activations result = {room + 1, words_of(kind, count) + 1};
    for (int row = 0; row < rows; row++) {
        uint32_t *words = room + 1 + row * result.stride;
        if (kind == BFLOAT16) to_bfloat16(x + row * distance, count, words);
        if (kind == INT8) to_int8(x + row * distance, count, words);
    }
    return result;
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
