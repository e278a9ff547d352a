/* Reading and writing at computed places: GatherElements, GatherND, ScatterElements, Scatter,
 * ScatterND, OneHot. */
#include <math.h>

#include "kernels/places.h"
#include "ops_internal.h"

typedef struct scatter_attrs {
    int64_t axis, batch_dims;
    const char *reduction;
} scatter_attrs;

QB_ATTRS(axis_table, QB_A_INT(scatter_attrs, axis, "axis", 0, 0, 0));
QB_ATTRS(batch_table, QB_A_INT(scatter_attrs, batch_dims, "batch_dims", 0, 0, QB_MAX_RANK));
QB_ATTRS(elements_table, QB_A_INT(scatter_attrs, axis, "axis", 0, 0, 0),
         QB_A_STRING(scatter_attrs, reduction, "reduction", "none"));
QB_ATTRS(nd_table, QB_A_STRING(scatter_attrs, reduction, "reduction", "none"));

/* Index i of a dimension of this size; most are of 64 bits and in range. */
static inline qb_status index_of(qb_ctx *cx, const qb_tensor *index, int64_t i, int64_t size,
                                 int64_t *at) {
    if (index->desc.dtype == QB_DTYPE_S64) {
        const int64_t given = ((const int64_t *)index->data)[i],
                      k = given < 0 ? given + size : given;
        *at = k;
        if (k >= 0 && k < size) return QB_OK;
    }
    return qb_eval_index(cx, index, i, size, at);
}

/* Where the place of the walk begins. */
static inline qb_status begin_of(qb_ctx *cx, const qb_places *p, const qb_place *place,
                                 const qb_tensor *index, int64_t *begin) {
    *begin = place->base;
    for (int32_t k = 0; k < p->depth; k++) {
        int64_t at;
        QB_TRY(index_of(cx, index, place->tuple * p->depth + k, p->size[k], &at));
        *begin += at * p->stride[k];
    }
    return QB_OK;
}

qb_status qb_eval_gathered(qb_ctx *cx, const qb_node *node, const qb_tensor *in, qb_tensor *out) {
    qb_places p;
    int64_t begin;
    const qb_dtype type = in[1].desc.dtype;
    if (type != QB_DTYPE_S64 && type != QB_DTYPE_S32) return qb_eval_refuse(cx, node, type);
    QB_TRY(node->op->places(cx, node, in, &p));
    const size_t size = qb_dtype_size(in[0].desc.dtype), bytes = (size_t)p.run * size;
    const int64_t n = bytes > 0 ? qb_places_count(&p) : 0;
    qb_place place = {0};
    for (int64_t i = 0; i < n; i++, qb_places_next(&p, &place, 1)) {
        QB_TRY(begin_of(cx, &p, &place, &in[1], &begin));
        memcpy((char *)out[0].data + (size_t)i * bytes,
               (const char *)in[0].data + (size_t)begin * size, bytes);
    }
    return QB_OK;
}

/* Same rank, and no dimension beside the axis larger than the data's. */
static qb_status check_elements(qb_ctx *cx, const qb_infer_args *args) {
    const scatter_attrs *attrs = qb_infer_at(args)->attrs;
    const qb_value *x = qb_infer_in(args, 0), *index = qb_infer_in(args, 1);
    int32_t axis;
    if (x->shape.rank < 0 || index->shape.rank < 0) return QB_OK;
    QB_TRY(qb_axis_resolve(cx, attrs->axis, x->shape.rank, &axis));
    QB_TRY(qb_infer_rank(cx, args, 1, x->shape.rank, x->shape.rank));
    for (int32_t d = 0; d < x->shape.rank; d++)
        if (d != axis && x->shape.dim[d] >= 0 && index->shape.dim[d] > x->shape.dim[d])
            return qb_fail(cx, QB_STATUS_INVALID,
                           "indices: dimension %d: expected at most %lld, "
                           "got %lld",
                           d, (long long)x->shape.dim[d], (long long)index->shape.dim[d]);
    return QB_OK;
}

