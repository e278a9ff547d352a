/* A search over the project's model, calibration and data. */
#include <string.h>

#include "base/log.h"
#include "cli/stages/stages_internal.h"
#include "datasets/listed.h"
#include "engine/backends.h"
#include "eval/bench.h"
#include "eval/probe.h"

enum { TYPES_MAX = 2, WAYS_MAX = 8 };

/* What float groups may be in, the plain one first. */
static int32_t float_types(const char *backends, qb_dtype types[TYPES_MAX]) {
    const bool device = qb_backends_name_device(backends);
    types[0] = device ? QB_DTYPE_F16 : QB_DTYPE_F32;
    types[1] = QB_DTYPE_BF16;
    return !device && !qb_engine_no_bf16(backends) ? 2 : 1;
}

static json_t *hash_json(qb_hash hash) {
    char text[33];
    qb_hash_hex(hash, text);
    return json_string(text);
}

static json_t *names_json(const char *const *names) {
    json_t *list = json_array();
    for (; *names; names++) json_array_append_new(list, json_string(*names));
    return list;
}

static json_t *way_json(const qb_space_way *way) {
    const qb_quant_options *how = &way->options;
    return json_pack("{s:s, s:o, s:o, s:s, s:s, s:b}", "name", way->name, "model",
                     hash_json(way->graph->hash), "calibration", hash_json(way->table->data_hash),
                     "activations", qb_scheme_text(how->activations), "weights",
                     how->weights ? how->weights->name : "minmax", "per_tensor_weights",
                     how->per_tensor_weights);
}

static json_t *ways_json(const qb_searched *s) {
    json_t *list = json_array();
    for (int32_t w = 0; w < s->n_ways; w++) json_array_append_new(list, way_json(&s->way[w]));
    return list;
}

/* What the samples are, in their order, and as a calibration tells them; those that cannot be read
 * are left out of scores, too. */
static qb_status content_of(qb_ctx *cx, const qb_loader_options *loader, qb_hash *out,
                            qb_hash *scored) {
    const int64_t n = qb_dataset_count(loader->dataset);
    qb_loader_progress all = {0};
    QB_FREED qb_hash *hash = QB_NEW(cx, qb_alloc(cx, (size_t)n + 1, sizeof *hash));
    for (int64_t i = 0; i < n; i++) {
        QB_TRY(qb_check_cancel(cx));
        if (qb_loader_sample_hash(cx, loader, i, &hash[i]) == QB_OK) {
            qb_hash_sum(&all.sum, hash[i]);
            all.samples++;
        } else if (cx->code == QB_STATUS_NOMEM) {
            return cx->code;
        } else {
            qb_ctx_clear(cx);
        }
    }
    *scored = qb_loader_progress_hash(&all);
    *out = qb_hash_bytes(hash, (size_t)n * sizeof *hash);
    return QB_OK;
}

/* All that measurements depend on. */
static json_t *origin_json(qb_ctx *cx, const qb_project *project, const qb_searched *s,
                           const qb_loader_options *loader) {
    const qb_split part = qb_project_split(project, s->data, true);
    char preparation[1024];
    qb_hash digest, content, scored;
    if (qb_dataset_digest(cx, loader->dataset, &digest) != QB_OK ||
        content_of(cx, loader, &content, &scored) != QB_OK)
        return NULL;
    if (qb_stage_scores_on_calibration(project, s->source->table, s->data, scored))
        qb_warn(
            cx,
            "scored on %s, the data that the ranges were chosen on: the numbers flatter; name a "
            "held-out set (--data, data.evaluation)",
            s->data);
    QB_FREED char *cpu = qb_processor_name(cx);
    return json_pack(
        "{s:s, s:s, s:o, s:o, s:s, s:o, s:o, s:s, s:o, s:o, s:o, s:s, s:i, s:I, s:I, s:i, s:I, "
        "s:s?}",
        "qbench", QB_VERSION, "processor", cpu ? cpu : "", "model", hash_json(s->graph->hash),
        "ways", ways_json(s), "data", s->data, "samples_hash", hash_json(digest), "samples_content",
        hash_json(content), "preparation", qb_loader_text(loader, preparation, sizeof preparation),
        "passes_left_out", names_json(project->disabled), "keep_float",
        names_json(project->keep_float), "activations_16", names_json(project->activations_16),
        "backends", project->spec.backends ? project->spec.backends : "", "threads", qb_threads(cx),
        "batch", (json_int_t)project->batch, "samples", (json_int_t)project->samples, "part",
        part.percent, "seed", (json_int_t)part.seed, "decoder", project->decoder);
}

/* ---- ways ------------------------------------------------------------------------------------ */

static qb_status add_way(qb_ctx *cx, const qb_project *project, const char *text,
                         qb_build_spec *spec, qb_searched *s) {
    qb_precision precision = qb_stage_precision(project);
    qb_stage_source *source = &s->source[s->n_ways];
    qb_space_way *way = &s->way[s->n_ways];
    QB_TRY(qb_precision_parse(cx, text, &precision));
    if (precision.kind != QB_PRECISION_INT8)
        return qb_fail(cx, QB_STATUS_USAGE, "--precision: expected " QB_PRECISION_FORM ", got '%s'",
                       text);
    qb_precision_spec(&precision, spec);
    QB_TRY(qb_stage_source_load(cx, project, s->graph, precision.recover, source));
    qb_stage_check_preparation(cx, project, source->table);
    s->n_ways++;
    QB_TRY(qb_stage_way(cx, project, source, &precision, way));
    way->name = s->name[s->n_ways - 1] = qb_strdup(cx, text);
    return way->name ? QB_OK : cx->code;
}

