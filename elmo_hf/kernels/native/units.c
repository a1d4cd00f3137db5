/* Which kinds of products this library has units for on this processor, looked up when it runs. */

#include "products.h"

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#elif defined(__aarch64__) && defined(__APPLE__)
#include <sys/sysctl.h>
#elif defined(__aarch64__) && defined(_WIN32)
/* Not windows.h: it has an INT8 of its own. */
__declspec(dllimport) int __stdcall IsProcessorFeaturePresent(unsigned long feature);
#endif

#if defined(__x86_64__)
/* Whether the system saves the registers is not asked: the library is loaded only where torch has found that it does. */
static int processor_has(int kind) {
    unsigned a, b, c, d, more, vnni;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return 0;
    vnni = c >> 11 & 1;
    if (!__get_cpuid_count(7, 1, &more, &b, &c, &d)) more = 0;
    if (kind == BFLOAT16) return LANES == 16 && (more >> 5 & 1);
    return LANES == 16 ? vnni : more >> 4 & 1;
}
#elif defined(__aarch64__) && defined(__linux__)
static int processor_has(int kind) {
    const unsigned long dot_product = 1ul << 20, bfloat16 = 1ul << 14; /* HWCAP_ASIMDDP, HWCAP2_BF16 */
    return kind == BFLOAT16 ? (getauxval(AT_HWCAP2) & bfloat16) != 0 : (getauxval(AT_HWCAP) & dot_product) != 0;
}
#elif defined(__aarch64__) && defined(__APPLE__)
static int processor_has(int kind) {
    int found = 0;
    size_t size = sizeof found;
    const char *name = kind == BFLOAT16 ? "hw.optional.arm.FEAT_BF16" : "hw.optional.arm.FEAT_DotProd";
    return !sysctlbyname(name, &found, &size, 0, 0) && found;
}
#elif defined(__aarch64__) && defined(_WIN32)
static int processor_has(int kind) {
    return kind == INT8 && IsProcessorFeaturePresent(43); /* PF_ARM_V82_DP_INSTRUCTIONS_AVAILABLE */
}
#else
static int processor_has(int kind) { return 0; }
#endif

/* Bit k: products of kind k. */
EXPORT int elmo_kinds(void) {
    int kinds = 1 << FLOAT32;
#if defined(HAS_BFLOAT16)
    if (processor_has(BFLOAT16)) kinds |= 1 << BFLOAT16;
#endif
#if defined(HAS_INT8)
    if (processor_has(INT8)) kinds |= 1 << INT8;
#endif
    return kinds;
}

EXPORT int elmo_lanes(void) { return LANES; }

EXPORT int elmo_zero_point(void) { return ZERO_POINT; }
