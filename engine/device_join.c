/* A convolution and the max pool behind it as one step of a device. The pool's result is that of
 * the codes, so that it only takes the largest of a few that no one else reads: where a tactic does
 * that before they are written, neither writing nor reading them takes time. */
#include <math.h>
#include <string.h>

#include "device_internal.h"
#include "plans_internal.h"

static bool reads(const qb_group *group, int32_t value) {
    for (int32_t i = 0; i < group->n_in; i++)
        if (group->in[i] == value) return true;
    return false;
}

/* The only group that reads the value; NULL where there are several, or the caller does. */
static qb_group *only_reader(const qb_builder *b, int32_t value) {
    const int32_t last = b->last_group[value];
    if (last <= b->group || last == b->groups.n) return NULL;
    for (int32_t g = b->group + 1; g < last; g++)
        if (reads(&b->groups.group[g], value)) return NULL;
    return &b->groups.group[last];
}

/* Codes of one scale that stay as they are when the largest of them is taken. */
static bool same_codes(const qb_builder *b, int32_t from, int32_t to) {
    const qb_value *x = &b->graph->values[from], *y = &b->graph->values[to];
    return x->q.n == 1 && y->dtype == x->dtype && qb_same_params(&x->q, &y->q) &&
           !qb_device_is_half(b, from) && !qb_device_is_half(b, to);
}

/* The pool that the group at work could be joined with; NULL: none. */
static qb_group *candidate(const qb_builder *b) {
    const qb_group *conv = &b->groups.group[b->group];
    if (conv->kind != QB_KIND_CONV || conv->in[QB_IN_RESIDUAL] >= 0 ||
        conv->n_nodes == QB_GROUP_NODES || b->graph->values[conv->in[QB_IN_DATA]].q.n != 1)
        return NULL;
    qb_group *pool = only_reader(b, conv->out);
    const bool max = pool && pool->kind == QB_KIND_POOL && pool->n_nodes == 1 &&
                     strcmp(b->graph->nodes[pool->node[0]].op->name, "MaxPool") == 0;
    return max && same_codes(b, conv->out, pool->out) ? pool : NULL;
}

/* Is the group faster than the two that it joins? *why then says so. */
static qb_status is_faster(qb_builder *b, const qb_group *joined, const qb_group *pool,
                           bool *faster, const char **why) {
    const qb_group *conv = &b->groups.group[b->group];
    double one, first, second;
    char text[128];
    *faster = false;
    QB_TRY(qb_device_time(b, joined, false, &one));
    if (isinf(one)) return QB_OK;
    QB_TRY(qb_device_time(b, conv, false, &first));
    QB_TRY(qb_device_time(b, pool, false, &second));
    if (one >= first + second) return QB_OK;
    snprintf(text, sizeof text, "with its pool %.1f us, alone %.1f us and %.1f us", one * 1e6,
             first * 1e6, second * 1e6);
    *faster = true;
    *why = qb_arena_strdup(b->cx, b->engine->arena, text);
    return *why ? QB_OK : b->cx->code;
}

static qb_status decide(qb_builder *b, const qb_group *joined, const qb_group *pool, bool *join,
                        const char **why) {
    const qb_tactic *known = NULL;
    if (b->replay) {
        const int32_t next = b->engine->n_recorded;
        if (next < b->replay->n) known = b->replay->tactic[next];
        *why = "as it was when the file was built";
    } else if (b->hints) {
        const qb_hint *hint = qb_hints_find(b->hints, b->graph->values[joined->out].name);
        if (hint) known = hint->tactic;
        *why = "as it was at the usual shapes";
    } else if (b->may_join && !b->first_tactic) {
        return is_faster(b, joined, pool, join, why);
    }
    *join = known && known->kind == QB_KIND_CONV_POOL;
    return QB_OK;
}

qb_status qb_device_join(qb_builder *b) {
    qb_group *conv = &b->groups.group[b->group], *pool = candidate(b);
    const char *why = NULL;
    bool join;
    b->why_joined = NULL;
    if (!pool) return QB_OK;
    qb_group joined = *conv;
    joined.kind = QB_KIND_CONV_POOL;
    joined.node[joined.n_nodes++] = pool->node[0];
    joined.out = pool->out;
    QB_TRY(decide(b, &joined, pool, &join, &why));
    if (!join) return QB_OK;
    b->why_joined = why;
    *conv = joined;
    *pool = (qb_group){.out = joined.out};
    return QB_OK;
}
