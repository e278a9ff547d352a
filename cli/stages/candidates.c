/* What a comparison compares: a word of the command line each. */
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "cli/out/engine_file.h"
#include "cli/stages/stages_internal.h"
#include "engine/backends.h"
#include "eval/probe.h"
#include "graph/dequantize.h"

enum { TEXTS_EACH = 4 }; /* most that a candidate keeps */

void qb_candidates_release(qb_candidates *c) {
    for (int32_t i = 0; c->quantized && i < c->n; i++) qb_graph_free(c->quantized[i]);
    for (int32_t i = 0; i < c->n_texts; i++) qb_free(c->text[i]);
    QB_FREE_ALL(c->text, c->quantized, c->of, c->item);
    qb_stage_source_release(&c->plain);
    qb_stage_source_release(&c->recovered);
    qb_graph_free(c->graph);
}

/* Keeps a new text until the end; NULL stays NULL. */
static const char *keep(qb_candidates *c, char *text) { return c->text[c->n_texts++] = text; }

static qb_candidate candidate(const qb_project *project, const char *text, const char *method,
                              const qb_graph *graph, const qb_precision *precision) {
    qb_candidate c = {
        .precision = text, .calibration = method, .graph = graph, .devices = project->devices};
    qb_precision_spec(precision, &c.spec);
    return c;
}

/* What a precision quantizes, loaded when it is needed first. */
static qb_status source_of(qb_ctx *cx, const qb_project *project, const qb_precision *precision,
                           qb_candidates *c, const qb_stage_source **out) {
    qb_stage_source *source = precision->recover ? &c->recovered : &c->plain;
    if (!source->table)
        QB_TRY(qb_stage_source_load(cx, project, c->graph, precision->recover, source));
    *out = source;
    return QB_OK;
}

/* How a quantized row came about, in words. */
static qb_status describe(qb_ctx *cx, const qb_project *project, const qb_precision *precision,
                          const char *method, qb_candidates *c, qb_candidate *item) {
    const qb_quant_options how = qb_stage_quantization(project, precision, method);
    const qb_table *table = precision->recover ? c->recovered.table : c->plain.table;
    item->scheme =
        keep(c, qb_format(cx, "%sranges by %s of %s, %lld samples; activations %s, %s",
                          precision->recover ? "recovered model; " : "", method, table->dataset,
                          (long long)table->samples, qb_scheme_text(how.activations),
                          how.per_tensor_weights ? "one weight scale a tensor"
                                                 : "a weight scale for each output channel"));
    item->prepared = table->preprocess;
    return item->scheme ? QB_OK : cx->code;
}

static qb_status add_int8(qb_ctx *cx, const qb_project *project, const char *text,
                          const qb_precision *precision, qb_candidates *c) {
    qb_graph **quantized = &c->quantized[c->n];
    const char *method;
    const qb_stage_source *source;
    QB_TRY_WRAP(cx, source_of(cx, project, precision, c, &source), "%s", text);
    QB_TRY_WRAP(cx, qb_stage_quantize(cx, project, source, precision, quantized, &method), "%s",
                text);
    qb_candidate *item = &c->item[c->n++];
    *item = candidate(project, text, method, *quantized, precision);
    return describe(cx, project, precision, method, c, item);
}

/* Its graph follows from what is fastest at the data's shapes. */
static qb_status add_best(qb_ctx *cx, const qb_project *project, const char *text,
                          const qb_precision *precision, qb_candidates *c) {
    const qb_stage_source *source;
    QB_TRY(source_of(cx, project, precision, c, &source));
    c->of[c->n] = *precision;
    c->item[c->n++] = candidate(project, text, "", c->graph, precision);
    return QB_OK;
}

