/* Attention without the copies around it: what splits heads apart, turns them and joins them again
 * are strides to its kernels. */
#include <string.h>

#include "graph/fusion_views.h"
#include "kernels/heads.h"

enum { PARTS = 3, OUT = PARTS };

typedef struct heads {
    qb_fusing *m;
    qb_group group;        /* as it is so far */
    qb_attention plain;    /* heads as the node's own tensors have them */
    qb_attention views;    /* the same as they lie */
    int32_t in[PARTS + 1]; /* the mask behind the three */
    int64_t n_heads;
} heads;

static void dims_of(const heads *h, int32_t which, int64_t dim[4]) {
    const qb_attention *a = &h->plain;
    const bool queries = which == 0 || which == OUT, values = which == 2 || which == OUT;
    dim[0] = a->batch;
    dim[1] = h->n_heads;
    dim[2] = queries ? a->rows : a->keys;
    dim[3] = values ? a->value_size : a->size;
}

static bool is_accepted(const heads *h) {
    qb_ctx quiet = {0};
    qb_desc in[QB_MAX_INPUTS];
    qb_problem p;
    return qb_group_problem(&quiet, h->m->graph, &h->group, in, &p) == QB_OK &&
           h->m->accept(h->m->user, &p);
}

/* The longest row of copies in front of queries, keys or values that leaves heads. */
static void fuse_input(heads *h, int32_t i) {
    const int32_t value = h->in[i];
    const qb_heads before = h->views.in[i];
    const qb_shape *shape = &h->m->graph->values[value].shape;
    qb_row row = {.past = -1,
                  .from = value,
                  .strided = qb_strided_all(qb_shape_count(shape)),
                  .converts = true /* no more */};
    qb_row taken = row;
    qb_heads found = before;
    int64_t dim[4];
    dims_of(h, i, dim);
    while (qb_row_extend(h->m, &row, false)) {
        h->in[i] = row.from;
        if (!row.copies || !qb_heads_before(&row.strided, &h->plain.in[i], dim, &h->views.in[i]) ||
            !is_accepted(h))
            continue;
        taken = row;
        found = h->views.in[i];
    }
    qb_row_take(h->m, &taken, 0);
    h->in[i] = taken.from;
    h->views.in[i] = found;
}

/* The group that alone reads the result; NULL: there are several, or others. */
static qb_group *reader_of(const heads *h, int32_t g) {
    const qb_fusing *m = h->m;
    const int32_t out = h->group.out;
    const int32_t node = qb_uses_sole_user(m->graph, &m->uses, out);
    if (node < 0 || m->graph->values[out].kept) return NULL;
    while (++g < m->groups->n) {
        qb_group *group = &m->groups->group[g];
        for (int32_t i = 0; i < group->n_nodes; i++)
            if (group->node[i] == node) return i == 0 ? group : NULL;
    }
    return NULL;
}

static void fuse_output(heads *h, int32_t g) {
    qb_group *copy = reader_of(h, g);
    const int32_t value = h->group.out;
    const qb_heads before = h->views.out;
    qb_strided moved;
    int64_t dim[4];
    if (!copy) return;
    /* one that quantizes on its way may do so here; what is quantized already would not be rounded
     */
    const bool same = qb_group_strided(h->m->graph, copy, &moved);
    if (!same && (!copy->strided || h->m->graph->values[value].q.n > 0)) return;
    if (!copy->strided && qb_node_is_view(&h->m->graph->nodes[copy->node[0]])) return;
    dims_of(h, OUT, dim);
    h->group.out = copy->out;
    if (qb_heads_behind(&moved, &h->plain.out, dim, &h->views.out) && is_accepted(h)) {
        *copy = (qb_group){.out = copy->out};
        return;
    }
    h->group.out = value;
    h->views.out = before;
}

qb_status qb_fuse_heads(qb_fusing *m, int32_t g) {
    qb_group *group = &m->groups->group[g];
    qb_desc in[QB_MAX_INPUTS];
    qb_problem p;
    heads h = {.m = m, .group = *group};
    if (!qb_node_problem(m->graph, &m->graph->nodes[group->node[0]], in, &p) ||
        !qb_attention_of(&p, &h.plain))
        return QB_OK;
    h.n_heads = p.group;
    h.views = h.plain;
    for (int32_t i = 0; i < p.n_in; i++) h.in[i] = group->in[i];
    h.group.kind = QB_KIND_ATTENTION;
    h.group.in = h.in;
    h.group.n_in = p.n_in;
    h.group.views = &h.views;
    if (!is_accepted(&h)) return QB_OK;
    for (int32_t i = 0; i < PARTS; i++) fuse_input(&h, i);
    fuse_output(&h, g);
    if (h.group.out == group->out && memcmp(h.in, group->in, PARTS * sizeof *h.in) == 0)
        return QB_OK;
    int32_t *kept = qb_arena_alloc(m->cx, m->groups->arena, (size_t)p.n_in, sizeof *kept);
    qb_attention *views = qb_arena_alloc(m->cx, m->groups->arena, 1, sizeof *views);
    if (!kept || !views) return m->cx->code;
    for (int32_t i = 0; i < p.n_in; i++) kept[i] = h.in[i];
    *views = h.views;
    *group = h.group;
    group->in = kept;
    group->views = views;
    m->maker[group->out] = g;
    return QB_OK;
}
