/* Copies between layouts, types and channel slices: quantization of the input together with the
 * change to channels last, and the way back. Bound by memory. Functions of one value are copies
 * that change it on the way. */

#include "convert.h"
#include "transpose.h"

#define BLOCK 64 /* pixels and channels that are transposed together, in the first level cache */

typedef enum shape_of_copy {
    COPY_FLAT,    /* one run */
    COPY_ROWS,    /* runs of equal length at fixed distances */
    COPY_TO_NHWC, /* planes to pixels */
    COPY_TO_ROW   /* pixels to planes */
} shape_of_copy;

typedef struct copy {
    qb_convert convert;
    shape_of_copy shape;
    int64_t n_rows, row;         /* ROWS: elements in one; FLAT: all */
    int64_t in_step, out_step;   /* elements from row to row, or pixel to pixel */
    int64_t in_first, out_first; /* elements before the slice */
    int64_t images, channels, plane;
    int64_t in_image, out_image; /* elements from image to image */
    int64_t per_task, n_tasks;   /* rows, or elements, or blocks of pixels */
    bool moves;                  /* bytes stay what they are */
    int threads;
} copy;

static bool is_nhwc(const qb_desc *d) { return d->layout == QB_LAYOUT_NHWC; }

static bool layout_supported(const qb_desc *d) {
    if (d->layout == QB_LAYOUT_ROW) return d->channel_total == 0 || d->shape.rank >= 2;
    return is_nhwc(d) && d->shape.rank >= 3;
}

static bool unary_supports(const qb_problem *p, const bool *constant) {
    qb_desc x = p->in[0], y = p->out;
    (void)constant;
    if (x.layout == QB_LAYOUT_ANY) x.layout = QB_LAYOUT_ROW;
    if (y.layout == QB_LAYOUT_ANY) y.layout = QB_LAYOUT_ROW;
    /* oneDNN has most functions from f32 to f32 */
    const bool left =
        qb_cpu_is_quantized(&x) || qb_cpu_is_quantized(&y) || p->act.kind == QB_ACT_HARD_SIGMOID;
    return left && layout_supported(&x) && layout_supported(&y) && qb_convert_unary_supports(p) &&
           qb_shape_count(&x.shape) > 0;
}

static bool supports(const qb_problem *p, const bool *constant) {
    (void)constant;
    const qb_desc *from = &p->in[0], *to = &p->out;
    return layout_supported(from) && layout_supported(to) && qb_convert_supports(from, to) &&
           qb_shape_count(&from->shape) > 0;
}

/* Both sides in the same order: one run, or one a pixel (an image for row-major slices). */
static void plan_rows(copy *c, const qb_desc *from, const qb_desc *to, bool pixels) {
    int64_t run = pixels ? c->channels : c->channels * c->plane;
    c->shape = COPY_ROWS;
    c->row = run;
    c->n_rows = c->images * (pixels ? c->plane : 1);
    c->in_step = qb_cpu_channels(from) * (pixels ? 1 : c->plane);
    c->out_step = qb_cpu_channels(to) * (pixels ? 1 : c->plane);
    c->in_first = from->channel_offset * (pixels ? 1 : c->plane);
    c->out_first = to->channel_offset * (pixels ? 1 : c->plane);
    if (c->in_step == run && c->out_step == run) {
        c->shape = COPY_FLAT;
        c->row = run * c->n_rows;
        c->n_rows = 1;
    }
}

static void plan_transpose(copy *c, const qb_desc *from, const qb_desc *to) {
    bool to_nhwc = is_nhwc(to);
    c->shape = to_nhwc ? COPY_TO_NHWC : COPY_TO_ROW;
    const qb_desc *pixels = to_nhwc ? to : from, *planes = to_nhwc ? from : to;
    int64_t pixel = qb_cpu_channels(pixels), image = qb_cpu_channels(planes) * c->plane;
    c->in_step = c->out_step = pixel;
    c->in_image = to_nhwc ? image : pixel * c->plane;
    c->out_image = to_nhwc ? pixel * c->plane : image;
    c->in_first = from->channel_offset * (to_nhwc ? c->plane : 1);
    c->out_first = to->channel_offset * (to_nhwc ? 1 : c->plane);
}

static void plan_copy(copy *c, const qb_desc *from, const qb_desc *to) {
    const qb_shape *shape = &from->shape;
    if (shape->rank < 2 ||
        (from->layout == to->layout && from->channel_total == 0 && to->channel_total == 0)) {
        c->shape = COPY_FLAT;
        c->row = qb_shape_count(shape);
        c->n_rows = 1;
        return;
    }
    c->images = shape->dim[0];
    c->channels = shape->dim[1];
    c->plane = qb_shape_span(shape, 2, shape->rank);
    bool same = from->layout == to->layout;
    if (same)
        plan_rows(c, from, to, is_nhwc(from));
    else if (c->plane == 1)
        plan_rows(c, from, to, true);
    else
        plan_transpose(c, from, to);
}

static void choose_tasks(copy *c) {
    int64_t elements, units;
    switch (c->shape) {
    case COPY_FLAT: units = elements = c->row; break;
    case COPY_ROWS: units = c->n_rows, elements = c->row * c->n_rows; break;
    default:
        units = c->images * qb_ceil64(c->plane, BLOCK);
        elements = c->images * c->channels * c->plane;
        break;
    }
    int64_t tasks = qb_min64(4 * c->threads, qb_ceil64(elements, 8192));
    c->per_task = qb_ceil64(units, tasks);
    if (c->shape == COPY_FLAT) c->per_task = qb_ceil64(c->per_task, 64) * 64;
    c->n_tasks = qb_ceil64(units, c->per_task);
}

