/* Gather. */
#include "ops_internal.h"

QB_ATTRS(gather_attrs, QB_A_INT(qb_axis_attrs, axis, "axis", 0, 0, 0));

static qb_status infer_gather(qb_ctx *cx, const qb_infer_args *args) {
    const qb_axis_attrs *attrs = qb_infer_at(args)->attrs;
    const qb_value *x = qb_infer_in(args, 0), *index = qb_infer_in(args, 1);
    qb_shape out = {.rank = -1};
    if (x->shape.rank < 0 || index->shape.rank < 0)
        return qb_infer_set(cx, args, 0, x->dtype, &out);
    int32_t axis;
    QB_TRY(qb_axis_resolve(cx, attrs->axis, x->shape.rank, &axis));
    out.rank = x->shape.rank - 1 + index->shape.rank;
    for (int32_t d = 0, to = 0; d < x->shape.rank && out.rank <= QB_MAX_RANK; d++) {
        if (d != axis) {
            out.dim[to++] = x->shape.dim[d];
            continue;
        }
        for (int32_t i = 0; i < index->shape.rank; i++) out.dim[to++] = index->shape.dim[i];
    }
    return qb_infer_set(cx, args, 0, x->dtype, &out);
}

/* The distances of constant indices along each of their dimensions, where all that are neighbours
 * there are as far apart: windows that were unfolded, ranges. */
static qb_status index_steps(qb_ctx *cx, const qb_tensor *indices, int64_t size, int64_t *first,
                             int64_t *step) {
    const qb_shape *shape = &indices->desc.shape;
    const int64_t n = qb_shape_count(shape);
    int64_t named[QB_MAX_RANK];
    qb_strides_of(shape, named);
    for (int64_t i = 0; i < n; i++) {
        int64_t index, expected;
        QB_TRY(qb_eval_index(cx, indices, i, size, &index));
        if (i == 0) *first = index;
        expected = *first;
        for (int32_t d = 0; d < shape->rank; d++) {
            const int64_t at = i / named[d] % shape->dim[d];
            if (at == 1 && i == named[d]) step[d] = index - *first;
            expected += at > 0 ? at * step[d] : 0;
        }
        if (index != expected) return qb_fail(cx, QB_STATUS_UNSUPPORTED, "no stride");
    }
    return QB_OK;
}

#define MOST_INDICES 4096 /* that strides are looked for in */

static qb_status strided_gather(qb_ctx *cx, const qb_node *node, const qb_tensor *in,
                                int32_t output, qb_strided *out) {
    const qb_axis_attrs *attrs = node->attrs;
    const qb_shape *x = &in[0].desc.shape, *index = &in[1].desc.shape;
    const int64_t n = qb_shape_count(index);
    int64_t first = 0, step[QB_MAX_RANK] = {0}, stride[QB_MAX_RANK];
    int32_t axis;
    (void)output;
    QB_TRY(qb_axis_resolve(cx, attrs->axis, x->rank, &axis));
    const int32_t rank = x->rank - 1 + index->rank;
    if (n < 1 || n > MOST_INDICES || rank > QB_MAX_RANK || x->rank == QB_MAX_RANK)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "more indices than a stride is looked for");
    QB_TRY(index_steps(cx, &in[1], x->dim[axis], &first, step));
    qb_strides_of(x, stride);
    *out = (qb_strided){.rank = rank, .offset = first * stride[axis]};
    for (int32_t d = 0; d < rank; d++) {
        const bool named = d >= axis && d < axis + index->rank;
        const int32_t own = d < axis ? d : d - index->rank + 1;
        out->dim[d] = named ? index->dim[d - axis] : x->dim[own];
        out->stride[d] = named ? step[d - axis] * stride[axis] : stride[own];
    }
    return QB_OK;
}

static qb_status places_gather(qb_ctx *cx, const qb_node *node, const qb_tensor *in,
                               qb_places *out) {
    const qb_axis_attrs *attrs = node->attrs;
    const qb_shape *x = &in[0].desc.shape, *index = &in[1].desc.shape;
    int64_t stride[QB_MAX_RANK], named[QB_MAX_RANK];
    int32_t axis;
    QB_TRY(qb_axis_resolve(cx, attrs->axis, x->rank, &axis));
    qb_strides_of(x, stride);
    qb_strides_of(index, named);
    *out = (qb_places){
        .depth = 1, .size = {x->dim[axis]}, .stride = {stride[axis]}, .run = stride[axis]};
    for (int32_t d = 0; d < axis + index->rank; d++) {
        const bool before = d < axis;
        out->dim[d] = before ? x->dim[d] : index->dim[d - axis];
        out->along[d] = before ? stride[d] : 0;
        out->named[d] = before ? 0 : named[d - axis];
    }
    out->rank = axis + index->rank;
    return QB_OK;
}

QB_OP_SIMPLE(gather, "Gather", 7, 2, 2, 1, sizeof(qb_axis_attrs), gather_attrs, SAME_SCALE,
             infer_gather, qb_eval_gathered, .strided = strided_gather, .places = places_gather,
             .traits = QB_TRAIT_ITEMWISE, .kernel = {QB_KIND_GATHER});
