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

static qb_status places_gather(qb_ctx *cx, const qb_node *node, const qb_tensor *in,
                               qb_places *out) {
    const qb_axis_attrs *attrs = node->attrs;
    const qb_shape *x = &in[0].desc.shape, *index = &in[1].desc.shape;
    int64_t stride[QB_MAX_RANK], named[QB_MAX_RANK];
    int32_t axis;
    QB_TRY(qb_axis_resolve(cx, attrs->axis, x->rank, &axis));
    qb_strides_of(x, stride);
    qb_strides_of(index, named);
    *out = (qb_places){.depth = 1, .size = {x->dim[axis]}, .stride = {stride[axis]}, .run = 1};
    for (int32_t d = axis + 1; d < x->rank; d++) out->run *= x->dim[d];
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
             infer_gather, qb_eval_gathered, .places = places_gather, .traits = QB_TRAIT_ITEMWISE,
             .kernel = {QB_KIND_GATHER});
