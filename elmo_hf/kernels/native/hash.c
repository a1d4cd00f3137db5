/* The hash by which weights are compared. */

#include "hash.h"

#include "vectors.h"

/* A hash of bytes that depends on the place of each: weights that were prepared for this file are used only as long as
   the bytes that they were made from have the same hash. Not meant against an adversary. It runs as fast as memory is
   read: CHAINS independent vectors hide the latency of the multiplication. */
#define CHAINS 8
typedef uint64_t words __attribute__((vector_size(4 * LANES)));
#define WORDS (LANES / 2)

static uint64_t hash(const void *data, uint64_t bytes) {
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

static uint64_t hash_of(const uint64_t stretch[2]) { return hash((const void *)(uintptr_t)stretch[0], stretch[1]); }

int have_hashes(int count, const uint64_t *stretches, const uint64_t *hashes) {
    for (int k = 0; k < count; k++)
        if (hash_of(stretches + 2 * k) != hashes[k]) return 0;
    return 1;
}

EXPORT void elmo_hashes(int count, const uint64_t *stretches, uint64_t *hashes) {
    for (int k = 0; k < count; k++) hashes[k] = hash_of(stretches + 2 * k);
}
