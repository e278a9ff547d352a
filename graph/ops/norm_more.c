/* GroupNormalization, RMSNormalization, LpNormalization, MeanVarianceNormalization. */
#include <math.h>

#include "ops_internal.h"

typedef struct more_attrs {
    int64_t axis, num_groups, p, stash_type;
    float epsilon;
    qb_ints axes;
} more_attrs;

QB_ATTRS(group_attrs, QB_A_FLOAT(more_attrs, epsilon, "epsilon", 1e-5f),
         QB_A_NEED_INT(more_attrs, num_groups, "num_groups", 1, QB_ATTR_BIG),
         QB_A_INT(more_attrs, stash_type, "stash_type", 1, 0, 0));
QB_ATTRS(rms_attrs, QB_A_INT(more_attrs, axis, "axis", -1, 0, 0),
         QB_A_FLOAT(more_attrs, epsilon, "epsilon", 1e-5f),
         QB_A_INT(more_attrs, stash_type, "stash_type", 1, 0, 0));
QB_ATTRS(lp_attrs, QB_A_INT(more_attrs, axis, "axis", -1, 0, 0),
         QB_A_INT(more_attrs, p, "p", 2, 1, 2));
QB_ATTRS(mean_variance_attrs, QB_A_INTS(more_attrs, axes, "axes", 0, 0));

/* --- GroupNormalization ---------------------------------------------------------------------- */

static qb_status infer_group(qb_ctx *cx, const qb_infer_args *args) {
    const more_attrs *attrs = qb_infer_at(args)->attrs;
    const qb_value *x = qb_infer_in(args, 0);
    QB_TRY(qb_infer_floats(cx, args, 1, 2));
    QB_TRY(qb_infer_rank(cx, args, 0, 2, QB_MAX_RANK));
    int64_t channels = x->shape.rank > 1 ? x->shape.dim[1] : QB_DIM_UNKNOWN;
    if (channels >= 0 && channels % attrs->num_groups != 0)
        return qb_fail(cx, QB_STATUS_INVALID, "%lld channels are not divisible by %lld groups",
                       (long long)channels, (long long)attrs->num_groups);
    for (int32_t i = 1; i < 3; i++) {
        QB_TRY(qb_infer_rank(cx, args, i, 1, 1));
        int64_t n = qb_infer_length(args, i);
        if (n >= 0 && channels >= 0 && n != channels && n != attrs->num_groups)
            return qb_fail(cx, QB_STATUS_INVALID, "input %d: expected %lld elements, got %lld", i,
                           (long long)channels, (long long)n);
    }
    return qb_infer_same(cx, args);
}

/* Scale and bias are one a channel; in opset 18 they were one a group. */
static qb_status eval_group(qb_ctx *cx, const qb_node *node, const qb_tensor *in, qb_tensor *out) {
    const more_attrs *attrs = node->attrs;
    QB_EVAL_IN_F32(eval_group);
    const qb_shape *shape = &in[0].desc.shape;
    const float *x = in[0].data, *scale = in[1].data, *shift = in[2].data;
    float *y = out[0].data;
    const int64_t channels = shape->dim[1], plane = qb_shape_span(shape, 2, shape->rank);
    const int64_t each = channels / attrs->num_groups;
    bool by_group[2];
    for (int32_t i = 0; i < 2; i++) by_group[i] = in[1 + i].desc.shape.dim[0] != channels;
    for (int64_t g = 0; g < shape->dim[0] * attrs->num_groups; g++) {
        const float *from = x + g * each * plane;
        double mean, inverse;
        qb_moments(from, each * plane, attrs->epsilon, &mean, &inverse);
        for (int64_t i = 0; i < each * plane; i++) {
            int64_t group = g % attrs->num_groups, c = group * each + i / plane;
            double v = ((double)from[i] - mean) * inverse;
            y[g * each * plane + i] = (float)(v * (double)scale[by_group[0] ? group : c] +
                                              (double)shift[by_group[1] ? group : c]);
        }
    }
    return QB_OK;
}

/* --- RMSNormalization ------------------------------------------------------------------------ */

