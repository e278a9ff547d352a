#include "quant/check.h"

#include <stdio.h>
#include <string.h>

#include "quant/check_internal.h"

#define QB_RULE(name) extern const qb_rule qb_rule_##name;
#include "quant/rules.def"

static const qb_rule *const rules[] = {
#define QB_RULE(name) &qb_rule_##name,
#include "quant/rules.def"
};

/* ---- what rules ask ---- */

bool qb_lint_is(const qb_lint *lint, int32_t node, const char *op) {
    if (node < 0) return false;
    const qb_op *row = lint->graph->nodes[node].op;
    return row && strcmp(row->name, op) == 0;
}

bool qb_lint_is_qdq(const qb_lint *lint, int32_t node) {
    return qb_lint_is(lint, node, "QuantizeLinear") || qb_lint_is(lint, node, "DequantizeLinear");
}

bool qb_lint_is_layer(const qb_lint *lint, int32_t node) {
    return node >= 0 && lint->graph->nodes[node].op->qrule == QB_QRULE_COMPUTE;
}

static int32_t input_at(const qb_lint *lint, int32_t node, int32_t i) {
    const qb_node *n = &lint->graph->nodes[node];
    return i < n->n_in ? n->in[i] : -1;
}

int32_t qb_lint_maker(const qb_lint *lint, int32_t node, int32_t i) {
    const int32_t value = input_at(lint, node, i);
    return value < 0 ? -1 : lint->uses.producer[value];
}

int32_t qb_lint_dequantizer(const qb_lint *lint, int32_t node, int32_t i) {
    const int32_t maker = qb_lint_maker(lint, node, i);
    return qb_lint_is(lint, maker, "DequantizeLinear") ? maker : -1;
}

const qb_value *qb_lint_constant(const qb_lint *lint, int32_t node, int32_t i) {
    const int32_t value = input_at(lint, node, i);
    return value >= 0 && lint->graph->values[value].data ? &lint->graph->values[value] : NULL;
}

int64_t qb_lint_scales(const qb_lint *lint, int32_t node, const float **scale) {
    const qb_value *v = qb_lint_constant(lint, node, 1);
    if (!v || v->dtype != QB_DTYPE_F32) return 0;
    *scale = v->data;
    return qb_shape_count(&v->shape);
}

qb_dtype qb_lint_quantized_type(const qb_lint *lint, int32_t node) {
    const qb_value *zero = qb_lint_constant(lint, node, 2);
    if (zero) return zero->dtype;
    if (qb_lint_is(lint, node, "QuantizeLinear"))
        return input_at(lint, node, 2) < 0 ? QB_DTYPE_U8 : QB_DTYPE_NONE;
    const qb_value *data = qb_lint_constant(lint, node, 0);
    if (data) return data->dtype;
    const int32_t maker = qb_lint_maker(lint, node, 0);
    return qb_lint_is(lint, maker, "QuantizeLinear") ? qb_lint_quantized_type(lint, maker)
                                                     : QB_DTYPE_NONE;
}

int32_t qb_lint_zero(const qb_lint *lint, int32_t node, int64_t i) {
    const qb_value *zero = qb_lint_constant(lint, node, 2);
    if (!zero || i >= qb_shape_count(&zero->shape)) return 0;
    switch (zero->dtype) {
    case QB_DTYPE_U8: return ((const uint8_t *)zero->data)[i];
    case QB_DTYPE_S8: return ((const int8_t *)zero->data)[i];
    case QB_DTYPE_U16: return ((const uint16_t *)zero->data)[i];
    case QB_DTYPE_S16: return ((const int16_t *)zero->data)[i];
    case QB_DTYPE_S32: return ((const int32_t *)zero->data)[i];
    default: return 0;
    }
}

bool qb_lint_is_weight(const qb_lint *lint, int32_t dequantizer) {
    const int32_t maker = qb_lint_maker(lint, dequantizer, 0);
    return qb_lint_constant(lint, dequantizer, 0) ||
           (qb_lint_is(lint, maker, "QuantizeLinear") && qb_lint_constant(lint, maker, 0));
}

int32_t qb_lint_sole_user(const qb_lint *lint, int32_t node) {
    const qb_node *n = &lint->graph->nodes[node];
    const int32_t out = n->n_out > 0 ? n->out[0] : -1;
    if (out < 0 || qb_graph_is_output(lint->graph, out) || lint->uses.n_users[out] != 1) return -1;
    return lint->uses.users[out][0];
}

/* ---- findings ---- */

static char *node_text(const qb_lint *lint, int32_t node) {
    if (node < 0) return qb_strdup(lint->cx, "the model");
    const qb_node *n = &lint->graph->nodes[node];
    const char *out = n->n_out > 0 && n->out[0] >= 0 ? lint->graph->values[n->out[0]].name : "";
    return *n->name ? qb_format(lint->cx, "%s '%s'", n->op->name, n->name)
                    : qb_format(lint->cx, "%s -> '%s'", n->op->name, out);
}

qb_status qb_lint_found(qb_lint *lint, int32_t node, const char *fmt, ...) {
    char what[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    qb_findings *f = lint->findings;
    QB_TRY(qb_grow(lint->cx, &f->item, &f->capacity, (size_t)f->n + 1, sizeof *f->item));
    qb_finding *item = &f->item[f->n++];
    *item = (qb_finding){.rule = lint->rule->name, .mend = lint->rule->mend};
    item->node = node_text(lint, node);
    item->what = qb_strdup(lint->cx, what);
    return item->node && item->what ? QB_OK : lint->cx->code;
}

void qb_findings_release(qb_findings *findings) {
    for (int32_t i = 0; i < findings->n; i++)
        QB_FREE_ALL(findings->item[i].node, findings->item[i].what);
    qb_free(findings->item);
    *findings = (qb_findings){0};
}

/* ---- the run ---- */

static bool holds_for(const qb_rule *rule, const qb_target *target) {
    const size_t length = strlen(target->name);
    for (const char *at = rule->targets; (at = strstr(at, target->name)); at += length)
        if ((at == rule->targets || at[-1] == ' ') && (at[length] == ' ' || !at[length]))
            return true;
    return false;
}

static qb_status apply(qb_lint *lint, const qb_rule *rule) {
    lint->rule = rule;
    QB_TRY(rule->check(lint, -1));
    for (int32_t i = 0; i < lint->graph->n_nodes; i++)
        if (lint->graph->nodes[i].op) QB_TRY(rule->check(lint, i));
    return QB_OK;
}

qb_status qb_check(qb_ctx *cx, const qb_graph *graph, const qb_target *target, qb_findings *out) {
    qb_findings findings = {0};
    qb_lint lint = {.cx = cx, .graph = graph, .findings = &findings};
    qb_status status = QB_OK;
    QB_GO(qb_uses_build(cx, graph, &lint.uses));
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++)
        if (holds_for(rules[i], target)) QB_GO(apply(&lint, rules[i]));
    *out = QB_MOVE(findings);
out:
    qb_findings_release(&findings);
    qb_uses_release(&lint.uses);
    return status;
}
