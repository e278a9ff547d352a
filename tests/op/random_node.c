#include "random_node.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/ref.h"
#include "random_attention.h"
#include "random_chain.h"
#include "random_fourier.h"
#include "random_integer.h"
#include "random_lines.h"
#include "random_places.h"
#include "random_recurrent.h"

/* The reference tells where its maxima lie, beside them. */
static void pool_places(random_case *c) {
    qb_problem p = c->problem;
    float *values = malloc((size_t)qb_shape_count(&p.out.shape) * sizeof *values);
    if (!values) abort();
    p.kind = QB_KIND_POOL;
    p.pool = QB_POOL_MAX;
    p.out.dtype = QB_DTYPE_F32;
    qb_ref_pool(&p, (const void *[]){c->data[0]}, values, c->expected, 1);
    free(values);
}

/* Kinds with a file of their own. */
static const struct {
    void (*make)(qb_rng *rng, random_case *c);
    void (*reference)(random_case *c);
} elsewhere[QB_KIND_COUNT] = {
    [QB_KIND_ATTENTION] = {random_attention_make, random_attention_reference},
    [QB_KIND_RECURRENT] = {random_recurrent_make, random_recurrent_reference},
    [QB_KIND_MATMUL_INTEGER] = {random_integer_make, random_integer_reference},
    [QB_KIND_MATMUL_SCALED] = {random_integer_make, random_integer_reference},
    [QB_KIND_DYNAMIC_QUANTIZE] = {random_integer_make, random_integer_reference},
    [QB_KIND_CHAIN] = {random_chain_make, random_chain_reference},
    [QB_KIND_GATHER] = {random_places_make, random_places_reference},
    [QB_KIND_SCATTER] = {random_places_make, random_places_reference},
    [QB_KIND_GRID_SAMPLE] = {random_grid_make, random_grid_reference},
    [QB_KIND_SCAN] = {random_lines_make, random_lines_reference},
    [QB_KIND_FOURIER] = {random_fourier_make, random_fourier_reference},
    [QB_KIND_FOLD] = {random_fold_make, random_fold_reference},
    [QB_KIND_ARG] = {random_lines_make, random_lines_reference},
    [QB_KIND_POOL_PLACES] = {NULL, pool_places},
};

bool random_is_node(qb_kind kind) {
    return elsewhere[kind].reference || kind == QB_KIND_LAYER_NORM ||
           kind == QB_KIND_STRIDED_COPY || kind == QB_KIND_RESIZE || kind == QB_KIND_GROUP_NORM ||
           kind == QB_KIND_REDUCE || kind == QB_KIND_PAD;
}

static qb_shape random_shape(qb_rng *rng, int32_t rank, int64_t most) {
    qb_shape shape = {.rank = rank};
    for (int32_t d = 0; d < rank; d++) shape.dim[d] = random_between(rng, 1, most);
    if (random_chance(rng, 40)) shape.dim[rank - 1] = random_between(rng, 1, 8) * 8;
    return shape;
}

static void set_type(qb_rng *rng, random_case *c) {
    qb_desc *x = &c->in[0];
    x->dtype = QB_DTYPE_F32;
    if (random_chance(rng, 50)) {
        x->dtype = random_chance(rng, 50) ? QB_DTYPE_U8 : QB_DTYPE_S8;
        c->scale[0] = 0.02f;
        c->zero[0] = (int32_t)random_between(rng, 0, 40);
        x->q = (qb_qparams){x->dtype, -1, 1, &c->scale[0], &c->zero[0]};
    }
    c->problem.out.dtype = x->dtype;
    c->problem.out.q = x->q;
}