static qb_status infer_rms(qb_ctx *cx, const qb_infer_args *args) {
    const more_attrs *attrs = qb_infer_at(args)->attrs;
    const qb_value *x = qb_infer_in(args, 0), *scale = qb_infer_in(args, 1);
    int32_t axis;
    qb_shape both;
    QB_TRY(qb_infer_floats(cx, args, 1, 1));
    if (x->shape.rank >= 0) QB_TRY(qb_axis_resolve(cx, attrs->axis, x->shape.rank, &axis));
    QB_TRY(qb_shape_broadcast(cx, &x->shape, &scale->shape, &both));
    if (qb_shape_known(&both) && qb_shape_known(&x->shape) && !qb_shape_equal(&both, &x->shape))
        return qb_fail(cx, QB_STATUS_INVALID, "scale does not broadcast to the data");
    return qb_infer_set(cx, args, 0, scale->dtype, &x->shape);
}

static qb_status eval_rms(qb_ctx *cx, const qb_node *node, const qb_tensor *in, qb_tensor *out) {
    const more_attrs *attrs = node->attrs;
    QB_EVAL_IN_F32(eval_rms);
    const qb_shape *shape = &in[0].desc.shape, *shapes[1] = {&in[1].desc.shape};
    const float *x = in[0].data, *scale = in[1].data;
    float *y = out[0].data;
    int32_t axis;
    QB_TRY(qb_axis_resolve(cx, attrs->axis, shape->rank, &axis));
    const int64_t rows = qb_shape_span(shape, 0, axis), n = qb_shape_span(shape, axis, shape->rank);
    for (int64_t r = 0; r < rows; r++) {
        double squares = 0.0;
        for (int64_t i = 0; i < n; i++) squares += (double)x[r * n + i] * (double)x[r * n + i];
        double inverse = 1.0 / sqrt(squares / (double)n + (double)attrs->epsilon);
        for (int64_t i = 0; i < n; i++) y[r * n + i] = (float)((double)x[r * n + i] * inverse);
    }
    qb_walk w;
    for (qb_walk_broadcast(&w, shape, shapes, 1); w.left > 0; qb_walk_next(&w))
        for (int64_t i = 0; i < w.run; i++) y[w.out + i] *= scale[w.at[0] + i * w.step[0]];
    return QB_OK;
}

/* --- LpNormalization ------------------------------------------------------------------------- */

static qb_status infer_lp(qb_ctx *cx, const qb_infer_args *args) {
    const more_attrs *attrs = qb_infer_at(args)->attrs;
    int32_t axis, rank = qb_infer_in(args, 0)->shape.rank;
    if (rank >= 0) QB_TRY(qb_axis_resolve(cx, attrs->axis, rank, &axis));
    return qb_infer_same(cx, args);
}

/* x / norm along the axis; 0 where the norm is 0. */
static qb_status eval_lp(qb_ctx *cx, const qb_node *node, const qb_tensor *in, qb_tensor *out) {
    const more_attrs *attrs = node->attrs;
    QB_EVAL_IN_F32(eval_lp);
    const qb_shape *shape = &in[0].desc.shape;
    int32_t axis;
    QB_TRY(qb_axis_resolve(cx, attrs->axis, shape->rank, &axis));
    const int64_t outer = qb_shape_span(shape, 0, axis), n = shape->dim[axis];
    const int64_t inner = qb_shape_span(shape, axis + 1, shape->rank);
    for (int64_t line = 0; line < outer * inner; line++) {
        int64_t at = line / inner * n * inner + line % inner;
        const float *x = (const float *)in[0].data + at;
        float *y = (float *)out[0].data + at;
        double sum = 0.0;
        for (int64_t i = 0; i < n; i++) {
            double v = (double)x[i * inner];
            sum += attrs->p == 1 ? fabs(v) : v * v;
        }
        double norm = attrs->p == 1 ? sum : sqrt(sum);
        for (int64_t i = 0; i < n; i++)
            y[i * inner] = norm == 0.0 ? 0.0f : (float)((double)x[i * inner] / norm);
    }
    return QB_OK;
}

/* --- MeanVarianceNormalization --------------------------------------------------------------- */

static const int64_t usual_axes[] = {0, 2, 3};

