#include "random_places.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/grid.h"
#include "kernels/ref.h"
#include "qb_test.h"

static void set_type(qb_rng *rng, random_case *c, int slot, qb_desc *desc, bool quantized) {
    desc->dtype = QB_DTYPE_F32;
    if (!quantized) return;
    desc->dtype = random_chance(rng, 50) ? QB_DTYPE_U8 : QB_DTYPE_S8;
    c->scale[slot] = 0.02f * (float)random_between(rng, 1, 2);
    c->zero[slot] = (int32_t)random_between(rng, 0, 40);
    desc->q = (qb_qparams){desc->dtype, -1, 1, &c->scale[slot], &c->zero[slot]};
}

static void strides_of(const qb_shape *shape, int64_t *stride) {
    int64_t step = 1;
    for (int32_t d = shape->rank - 1; d >= 0; d--) {
        stride[d] = step;
        step *= shape->dim[d];
    }
}

/* One axis, its indices in any shape. */
static void make_axis(qb_rng *rng, const qb_shape *x, qb_shape *index, qb_places *s,
                      qb_problem *p) {
    const int32_t axis = (int32_t)random_between(rng, 0, x->rank - 1);
    int64_t stride[QB_MAX_RANK], named[QB_MAX_RANK];
    *index = qb_shape_of((int)random_between(rng, 0, 2), (int)random_between(rng, 1, 9),
                         (int)random_between(rng, 1, 90));
    strides_of(x, stride);
    strides_of(index, named);
    p->axis = axis;
    *s = (qb_places){
        .depth = 1, .size = {x->dim[axis]}, .stride = {stride[axis]}, .run = stride[axis]};
    for (int32_t d = 0; d < axis; d++, s->rank++) {
        s->dim[d] = x->dim[d];
        s->along[d] = stride[d];
    }
    for (int32_t d = 0; d < index->rank; d++, s->rank++) {
        s->dim[s->rank] = index->dim[d];
        s->named[s->rank] = named[d];
    }
}

/* An index for each element along an axis. */
static void make_elements(qb_rng *rng, const qb_shape *x, qb_shape *index, qb_places *s) {
    const int32_t axis = (int32_t)random_between(rng, 0, x->rank - 1);
    *index = *x;
    for (int32_t d = 0; d < x->rank; d++)
        if (d == axis || random_chance(rng, 30))
            index->dim[d] = random_between(rng, 1, d == axis ? 300 : x->dim[d]);
    *s = (qb_places){.rank = x->rank, .depth = 1, .size = {x->dim[axis]}, .run = 1};
    strides_of(x, s->along);
    strides_of(index, s->named);
    memcpy(s->dim, index->dim, sizeof s->dim);
    s->stride[0] = s->along[axis];
    s->along[axis] = 0;
}

/* Tuples of indices, some dimensions shared. */
static void make_tuples(qb_rng *rng, const qb_shape *x, qb_shape *index, qb_places *s,
                        bool batches) {
    const int32_t batch = batches ? (int32_t)random_between(rng, 0, x->rank - 1) : 0;
    const int32_t depth = (int32_t)random_between(rng, 1, x->rank - batch);
    int64_t stride[QB_MAX_RANK], named[QB_MAX_RANK];
    index->rank = batch + 2;
    for (int32_t d = 0; d < batch; d++) index->dim[d] = x->dim[d];
    index->dim[batch] = random_between(rng, 1, 30);
    index->dim[batch + 1] = depth;
    strides_of(x, stride);
    strides_of(index, named);
    *s = (qb_places){.rank = batch + 1, .depth = depth, .run = 1};
    for (int32_t d = 0; d <= batch; d++) {
        s->dim[d] = index->dim[d];
        s->along[d] = d < batch ? stride[d] : 0;
        s->named[d] = named[d] / depth;
    }
    for (int32_t k = 0; k < depth; k++) {
        s->size[k] = x->dim[batch + k];
        s->stride[k] = stride[batch + k];
    }
    for (int32_t d = batch + depth; d < x->rank; d++) s->run *= x->dim[d];
}

