#include "bench_models.h"

#include <stdio.h>

#include "graph/zoo.h"
#include "quant/quant.h"

#define CALIBRATION_RUNS 4

void bench_fill(qb_rng *rng, const qb_desc *desc, void *data) {
    int64_t n = qb_shape_count(&desc->shape);
    if (desc->dtype != QB_DTYPE_F32) return;
    for (int64_t i = 0; i < n; i++) ((float *)data)[i] = (float)qb_rng_normal(rng);
}

qb_status bench_ports_new(qb_ctx *cx, const qb_engine *engine, uint64_t seed, bench_ports *ports) {
    qb_rng rng;
    qb_rng_seed(&rng, seed);
    ports->n_in = qb_engine_n_inputs(engine);
    ports->n_out = qb_engine_n_outputs(engine);
    ports->in = qb_alloc(cx, (size_t)ports->n_in, sizeof *ports->in);
    ports->out = qb_alloc(cx, (size_t)ports->n_out, sizeof *ports->out);
    if (!ports->in || !ports->out) return cx->code;
    for (int32_t i = 0; i < ports->n_in; i++) {
        const qb_desc *desc = qb_engine_input(engine, i);
        ports->in[i] = qb_alloc_aligned(cx, qb_desc_bytes(desc), 1);
        if (!ports->in[i]) return cx->code;
        bench_fill(&rng, desc, ports->in[i]);
    }
    for (int32_t i = 0; i < ports->n_out; i++) {
        ports->out[i] = qb_alloc_aligned(cx, qb_desc_bytes(qb_engine_output(engine, i)), 1);
        if (!ports->out[i]) return cx->code;
    }
    return QB_OK;
}

void bench_ports_free(bench_ports *ports) {
    for (int32_t i = 0; ports->in && i < ports->n_in; i++) qb_free(ports->in[i]);
    for (int32_t i = 0; ports->out && i < ports->n_out; i++) qb_free(ports->out[i]);
    qb_free(ports->in);
    qb_free(ports->out);
    *ports = (bench_ports){0};
}

qb_status bench_zoo(qb_ctx *cx, const char *name, qb_graph **out) {
    const qb_zoo_model *model = qb_zoo_find(name);
    const qb_zoo_options options = {.side = model ? model->side : 0};
    return qb_zoo_build(cx, name, 1, &options, out);
}

static qb_status gather(qb_ctx *cx, void *user, int32_t observed, const char *value,
                        const qb_tensor *tensor) {
    (void)cx, (void)value;
    qb_table *table = user;
    if (tensor->desc.dtype == QB_DTYPE_F32)
        qb_stats_add_tensor(table->entry[observed].stats, tensor, -1);
    return QB_OK;
}

static qb_status observe(qb_ctx *cx, const qb_engine *engine, qb_table *table) {
    qb_context *context = NULL;
    qb_status status = qb_context_create(cx, engine, &context);
    for (int run = 0; run < CALIBRATION_RUNS && status == QB_OK; run++) {
        bench_ports ports = {0};
        status = bench_ports_new(cx, engine, 11 + (uint64_t)run, &ports);
        if (status == QB_OK)
            status = qb_context_observe(cx, context, (const void *const *)ports.in, ports.out,
                                        gather, table);
        bench_ports_free(&ports);
    }
    qb_context_free(context);
    return status;
}

static qb_status fill_table(qb_ctx *cx, const qb_engine *engine, const qb_graph *graph,
                            qb_table *table) {
    QB_TRY(observe(cx, engine, table));
    table->n_methods = 1;
    table->samples = CALIBRATION_RUNS;
    table->model_hash = graph->hash;
    snprintf(table->method[0], sizeof table->method[0], "minmax");
    for (int32_t i = 0; i < table->n_entries; i++) {
        qb_table_entry *entry = &table->entry[i];
        entry->name = qb_strdup(cx, qb_engine_observed_name(engine, i));
        if (!entry->name) return cx->code;
        if (entry->stats->count > 0)
            entry->range[0] = (qb_range){entry->stats->min, entry->stats->max};
    }
    qb_table_sort(table);
    return QB_OK;
}

qb_status bench_quantize(qb_ctx *cx, const qb_graph *graph, qb_graph **out) {
    const qb_build_spec build = {.observable = true};
    const qb_quant_options options = {.activations = QB_SCHEME_U8_AFFINE};
    qb_status status = QB_OK;
    qb_engine *engine = NULL;
    qb_table *table = NULL;
    QB_GO(qb_engine_build(cx, graph, &build, &engine));
    QB_GO(qb_table_create(cx, qb_engine_n_observed(engine), &table));
    QB_GO(fill_table(cx, engine, graph, table));
    QB_GO(qb_quantize(cx, graph, table, &options, out, NULL));
out:
    qb_table_free(table);
    qb_engine_free(engine);
    return status;
}
