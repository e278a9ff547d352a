/* Where the maxima of a pool lie: what MaxPool says of its windows beside their values. A row of
 * results advances together, one element of the window after the other. */
#include "base/vector_loop.h"
#include "chain_internal.h"
#include "cpu_internal.h"

#define WIDTH QB_CHAIN_BLOCK
#define ELEMENTS_PER_TASK 16384 /* of windows */

typedef struct places {
    int64_t in[QB_SPATIAL], out[QB_SPATIAL];
    qb_window window;
    int64_t rows, rows_a_task;
    qb_dtype dtype;
    float scale;
    int32_t zero;
} places;

typedef struct job {
    const places *p;
    const char *data;
    int64_t *out;
} job;

/* Elements x[0], x[stride] ... lie at place first, first + stride ... of a plane. Of equal ones the
 * first one stays; NaN counts as larger. */
static inline __attribute__((always_inline)) void
compare_each(const float *x, int64_t n, int64_t stride, int32_t first, float *best, int32_t *at) {
    for (int64_t i = 0; i < n; i++) {
        const float v = x[i * stride];
        const bool better = (v > best[i]) | (at[i] < 0) | (v != v);
        best[i] = better ? v : best[i];
        at[i] = better ? first + (int32_t)(i * stride) : at[i];
    }
}

QB_LOOP(compare,
        (const float *x, int64_t n, int64_t stride, int32_t first, float *best, int32_t *at),
        (x, n, stride, first, best, at)) {
    if (stride == 1)
        compare_each(x, n, 1, first, best, at);
    else if (stride == 2)
        compare_each(x, n, 2, first, best, at);
    else
        compare_each(x, n, stride, first, best, at);
}

/* Results x0 .. x0 + n of a row against element kx of the window, in the data's row `from`. */
static void add_element(const job *j, int64_t from, int64_t kx, int64_t x0, int64_t n,
                        int64_t plane, float *best, int32_t *at) {
    const places *p = j->p;
    const int64_t stride = p->window.stride[2], size = (int64_t)qb_dtype_size(p->dtype);
    const int64_t shift = kx * p->window.dilation[2] - p->window.pad_begin[2] + x0 * stride;
    const int64_t begin = shift < 0 ? qb_ceil64(-shift, stride) : 0;
    const int64_t left = p->in[2] - shift;
    const int64_t end = left <= 0 ? 0 : qb_min64(n, qb_ceil64(left, stride));
    float made[WIDTH];
    /* what is converted has to fit */
    const int64_t most = p->dtype == QB_DTYPE_F32 ? WIDTH : qb_max64(1, WIDTH / stride);
    for (int64_t i = begin, k; i < end; i += k) {
        k = qb_min64(most, end - i);
        const int64_t place = from + shift + i * stride;
        const char *source = j->data + (plane + place) * size;
        const float *x = (const float *)(const void *)source;
        if (p->dtype != QB_DTYPE_F32) {
            qb_chain_load(p->dtype, p->scale, p->zero, source, (k - 1) * stride + 1, made);
            x = made;
        }
        compare(x, k, stride, (int32_t)place, best + i, at + i);
    }
}

static void some_results(const job *j, int64_t row, int64_t x0, int64_t n) {
    const places *p = j->p;
    const qb_window *w = &p->window;
    const int64_t oy = row % p->out[1], oz = row / p->out[1] % p->out[0];
    const int64_t plane = row / (p->out[0] * p->out[1]) * p->in[0] * p->in[1] * p->in[2];
    float best[WIDTH] = {0};
    int32_t at[WIDTH];
    for (int64_t i = 0; i < n; i++) at[i] = -1;
    for (int64_t kz = 0; kz < w->kernel[0]; kz++)
        for (int64_t ky = 0; ky < w->kernel[1]; ky++) {
            const int64_t z = oz * w->stride[0] - w->pad_begin[0] + kz * w->dilation[0];
            const int64_t y = oy * w->stride[1] - w->pad_begin[1] + ky * w->dilation[1];
            if (z < 0 || z >= p->in[0] || y < 0 || y >= p->in[1]) continue;
            for (int64_t kx = 0; kx < w->kernel[2]; kx++)
                add_element(j, (z * p->in[1] + y) * p->in[2], kx, x0, n, plane, best, at);
        }
    int64_t *to = j->out + row * p->out[2] + x0;
    for (int64_t i = 0; i < n; i++) to[i] = at[i] < 0 ? -1 : plane + at[i];
}

static void run_task(int64_t task, void *argument) {
    const job *j = argument;
    const places *p = j->p;
    const int64_t end = qb_min64((task + 1) * p->rows_a_task, p->rows);
    for (int64_t row = task * p->rows_a_task; row < end; row++)
        for (int64_t x = 0; x < p->out[2]; x += WIDTH)
            some_results(j, row, x, qb_min64(WIDTH, p->out[2] - x));
}

static qb_status launch(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    (void)cx;
    const places *p = kernel->state;
    job j = {p, args->in[0], args->out};
    qb_workers_run(args->workers, qb_ceil64(p->rows, p->rows_a_task), run_task, &j);
    return QB_OK;
}

static bool supports(const qb_problem *p, const bool *constant) {
    const qb_desc *x = &p->in[0];
    (void)constant;
    return (qb_cpu_is_f32(x) || qb_cpu_is_quantized(x)) && qb_cpu_is_filled_rows(x) &&
           qb_cpu_is_filled_rows(&p->out) && p->out.dtype == QB_DTYPE_S64 && p->window.n >= 1 &&
           p->window.n <= QB_SPATIAL && x->shape.rank == p->window.n + 2 &&
           qb_shape_span(&x->shape, 2, x->shape.rank) <= INT32_MAX;
}

static qb_status create(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *problem,
                        const bool *constant, int threads, qb_kernel **out) {
    const qb_desc *x = &problem->in[0];
    (void)constant, (void)threads;
    QB_TRY(qb_cpu_kernel_create(cx, tactic, problem, sizeof(places), out));
    places *p = (*out)->state;
    p->window = qb_cpu_window(&problem->window);
    qb_cpu_spatial(&x->shape, p->in);
    qb_cpu_spatial(&problem->out.shape, p->out);

    p->dtype = x->dtype;
    p->scale = x->q.n > 0 ? x->q.scale[0] : 1.0f;
    p->zero = qb_cpu_zero(x);
    p->rows = x->shape.dim[0] * x->shape.dim[1] * p->out[0] * p->out[1];
    const int64_t window = p->window.kernel[0] * p->window.kernel[1] * p->window.kernel[2];
    p->rows_a_task = qb_max64(1, ELEMENTS_PER_TASK / (p->out[2] * window));
    (*out)->launch = launch;
    return QB_OK;
}

const qb_tactic qb_tactic_cpu_pool_places = {.name = "cpu.pool_places",
                                             .backend = "cpu",
                                             .kind = QB_KIND_POOL_PLACES,
                                             .exactness = QB_EXACT,
                                             .supports = supports,
                                             .create = create};
