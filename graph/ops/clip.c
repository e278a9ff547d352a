/* Clip: bounds as optional scalar inputs. */
#include <float.h>

#include "ops_internal.h"

typedef struct clip_attrs {
    float min, max; /* before opset 11 */
} clip_attrs;

QB_ATTRS(clip_table, QB_A_OLD_FLOAT(clip_attrs, min, "min", -FLT_MAX),
         QB_A_OLD_FLOAT(clip_attrs, max, "max", FLT_MAX));

static qb_status infer_clip(qb_ctx *cx, const qb_infer_args *args) {
    for (int32_t i = 1; i < 3; i++) {
        QB_TRY(qb_infer_rank(cx, args, i, 0, 1));
        QB_TRY(qb_infer_same_type(cx, args, i));
        const qb_value *bound = qb_infer_in(args, i);
        if (bound && bound->shape.rank == 1 && bound->shape.dim[0] >= 0 && bound->shape.dim[0] != 1)
            return qb_fail(cx, QB_STATUS_INVALID, "input %d '%s': expected one number, got %lld", i,
                           bound->name, (long long)bound->shape.dim[0]);
    }
    return qb_infer_same(cx, args);
}

#define CLIP(NAME, T, U)                                                                           \
    case QB_DTYPE_##NAME: {                                                                        \
        const T *x = in[0].data, *low = has_low ? in[1].data : NULL;                               \
        const T *high = has_high ? in[2].data : NULL;                                              \
        T *y = out[0].data;                                                                        \
        for (int64_t i = 0; i < n; i++) {                                                          \
            T v = x[i];                                                                            \
            if (low && v < *low) v = *low;                                                         \
            if (high && v > *high) v = *high;                                                      \
            y[i] = v;                                                                              \
        }                                                                                          \
        return QB_OK;                                                                              \
    }

static qb_status eval_clip(qb_ctx *cx, const qb_node *node, const qb_tensor *in, qb_tensor *out) {
    bool has_low = qb_eval_has(node, in, 1), has_high = qb_eval_has(node, in, 2);
    QB_EVAL_HALVES(eval_clip);
    int64_t n = qb_shape_count(&in[0].desc.shape);
    switch (in[0].desc.dtype) {
        QB_NUMBER_TYPES(CLIP)
    default: return qb_eval_refuse(cx, node, in[0].desc.dtype);
    }
}

static qb_status upgrade_clip(qb_ctx *cx, qb_graph *graph, int32_t node, int32_t version) {
    if (version >= 11) return QB_OK;
    clip_attrs *attrs = graph->nodes[node].attrs;
    qb_shape scalar = {0};
    int32_t id;
    if (attrs->min > -FLT_MAX) {
        QB_TRY(qb_node_const_floats(cx, graph, node, "min", &scalar, &attrs->min, &id));
        QB_TRY(qb_node_input_set(cx, graph, node, 1, id));
    }
    if (attrs->max < FLT_MAX) {
        QB_TRY(qb_node_const_floats(cx, graph, node, "max", &scalar, &attrs->max, &id));
        QB_TRY(qb_node_input_set(cx, graph, node, 2, id));
    }
    attrs->min = -FLT_MAX, attrs->max = FLT_MAX;
    return QB_OK;
}

QB_OP_SIMPLE(clip, "Clip", 7, 1, 3, 1, sizeof(clip_attrs), clip_table, LUT, infer_clip, eval_clip,
             .upgrade = upgrade_clip, .types = QB_TYPES_NUMBERS, .traits = QB_TRAIT_ELEMENTWISE,
             .kernel = {QB_KIND_UNARY, .act = QB_ACT_CLIP, .function = QB_FUNCTION_CLIP});