static void flat_or_rows(const qb_cpu_job *j, int64_t begin, int64_t end) {
    const copy *c = j->state;
    const qb_convert *v = &c->convert;
    if (c->shape == COPY_FLAT) {
        v->run(v, j->data + (size_t)begin * v->in_size, j->out + (size_t)begin * v->out_size,
               end - begin);
        return;
    }
    for (int64_t r = begin; r < end; r++)
        v->run(v, j->data + (size_t)(c->in_first + r * c->in_step) * v->in_size,
               j->out + (size_t)(c->out_first + r * c->out_step) * v->out_size, c->row);
}

/* One block of pixels of one image: converted plane by plane where it is, and transposed. */
static void block_to_nhwc(const qb_cpu_job *j, int64_t image, int64_t first, int64_t n) {
    const copy *c = j->state;
    const qb_convert *v = &c->convert;
    _Alignas(64) char part[BLOCK * BLOCK * 8];
    for (int64_t c0 = 0; c0 < c->channels; c0 += BLOCK) {
        const int64_t m = qb_min64(BLOCK, c->channels - c0);
        const int64_t at = image * c->in_image + c->in_first + c0 * c->plane + first;
        const int64_t to = image * c->out_image + c->out_first + first * c->out_step + c0;
        const char *from = j->data + (size_t)at * v->in_size;
        for (int64_t k = 0; k < m && !c->moves; k++)
            v->run(v, from + (size_t)(k * c->plane) * v->in_size,
                   part + (size_t)(k * BLOCK) * v->out_size, n);
        qb_transpose(v->out_size, c->moves ? from : part, c->moves ? c->plane : BLOCK,
                     j->out + (size_t)to * v->out_size, c->out_step, n, m);
    }
}

static void block_to_row(const qb_cpu_job *j, int64_t image, int64_t first, int64_t n) {
    const copy *c = j->state;
    const qb_convert *v = &c->convert;
    _Alignas(64) char part[BLOCK * BLOCK * 8];
    for (int64_t c0 = 0; c0 < c->channels; c0 += BLOCK) {
        const int64_t m = qb_min64(BLOCK, c->channels - c0);
        const int64_t from = image * c->in_image + c->in_first + first * c->in_step + c0;
        const int64_t at = image * c->out_image + c->out_first + c0 * c->plane + first;
        char *to = j->out + (size_t)at * v->out_size;
        qb_transpose(v->in_size, j->data + (size_t)from * v->in_size, c->in_step,
                     c->moves ? to : part, c->moves ? c->plane : BLOCK, m, n);
        for (int64_t k = 0; k < m && !c->moves; k++)
            v->run(v, part + (size_t)(k * BLOCK) * v->in_size,
                   to + (size_t)(k * c->plane) * v->out_size, n);
    }
}

static void run_task(int64_t task, void *argument) {
    const qb_cpu_job *j = argument;
    const copy *c = j->state;
    int64_t begin = task * c->per_task, end = begin + c->per_task;
    if (c->shape == COPY_FLAT || c->shape == COPY_ROWS) {
        flat_or_rows(j, begin, qb_min64(end, c->shape == COPY_FLAT ? c->row : c->n_rows));
        return;
    }
    int64_t blocks = qb_ceil64(c->plane, BLOCK);
    end = qb_min64(end, c->images * blocks);
    for (int64_t b = begin; b < end; b++) {
        int64_t first = b % blocks * BLOCK, n = qb_min64(BLOCK, c->plane - first);
        if (c->shape == COPY_TO_NHWC)
            block_to_nhwc(j, b / blocks, first, n);
        else
            block_to_row(j, b / blocks, first, n);
    }
}

static qb_status launch(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    (void)cx;
    const copy *c = kernel->state;
    return qb_cpu_run(kernel, args, c->n_tasks, run_task);
}

/* A function keeps the order that its data have. */
static void finalize(qb_desc *x, qb_desc *y) {
    if (x->layout == QB_LAYOUT_ANY) x->layout = y->layout;
    if (x->layout == QB_LAYOUT_ANY) x->layout = QB_LAYOUT_ROW;
    if (y->layout == QB_LAYOUT_ANY) y->layout = x->layout;
}

static void fill(const qb_problem *p, int threads, qb_kernel *kernel) {
    copy *c = kernel->state;
    const bool unary = p->kind == QB_KIND_UNARY;
    if (unary) finalize(&kernel->in[0], &kernel->problem.out);
    c->threads = threads;
    c->convert = unary ? qb_convert_unary(p) : qb_convert_of(&p->in[0], &p->out);
    c->moves = !unary && qb_convert_moves(&kernel->in[0], &kernel->problem.out);
    plan_copy(c, &kernel->in[0], &kernel->problem.out);
    choose_tasks(c);
    const bool casts = p->in[0].dtype == QB_DTYPE_S32 && p->out.dtype == QB_DTYPE_F32;
    const bool same_size = c->convert.in_size == c->convert.out_size;
    kernel->in_place_inputs =
        (casts || (unary && same_size)) && c->shape == COPY_FLAT && c->in_first == c->out_first;
    kernel->launch = launch;
}

QB_TACTIC(cpu_copy, "cpu.copy", "cpu", QB_KIND_COPY, QB_EXACT, supports, qb_cpu_create,
          .state_bytes = sizeof(copy), .fill = fill);

QB_TACTIC(cpu_unary, "cpu.unary", "cpu", QB_KIND_UNARY, QB_EXACT, unary_supports, qb_cpu_create,
          .state_bytes = sizeof(copy), .fill = fill);
