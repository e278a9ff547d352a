/* Windows back to an image: a row's pixels are added up place by place of the window, each of which
 * has some of them, `stride` apart. */
#include "base/vector_loop.h"
#include "chain_internal.h"
#include "cpu_internal.h"

#define PIXELS QB_CHAIN_BLOCK   /* of a row that are added up at once */
#define ELEMENTS_PER_TASK 16384 /* of the image */

typedef struct fold {
    qb_window window;
    int64_t image[QB_SPATIAL], count[QB_SPATIAL]; /* pixels; blocks */
    int64_t rows, rows_a_task, block;             /* of all planes; places of the window */
    int64_t out_size;
    qb_chain_quantized quantized;
} fold;

QB_LOOP(add_up, (const float *x, int64_t n, int64_t step, double *sum), (x, n, step, sum)) {
    if (step == 1)
        for (int64_t i = 0; i < n; i++) sum[i] += (double)x[i];
    else
        for (int64_t i = 0; i < n; i++) sum[i * step] += (double)x[i];
}

/* The block along dimension d whose place `at` of the window lies on this pixel; -1: none. */
static int64_t block_at(const fold *f, int32_t d, int64_t pixel, int64_t at) {
    const int64_t begin = pixel + f->window.pad_begin[d] - at * f->window.dilation[d];
    if (begin < 0 || begin % f->window.stride[d]) return -1;
    return begin / f->window.stride[d] < f->count[d] ? begin / f->window.stride[d] : -1;
}

/* Pixels first..first + n of a row get what place `at` of the window has of them; `x`: blocks of
 * the row. */
static void add_place(const fold *f, const float *x, int64_t at, int64_t first, int64_t n,
                      double *sum) {
    const int64_t stride = f->window.stride[2];
    const int64_t shift = at * f->window.dilation[2] - f->window.pad_begin[2] - first;
    const int64_t from = shift >= 0 ? 0 : (-shift + stride - 1) / stride; /* a block; its pixel */
    const int64_t begin = from * stride + shift;
    const int64_t fit = begin < n ? (n - 1 - begin) / stride + 1 : 0;
    const int64_t some = qb_min64(fit, f->count[2] - from);
    if (some > 0) add_up(x + from, some, stride, sum + begin);
}

static void add_row(const fold *f, const float *plane, const int64_t *at, int64_t first, int64_t n,
                    double *sum) {
    const int64_t *kernel = f->window.kernel, blocks = f->count[0] * f->count[1] * f->count[2];
    for (int64_t i = 0; i < f->block; i++) {
        const int64_t d = block_at(f, 0, at[0], i / (kernel[1] * kernel[2]));
        const int64_t h = block_at(f, 1, at[1], i / kernel[2] % kernel[1]);
        if (d >= 0 && h >= 0)
            add_place(f, plane + i * blocks + (d * f->count[1] + h) * f->count[2], i % kernel[2],
                      first, n, sum);
    }
}

static void run_task(int64_t task, void *argument) {
    const qb_cpu_job *j = argument;
    const fold *f = j->state;
    const int64_t end = qb_min64((task + 1) * f->rows_a_task, f->rows), width = f->image[2];
    const int64_t plane = f->block * f->count[0] * f->count[1] * f->count[2];
    for (int64_t row = task * f->rows_a_task; row < end; row++) {
        const int64_t at[2] = {row / f->image[1] % f->image[0], row % f->image[1]};
        const float *x =
            (const float *)(const void *)j->data + row / (f->image[0] * f->image[1]) * plane;
        for (int64_t first = 0, n; first < width; first += n) {
            double sum[PIXELS] = {0};
            float made[PIXELS];
            n = qb_min64(PIXELS, width - first);
            add_row(f, x, at, first, n, sum);
            for (int64_t i = 0; i < n; i++) made[i] = (float)sum[i];
            qb_chain_write(&f->quantized, made, n, j->out + (row * width + first) * f->out_size);
        }
    }
}

static qb_status launch(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    (void)cx;
    const fold *f = kernel->state;
    return qb_cpu_run(kernel, args, qb_ceil64(f->rows, f->rows_a_task), run_task);
}

static bool supports(const qb_problem *p, const bool *constant) {
    (void)constant;
    return qb_cpu_is_f32(&p->in[0]) && qb_cpu_is_filled_rows(&p->in[0]) &&
           (qb_cpu_is_f32(&p->out) || qb_cpu_is_quantized(&p->out)) &&
           qb_cpu_is_filled_rows(&p->out) && p->out.shape.rank == 2 + p->window.n;
}

static void fill(const qb_problem *p, int threads, qb_kernel *kernel) {
    (void)threads;
    fold *f = kernel->state;
    f->window = qb_cpu_window(&p->window);
    qb_cpu_spatial(&p->out.shape, f->image);
    f->block = 1;
    for (int32_t d = 0; d < QB_SPATIAL; d++) {
        const qb_window *w = &f->window;
        const int64_t reach = (w->kernel[d] - 1) * w->dilation[d] + 1;
        f->count[d] = (f->image[d] + w->pad_begin[d] + w->pad_end[d] - reach) / w->stride[d] + 1;
        f->block *= w->kernel[d];
    }
    f->rows = qb_shape_count(&p->out.shape) / f->image[2];
    f->rows_a_task = qb_max64(1, ELEMENTS_PER_TASK / f->image[2]);
    f->out_size = (int64_t)qb_dtype_size(p->out.dtype);
    f->quantized = qb_chain_quantized_of(&p->out, true);
    kernel->launch = launch;
}

QB_TACTIC(cpu_fold, "cpu.fold", "cpu", QB_KIND_FOLD, QB_EXACT, supports, qb_cpu_create,
          .state_bytes = sizeof(fold), .fill = fill);
