#include "run_passes.h"

#include <string.h>

static void assert_unique_node_names(const qb_graph *graph) {
    for (int32_t i = 0; i < graph->n_nodes; i++)
        for (int32_t k = 0; k < i; k++)
            if (graph->nodes[i].op && graph->nodes[k].op)
                assert_string_not_equal(graph->nodes[i].name, graph->nodes[k].name);
}

int32_t optimize(maker *m, const char *only, double tolerance) {
    const char *disabled[MAX_PASSES + 1] = {0};
    int32_t n = 0, k = 0, changes = 0;
    for (; qb_passes[n]; n++)
        if (only && strcmp(qb_passes[n]->name, only) != 0) disabled[k++] = qb_passes[n]->name;
    if (only) assert_int_equal(k, n - 1); /* the pass exists */
    assert_ok(&m->cx, qb_graph_infer(&m->cx, m->graph));
    qb_graph *after;
    qb_optimize_report report;
    assert_ok(&m->cx, qb_graph_clone(&m->cx, m->graph, &after));
    assert_ok(&m->cx, qb_optimize(&m->cx, after, &(qb_optimize_options){disabled}, &report));
    assert_ok(&m->cx, qb_graph_verify(&m->cx, after));
    assert_unique_node_names(after);
    assert_int_equal(report.nodes_after, count_nodes(after));
    for (int32_t i = 0; i < n; i++) changes += report.n_changes[i];
    if (tolerance > 0) assert_same_results(m, m->graph, after, tolerance);
    maker_replace(m, after);
    return changes;
}

int32_t optimize_unchecked(maker *m, const char *only) { return optimize(m, only, 0); }

int32_t make_image(maker *m) { return make_input(m, "x", DIMS(-1, 4, 6, 6)); }

int32_t make_conv(maker *m, const char *name, int32_t x, qb_shape weight, bool bias) {
    int32_t w = make_random(m, "w", weight);
    int32_t b = bias ? make_random(m, "b", DIMS((int)weight.dim[0])) : -1;
    return bias ? NODE(m, "Conv", name, x, w, b) : NODE(m, "Conv", name, x, w);
}

void expect_input(const maker *m, const char *node_output, int32_t i, const char *value) {
    const qb_node *node = node_writing(m, node_output);
    assert_string_equal(m->graph->values[node->in[i]].name, value);
}
