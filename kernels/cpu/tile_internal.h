/* Tiles of a few pixels by a few vectors of columns, all sums in registers: up to 24 x 1, 14 x 2 or
 * 9 x 3 where there are 32 registers (AVX-512), 12 x 1, 6 x 2 or 4 x 3 where there are 16.
 *
 * Each step broadcasts 4 bytes of data of a pixel (one float, two bf16 or four quantized values)
 * and multiplies it with a vector of weights for each vector of columns: with 14 x 2 sums that is
 * 16 loads for 28 multiply-adds, so the multipliers are the limit (measured: 99 % of their peak
 * while panel and data are in the caches). Included by a file for each type of data, which defines
 * UNITS, and QB_UNIT_BYTES where a unit of a vector of columns takes more than one vector. */
#ifndef QB_CPU_TILE_INTERNAL_H
#define QB_CPU_TILE_INTERNAL_H

#include <math.h>

#include "conv_internal.h"
#include "epilogue_internal.h"

#if QB_X86

#define QB_SUMS (28 * QB_LANES) /* of the largest tile */

/* Of what a step writes or adds. */
QB_FORCE_INLINE size_t qb_element_bytes(qb_dtype dtype) {
    return dtype == QB_DTYPE_F32 ? 4 : dtype == QB_DTYPE_BF16 ? 2 : 1;
}

/* Of rows and vectors of a tile: where the residual lies. */
QB_FORCE_INLINE const char *qb_tile_residual(const qb_tile *t, int row, int v) {
    return t->residual + t->pixel[row] * t->residual_stride +
           (size_t)(v * QB_LANES) * qb_element_bytes(t->epilogue->residual);
}

/* One vector of sums as floats; `integer`: sums are int32. */
QB_V vf qb_tile_float(const qb_tile *t, const void *sum, bool integer, int v) {
    if (!integer) return vf_load(sum);
    const vf f32 = vf_mul(vf_of(vi_load(sum)), vf_load(t->multiplier + v * QB_LANES));
    return t->bias ? vf_add(f32, vf_load(t->bias + v * QB_LANES)) : f32;
}

/* From sums to stored values, without an activation. */
QB_V void qb_tile_rows(const qb_tile *t, const float *sums, bool integer, qb_dtype out,
                       bool has_residual) {
    const size_t out_size = qb_element_bytes(out);
    for (int v = 0; v < t->vectors; v++) {
        const vlanes n = v_lanes(t->width - v * QB_LANES);
        const float *from = sums + v * QB_LANES;
        for (int r = 0; r < t->rows; r++, from += t->vectors * QB_LANES)
            qb_epilogue_vector(t->epilogue, qb_tile_float(t, from, integer, v), n,
                               has_residual ? qb_tile_residual(t, r, v) : NULL,
                               t->out + t->pixel[r] * t->out_stride +
                                   (size_t)(v * QB_LANES) * out_size,
                               out, has_residual, false);
    }
}

/* Sums become floats behind the activation, and the residual if it comes before that. */
QB_V void qb_tile_activate(const qb_tile *t, float *sums, bool integer) {
    const bool residual = t->residual && !t->epilogue->act_first;
    float *at = sums;
    for (int r = 0; r < t->rows && (integer || residual); r++)
        for (int v = 0; v < t->vectors; v++, at += QB_LANES) {
            vf f32 = qb_tile_float(t, at, integer, v);
            if (residual)
                f32 = vf_add(qb_before_residual(t->epilogue, f32),
                             qb_residual(t->epilogue, qb_tile_residual(t, r, v),
                                         v_lanes(t->width - v * QB_LANES)));
            vf_store(at, f32);
        }
    qb_act_run(&t->epilogue->act, sums, t->rows * t->vectors);
}

/* The sums themselves: the end of a product of integers. */
QB_V void qb_tile_sums(const qb_tile *t, const void *sums) {
    const char *from = (const char *)sums;
    for (int r = 0; r < t->rows; r++)
        for (int v = 0; v < t->vectors; v++, from += QB_SIMD_BYTES)
            vi_store_n(t->out + t->pixel[r] * t->out_stride + v * QB_SIMD_BYTES, vi_load(from),
                       v_lanes(t->width - v * QB_LANES));
}

