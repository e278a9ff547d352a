#include "random_attention.h"

#include <math.h>
#include <stdlib.h>

#include "kernels/ref.h"

enum { QUERY, KEY, VALUE, MASK, RESULT };

static qb_shape heads_shape(bool joined, int64_t n, int64_t heads, int64_t tokens, int64_t size) {
    if (joined) return (qb_shape){.rank = 3, .dim = {n, tokens, heads * size}};
    return (qb_shape){.rank = 4, .dim = {n, heads, tokens, size}};
}

/* A tensor that has the heads anywhere: loops over items (perhaps two), heads and tokens in any
 * order, and `gap` elements that are no head's behind or before those of a token. */
static qb_shape scattered(qb_rng *rng, const int64_t of[4], int64_t gap, qb_heads *at) {
    at->inner = of[0] % 2 == 0 && random_chance(rng, 50) ? 2 : 1;
    const int64_t n[4] = {of[0] / at->inner, at->inner, of[1], of[2]};
    int order[4] = {0, 1, 2, 3};
    qb_shape shape = {.rank = 5};
    int64_t step = shape.dim[4] = of[3] + gap;
    for (int i = 3; i >= 0; i--) {
        const int64_t other = random_between(rng, 0, i);
        const int swapped = order[i];
        order[i] = order[other];
        order[other] = swapped;
        at->stride[order[i]] = step;
        step *= shape.dim[i] = n[order[i]];
    }
    at->offset = random_chance(rng, 50) ? gap : 0;
    return shape;
}

static void scatter(qb_rng *rng, int64_t step, qb_problem *p, qb_desc *in, const qb_shape *q,
                    const qb_shape *k, const qb_shape *v) {
    const int64_t *queries = q->dim, *keys = k->dim, *values = v->dim;
    const int64_t result[4] = {queries[0], queries[1], queries[2], values[3]};
    const int64_t *of[3] = {queries, keys, values};
    p->has_views = true;
    p->views = (qb_attention){.batch = queries[0],
                              .rows = queries[2],
                              .keys = keys[2],
                              .size = queries[3],
                              .value_size = values[3]};
    for (int i = 0; i < 3; i++)
        in[i].shape = scattered(rng, of[i], step * random_between(rng, 0, 2), &p->views.in[i]);
    p->out.shape = scattered(rng, result, 0, &p->views.out);
}

void random_attention_make(qb_rng *rng, random_case *c) {
    qb_problem *p = &c->problem;
    const bool joined = random_chance(rng, 40), views = !joined && random_chance(rng, 60);
    int64_t n = random_between(rng, 1, views ? 4 : 2), heads = random_between(rng, 1, 3);
    const int64_t step = random_chance(rng, 25) ? 2 : 8; /* heads on no multiple of 16 bytes */
    const int64_t most = (random_chance(rng, 70) ? 64 : 128) / step;
    const int64_t size = step * random_between(rng, 1, most);
    const int64_t value_size = random_chance(rng, 60) ? size : step * random_between(rng, 1, most);
    int64_t rows = random_between(rng, 1, 80),
            keys = random_between(rng, 1, random_chance(rng, 30) ? 260 : 150);
    if (random_chance(rng, 20)) keys = 64 * random_between(rng, 1, 2);
    p->group = heads;
    p->scale = (float)(1 / sqrt((double)size));
    p->n_in = random_chance(rng, 50) ? 4 : 3;
    for (int i = 0; i < p->n_in; i++) c->in[i].dtype = QB_DTYPE_F32;
    c->in[QUERY].shape = heads_shape(joined, n, heads, rows, size);
    c->in[KEY].shape = heads_shape(joined, n, heads, keys, size);
    c->in[VALUE].shape = heads_shape(joined, n, heads, keys, value_size);
    p->out.shape = heads_shape(joined, n, heads, rows, value_size);
    if (views) {
        const qb_shape q = c->in[QUERY].shape, k = c->in[KEY].shape, v = c->in[VALUE].shape;
        scatter(rng, step, p, c->in, &q, &k, &v);
    }
    if (p->n_in > MASK) {
        const int64_t full[4] = {n, heads, rows, keys};
        qb_shape mask = {.rank = (int32_t)random_between(rng, 1, 4)};
        for (int32_t d = 0; d < mask.rank; d++)
            mask.dim[d] = random_chance(rng, 60) ? full[d + 4 - mask.rank] : 1;
        c->in[MASK].shape = mask;
        c->constant[MASK] = random_chance(rng, 20);
    }
    p->out.dtype = QB_DTYPE_F32;
    if (random_chance(rng, 60)) return;
    p->out.dtype = random_chance(rng, 50) ? QB_DTYPE_U8 : QB_DTYPE_S8;
    c->scale[0] = 0.01f;
    c->zero[0] = (int32_t)random_between(rng, 0, 100);
    p->out.q = (qb_qparams){p->out.dtype, -1, 1, &c->scale[0], &c->zero[0]};
}