/* A part of each dimension, forwards or backwards, in any order, and perhaps repeated. */
static void make_strided(qb_rng *rng, random_case *c) {
    qb_problem *p = &c->problem;
    qb_strided *s = &p->strided;
    const qb_shape *x = &c->in[0].shape;
    int64_t step = 1;
    s->rank = x->rank;
    s->offset = 0;
    for (int32_t d = x->rank - 1; d >= 0; d--) {
        const int64_t by = random_chance(rng, 70) ? 1 : random_between(rng, 1, 3);
        const int64_t first = random_chance(rng, 60) ? 0 : random_between(rng, 0, x->dim[d] - 1);
        const bool back = random_chance(rng, 15);
        s->dim[d] = (x->dim[d] - first + by - 1) / by;
        s->stride[d] = (back ? -by : by) * step;
        s->offset += (back ? x->dim[d] - 1 - first : first) * step;
        step *= x->dim[d];
    }
    for (int32_t d = 0; d < s->rank; d++) {
        const int32_t other = (int32_t)random_between(rng, 0, d);
        const int64_t dim = s->dim[d], stride = s->stride[d];
        s->dim[d] = s->dim[other], s->stride[d] = s->stride[other];
        s->dim[other] = dim, s->stride[other] = stride;
    }
    if (random_chance(rng, 30)) {
        const int32_t at = (int32_t)random_between(rng, 0, s->rank - 1);
        s->dim[s->rank] = s->dim[at], s->stride[s->rank++] = s->stride[at];
        s->dim[at] = random_between(rng, 1, 5), s->stride[at] = 0;
    }
    p->out.shape.rank = s->rank;
    memcpy(p->out.shape.dim, s->dim, sizeof s->dim);
    if (random_chance(rng, 70)) return;
    c->scale[1] = 0.03f; /* what converts on the way */
    c->zero[1] = (int32_t)random_between(rng, 0, 40);
    const qb_dtype type = random_chance(rng, 50) ? QB_DTYPE_U8 : QB_DTYPE_S8;
    const bool floats = c->in[0].q.n > 0 && random_chance(rng, 70);
    p->out.dtype = floats ? QB_DTYPE_F32 : type;
    p->out.q =
        floats ? (qb_qparams){.axis = -1} : (qb_qparams){type, -1, 1, &c->scale[1], &c->zero[1]};
}

/* Groups of channels, some with planes of many parts. */
static void make_group_norm(qb_rng *rng, random_case *c) {
    qb_problem *p = &c->problem;
    qb_shape *x = &c->in[0].shape;
    p->n_in = 3;
    p->epsilon = 1e-5f;
    p->group = random_between(rng, 1, 6);
    x->dim[1] = p->group * random_between(rng, 1, random_chance(rng, 20) ? 60 : 4);
    if (x->rank > 2 && random_chance(rng, 10)) x->dim[2] = random_between(rng, 800, 1000);
    for (int32_t i = 1; i < 3; i++) {
        c->in[i].dtype = QB_DTYPE_F32;
        c->in[i].shape = qb_shape_of(1, (int)x->dim[1]);
        c->constant[i] = true;
    }
}

/* Any axes, kept or not; the product only of few. */
static void make_reduce(qb_rng *rng, random_case *c) {
    qb_problem *p = &c->problem;
    qb_shape *x = &c->in[0].shape, *y = &p->out.shape;
    const bool keep = random_chance(rng, 50);
    p->reduce = (qb_reduce_kind)random_between(rng, QB_REDUCE_SUM, QB_REDUCE_SUM_SQUARE);
    if (random_chance(rng, 15)) p->reduce = QB_REDUCE_LOG_SUM_EXP;
    if (random_chance(rng, 20)) {
        static const qb_reduce_kind exact[] = {QB_REDUCE_SUM, QB_REDUCE_MAX, QB_REDUCE_MIN,
                                               QB_REDUCE_PROD};
        const bool wide = random_chance(rng, 50);
        p->reduce = exact[random_between(rng, 0, wide ? 3 : 2)]; /* products would leave 32 bits */
        c->in[0].q.n = p->out.q.n = 0;
        c->in[0].dtype = p->out.dtype = wide ? QB_DTYPE_S64 : QB_DTYPE_S32;
    }
    p->axes = (uint32_t)random_between(rng, 1, (1 << x->rank) - 1);
    if (random_chance(rng, 30)) x->dim[random_between(rng, 0, x->rank - 1)] *= 70;
    if (p->reduce == QB_REDUCE_PROD)
        for (int32_t d = 0; d < x->rank; d++) x->dim[d] = random_between(rng, 1, 2);
    *y = (qb_shape){0};
    for (int32_t d = 0; d < x->rank; d++) {
        const bool reduced = p->axes >> d & 1u;
        if (!reduced || keep) y->dim[y->rank++] = reduced ? 1 : x->dim[d];
    }
}

