/* Steps on a device: posing problems to its tactics, the order of copies, and its constants. */
#include <string.h>

#include "base/log.h"
#include "engine/plans_internal.h"
#include "engine/realize/lowering_internal.h"

/* The kernel becomes the group's step. */
static qb_status add_step(qb_lowering *b, const qb_group *group, qb_kernel *kernel) {
    if (kernel->problem.out.channel_total == 0) b->value[group->out].slice_of = -1;
    b->fallback_reason = b->value[group->out].f32_reason;
    qb_status status = qb_lower_add_kernel(b, group, &kernel);
    qb_kernel_free(kernel);
    return status;
}

static qb_status select_step(qb_lowering *b, const qb_group *group, const qb_problem *problem,
                             bool *done) {
    qb_desc in[QB_MAX_INPUTS], slice;
    bool constant[QB_MAX_INPUTS];
    qb_problem p = *problem;
    qb_kernel *kernel;
    qb_candidates f; /* large: what is filled counts */
    f.device = true;
    p.in = in;
    for (int32_t i = 0; i < p.n_in; i++) in[i] = problem->in[i];
    qb_device_problem(b, group, b->value[group->out].is_f16, in, &p, constant);
    const qb_problem *candidates = f.problem;
    if (p.kind == QB_KIND_CONCAT || p.n_in > QB_CANDIDATE_INPUTS) {
        candidates = &p;
        f.n = 1;
    } else {
        bool sliced = b->value[group->out].slice_of >= 0;
        if (sliced) QB_TRY(qb_lower_slice_desc(b, group->out, &slice));
        qb_lower_candidates(b, group, &p, sliced ? &slice : NULL, &f);
    }
    const qb_selection wanted = {.candidates = candidates,
                                 .n_candidates = f.n,
                                 .constant = constant,
                                 .values = group->in,
                                 .on_device = true,
                                 .optional = true};
    QB_TRY(b->selector->select(b, &wanted, &kernel));
    *done = kernel != NULL;
    if (kernel) return add_step(b, group, kernel);
    b->value[group->out].slice_of =
        -1; /* what runs on the host cannot write into the device's memory */
    return QB_OK;
}

/* What the device computes in f16 alone stays there: attention's mask, whose least number may be
 * f16's infinity as well. */
qb_status qb_device_step(qb_lowering *b, const qb_group *group, const qb_problem *problem,
                         bool *done) {
    qb_lowered_value *out = &b->value[group->out];
    QB_TRY(select_step(b, group, problem, done));
    if (*done || !out->f32_reason) return QB_OK;
    out->f16_reason = qb_arena_format(b->cx, b->engine->arena, "%s, but nothing computes it in f32",
                                      out->f32_reason);
    out->f32_reason = NULL;
    return out->f16_reason ? select_step(b, group, problem, done) : b->cx->code;
}

qb_status qb_device_fuse(qb_lowering *b) {
    int32_t n;
    if (!b->plans) QB_TRY(qb_fuse_rolls(b->cx, b->graph, &n));
    QB_TRY(qb_lower_attention(b, qb_device_takes));
    if (b->plans) return QB_OK; /* weights that a plan makes are no other plan's: see below */
    QB_TRY(qb_fuse_products(b->cx, b->graph, qb_device_takes, b, &n));
    if (n > 0) qb_debug(b->cx, "queries, keys and values: %d times as one product", (int)n);
    return QB_OK;
}

qb_status qb_device_fuse_plans(qb_lowering *b, int32_t *n) {
    QB_TRY(qb_device_fuse(b));
    return qb_fuse_products_as(b->cx, b->plans->graph, b->graph, qb_device_takes, b, n);
}

/* A Cast as a copy. A device's alone: the host's copies take integers by way of double, which
 * rounds the largest ones twice. */
static bool problem_of_cast(const qb_lowering *b, const qb_node *node, qb_desc *in,
                            qb_problem *problem) {
    if (strcmp(node->op->name, "Cast") != 0 || b->graph->values[node->in[0]].data) return false;
    in[0] = qb_lower_desc(b, node->in[0], QB_LAYOUT_ROW);
    *problem = (qb_problem){.kind = QB_KIND_COPY,
                            .n_in = 1,
                            .in = in,
                            .group = 1,
                            .scale = 1,
                            .out = qb_lower_desc(b, node->out[0], QB_LAYOUT_ROW)};
    return qb_shape_known(&in[0].shape) && qb_shape_known(&problem->out.shape);
}

qb_status qb_device_node(qb_lowering *b, const qb_group *group, bool *done) {
    const qb_node *node = &b->graph->nodes[group->node[0]];
    qb_desc in[QB_MAX_INPUTS];
    qb_problem problem;
    *done = false;
    b->fallback_reason = "no tactic for this operator";
    if (!problem_of_cast(b, node, in, &problem) && !qb_node_problem(b->graph, node, in, &problem)) {
        if (group->out >= 0)
            b->value[group->out].slice_of = -1; /* the host writes no slice of it */
        return QB_OK;
    }
    qb_group lowered = *group;
    lowered.kind = problem.kind;
    lowered.n_in = problem.n_in;
    return qb_device_step(b, &lowered, &problem, done);
}
