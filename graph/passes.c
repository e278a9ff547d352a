#include "graph/passes_internal.h"

#include <string.h>

#define MAX_ROUNDS 16

const qb_pass *const qb_passes[] = {
#define X(identifier) &qb_pass_##identifier,
#include "graph/passes.def"
    NULL};

enum { N_PASSES = sizeof qb_passes / sizeof *qb_passes - 1 };
_Static_assert(N_PASSES <= sizeof((qb_optimize_report *)0)->n_changes / sizeof(int32_t),
               "the report has a counter for each pass");

static bool is_disabled(const qb_optimize_options *options, const char *name) {
    if (!options || !options->disabled) return false;
    for (const char *const *d = options->disabled; *d; d++)
        if (strcmp(*d, name) == 0) return true;
    return false;
}

/* A misspelt name would silently leave the pass on. */
static qb_status check_disabled(qb_ctx *cx, const qb_optimize_options *options) {
    if (!options || !options->disabled) return QB_OK;
    for (const char *const *d = options->disabled; *d; d++) {
        bool known = false;
        for (int32_t i = 0; i < N_PASSES; i++) known = known || strcmp(qb_passes[i]->name, *d) == 0;
        if (!known) return qb_fail(cx, QB_STATUS_INVALID, "no optimizer pass '%s'", *d);
    }
    return QB_OK;
}

static int32_t count_live(const qb_graph *graph) {
    int32_t n = 0;
    for (int32_t i = 0; i < graph->n_nodes; i++) n += graph->nodes[i].op != NULL;
    return n;
}

static qb_status run_pass(qb_ctx *cx, qb_graph *graph, const qb_pass *pass, int32_t *n) {
    *n = 0;
    QB_TRY(pass->run ? pass->run(cx, graph, n) : qb_rewrite_each(cx, graph, pass->match, n));
    if (*n == 0) return QB_OK;
    QB_TRY(qb_graph_sweep(cx, graph));
    QB_TRY(qb_graph_infer(cx, graph));
    return qb_graph_verify(cx, graph);
}

qb_status qb_optimize(qb_ctx *cx, qb_graph *graph, const qb_optimize_options *options,
                      qb_optimize_report *report) {
    qb_optimize_report local = {.nodes_before = count_live(graph)};
    QB_TRY(check_disabled(cx, options));
    QB_TRY_WRAP(cx, qb_graph_infer(cx, graph), "optimize");
    for (int32_t round = 0, changed = 1; changed && round < MAX_ROUNDS; round++) {
        changed = 0;
        for (int32_t i = 0; i < N_PASSES; i++) {
            int32_t n = 0;
            QB_TRY(qb_check_cancel(cx));
            if (is_disabled(options, qb_passes[i]->name)) continue;
            QB_TRY_WRAP(cx, run_pass(cx, graph, qb_passes[i], &n), "optimizer pass %s",
                        qb_passes[i]->name);
            local.n_changes[i] += n;
            changed |= n != 0;
        }
    }
    local.nodes_after = count_live(graph);
    if (report) *report = local;
    return QB_OK;
}
