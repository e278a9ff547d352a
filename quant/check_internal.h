/* What the rules share. */
#ifndef QB_QUANT_CHECK_INTERNAL_H
#define QB_QUANT_CHECK_INTERNAL_H

#include "graph/op.h"
#include "quant/check.h"

typedef struct qb_lint {
    qb_ctx *cx;
    const qb_graph *graph;
    qb_uses uses;
    const struct qb_rule *rule; /* at work */
    qb_findings *findings;
} qb_lint;

typedef struct qb_rule {
    const char *name;    /* "zero-point" */
    const char *targets; /* names of the targets that it holds for, space separated */
    const char *mend;    /* what to do about a finding */
    /* Looks at one node; -1: once at the graph as a whole. */
    qb_status (*check)(qb_lint *lint, int32_t node);
} qb_rule;

/* The rule whose `check` is the function CHECK. */
#define QB_LINT_RULE(CHECK, NAME, TARGETS, MEND)                                                   \
    const qb_rule qb_rule_##CHECK = {.name = NAME, .targets = TARGETS, .mend = MEND, .check = CHECK}

/* Adds a finding at a node (-1: the model). */
qb_status qb_lint_found(qb_lint *lint, int32_t node, const char *fmt, ...) QB_PRINTF(3, 4);

bool qb_lint_is(const qb_lint *lint, int32_t node, const char *op); /* node -1: false */
bool qb_lint_is_qdq(const qb_lint *lint, int32_t node);
/* Conv, ConvTranspose, Gemm or MatMul. */
bool qb_lint_is_layer(const qb_lint *lint, int32_t node);
/* The node that makes input i; -1 for constants, graph inputs and inputs left out. */
int32_t qb_lint_maker(const qb_lint *lint, int32_t node, int32_t i);
/* The DequantizeLinear node that makes input i, else -1. */
int32_t qb_lint_dequantizer(const qb_lint *lint, int32_t node, int32_t i);
/* Input i as a constant, else NULL. */
const qb_value *qb_lint_constant(const qb_lint *lint, int32_t node, int32_t i);
/* Number of scales of a Q or DQ node with constant float scales, else 0. */
int64_t qb_lint_scales(const qb_lint *lint, int32_t node, const float **scale);
/* The type of a Q or DQ node's quantized values: that of the zero point, of the constant, or of the
 * Q that made them; NONE when it cannot be seen. */
qb_dtype qb_lint_quantized_type(const qb_lint *lint, int32_t node);
/* The zero point's element i of a Q or DQ node; 0 when it has none. */
int32_t qb_lint_zero(const qb_lint *lint, int32_t node, int64_t i);
/* Does a DQ node stand on a constant, directly or behind Q? */
bool qb_lint_is_weight(const qb_lint *lint, int32_t dequantizer);
/* The node that alone reads output 0, which is no graph output; else -1. */
int32_t qb_lint_sole_user(const qb_lint *lint, int32_t node);

#endif