static qb_status finalize(qb_ctx *cx, const qb_project *project, const qb_shape *shapes, int32_t i,
                          qb_candidates *c) {
    qb_candidate *item = &c->item[i];
    qb_build_spec spec = item->spec;
    spec.input_shapes = shapes;
    const qb_stage_source *source;
    QB_TRY(source_of(cx, project, &c->of[i], c, &source));
    QB_TRY_WRAP(cx,
                qb_stage_quantize_for(cx, project, source, &c->of[i], &spec, &c->quantized[i],
                                      &item->calibration),
                "%s", item->precision);
    item->graph = c->quantized[i];
    item->spec.float_type = spec.float_type;
    item->spec.no_mixed_precision = spec.no_mixed_precision;
    return describe(cx, project, &c->of[i], item->calibration, c, item);
}

qb_status qb_candidates_finalize(qb_ctx *cx, const qb_project *project,
                                 const qb_loader_options *loader, qb_candidates *c) {
    const int64_t batch = project->batch > 0 ? project->batch : 1;
    for (int32_t i = 0; i < c->n; i++) {
        QB_RELEASED(qb_probe_release) qb_probe probe = {0};
        if (c->of[i].kind != QB_PRECISION_BEST) continue;
        QB_TRY(qb_probe_load(cx, c->graph, loader, batch, &probe));
        QB_TRY(finalize(cx, project, probe.shape, i, c));
    }
    return QB_OK;
}

/* What a row of a file is called: the file's name, or its path where another row has that name. */
static const char *file_title(const qb_candidates *c, const char *path) {
    const char *name = qb_path_base(path);
    for (int32_t i = 0; i < c->n; i++)
        if (strcmp(c->item[i].precision, name) == 0) return path;
    return name;
}

/* An engine file that was built before, such as the last release's: "release.qbe". */
static qb_status add_engine(qb_ctx *cx, const qb_project *project, const char *path,
                            qb_candidates *c) {
    json_t *root;
    QB_TRY(qb_engine_file_json(cx, path, &root));
    const char *method = json_string_value(json_object_get(root, "calibration")),
               *backend =
                   json_string_value(json_object_get(json_object_get(root, "built"), "backend"));
    const size_t inputs = json_array_size(json_object_get(root, "inputs")),
                 outputs = json_array_size(json_object_get(root, "outputs"));
    const char *hash = json_string_value(json_object_get(root, "data_hash"));
    qb_hash data = {0};
    if (hash && !qb_hash_parse(hash, &data)) data = (qb_hash){0};
    const qb_precision precision = {
        .kind = QB_PRECISION_INT8,
        .spec = {.backends = keep(c, qb_strdup(cx, backend ? backend : "cpu")),
                 .device = project->spec.device}};
    const char *prepared = json_string_value(json_object_get(root, "prepared"));
    method = keep(c, qb_strdup(cx, method ? method : ""));
    prepared = prepared ? keep(c, qb_strdup(cx, prepared)) : NULL;
    json_decref(root);
    if (cx->code != QB_OK) return cx->code;
    if (inputs != (size_t)c->graph->n_inputs || outputs != (size_t)c->graph->n_outputs)
        return qb_fail(cx, QB_STATUS_MISMATCH,
                       "%s: expected %d inputs and %d outputs as %s has, got %zu and %zu", path,
                       c->graph->n_inputs, c->graph->n_outputs, project->model, inputs, outputs);
    qb_candidate *item = &c->item[c->n];
    *item = candidate(project, file_title(c, path), method, c->graph, &precision);
    item->file = path;
    item->calibrated_on = data;
    item->prepared = prepared;
    c->n++;
    return QB_OK;
}

/* A model of its own beside the precisions, as others write it: "other.qdq.onnx@ref". */
static qb_status add_model(qb_ctx *cx, const qb_project *project, const char *text,
                           const char *path, qb_precision *precision, qb_candidates *c) {
    const qb_optimize_options options = {.disabled = project->disabled};
    qb_graph **graph = &c->quantized[c->n];
    QB_TRY(qb_onnx_load(cx, path, graph));
    QB_TRY_WRAP(cx, qb_optimize(cx, *graph, &options, NULL), "%s", path);
    precision->kind = qb_graph_is_quantized(*graph) ? QB_PRECISION_INT8 : QB_PRECISION_FP32;
    c->item[c->n] = candidate(project, file_title(c, text), "", *graph, precision);
    c->n++;
    return QB_OK;
}