/* More or less at both ends of some dimensions; only constants know no end. */
static void make_pad(qb_rng *rng, random_case *c) {
    qb_problem *p = &c->problem;
    p->padding = (qb_padding){.mode = (qb_pad_mode)random_between(rng, 0, QB_PAD_WRAP),
                              .value = (float)random_between(rng, 0, 3)};
    for (int32_t d = 0; d < p->out.shape.rank; d++) {
        if (random_chance(rng, 50)) continue;
        const int64_t least = c->in[0].shape.dim[d] > 4 ? -2 : 0;
        p->padding.begin[d] = random_between(rng, least, 5);
        p->out.shape.dim[d] += p->padding.begin[d] + random_between(rng, least, 5);
    }
}

void random_node_make(qb_rng *rng, random_case *c) {
    qb_problem *p = &c->problem;
    qb_desc *x = &c->in[0];
    if (elsewhere[p->kind].make) {
        elsewhere[p->kind].make(rng, c);
        return;
    }
    const bool image = p->kind == QB_KIND_RESIZE;
    int32_t rank = (int32_t)(image ? random_between(rng, 3, 5) : random_between(rng, 2, 4));
    if (image && random_chance(rng, 60)) rank = 4;
    x->shape = random_shape(rng, rank, 12);
    p->n_in = 1;
    p->axis = (int32_t)random_between(rng, 0, rank - 1);
    set_type(rng, c);
    if (p->kind == QB_KIND_LAYER_NORM) {
        int64_t n = 1;
        p->n_in = random_chance(rng, 70) ? 3 : 2;
        p->epsilon = 1e-5f;
        p->rms = random_chance(rng, 40);
        p->axis = rank - 1;
        if (random_chance(rng, 30)) x->shape.dim[rank - 1] = random_between(rng, 1000, 1100);
        for (int32_t d = p->axis; d < rank; d++) n *= x->shape.dim[d];
        for (int32_t i = 1; i < p->n_in; i++) {
            c->in[i].dtype = QB_DTYPE_F32;
            c->in[i].shape = qb_shape_of(1, (int)n);
            c->constant[i] = true;
        }
    }
    if (p->kind == QB_KIND_GROUP_NORM) make_group_norm(rng, c);
    p->out.shape = x->shape;
    if (p->kind == QB_KIND_REDUCE) make_reduce(rng, c);
    if (p->kind == QB_KIND_PAD) make_pad(rng, c);
    if (p->kind == QB_KIND_STRIDED_COPY) make_strided(rng, c);
    if (p->kind == QB_KIND_RESIZE) {
        p->resize = (qb_resize_kind)random_between(rng, 0, QB_RESIZE_CUBIC_CORNERS);
        if (x->q.n > 0 && random_chance(rng, 20)) x->q.n = p->out.q.n = 0; /* integers */
        for (int32_t d = 2; d < rank; d++) p->out.shape.dim[d] = random_between(rng, 1, 25);
    }
}

static float float_of(const random_case *c, int64_t at) {
    const qb_desc *x = &c->in[0];
    double v = qb_number_get(x->dtype, c->data[0], at);
    return x->q.n > 0 ? x->q.scale[0] * (float)(v - x->q.zero[0]) : (float)v;
}

static void put(random_case *c, int64_t at, float f32) {
    const qb_desc *y = &c->problem.out;
    double v = (double)f32;
    if (y->q.n > 0) v = qb_quantize_value(f32, y->q.scale[0], y->q.zero[0], y->dtype);
    qb_number_put(y->dtype, c->expected, at, v);
}

static void layer_norm(random_case *c) {
    int64_t n = qb_shape_count(&c->in[1].shape), rows = qb_shape_count(&c->in[0].shape) / n;
    const float *scale = c->data[1], *bias = c->problem.n_in > 2 ? c->data[2] : NULL;
    for (int64_t r = 0; r < rows; r++) {
        double mean = 0, squares = 0;
        for (int64_t i = 0; i < n && !c->problem.rms; i++)
            mean += (double)float_of(c, r * n + i) / (double)n;
        for (int64_t i = 0; i < n; i++) {
            double d = (double)float_of(c, r * n + i) - mean;
            squares += d * d / (double)n;
        }
        for (int64_t i = 0; i < n; i++) {
            double v = ((double)float_of(c, r * n + i) - mean) /
                       sqrt(squares + (double)c->problem.epsilon);
            put(c, r * n + i, (float)(v * (double)scale[i] + (bias ? (double)bias[i] : 0)));
        }
    }
}

