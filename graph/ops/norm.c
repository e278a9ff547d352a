/* BatchNormalization, InstanceNormalization, LayerNormalization, LRN. The others: norm_more.c. */
#include <math.h>

#include "ops_internal.h"

QB_ATTRS(batch_attrs, QB_A_FLOAT(qb_norm_attrs, epsilon, "epsilon", 1e-5f),
         QB_A_FLOAT(qb_norm_attrs, momentum, "momentum", 0.9f),
         QB_A_INT(qb_norm_attrs, training_mode, "training_mode", 0, 0, 1),
         QB_A_OLD_INT(qb_norm_attrs, spatial, "spatial", 1),
         QB_A_OLD_INT(qb_norm_attrs, is_test, "is_test", 0),
         QB_A_OLD_INTS(qb_norm_attrs, consumed_inputs, "consumed_inputs"));
QB_ATTRS(instance_attrs, QB_A_FLOAT(qb_norm_attrs, epsilon, "epsilon", 1e-5f));
QB_ATTRS(layer_attrs, QB_A_INT(qb_norm_attrs, axis, "axis", -1, 0, 0),
         QB_A_FLOAT(qb_norm_attrs, epsilon, "epsilon", 1e-5f),
         QB_A_INT(qb_norm_attrs, stash_type, "stash_type", 1, 0, 0));

typedef struct lrn_attrs {
    float alpha, beta, bias;
    int64_t size;
} lrn_attrs;
QB_ATTRS(lrn_table, QB_A_FLOAT(lrn_attrs, alpha, "alpha", 1e-4f),
         QB_A_FLOAT(lrn_attrs, beta, "beta", 0.75f), QB_A_FLOAT(lrn_attrs, bias, "bias", 1.0f),
         QB_A_NEED_INT(lrn_attrs, size, "size", 1, QB_ATTR_BIG));

/* Input i holds one value a channel of input 0. */
static qb_status check_channels(qb_ctx *cx, const qb_infer_args *args, int32_t i) {
    const qb_value *x = qb_infer_in(args, 0), *v = qb_infer_in(args, i);
    QB_TRY(qb_infer_rank(cx, args, i, 1, 1));
    if (x->shape.rank < 1 || v->shape.rank != 1) return QB_OK;
    int64_t expected = x->shape.rank > 1 ? x->shape.dim[1] : 1, got = v->shape.dim[0];
    if (expected < 0 || got < 0 || expected == got) return QB_OK;
    return qb_fail(cx, QB_STATUS_INVALID, "input %d '%s': expected %lld channels, got %lld", i,
                   v->name, (long long)expected, (long long)got);
}

static qb_status infer_batch(qb_ctx *cx, const qb_infer_args *args) {
    const qb_norm_attrs *attrs = qb_infer_at(args)->attrs;
    if (!attrs->spatial)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "attribute spatial: expected 1, got 0");
    QB_TRY(qb_infer_rank(cx, args, 0, 1, QB_MAX_RANK));
    for (int32_t i = 1; i < 5; i++) QB_TRY(check_channels(cx, args, i));
    for (int32_t i = 1; i < 3; i++) /* running mean and variance, in training only */
        QB_TRY(qb_infer_set(cx, args, i, qb_infer_in(args, 2 + i)->dtype,
                            &qb_infer_in(args, 2 + i)->shape));
    return qb_infer_same(cx, args);
}

/* Old exporters list the running statistics as further outputs; in inference nobody fills them. */
static qb_status upgrade_batch(qb_ctx *cx, qb_graph *graph, int32_t node, int32_t version) {
    qb_node *n = &graph->nodes[node];
    const qb_norm_attrs *attrs = n->attrs;
    (void)version;
    if (!attrs->training_mode)
        n->n_out = n->n_out > 0;
    else if (n->n_out > 3)
        return qb_fail(cx, QB_STATUS_INVALID, "expected 1 to 3 outputs, got %d", n->n_out);
    return QB_OK;
}

/* Training: mean and variance of a channel are those of the batch, and the running ones follow. */
static void batch_statistics(const qb_norm_attrs *attrs, const qb_node *node, const qb_tensor *in,
                             qb_tensor *out, int64_t c, int64_t channels, int64_t plane,
                             double *mean, double *variance) {
    const float *x = in[0].data;
    int64_t samples = in[0].desc.shape.dim[0];
    double n = (double)(samples * plane), sum = 0.0, squares = 0.0;
    for (int64_t s = 0; s < samples; s++)
        for (int64_t k = 0; k < plane; k++) sum += (double)x[(s * channels + c) * plane + k];
    *mean = sum / n;
    for (int64_t s = 0; s < samples; s++)
        for (int64_t k = 0; k < plane; k++) {
            double d = (double)x[(s * channels + c) * plane + k] - *mean;
            squares += d * d;
        }
    *variance = squares / n;
    double keep = (double)attrs->momentum;
    const double fresh[2] = {*mean, *variance};
    for (int32_t i = 0; i < 2; i++)
        if (node->n_out > 1 + i && node->out[1 + i] >= 0)
            ((float *)out[1 + i].data)[c] =
                (float)((double)((const float *)in[3 + i].data)[c] * keep +
                        fresh[i] * (1.0 - keep));
}

