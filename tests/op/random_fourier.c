#include "random_fourier.h"

#include <math.h>
#include <stdlib.h>

#include "kernels/ref.h"

static void make_frames(qb_rng *rng, random_case *c) {
    qb_problem *p = &c->problem;
    qb_desc *x = &c->in[0];
    const bool is_complex = random_chance(rng, 30);
    p->fourier.length = random_between(rng, 1, 40);
    p->fourier.step = random_between(rng, 1, 9);
    p->fourier.onesided = !is_complex && random_chance(rng, 70);
    x->shape =
        qb_shape_of(3, (int)random_between(rng, 1, 3),
                    (int)(p->fourier.length + random_between(rng, 0, 60)), is_complex ? 2 : 1);
    p->n_in = random_chance(rng, 70) ? 3 : 2;
    c->in[1] = (qb_desc){.dtype = QB_DTYPE_S64, .q.axis = -1};
    if (p->n_in > 2)
        c->in[2] = (qb_desc){
            .dtype = QB_DTYPE_F32, .shape = qb_shape_of(1, (int)p->fourier.length), .q.axis = -1};
    const int64_t n = p->fourier.length;
    p->out.shape =
        qb_shape_of(4, (int)x->shape.dim[0], (int)((x->shape.dim[1] - n) / p->fourier.step + 1),
                    (int)(p->fourier.onesided ? n / 2 + 1 : n), 2);
}

void random_fourier_make(qb_rng *rng, random_case *c) {
    qb_problem *p = &c->problem;
    qb_desc *x = &c->in[0];
    x->dtype = p->out.dtype = QB_DTYPE_F32;
    if (random_chance(rng, 40)) {
        make_frames(rng, c);
        return;
    }
    p->n_in = 1;
    p->fourier.inverse = random_chance(rng, 40);
    p->fourier.onesided = random_chance(rng, 50);
    const bool back = p->fourier.inverse && p->fourier.onesided;
    const bool is_complex = back || (!p->fourier.onesided && random_chance(rng, 60));
    x->shape.rank = (int32_t)random_between(rng, 2, 4);
    for (int32_t d = 0; d < x->shape.rank; d++) x->shape.dim[d] = random_between(rng, 2, 7);
    x->shape.dim[x->shape.rank - 1] = is_complex ? 2 : 1;
    p->axis = (int32_t)random_between(rng, 0, x->shape.rank - 2);
    int64_t *n = &x->shape.dim[p->axis];
    *n = random_between(rng, 2, 48);
    p->fourier.length = back ? 2 * (*n - 1) : *n;
    if (random_chance(rng, 30)) p->fourier.length += random_between(rng, 0, 5);
    p->out.shape = x->shape;
    p->out.shape.dim[p->axis] =
        p->fourier.onesided && !back ? p->fourier.length / 2 + 1 : p->fourier.length;
    p->out.shape.dim[x->shape.rank - 1] = back ? 1 : 2;
}

/* A line: where it begins, how far its numbers are apart, and how many it has. */
typedef struct line {
    int64_t at, step, n, parts;
} line;

/* Number j of what is transformed; what the half of a real signal's spectrum lacks is its mirror.
 */
static void number(const random_case *c, const line *from, int64_t j, double *re, double *im) {
    const qb_fourier *how = &c->problem.fourier;
    const float *x = c->data[0], *window = c->problem.n_in > 2 ? c->data[2] : NULL;
    const bool mirrors = how->inverse && how->onesided && j > how->length / 2;
    const int64_t at = mirrors ? how->length - j : j;
    *re = *im = 0;
    if (at >= from->n) return;
    const double w = window ? (double)window[at] : 1;
    *re = w * (double)x[from->at + at * from->step];
    if (from->parts == 2) *im = w * (double)x[from->at + at * from->step + 1];
    if (mirrors) *im = -*im;
}

static void transform(random_case *c, const line *from, const line *to) {
    const qb_fourier *how = &c->problem.fourier;
    float *y = c->expected;
    for (int64_t k = 0; k < to->n; k++) {
        double sum = 0, sum_i = 0;
        for (int64_t j = 0; j < how->length; j++) {
            double re, im;
            number(c, from, j, &re, &im);
            const double turn = (double)(j * k % how->length) / (double)how->length;
            const double angle = 2 * acos(-1) * turn * (how->inverse ? 1 : -1);
            sum += re * cos(angle) - im * sin(angle);
            sum_i += re * sin(angle) + im * cos(angle);
        }
        const double scale = how->inverse ? 1 / (double)how->length : 1;
        y[to->at + k * to->step] = (float)(sum * scale);
        if (to->parts == 2) y[to->at + k * to->step + 1] = (float)(sum_i * scale);
    }
}

