/* Any bytes that the ONNX reader accepts go through the optimizer and the fusion: neither may break
 * the graph, change its interface, or fail for another reason than the model's own. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/fusion.h"
#include "graph/passes.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const qb_ctx *cx, bool ok, const char *what) {
    if (ok) return;
    fprintf(stderr, "%s: %s\n", what, cx->message);
    abort();
}

/* Elements of all values whose shapes are known; larger models only cost time. */
static double element_count(const qb_graph *graph) {
    double total = 0;
    for (int32_t i = 0; i < graph->n_values; i++)
        if (qb_shape_known(&graph->values[i].shape))
            total += (double)qb_shape_count(&graph->values[i].shape);
    return total;
}

static void check_interface(const qb_ctx *cx, const qb_graph *before, const qb_graph *after) {
    check(cx, before->n_inputs == after->n_inputs, "inputs");
    check(cx, before->n_outputs == after->n_outputs, "outputs");
    for (int32_t i = 0; i < before->n_outputs; i++)
        check(cx,
              strcmp(before->values[before->outputs[i]].name,
                     after->values[after->outputs[i]].name) == 0,
              "an output's name");
}

static void check_groups(qb_ctx *cx, const qb_graph *graph) {
    qb_groups groups;
    qb_desc in[QB_MAX_INPUTS];
    qb_problem problem;
    check(cx, qb_fuse(cx, graph, &groups) == QB_OK, "fuse");
    int32_t covered = 0, live = 0;
    for (int32_t i = 0; i < graph->n_nodes; i++) live += graph->nodes[i].op != NULL;
    for (int32_t i = 0; i < groups.n; i++) {
        covered += groups.group[i].n_nodes;
        if (groups.group[i].kind == QB_KIND_NODE) continue;
        if (qb_group_problem(cx, graph, &groups.group[i], in, &problem) != QB_OK)
            check(cx, cx->code != QB_STATUS_INTERNAL && cx->message[0], "problem");
    }
    check(cx, covered == live, "each node is in one group");
    qb_groups_release(&groups);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_graph *graph = NULL, *copy = NULL;
    if (qb_onnx_parse(&cx, "fuzz.onnx", NULL, data, size, &graph) != QB_OK) return 0;
    if (element_count(graph) < 1 << 16) {
        check(&cx, qb_graph_clone(&cx, graph, &copy) == QB_OK, "clone");
        if (qb_optimize(&cx, copy, NULL, NULL) == QB_OK) {
            check(&cx, qb_graph_verify(&cx, copy) == QB_OK, "verify");
            check_interface(&cx, graph, copy);
            check_groups(&cx, copy);
        } else {
            check(&cx, cx.code != QB_STATUS_INTERNAL && cx.message[0], "optimize");
        }
        qb_graph_free(copy);
    }
    qb_graph_free(graph);
    return 0;
}
