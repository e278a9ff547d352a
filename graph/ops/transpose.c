/* Operators that move elements: Transpose, Slice, Expand, Tile, DepthToSpace, SpaceToDepth. */
#include "ops_internal.h"

/* --- Transpose -------------------------------------------------------------------------------- */

QB_ATTRS(perm_attrs, QB_A_INTS(qb_perm_attrs, perm, "perm", 0, QB_MAX_RANK - 1));

/* perm[d]: which input dimension becomes dimension d. */
static qb_status permutation(qb_ctx *cx, const qb_ints *perm, int32_t rank, int32_t *out) {
    uint32_t seen = 0;
    if (perm->n != 0 && perm->n != rank)
        return qb_fail(cx, QB_STATUS_INVALID, "attribute perm: expected %d values, got %d", rank,
                       perm->n);
    for (int32_t d = 0; d < rank; d++) {
        int64_t from = perm->n ? perm->v[d] : rank - 1 - d;
        if (from < 0 || from >= rank || seen >> from & 1u)
            return qb_fail(cx, QB_STATUS_INVALID,
                           "attribute perm: expected a permutation of 0 to %d, got %lld at %d",
                           rank - 1, (long long)from, d);
        seen |= 1u << from;
        out[d] = (int32_t)from;
    }
    return QB_OK;
}

static qb_status infer_transpose(qb_ctx *cx, const qb_infer_args *args) {
    const qb_perm_attrs *attrs = qb_infer_at(args)->attrs;
    const qb_value *x = qb_infer_in(args, 0);
    int32_t perm[QB_MAX_RANK];
    qb_shape out = x->shape;
    if (out.rank >= 0) QB_TRY(permutation(cx, &attrs->perm, out.rank, perm));
    for (int32_t d = 0; d < out.rank; d++) out.dim[d] = x->shape.dim[perm[d]];
    return qb_infer_set(cx, args, 0, x->dtype, &out);
}

static qb_status strided_transpose(qb_ctx *cx, const qb_node *node, const qb_tensor *in,
                                   int32_t output, qb_strided *out) {
    const qb_perm_attrs *attrs = node->attrs;
    const qb_shape *x = &in[0].desc.shape;
    int32_t perm[QB_MAX_RANK];
    int64_t stride[QB_MAX_RANK];
    (void)output;
    QB_TRY(permutation(cx, &attrs->perm, x->rank, perm));
    qb_strides_of(x, stride);
    *out = (qb_strided){.rank = x->rank};
    for (int32_t d = 0; d < x->rank; d++) {
        out->dim[d] = x->dim[perm[d]];
        out->stride[d] = stride[perm[d]];
    }
    return QB_OK;
}

QB_OP_SIMPLE(transpose, "Transpose", 7, 1, 1, 1, sizeof(qb_perm_attrs), perm_attrs, SAME_SCALE,
             infer_transpose, qb_eval_strided, .strided = strided_transpose,
             .traits = QB_TRAIT_REORDER | QB_TRAIT_ITEMWISE, .kernel = {QB_KIND_STRIDED_COPY});

/* --- Slice ------------------------------------------------------------------------------------ */

typedef struct slice_attrs {
    qb_ints starts, ends, axes; /* before opset 10 */
} slice_attrs;
QB_ATTRS(slice_table, QB_A_OLD_INTS(slice_attrs, starts, "starts"),
         QB_A_OLD_INTS(slice_attrs, ends, "ends"), QB_A_OLD_INTS(slice_attrs, axes, "axes"));

/* The lists of a Slice; n < 0 when they are not all known. */
typedef struct slice_lists {
    int32_t n;
    int64_t start[QB_MAX_RANK], end[QB_MAX_RANK], axis[QB_MAX_RANK], step[QB_MAX_RANK];
} slice_lists;