static qb_status mask_of(qb_ctx *cx, const more_attrs *attrs, int32_t rank, uint32_t *mask) {
    if (attrs->axes.n > 0) return qb_axes_resolve(cx, attrs->axes.v, attrs->axes.n, rank, mask);
    return qb_axes_resolve(cx, usual_axes, 3, rank, mask);
}

static qb_status infer_mean_variance(qb_ctx *cx, const qb_infer_args *args) {
    uint32_t mask;
    int32_t rank = qb_infer_in(args, 0)->shape.rank;
    if (rank >= 0) QB_TRY(mask_of(cx, qb_infer_at(args)->attrs, rank, &mask));
    return qb_infer_same(cx, args);
}

/* (x - mean) / (standard deviation + 1e-9) over the axes. */
static qb_status eval_mean_variance(qb_ctx *cx, const qb_node *node, const qb_tensor *in,
                                    qb_tensor *out) {
    QB_EVAL_IN_F32(eval_mean_variance);
    const qb_shape *shape = &in[0].desc.shape;
    uint32_t mask;
    QB_TRY(mask_of(cx, node->attrs, shape->rank, &mask));
    qb_shape kept = {.rank = 0}, inner = {.rank = 0};
    int64_t stride[QB_MAX_RANK], kept_stride[QB_MAX_RANK], inner_stride[QB_MAX_RANK];
    qb_strides_of(shape, stride);
    for (int32_t d = 0; d < shape->rank; d++) {
        qb_shape *to = mask >> d & 1u ? &inner : &kept;
        (mask >> d & 1u ? inner_stride : kept_stride)[to->rank] = stride[d];
        to->dim[to->rank++] = shape->dim[d];
    }
    const float *x = in[0].data;
    float *y = out[0].data;
    double n = (double)qb_shape_count(&inner);
    qb_walk w, v;
    for (qb_walk_strided(&w, &kept, kept_stride); w.left > 0; qb_walk_next(&w))
        for (int64_t r = 0; r < w.run; r++) {
            int64_t base = w.at[0] + r * w.step[0];
            double sum = 0.0, squares = 0.0;
            for (qb_walk_strided(&v, &inner, inner_stride); v.left > 0; qb_walk_next(&v))
                for (int64_t i = 0; i < v.run; i++)
                    sum += (double)x[base + v.at[0] + i * v.step[0]];
            for (qb_walk_strided(&v, &inner, inner_stride); v.left > 0; qb_walk_next(&v))
                for (int64_t i = 0; i < v.run; i++) {
                    double d = (double)x[base + v.at[0] + i * v.step[0]] - sum / n;
                    squares += d * d;
                }
            double divisor = sqrt(squares / n) + 1e-9;
            for (qb_walk_strided(&v, &inner, inner_stride); v.left > 0; qb_walk_next(&v))
                for (int64_t i = 0; i < v.run; i++) {
                    int64_t at = base + v.at[0] + i * v.step[0];
                    y[at] = (float)(((double)x[at] - sum / n) / divisor);
                }
        }
    return QB_OK;
}

QB_OP_SIMPLE(group_normalization, "GroupNormalization", 18, 3, 3, 1, sizeof(more_attrs),
             group_attrs, FLOAT, infer_group, eval_group, .types = QB_TYPES_FLOATS,
             .traits = QB_TRAIT_ITEMWISE, .kernel = {QB_KIND_GROUP_NORM});
QB_OP_SIMPLE(rms_normalization, "RMSNormalization", 23, 2, 2, 1, sizeof(more_attrs), rms_attrs,
             FLOAT, infer_rms, eval_rms, .types = QB_TYPES_FLOATS, .traits = QB_TRAIT_ITEMWISE,
             .kernel = {QB_KIND_LAYER_NORM, .rms = true});
QB_OP_SIMPLE(lp_normalization, "LpNormalization", 7, 1, 1, 1, sizeof(more_attrs), lp_attrs, FLOAT,
             infer_lp, eval_lp, .types = QB_TYPES_FLOATS, .traits = QB_TRAIT_AXIS);
QB_OP_SIMPLE(mean_variance_normalization, "MeanVarianceNormalization", 9, 1, 1, 1,
             sizeof(more_attrs), mean_variance_attrs, FLOAT, infer_mean_variance,
             eval_mean_variance, .types = QB_TYPES_FLOATS);