static qb_status infer_gather_elements(qb_ctx *cx, const qb_infer_args *args) {
    QB_TRY(check_elements(cx, args));
    return qb_infer_set(cx, args, 0, qb_infer_in(args, 0)->dtype, &qb_infer_in(args, 1)->shape);
}

static qb_status places_elements(qb_ctx *cx, const qb_node *node, const qb_tensor *in,
                                 qb_places *out) {
    const scatter_attrs *attrs = node->attrs;
    const qb_shape *x = &in[0].desc.shape, *index = &in[1].desc.shape;
    int32_t axis;
    QB_TRY(qb_axis_resolve(cx, attrs->axis, x->rank, &axis));
    *out = (qb_places){.rank = x->rank, .depth = 1, .size = {x->dim[axis]}, .run = 1};
    qb_strides_of(x, out->along);
    qb_strides_of(index, out->named);
    out->stride[0] = out->along[axis];
    out->along[axis] = 0;
    for (int32_t d = 0; d < x->rank; d++) out->dim[d] = index->dim[d];
    return QB_OK;
}

QB_OP_SIMPLE(gather_elements, "GatherElements", 11, 2, 2, 1, sizeof(scatter_attrs), axis_table,
             SAME_SCALE, infer_gather_elements, qb_eval_gathered, .places = places_elements,
             .traits = QB_TRAIT_ITEMWISE, .kernel = {QB_KIND_GATHER});

/* --- GatherND -------------------------------------------------------------------------------- */

static qb_status infer_gather_nd(qb_ctx *cx, const qb_infer_args *args) {
    const scatter_attrs *attrs = qb_infer_at(args)->attrs;
    const qb_value *x = qb_infer_in(args, 0), *index = qb_infer_in(args, 1);
    qb_shape out = {.rank = -1};
    int32_t rank = x->shape.rank, last = index->shape.rank - 1, batch = (int32_t)attrs->batch_dims;
    if (rank < 0 || last < -1) return qb_infer_set(cx, args, 0, x->dtype, &out);
    QB_TRY(qb_infer_rank(cx, args, 0, 1, QB_MAX_RANK));
    QB_TRY(qb_infer_rank(cx, args, 1, 1, QB_MAX_RANK));
    int64_t depth = index->shape.dim[last];
    if (depth < 0) return qb_infer_set(cx, args, 0, x->dtype, &out);
    if (batch > last || depth < 1 || depth > rank - batch)
        return qb_fail(cx, QB_STATUS_INVALID, "indices: expected tuples of 1 to %d, got %lld",
                       rank - batch, (long long)depth);
    out.rank = last + rank - batch - (int32_t)depth;
    if (out.rank > QB_MAX_RANK) return qb_infer_set(cx, args, 0, x->dtype, &out);
    for (int32_t d = 0; d < batch; d++)
        if (x->shape.dim[d] >= 0 && index->shape.dim[d] >= 0 &&
            x->shape.dim[d] != index->shape.dim[d])
            return qb_fail(cx, QB_STATUS_INVALID, "batch dimension %d: expected %lld, got %lld", d,
                           (long long)x->shape.dim[d], (long long)index->shape.dim[d]);
    int32_t to = 0;
    for (int32_t d = 0; d < last; d++) out.dim[to++] = index->shape.dim[d];
    for (int32_t d = batch + (int32_t)depth; d < rank; d++) out.dim[to++] = x->shape.dim[d];
    return qb_infer_set(cx, args, 0, x->dtype, &out);
}

/* Elements behind the indexed dimensions. */
static int64_t slice_size(const qb_shape *data, int64_t first) {
    int64_t n = 1;
    for (int64_t d = first; d < data->rank; d++) n *= data->dim[d];
    return n;
}

