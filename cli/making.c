#include "cli/making.h"

#include "base/file.h"
#include "base/log.h"
#include "cli/bench_inputs.h"
#include "cli/pipeline.h"

/* The graph in the asked-for precision. A Q/DQ model is INT8 by itself. */
static qb_status quantize(qb_ctx *cx, const qb_project *project, const qb_precision *precision,
                          qb_graph **graph, qb_made *made) {
    qb_table *table = NULL;
    qb_graph *quantized;
    qb_status status = QB_OK;
    QB_GO(qb_stage_table(cx, project, *graph, &table));
    const int32_t method = precision->method[0] ? qb_table_method(table, precision->method) : 0;
    if (method < 0)
        QB_GO(qb_fail(cx, QB_STATUS_NOTFOUND,
                      "the calibration has no method '%s': run 'qbench calibrate --method %s'",
                      precision->method, precision->method));
    const qb_quant_options options =
        qb_stage_quantization(project, precision, table->method[method]);
    QB_GO(qb_quantize(cx, *graph, table, &options, &quantized, NULL));
    qb_graph_free(*graph);
    *graph = quantized;
    made->data_hash = table->data_hash;
    made->calibration = qb_strdup(cx, table->method[method]);
    if (!made->calibration) status = cx->code;
out:
    qb_table_free(table);
    return status;
}

static qb_status build(qb_ctx *cx, const qb_project *project, const qb_making *making,
                       const qb_graph *graph, bool half, qb_engine **out) {
    qb_shape *shapes;
    QB_TRY(qb_bench_shapes(cx, graph, making->shapes, project->batch, &shapes));
    const qb_engine_options options = {.backends = project->backends,
                                       .input_shapes = shapes,
                                       .threads = making->threads,
                                       .float_type = half ? QB_DTYPE_F16 : QB_DTYPE_F32,
                                       .timing_cache = project->timing_cache,
                                       .no_mixing = project->no_mixing,
                                       .time_tactics = making->time_tactics};
    const double start = qb_now();
    qb_status status = qb_engine_build(cx, graph, &options, out);
    if (status == QB_OK)
        qb_info(cx, "engine built in %.3g s: %zu bytes, %d threads", qb_now() - start,
                qb_engine_bytes(*out), making->threads);
    qb_free(shapes);
    return status;
}

qb_status qb_stage_engine(qb_ctx *cx, const qb_project *project, const qb_making *making,
                          qb_made *out) {
    qb_precision precision = qb_stage_precision(project);
    qb_graph *graph = NULL;
    qb_made made = {0};
    qb_status status = QB_OK;
    QB_GO(qb_precision_parse(cx, making->precision, &precision));
    const bool half =
        precision.kind != QB_PRECISION_FP32 && qb_backends_name_device(project->backends);
    if (precision.kind == QB_PRECISION_FP16 && !half)
        QB_GO(qb_fail(cx, QB_STATUS_UNSUPPORTED, "fp16: the cpu backend has no fp16 kernels"));
    QB_GO(qb_stage_load(cx, project, &graph, NULL));
    if (precision.kind == QB_PRECISION_INT8)
        QB_GO(quantize(cx, project, &precision, &graph, &made));
    QB_GO(build(cx, project, making, graph, half, &made.engine));
    *out = made;
    made = (qb_made){0};
out:
    qb_made_release(&made);
    qb_graph_free(graph);
    return status;
}

void qb_made_release(qb_made *made) {
    qb_engine_free(made->engine);
    qb_free(made->calibration);
    *made = (qb_made){0};
}

qb_status qb_made_save(qb_ctx *cx, const qb_project *project, const qb_making *making,
                       const qb_made *made, const char *path) {
    const qb_engine_origin origin = {.model = qb_path_base(project->model),
                                     .precision = making->precision,
                                     .calibration = made->calibration,
                                     .data_hash = made->data_hash};
    return qb_engine_save(cx, made->engine, &origin, path);
}
