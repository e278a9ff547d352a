/* Problems as a device takes them: float inputs and results in its float type.
 *
 * Values that stay f32 on a device whose floats are f16: sums of 8-bit products reach beyond
 * binary16, and the scales that bring them back lie below it. The product of both fits again; one
 * with the data's scale alone, and then with the weight's, is not looked for. */
#include <string.h>

#include "engine/realize/lowering_internal.h"

typedef enum role { ROLE_NONE, ROLE_SUMS, ROLE_FLOAT_SUMS, ROLE_SCALE } role;

static bool is(const qb_node *node, const char *op) { return strcmp(node->op->name, op) == 0; }

static role role_of(const role *roles, int32_t value) {
    return value < 0 ? ROLE_NONE : roles[value];
}

/* Scales of the data, perhaps times others and constants. */
static bool is_joint_scale(const qb_graph *graph, const qb_node *node, const role *roles) {
    bool any = false;
    if (!is(node, "Mul")) return false;
    for (int32_t i = 0; i < node->n_in; i++) {
        const bool scale = role_of(roles, node->in[i]) == ROLE_SCALE;
        if (!scale && (node->in[i] < 0 || !graph->values[node->in[i]].data)) return false;
        any = any || scale;
    }
    return any;
}

/* Of the node's first output. */
static role made_by(const qb_graph *graph, const qb_node *node, const role *roles) {
    const role from = node->n_in > 0 ? role_of(roles, node->in[0]) : ROLE_NONE;
    if (is(node, "MatMulInteger") || is(node, "ConvInteger")) return ROLE_SUMS;
    if (is(node, "Cast")) return from == ROLE_SUMS ? ROLE_FLOAT_SUMS : ROLE_NONE;
    if (qb_op_has(node->op, QB_TRAIT_VIEW)) return from;
    return is_joint_scale(graph, node, roles) ? ROLE_SCALE : ROLE_NONE;
}

static void find_roles(const qb_graph *graph, role *roles) {
    for (int32_t i = 0; i < graph->n_nodes; i++) {
        const qb_node *node = &graph->nodes[i];
        if (!node->op) continue; /* it runs in the tail */
        if (node->out[0] >= 0) roles[node->out[0]] = made_by(graph, node, roles);
        if (is(node, "DynamicQuantizeLinear") && node->n_out > 1 && node->out[1] >= 0)
            roles[node->out[1]] = ROLE_SCALE;
    }
}

qb_status qb_device_keep_floats(qb_lowering *b) {
    const size_t n = (size_t)b->graph->n_values;
    if (b->spec->float_type != QB_DTYPE_F16) return QB_OK;
    role *roles = QB_NEW(b->cx, qb_alloc(b->cx, n, sizeof *roles));
    find_roles(b->graph, roles);
    for (size_t v = 0; v < n; v++)
        b->value[v].keeps_f32 = roles[v] != ROLE_NONE && b->graph->values[v].dtype == QB_DTYPE_F32;
    qb_free(roles);
    return QB_OK;
}

/* ---- problems of the device ----------------------------------------------------------------- */

qb_desc qb_device_desc(const qb_lowering *b, qb_desc desc) {
    if (desc.dtype == QB_DTYPE_F32 && desc.q.n == 0) desc.dtype = b->spec->float_type;
    return desc;
}

qb_desc qb_device_float(const qb_lowering *b, int32_t value, qb_desc desc) {
    const bool keeps = b->value && value >= 0 && b->value[value].keeps_f32;
    return keeps ? desc : qb_device_desc(b, desc);
}

static qb_desc as_f16(qb_desc desc) {
    if (desc.q.n > 0 || desc.dtype == QB_DTYPE_F32) desc.dtype = QB_DTYPE_F16;
    desc.q = (qb_qparams){.axis = -1};
    return desc;
}

qb_desc qb_device_value(const qb_lowering *b, int32_t value, qb_layout layout) {
    qb_desc desc = qb_lower_desc(b, value, layout);
    if (b->value[value].f32_reason) return desc;
    return b->value[value].is_f16 ? as_f16(desc) : qb_device_float(b, value, desc);
}

void qb_device_problem(const qb_lowering *b, const qb_group *group, bool f16, qb_desc *in,
                       qb_problem *problem, bool *constant) {
    const bool f32 = !f16 && b->value && b->value[group->out].f32_reason;
    /* What stays in f32 for its range alone has no need of more digits than f16's, and TF32 has as
     * many. */
    problem->tf32 = b->spec->tf32 || f32;
    if (f16) problem->rounding = (qb_rounding){.dtype = QB_DTYPE_NONE};
    if (f16)
        problem->out = as_f16(problem->out);
    else if (!f32)
        problem->out = qb_device_float(b, group->out, problem->out);
    for (int32_t i = 0; i < problem->n_in; i++) {
        constant[i] = group->in[i] >= 0 && b->graph->values[group->in[i]].data;
        if (constant[i]) continue;
        if (f16)
            in[i] = as_f16(in[i]);
        else if (!f32)
            in[i] = qb_device_float(b, group->in[i], in[i]);
    }
}

static bool has(const qb_lowering *b, const qb_tactic *tactic, qb_kind kind) {
    return tactic->kind == kind && qb_lower_has(b, tactic, true);
}

bool qb_device_copies(const qb_lowering *b, const qb_desc *from, const qb_desc *to) {
    qb_problem copy = {.kind = QB_KIND_COPY, .n_in = 1, .in = from, .out = *to};
    bool constant = false;
    for (const qb_tactic *const *t = qb_tactics(); *t; t++)
        if (has(b, *t, QB_KIND_COPY) && qb_tactic_takes(*t, &copy, &constant)) return true;
    return false;
}

bool qb_device_takes(const void *lowering, const qb_problem *problem) {
    const qb_lowering *b = lowering;
    const bool *constant = qb_filter_constants(problem);
    qb_desc in[QB_MAX_INPUTS];
    qb_problem p = *problem;
    p.in = in;
    p.out = qb_device_desc(b, problem->out);
    for (int32_t i = 0; i < p.n_in; i++)
        in[i] = constant[i] ? problem->in[i] : qb_device_desc(b, problem->in[i]);
    for (const qb_tactic *const *t = qb_tactics(); *t; t++)
        if (has(b, *t, p.kind) && qb_tactic_takes(*t, &p, constant)) return true;
    return false;
}
