#include "processor.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__)
#include <cpuid.h>
#define HAS(feature) (__builtin_cpu_supports(feature) != 0)

/* Which compilers name it differs: leaf 7, subleaf 1, EAX bit 4. The system saves the registers
 * where AVX2 may be used. */
static bool has_avx_vnni(void) {
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a >> 4 & 1);
}

static bool machine_has(qb_tier tier) {
    switch (tier) {
    case QB_TIER_SCALAR: return true;
    case QB_TIER_AVX2: return HAS("avx2") && HAS("fma");
    case QB_TIER_AVX2_VNNI: return machine_has(QB_TIER_AVX2) && has_avx_vnni();
    case QB_TIER_AVX512:
        return machine_has(QB_TIER_AVX2) && HAS("avx512f") && HAS("avx512bw") && HAS("avx512dq") &&
               HAS("avx512vl");
    case QB_TIER_AVX512_VNNI: return machine_has(QB_TIER_AVX512) && HAS("avx512vnni");
    case QB_TIER_AVX512_BF16: return machine_has(QB_TIER_AVX512_VNNI) && HAS("avx512bf16");
    case QB_TIER_COUNT: break;
    }
    return false;
}

static bool machine_has_vbmi(void) { return HAS("avx512vbmi"); }
#else
static bool machine_has(qb_tier tier) { return tier == QB_TIER_SCALAR; }
static bool machine_has_vbmi(void) { return false; }
#endif

static const char *const texts[] = {
#define X(name, text, features) text,
    QB_TIER_LIST(X)
#undef X
};

static const char *const features[] = {
#define X(name, text, features) features,
    QB_TIER_LIST(X)
#undef X
};

const char *qb_tier_text(qb_tier tier) { return texts[tier]; }
const char *qb_tier_features(qb_tier tier) { return features[tier]; }

/* QB_TIER_COUNT: no such tier, or none is named. */
static qb_tier named(const char *text) {
    int tier = 0;
    while (tier < QB_TIER_COUNT && !(text && strcmp(texts[tier], text) == 0)) tier++;
    return (qb_tier)tier;
}

qb_tier qb_processor_limit(void) { return named(getenv("QB_CPU")); }

bool qb_processor_has(qb_tier tier) { return tier <= qb_processor_limit() && machine_has(tier); }

qb_tier qb_processor_tier(void) {
    qb_tier tier = (qb_tier)(QB_TIER_COUNT - 1);
    while (!qb_processor_has(tier)) tier--;
    return tier;
}

int qb_processor_vector_bytes(void) {
    static _Atomic int vector_bytes; /* a loop may be short: no look at the environment each time */
    int bytes = atomic_load_explicit(&vector_bytes, memory_order_relaxed);
    if (bytes) return bytes;
    bytes = qb_processor_has(QB_TIER_AVX512) ? 64 : qb_processor_has(QB_TIER_AVX2) ? 32 : 16;
    atomic_store_explicit(&vector_bytes, bytes, memory_order_relaxed);
    return bytes;
}

bool qb_processor_has_vbmi(void) { return qb_processor_has(QB_TIER_AVX512) && machine_has_vbmi(); }

qb_status qb_processor_check(qb_ctx *cx) {
    const char *text = getenv("QB_CPU");
    if (!text || text[0] == '\0' || named(text) < QB_TIER_COUNT) return QB_OK;
    return qb_fail(cx, QB_STATUS_INVALID,
                   "environment variable QB_CPU: expected scalar, avx2, avx2-vnni, avx512, "
                   "avx512-vnni or avx512-bf16, got '%s'",
                   text);
}
