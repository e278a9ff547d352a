/* Writes a test model: plugin_model gate|plain|sampler OUT.onnx */
#include <stdio.h>
#include <string.h>

#include "../plugin_graph.h"

static qb_status make(qb_ctx *cx, const char *which, qb_graph **out) {
    if (strcmp(which, "sampler") == 0) {
        QB_TRY(plugin_graph_load(cx, "sampler"));
        return plugin_graph_sampler(cx, 3, 8, 5, out);
    }
    QB_TRY(plugin_graph_load(cx, "gate"));
    return plugin_graph_gate(cx, strcmp(which, "plain") == 0, out);
}

int main(int argc, char **argv) {
    qb_ctx cx;
    qb_graph *graph = NULL;
    qb_ctx_init(&cx);
    if (argc != 3) {
        fprintf(stderr, "usage: plugin_model gate|plain|sampler OUT.onnx\n");
        return 2;
    }
    if (make(&cx, argv[1], &graph) == QB_OK) qb_onnx_save(&cx, graph, argv[2]);
    if (cx.code != QB_OK) fprintf(stderr, "plugin_model: %s\n", cx.message);
    qb_graph_free(graph);
    qb_plugins_release(cx.plugins);
    return cx.code != QB_OK;
}
