/* Values that stay f32 on a device whose floats are f16: sums of 8-bit products reach beyond
 * binary16, and the scales that bring them back lie below it. The product of both fits again; one
 * with the data's scale alone, and then with the weight's, is not looked for. */
#include <string.h>

#include "device_internal.h"

typedef enum role { ROLE_NONE, ROLE_SUMS, ROLE_REAL_SUMS, ROLE_SCALE } role;

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
    if (is(node, "Cast")) return from == ROLE_SUMS ? ROLE_REAL_SUMS : ROLE_NONE;
    if (qb_build_is_alias_op(node->op->name)) return from;
    return is_joint_scale(graph, node, roles) ? ROLE_SCALE : ROLE_NONE;
}

static void find_roles(const qb_graph *graph, role *roles) {
    for (int32_t i = 0; i < graph->n_nodes; i++) {
        const qb_node *node = &graph->nodes[i];
        if (node->out[0] >= 0) roles[node->out[0]] = made_by(graph, node, roles);
        if (is(node, "DynamicQuantizeLinear") && node->n_out > 1 && node->out[1] >= 0)
            roles[node->out[1]] = ROLE_SCALE;
    }
}

qb_status qb_device_keep_floats(qb_builder *b) {
    const size_t n = (size_t)b->graph->n_values;
    if (b->device_float != QB_DTYPE_F16) return QB_OK;
    role *roles = qb_alloc(b->cx, n, sizeof *roles);
    if (!roles) return b->cx->code;
    find_roles(b->graph, roles);
    b->keeps_f32 = qb_alloc(b->cx, n, sizeof *b->keeps_f32);
    for (size_t v = 0; b->keeps_f32 && v < n; v++)
        b->keeps_f32[v] = roles[v] != ROLE_NONE && b->graph->values[v].dtype == QB_DTYPE_F32;
    qb_free(roles);
    return b->keeps_f32 ? QB_OK : b->cx->code;
}

qb_desc qb_device_float(const qb_builder *b, int32_t value, qb_desc desc) {
    const bool keeps = b->keeps_f32 && value >= 0 && b->keeps_f32[value];
    return keeps ? desc : qb_device_desc(b, desc);
}
