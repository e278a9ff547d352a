/* Unique and Compress: what is chosen by its values, so that the output's size follows from them.
 */
#include "ops_internal.h"

#define FLAT INT64_MIN /* no axis: the elements in row-major order */

typedef struct choose_attrs {
    int64_t axis, sorted;
} choose_attrs;
QB_ATTRS(compress_table, QB_A_INT(choose_attrs, axis, "axis", FLAT, 0, 0));
QB_ATTRS(unique_table, QB_A_INT(choose_attrs, axis, "axis", FLAT, 0, 0),
         QB_A_INT(choose_attrs, sorted, "sorted", 1, 0, 1));

/* A tensor as n slices: slice i holds the elements (k / inner * n + i) * inner + k % inner. */
typedef struct slices {
    qb_dtype dtype;
    const void *data;
    int64_t outer, n, inner;
} slices;

static qb_status slices_of(qb_ctx *cx, const qb_tensor *x, int64_t axis, slices *s) {
    const qb_shape *shape = &x->desc.shape;
    *s = (slices){x->desc.dtype, x->data, 1, qb_shape_count(shape), 1};
    if (axis == FLAT) return QB_OK;
    int32_t at;
    QB_TRY(qb_axis_resolve(cx, axis, shape->rank, &at));
    s->outer = qb_shape_span(shape, 0, at);
    s->n = shape->dim[at];
    s->inner = qb_shape_span(shape, at + 1, shape->rank);
    return QB_OK;
}

/* The slices `index` of s, one after the other along the axis. */
static void copy_slices(const slices *s, const int64_t *index, int64_t n, void *to) {
    const size_t bytes = (size_t)s->inner * qb_dtype_size(s->dtype);
    char *at = to;
    for (int64_t o = 0; o < s->outer && bytes > 0; o++)
        for (int64_t i = 0; i < n; i++, at += bytes)
            memcpy(at, (const char *)s->data + (size_t)(o * s->n + index[i]) * bytes, bytes);
}

/* Rank and known sizes of output 0, whose axis has `n` slices. */
static qb_status infer_chosen(qb_ctx *cx, const qb_infer_args *args, int64_t n) {
    const choose_attrs *attrs = qb_infer_at(args)->attrs;
    const qb_value *x = qb_infer_in(args, 0);
    qb_shape out = x->shape;
    int32_t axis = 0;
    if (attrs->axis == FLAT)
        out.rank = 1;
    else if (out.rank >= 0)
        QB_TRY(qb_axis_resolve(cx, attrs->axis, out.rank, &axis));
    if (out.rank > 0) out.dim[axis] = n;
    return qb_infer_set(cx, args, 0, x->dtype, &out);
}

/* --- Compress -------------------------------------------------------------------------------- */

/* The places of `condition` that hold, of `n` at most; index may be NULL. */
static int64_t find_true(const qb_tensor *condition, int64_t n, int64_t *index) {
    int64_t found = 0, given = qb_shape_count(&condition->desc.shape);
    for (int64_t i = 0; i < given && i < n; i++) {
        if (!qb_integer_get(QB_DTYPE_BOOL, condition->data, i)) continue;
        if (index) index[found] = i;
        found++;
    }
    return found;
}

static qb_status infer_compress(qb_ctx *cx, const qb_infer_args *args) {
    const choose_attrs *attrs = qb_infer_at(args)->attrs;
    const qb_value *x = qb_infer_in(args, 0), *condition = qb_infer_in(args, 1);
    qb_tensor constant;
    int64_t n = QB_DIM_UNKNOWN;
    if (condition->dtype != QB_DTYPE_NONE && condition->dtype != QB_DTYPE_BOOL)
        return qb_fail(cx, QB_STATUS_INVALID, "condition: expected type bool, got %s",
                       qb_dtype_text(condition->dtype));
    QB_TRY(qb_infer_rank(cx, args, 1, 1, 1));
    if (qb_infer_const(args, 1, &constant) && qb_shape_known(&x->shape)) {
        slices s;
        const qb_tensor like = qb_tensor_of(x->dtype, x->shape, NULL);
        QB_TRY(slices_of(cx, &like, attrs->axis, &s));
        n = find_true(&constant, s.n, NULL);
    }
    return infer_chosen(cx, args, n);
}

/* All slices. */
static qb_status bound_compress(qb_ctx *cx, const qb_infer_args *args) {
    const choose_attrs *attrs = qb_infer_at(args)->attrs;
    const qb_value *x = qb_infer_in(args, 0);
    slices s;
    const qb_tensor like = qb_tensor_of(x->dtype, x->shape, NULL);
    QB_TRY(slices_of(cx, &like, attrs->axis, &s));
    return infer_chosen(cx, args, s.n);
}

static qb_status eval_compress(qb_ctx *cx, const qb_node *node, const qb_tensor *in,
                               qb_tensor *out) {
    const choose_attrs *attrs = node->attrs;
    slices s;
    QB_TRY(slices_of(cx, &in[0], attrs->axis, &s));
    QB_RELEASED(qb_temp_give_at) int64_t *index = qb_temp_take(cx, (size_t)s.n, sizeof *index);
    if (!index) return cx->code;
    copy_slices(&s, index, find_true(&in[1], s.n, index), out[0].data);
    return QB_OK;
}