/* First index, step and size along each dimension. */
typedef struct slice_plan {
    int64_t first[QB_MAX_RANK], step[QB_MAX_RANK], size[QB_MAX_RANK];
} slice_plan;

static int64_t clamp(int64_t v, int64_t low, int64_t high) {
    return v < low ? low : v > high ? high : v;
}

static qb_status plan_slice(qb_ctx *cx, const slice_lists *lists, const qb_shape *x,
                            slice_plan *plan) {
    uint32_t mask;
    QB_TRY(qb_axes_resolve(cx, lists->axis, lists->n, x->rank, &mask));
    for (int32_t d = 0; d < x->rank; d++) {
        plan->first[d] = 0, plan->step[d] = 1;
        plan->size[d] = x->dim[d];
    }
    for (int32_t i = 0; i < lists->n; i++) {
        int64_t axis = lists->axis[i] < 0 ? lists->axis[i] + x->rank : lists->axis[i];
        int64_t size = x->dim[axis], step = lists->step[i];
        int64_t start = lists->start[i], end = lists->end[i];
        if (step == 0)
            return qb_fail(cx, QB_STATUS_INVALID, "step along axis %lld: expected not 0, got 0",
                           (long long)axis);
        if (step == INT64_MIN) step++; /* as far: one element */
        plan->step[axis] = step;
        if (size < 0) { /* only the whole axis stays what it is */
            bool whole = step == 1 && start == 0 && end >= INT32_MAX;
            if (!whole) plan->size[axis] = QB_DIM_UNKNOWN;
            continue;
        }
        if (start < 0) start = start < -size ? -1 : start + size;
        if (end < 0) end = end < -size ? -1 : end + size;
        if (step > 0) {
            start = clamp(start, 0, size), end = clamp(end, 0, size);
            plan->size[axis] = end > start ? (end - start - 1) / step + 1 : 0;
        } else {
            start = clamp(start, size ? 0 : -1, size - 1), end = clamp(end, -1, size - 1);
            plan->size[axis] = start > end ? (start - end - 1) / -step + 1 : 0;
        }
        plan->first[axis] = plan->size[axis] > 0 ? start : 0;
    }
    return QB_OK;
}

/* Completes the lists: axes default to 0, 1, ..., steps to 1. */
static qb_status complete_lists(qb_ctx *cx, slice_lists *lists, int32_t n_end, int32_t n_axis,
                                int32_t n_step) {
    int32_t n = lists->n;
    if (n_end != n || (n_axis >= 0 && n_axis != n) || (n_step >= 0 && n_step != n))
        return qb_fail(cx, QB_STATUS_INVALID,
                       "expected as many ends, axes and steps as starts (%d), got %d, %d and %d", n,
                       n_end, n_axis, n_step);
    for (int32_t i = 0; i < n; i++) {
        if (n_axis < 0) lists->axis[i] = i;
        if (n_step < 0) lists->step[i] = 1;
    }
    return QB_OK;
}

static qb_status infer_slice(qb_ctx *cx, const qb_infer_args *args) {
    const qb_value *x = qb_infer_in(args, 0);
    slice_lists lists;
    int32_t n_end, n_axis, n_step;
    QB_TRY(qb_infer_ints(cx, args, 1, lists.start, QB_MAX_RANK, &lists.n));
    QB_TRY(qb_infer_ints(cx, args, 2, lists.end, QB_MAX_RANK, &n_end));
    QB_TRY(qb_infer_ints(cx, args, 3, lists.axis, QB_MAX_RANK, &n_axis));
    QB_TRY(qb_infer_ints(cx, args, 4, lists.step, QB_MAX_RANK, &n_step));
    bool known = lists.n >= 0 && n_end >= 0 && (n_axis >= 0 || !qb_infer_in(args, 3)) &&
                 (n_step >= 0 || !qb_infer_in(args, 4));
    qb_shape out = x->shape;
    if (out.rank >= 0 && known) {
        slice_plan plan;
        QB_TRY(complete_lists(cx, &lists, n_end, n_axis, n_step));
        QB_TRY(plan_slice(cx, &lists, &x->shape, &plan));
        memcpy(out.dim, plan.size, sizeof out.dim);
    } else if (out.rank >= 0) {
        out = qb_shape_unknown(out.rank);
    }
    return qb_infer_set(cx, args, 0, x->dtype, &out);
}

