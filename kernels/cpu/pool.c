/* Pooling over channels-last data: a window is a box of pixels, and all channels of a pixel
 * go side by side through the same operation. Bound by memory.
 *
 * Maxima of quantized values are maxima of floats, so integer data stays integer; a change of
 * parameters is a table afterwards, and of the type the end of a step. Averages of floats sum in
 * double, those of quantized values in int32. */
#include "pool_internal.h"

#include <math.h>
#include <string.h>

#define BLOCK 64 /* channels at a time in the portable loops */

static bool supports(const qb_problem *p, const bool *constant) {
    (void)constant;
    const qb_desc *x = &p->in[0], *y = &p->out;
    if (p->window.n < 1 || p->window.n > QB_SPATIAL || !qb_cpu_is_nhwc(x) || !qb_cpu_is_nhwc(y))
        return false;
    const bool bf16 = qb_cpu_is_bf16(x) && qb_cpu_is_bf16(y) && qb_processor_has(QB_TIER_AVX2);
    if (!bf16 && (!(qb_cpu_is_quantized(x) || qb_cpu_is_f32(x)) || !qb_epilogue_supports(p)))
        return false;
    return p->act.kind == QB_ACT_NONE && qb_shape_count(&y->shape) > 0 &&
           qb_shape_count(&x->shape) > 0;
}

static void describe(qb_pool *w, const qb_problem *p) {
    const qb_shape *x = &p->in[0].shape;
    w->window = qb_cpu_window(&p->window);
    w->images = x->dim[0];
    w->channels = x->dim[1];
    qb_cpu_spatial(x, w->in);
    qb_cpu_spatial(&p->out.shape, w->out);
    w->in_stride = qb_cpu_channels(&p->in[0]);
    w->in_offset = p->in[0].channel_offset;
    w->out_stride = qb_cpu_channels(&p->out);
    w->out_offset = p->out.channel_offset;
}

/* What the table makes of maxima: the parameters of the output. */
static void fill_table(qb_pool *w) {
    for (int byte = 0; byte < 256; byte++) {
        int32_t code = w->in_dtype == QB_DTYPE_S8 ? (int32_t)(int8_t)byte : byte;
        float f32 = w->scale * (float)(code - w->zero);
        qb_epilogue_run(&w->epilogue, &f32, 1, NULL, &w->table[byte]);
        if (w->table[byte] != byte) w->converts = true;
    }
}

static int64_t rows_of(const qb_pool *w) { return w->images * w->out[0] * w->out[1]; }

/* One row of output and one piece of the channels is the unit of work. */
static void choose_tasks(qb_pool *w) {
    int64_t rows = rows_of(w), cost = w->out[2] * w->channels;
    for (int32_t d = 0; d < QB_SPATIAL; d++) cost *= w->window.kernel[d];
    w->split = rows < 2 * w->threads ? qb_min64(w->threads, qb_ceil64(w->channels, 64)) : 1;
    int64_t units = rows * w->split;
    int64_t tasks = qb_min64(qb_min64(units, 8 * w->threads), qb_ceil64(rows * cost, 16384));
    w->per_task = qb_ceil64(units, tasks);
    w->n_tasks = qb_ceil64(units, w->per_task);
}

static const char *pixel_at(const qb_pool_window *w, int64_t at) {
    const int64_t x = at % w->columns, line = at / w->columns;
    return w->first + line / w->rows * w->deep + line % w->rows * w->down + x * w->right;
}

#define DEFINE_MAX(NAME, T)                                                                        \
    static void NAME(const qb_pool_window *w, int64_t c, int64_t n, void *out) {                   \
        T *best = out;                                                                             \
        memcpy(best, w->first + c * (int64_t)sizeof(T), (size_t)n * sizeof(T));                    \
        for (int64_t at = 0; at < w->planes * w->rows * w->columns; at++) {                        \
            const T *v = (const T *)(const void *)pixel_at(w, at) + c;                             \
            for (int64_t i = 0; i < n; i++)                                                        \
                if (v[i] > best[i] || v[i] != v[i]) best[i] = v[i];                                \
        }                                                                                          \
    }
DEFINE_MAX(max_f32, float)
DEFINE_MAX(max_u8, uint8_t)
DEFINE_MAX(max_s8, int8_t)

static float float_at(const qb_pool *pool, const char *pixel, int64_t c) {
    switch (pool->in_dtype) {
    case QB_DTYPE_F32: return ((const float *)(const void *)pixel)[c];
    case QB_DTYPE_U8: return pool->scale * (float)(((const uint8_t *)pixel)[c] - pool->zero);
    default: return pool->scale * (float)(((const int8_t *)pixel)[c] - pool->zero);
    }
}