QB_OP_SIMPLE(compress, "Compress", 9, 2, 2, 1, sizeof(choose_attrs), compress_table, FLOAT,
             infer_compress, eval_compress, .bound = bound_compress);

/* --- Unique ---------------------------------------------------------------------------------- */

static int compare(const slices *s, int64_t i, int64_t j) {
    for (int64_t k = 0; k < s->outer * s->inner; k++) {
        const int64_t first = k / s->inner * s->n * s->inner + k % s->inner;
        const int sign =
            qb_element_order(s->dtype, s->data, first + i * s->inner, first + j * s->inner);
        if (sign != 0) return sign;
    }
    return 0;
}

static bool slice_before(const void *what, int64_t i, int64_t j) { return compare(what, i, j) < 0; }
static bool place_before(const void *what, int64_t i, int64_t j) {
    const int64_t *place = what;
    return place[i] < place[j];
}

/* Equal slices as groups. All lists have room for all slices. */
typedef struct groups {
    int64_t n;
    int64_t *order; /* the slices, sorted */
    int64_t *first; /* of each group, the slice that comes first in the tensor */
    int64_t *count; /* its slices */
    int64_t *of;    /* the group of each slice */
    int64_t *rank;  /* the groups in the order of the output */
    int64_t *scratch;
} groups;

static qb_status group(qb_ctx *cx, const slices *s, bool sorted, groups *g) {
    const size_t n = (size_t)s->n;
    *g = (groups){0};
    QB_TRY_NEW(cx, g->order = qb_temp_take(cx, 6 * n, sizeof *g->order));
    g->first = g->order + n, g->count = g->first + n, g->of = g->count + n, g->rank = g->of + n;
    g->scratch = g->rank + n;
    for (int64_t i = 0; i < s->n; i++) g->order[i] = i;
    qb_sort_indices(s, slice_before, g->order, g->scratch, s->n);
    for (int64_t i = 0; i < s->n; i++) {
        const int64_t at = g->order[i];
        if (i == 0 || compare(s, g->order[i - 1], at) != 0) g->first[g->n++] = at;
        g->count[g->n - 1]++;
        g->of[at] = g->n - 1;
    }
    for (int64_t i = 0; i < g->n; i++) g->rank[i] = i;
    if (!sorted) qb_sort_indices(g->first, place_before, g->rank, g->scratch, g->n);
    return QB_OK;
}

static void groups_release(groups *g) { qb_temp_give(g->order); }

static qb_status infer_unique(qb_ctx *cx, const qb_infer_args *args) {
    const choose_attrs *attrs = qb_infer_at(args)->attrs;
    const qb_value *x = qb_infer_in(args, 0);
    qb_shape list = qb_shape_unknown(1);
    qb_tensor constant;
    slices s;
    if (qb_infer_const(args, 0, &constant)) {
        groups g;
        QB_TRY(slices_of(cx, &constant, attrs->axis, &s));
        QB_TRY(group(cx, &s, true, &g));
        list.dim[0] = g.n;
        groups_release(&g);
    }
    QB_TRY(infer_chosen(cx, args, list.dim[0]));
    QB_TRY(qb_infer_set(cx, args, 1, QB_DTYPE_S64, &list));
    QB_TRY(qb_infer_set(cx, args, 3, QB_DTYPE_S64, &list));
    list.dim[0] = QB_DIM_UNKNOWN;
    if (qb_shape_known(&x->shape)) {
        const qb_tensor like = qb_tensor_of(x->dtype, x->shape, NULL);
        QB_TRY(slices_of(cx, &like, attrs->axis, &s));
        list.dim[0] = s.n;
    }
    return qb_infer_set(cx, args, 2, QB_DTYPE_S64, &list);
}

static qb_status eval_unique(qb_ctx *cx, const qb_node *node, const qb_tensor *in, qb_tensor *out) {
    const choose_attrs *attrs = node->attrs;
    slices s;
    QB_RELEASED(groups_release) groups g = {0};
    QB_TRY(slices_of(cx, &in[0], attrs->axis, &s));
    QB_TRY(group(cx, &s, attrs->sorted != 0, &g));
    int64_t *lists[4] = {0}; /* the outputs beside the slices themselves */
    for (int32_t i = 1; i < node->n_out; i++) lists[i] = node->out[i] >= 0 ? out[i].data : NULL;
    for (int64_t i = 0; i < g.n; i++) { /* from here on `scratch` says where a group went */
        g.scratch[g.rank[i]] = i;
        g.order[i] = g.first[g.rank[i]];
        if (lists[1]) lists[1][i] = g.order[i];
        if (lists[3]) lists[3][i] = g.count[g.rank[i]];
    }
    for (int64_t i = 0; i < s.n && lists[2]; i++) lists[2][i] = g.scratch[g.of[i]];
    copy_slices(&s, g.order, g.n, out[0].data);
    return QB_OK;
}

QB_OP_SIMPLE(unique, "Unique", 11, 1, 1, 4, sizeof(choose_attrs), unique_table, FLOAT, infer_unique,
             eval_unique, .types = QB_TYPES_NUMBERS ", bool");
