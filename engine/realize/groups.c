/* From fusion groups to steps. */
#include <string.h>

#include "engine/realize/lowering_internal.h"

/* The kernel for the problem; NULL or UNSUPPORTED when no tactic takes it. */
static qb_status kernel_on_host(qb_lowering *b, const qb_group *group, const qb_problem *p,
                                qb_kernel **out) {
    qb_candidates f; /* large: what is filled counts */
    bool constant[QB_MAX_INPUTS] = {false};
    qb_desc slice;
    f.device = false;
    for (int32_t i = 0; i < group->n_in; i++)
        constant[i] = group->in[i] >= 0 && b->graph->values[group->in[i]].data;
    bool sliced = b->value[group->out].slice_of >= 0;
    if (sliced) QB_TRY(qb_lower_slice_desc(b, group->out, &slice));
    qb_lower_candidates(b, group, p, sliced ? &slice : NULL, &f);
    const qb_selection wanted = {
        .candidates = f.problem, .n_candidates = f.n, .constant = constant, .optional = b->in_bf16};
    return b->selector->select(b, &wanted, out);
}

/* In bf16 where that is asked for and a tactic does it; *out stays NULL where not. */
static qb_status bf16_on_host(qb_lowering *b, const qb_group *group, const qb_problem *p,
                              qb_kernel **out) {
    qb_desc in[QB_MAX_INPUTS];
    qb_problem lowered;
    *out = NULL;
    if (!qb_bf16_problem(b, group, p, in, &lowered)) return QB_OK;
    b->in_bf16 = true;
    const qb_status status = kernel_on_host(b, group, &lowered, out);
    b->in_bf16 = false;
    return status;
}

static qb_status build_on_host(qb_lowering *b, const qb_group *group, const qb_problem *p) {
    QB_RELEASED(qb_kernel_free_at) qb_kernel *kernel = NULL;
    QB_TRY(bf16_on_host(b, group, p, &kernel));
    if (!kernel) QB_TRY(kernel_on_host(b, group, p, &kernel));
    if (kernel->problem.out.channel_total == 0) b->value[group->out].slice_of = -1;
    return qb_lower_add_kernel(b, group, &kernel);
}

/* A product of two computed tensors of quantized values, as tools for static quantization leave
 * attention, is one of the floats that they stand for: the processor's integer products have packed
 * weights. */
static void make_float(const qb_lowering *b, const qb_group *group, const qb_problem *p,
                       qb_desc *in) {
    const bool by_definition = strcmp(b->backends.name[0], "ref") == 0;
    if (p->kind != QB_KIND_MATMUL || by_definition || in[QB_IN_WEIGHT].q.n == 0 ||
        b->graph->values[group->in[QB_IN_WEIGHT]].data)
        return;
    for (int32_t i = QB_IN_DATA; i <= QB_IN_WEIGHT; i++) {
        in[i].dtype = QB_DTYPE_F32;
        in[i].q = (qb_qparams){.axis = -1};
    }
}

static qb_status build_kernel_step(qb_lowering *b, const qb_group *group, const qb_problem *p) {
    bool done = false;
    if (group->n_in > 4)
        return qb_fail(b->cx, QB_STATUS_INTERNAL, "%s: expected at most 4 inputs, got %d",
                       qb_kind_text(p->kind), (int)group->n_in);
    if (b->engine->device) QB_TRY(qb_device_step(b, group, p, &done));
    return done ? QB_OK : build_on_host(b, group, p);
}

/* A node that a tactic runs as well as its operator's eval, if there is such a tactic. */
static qb_status build_node_on_host(qb_lowering *b, const qb_group *group, bool *done) {
    qb_desc in[QB_MAX_INPUTS];
    qb_problem problem;
    bool constant[QB_MAX_INPUTS] = {false};
    QB_RELEASED(qb_kernel_free_at) qb_kernel *kernel = NULL;
    *done = false;
    if (!qb_node_problem(b->graph, &b->graph->nodes[group->node[0]], in, &problem)) return QB_OK;
    qb_group lowered = *group;
    lowered.n_in = problem.n_in;
    for (int32_t i = 0; i < lowered.n_in; i++)
        constant[i] = lowered.in[i] >= 0 && b->graph->values[lowered.in[i]].data;
    qb_candidates f;
    f.n = 0;
    f.device = false;
    if (problem.n_in <= QB_CANDIDATE_INPUTS) qb_lower_candidates(b, &lowered, &problem, NULL, &f);
    const qb_selection wanted = {.candidates = f.n > 0 ? f.problem : &problem,
                                 .n_candidates = f.n > 0 ? f.n : 1,
                                 .constant = constant,
                                 .optional = true};
    QB_TRY(b->selector->select(b, &wanted, &kernel));
    *done = kernel != NULL;
    return *done ? qb_lower_add_kernel(b, &lowered, &kernel) : QB_OK;
}

qb_status qb_lower_group(qb_lowering *b, const qb_group *group) {
    bool done = false;
    b->fallback_reason = NULL;
    if (b->graph->nodes[group->node[0]].op->of_plugin) return qb_lower_plugin(b, group);
    QB_TRY(qb_lower_alias(b, group, &done));
    if (done) return QB_OK;
    if (group->kind == QB_KIND_NODE) {
        if (b->engine->device) QB_TRY(qb_device_node(b, group, &done));
        if (!done) QB_TRY(build_node_on_host(b, group, &done));
        return done ? QB_OK : qb_lower_node(b, group);
    }
    qb_desc in[QB_MAX_INPUTS];
    qb_problem problem;
    QB_TRY(qb_group_problem(b->cx, b->graph, group, in, &problem));
    if (group->kind == QB_KIND_CONCAT) return qb_lower_concat(b, group, &problem);
    if (!b->engine->device) make_float(b, group, &problem, in);
    return build_kernel_step(b, group, &problem);
}