/* The result's shape is as good flat: it has the runs one after the other. */
void random_places_make(qb_rng *rng, random_case *c) {
    qb_problem *p = &c->problem;
    const bool scatters = p->kind == QB_KIND_SCATTER;
    const int form = (int)random_between(rng, scatters ? 1 : 0, 2);
    qb_shape *x = &c->in[0].shape, *index = &c->in[1].shape;
    *x = qb_shape_of((int)random_between(rng, 1, 4), 1, 1, 1, 1);
    for (int32_t d = 0; d < x->rank; d++) x->dim[d] = random_between(rng, 4, 9);
    if (x->rank < 3 &&
        random_chance(rng, 40)) /* long runs, of tuples longer than what is copied at once */
        x->dim[x->rank - 1] = random_between(rng, 100, form == 2 ? 5000 : 300);
    p->n_in = scatters ? 3 : 2;
    p->axis = -1;
    if (form == 0) make_axis(rng, x, index, &p->places, p);
    if (form == 1) make_elements(rng, x, index, &p->places);
    if (form == 2) make_tuples(rng, x, index, &p->places, !scatters);
    c->in[1].dtype = QB_DTYPE_S64;
    int64_t places = 1;
    for (int32_t d = 0; d < p->places.rank; d++) places *= p->places.dim[d];
    const qb_shape runs = qb_shape_of(2, (int)places, (int)p->places.run);
    p->out.shape = scatters ? *x : runs;
    if (scatters && random_chance(rng, 40))
        p->reduce = (qb_reduce_kind[]){QB_REDUCE_SUM, QB_REDUCE_PROD, QB_REDUCE_MAX,
                                       QB_REDUCE_MIN}[random_between(rng, 0, 3)];
    const bool quantized = random_chance(rng, 60);
    set_type(rng, c, 0, &c->in[0], quantized);
    set_type(rng, c, CASE_INPUTS, &p->out, quantized && random_chance(rng, 90));
    if (random_chance(rng, 40)) {
        p->out.dtype = c->in[0].dtype;
        p->out.q = c->in[0].q;
    }
    if (!scatters) return;
    c->in[2].shape = runs;
    set_type(rng, c, 2, &c->in[2], quantized && random_chance(rng, 80));
    if (random_chance(rng, 40)) {
        c->in[2].dtype = p->out.dtype;
        c->in[2].q = p->out.q;
    }
}

/* Element `from` of an input becomes element `to` of the result. */
static void move(random_case *c, int32_t input, int64_t from, int64_t to) {
    qb_desc x = c->in[input], y = c->problem.out;
    x.shape = y.shape = qb_shape_of(0);
    const qb_problem p = {.kind = QB_KIND_COPY, .n_in = 1, .in = &x, .out = y};
    const void *data = (const char *)c->data[input] + (size_t)from * qb_dtype_size(x.dtype);
    qb_ref_copy(&p, &data, (char *)c->expected + (size_t)to * qb_dtype_size(y.dtype));
}

static float reduced(qb_reduce_kind how, float a, float b) {
    switch (how) {
    case QB_REDUCE_SUM: return a + b;
    case QB_REDUCE_PROD: return a * b;
    case QB_REDUCE_MAX: return fmaxf(a, b);
    default: return fminf(a, b);
    }
}

/* Where the element is that number i of the gathered ones, or of the updates, belongs to. */
static int64_t place_of(const random_case *c, int64_t i) {
    const qb_places *s = &c->problem.places;
    int64_t place = i / s->run, at = i % s->run, tuple = 0;
    for (int32_t d = s->rank - 1; d >= 0; d--) {
        at += place % s->dim[d] * s->along[d];
        tuple += place % s->dim[d] * s->named[d];
        place /= s->dim[d];
    }
    for (int32_t k = 0; k < s->depth; k++) {
        const int64_t index = ((const int64_t *)c->data[1])[tuple * s->depth + k];
        at += (index < 0 ? index + s->size[k] : index) * s->stride[k];
    }
    return at;
}

static float real_at(const random_case *c, int32_t input, int64_t i) {
    const qb_desc *x = &c->in[input];
    const double v = qb_number_get(x->dtype, c->data[input], i);
    return x->q.n > 0 ? x->q.scale[0] * (float)(v - x->q.zero[0]) : (float)v;
}

