/* The graph for Graphviz: nodes as boxes, fusion groups as frames, values as edges with their
 * types. */
#include <stdio.h>

#include "graph/fusion.h"

/* Text inside double quotes. */
static void put_text(FILE *stream, const char *text) {
    for (; *text; text++) {
        if (*text == '"' || *text == '\\') fputc('\\', stream);
        if ((unsigned char)*text >= ' ' && *text != 0x7f) fputc(*text, stream);
    }
}

static void put_type(FILE *stream, const qb_graph *graph, const qb_value *value) {
    fprintf(stream, "%s ", qb_dtype_text(value->dtype));
    if (value->shape.rank < 0) fputc('?', stream);
    for (int32_t d = 0; d < value->shape.rank; d++) {
        const int64_t dim = value->shape.dim[d];
        if (d > 0) fputc('x', stream);
        if (dim >= 0)
            fprintf(stream, "%lld", (long long)dim);
        else
            put_text(stream, dim <= -2 ? graph->symbols[-2 - dim] : "?");
    }
}

static const char *color_of(const qb_op *op) {
    switch (op->qrule) {
    case QB_QRULE_COMPUTE: return "#cfe2f3";
    case QB_QRULE_SAME_SCALE: return "#eeeeee";
    case QB_QRULE_ELTWISE: return "#d9ead3";
    case QB_QRULE_LUT: return "#fff2cc";
    case QB_QRULE_FLOAT: break;
    }
    return "#f4cccc";
}

static void put_node(FILE *stream, const qb_graph *graph, int32_t index) {
    const qb_node *node = &graph->nodes[index];
    fprintf(stream, "    n%d [label=\"%s", (int)index, node->op->name);
    if (node->name && *node->name) {
        fputs("\\n", stream);
        put_text(stream, node->name);
    }
    fprintf(stream, "\", fillcolor=\"%s\"];\n", color_of(node->op));
}

static void put_group(FILE *stream, const qb_graph *graph, const qb_group *group, int32_t number) {
    if (group->n_nodes > 1) fprintf(stream, "  subgraph cluster_%d {\n", (int)number);
    for (int32_t i = 0; i < group->n_nodes; i++) put_node(stream, graph, group->node[i]);
    if (group->n_nodes > 1) fputs("  }\n", stream);
}

/* An input or output of the graph. */
static void put_port(FILE *stream, const qb_graph *graph, const char *prefix, int32_t value) {
    fprintf(stream, "  %s%d [shape=ellipse, fillcolor=white, label=\"", prefix, (int)value);
    put_text(stream, graph->values[value].name);
    fputs("\"];\n", stream);
}

/* Integers that stand for floats are drawn bold. */
static void end_edge(FILE *stream, const qb_graph *graph, int32_t value) {
    fputs(" [label=\"", stream);
    put_type(stream, graph, &graph->values[value]);
    fprintf(stream, "\"%s];\n", graph->values[value].q.n > 0 ? ", penwidth=2" : "");
}

static void put_source(FILE *stream, const qb_uses *uses, int32_t value) {
    if (uses->producer[value] >= 0)
        fprintf(stream, "  n%d -> ", (int)uses->producer[value]);
    else
        fprintf(stream, "  in%d -> ", (int)value);
}

static void put_edges(FILE *stream, const qb_graph *graph, const qb_uses *uses) {
    for (int32_t i = 0; i < graph->n_nodes; i++) {
        const qb_node *node = &graph->nodes[i];
        for (int32_t k = 0; node->op && k < node->n_in; k++) {
            if (node->in[k] < 0 || graph->values[node->in[k]].data) continue;
            put_source(stream, uses, node->in[k]);
            fprintf(stream, "n%d", (int)i);
            end_edge(stream, graph, node->in[k]);
        }
    }
    for (int32_t i = 0; i < graph->n_outputs; i++) {
        const int32_t value = graph->outputs[i];
        if (graph->values[value].data) continue;
        put_source(stream, uses, value);
        fprintf(stream, "out%d", (int)value);
        end_edge(stream, graph, value);
    }
}

qb_status qb_graph_dot(qb_ctx *cx, const qb_graph *graph, FILE *stream) {
    QB_RELEASED(qb_groups_release) qb_groups groups = {0};
    QB_RELEASED(qb_uses_release) qb_uses uses = {0};
    QB_TRY(qb_fuse(cx, graph, &groups));
    QB_TRY(qb_uses_build(cx, graph, &uses));
    fputs("digraph \"", stream);
    put_text(stream, graph->name ? graph->name : "");
    fputs("\" {\n  node [shape=box, style=filled, fontname=sans, fontsize=10];\n"
          "  edge [fontname=sans, fontsize=8];\n",
          stream);
    for (int32_t i = 0; i < graph->n_inputs; i++) put_port(stream, graph, "in", graph->inputs[i]);
    for (int32_t i = 0; i < graph->n_outputs; i++)
        put_port(stream, graph, "out", graph->outputs[i]);
    for (int32_t i = 0; i < groups.n; i++) put_group(stream, graph, &groups.group[i], i);
    put_edges(stream, graph, &uses);
    fputs("}\n", stream);
    return QB_OK;
}