QB_V void qb_tile_epilogue(const qb_tile *t, void *sums, bool integer) {
    const qb_epilogue *f = t->epilogue;
    const bool act = f->act.kind != QB_ACT_NONE;
    const bool residual = f->residual != QB_DTYPE_NONE && !(act && !f->act_first);
    if (act) qb_tile_activate(t, sums, integer);
    integer = integer && !act;
#define QB_CASE(out)                                                                               \
    case out:                                                                                      \
        if (residual)                                                                              \
            qb_tile_rows(t, sums, integer, out, true);                                             \
        else                                                                                       \
            qb_tile_rows(t, sums, integer, out, false);                                            \
        break;
    switch (f->out) {
        QB_CASE(QB_DTYPE_F32)
        QB_CASE(QB_DTYPE_BF16)
        QB_CASE(QB_DTYPE_U8)
        QB_CASE(QB_DTYPE_S8)
    case QB_DTYPE_S32: qb_tile_sums(t, sums); break;
    default: break;
    }
#undef QB_CASE
}

/* Several units of a single vector at a time: the address of a pixel is loaded once for all of
 * them, otherwise loads would be the limit. */
#if defined(__SANITIZE_ADDRESS__) /* whose checks of each load would take minutes to compile */
#define QB_TILE_UNROLL(VECTORS) 1
#else
#define QB_TILE_UNROLL(VECTORS) ((VECTORS) == 1 ? 4 : 1)
#endif

/* Panels are read from front to back. The processor fetches ahead by itself, but not beyond a page
 * of 4 KB, which is 16 or 32 steps; so ask for what comes this many bytes later. */
#define QB_AHEAD 2048

#ifndef QB_UNIT_BYTES
#define QB_UNIT_BYTES QB_SIMD_BYTES
#endif

/* `N` units from u on: each pixel's sums get them in order. */
/* clang-format off */
#define QB_TILE_UNITS(ROWS, VECTORS, N, VECTOR, LOAD, BROADCAST, STEP)                             \
    {                                                                                              \
        VECTOR w[N][VECTORS];                                                                      \
        QB_UNROLL for (int i = 0; i < (N); i++)                                                    \
            QB_UNROLL for (int v = 0; v < (VECTORS); v++)                                          \
            {                                                                                      \
                w[i][v] = LOAD(weight + (i * (VECTORS) + v) * QB_SIMD_BYTES);                          \
                if ((i * (VECTORS) + v) * QB_SIMD_BYTES % 64 == 0) /* a line */                        \
                    __builtin_prefetch(weight + (i * (VECTORS) + v) * QB_SIMD_BYTES + QB_AHEAD);       \
            }                                                                                      \
        weight += (N) * (VECTORS) * QB_SIMD_BYTES;                                                     \
        QB_UNROLL for (int r = 0; r < (ROWS); r++) {                                               \
            const char *from = data[r] + u;                                                        \
            QB_UNROLL for (int i = 0; i < (N); i++) {                                              \
                VECTOR x = BROADCAST(from + 4 * i);                                                \
                QB_UNROLL for (int v = 0; v < (VECTORS); v++)                                      \
                    sum[r][v] = STEP(sum[r][v], x, w[i][v]);                                       \
            }                                                                                      \
        }                                                                                          \
    }
/* clang-format on */

/* Adds all runs to the sums. UNITS(ROWS, VECTORS, N) adds N units; FLUSH(ROWS, VECTORS) comes after
 * every `segment` units and begins new sums. */