static qb_status strided_slice(qb_ctx *cx, const qb_node *node, const qb_tensor *in, int32_t output,
                               qb_strided *out) {
    const qb_shape *x = &in[0].desc.shape;
    slice_lists lists;
    slice_plan plan;
    int32_t n_end, n_axis = -1, n_step = -1;
    (void)output;
    QB_TRY(qb_eval_ints(cx, &in[1], lists.start, QB_MAX_RANK, &lists.n));
    QB_TRY(qb_eval_ints(cx, &in[2], lists.end, QB_MAX_RANK, &n_end));
    if (qb_eval_has(node, in, 3))
        QB_TRY(qb_eval_ints(cx, &in[3], lists.axis, QB_MAX_RANK, &n_axis));
    if (qb_eval_has(node, in, 4))
        QB_TRY(qb_eval_ints(cx, &in[4], lists.step, QB_MAX_RANK, &n_step));
    QB_TRY(complete_lists(cx, &lists, n_end, n_axis, n_step));
    QB_TRY(plan_slice(cx, &lists, x, &plan));
    *out = (qb_strided){.rank = x->rank};
    qb_strides_of(x, out->stride);
    for (int32_t d = 0; d < x->rank; d++) {
        out->dim[d] = plan.size[d];
        out->offset += plan.first[d] * out->stride[d];
        out->stride[d] *= plan.size[d] > 1 ? plan.step[d] : 1; /* one element: it may overflow */
    }
    return QB_OK;
}

static qb_status upgrade_slice(qb_ctx *cx, qb_graph *graph, int32_t node, int32_t version) {
    if (version >= 10) return QB_OK;
    slice_attrs *attrs = graph->nodes[node].attrs;
    int32_t starts, ends;
    QB_TRY(
        qb_node_const_ints(cx, graph, node, "starts", attrs->starts.v, attrs->starts.n, &starts));
    QB_TRY(qb_node_const_ints(cx, graph, node, "ends", attrs->ends.v, attrs->ends.n, &ends));
    QB_TRY(qb_node_input_set(cx, graph, node, 1, starts));
    QB_TRY(qb_node_input_set(cx, graph, node, 2, ends));
    attrs->starts = attrs->ends = (qb_ints){0};
    return qb_node_axes_to_input(cx, graph, node, &attrs->axes, 3);
}

QB_OP_SIMPLE(slice, "Slice", 7, 3, 5, 1, sizeof(slice_attrs), slice_table, SAME_SCALE, infer_slice,
             qb_eval_strided, .strided = strided_slice, .upgrade = upgrade_slice,
             .kernel = {QB_KIND_STRIDED_COPY});

/* --- Expand ----------------------------------------------------------------------------------- */

static qb_status infer_expand(qb_ctx *cx, const qb_infer_args *args) {
    const qb_value *x = qb_infer_in(args, 0);
    qb_shape wanted = {.rank = -1}, out;
    qb_sizes sizes;
    QB_TRY(qb_infer_sizes(cx, args, 1, &sizes));
    wanted.rank = sizes.n;
    for (int32_t d = 0; d < sizes.n; d++) {
        if (qb_size_is_number(sizes.v[d]) && sizes.v[d] < 0)
            return qb_fail(cx, QB_STATUS_INVALID, "shape: expected at least 0 at %d, got %lld", d,
                           (long long)sizes.v[d]);
        wanted.dim[d] = qb_dim_of_size(sizes.v[d]);
    }
    QB_TRY(qb_shape_broadcast(cx, &x->shape, &wanted, &out));
    return qb_infer_set(cx, args, 0, x->dtype, &out);
}