/* The leading dimensions are shared, `batch_dims` of them. */
static qb_status places_nd(qb_ctx *cx, const qb_node *node, const qb_tensor *in, qb_places *out) {
    const scatter_attrs *attrs = node->attrs;
    const qb_shape *x = &in[0].desc.shape, *index = &in[1].desc.shape;
    const int32_t batch = (int32_t)attrs->batch_dims;
    int64_t stride[QB_MAX_RANK];
    (void)cx;
    *out = (qb_places){.rank = index->rank - 1, .depth = (int32_t)index->dim[index->rank - 1]};
    qb_strides_of(x, stride);
    qb_strides_of(index, out->named);
    for (int32_t d = 0; d < out->rank; d++) {
        out->dim[d] = index->dim[d];
        out->named[d] /= out->depth;
        out->along[d] = d < batch ? stride[d] : 0;
    }
    for (int32_t k = 0; k < out->depth; k++) {
        out->size[k] = x->dim[batch + k];
        out->stride[k] = stride[batch + k];
    }
    out->run = slice_size(x, batch + out->depth);
    return QB_OK;
}

QB_OP_SIMPLE(gather_nd, "GatherND", 11, 2, 2, 1, sizeof(scatter_attrs), batch_table, SAME_SCALE,
             infer_gather_nd, qb_eval_gathered, .places = places_nd, .kernel = {QB_KIND_GATHER});

/* --- scatter --------------------------------------------------------------------------------- */

qb_status qb_scatter_reduction(qb_ctx *cx, const char *what, qb_reduce_kind *out) {
    static const struct {
        const char *name;
        qb_reduce_kind kind;
    } known[] = {{"none", QB_REDUCE_NONE},
                 {"add", QB_REDUCE_SUM},
                 {"mul", QB_REDUCE_PROD},
                 {"max", QB_REDUCE_MAX},
                 {"min", QB_REDUCE_MIN}};
    *out = QB_REDUCE_NONE;
    if (!what) return QB_OK;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].name, what) == 0) {
            *out = known[i].kind;
            return QB_OK;
        }
    return qb_fail(cx, QB_STATUS_INVALID,
                   "attribute reduction: expected none, add, mul, max or min, got '%s'", what);
}

static double reduce_number(qb_reduce_kind how, double a, double b) {
    switch (how) {
    case QB_REDUCE_SUM: return a + b;
    case QB_REDUCE_PROD: return a * b;
    case QB_REDUCE_MAX: return isnan(a) || a > b ? a : b;
    case QB_REDUCE_MIN: return isnan(a) || a < b ? a : b;
    default: return b;
    }
}

static uint64_t reduce_integer(qb_reduce_kind how, bool is_unsigned, uint64_t a, uint64_t b) {
    bool less = is_unsigned ? a < b : (int64_t)a < (int64_t)b;
    switch (how) {
    case QB_REDUCE_SUM: return a + b;
    case QB_REDUCE_PROD: return a * b;
    case QB_REDUCE_MAX: return less ? b : a;
    case QB_REDUCE_MIN: return less ? a : b;
    default: return b;
    }
}

/* to[at ...] = to[at ...] reduced with from[first ...], n elements */
static void scatter_run(qb_dtype dtype, qb_reduce_kind how, void *to, int64_t at, const void *from,
                        int64_t first, int64_t n) {
    size_t size = qb_dtype_size(dtype);
    if (how == QB_REDUCE_NONE) {
        memcpy((char *)to + (size_t)at * size, (const char *)from + (size_t)first * size,
               (size_t)n * size);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        if (qb_dtype_is_float(dtype))
            qb_number_put(dtype, to, at + i,
                          reduce_number(how, qb_number_get(dtype, to, at + i),
                                        qb_number_get(dtype, from, first + i)));
        else
            qb_integer_put(dtype, to, at + i,
                           reduce_integer(how, dtype == QB_DTYPE_U64,
                                          qb_integer_get(dtype, to, at + i),
                                          qb_integer_get(dtype, from, first + i)));
    }
}

