/* f32 depthwise convolution with AVX-512. 3x3 windows walk along two rows of output column by
 * column: the pixels of a column are loaded once and added to all outputs they belong to, so with
 * stride 1 there are 4 loads for 18 multiply-adds. Other windows take four outputs at a time, tap
 * after tap. */
#include <string.h>

#include "depthwise_internal.h"
#define QB_SIMD_TIER QB_SIMD_AVX512
#include "finish_simd.h"

#if QB_X86

/* Weights [taps][lanes], then the starts. */
static void pack(const qb_dw *dw, const qb_dw_block *block, const void *weight, const void *start,
                 const float *multiplier, const float *bias, char *packed) {
    (void)multiplier, (void)bias;
    float *to = (float *)(void *)(packed + block->weight);
    memset(to, 0, (size_t)(dw->groups * block->lanes) * 4);
    for (int64_t t = 0; t < dw->taps; t++)
        for (int i = 0; i < block->width; i++)
            to[t * block->lanes + i] = ((const float *)weight)[(block->channel + i) * dw->taps + t];
    memcpy(packed + block->start, start, (size_t)block->lanes * 4);
}

typedef struct target { /* where the sums of one block go, row by row */
    const qb_finish *finish;
    char *out;
    const char *residual;
    int64_t out_stride, residual_stride, out_row, residual_row;
    int width;
    bool has_act, is_plain; /* is_plain: f32, nothing in the end but bounds */
} target;

static target target_of(const qb_dw *dw, const qb_dw_row *row, const qb_dw_block *block) {
    const qb_finish *f = &dw->finish;
    int64_t out_size = (int64_t)qb_dtype_size(f->out);
    int64_t residual_size = (int64_t)qb_dtype_size(f->residual);
    target t = {.finish = f,
                .out = row->out + block->channel * out_size,
                .residual = row->residual ? row->residual + block->channel * residual_size : NULL,
                .out_stride = dw->out_stride,
                .residual_stride = dw->residual_stride,
                .out_row = dw->out_w * dw->out_stride,
                .residual_row = dw->out_w * dw->residual_stride,
                .width = block->width,
                .has_act = f->act.kind != QB_ACT_NONE};
    t.is_plain = f->out == QB_DTYPE_F32 && !t.residual && !t.has_act;
    return t;
}

QB_FORCE_INLINE __mmask16 mask_of(int width) {
    return width >= 16 ? 0xffff : (__mmask16)((1u << width) - 1u);
}

/* Output x of the row-th row. */
QB_AVX512 QB_FORCE_INLINE void store(const target *t, int64_t x, int row, __m512 v) {
    char *to = t->out + x * t->out_stride + row * t->out_row;
    __mmask16 mask = mask_of(t->width);
    if (t->is_plain) {
        qb_finish_vector(t->finish, v, mask, NULL, to, QB_DTYPE_F32, false, false);
        return;
    }
    const char *residual =
        t->residual ? t->residual + x * t->residual_stride + row * t->residual_row : NULL;
    qb_finish_vector(t->finish, v, mask, residual, to, t->finish->out, t->residual != NULL,
                     t->has_act);
}

/* Sums of the rows += the column's pixels times kernel column kx. */
#define ADD_COLUMN(sum, kx)                                                                        \
    QB_UNROLL for (int r = 0; r < rows; r++) QB_UNROLL for (int k = 0; k < 3; k++) sum[r] =        \
        _mm512_fmadd_ps(x[r * stride + k], w[3 * k + (kx)], sum[r]);
/* The pixels of the next column, from all lines. */
#define LOAD_COLUMN                                                                                \
    __m512 x[MAX_LINES];                                                                           \
    bool inside = (uint64_t)at++ < (uint64_t)dw->in_w;                                             \
    QB_UNROLL for (int k = 0; k < lines; k++) {                                                    \
        x[k] = _mm512_maskz_loadu_ps(mask, inside ? pixel[k] : zeros);                             \
        pixel[k] += step[k];                                                                       \
    }
#define START(sum) QB_UNROLL for (int r = 0; r < rows; r++) sum[r] = start;
#define FINISH(at, sum)                                                                            \
    if ((uint64_t)(at) < (uint64_t)dw->out_w)                                                      \
        QB_UNROLL for (int r = 0; r < rows; r++) store(&t, at, r, sum[r]);

#define MAX_LINES 5 /* two rows with stride 2 */

/* A 3x3 window for one block and one or two rows of output, which have lines in common. Registers
 * hold the weights, the sums and one column of pixels. */
