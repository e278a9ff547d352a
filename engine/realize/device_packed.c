/* Attention that reads queries, keys and values where one product left them side by side: the Split
 * between has no step, and what it would split stays as it is. */
#include "engine/realize/lowering_internal.h"

/* The problem of the Attention node with what was split as its first input; false where no tactic
 * of the device takes it like that. */
static bool problem_of(const qb_lowering *b, int32_t attention, qb_desc *in, qb_problem *problem) {
    if (attention < 0 || !qb_node_problem(b->graph, &b->graph->nodes[attention], in, problem))
        return false;
    qb_attention_pack(problem, in);
    return qb_device_takes(b, problem);
}

bool qb_device_is_packing(const qb_lowering *b, const qb_group *group) {
    qb_desc in[QB_MAX_INPUTS];
    qb_problem problem;
    return b->packs_heads &&
           problem_of(b, qb_attention_fed_by(b->graph, group->node[0]), in, &problem);
}

/* The group of the Split that feeds the Attention; NULL: there is none. */
static const qb_group *split_of(const qb_lowering *b, int32_t attention) {
    for (int32_t g = 0; g < b->group; g++) {
        const qb_group *group = &b->groups.group[g];
        if (group->kind == QB_KIND_NODE &&
            qb_attention_fed_by(b->graph, group->node[0]) == attention)
            return group;
    }
    return NULL;
}

const qb_group *qb_device_packed(const qb_lowering *b, const qb_group *group, int32_t *packed,
                                 qb_desc *in, qb_problem *problem) {
    qb_desc one[QB_MAX_INPUTS];
    qb_problem lowered;
    const qb_group *split = b->packs_heads ? split_of(b, group->node[0]) : NULL;
    if (!split || !problem_of(b, group->node[0], one, &lowered)) return NULL;
    packed[0] = b->graph->nodes[split->node[0]].in[0];
    packed[1] = packed[2] = -1;
    for (int32_t i = 3; i < lowered.n_in; i++) packed[i] = group->in[i];
    for (int32_t i = 0; i < lowered.n_in; i++) in[i] = one[i];
    *problem = lowered;
    problem->in = in;
    return split;
}