/* clang-format off */
#define QB_TILE_RUNS(ROWS, VECTORS, UNITS, FLUSH)                                                  \
    int64_t left = t->segment * 4;                                                                 \
    for (int32_t k = 0; k < t->n_runs; k++) {                                                      \
        const qb_run *run = &t->runs[k];                                                           \
        const char *weight = t->panel + (size_t)run->weight * ((VECTORS) * QB_UNIT_BYTES);         \
        int64_t u = t->indirect ? 0 : run->data, end = u + (int64_t)run->units * 4;                \
        while (u < end) {                                                                          \
            int64_t stop = end - u < left ? end : u + left;                                        \
            left -= stop - u;                                                                      \
            for (; QB_TILE_UNROLL(VECTORS) > 1 && u + 4 * QB_TILE_UNROLL(VECTORS) <= stop;         \
                 u += 4 * QB_TILE_UNROLL(VECTORS))                                                 \
                UNITS(ROWS, VECTORS, QB_TILE_UNROLL(VECTORS))                                      \
            for (; u < stop; u += 4)                                                               \
                UNITS(ROWS, VECTORS, 1)                                                            \
            if (left == 0) {                                                                       \
                FLUSH(ROWS, VECTORS)                                                               \
                left = t->segment * 4;                                                             \
            }                                                                                      \
        }                                                                                          \
        if (t->indirect) data += (ROWS);                                                           \
    }

/* One function for each number of rows and vectors: VECTOR is the register type. RUNS(ROWS, VECTORS)
 * adds up; FAST(ROWS, VECTORS) finishes the sums in their registers where the tile says that it is a
 * fast one. */
#define QB_TILE_BODY(ROWS, VECTORS, VECTOR, LOAD, RUNS, ADD, FAST, STORE)                          \
    {                                                                                              \
        VECTOR sum[ROWS][VECTORS];                                                                 \
        QB_UNROLL for (int v = 0; v < (VECTORS); v++) {                                            \
            VECTOR first = LOAD((const char *)t->start + v * QB_SIMD_BYTES);                           \
            QB_UNROLL for (int r = 0; r < (ROWS); r++) sum[r][v] = first;                          \
        }                                                                                          \
        const char *const *data = t->data;                                                         \
        bool flushed = false;                                                                      \
        RUNS(ROWS, VECTORS)                                                                        \
        if (flushed)                                                                               \
            QB_UNROLL for (int r = 0; r < (ROWS); r++)                                             \
                QB_UNROLL for (int v = 0; v < (VECTORS); v++)                                      \
                    sum[r][v] = ADD(LOAD((char *)sums + (r * (VECTORS) + v) * QB_SIMD_BYTES), sum[r][v]); \
        FAST(ROWS, VECTORS)                                                                        \
        QB_UNROLL for (int r = 0; r < (ROWS); r++)                                                 \
            QB_UNROLL for (int v = 0; v < (VECTORS); v++)                                          \
                STORE((char *)sums + (r * (VECTORS) + v) * QB_SIMD_BYTES, sum[r][v]);                  \
        return false;                                                                              \
    }
/* clang-format on */

/* Sums of a segment in float go to memory, the first ones as they are, and the registers begin
 * anew. */
/* clang-format off */
#define QB_TILE_FLUSH_FLOATS(ROWS, VECTORS)                                                        \
    QB_UNROLL for (int r = 0; r < (ROWS); r++)                                                     \
        QB_UNROLL for (int v = 0; v < (VECTORS); v++) {                                            \
            float *to = (float *)sums + (r * (VECTORS) + v) * QB_LANES;                            \
            if (flushed) sum[r][v] = vf_add(vf_load(to), sum[r][v]);                \
            vf_store(to, sum[r][v]);                                                        \
            sum[r][v] = vf_set(0.0f);                                                       \
        }                                                                                          \
    flushed = true;

/* The fast end of a float tile: what LOAD and SAVE move is BYTES a vector, as the result and perhaps the
 * residual have it; bounds are the activation. Bounds that bound nothing are left out: they would go
 * through the multipliers' ports. */
#define QB_EACH_SUM(ROWS, VECTORS, value)                                                          \
    QB_UNROLL for (int r = 0; r < (ROWS); r++)                                                     \
        QB_UNROLL for (int v = 0; v < (VECTORS); v++) sum[r][v] = value;