/* In floats; what is quantized is so at the end. */
static void reduce_places(random_case *c) {
    const qb_problem *p = &c->problem;
    const qb_desc *y = &p->out;
    const int64_t all = qb_shape_count(&y->shape);
    float *made = malloc((size_t)(all + 1) * sizeof *made);
    assert_non_null(made);
    for (int64_t i = 0; i < all; i++) made[i] = real_at(c, 0, i);
    for (int64_t i = 0; i < qb_shape_count(&c->in[2].shape); i++) {
        float *to = made + place_of(c, i);
        *to = reduced(p->reduce, *to, real_at(c, 2, i));
    }
    for (int64_t i = 0; i < all; i++)
        qb_number_put(y->dtype, c->expected, i,
                      y->q.n > 0 ? qb_quantize_value(made[i], y->q.scale[0], y->q.zero[0], y->dtype)
                                 : (double)made[i]);
    free(made);
}

void random_places_reference(random_case *c) {
    const qb_problem *p = &c->problem;
    const bool scatters = p->kind == QB_KIND_SCATTER;
    const int64_t n = qb_shape_count(scatters ? &c->in[2].shape : &p->out.shape);
    const int64_t all = qb_shape_count(&p->out.shape);
    if (p->reduce) {
        reduce_places(c);
        return;
    }
    for (int64_t i = 0; scatters && i < all; i++) move(c, 0, i, i);
    for (int64_t i = 0; i < n; i++) {
        const int64_t at = place_of(c, i);
        move(c, scatters ? 2 : 0, scatters ? i : at, scatters ? at : i);
    }
}

/* ---- GRID_SAMPLE ---- */

void random_grid_make(qb_rng *rng, random_case *c) {
    qb_problem *p = &c->problem;
    qb_shape *x = &c->in[0].shape, *grid = &c->in[1].shape;
    x->rank = (int32_t)random_between(rng, 3, 5);
    *grid = *x;
    for (int32_t d = 0; d < x->rank; d++) {
        x->dim[d] = random_between(rng, 1, 6);
        if (d > 1) grid->dim[d - 1] = random_between(rng, 1, 12);
    }
    grid->dim[0] = x->dim[0];
    grid->dim[x->rank - 1] = x->rank - 2;
    p->n_in = 2;
    p->out.shape = *x;
    for (int32_t d = 2; d < x->rank; d++) p->out.shape.dim[d] = grid->dim[d - 1];
    p->grid = (qb_grid_sampling){(qb_grid_mode)random_between(rng, 0, QB_GRID_CUBIC),
                                 (qb_grid_outside)random_between(rng, 0, QB_GRID_REFLECTION),
                                 random_chance(rng, 50)};
    set_type(rng, c, 0, &c->in[0], false);
    set_type(rng, c, 1, &c->in[1], false);
    set_type(rng, c, CASE_INPUTS, &p->out, random_chance(rng, 40));
}

static double sampled(const qb_grid_axis *axes, int32_t n, const float *place, const float *x,
                      int64_t at) {
    qb_grid_tap taps[QB_GRID_TAPS];
    double sum = 0;
    if (n == 0) return (double)x[at];
    const int32_t count = qb_grid_taps(axes, place[n - 1], taps);
    for (int32_t k = 0; k < count; k++)
        if (taps[k].at >= 0)
            sum += taps[k].weight * sampled(axes + 1, n - 1, place, x, at + taps[k].at);
    return sum;
}

void random_grid_reference(random_case *c) {
    const qb_problem *p = &c->problem;
    const qb_shape *x = &c->in[0].shape;
    const qb_desc *y = &p->out;
    qb_grid_axis axes[QB_GRID_SPATIAL];
    const int32_t n = qb_grid_axes(&p->grid, x, axes);
    const int64_t images = x->dim[0] * x->dim[1], pixels = qb_shape_count(x) / images;
    const int64_t places = qb_shape_count(&y->shape) / images;
    for (int64_t i = 0; i < images * places; i++) {
        const int64_t plane = i / places, image = plane / x->dim[1];
        const float *grid = (const float *)c->data[1] + (image * places + i % places) * n;
        double v = sampled(axes, n, grid, (const float *)c->data[0] + plane * pixels, 0);
        if (y->q.n > 0) v = qb_quantize_value((float)v, y->q.scale[0], y->q.zero[0], y->dtype);
        qb_number_put(y->dtype, c->expected, i, v);
    }
}
