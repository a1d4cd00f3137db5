/* Vectors of LANES floats and the functions of them that a cell needs. */

#pragma once
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__AVX512F__) || defined(__AVX2__)
#include <immintrin.h>
#endif
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

/* For loops over the vectors of an array: otherwise gcc keeps a copy of the array in memory. */
#define UNROLL _Pragma("GCC unroll 6")

/* Keeps compilers from reading a vector from memory anew at each use. */
#if defined(__x86_64__)
#define IN_REGISTER(x) __asm__("" : "+v"(x))
#elif defined(__aarch64__)
#define IN_REGISTER(x) __asm__("" : "+w"(x))
#else
#define IN_REGISTER(x)
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

/* The numbers of the first halves of two vectors in turn, x[0], y[0], x[1] ..., and those of their last halves. */
#if defined(__clang__)
#define IN_TURN(x, y, ...) __builtin_shufflevector(x, y, __VA_ARGS__)
#else
#define IN_TURN(x, y, ...) __builtin_shuffle(x, y, (ints){__VA_ARGS__})
#endif
#if LANES == 16
#define FIRST_HALVES 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define LAST_HALVES 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#elif LANES == 8
#define FIRST_HALVES 0, 8, 1, 9, 2, 10, 3, 11
#define LAST_HALVES 4, 12, 5, 13, 6, 14, 7, 15
#else
#define FIRST_HALVES 0, 4, 1, 5
#define LAST_HALVES 2, 6, 3, 7
#endif
INLINE vec first_in_turn(vec x, vec y) { return IN_TURN(x, y, FIRST_HALVES); }
INLINE vec last_in_turn(vec x, vec y) { return IN_TURN(x, y, LAST_HALVES); }

/* A number that is none stays none: x86 takes the second operand where one is none. */
#if LANES == 16
INLINE vec at_most(vec x, float bound) { return (vec)_mm512_min_ps((__m512)all(bound), (__m512)x); }
INLINE vec at_least(vec x, float bound) { return (vec)_mm512_max_ps((__m512)all(bound), (__m512)x); }
#elif LANES == 8
INLINE vec at_most(vec x, float bound) { return (vec)_mm256_min_ps((__m256)all(bound), (__m256)x); }
INLINE vec at_least(vec x, float bound) { return (vec)_mm256_max_ps((__m256)all(bound), (__m256)x); }
#else
INLINE vec at_most(vec x, float bound) {
    ints above = x > all(bound);
    return (vec)(((ints)all(bound) & above) | ((ints)x & ~above));
}
INLINE vec at_least(vec x, float bound) {
    ints below = x < all(bound);
    return (vec)(((ints)all(bound) & below) | ((ints)x & ~below));
}
#endif

INLINE vec clipped(vec x, float bound) { return at_least(at_most(x, bound), -bound); }

/* e^x = 2^n e^r with x = n ln 2 + r: 2^n, and e^r - 1 by a polynomial, so that results near 0 keep all their digits. */
INLINE vec exponential_parts(vec x, vec *scale) {
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
    *scale = (vec)(((ints)shifted - (ints)all(shift) + 127) << 23);
    return e * (r * r) + r;
}

INLINE vec exponential(vec x) {
    vec scale, less_one = exponential_parts(x, &scale);
    return less_one * scale + scale;
}

/* e^x - 1 */
INLINE vec exponential_less_one(vec x) {
    vec scale, less_one = exponential_parts(x, &scale);
    return less_one * scale + (scale - 1.0f);
}

INLINE vec sigmoid(vec x) { return 1.0f / (1.0f + exponential(-x)); }

INLINE vec tangent(vec x) {
    vec less_one = exponential_less_one(-2.0f * x);
    return -less_one / (2.0f + less_one);
}

/* sigmoid(x) tanh(y) with one division, which takes as long as all the rest. The divisor is infinite only where the
   product is none: tanh(-20) is -1 already. */
INLINE vec sigmoid_tangent(vec x, vec y) {
    vec less_one = exponential_less_one(at_most(-2.0f * y, 40.0f));
    return -less_one / ((1.0f + exponential(-x)) * (2.0f + less_one));
}