static void group_norm(random_case *c) {
    const qb_problem *p = &c->problem;
    const qb_shape *x = &c->in[0].shape;
    const int64_t channels = x->dim[1], each = channels / p->group;
    const int64_t plane = qb_shape_count(x) / (x->dim[0] * channels), n = each * plane;
    for (int64_t g = 0; g < x->dim[0] * p->group; g++) {
        double mean = 0, squares = 0;
        for (int64_t i = 0; i < n; i++) mean += (double)float_of(c, g * n + i) / (double)n;
        for (int64_t i = 0; i < n; i++) {
            const double d = (double)float_of(c, g * n + i) - mean;
            squares += d * d / (double)n;
        }
        for (int64_t i = 0; i < n; i++) {
            const int64_t channel = g % p->group * each + i / plane;
            const double v =
                ((double)float_of(c, g * n + i) - mean) / sqrt(squares + (double)p->epsilon);
            put(c, g * n + i,
                (float)(v * (double)((const float *)c->data[1])[channel] +
                        (double)((const float *)c->data[2])[channel]));
        }
    }
}

/* Coordinates of the row-major element `at`. */
static void coordinates(const qb_shape *shape, int64_t at, int64_t *index) {
    for (int32_t d = shape->rank - 1; d >= 0; d--) {
        index[d] = at % shape->dim[d];
        at /= shape->dim[d];
    }
}

static int64_t element(const qb_shape *shape, const int64_t *index) {
    int64_t at = 0;
    for (int32_t d = 0; d < shape->rank; d++) at = at * shape->dim[d] + index[d];
    return at;
}

static double reduced(qb_reduce_kind kind, double v, double e) {
    switch (kind) {
    case QB_REDUCE_PROD: return v * e;
    case QB_REDUCE_MAX: return fmax(v, e);
    case QB_REDUCE_MIN: return fmin(v, e);
    case QB_REDUCE_L1: return v + fabs(e);
    case QB_REDUCE_L2:
    case QB_REDUCE_SUM_SQUARE: return v + e * e;
    case QB_REDUCE_LOG_SUM_EXP: return v + exp(e);
    default: return v + e;
    }
}

static void reduce(random_case *c) {
    const qb_problem *p = &c->problem;
    const qb_reduce_kind k = p->reduce;
    const qb_shape *x = &c->in[0].shape;
    const int64_t n = qb_shape_count(x), results = qb_shape_count(&p->out.shape);
    const double start = k == QB_REDUCE_PROD  ? 1
                         : k == QB_REDUCE_MAX ? -INFINITY
                         : k == QB_REDUCE_MIN ? INFINITY
                                              : 0;
    double *v = malloc((size_t)results * sizeof *v);
    qb_shape kept = *x;
    if (!v) abort();
    for (int32_t d = 0; d < x->rank; d++)
        if (p->axes >> d & 1u) kept.dim[d] = 1;
    for (int64_t r = 0; r < results; r++) v[r] = start;
    for (int64_t i = 0; i < n; i++) {
        int64_t at[QB_MAX_RANK];
        coordinates(x, i, at);
        for (int32_t d = 0; d < x->rank; d++)
            if (p->axes >> d & 1u) at[d] = 0;
        double *to = &v[element(&kept, at)];
        const double number = c->in[0].q.n > 0 ? (double)float_of(c, i)
                                               : qb_number_get(c->in[0].dtype, c->data[0], i);
        *to = reduced(k, *to, number);
    }
    for (int64_t r = 0; r < results; r++) {
        if (k == QB_REDUCE_MEAN) v[r] *= (double)results / (double)n;
        const double root = k == QB_REDUCE_L2 ? sqrt(v[r]) : v[r];
        if (p->out.dtype == QB_DTYPE_S32 || p->out.dtype == QB_DTYPE_S64)
            qb_number_put(p->out.dtype, c->expected, r, v[r]);
        else
            put(c, r, (float)(k == QB_REDUCE_LOG_SUM_EXP ? log(root) : root));
    }
    free(v);
}

/* The share of pixel `at` in what lies `place` along a dimension of n pixels. */
static double share(qb_resize_kind kind, double place, int64_t at) {
    const double away = fabs(place - (double)at);
    if (kind == QB_RESIZE_CUBIC || kind == QB_RESIZE_CUBIC_CORNERS)
        return away <= 1  ? (1.25 * away - 2.25) * away * away + 1
               : away < 2 ? -0.75 * (((away - 5) * away + 8) * away - 4)
                          : 0;
    return fmax(1 - away, 0);
}

