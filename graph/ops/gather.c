/* Gather. */
#include "ops_internal.h"

static const qb_attr_desc gather_attrs[] = {
    QB_A_INT(qb_axis_attrs, axis, "axis", 0, 0, 0),
    QB_A_END,
};

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

static qb_status eval_gather(qb_ctx *cx, const qb_node *node, const qb_tensor *in, qb_tensor *out) {
    const qb_axis_attrs *attrs = node->attrs;
    const qb_shape *x = &in[0].desc.shape;
    qb_dtype type = in[1].desc.dtype;
    int32_t axis;
    QB_TRY(qb_axis_resolve(cx, attrs->axis, x->rank, &axis));
    if (type != QB_DTYPE_S64 && type != QB_DTYPE_S32) return qb_eval_refuse(cx, node, type);
    int64_t outer = 1, n = qb_shape_count(&in[1].desc.shape), size = x->dim[axis];
    size_t inner = qb_dtype_size(in[0].desc.dtype);
    for (int32_t d = 0; d < axis; d++) outer *= x->dim[d];
    for (int32_t d = axis + 1; d < x->rank; d++) inner *= (size_t)x->dim[d];
    for (int64_t i = 0; i < n; i++) {
        int64_t k = type == QB_DTYPE_S64 ? ((const int64_t *)in[1].data)[i]
                                         : ((const int32_t *)in[1].data)[i];
        if (k < -size || k >= size)
            return qb_fail(cx, QB_STATUS_INVALID, "index: expected %lld to %lld, got %lld",
                           (long long)-size, (long long)size - 1, (long long)k);
        if (k < 0) k += size;
        for (int64_t o = 0; o < outer && inner > 0; o++)
            memcpy((char *)out[0].data + (size_t)(o * n + i) * inner,
                   (const char *)in[0].data + (size_t)(o * size + k) * inner, inner);
    }
    return QB_OK;
}

QB_OP_SIMPLE(gather, "Gather", 7, 2, 2, 1, sizeof(qb_axis_attrs), gather_attrs, SAME_SCALE,
             infer_gather, eval_gather, .traits = QB_TRAIT_ITEMWISE, .kernel = {QB_KIND_GATHER});