void qb_pool_max_generic(const qb_pool *pool, const qb_pool_window *w) {
    const int64_t size = (int64_t)qb_dtype_size(pool->out_dtype);
    for (int64_t c = 0; c < w->channels; c += BLOCK) {
        int64_t n = qb_min64(BLOCK, w->channels - c);
        float other[BLOCK], f32[BLOCK];
        void *best = pool->retypes ? (void *)other : w->out + c * size;
        switch (pool->in_dtype) {
        case QB_DTYPE_F32: max_f32(w, c, n, best); break;
        case QB_DTYPE_U8: max_u8(w, c, n, best); break;
        default: max_s8(w, c, n, best); break;
        }
        if (!pool->retypes) continue;
        for (int64_t i = 0; i < n; i++) f32[i] = float_at(pool, best, i);
        qb_epilogue_run(&pool->epilogue, f32, n, NULL, w->out + c * size);
    }
    if (pool->converts)
        for (int64_t c = 0; c < w->channels; c++) w->out[c] = (char)pool->table[(uint8_t)w->out[c]];
}

/* Less their zero point. */
static int32_t integer_at(const qb_pool *pool, const char *pixel, int64_t c) {
    const int32_t code =
        pool->in_dtype == QB_DTYPE_U8 ? ((const uint8_t *)pixel)[c] : ((const int8_t *)pixel)[c];
    return code - pool->zero;
}

void qb_pool_average_generic(const qb_pool *pool, const qb_pool_window *w) {
    const int64_t out_size = (int64_t)qb_dtype_size(pool->out_dtype);
    const bool floats = pool->in_dtype == QB_DTYPE_F32;
    for (int64_t c = 0; c < w->channels; c += BLOCK) {
        int64_t n = qb_min64(BLOCK, w->channels - c);
        double sum[BLOCK] = {0};
        float f32[BLOCK];
        for (int64_t at = 0; at < w->planes * w->rows * w->columns; at++)
            for (int64_t i = 0; i < n; i++) {
                const char *pixel = pixel_at(w, at);
                sum[i] += floats ? (double)((const float *)(const void *)pixel)[c + i]
                                 : (double)integer_at(pool, pixel, c + i);
            }
        for (int64_t i = 0; i < n; i++)
            f32[i] = floats ? (float)(sum[i] / w->count)
                            : (float)((double)pool->scale / w->count) * (float)sum[i];
        qb_epilogue_run(&pool->epilogue, f32, n, NULL, w->out + c * out_size);
    }
}

/* ---- running --------------------------------------------------------------------------------- */

/* The part of a window that lies inside: where it begins in the data, elements, and how many count
 * for AVG_INCLUDE_PAD (inside the data and the declared padding). */
typedef struct span {
    int64_t first, n, counted;
} span;

static span span_of(const qb_pool *w, int d, int64_t at) {
    const int64_t size = w->in[d], step = w->window.dilation[d];
    int64_t start = at * w->window.stride[d] - w->window.pad_begin[d];
    int64_t low = start >= 0 ? 0 : qb_ceil64(-start, step);
    int64_t high = start >= size ? 0 : (size - 1 - start) / step + 1;
    int64_t end = size + w->window.pad_end[d];
    int64_t counted = start >= end ? 0 : (end - 1 - start) / step + 1;
    high = qb_min64(high, w->window.kernel[d]);
    low = qb_min64(low, high);
    return (span){start + low * step, high - low, qb_min64(counted, w->window.kernel[d])};
}

/* How many windows from `out_x` on reach as far and begin a pixel apart. Where pixels lie side by
 * side on both ends, they are one window of so many times the channels: those may be few. */
static int64_t windows_alike(const qb_pool *w, int64_t out_x, span x, int64_t channels) {
    int64_t n = 1;
    const bool dense = w->in_stride == channels && w->out_stride == channels;
    for (; dense && out_x + n < w->out[2]; n++) {
        const span next = span_of(w, 2, out_x + n);
        if (next.first != x.first + n || next.n != x.n || next.counted != x.counted) break;
    }
    return n;
}

/* A window that lies in the padding: no maximum, and the average of nothing is zero. */
static void empty_window(const qb_pool *w, const qb_pool_window *window) {
    float f32 = w->kind == QB_POOL_MAX ? -INFINITY : 0.0f;
    int64_t size = (int64_t)qb_dtype_size(w->out_dtype);
    for (int64_t c = 0; c < window->channels; c++)
        qb_epilogue_run(&w->epilogue, &f32, 1, NULL, window->out + c * size);
}