QB_AVX512 QB_FORCE_INLINE void walk_3x3(const qb_dw *dw, const qb_dw_row *row,
                                        const qb_dw_block *block, const int rows,
                                        const int stride) {
    const int lines = (rows - 1) * stride + 3;
    const target t = target_of(dw, row, block);
    const __mmask16 mask = mask_of(block->width);
    const char *zeros = row->packed + dw->zeros + block->channel * 4, *pixel[MAX_LINES];
    int64_t at = -dw->pad[1], step[MAX_LINES];
    qb_dw_line line[MAX_LINES];
    qb_dw_lines(dw, row, lines, line);
    for (int k = 0; k < lines; k++) {
        step[k] = line[k].step;
        pixel[k] = line[k].start + at * step[k] + block->channel * 4;
    }
    __m512 w[9], a[2], b[2], c[2], start = _mm512_loadu_ps(row->packed + block->start);
    QB_UNROLL for (int k = 0; k < 9; k++) w[k] =
        _mm512_loadu_ps(row->packed + block->weight + k * 64);
    START(a)
    if (stride ==
        1) { /* three sums rotate: one gets its last column, one its second, one its first */
        START(b)
        START(c)
        for (int64_t out = -2; out < dw->out_w; out += 3) {
            {LOAD_COLUMN ADD_COLUMN(a, 2) ADD_COLUMN(b, 1) ADD_COLUMN(c, 0) FINISH(out, a)
                 START(a)} {LOAD_COLUMN ADD_COLUMN(b, 2) ADD_COLUMN(c, 1) ADD_COLUMN(a, 0)
                                FINISH(out + 1, b) START(b)} {
                LOAD_COLUMN ADD_COLUMN(c, 2) ADD_COLUMN(a, 1) ADD_COLUMN(b, 0) FINISH(out + 2, c)
                    START(c)
            }
        }
        return;
    }
    /* columns 2 o and 2 o + 1 are kernel columns 0 and 1 of output o; 2 o is also column 2 of o - 1
     */
    for (int64_t out = 0; out <= dw->out_w; out++) {
        {LOAD_COLUMN ADD_COLUMN(a, 2) FINISH(out - 1, a) START(a) ADD_COLUMN(a, 0)} {
            LOAD_COLUMN ADD_COLUMN(a, 1)
        }
    }
}

QB_AVX512 static void one_row(const qb_dw *dw, const qb_dw_row *row, const qb_dw_block *block) {
    walk_3x3(dw, row, block, 1, 1);
}
QB_AVX512 static void two_rows(const qb_dw *dw, const qb_dw_row *row, const qb_dw_block *block) {
    walk_3x3(dw, row, block, 2, 1);
}
QB_AVX512 static void one_row_s2(const qb_dw *dw, const qb_dw_row *row, const qb_dw_block *block) {
    walk_3x3(dw, row, block, 1, 2);
}
QB_AVX512 static void two_rows_s2(const qb_dw *dw, const qb_dw_row *row, const qb_dw_block *block) {
    walk_3x3(dw, row, block, 2, 2);
}

/* Any window: the taps of up to four outputs, all vectors of the block. */
#define OUTPUTS 4

QB_AVX512 static void some_outputs(const qb_dw *dw, const qb_dw_row *row, int64_t x0, int n,
                                   const char *const *taps, int64_t tap_count) {
    for (int32_t b = row->first_block; b < row->end_block; b++) {
        const qb_dw_block *block = &dw->blocks[b];
        const target t = target_of(dw, row, block);
        const __mmask16 mask = mask_of(block->width);
        int64_t offset = block->channel * 4;
        __m512 sum[OUTPUTS];
        QB_UNROLL for (int i = 0; i < OUTPUTS; i++) sum[i] =
            _mm512_loadu_ps(row->packed + block->start);
        for (int64_t k = 0; k < tap_count; k++) {
            __m512 w = _mm512_loadu_ps(row->packed + block->weight + k * 64);
            QB_UNROLL for (int i = 0; i < OUTPUTS; i++) sum[i] = _mm512_fmadd_ps(
                _mm512_maskz_loadu_ps(mask, taps[i * tap_count + k] + offset), w, sum[i]);
        }
        QB_UNROLL for (int i = 0; i < OUTPUTS; i++) if (i < n) store(&t, x0 + i, 0, sum[i]);
    }
}

QB_AVX512 static void row_any(const qb_dw *dw, const qb_dw_row *row) {
    const char *taps[OUTPUTS * QB_DW_TAPS];
    for (int64_t x = 0; x < dw->out_w; x += OUTPUTS) {
        int n = (int)qb_min64(OUTPUTS, dw->out_w - x);
        for (int i = 0; i < OUTPUTS; i++) /* the last one fills up */
            qb_dw_taps(dw, row, x + (i < n ? i : n - 1), taps + i * dw->taps);
        some_outputs(dw, row, x, n, taps, dw->taps);
    }
}

static void run_rows(const qb_dw *dw, const qb_dw_row *row) {
    if (!qb_dw_is_3x3(dw)) {
        row_any(dw, row);
        return;
    }
    bool two = row->rows == 2;
    for (int32_t b = row->first_block; b < row->end_block; b++)
        if (dw->stride[1] == 1)
            (two ? two_rows : one_row)(dw, row, &dw->blocks[b]);
        else
            (two ? two_rows_s2 : one_row_s2)(dw, row, &dw->blocks[b]);
}

static const qb_dw_arch arch = {
    .lanes = {16, 0, 0}, .tap_group = 1, .rows_3x3 = 2, .pack = pack, .row = run_rows};

static bool supports(const qb_problem *p, const bool *constant) {
    return qb_processor_has(QB_TIER_AVX512) && qb_dw_supports(p, constant, false);
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

const qb_tactic qb_tactic_cpu_depthwise_f32_avx512 = {.name = "cpu.depthwise_f32.avx512",
                                                      .backend = "cpu",
                                                      .kind = QB_KIND_CONV,
                                                      .exactness = QB_EXACT,
                                                      .supports = supports,
                                                      .create = create};
