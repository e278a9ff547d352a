/* Values that stay f32 on a device whose floats are f16: sums of 8-bit products reach beyond
 * binary16, and the scales that bring them back lie below it. The product of both fits again. */
#include <string.h>

#include "device_internal.h"

typedef struct finder {
    const qb_graph *graph;
    qb_uses uses;
} finder;

static const qb_node *maker(const finder *f, int32_t value) {
    return value < 0 || f->uses.producer[value] < 0 ? NULL
                                                    : &f->graph->nodes[f->uses.producer[value]];
}

static bool is(const qb_node *node, const char *op) {
    return node && strcmp(node->op->name, op) == 0;
}

static bool is_sum(const finder *f, const qb_node *node) {
    const qb_node *from = is(node, "Cast") ? maker(f, node->in[0]) : NULL;
    return is(from, "MatMulInteger") || is(from, "ConvInteger");
}

static bool is_dynamic_scale(const finder *f, int32_t value) {
    const qb_node *from = maker(f, value);
    return is(from, "DynamicQuantizeLinear") && from->n_out > 1 && from->out[1] == value;
}

/* The data's scale times the weight's. */
static bool is_joint_scale(const finder *f, const qb_node *node) {
    if (!is(node, "Mul")) return false;
    for (int i = 0; i < 2; i++)
        if (is_dynamic_scale(f, node->in[i]) && f->graph->values[node->in[1 - i]].data) return true;
    return false;
}

qb_status qb_device_keep_floats(qb_builder *b) {
    finder f = {.graph = b->graph};
    if (b->device_float != QB_DTYPE_F16) return QB_OK;
    b->keeps_f32 = qb_alloc(b->cx, (size_t)b->graph->n_values, sizeof *b->keeps_f32);
    if (!b->keeps_f32) return b->cx->code;
    QB_TRY(qb_uses_build(b->cx, b->graph, &f.uses));
    for (int32_t v = 0; v < b->graph->n_values; v++) {
        const qb_node *node = maker(&f, v);
        if (b->graph->values[v].dtype != QB_DTYPE_F32 || !node) continue;
        b->keeps_f32[v] = is_sum(&f, node) || is_joint_scale(&f, node) || is_dynamic_scale(&f, v);
    }
    qb_uses_release(&f.uses);
    return QB_OK;
}

qb_desc qb_device_float(const qb_builder *b, int32_t value, qb_desc desc) {
    const bool keeps = b->keeps_f32 && value >= 0 && b->keeps_f32[value];
    return keeps ? desc : qb_device_desc(b, desc);
}