static qb_status eval_batch(qb_ctx *cx, const qb_node *node, const qb_tensor *in, qb_tensor *out) {
    const qb_norm_attrs *attrs = node->attrs;
    QB_EVAL_IN_F32(eval_batch);
    for (int32_t i = 1; i < 5; i++) QB_TRY(qb_eval_need_f32(cx, node, &in[i]));
    const qb_shape *shape = &in[0].desc.shape;
    const float *x = in[0].data, *scale = in[1].data, *shift = in[2].data;
    float *y = out[0].data;
    const int64_t channels = shape->rank > 1 ? shape->dim[1] : 1;
    const int64_t plane = qb_shape_span(shape, 2, shape->rank);
    for (int64_t c = 0; c < channels; c++) {
        double mean = (double)((const float *)in[3].data)[c];
        double variance = (double)((const float *)in[4].data)[c];
        if (attrs->training_mode)
            batch_statistics(attrs, node, in, out, c, channels, plane, &mean, &variance);
        double factor = (double)scale[c] / sqrt(variance + (double)attrs->epsilon);
        double offset = (double)shift[c] - mean * factor;
        for (int64_t s = 0; s < shape->dim[0]; s++)
            for (int64_t k = 0; k < plane; k++) {
                int64_t at = (s * channels + c) * plane + k;
                y[at] = (float)((double)x[at] * factor + offset);
            }
    }
    return QB_OK;
}

void qb_moments(const float *x, int64_t n, float epsilon, double *mean, double *inverse) {
    double sum = 0.0, squares = 0.0;
    for (int64_t i = 0; i < n; i++) sum += (double)x[i];
    *mean = n > 0 ? sum / (double)n : 0.0;
    for (int64_t i = 0; i < n; i++) {
        double d = (double)x[i] - *mean;
        squares += d * d;
    }
    double variance = n > 0 ? squares / (double)n : 0.0;
    *inverse = 1.0 / sqrt(variance + (double)epsilon);
}

static qb_status infer_instance(qb_ctx *cx, const qb_infer_args *args) {
    QB_TRY(qb_infer_rank(cx, args, 0, 2, QB_MAX_RANK));
    QB_TRY(check_channels(cx, args, 1));
    QB_TRY(check_channels(cx, args, 2));
    return qb_infer_same(cx, args);
}

static qb_status eval_instance(qb_ctx *cx, const qb_node *node, const qb_tensor *in,
                               qb_tensor *out) {
    const qb_norm_attrs *attrs = node->attrs;
    QB_EVAL_IN_F32(eval_instance);
    for (int32_t i = 1; i < 3; i++) QB_TRY(qb_eval_need_f32(cx, node, &in[i]));
    const qb_shape *shape = &in[0].desc.shape;
    const float *x = in[0].data, *scale = in[1].data, *shift = in[2].data;
    float *y = out[0].data;
    const int64_t channels = shape->dim[1], plane = qb_shape_span(shape, 2, shape->rank);
    for (int64_t i = 0; i < shape->dim[0] * channels; i++) {
        double mean, inverse;
        qb_moments(x + i * plane, plane, attrs->epsilon, &mean, &inverse);
        double factor = (double)scale[i % channels] * inverse, offset = (double)shift[i % channels];
        for (int64_t k = i * plane; k < (i + 1) * plane; k++)
            y[k] = (float)(((double)x[k] - mean) * factor + offset);
    }
    return QB_OK;
}

static qb_status infer_layer(qb_ctx *cx, const qb_infer_args *args) {
    const qb_norm_attrs *attrs = qb_infer_at(args)->attrs;
    const qb_value *x = qb_infer_in(args, 0);
    qb_shape statistics = x->shape;
    QB_TRY(qb_infer_floats(cx, args, 1, 2));
    if (x->shape.rank >= 0) {
        int32_t axis;
        QB_TRY(qb_axis_resolve(cx, attrs->axis, x->shape.rank, &axis));
        for (int32_t d = axis; d < x->shape.rank; d++) statistics.dim[d] = 1;
        for (int32_t i = 1; i < 3; i++) {
            const qb_value *v = qb_infer_in(args, i);
            qb_shape both;
            if (v) QB_TRY(qb_shape_broadcast(cx, &x->shape, &v->shape, &both));
        }
    }
    QB_TRY(qb_infer_set(cx, args, 1, QB_DTYPE_F32, &statistics));
    QB_TRY(qb_infer_set(cx, args, 2, QB_DTYPE_F32, &statistics));
    return qb_infer_same(cx, args);
}