static qb_status strided_expand(qb_ctx *cx, const qb_node *node, const qb_tensor *in,
                                int32_t output, qb_strided *out) {
    const qb_shape *x = &in[0].desc.shape;
    qb_shape wanted = {.rank = 0}, y;
    int64_t stride[QB_MAX_RANK];
    (void)node, (void)output;
    QB_TRY(qb_eval_ints(cx, &in[1], wanted.dim, QB_MAX_RANK, &wanted.rank));
    QB_TRY(qb_shape_broadcast(cx, x, &wanted, &y));
    qb_strides_of(x, stride);
    *out = (qb_strided){.rank = y.rank};
    for (int32_t d = 0, lead = y.rank - x->rank; d < y.rank; d++) {
        out->dim[d] = y.dim[d];
        out->stride[d] = d < lead || x->dim[d - lead] == 1 ? 0 : stride[d - lead];
    }
    return QB_OK;
}

QB_OP_SIMPLE(expand, "Expand", 8, 2, 2, 1, 0, NULL, SAME_SCALE, infer_expand, qb_eval_strided,
             .strided = strided_expand, .bound = qb_bound_none,
             .traits = QB_TRAIT_IN_ORDER | QB_TRAIT_ITEMWISE, .kernel = {QB_KIND_STRIDED_COPY});

/* --- Tile ------------------------------------------------------------------------------------- */

static qb_status infer_tile(qb_ctx *cx, const qb_infer_args *args) {
    const qb_value *x = qb_infer_in(args, 0);
    int64_t repeats[QB_MAX_RANK];
    int32_t n;
    qb_shape out = x->shape;
    QB_TRY(qb_infer_ints(cx, args, 1, repeats, QB_MAX_RANK, &n));
    if (n >= 0 && out.rank >= 0 && n != out.rank)
        return qb_fail(cx, QB_STATUS_INVALID, "repeats: expected %d values, got %d", out.rank, n);
    for (int32_t d = 0; d < out.rank; d++) {
        if (n < 0) {
            out.dim[d] = QB_DIM_UNKNOWN;
            continue;
        }
        if (repeats[d] < 0)
            return qb_fail(cx, QB_STATUS_INVALID, "repeats: expected at least 0 at %d, got %lld", d,
                           (long long)repeats[d]);
        QB_TRY(qb_dim_mul(cx, out.dim[d], repeats[d], &out.dim[d]));
    }
    return qb_infer_set(cx, args, 0, x->dtype, &out);
}

/* Seen as [repeat, size] pairs of dimensions, a tile is a broadcast; done dimension by dimension
 * here, since pairs would need twice the rank. */
static qb_status eval_tile(qb_ctx *cx, const qb_node *node, const qb_tensor *in, qb_tensor *out) {
    (void)cx, (void)node;
    const qb_shape *x = &in[0].desc.shape, *y = &out[0].desc.shape;
    size_t size = qb_dtype_size(out[0].desc.dtype);
    int64_t stride[QB_MAX_RANK], index[QB_MAX_RANK] = {0}, count = qb_shape_count(y);
    if (count == 0) return QB_OK;
    int32_t last = y->rank - 1;
    int64_t row = y->rank > 0 ? y->dim[last] : 1, x_row = y->rank > 0 ? x->dim[last] : 1;
    qb_strides_of(x, stride);
    for (int64_t at = 0; at < count; at += row) {
        int64_t from = 0;
        for (int32_t d = 0; d < last; d++) from += index[d] % x->dim[d] * stride[d];
        for (int64_t i = 0; i < row; i += x_row)
            memcpy((char *)out[0].data + (size_t)(at + i) * size,
                   (const char *)in[0].data + (size_t)from * size, (size_t)x_row * size);
        for (int32_t d = last - 1; d >= 0; d--) {
            if (++index[d] < y->dim[d]) break;
            index[d] = 0;
        }
    }
    return QB_OK;
}