void random_fourier_reference(random_case *c) {
    const qb_problem *p = &c->problem;
    const qb_shape *x = &c->in[0].shape, *y = &p->out.shape;
    const int64_t parts_x = x->dim[x->rank - 1], parts_y = y->dim[y->rank - 1];
    if (p->fourier.step > 0) {
        const int64_t frames = y->dim[1];
        for (int64_t i = 0; i < y->dim[0] * frames; i++) {
            const int64_t begin = i / frames * x->dim[1] + i % frames * p->fourier.step;
            const line from = {begin * parts_x, parts_x, p->fourier.length, parts_x};
            const line to = {i * y->dim[2] * 2, 2, y->dim[2], 2};
            transform(c, &from, &to);
        }
        return;
    }
    int64_t inner = 1;
    for (int32_t d = p->axis + 1; d < x->rank - 1; d++) inner *= x->dim[d];
    const int64_t n_x = x->dim[p->axis], n_y = y->dim[p->axis];
    for (int64_t i = 0, n = qb_shape_count(x) / parts_x / n_x; i < n; i++) {
        const int64_t outer = i / inner * inner, rest = i % inner;
        const line from = {(outer * n_x + rest) * parts_x, inner * parts_x, n_x, parts_x};
        const line to = {(outer * n_y + rest) * parts_y, inner * parts_y, n_y, parts_y};
        transform(c, &from, &to);
    }
}

/* ---- FOLD ---- */

void random_fold_make(qb_rng *rng, random_case *c) {
    qb_problem *p = &c->problem;
    qb_window *w = &p->window;
    int64_t block = 1, blocks = 1;
    c->in[0].dtype = p->out.dtype = QB_DTYPE_F32;
    p->n_in = 1;
    w->n = (int32_t)random_between(rng, 1, 3);
    p->out.shape = qb_shape_of(2, (int)random_between(rng, 1, 3), (int)random_between(rng, 1, 3));
    p->out.shape.rank += w->n;
    for (int32_t d = 0; d < w->n; d++) {
        const int64_t most = d == w->n - 1 && random_chance(rng, 20) ? 300 : 9;
        w->kernel[d] = random_between(rng, 1, 3);
        w->stride[d] = random_between(rng, 1, 4);
        w->dilation[d] = random_between(rng, 1, 2);
        w->pad_begin[d] = random_between(rng, 0, 2);
        w->pad_end[d] = random_between(rng, 0, 2);
        const int64_t reach = (w->kernel[d] - 1) * w->dilation[d] + 1;
        int64_t *size = &p->out.shape.dim[2 + d];
        *size = reach + random_between(rng, 0, most);
        block *= w->kernel[d];
        blocks *= (*size + w->pad_begin[d] + w->pad_end[d] - reach) / w->stride[d] + 1;
    }
    c->in[0].shape =
        qb_shape_of(3, (int)p->out.shape.dim[0], (int)(p->out.shape.dim[1] * block), (int)blocks);
    if (random_chance(rng, 40)) {
        c->scale[CASE_INPUTS] = 0.05f;
        c->zero[CASE_INPUTS] = 90;
        p->out.dtype = QB_DTYPE_U8;
        p->out.q = (qb_qparams){QB_DTYPE_U8, -1, 1, &c->scale[CASE_INPUTS], &c->zero[CASE_INPUTS]};
    }
}

/* Where place `inside` of block `at` lies in an image; -1: outside. */
static int64_t pixel_of(const qb_window *w, const qb_shape *y, int64_t inside, int64_t at) {
    int64_t pixel = 0, stride = 1;
    for (int32_t d = w->n - 1; d >= 0; d--) {
        const int64_t size = y->dim[2 + d], reach = (w->kernel[d] - 1) * w->dilation[d] + 1;
        const int64_t blocks = (size + w->pad_begin[d] + w->pad_end[d] - reach) / w->stride[d] + 1;
        const int64_t x =
            at % blocks * w->stride[d] - w->pad_begin[d] + inside % w->kernel[d] * w->dilation[d];
        if (x < 0 || x >= size) return -1;
        pixel += x * stride;
        stride *= size;
        at /= blocks;
        inside /= w->kernel[d];
    }
    return pixel;
}

void random_fold_reference(random_case *c) {
    const qb_problem *p = &c->problem;
    const qb_shape *x = &c->in[0].shape;
    const qb_desc *y = &p->out;
    const int64_t planes = y->shape.dim[0] * y->shape.dim[1];
    const int64_t pixels = qb_shape_count(&y->shape) / planes, blocks = x->dim[2];
    const int64_t block = x->dim[1] / y->shape.dim[1];
    double *sum = calloc((size_t)(planes * pixels), sizeof *sum);
    if (!sum) abort();
    for (int64_t i = 0; i < planes * block * blocks; i++) {
        const int64_t at = pixel_of(&p->window, &y->shape, i / blocks % block, i % blocks);
        if (at >= 0)
            sum[i / (block * blocks) * pixels + at] += (double)((const float *)c->data[0])[i];
    }
    for (int64_t i = 0; i < planes * pixels; i++) {
        double v = (double)(float)sum[i];
        if (y->q.n > 0) v = qb_quantize_value((float)v, y->q.scale[0], y->q.zero[0], y->dtype);
        qb_number_put(y->dtype, c->expected, i, v);
    }
    free(sum);
}
