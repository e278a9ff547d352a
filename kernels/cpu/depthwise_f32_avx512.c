/* f32 depthwise convolution with AVX-512. 3x3 windows walk along the row column by column: the
 * three pixels of a column are loaded once and added to the up to three outputs they belong to, so
 * with stride 1 there are 3 loads for 9 multiply-adds. Other windows take four outputs at a time,
 * tap after tap. */
#include <string.h>

#include "depthwise_internal.h"
#include "finish_avx512.h"

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

typedef struct target { /* where the sums of one block go */
    const qb_finish *finish;
    char *out;
    const char *residual;
    int64_t out_stride, residual_stride;
    int width;
    bool has_act;
} target;

static target target_of(const qb_dw *dw, const qb_dw_row *row, const qb_dw_block *block) {
    int64_t out_size = (int64_t)qb_dtype_size(dw->finish.out);
    int64_t residual_size = (int64_t)qb_dtype_size(dw->finish.residual);
    return (target){.finish = &dw->finish,
                    .out = row->out + block->channel * out_size,
                    .residual =
                        row->residual ? row->residual + block->channel * residual_size : NULL,
                    .out_stride = dw->out_stride,
                    .residual_stride = dw->residual_stride,
                    .width = block->width,
                    .has_act = dw->finish.act.kind != QB_ACT_NONE};
}

QB_FORCE_INLINE __mmask16 mask_of(int width, int vector) {
    int left = width - 16 * vector;
    return left >= 16 ? 0xffff : left <= 0 ? 0 : (__mmask16)((1u << left) - 1u);
}

QB_AVX512 QB_FORCE_INLINE void store(const target *t, int64_t x, int vector, __m512 v) {
    int64_t out_size = t->finish->out == QB_DTYPE_F32 ? 4 : 1;
    int64_t residual_size = t->finish->residual == QB_DTYPE_F32 ? 4 : 1;
    char *to = t->out + x * t->out_stride + vector * 16 * out_size;
    const char *residual =
        t->residual ? t->residual + x * t->residual_stride + vector * 16 * residual_size : NULL;
    __mmask16 mask = mask_of(t->width, vector);
    if (t->finish->out == QB_DTYPE_F32 && !t->residual && !t->has_act)
        qb_finish_avx512(t->finish, v, mask, NULL, to, QB_DTYPE_F32, false, false);
    else
        qb_finish_avx512(t->finish, v, mask, residual, to, t->finish->out, t->residual != NULL,
                         t->has_act);
}

typedef struct column {
    const char *pixel[3];
} column;

QB_FORCE_INLINE column column_at(const qb_dw *dw, const qb_dw_line *line, const char *zeros,
                                 int64_t x) {
    column c;
    bool inside = x >= 0 && x < dw->in_w;
    QB_UNROLL for (int k = 0; k < 3; k++) c.pixel[k] =
        inside ? line[k].start + x * line[k].step : zeros;
    return c;
}

/* sums += the column's pixels times kernel column kx */
#define ADD_COLUMN(sum, kx)                                                                        \
    QB_UNROLL for (int k = 0; k < 3; k++) QB_UNROLL for (int v = 0; v < VECTORS; v++) sum[v] =     \
        _mm512_fmadd_ps(x[k][v], w[3 * k + (kx)][v], sum[v]);
#define LOAD_COLUMN(at)                                                                            \
    column c = column_at(dw, line, zeros, at);                                                     \
    __m512 x[3][VECTORS];                                                                          \
    QB_UNROLL for (int k = 0; k < 3; k++) QB_UNROLL for (int v = 0; v < VECTORS; v++) x[k][v] =    \
        _mm512_maskz_loadu_ps(mask[v], c.pixel[k] + offset + v * 64);
#define START(sum) QB_UNROLL for (int v = 0; v < VECTORS; v++) sum[v] = start[v];
#define FINISH(at, sum)                                                                            \
    if ((at) >= 0 && (at) < dw->out_w)                                                             \
        QB_UNROLL for (int v = 0; v < VECTORS; v++) store(&t, at, v, sum[v]);
#define PROLOGUE                                                                                   \
    const target t = target_of(dw, row, block);                                                    \
    const char *zeros = row->packed + dw->zeros;                                                   \
    const int64_t offset = block->channel * 4;                                                     \
    qb_dw_line line[3];                                                                            \
    qb_dw_lines(dw, row, line);                                                                    \
    __mmask16 mask[VECTORS];                                                                       \
    __m512 w[9][VECTORS], start[VECTORS];                                                          \
    QB_UNROLL for (int v = 0; v < VECTORS; v++) {                                                  \
        mask[v] = mask_of(block->width, v);                                                        \
        start[v] = _mm512_loadu_ps(row->packed + block->start + v * 64);                           \
        QB_UNROLL for (int k = 0; k < 9; k++) w[k][v] =                                            \
            _mm512_loadu_ps(row->packed + block->weight + (k * VECTORS + v) * 64);                 \
    }