static void one_row(const qb_cpu_job *j, int64_t row, int64_t c0, int64_t c1) {
    const qb_pool *w = j->state;
    const int64_t plane = row / w->out[1], *step = w->window.dilation;
    const int64_t image = plane / w->out[0];
    const span z = span_of(w, 0, plane % w->out[0]), y = span_of(w, 1, row % w->out[1]);
    const int64_t line = (image * w->in[0] + z.first) * w->in[1] + y.first;
    int64_t in_size = (int64_t)qb_dtype_size(w->in_dtype);
    int64_t out_size = (int64_t)qb_dtype_size(w->out_dtype);
    bool include = w->kind == QB_POOL_AVG_INCLUDE_PAD;
    for (int64_t out_x = 0, n; out_x < w->out[2]; out_x += n) {
        const span x = span_of(w, 2, out_x);
        n = windows_alike(w, out_x, x, c1 - c0);
        int64_t from = (line * w->in[2] + x.first) * w->in_stride + w->in_offset;
        int64_t to = (row * w->out[2] + out_x) * w->out_stride + w->out_offset;
        qb_pool_window window = {
            .first = j->data + (from + c0) * in_size,
            .planes = z.n,
            .rows = y.n,
            .columns = x.n,
            .deep = step[0] * w->in[1] * w->in[2] * w->in_stride * in_size,
            .down = step[1] * w->in[2] * w->in_stride * in_size,
            .right = step[2] * w->in_stride * in_size,
            .count = (double)(include ? z.counted * y.counted * x.counted : z.n * y.n * x.n),
            .out = j->out + (to + c0) * out_size,
            .channels = n * (c1 - c0),
        };
        if (z.n * y.n * x.n > 0)
            w->run(w, &window);
        else
            empty_window(w, &window);
    }
}

static void run_task(int64_t task, void *argument) {
    const qb_cpu_job *j = argument;
    const qb_pool *w = j->state;
    int64_t end = qb_min64((task + 1) * w->per_task, rows_of(w) * w->split);
    int64_t piece = qb_ceil64(qb_ceil64(w->channels, w->split), 64) * 64;
    for (int64_t unit = task * w->per_task; unit < end; unit++) {
        int64_t c0 = unit % w->split * piece;
        if (c0 < w->channels) one_row(j, unit / w->split, c0, qb_min64(c0 + piece, w->channels));
    }
}

static qb_status launch(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    (void)cx;
    const qb_pool *w = kernel->state;
    return qb_cpu_run(kernel, args, w->n_tasks, run_task);
}

static void choose_loops(qb_pool *w) {
    const bool max = w->kind == QB_POOL_MAX;
    w->run = max ? qb_pool_max_generic : qb_pool_average_generic;
#if QB_X86
    if (qb_processor_has(QB_TIER_AVX512))
        w->run = max ? qb_pool_max_avx512 : qb_pool_average_avx512;
    else if (qb_processor_has(QB_TIER_AVX2))
        w->run = max ? qb_pool_max_avx2 : qb_pool_average_avx2;
    else
        w->run = max ? qb_pool_max_sse2 : qb_pool_average_sse2;
#endif
}

static void fill(const qb_problem *p, int threads, qb_kernel *kernel) {
    qb_pool *w = kernel->state;
    const qb_desc *x = &p->in[0];
    w->threads = threads;
    w->kind = p->pool;
    w->in_dtype = x->dtype;
    w->out_dtype = p->out.dtype;
    w->scale = x->q.n > 0 ? x->q.scale[0] : 1.0f;
    w->zero = qb_cpu_zero(x);
    w->epilogue = qb_epilogue_of(p);
    w->retypes = qb_dtype_size(x->dtype) != qb_dtype_size(p->out.dtype);
    if (p->pool == QB_POOL_MAX && x->q.n > 0 && !w->retypes) fill_table(w);
    describe(w, p);
    choose_tasks(w);
    choose_loops(w);
    kernel->in[0].layout = kernel->problem.out.layout = QB_LAYOUT_NHWC;
    kernel->launch = launch;
}

QB_TACTIC(cpu_pool, "cpu.pool", "cpu", QB_KIND_POOL, QB_EXACT, supports, qb_cpu_create,
          .state_bytes = sizeof(qb_pool), .fill = fill, .is_portable = qb_cpu_lacks_avx2);