static qb_status strided_tile(qb_ctx *cx, const qb_node *node, const qb_tensor *in, int32_t output,
                              qb_strided *out) {
    const qb_shape *x = &in[0].desc.shape;
    int64_t repeats[QB_MAX_RANK], stride[QB_MAX_RANK];
    int32_t n, rank = 0;
    (void)node, (void)output;
    QB_TRY(qb_eval_ints(cx, &in[1], repeats, QB_MAX_RANK, &n));
    qb_strides_of(x, stride);
    *out = (qb_strided){0};
    for (int32_t d = 0; d < n; d++) {
        const bool pair = repeats[d] != 1 && x->dim[d] != 1;
        if (rank + pair >= QB_MAX_RANK)
            return qb_fail(cx, QB_STATUS_UNSUPPORTED, "too many dimensions are repeated");
        if (pair) out->dim[rank++] = repeats[d]; /* of stride 0 */
        out->dim[rank] = pair ? x->dim[d] : x->dim[d] * repeats[d];
        out->stride[rank++] = repeats[d] != 1 && !pair ? 0 : stride[d];
    }
    out->rank = rank;
    return QB_OK;
}

QB_OP_SIMPLE(tile, "Tile", 7, 2, 2, 1, 0, NULL, SAME_SCALE, infer_tile, eval_tile,
             .strided = strided_tile, .bound = qb_bound_none,
             .traits = QB_TRAIT_IN_ORDER | QB_TRAIT_ITEMWISE, .kernel = {QB_KIND_STRIDED_COPY});

/* --- DepthToSpace and SpaceToDepth ------------------------------------------------------------ */

typedef struct depth_attrs {
    int64_t blocksize;
    const char *mode;
} depth_attrs;
QB_ATTRS(to_space_attrs, QB_A_NEED_INT(depth_attrs, blocksize, "blocksize", 1, 1 << 15),
         QB_A_STRING(depth_attrs, mode, "mode", "DCR"));
QB_ATTRS(to_depth_attrs, QB_A_NEED_INT(depth_attrs, blocksize, "blocksize", 1, 1 << 15));

static qb_status divide(qb_ctx *cx, const char *what, int64_t dim, int64_t by, int64_t *out) {
    *out = QB_DIM_UNKNOWN;
    if (dim < 0) return QB_OK;
    if (dim % by != 0)
        return qb_fail(cx, QB_STATUS_INVALID, "%s: %lld is not divisible by %lld", what,
                       (long long)dim, (long long)by);
    *out = dim / by;
    return QB_OK;
}

static qb_status check_block(qb_ctx *cx, int64_t block) {
    if (block >= 1 && block <= 1 << 15) return QB_OK;
    return qb_fail(cx, QB_STATUS_INVALID, "attribute blocksize: expected 1 to 32768, got %lld",
                   (long long)block);
}

static qb_status infer_to_space(qb_ctx *cx, const qb_infer_args *args) {
    const depth_attrs *attrs = qb_infer_at(args)->attrs;
    const qb_value *x = qb_infer_in(args, 0);
    qb_shape out = x->shape;
    int64_t b = attrs->blocksize;
    QB_TRY(check_block(cx, b));
    if (strcmp(attrs->mode, "DCR") != 0 && strcmp(attrs->mode, "CRD") != 0)
        return qb_fail(cx, QB_STATUS_INVALID, "attribute mode: expected DCR or CRD, got '%s'",
                       attrs->mode);
    QB_TRY(qb_infer_rank(cx, args, 0, 4, 4));
    if (out.rank == 4) {
        QB_TRY(divide(cx, "channels", x->shape.dim[1], b * b, &out.dim[1]));
        QB_TRY(qb_dim_mul(cx, x->shape.dim[2], b, &out.dim[2]));
        QB_TRY(qb_dim_mul(cx, x->shape.dim[3], b, &out.dim[3]));
    }
    return qb_infer_set(cx, args, 0, x->dtype, &out);
}

