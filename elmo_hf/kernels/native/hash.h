/* The hash by which weights are compared. */

#pragma once
#include <stdint.h>

/* Whether stretches of memory, address and length of each, have these hashes. */
int have_hashes(int count, const uint64_t *stretches, const uint64_t *hashes);