static qb_status reduction_of(qb_ctx *cx, const qb_node *node, qb_reduce_kind *out) {
    return qb_scatter_reduction(cx, ((const scatter_attrs *)node->attrs)->reduction, out);
}

static qb_status infer_scatter_elements(qb_ctx *cx, const qb_infer_args *args) {
    const qb_value *index = qb_infer_in(args, 1), *updates = qb_infer_in(args, 2);
    qb_reduce_kind how;
    QB_TRY(reduction_of(cx, qb_infer_at(args), &how));
    QB_TRY(check_elements(cx, args));
    QB_TRY(qb_infer_same_type(cx, args, 2));
    if (qb_shape_known(&index->shape) && qb_shape_known(&updates->shape) &&
        !qb_shape_equal(&index->shape, &updates->shape))
        return qb_fail(cx, QB_STATUS_INVALID, "updates: expected the shape of the indices");
    return qb_infer_same(cx, args);
}

qb_status qb_eval_scattered(qb_ctx *cx, const qb_node *node, const qb_tensor *in, qb_tensor *out) {
    qb_places p;
    qb_reduce_kind how;
    int64_t begin;
    QB_TRY(reduction_of(cx, node, &how));
    QB_TRY(node->op->places(cx, node, in, &p));
    QB_TRY(qb_eval_same_bytes(cx, node, in, out));
    const int64_t n = qb_places_count(&p);
    qb_place place = {0};
    for (int64_t i = 0; i < n; i++, qb_places_next(&p, &place, 1)) {
        QB_TRY(begin_of(cx, &p, &place, &in[1], &begin));
        scatter_run(in[0].desc.dtype, how, out[0].data, begin, in[2].data, i * p.run, p.run);
    }
    return QB_OK;
}

QB_OP_SIMPLE(scatter, "Scatter", 9, 3, 3, 1, sizeof(scatter_attrs), axis_table, FLOAT,
             infer_scatter_elements, qb_eval_scattered, .places = places_elements,
             .kernel = {QB_KIND_SCATTER});
QB_OP_SIMPLE(scatter_elements, "ScatterElements", 11, 3, 3, 1, sizeof(scatter_attrs),
             elements_table, FLOAT, infer_scatter_elements, qb_eval_scattered,
             .places = places_elements, .kernel = {QB_KIND_SCATTER});

static qb_status infer_scatter_nd(qb_ctx *cx, const qb_infer_args *args) {
    const qb_shape *x = &qb_infer_in(args, 0)->shape, *index = &qb_infer_in(args, 1)->shape;
    const qb_shape *updates = &qb_infer_in(args, 2)->shape;
    qb_reduce_kind how;
    QB_TRY(reduction_of(cx, qb_infer_at(args), &how));
    QB_TRY(qb_infer_same_type(cx, args, 2));
    QB_TRY(qb_infer_rank(cx, args, 0, 1, QB_MAX_RANK));
    QB_TRY(qb_infer_rank(cx, args, 1, 1, QB_MAX_RANK));
    if (x->rank < 1 || index->rank < 1 || index->dim[index->rank - 1] < 0)
        return qb_infer_same(cx, args);
    int64_t depth = index->dim[index->rank - 1];
    if (depth < 1 || depth > x->rank)
        return qb_fail(cx, QB_STATUS_INVALID, "indices: expected tuples of 1 to %d, got %lld",
                       x->rank, (long long)depth);
    qb_shape wanted = {.rank = index->rank - 1 + x->rank - (int32_t)depth};
    if (wanted.rank > QB_MAX_RANK)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "updates: expected rank up to %d, got %d",
                       QB_MAX_RANK, wanted.rank);
    for (int32_t d = 0; d < wanted.rank; d++)
        wanted.dim[d] = d < index->rank - 1 ? index->dim[d] : x->dim[depth + d - (index->rank - 1)];
    if (qb_shape_known(&wanted) && qb_shape_known(updates) && !qb_shape_equal(&wanted, updates)) {
        char a[QB_TEXT_MAX], b[QB_TEXT_MAX];
        return qb_fail(cx, QB_STATUS_INVALID, "updates: expected shape %s, got %s",
                       qb_shape_text(&wanted, a, sizeof a), qb_shape_text(updates, b, sizeof b));
    }
    return qb_infer_same(cx, args);
}