void random_attention_mask(qb_rng *rng, random_case *c) {
    if (c->problem.n_in <= MASK) return;
    float *mask = c->data[MASK];
    int64_t n = qb_shape_count(&c->in[MASK].shape), width;
    width = c->in[MASK].shape.dim[c->in[MASK].shape.rank - 1];
    for (int64_t i = 0; i < n; i++)
        if (random_chance(rng, 20)) mask[i] = -INFINITY;
    for (int64_t i = 0; i < width && random_chance(rng, 90); i++) mask[i] = -INFINITY;
}

/* The first element of a token of a head: of queries, keys, values or the result. */
static int64_t token_at(const qb_problem *p, int which, int64_t n, int64_t h, int64_t token) {
    const qb_shape *s = which == RESULT ? &p->out.shape : &p->in[which].shape;
    if (p->has_views) {
        const qb_heads *at = which == RESULT ? &p->views.out : &p->views.in[which];
        return at->offset + n / at->inner * at->stride[0] + n % at->inner * at->stride[1] +
               h * at->stride[2] + token * at->stride[3];
    }
    if (s->rank == 3) return (n * s->dim[1] + token) * s->dim[2] + h * (s->dim[2] / p->group);
    return ((n * s->dim[1] + h) * s->dim[2] + token) * s->dim[3];
}

/* Tokens, or elements of a head. */
static int64_t size_of(const qb_problem *p, int which, bool tokens) {
    const qb_shape *s = which == RESULT ? &p->out.shape : &p->in[which].shape;
    const bool keys = which == KEY || which == VALUE, values = which == VALUE || which == RESULT;
    if (p->has_views && tokens) return keys ? p->views.keys : p->views.rows;
    if (p->has_views) return values ? p->views.value_size : p->views.size;
    if (s->rank == 3) return tokens ? s->dim[1] : s->dim[2] / p->group;
    return s->dim[tokens ? 2 : 3];
}

static double mask_at(const random_case *c, int64_t n, int64_t h, int64_t i, int64_t j) {
    if (c->problem.n_in <= MASK) return 0;
    const qb_shape *s = &c->in[MASK].shape;
    const int64_t index[4] = {n, h, i, j};
    int64_t place = 0;
    for (int32_t d = 0; d < s->rank; d++)
        place = place * s->dim[d] + (s->dim[d] == 1 ? 0 : index[d + 4 - s->rank]);
    return (double)((const float *)c->data[MASK])[place];
}

static void attend(random_case *c, int64_t n, int64_t h, int64_t i, double *weight) {
    const qb_problem *p = &c->problem;
    const qb_desc *out = &p->out;
    const int64_t keys = size_of(p, KEY, true), size = size_of(p, QUERY, false);
    const float *q = (const float *)c->data[QUERY] + token_at(p, QUERY, n, h, i);
    double top = -INFINITY, sum = 0;
    for (int64_t j = 0; j < keys; j++) {
        const float *k = (const float *)c->data[KEY] + token_at(p, KEY, n, h, j);
        double score = 0;
        for (int64_t e = 0; e < size; e++) score += (double)q[e] * (double)k[e];
        weight[j] = score * (double)p->scale + mask_at(c, n, h, i, j);
        top = fmax(top, weight[j]);
    }
    for (int64_t j = 0; j < keys; j++) {
        weight[j] = top == -INFINITY ? 0 : exp(weight[j] - top);
        sum += weight[j];
    }
    for (int64_t e = 0; e < size_of(p, VALUE, false); e++) {
        double f32 = 0;
        for (int64_t j = 0; j < keys && sum > 0; j++) {
            const float *v = (const float *)c->data[VALUE] + token_at(p, VALUE, n, h, j);
            f32 += weight[j] / sum * (double)v[e];
        }
        if (out->q.n > 0)
            f32 = qb_quantize_value((float)f32, out->q.scale[0], out->q.zero[0], out->dtype);
        qb_number_put(out->dtype, c->expected, token_at(p, RESULT, n, h, i) + e, f32);
    }
}

void random_attention_reference(random_case *c) {
    const qb_problem *p = &c->problem;
    const int64_t items = p->has_views ? p->views.batch : p->out.shape.dim[0];
    double *weight = calloc((size_t)size_of(p, KEY, true), sizeof *weight);
    for (int64_t n = 0; weight && n < items; n++)
        for (int64_t h = 0; h < p->group; h++)
            for (int64_t i = 0; i < size_of(p, QUERY, true); i++) attend(c, n, h, i, weight);
    free(weight);
}
