/* Steps of the host in bf16: data and results in bf16, constants rounded when they are packed, sums
 * in f32.
 *
 * What has a weight computes in bf16 wherever a tactic takes it, but depthwise convolutions: they
 * wait for memory, and f32 loses nothing there. Steps without a weight, and those that only scale
 * and shift channels, follow their input: converting for their sake would cost more than they
 * gain. A result that only f32 steps or the caller read is written in f32, so that it is rounded
 * once less. */
#include <string.h>

#include "base/processor.h"
#include "engine/realize/lowering_internal.h"

const char *qb_engine_no_bf16(const char *backends) {
    if (backends && !strstr(backends, "cpu"))
        return "bf16 is computed by the backend cpu, which is not among those asked for";
    return qb_processor_has(QB_TIER_AVX512_BF16)
               ? NULL
               : "bf16 is computed on processors with AVX512-BF16, which this one "
                 "lacks";
}

static bool is_constant(const qb_lowering *b, int32_t value) {
    return value >= 0 && b->graph->values[value].data;
}

static bool is_depthwise(const qb_lowering *b, const qb_group *group) {
    const qb_shape *weight = &b->graph->values[group->in[QB_IN_WEIGHT]].shape;
    return weight->rank >= 3 && weight->dim[1] == 1 &&
           b->graph->values[group->in[QB_IN_DATA]].shape.dim[1] > 1;
}

/* A depthwise convolution with one weight a channel. */
static bool is_scale(const qb_lowering *b, const qb_group *group) {
    const qb_shape *weight = &b->graph->values[group->in[QB_IN_WEIGHT]].shape;
    return is_depthwise(b, group) && qb_shape_count(weight) == weight->dim[0] &&
           is_constant(b, group->in[QB_IN_WEIGHT]);
}

static bool has_weight(const qb_lowering *b, const qb_group *group) {
    if (group->kind == QB_KIND_CONV && is_depthwise(b, group)) return false;
    const bool anchor = group->kind == QB_KIND_CONV || group->kind == QB_KIND_CONV_TRANSPOSE ||
                        group->kind == QB_KIND_MATMUL;
    return anchor && group->n_in > QB_IN_WEIGHT && is_constant(b, group->in[QB_IN_WEIGHT]);
}

static bool reads_bf16(const qb_lowering *b, const qb_group *group) {
    switch (group->kind) {
    case QB_KIND_POOL:
    case QB_KIND_BINARY:
    case QB_KIND_UNARY:
    case QB_KIND_CONCAT: return true;
    case QB_KIND_CONV: return has_weight(b, group) || is_scale(b, group);
    case QB_KIND_NODE: return qb_lower_is_alias(b, group);
    default: return has_weight(b, group);
    }
}

void qb_bf16_prepare(qb_lowering *b) {
    for (int32_t g = 0; g < b->groups.n; g++) {
        const qb_group *group = &b->groups.group[g];
        for (int32_t i = 0; i < group->n_in && reads_bf16(b, group); i++)
            if (group->in[i] >= 0) b->value[group->in[i]].wanted_bf16 = true;
    }
    for (int32_t i = 0; i < b->graph->n_outputs; i++)
        b->value[b->graph->outputs[i]].wanted_bf16 = false;
}

bool qb_bf16_is(const qb_lowering *b, int32_t value) {
    const int32_t first = value < 0 ? -1 : b->value[value].layout;
    return first >= 0 && b->engine->layouts[first].desc.dtype == QB_DTYPE_BF16;
}

qb_dtype qb_bf16_type(const qb_lowering *b, int32_t value) {
    const qb_value *v = &b->graph->values[value];
    const bool f16 = b->value[value].wanted_bf16 && v->dtype == QB_DTYPE_F32 && v->q.n == 0;
    return f16 ? QB_DTYPE_BF16 : v->dtype;
}

static bool is_plain(const qb_desc *desc) { return desc->dtype == QB_DTYPE_F32 && desc->q.n == 0; }

bool qb_bf16_problem(const qb_lowering *b, const qb_group *group, const qb_problem *problem,
                     qb_desc *in, qb_problem *out) {
    const bool weight = has_weight(b, group);
    if (b->spec->float_type != QB_DTYPE_BF16 || !is_plain(&problem->out) ||
        (!weight && (group->kind == QB_KIND_SOFTMAX || !qb_bf16_is(b, group->in[0]))))
        return false;
    *out = *problem;
    out->in = in;
    for (int32_t i = 0; i < problem->n_in; i++) {
        in[i] = problem->in[i];
        if (in[i].dtype == QB_DTYPE_NONE) continue;
        if (!is_plain(&in[i])) return false;
        if (!is_constant(b, group->in[i])) in[i].dtype = QB_DTYPE_BF16;
    }
    out->out.dtype = weight ? qb_bf16_type(b, group->out) : QB_DTYPE_BF16;
    return true;
}