#define QB_TILE_FAST_FLOATS(ROWS, VECTORS, BYTES, LOAD, SAVE)                                      \
    if (t->fast) {                                                                                 \
        const float low = t->epilogue->low, high = t->epilogue->high;                                  \
        if (t->residual)                                                                           \
            QB_EACH_SUM(ROWS, VECTORS,                                                             \
                        vf_add(sum[r][v], LOAD(t->residual + t->pixel[r] * t->residual_stride + v * (BYTES)))) \
        if (low > -INFINITY) QB_EACH_SUM(ROWS, VECTORS, vf_max(vf_set(low), sum[r][v])) \
        if (high < INFINITY) QB_EACH_SUM(ROWS, VECTORS, vf_min(vf_set(high), sum[r][v])) \
        QB_UNROLL for (int r = 0; r < (ROWS); r++) {                                               \
            char *to = t->out + t->pixel[r] * t->out_stride;                                       \
            QB_UNROLL for (int v = 0; v < (VECTORS); v++) SAVE(to + v * (BYTES), sum[r][v]);       \
        }                                                                                          \
        return true;                                                                               \
    }
/* clang-format on */

/* X(rows, vectors) for every shape of tile, and the most rows by number of vectors. */
/* clang-format off */
#if QB_SIMD_BYTES < 64
#define QB_TILE_MOST {0, 12, 6, 4}
#define QB_TILE_SHAPES(X)                                                                          \
    X(1, 1) X(2, 1) X(3, 1) X(4, 1) X(5, 1) X(6, 1)                                                \
    X(7, 1) X(8, 1) X(9, 1) X(10, 1) X(11, 1) X(12, 1)                                             \
    X(1, 2) X(2, 2) X(3, 2) X(4, 2) X(5, 2) X(6, 2)                                                \
    X(1, 3) X(2, 3) X(3, 3) X(4, 3)
#else
#define QB_TILE_MOST {0, 24, 14, 9}
#define QB_TILE_SHAPES(X)                                                                          \
    X(1, 1) X(2, 1) X(3, 1) X(4, 1) X(5, 1) X(6, 1) X(7, 1)                                        \
    X(8, 1) X(9, 1) X(10, 1) X(11, 1) X(12, 1) X(13, 1) X(14, 1)                                   \
    X(15, 1) X(16, 1) X(17, 1) X(18, 1) X(19, 1) X(20, 1) X(21, 1) X(22, 1) X(23, 1) X(24, 1)      \
    X(1, 2) X(2, 2) X(3, 2) X(4, 2) X(5, 2) X(6, 2) X(7, 2)                                        \
    X(8, 2) X(9, 2) X(10, 2) X(11, 2) X(12, 2) X(13, 2) X(14, 2)                                   \
    X(1, 3) X(2, 3) X(3, 3) X(4, 3) X(5, 3) X(6, 3) X(7, 3) X(8, 3) X(9, 3)
#endif
/* clang-format on */

/* The finished tile in its registers returns true; otherwise the sums are in `sums`. */
typedef bool (*qb_sum_fn)(const qb_tile *t, void *sums);

/* Asks for the lines that the end of the tile will read and write: they arrive while it sums up. */
QB_FORCE_INLINE void qb_tile_prefetch(const qb_tile *t) {
    int64_t out_bytes = t->width * (int64_t)qb_element_bytes(t->epilogue->out);
    int64_t residual_bytes = t->width * (int64_t)qb_element_bytes(t->epilogue->residual);
    for (int r = 0; r < t->rows; r++) {
        const char *out = t->out + t->pixel[r] * t->out_stride;
        for (int64_t i = 0; i < out_bytes; i += 64) __builtin_prefetch(out + i, 1);
        if (!t->residual) continue;
        const char *residual = t->residual + t->pixel[r] * t->residual_stride;
        for (int64_t i = 0; i < residual_bytes; i += 64) __builtin_prefetch(residual + i, 0);
    }
}

#endif
#endif
