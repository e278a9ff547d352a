#include "random_attention.h"

#include <math.h>
#include <stdlib.h>

#include "kernels/ref.h"

enum { QUERY, KEY, VALUE, MASK };

static qb_shape heads_shape(bool joined, int64_t n, int64_t heads, int64_t tokens, int64_t size) {
    if (joined) return (qb_shape){.rank = 3, .dim = {n, tokens, heads * size}};
    return (qb_shape){.rank = 4, .dim = {n, heads, tokens, size}};
}

void random_attention_make(qb_rng *rng, random_case *c) {
    qb_problem *p = &c->problem;
    bool joined = random_chance(rng, 50);
    int64_t n = random_between(rng, 1, 2), heads = random_between(rng, 1, 3);
    const int64_t step = random_chance(rng, 25) ? 2 : 8; /* heads on no multiple of 16 bytes */
    const int64_t most = (random_chance(rng, 70) ? 64 : 128) / step;
    const int64_t size = step * random_between(rng, 1, most);
    const bool packed = joined && random_chance(rng, 40);
    const int64_t value_size =
        packed || random_chance(rng, 60) ? size : step * random_between(rng, 1, most);
    int64_t rows = random_between(rng, 1, 80),
            keys = random_between(rng, 1, random_chance(rng, 30) ? 260 : 150);
    if (random_chance(rng, 20)) keys = 64 * random_between(rng, 1, 2);
    if (packed) rows = keys;
    p->group = heads;
    p->scale = (float)(1 / sqrt((double)size));
    p->n_in = random_chance(rng, 50) ? 4 : 3;
    for (int i = 0; i < p->n_in; i++) c->in[i].dtype = QB_DTYPE_F32;
    c->in[QUERY].shape = heads_shape(joined, n, heads, rows, size);
    c->in[KEY].shape = heads_shape(joined, n, heads, keys, size);
    c->in[VALUE].shape = heads_shape(joined, n, heads, keys, value_size);
    p->out.shape = heads_shape(joined, n, heads, rows, value_size);
    if (p->n_in > MASK) {
        const int64_t full[4] = {n, heads, rows, keys};
        qb_shape mask = {.rank = (int32_t)random_between(rng, 1, 4)};
        for (int32_t d = 0; d < mask.rank; d++)
            mask.dim[d] = random_chance(rng, 60) ? full[d + 4 - mask.rank] : 1;
        c->in[MASK].shape = mask;
        c->constant[MASK] = random_chance(rng, 20);
    }
    if (packed) { /* all three side by side */
        c->in[QUERY].shape.dim[2] *= 3;
        c->in[KEY].dtype = c->in[VALUE].dtype = QB_DTYPE_NONE;
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

/* Where element `k` of a token of a head lies. */
static int64_t at(const qb_shape *s, int64_t heads, int64_t n, int64_t h, int64_t token,
                  int64_t k) {
    if (s->rank == 3) return (n * s->dim[1] + token) * s->dim[2] + h * (s->dim[2] / heads) + k;
    return ((n * s->dim[1] + h) * s->dim[2] + token) * s->dim[3] + k;
}

static bool is_packed(const random_case *c) { return c->in[KEY].dtype == QB_DTYPE_NONE; }

/* The same of queries, keys or values: where they lie side by side, the heads of the one follow
 * those of the other. */
static double part_at(const random_case *c, int part, int64_t n, int64_t h, int64_t token,
                      int64_t k) {
    const int64_t heads = c->problem.group;
    const int from = is_packed(c) ? QUERY : part;
    const qb_shape *s = &c->in[from].shape;
    const float *data = c->data[from];
    return (double)(is_packed(c) ? data[at(s, 3 * heads, n, part * heads + h, token, k)]
                                 : data[at(s, heads, n, h, token, k)]);
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
    const qb_shape *k = &c->in[is_packed(c) ? QUERY : KEY].shape;
    bool joined = out->shape.rank == 3;
    int64_t heads = p->group, keys = k->dim[joined ? 1 : 2];
    const int64_t value_size = out->shape.dim[joined ? 2 : 3] / (joined ? heads : 1);
    const int64_t size =
        c->in[QUERY].shape.dim[joined ? 2 : 3] / ((joined ? heads : 1) * (is_packed(c) ? 3 : 1));
    double top = -INFINITY, sum = 0;
    for (int64_t j = 0; j < keys; j++) {
        double score = 0;
        for (int64_t e = 0; e < size; e++)
            score += part_at(c, QUERY, n, h, i, e) * part_at(c, KEY, n, h, j, e);
        weight[j] = score * (double)p->scale + mask_at(c, n, h, i, j);
        top = fmax(top, weight[j]);
    }
    for (int64_t j = 0; j < keys; j++) {
        weight[j] = top == -INFINITY ? 0 : exp(weight[j] - top);
        sum += weight[j];
    }
    for (int64_t e = 0; e < value_size; e++) {
        double f32 = 0;
        for (int64_t j = 0; j < keys && sum > 0; j++)
            f32 += weight[j] / sum * part_at(c, VALUE, n, h, j, e);
        if (out->q.n > 0)
            f32 = qb_quantize_value((float)f32, out->q.scale[0], out->q.zero[0], out->dtype);
        qb_number_put(out->dtype, c->expected, at(&out->shape, heads, n, h, i, e), f32);
    }
}

void random_attention_reference(random_case *c) {
    const qb_shape *q = &c->problem.out.shape, *k = &c->in[is_packed(c) ? QUERY : KEY].shape;
    int64_t rows = q->dim[q->rank == 3 ? 1 : 2], keys = k->dim[k->rank == 3 ? 1 : 2];
    double *weight = calloc((size_t)keys, sizeof *weight);
    for (int64_t n = 0; weight && n < q->dim[0]; n++)
        for (int64_t h = 0; h < c->problem.group; h++)
            for (int64_t i = 0; i < rows; i++) attend(c, n, h, i, weight);
    free(weight);
}