QB_OP_SIMPLE(scatter_nd, "ScatterND", 11, 3, 3, 1, sizeof(scatter_attrs), nd_table, FLOAT,
             infer_scatter_nd, qb_eval_scattered, .places = places_nd, .kernel = {QB_KIND_SCATTER});

/* --- OneHot ---------------------------------------------------------------------------------- */

QB_ATTRS(one_hot_table, QB_A_INT(scatter_attrs, axis, "axis", -1, 0, 0));

static qb_status infer_one_hot(qb_ctx *cx, const qb_infer_args *args) {
    const scatter_attrs *attrs = qb_infer_at(args)->attrs;
    const qb_value *index = qb_infer_in(args, 0), *values = qb_infer_in(args, 2);
    qb_shape out = {.rank = -1};
    qb_tensor depth;
    QB_TRY(qb_infer_rank(cx, args, 1, 0, 1));
    QB_TRY(qb_infer_rank(cx, args, 2, 1, 1));
    int64_t n_values = qb_infer_length(args, 2);
    if (n_values >= 0 && n_values != 2)
        return qb_fail(cx, QB_STATUS_INVALID, "values: expected 2 elements, got %lld",
                       (long long)n_values);
    if (index->shape.rank >= 0 && index->shape.rank < QB_MAX_RANK) {
        int32_t axis;
        out.rank = index->shape.rank + 1;
        QB_TRY(qb_axis_resolve(cx, attrs->axis, out.rank, &axis));
        for (int32_t d = 0, from = 0; d < out.rank; d++)
            out.dim[d] = d == axis ? QB_DIM_UNKNOWN : index->shape.dim[from++];
        if (qb_infer_const(args, 1, &depth)) {
            double size = qb_shape_count(&depth.desc.shape) == 1
                              ? qb_number_get(depth.desc.dtype, depth.data, 0)
                              : -1.0;
            if (!(size >= 0.0 && size <= (double)QB_ATTR_BIG))
                return qb_fail(cx, QB_STATUS_INVALID, "depth: expected one number >= 0, got %g",
                               size);
            out.dim[axis] = (int64_t)size;
        }
    }
    return qb_infer_set(cx, args, 0, values->dtype, &out);
}

/* Indices outside [-depth, depth) leave their line off. */
static qb_status eval_one_hot(qb_ctx *cx, const qb_node *node, const qb_tensor *in,
                              qb_tensor *out) {
    const scatter_attrs *attrs = node->attrs;
    const qb_shape *shape = &out[0].desc.shape;
    size_t size = qb_dtype_size(in[2].desc.dtype);
    int32_t axis;
    QB_TRY(qb_axis_resolve(cx, attrs->axis, shape->rank, &axis));
    int64_t inner = slice_size(shape, axis + 1), depth = shape->dim[axis];
    int64_t n = qb_shape_count(&in[0].desc.shape);
    qb_copy_run(out[0].data, in[2].data, 0, qb_shape_count(shape), size);
    for (int64_t i = 0; i < n; i++) {
        double k = trunc(qb_number_get(in[0].desc.dtype, in[0].data, i));
        if (!(k >= -(double)depth && k < (double)depth)) continue;
        int64_t at = (int64_t)k < 0 ? (int64_t)k + depth : (int64_t)k;
        at = i / inner * depth * inner + at * inner + i % inner;
        memcpy((char *)out[0].data + (size_t)at * size, (const char *)in[2].data + size, size);
    }
    return QB_OK;
}

QB_OP_SIMPLE(one_hot, "OneHot", 9, 3, 3, 1, sizeof(scatter_attrs), one_hot_table, FLOAT,
             infer_one_hot, eval_one_hot, .bound = qb_bound_none);
