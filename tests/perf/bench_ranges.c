#include "bench_ranges.h"

#include "graph/passes.h"
#include "graph/zoo.h"

#define SEED 5
#define TOKENS 1000 /* of a vocabulary */

bench_shapes bench_shapes_of(const qb_shape *shape) {
    bench_shapes s;
    for (int i = 0; i < BENCH_INPUTS_MAX; i++) s.of[i] = *shape;
    return s;
}

/* Height and width of the image become symbols. */
static qb_status open_sides(qb_ctx *cx, qb_graph *graph) {
    static const char *const names[] = {"height", "width"};
    for (int i = 0; i < 2; i++) {
        const int64_t symbol = qb_graph_add_symbol(cx, graph, names[i]);
        if (symbol == 0) return cx->code;
        graph->values[graph->inputs[0]].shape.dim[2 + i] = symbol;
    }
    return qb_graph_infer(cx, graph);
}

qb_status bench_range_model(qb_ctx *cx, const char *name, bool int8, bool sides, qb_graph **out) {
    qb_graph *graph, *quantized;
    qb_status status = QB_OK;
    QB_TRY(qb_zoo_build(cx, name, 1, NULL, &graph));
    QB_GO(qb_optimize(cx, graph, NULL, NULL));
    if (int8) {
        QB_GO(bench_quantize(cx, graph, &quantized));
        qb_graph_free(graph);
        graph = quantized;
    }
    if (sides) QB_GO(open_sides(cx, graph));
    *out = graph;
    graph = NULL;
out:
    qb_graph_free(graph);
    return status;
}

qb_status bench_build_ranges(qb_ctx *cx, const qb_graph *graph, const bench_range *ranges,
                             int32_t n, qb_build_spec options, qb_engine **out) {
    qb_profile profiles[BENCH_PROFILES_MAX];
    bench_shapes bounds[BENCH_PROFILES_MAX][3];
    for (int32_t p = 0; p < n; p++) {
        bounds[p][0] = bench_shapes_of(&ranges[p].min);
        bounds[p][1] = bench_shapes_of(&ranges[p].opt);
        bounds[p][2] = bench_shapes_of(&ranges[p].max);
        profiles[p] = (qb_profile){bounds[p][0].of, bounds[p][1].of, bounds[p][2].of};
    }
    options.profiles = profiles;
    options.n_profiles = n;
    return qb_engine_build(cx, graph, &options, out);
}

qb_status bench_build_at(qb_ctx *cx, const qb_graph *graph, const qb_shape *shape,
                         qb_build_spec options, qb_engine **out) {
    const bench_shapes inputs = bench_shapes_of(shape);
    options.input_shapes = inputs.of;
    return qb_engine_build(cx, graph, &options, out);
}

/* The inputs of a BERT: token numbers, the mask with no padding, segments. */
static void draw_tokens(const qb_engine *engine, const bench_ports *ports) {
    qb_rng rng;
    qb_rng_seed(&rng, SEED);
    for (int32_t i = 0; i < ports->n_in; i++) {
        const qb_desc *desc = qb_engine_input(engine, i);
        for (int64_t k = 0; desc->dtype == QB_DTYPE_S64 && k < qb_shape_count(&desc->shape); k++)
            ((int64_t *)ports->in[i])[k] =
                i == 1 ? 1 : (int64_t)qb_rng_below(&rng, i == 0 ? TOKENS : 2);
    }
}

qb_status bench_run_at(qb_ctx *cx, qb_context *context, const qb_shape *shape, bench_ports *ports) {
    const bench_shapes inputs = bench_shapes_of(shape);
    QB_TRY(qb_context_set_shapes(cx, context, inputs.of));
    QB_TRY(bench_ports_new(cx, qb_context_engine(context), SEED, ports));
    draw_tokens(qb_context_engine(context), ports);
    return qb_context_run(cx, context, (const void *const *)ports->in, ports->out);
}