/* The words between commas. */
static qb_status collect_ways(qb_ctx *cx, const qb_project *project, const char *list,
                              qb_build_spec *spec, qb_searched *s) {
    QB_TRY_NEW(cx, s->source = qb_alloc(cx, WAYS_MAX, sizeof *s->source));
    QB_TRY_NEW(cx, s->way = qb_alloc(cx, WAYS_MAX, sizeof *s->way));
    QB_TRY_NEW(cx, s->name = qb_alloc(cx, WAYS_MAX, sizeof *s->name));
    for (const char *at = list;;) {
        const size_t n = strcspn(at, ",");
        if (s->n_ways == WAYS_MAX)
            return qb_fail(cx, QB_STATUS_USAGE, "--precision: at most %d", WAYS_MAX);
        char *text = QB_NEW(cx, qb_format(cx, "%.*s", (int)n, at));
        const qb_status status = add_way(cx, project, text, spec, s);
        qb_free(text);
        QB_TRY(status);
        if (at[n] == '\0') return QB_OK;
        at += n + 1;
    }
}

/* Latency is of the data's shapes. */
static qb_status create_space(qb_ctx *cx, const qb_project *project, qb_build_spec spec,
                              const qb_loader_options *loader, qb_searched *s) {
    qb_probe probe;
    QB_TRY(qb_probe_load(cx, s->graph, loader, project->batch > 0 ? project->batch : 1, &probe));
    s->shapes = QB_MOVE(probe.shape);
    qb_probe_release(&probe);
    spec.input_shapes = s->shapes;
    spec.check = false; /* the engine that is taken is checked */
    return qb_space_create(cx, s->way, s->n_ways, &spec, &s->space);
}

static qb_status run(qb_ctx *cx, const qb_project *project, const qb_search_settings *settings,
                     const qb_compare_options *compare, qb_searched *s) {
    qb_dtype types[TYPES_MAX];
    qb_search_options options = {.space = s->space,
                                 .reference = s->graph,
                                 .floats = types,
                                 .n_floats = float_types(s->space->spec.backends, types),
                                 .compare = *compare,
                                 .limits = settings->limits,
                                 .time_budget_s = settings->time_budget_s};
    char *path = QB_NEW(cx, qb_project_artifact(cx, project, "search.part"));
    qb_status status = qb_journal_open(cx, path, origin_json(cx, project, s, &compare->loader),
                                       settings->resume, &options.journal);
    if (status == QB_OK && qb_journal_taken(options.journal) > 0)
        qb_info(cx, "goes on from %s: %d results", path, (int)qb_journal_taken(options.journal));
    if (status == QB_OK) status = qb_search_run(cx, &options, &s->search);
    if (status == QB_STATUS_CANCELLED)
        qb_info(cx, "what was measured is in %s: --resume goes on from there", path);
    qb_journal_close(options.journal);
    qb_free(path);
    return status;
}

qb_status qb_stage_search(qb_ctx *cx, const qb_project *project, const qb_search_settings *settings,
                          qb_searched *out) {
    QB_RELEASED(qb_dataset_close_at) qb_dataset *dataset = NULL, *targets = NULL;
    QB_RELEASED(qb_searched_release) qb_searched s = {0};
    qb_build_spec spec;
    qb_candidates c = {0};
    const char *data;
    qb_compare_options compare = {
        .batch = project->batch, .labels = &project->labels, .task = &project->task};
    QB_TRY(qb_stage_load(cx, project, NULL, &s.graph, NULL));
    QB_TRY(collect_ways(cx, project, settings->precisions, &spec, &s));
    c.plain.table = s.source->table; /* which data to score on, where nobody says */
    QB_TRY(qb_compare_data(cx, project, &c, &data));
    QB_TRY_NEW(cx, s.data = qb_strdup(cx, data));
    QB_TRY(qb_stage_data(cx, project, s.graph, data, qb_project_split(project, data, true),
                         &dataset, &compare.loader));
    QB_TRY(qb_compare_truth(cx, project, data, dataset, &targets));
    compare.targets = targets;
    QB_TRY(create_space(cx, project, spec, &compare.loader, &s));
    QB_TRY(run(cx, project, settings, &compare, &s));
    *out = QB_MOVE(s);
    return QB_OK;
}

void qb_searched_release(qb_searched *s) {
    qb_search_release(&s->search);
    qb_space_free(s->space);
    QB_FREE_ALL(s->shapes, s->data);
    for (int32_t w = 0; w < s->n_ways; w++) {
        qb_stage_source_release(&s->source[w]);
        qb_free(s->name[w]);
    }
    QB_FREE_ALL(s->source, s->way, s->name);
    qb_graph_free(s->graph);
    *s = (qb_searched){0};
}