static qb_status infer_to_depth(qb_ctx *cx, const qb_infer_args *args) {
    const depth_attrs *attrs = qb_infer_at(args)->attrs;
    const qb_value *x = qb_infer_in(args, 0);
    qb_shape out = x->shape;
    int64_t b = attrs->blocksize;
    QB_TRY(check_block(cx, b));
    QB_TRY(qb_infer_rank(cx, args, 0, 4, 4));
    if (out.rank == 4) {
        QB_TRY(qb_dim_mul(cx, x->shape.dim[1], b * b, &out.dim[1]));
        QB_TRY(divide(cx, "height", x->shape.dim[2], b, &out.dim[2]));
        QB_TRY(divide(cx, "width", x->shape.dim[3], b, &out.dim[3]));
    }
    return qb_infer_set(cx, args, 0, x->dtype, &out);
}

/* Both are transposes of six dimensions: `split` is the input seen so, `perm` their new order. */
static void transpose6(const int64_t split[6], const int32_t perm[6], qb_strided *out) {
    qb_shape shape = {.rank = 6};
    int64_t stride[QB_MAX_RANK];
    memcpy(shape.dim, split, 6 * sizeof *split);
    qb_strides_of(&shape, stride);
    *out = (qb_strided){.rank = 6};
    for (int32_t d = 0; d < 6; d++) {
        out->dim[d] = split[perm[d]];
        out->stride[d] = stride[perm[d]];
    }
}

static qb_status strided_to_space(qb_ctx *cx, const qb_node *node, const qb_tensor *in,
                                  int32_t output, qb_strided *out) {
    const depth_attrs *attrs = node->attrs;
    const int64_t *x = in[0].desc.shape.dim, b = attrs->blocksize;
    const int64_t dcr[6] = {x[0], b, b, x[1] / (b * b), x[2], x[3]};
    const int64_t crd[6] = {x[0], x[1] / (b * b), b, b, x[2], x[3]};
    (void)cx, (void)output;
    if (strcmp(attrs->mode, "DCR") == 0)
        transpose6(dcr, (const int32_t[]){0, 3, 4, 1, 5, 2}, out);
    else
        transpose6(crd, (const int32_t[]){0, 1, 4, 2, 5, 3}, out);
    return QB_OK;
}

static qb_status strided_to_depth(qb_ctx *cx, const qb_node *node, const qb_tensor *in,
                                  int32_t output, qb_strided *out) {
    const depth_attrs *attrs = node->attrs;
    const int64_t *x = in[0].desc.shape.dim, b = attrs->blocksize;
    const int64_t split[6] = {x[0], x[1], x[2] / b, b, x[3] / b, b};
    (void)cx, (void)output;
    transpose6(split, (const int32_t[]){0, 3, 5, 1, 2, 4}, out);
    return QB_OK;
}

QB_OP_SIMPLE(depth_to_space, "DepthToSpace", 7, 1, 1, 1, sizeof(depth_attrs), to_space_attrs,
             SAME_SCALE, infer_to_space, qb_eval_strided, .strided = strided_to_space,
             .traits = QB_TRAIT_REORDER | QB_TRAIT_ITEMWISE, .kernel = {QB_KIND_STRIDED_COPY});
QB_OP_SIMPLE(space_to_depth, "SpaceToDepth", 7, 1, 1, 1, sizeof(depth_attrs), to_depth_attrs,
             SAME_SCALE, infer_to_depth, qb_eval_strided, .strided = strided_to_depth,
             .traits = QB_TRAIT_REORDER | QB_TRAIT_ITEMWISE, .kernel = {QB_KIND_STRIDED_COPY});
