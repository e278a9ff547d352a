#include "kernels/heads.h"

#include <stdlib.h>

/* [N, tokens, heads size], or [N, heads, tokens, size]. */
static bool heads_of(const qb_desc *d, int64_t heads, int64_t *tokens, int64_t *size,
                     qb_heads *out) {
    const int64_t *dim = d->shape.dim;
    const bool joined = d->shape.rank == 3;
    if ((!joined && d->shape.rank != 4) || heads < 1) return false;
    if (joined ? dim[2] % heads != 0 : dim[1] != heads) return false;
    *tokens = dim[joined ? 1 : 2];
    *size = joined ? dim[2] / heads : dim[3];
    *out = (qb_heads){.inner = 1};
    out->stride[0] = heads * *tokens * *size;
    out->stride[2] = joined ? *size : *tokens * *size;
    out->stride[3] = joined ? heads * *size : *size;
    return true;
}

bool qb_attention_of(const qb_problem *p, qb_attention *out) {
    int64_t rows, keys, key_size, value_size;
    if (p->kind != QB_KIND_ATTENTION || p->n_in < 3 || p->n_in > 4) return false;
    if (p->has_views) {
        *out = p->views;
        return true;
    }
    *out = (qb_attention){.batch = p->out.shape.dim[0]};
    for (int32_t i = 0; i < 3; i++)
        if (p->in[i].shape.rank != p->out.shape.rank || p->in[i].shape.dim[0] != out->batch)
            return false;
    return heads_of(&p->in[0], p->group, &out->rows, &out->size, &out->in[0]) &&
           heads_of(&p->in[1], p->group, &out->keys, &key_size, &out->in[1]) &&
           heads_of(&p->in[2], p->group, &keys, &out->value_size, &out->in[2]) &&
           heads_of(&p->out, p->group, &rows, &value_size, &out->out) && out->size == key_size &&
           out->keys == keys && out->rows == rows && out->value_size == value_size;
}

bool qb_attention_mask(const qb_problem *p, const qb_attention *a, int64_t step[4]) {
    const qb_shape *mask = &p->in[3].shape;
    const int64_t full[4] = {a->batch, p->group, a->rows, a->keys};
    int64_t stride = 1;
    if (mask->rank > 4) return false;
    for (int32_t i = 0; i < 4; i++) step[i] = 0;
    for (int32_t i = mask->rank - 1; i >= 0; i--) {
        const int32_t to = i + 4 - mask->rank;
        if (mask->dim[i] != 1 && mask->dim[i] != full[to]) return false;
        step[to] = mask->dim[i] == 1 ? 0 : stride;
        stride *= mask->dim[i];
    }
    return true;
}

int64_t qb_token_at(const qb_heads *heads, int64_t item, int64_t head, int64_t token) {
    return heads->offset + item / heads->inner * heads->stride[0] +
           item % heads->inner * heads->stride[1] + head * heads->stride[2] +
           token * heads->stride[3];
}

/* A loop over n elements of the copy that are `step` apart, as one over what the copy reads. Those
 * of its loops that count through such elements have to follow each other in memory. */
static bool along(const qb_strided *s, int64_t step, int64_t n, int64_t *stride) {
    int64_t row = 1; /* elements of the copy in loops behind d */
    int32_t d = s->rank - 1;
    *stride = 0;
    if (n == 1) return true;
    for (; d >= 0 && row * s->dim[d] <= step; d--) row *= s->dim[d];
    if (d < 0 || step % row != 0) return false;
    *stride = step / row * s->stride[d];
    int64_t reach = row * s->dim[d];
    while (reach < n * step) {
        if (--d < 0 || reach % step != 0) return false;
        if (s->dim[d] > 1 && s->stride[d] != *stride * (reach / step)) return false;
        reach *= s->dim[d];
    }
    return true;
}

/* Items may be two loops. */
static bool items(const qb_strided *s, int64_t step, int64_t n, qb_heads *out) {
    out->inner = 1;
    out->stride[1] = 0;
    if (along(s, step, n, &out->stride[0])) return true;
    int64_t row = 1;
    for (int32_t d = s->rank - 1; d >= 0; d--) {
        const int64_t inner = (row *= s->dim[d]) / step;
        out->inner = inner;
        if (row % step == 0 && inner > 1 && inner < n && n % inner == 0 &&
            along(s, step, inner, &out->stride[1]) &&
            along(s, step * inner, n / inner, &out->stride[0]))
            return true;
    }
    return false;
}

bool qb_heads_before(const qb_strided *moved, const qb_heads *there, const int64_t dim[4],
                     qb_heads *out) {
    int64_t element;
    if (there->inner != 1 || there->offset != 0) return false;
    out->offset = moved->offset;
    return items(moved, there->stride[0], dim[0], out) &&
           along(moved, there->stride[2], dim[1], &out->stride[2]) &&
           along(moved, there->stride[3], dim[2], &out->stride[3]) &&
           along(moved, 1, dim[3], &element) && (dim[3] == 1 || element == 1);
}

typedef struct loop {
    int64_t n, from, to;
} loop;

static int by_source(const void *a, const void *b) {
    const loop *x = a, *y = b;
    return (x->from < y->from) - (x->from > y->from);
}

bool qb_heads_behind(const qb_strided *moved, const qb_heads *here, const int64_t dim[4],
                     qb_heads *out) {
    loop loops[QB_MAX_RANK];
    qb_strided back = {.offset = 0};
    int32_t n = 0;
    int64_t to = 1, from = 1;
    for (int32_t d = moved->rank - 1; d >= 0; d--) {
        if (moved->dim[d] > 1) loops[n++] = (loop){moved->dim[d], moved->stride[d], to};
        to *= moved->dim[d];
    }
    qsort(loops, (size_t)n, sizeof *loops, by_source);
    for (int32_t i = n - 1; i >= 0; i--) { /* each element once: loops nest in the source, too */
        if (loops[i].from != from) return false;
        from *= loops[i].n;
    }
    for (back.rank = 0; back.rank < n; back.rank++) {
        back.dim[back.rank] = loops[back.rank].n;
        back.stride[back.rank] = loops[back.rank].to;
    }
    return moved->offset == 0 && n > 0 && from == dim[0] * dim[1] * dim[2] * dim[3] &&
           qb_heads_before(&back, here, dim, out);
}