static qb_status eval_layer(qb_ctx *cx, const qb_node *node, const qb_tensor *in, qb_tensor *out) {
    const qb_norm_attrs *attrs = node->attrs;
    QB_EVAL_IN_F32(eval_layer);
    const qb_shape *shape = &in[0].desc.shape;
    const float *x = in[0].data, *scale = in[1].data;
    const float *shift = qb_eval_has(node, in, 2) ? in[2].data : NULL;
    float *y = out[0].data;
    int32_t axis;
    QB_TRY(qb_axis_resolve(cx, attrs->axis, shape->rank, &axis));
    const int64_t rows = qb_shape_span(shape, 0, axis), n = qb_shape_span(shape, axis, shape->rank);
    int64_t scales = qb_shape_count(&in[1].desc.shape);
    int64_t shifts = shift ? qb_shape_count(&in[2].desc.shape) : n;
    if ((scales != n && scales != 1) || (shifts != n && shifts != 1))
        return qb_fail(cx, QB_STATUS_UNSUPPORTED,
                       "scale and bias: expected %lld elements or one, got %lld and %lld",
                       (long long)n, (long long)scales, (long long)shifts);
    for (int64_t r = 0; r < rows; r++) {
        double mean, inverse;
        qb_moments(x + r * n, n, attrs->epsilon, &mean, &inverse);
        for (int64_t i = 0; i < n; i++) {
            double v = ((double)x[r * n + i] - mean) * inverse;
            v *= (double)scale[scales == 1 ? 0 : i];
            y[r * n + i] = (float)(v + (shift ? (double)shift[shifts == 1 ? 0 : i] : 0.0));
        }
        if (node->n_out > 1 && node->out[1] >= 0) ((float *)out[1].data)[r] = (float)mean;
        if (node->n_out > 2 && node->out[2] >= 0) ((float *)out[2].data)[r] = (float)inverse;
    }
    return QB_OK;
}

static qb_status infer_lrn(qb_ctx *cx, const qb_infer_args *args) {
    QB_TRY(qb_infer_rank(cx, args, 0, 2, QB_MAX_RANK));
    return qb_infer_same(cx, args);
}

/* y = x / (bias + alpha / size * sum of squares over `size` neighbouring channels) ^ beta */
static qb_status eval_lrn(qb_ctx *cx, const qb_node *node, const qb_tensor *in, qb_tensor *out) {
    const lrn_attrs *attrs = node->attrs;
    QB_EVAL_IN_F32(eval_lrn);
    const qb_shape *shape = &in[0].desc.shape;
    const float *x = in[0].data;
    float *y = out[0].data;
    const int64_t channels = shape->dim[1], plane = qb_shape_span(shape, 2, shape->rank);
    int64_t before = (attrs->size - 1) / 2, after = attrs->size - 1 - before;
    for (int64_t i = 0; i < shape->dim[0] * channels; i++) {
        int64_t c = i % channels, first = c > before ? c - before : 0;
        int64_t last = c + after < channels ? c + after : channels - 1;
        for (int64_t k = 0; k < plane; k++) {
            double sum = 0.0;
            for (int64_t o = first; o <= last; o++) {
                double v = (double)x[(i - c + o) * plane + k];
                sum += v * v;
            }
            double base = (double)attrs->bias + (double)attrs->alpha / (double)attrs->size * sum;
            y[i * plane + k] = (float)((double)x[i * plane + k] / pow(base, (double)attrs->beta));
        }
    }
    return QB_OK;
}

QB_OP_SIMPLE(batch_normalization, "BatchNormalization", 7, 5, 5, 5, sizeof(qb_norm_attrs),
             batch_attrs, FLOAT, infer_batch, eval_batch, .upgrade = upgrade_batch,
             .types = QB_TYPES_FLOATS, .traits = QB_TRAIT_ITEMWISE);
QB_OP_SIMPLE(instance_normalization, "InstanceNormalization", 7, 3, 3, 1, sizeof(qb_norm_attrs),
             instance_attrs, FLOAT, infer_instance, eval_instance, .types = QB_TYPES_FLOATS,
             .traits = QB_TRAIT_ITEMWISE, .kernel = {QB_KIND_GROUP_NORM});
QB_OP_SIMPLE(layer_normalization, "LayerNormalization", 17, 2, 3, 3, sizeof(qb_norm_attrs),
             layer_attrs, FLOAT, infer_layer, eval_layer, .types = QB_TYPES_FLOATS,
             .traits = QB_TRAIT_ITEMWISE, .kernel = {QB_KIND_LAYER_NORM});
QB_OP_SIMPLE(lrn, "LRN", 7, 1, 1, 1, sizeof(lrn_attrs), lrn_table, FLOAT, infer_lrn, eval_lrn,
             .types = QB_TYPES_FLOATS, .traits = QB_TRAIT_ITEMWISE | QB_TRAIT_WINDOW);
