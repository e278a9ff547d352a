/* 8-bit depthwise convolution with AVX-512 VNNI. A 3x3 window with stride 1 takes 3 loads, 8
 * unpacks and 12 multiply-adds for each 64 outputs: every column is unpacked once and added to the
 * three outputs it belongs to. */
#include <string.h>

#include "depthwise_internal.h"
#define QB_SIMD_TIER QB_SIMD_AVX512_VNNI
#include "finish_simd.h"

#if QB_X86

#define XOR xor_si512
#define V_(name) _mm512_##name
#define V(name) V_(name)
#define F(name) name##_64
#define VI __m512i
#define VF __m512
#define BYTES 64
#define LOADI(p) _mm512_loadu_si512(p)
#define STOREI(p, v) _mm512_storeu_si512(p, v)
#define LOADF(p) _mm512_loadu_ps(p)
#define STOREF(p, v) _mm512_storeu_ps(p, v)
#define CVT(v) _mm512_cvtps_epi32(v)
#include "depthwise_s8_avx512.inc"
#undef XOR
#undef V_
#undef F
#undef VI
#undef VF
#undef BYTES
#undef LOADI
#undef STOREI
#undef LOADF
#undef STOREF
#undef CVT

#define XOR xor_si256
#define V_(name) _mm256_##name
#define F(name) name##_32
#define VI __m256i
#define VF __m256
#define BYTES 32
#define LOADI(p) _mm256_loadu_si256((const __m256i *)(const void *)(p))
#define STOREI(p, v) _mm256_storeu_si256((__m256i *)(void *)(p), v)
#define LOADF(p) _mm256_loadu_ps((const float *)(const void *)(p))
#define STOREF(p, v) _mm256_storeu_ps(p, v)
#define CVT(v) _mm256_cvtps_epi32(v)
#include "depthwise_s8_avx512.inc"
#undef XOR
#undef V_
#undef F
#undef VI
#undef VF
#undef BYTES
#undef LOADI
#undef STOREI
#undef LOADF
#undef STOREF
#undef CVT

#define XOR xor_si128
#define V_(name) _mm_##name
#define F(name) name##_16
#define VI __m128i
#define VF __m128
#define BYTES 16
#define LOADI(p) _mm_loadu_si128((const __m128i *)(const void *)(p))
#define STOREI(p, v) _mm_storeu_si128((__m128i *)(void *)(p), v)
#define LOADF(p) _mm_loadu_ps((const float *)(const void *)(p))
#define STOREF(p, v) _mm_storeu_ps(p, v)
#define CVT(v) _mm_cvtps_epi32(v)
#include "depthwise_s8_avx512.inc"

/* The lane that channel i of a block has after interleaving. */
static int lane_of(const qb_dw_block *block, int i) {
    return i % 16 / 4 * (block->lanes / 4) + i / 16 * 4 + i % 4;
}

/* Which group of four and which place in it a tap has: 3x3 windows go by columns. */
static void place_of(const qb_dw *dw, int64_t tap, int64_t *group, int *byte) {
    bool columns = qb_dw_is_3x3(dw);
    *group = columns ? tap % 3 : tap / 4;
    *byte = (int)(columns ? tap / 3 : tap % 4);
}

static void pack(const qb_dw *dw, const qb_dw_block *block, const void *weight, const void *start,
                 const float *multiplier, const float *bias, char *packed) {
    size_t vector = (size_t)block->lanes * 4;
    char *to = packed + block->weight, *end = packed + block->start;
    memset(to, 0, (size_t)dw->groups * vector);
    for (int i = 0; i < block->width; i++)
        for (int64_t t = 0; t < dw->taps; t++) {
            int64_t group;
            int byte;
            place_of(dw, t, &group, &byte);
            to[(size_t)group * vector + (size_t)(lane_of(block, i) * 4 + byte)] =
                ((const char *)weight)[(block->channel + i) * dw->taps + t];
        }
    for (int i = 0; i < block->lanes; i++) {
        size_t lane = (size_t)lane_of(block, i) * 4;
        memcpy(end + lane, (const char *)start + i * 4, 4);
        memcpy(end + vector + lane, &multiplier[i], 4);
        memcpy(end + 2 * vector + lane, &bias[i], 4);
    }
}

static void row_3x3(const qb_dw *dw, const qb_dw_row *row) {
    typedef void (*loop)(const qb_dw *, const qb_dw_row *, const qb_dw_block *);
    for (int32_t b = row->first_block; b < row->end_block; b++) {
        const qb_dw_block *block = &dw->blocks[b];
        bool two = dw->stride[1] == 2;
        loop run = block->lanes == 64   ? (two ? row_3x3_s2_64 : row_3x3_64)
                   : block->lanes == 32 ? (two ? row_3x3_s2_32 : row_3x3_32)
                                        : (two ? row_3x3_s2_16 : row_3x3_16);
        run(dw, row, block);
    }
}

static void row_any(const qb_dw *dw, const qb_dw_row *row) {
    const char *taps[QB_DW_TAPS + 4];
    for (int64_t x = 0; x < dw->out_w; x++) {
        qb_dw_taps(dw, row, x, taps);
        for (int32_t b = row->first_block; b < row->end_block; b++) {
            const qb_dw_block *block = &dw->blocks[b];
            if (block->lanes == 64)
                pixel_64(dw, row, block, taps, x);
            else if (block->lanes == 32)
                pixel_32(dw, row, block, taps, x);
            else
                pixel_16(dw, row, block, taps, x);
        }
    }
}

static void run_row(const qb_dw *dw, const qb_dw_row *row) {
    if (qb_dw_is_3x3(dw))
        row_3x3(dw, row);
    else
        row_any(dw, row);
}

static const qb_dw_arch arch = {.integer = true,
                                .lanes = {64, 32, 16},
                                .tap_group = 4,
                                .flip = 128,
                                .pack = pack,
                                .row = run_row};

static bool supports(const qb_problem *p, const bool *constant) {
    return qb_processor_has(QB_TIER_AVX512_VNNI) && qb_dw_supports(p, constant, true);
}

static qb_status create(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *p,
                        const bool *constant, int threads, qb_kernel **out) {
    (void)constant;
    return qb_dw_create(cx, tactic, p, threads, &arch, out);
}
#else
#include "conv_internal.h"
QB_CPU_ABSENT
#endif

const qb_tactic qb_tactic_cpu_depthwise_s8_avx512 = {.name = "cpu.depthwise_s8.avx512vnni",
                                                     .backend = "cpu",
                                                     .kind = QB_KIND_CONV,
                                                     .exactness = QB_EXACT,
                                                     .supports = supports,
                                                     .create = create};
