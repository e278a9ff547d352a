/* qb_onnx_parse on any bytes, and what the program does with a graph that it accepts: verify,
 * print, write, read back (the same text), fold, bind, read a part of the same file; and the rules
 * of `check` on the file as written. Reading may take four times the memory that the file has, and
 * a fixed amount. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "alloc_limit.h"
#include "graph/graph.h"
#include "quant/check.h"

/* Of processor time: what an input may take of a clock on the wall depends on who else computes. */
#define SECONDS_LIMIT 5
/* One block, so that an empty file may have an arena's chunk; and all that is alive at once, since
 * copies of bodies may take 4 MiB in any file. */
#define BLOCK_LIMIT(file_size) (4 * (file_size) + ((size_t)1 << 20))
#define LIVE_LIMIT(file_size) (4 * (file_size) + ((size_t)5 << 20))
/* A part whose inputs are not described is read while what leads to them is in memory. */
#define PART_LIVE_LIMIT(file_size) (2 * LIVE_LIMIT(file_size))

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const qb_ctx *cx, bool ok, const char *what) {
    if (ok) return;
    fprintf(stderr, "%s: %s\n", what, cx->message);
    abort();
}

/* A failure says why. */
static void check_failure(const qb_ctx *cx, const char *what) {
    check(cx, cx->code != QB_OK && cx->message[0], what);
    check(cx, cx->code != QB_STATUS_INTERNAL, what);
}

static void round_trip(qb_ctx *cx, const qb_graph *graph) {
    char *bytes = NULL, *before = NULL, *after = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&bytes, &size);
    if (!stream) abort();
    qb_status status = qb_onnx_write(cx, graph, stream);
    fclose(stream);
    check(cx, status == QB_OK, "write");
    qb_graph *again = NULL;
    /* Operators are refused by the file's opset, and the one written may be newer than the one
     * read: nothing else may go wrong. */
    check(cx, qb_onnx_parse(cx, "again", NULL, bytes, size, &again) == QB_OK, "read back");
    check(cx, qb_graph_text(cx, graph, &before) == QB_OK, "text");
    check(cx, qb_graph_text(cx, again, &after) == QB_OK, "text");
    if (strcmp(before, after)) {
        fprintf(stderr, "--- before\n%s--- after\n%s", before, after);
        abort();
    }
    qb_free(before);
    qb_free(after);
    qb_graph_free(again);
    free(bytes);
}

/* Elements of all values whose shapes are known; folding and binding are tried on small ones only.
 */
static double element_count(const qb_graph *graph) {
    double total = 0;
    for (int32_t i = 0; i < graph->n_values; i++)
        if (qb_shape_known(&graph->values[i].shape))
            total += (double)qb_shape_count(&graph->values[i].shape);
    return total;
}

static void bind(qb_ctx *cx, const qb_graph *graph) {
    enum { MAX_INPUTS = 16 };
    qb_shape shapes[MAX_INPUTS];
    if (graph->n_inputs > MAX_INPUTS) return;
    for (int32_t i = 0; i < graph->n_inputs; i++) {
        shapes[i] = graph->values[graph->inputs[i]].shape;
        if (shapes[i].rank < 0) shapes[i] = qb_shape_of(1, 2);
        for (int32_t k = 0; k < shapes[i].rank; k++)
            if (shapes[i].dim[k] < 0) shapes[i].dim[k] = 2;
    }
    qb_graph *bound = NULL;
    if (qb_graph_bind(cx, graph, shapes, &bound) == QB_OK)
        check(cx, qb_graph_verify(cx, bound) == QB_OK, "verify bound");
    else
        check_failure(cx, "bind");
    qb_graph_free(bound);
}

static void lint(const uint8_t *data, size_t size) {
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_graph *graph = NULL;
    int32_t n_targets;
    const qb_target *const *targets = qb_targets(&n_targets);
    if (qb_onnx_parse_as_written(&cx, "fuzz.onnx", data, size, &graph) != QB_OK) {
        check_failure(&cx, "parse as written");
        return;
    }
    for (int32_t i = 0; i < n_targets; i++) {
        qb_findings findings;
        check(&cx, qb_check(&cx, graph, targets[i], &findings) == QB_OK, "check");
        qb_findings_release(&findings);
    }
    qb_graph_free(graph);
}

/* Part of the model: up to a value in its middle, and from one before that. Names that the reader
 * made are none of the file's. */
static void cut(const uint8_t *data, size_t size, const qb_graph *whole) {
    const qb_graph *g = whole;
    if (g->n_nodes < 2) return;
    const qb_node *first = &g->nodes[g->n_nodes / 4], *last = &g->nodes[g->n_nodes / 2];
    if (first->out[0] < 0 || last->out[0] < 0) return;
    const char *input = g->values[first->out[0]].name, *output = g->values[last->out[0]].name;
    const qb_onnx_part parts[] = {
        {.outputs = &output, .n_outputs = 1},
        {.inputs = &input, .n_inputs = 1, .outputs = &output, .n_outputs = 1}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        qb_ctx cx;
        qb_ctx_init(&cx);
        qb_graph *graph = NULL;
        qb_alloc_limit_begin(BLOCK_LIMIT(size), PART_LIVE_LIMIT(size));
        const qb_status status =
            qb_onnx_parse_part(&cx, "part.onnx", data, size, &parts[i], &graph);
        qb_alloc_limit_end();
        if (status != QB_OK) {
            check_failure(&cx, "parse a part");
            continue;
        }
        check(&cx, qb_graph_verify(&cx, graph) == QB_OK, "verify a part");
        round_trip(&cx, graph);
        qb_graph_free(graph);
    }
}

static void read_and_use(const uint8_t *data, size_t size) {
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_graph *graph = NULL;
    qb_alloc_limit_begin(BLOCK_LIMIT(size), LIVE_LIMIT(size));
    const qb_status status = qb_onnx_parse(&cx, "fuzz.onnx", NULL, data, size, &graph);
    qb_alloc_limit_end();
    if (status != QB_OK) {
        check_failure(&cx, "parse");
        if (graph) abort();
        return;
    }
    check(&cx, qb_graph_verify(&cx, graph) == QB_OK, "verify");
    round_trip(&cx, graph);
    cut(data, size, graph);
    if (element_count(graph) < 1 << 14) bind(&cx, graph);
    qb_graph_free(graph);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const clock_t start = clock();
    lint(data, size);
    read_and_use(data, size);
    const double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
    if (seconds <= SECONDS_LIMIT) return 0;
    fprintf(stderr, "%.1f s for one input, limit %d s\n", seconds, SECONDS_LIMIT);
    abort();
}