static float resized(const random_case *c, const int64_t *out) {
    const qb_shape *x = &c->in[0].shape, *y = &c->problem.out.shape;
    const qb_resize_kind kind = c->problem.resize;
    const bool corners = kind == QB_RESIZE_LINEAR_CORNERS || kind == QB_RESIZE_CUBIC_CORNERS;
    const bool is_cubic = kind == QB_RESIZE_CUBIC || kind == QB_RESIZE_CUBIC_CORNERS;
    int64_t at[5] = {out[0], out[1]};
    double place[5] = {0}, sum = 0;
    int n = 1;
    for (int32_t d = 2; d < x->rank; d++) {
        double ratio = (double)x->dim[d] / (double)y->dim[d], p;
        p = ((double)out[d] + 0.5) * ratio - 0.5;
        if (kind == QB_RESIZE_NEAREST) p = (double)(out[d] * x->dim[d] / y->dim[d]);
        if (kind == QB_RESIZE_LINEAR_ASYMMETRIC)
            p = (double)out[d] * (double)x->dim[d] / (double)y->dim[d];
        if (corners)
            p = (double)out[d] * (double)(x->dim[d] - 1) / fmax(1, (double)(y->dim[d] - 1));
        place[d] = is_cubic ? p : fmin(fmax(p, 0), (double)(x->dim[d] - 1));
        n *= 4;
    }
    for (int k = 0; k < n; k++) {
        double weight = 1;
        for (int32_t d = 2; d < x->rank; d++) {
            const int64_t pixel = (int64_t)floor(place[d]) - 1 + (k >> (2 * (d - 2)) & 3);
            weight *= share(kind, place[d], pixel);
            at[d] = pixel < 0 ? 0 : pixel < x->dim[d] ? pixel : x->dim[d] - 1;
        }
        sum += (double)float_of(c, element(x, at)) * weight;
    }
    const bool integer = c->in[0].q.n == 0 && c->in[0].dtype != QB_DTYPE_F32;
    return (float)(integer ? trunc(sum) : sum);
}

/* The element around or inside the data. */
static float padded(const random_case *c, const int64_t *out) {
    const qb_padding *pad = &c->problem.padding;
    const qb_shape *x = &c->in[0].shape;
    int64_t at[QB_MAX_RANK];
    for (int32_t d = 0; d < x->rank; d++) {
        const int64_t n = x->dim[d], turn = n > 1 ? 2 * (n - 1) : 1;
        at[d] = out[d] - pad->begin[d];
        if (at[d] >= 0 && at[d] < n) continue;
        if (pad->mode == QB_PAD_CONSTANT) return pad->value;
        if (pad->mode == QB_PAD_EDGE) at[d] = at[d] < 0 ? 0 : n - 1;
        if (pad->mode == QB_PAD_WRAP) at[d] = (at[d] % n + n) % n;
        if (pad->mode == QB_PAD_REFLECT) at[d] = llabs((at[d] % turn + turn) % turn);
        if (pad->mode == QB_PAD_REFLECT && at[d] >= n) at[d] = turn - at[d];
    }
    return float_of(c, element(x, at));
}

void random_node_reference(random_case *c) {
    const qb_problem *p = &c->problem;
    size_t size = qb_dtype_size(p->out.dtype);
    if (p->kind == QB_KIND_LAYER_NORM) {
        layer_norm(c);
        return;
    }
    if (p->kind == QB_KIND_GROUP_NORM) {
        group_norm(c);
        return;
    }
    if (p->kind == QB_KIND_REDUCE) {
        reduce(c);
        return;
    }
    if (elsewhere[p->kind].reference) {
        elsewhere[p->kind].reference(c);
        return;
    }
    for (int64_t i = 0, n = qb_shape_count(&p->out.shape); i < n; i++) {
        int64_t out[QB_MAX_RANK];
        coordinates(&p->out.shape, i, out);
        if (p->kind == QB_KIND_RESIZE) {
            put(c, i, resized(c, out));
            continue;
        }
        if (p->kind == QB_KIND_PAD) {
            put(c, i, padded(c, out));
            continue;
        }
        int64_t from = p->strided.offset;
        for (int32_t d = 0; d < p->strided.rank; d++) from += out[d] * p->strided.stride[d];
        if (p->out.dtype == c->in[0].dtype && p->out.q.scale == c->in[0].q.scale)
            memcpy((char *)c->expected + (size_t)i * size,
                   (const char *)c->data[0] + (size_t)from * size, size);
        else
            put(c, i, float_of(c, from));
    }
}