/* Stride 1: input column i belongs to outputs i + pad - kx. Three sums rotate: `a` gets its last
 * column, `b` its second, `c` its first. */
#define DEFINE_STRIDE_1(NAME)                                                                      \
    QB_AVX512 static void NAME(const qb_dw *dw, const qb_dw_row *row, const qb_dw_block *block) {  \
        PROLOGUE                                                                                   \
        __m512 a[VECTORS], b[VECTORS], s[VECTORS];                                                 \
        START(a)                                                                                   \
        START(b)                                                                                   \
        START(s) for (int64_t i = -dw->pad[1], out = -2; out < dw->out_w; i += 3, out += 3) {      \
            {LOAD_COLUMN(i) ADD_COLUMN(a, 2) ADD_COLUMN(b, 1) ADD_COLUMN(s, 0) FINISH(out, a)      \
                 START(a)} {LOAD_COLUMN(i + 1) ADD_COLUMN(b, 2) ADD_COLUMN(s, 1) ADD_COLUMN(a, 0)  \
                                FINISH(out + 1, b) START(b)} {                                     \
                LOAD_COLUMN(i + 2)                                                                 \
                ADD_COLUMN(s, 2) ADD_COLUMN(a, 1) ADD_COLUMN(b, 0) FINISH(out + 2, s) START(s)     \
            }                                                                                      \
        }                                                                                          \
    }

/* Stride 2: columns 2 o and 2 o + 1 are kernel columns 0 and 1 of output o; column 2 o is also
 * kernel column 2 of output o - 1. */
#define DEFINE_STRIDE_2(NAME)                                                                      \
    QB_AVX512 static void NAME(const qb_dw *dw, const qb_dw_row *row, const qb_dw_block *block) {  \
        PROLOGUE                                                                                   \
        __m512 a[VECTORS], b[VECTORS];                                                             \
        START(a)                                                                                   \
        for (int64_t i = -dw->pad[1], out = 0; out <= dw->out_w; i += 2, out++) {                  \
            {LOAD_COLUMN(i) ADD_COLUMN(a, 2) FINISH(out - 1, a) START(b) ADD_COLUMN(b, 0)} {       \
                LOAD_COLUMN(i + 1) ADD_COLUMN(b, 1)} QB_UNROLL for (int v = 0; v < VECTORS; v++)   \
                a[v] = b[v];                                                                       \
        }                                                                                          \
    }

#define VECTORS 1
DEFINE_STRIDE_1(row_3x3_1)
DEFINE_STRIDE_2(row_3x3_s2_1)
#undef VECTORS
#define VECTORS 2
DEFINE_STRIDE_1(row_3x3_2)
DEFINE_STRIDE_2(row_3x3_s2_2)
#undef VECTORS

/* Any window: the taps of up to four outputs, all vectors of the block. */
#define OUTPUTS 4

QB_AVX512 static void some_outputs(const qb_dw *dw, const qb_dw_row *row, int64_t x0, int n,
                                   const char *const *taps, int64_t tap_count) {
    for (int32_t b = 0; b < dw->n_blocks; b++) {
        const qb_dw_block *block = &dw->blocks[b];
        const target t = target_of(dw, row, block);
        for (int v = 0; v < block->lanes / 16; v++) {
            __mmask16 mask = mask_of(block->width, v);
            int64_t offset = (block->channel + 16 * v) * 4;
            const char *weight = row->packed + block->weight + v * 64;
            __m512 sum[OUTPUTS];
            QB_UNROLL for (int i = 0; i < OUTPUTS; i++) sum[i] =
                _mm512_loadu_ps(row->packed + block->start + v * 64);
            for (int64_t k = 0; k < tap_count; k++) {
                __m512 w = _mm512_loadu_ps(weight + k * block->lanes * 4);
                QB_UNROLL for (int i = 0; i < OUTPUTS; i++) sum[i] = _mm512_fmadd_ps(
                    _mm512_maskz_loadu_ps(mask, taps[i * tap_count + k] + offset), w, sum[i]);
            }
            QB_UNROLL for (int i = 0; i < OUTPUTS; i++) if (i < n) store(&t, x0 + i, v, sum[i]);
        }
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

static void run_row(const qb_dw *dw, const qb_dw_row *row) {
    if (!qb_dw_is_3x3(dw)) {
        row_any(dw, row);
        return;
    }
    for (int32_t b = 0; b < dw->n_blocks; b++) {
        const qb_dw_block *block = &dw->blocks[b];
        bool one = block->lanes == 16;
        if (dw->stride[1] == 1)
            (one ? row_3x3_1 : row_3x3_2)(dw, row, block);
        else
            (one ? row_3x3_s2_1 : row_3x3_s2_2)(dw, row, block);
    }
}

static const qb_dw_arch arch = {.lanes = {32, 16, 0}, .tap_group = 1, .pack = pack, .row = run_row};

static bool supports(const qb_problem *p, const bool *constant) {
    return qb_cpu_has_avx512() && qb_dw_supports(p, constant, false);
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