/* Floats that the backends do not compute in: another reference than the one asked for would be a
 * silent change of every number. */
static qb_status refuse(qb_ctx *cx, const char *text, const qb_precision *precision,
                        const char *refusal, const qb_candidates *c) {
    if (precision->placed) return qb_fail(cx, QB_STATUS_UNSUPPORTED, "%s: %s", text, refusal);
    if (c->n == 0)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED,
                       "%s: %s; and the first precision is what the others are measured against: "
                       "begin with fp32",
                       text, refusal);
    qb_warn(cx, "%s is left out: %s", text, refusal);
    return QB_OK;
}

/* Engine files and models are not looked into. */
qb_status qb_stage_check_precision(qb_ctx *cx, const qb_project *project, const char *text) {
    qb_precision precision = qb_stage_precision(project);
    QB_RELEASED(qb_map_close) qb_map map = {0};
    const char *where = qb_precision_where(text);
    QB_FREED char *path = QB_NEW(cx, qb_format(cx, "%.*s", (int)(where - text), text));
    return qb_precision_names_engine(path) || qb_has_suffix(path, ".onnx")
               ? qb_map_open(cx, path, &map)
               : qb_precision_parse(cx, text, &precision);
}

static qb_status add_precision(qb_ctx *cx, const qb_project *project, const char *text,
                               qb_candidates *c) {
    qb_precision precision = qb_stage_precision(project);
    const char *where = qb_precision_where(text);
    const char *path = QB_NEW(cx, keep(c, qb_format(cx, "%.*s", (int)(where - text), text)));
    const bool is_engine = qb_precision_names_engine(path);
    if (is_engine && *where)
        return qb_fail(cx, QB_STATUS_USAGE,
                       "%s: an engine file runs on what it was built for: leave out '%s', or build "
                       "it anew with --backends",
                       text, where);
    if (is_engine) return add_engine(cx, project, path, c);
    if (qb_has_suffix(path, ".onnx")) {
        QB_TRY(qb_precision_place(cx, text, &precision));
        return add_model(cx, project, text, path, &precision, c);
    }
    QB_TRY(qb_precision_parse(cx, text, &precision));
    if (precision.kind == QB_PRECISION_INT8) return add_int8(cx, project, text, &precision, c);
    if (precision.kind == QB_PRECISION_BEST) return add_best(cx, project, text, &precision, c);
    qb_build_spec spec;
    const char *refusal = qb_precision_spec(&precision, &spec);
    if (refusal) return refuse(cx, text, &precision, refusal, c);
    QB_TRY(qb_stage_note_largest(cx, project, &spec, c->graph));
    c->item[c->n++] = candidate(project, text, "", c->graph, &precision);
    return QB_OK;
}

qb_status qb_candidates_collect(qb_ctx *cx, const qb_project *project, const char *const *precision,
                                int32_t n, qb_candidates *c) {
    bool on_device = false;
    QB_TRY(qb_stage_load(cx, project, NULL, &c->graph, NULL));
    QB_TRY_NEW(cx, c->quantized = qb_alloc(cx, (size_t)n, sizeof(qb_graph *)));
    QB_TRY_NEW(cx, c->item = qb_alloc(cx, (size_t)n, sizeof *c->item));
    QB_TRY_NEW(cx, c->of = qb_alloc(cx, (size_t)n, sizeof *c->of));
    QB_TRY_NEW(cx, c->text = qb_alloc(cx, (size_t)n * TEXTS_EACH, sizeof *c->text));
    for (int32_t i = 0; i < n; i++) QB_TRY(add_precision(cx, project, precision[i], c));
    for (int32_t i = 0; i < c->n; i++)
        on_device = on_device || qb_backends_name_device(c->item[i].spec.backends);
    return qb_stage_check_devices(cx, project, on_device);
}
