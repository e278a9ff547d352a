/* One vocabulary of vectors for several instruction sets, so that a kernel is written once: a
 * source names its tier (else AVX2) before it includes this,
 *
 *     #define QB_SIMD_TIER QB_SIMD_AVX2
 *     #include "conv_f32_simd.inc"
 *
 * and functions that use vectors are marked QB_SIMD. Each operation is one instruction where the
 * tier has it, and gives the same bits in all tiers.
 *
 * A vf holds QB_LANES floats, a vi as many int32 (or QB_SIMD_BYTES bytes). The last vector of a row
 * has fewer lanes: a vlanes says how many take part in a load or a store; the others are zero, and
 * their memory is not touched. A vmask is the result of a comparison. */
#ifndef QB_CPU_SIMD_INTERNAL_H
#define QB_CPU_SIMD_INTERNAL_H

#include "cpu_internal.h"

#define QB_SIMD_SSE2 0
#define QB_SIMD_AVX2 1
#define QB_SIMD_AVX2_VNNI 2
#define QB_SIMD_AVX512 3
#define QB_SIMD_AVX512_VNNI 4
#define QB_SIMD_AVX512_BF16 5
#ifndef QB_SIMD_TIER
#define QB_SIMD_TIER QB_SIMD_AVX2
#endif

/* QB_SIMD_NAME(x): x of this tier. QB_SIMD_HAS: the tier of base/processor.h to ask for. */
#if QB_SIMD_TIER == QB_SIMD_SSE2
#define QB_SIMD
#define QB_SIMD_NAME(x) x##_sse2
#define QB_SIMD_HAS QB_TIER_SCALAR
#elif QB_SIMD_TIER == QB_SIMD_AVX2
#define QB_SIMD QB_AVX2
#define QB_SIMD_NAME(x) x##_avx2
#define QB_SIMD_HAS QB_TIER_AVX2
#elif QB_SIMD_TIER == QB_SIMD_AVX2_VNNI
#define QB_SIMD QB_AVX2_VNNI
#define QB_SIMD_NAME(x) x##_avx2_vnni
#define QB_SIMD_HAS QB_TIER_AVX2_VNNI
#elif QB_SIMD_TIER == QB_SIMD_AVX512
#define QB_SIMD QB_AVX512
#define QB_SIMD_NAME(x) x##_avx512
#define QB_SIMD_HAS QB_TIER_AVX512
#elif QB_SIMD_TIER == QB_SIMD_AVX512_VNNI
#define QB_SIMD QB_AVX512_VNNI
#define QB_SIMD_NAME(x) x##_avx512_vnni
#define QB_SIMD_HAS QB_TIER_AVX512_VNNI
#elif QB_SIMD_TIER == QB_SIMD_AVX512_BF16
#define QB_SIMD QB_AVX512_BF16
#define QB_SIMD_NAME(x) x##_avx512_bf16
#define QB_SIMD_HAS QB_TIER_AVX512_BF16
#else
#error "no such tier"
#endif

/* The descriptor, from the file's `supports` and `create`; behind the exactness may stand further
 * members. */
#define QB_SIMD_TACTIC(symbol, text, kind_, ...)                                                   \
    const qb_tactic qb_tactic_##symbol = {.name = text,                                            \
                                          .backend = "cpu",                                        \
                                          .kind = kind_,                                           \
                                          .supports = supports,                                    \
                                          .create = create,                                        \
                                          .exactness = __VA_ARGS__};

/* What a file for another processor defines instead of its tactic's functions. */
#define QB_CPU_ABSENT                                                                              \
    static bool supports(const qb_problem *p, const bool *constant) {                              \
        (void)p, (void)constant;                                                                   \
        return false;                                                                              \
    }                                                                                              \
    static qb_status create(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *p,              \
                            const bool *constant, int threads, qb_kernel **out) {                  \
        (void)p, (void)constant, (void)threads, (void)out;                                         \
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "%s: not for this processor", tactic->name);     \
    }

#if QB_X86
#include <immintrin.h>

#define QB_SIMD_VNNI (QB_SIMD_TIER == QB_SIMD_AVX2_VNNI || QB_SIMD_TIER == QB_SIMD_AVX512_VNNI)
#define QB_V QB_SIMD QB_FORCE_INLINE

#if QB_SIMD_TIER >= QB_SIMD_AVX512
#define QB_SIMD_BYTES 64
#include "simd_512.inc"
#elif QB_SIMD_TIER >= QB_SIMD_AVX2
#define QB_SIMD_BYTES 32
#include "simd_256.inc"
#else
#define QB_SIMD_BYTES 16
#include "simd_128.inc"
#endif

/* The lanes' sum, and the largest of them: halves, then quarters. */
QB_V float vf_sum(vf v) {
    float lane[QB_LANES];
    vf_store(lane, v);
    for (int by = QB_LANES / 2; by > 0; by /= 2)
        for (int i = 0; i < by; i++) lane[i] += lane[i + by];
    return lane[0];
}
QB_V float vf_largest(vf v) {
    float lane[QB_LANES];
    vf_store(lane, v);
    for (int by = QB_LANES / 2; by > 0; by /= 2)
        for (int i = 0; i < by; i++) lane[i] = lane[i + by] > lane[i] ? lane[i + by] : lane[i];
    return lane[0];
}

/* Four vectors of int32, packed with saturation to bytes after `zero` is added and bounds are
 * applied: what is left of the end of an integer step when its activation is bounds. s8 goes
 * through u8 with 128 more. */
typedef struct qb_pack {
    vi zero, low, high, flip; /* 16-bit, 16-bit, 16-bit, bytes */
} qb_pack;

QB_V qb_pack qb_pack_of(const qb_epilogue *f) {
    const int more = f->out == QB_DTYPE_S8 ? 128 : 0;
    return (qb_pack){vi_set16((short)(f->zero + more)), vi_set16((short)(f->low_q + more)),
                     vi_set16((short)(f->high_q + more)), vi_set8(more ? (char)-128 : 0)};
}

/* Of each 128-bit lane: four bytes of a, of b, of c, of d. */
QB_V vi qb_pack_quantized(const qb_pack *p, vi a, vi b, vi c, vi d) {
    vi ab = vi_adds16(vi_packs32(a, b), p->zero), cd = vi_adds16(vi_packs32(c, d), p->zero);
    ab = vi_min16(p->high, vi_max16(p->low, ab));
    cd = vi_min16(p->high, vi_max16(p->low, cd));
    return vi_xor(vi_packus16(ab, cd), p->flip);
}

#endif
#endif
