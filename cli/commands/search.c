/* qbench search: which groups stay in float, by measured accuracy and latency. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "cli/out/json.h"
#include "cli/out/search.h"
#include "engine/file.h"

typedef struct options {
    qb_common common;
    qb_project_flags project;
    const char *precision, *target, *max_latency, *confidence;
    double max_drop, min_agreement, time_budget;
    bool resume, no_figures;
} options;

static const qb_opt table[] = {
    QB_COMMON_OPTIONS,
    QB_PROJECT_OPTIONS(options),
    QB_DATA_OPTIONS(options),
    QB_DECODER_OPTION(options),
    QB_CHECK_OPTION(options),
    QB_QUANT_OPTIONS(options),
    QB_TEXT(options, "precision", precision, "INT8,...",
            "ways to quantize groups in integers: int8[:METHOD][+VARIANT...],... (default: int8)"),
    QB_DOUBLE(options, "max-drop", max_drop, "POINTS", -100, 100,
              "most that the task's first metric may lose (default: 0.5 with labels)"),
    QB_DOUBLE(options, "min-agreement", min_agreement, "PCT", 0, 100,
              "least share of samples with the float model's class"),
    QB_TEXT(options, "max-latency", max_latency, "MS|RATIOx",
            "most milliseconds a run, or times all integers: 1.15x"),
    QB_TEXT(options, "confidence", confidence, "point|pass",
            "pass: the drop's 95 % interval must lie within the limit, too (default: point)"),
    QB_DOUBLE(options, "time-budget", time_budget, "SECONDS", 1, 1e7,
              "nothing new is begun after that (default: no limit)"),
    QB_FLAG(options, "resume", resume,
            "take what an earlier search measured (MODEL.search.part), other limits or not"),
    QB_TEXT(options, "for", target, "TARGET",
            "the Q/DQ model in the form of a runtime: trt, ort-cpu, ort-cuda or openvino"),
    QB_FLAG(options, "no-figures", no_figures, "draw no chart"),
    {0},
};

static void defaults(void *opts) {
    options *o = opts;
    o->precision = "int8";
    o->max_drop = o->min_agreement = NAN;
}

/* ---- limits ---------------------------------------------------------------------------------- */

static qb_status parse_latency(qb_ctx *cx, const char *text, qb_search_limits *limits) {
    char *end;
    if (!text) return QB_OK;
    const double value = strtod(text, &end);
    const bool ratio = strcmp(end, "x") == 0;
    if (end == text || (*end && !ratio) || !(value > 0) || isinf(value))
        return qb_fail(cx, QB_STATUS_USAGE,
                       "--max-latency: expected milliseconds such as 2.5, or times all integers "
                       "such as 1.15x, got '%s'",
                       text);
    *(ratio ? &limits->max_ratio : &limits->max_latency_ms) = value;
    return QB_OK;
}

static qb_status parse_limits(qb_ctx *cx, const options *o, qb_search_limits *out) {
    qb_search_limits l = {.max_drop = o->max_drop,
                          .min_agreement = o->min_agreement,
                          .max_latency_ms = NAN,
                          .max_ratio = NAN};
    QB_TRY(parse_latency(cx, o->max_latency, &l));
    if (o->confidence && strcmp(o->confidence, "point") != 0 && strcmp(o->confidence, "pass") != 0)
        return qb_fail(cx, QB_STATUS_USAGE, "--confidence: expected point or pass, got '%s'",
                       o->confidence);
    l.sure = o->confidence && strcmp(o->confidence, "pass") == 0;
    if (isnan(l.max_drop) && isnan(l.min_agreement) && isnan(l.max_latency_ms) &&
        isnan(l.max_ratio))
        l.max_drop = 0.5;
    *out = l;
    return QB_OK;
}

/* ---- files ----------------------------------------------------------------------------------- */

static qb_status write_engine(qb_ctx *cx, const qb_project *project, const qb_searched *s,
                              const qb_alternative *a, const char *path) {
    const qb_shape_flags sizes = {0};
    const qb_space_way *way = &s->way[a->way];
    const qb_table *ranges = way->table;
    QB_FREED char *precision = qb_format(cx, "best%s", way->name + strlen("int8"));
    const qb_build_settings settings = {.precision = precision, .sizes = &sizes};
    qb_build_spec spec = qb_space_spec(s->space, a);
    QB_RELEASED(qb_graph_free_at) qb_graph *graph = NULL;
    QB_RELEASED(qb_built_release)
    qb_built built = {.data_hash = ranges->data_hash,
                      .calibration = qb_strdup(cx, way->options.method),
                      .prepared = ranges->preprocess ? qb_strdup(cx, ranges->preprocess) : NULL};
    if (!precision || cx->code != QB_OK) return cx->code;
    spec.check = project->spec.check;
    QB_TRY(qb_space_quantize(cx, s->space, a, &graph));
    QB_TRY(qb_engine_build(cx, graph, &spec, &built.engine));
    return qb_built_save(cx, project, &settings, &built, path);
}

static qb_status write_plan(qb_ctx *cx, const char *engine, const char *path) {
    QB_FREED char *text = NULL;
    QB_TRY(qb_engine_file_plan(cx, engine, &text));
    return qb_file_write(cx, path, text, strlen(text));
}

static qb_status write_model(qb_ctx *cx, const qb_searched *s, const qb_alternative *a,
                             const qb_target *target, const char *path) {
    qb_space_way way = s->way[a->way];
    const qb_alternative of_one = {.is_float = a->is_float, .floats = a->floats};
    qb_space space = *s->space;
    QB_RELEASED(qb_graph_free_at) qb_graph *graph = NULL;
    way.options.target = target;
    space.way = &way;
    QB_TRY(qb_space_quantize(cx, &space, &of_one, &graph));
    return qb_onnx_save(cx, graph, path);
}

static qb_status write_files(qb_ctx *cx, const options *o, const qb_project *project,
                             const qb_searched *s, qb_search_files *files) {
    const qb_target *target = NULL;
    if (s->search.picked < 0) return QB_OK;
    const qb_alternative *a = &s->search.point[s->search.picked].a;
    if (o->target) QB_TRY(qb_target_find(cx, o->target, &target));
    QB_TRY_NEW(cx, files->engine = qb_project_artifact(cx, project, "search.qbe"));
    QB_TRY_NEW(cx, files->plan = qb_project_artifact(cx, project, "search.plan.json"));
    QB_TRY_NEW(cx, files->model = qb_project_artifact(cx, project, "search.qdq.onnx"));
    QB_TRY(write_engine(cx, project, s, a, files->engine));
    QB_TRY(write_plan(cx, files->engine, files->plan));
    return write_model(cx, s, a, target, files->model);
}

static qb_status write_record(qb_ctx *cx, const qb_project *project, const qb_searched *s,
                              const qb_search_limits *limits, qb_search_files *files) {
    QB_TRY_NEW(cx, files->record = qb_project_artifact(cx, project, "search.json"));
    const qb_common to = {.json = files->record};
    return qb_json_out(cx, &to, qb_search_json(s, limits, files));
}

/* A chart is no reason to fail: what was measured is written. */
static qb_status draw(qb_ctx *cx, const options *o, const qb_project *project, const qb_searched *s,
                      const qb_search_limits *limits) {
    if (o->no_figures) return QB_OK;
    QB_FREED char *folder = QB_NEW(cx, qb_path_join(cx, project->out_dir, "figures"));
    qb_status status = qb_make_own_dir(cx, folder);
    if (status == QB_OK) status = qb_search_draw(cx, s, limits, folder);
    if (status == QB_STATUS_NOTFOUND) {
        qb_warn(cx, "no chart: %s", cx->message);
        qb_ctx_clear(cx);
        status = QB_OK;
    } else if (status == QB_OK) {
        qb_info(cx, "the chart is %s/search.svg", folder);
    }
    return status;
}

static void files_release(qb_search_files *f) {
    QB_FREE_ALL(f->plan, f->model, f->engine, f->record);
}

static qb_status run(qb_ctx *cx, void *opts, const qb_opt_list *arguments) {
    const options *o = opts;
    qb_project_flags flags = o->project;
    QB_TRY(qb_argument_is(cx, arguments, "model", &flags.model));
    qb_search_settings settings = {
        .precisions = o->precision, .time_budget_s = o->time_budget, .resume = o->resume};
    QB_RELEASED(qb_project_close) qb_project project = {0};
    QB_RELEASED(qb_searched_release) qb_searched searched = {0};
    QB_RELEASED(files_release) qb_search_files files = {0};
    QB_TRY(parse_limits(cx, o, &settings.limits));
    QB_TRY(qb_project_open(cx, &o->common, &flags, false, &project));
    if (project.out_file)
        return qb_fail(cx, QB_STATUS_USAGE,
                       "-o %s: search writes several files, name a folder for them",
                       project.out_file);
    QB_TRY(qb_stage_search(cx, &project, &settings, &searched));
    QB_TRY(write_files(cx, o, &project, &searched, &files));
    QB_TRY(write_record(cx, &project, &searched, &settings.limits, &files));
    if (!qb_json_on_stdout(&o->common)) qb_search_print(&searched, &files);
    QB_TRY(qb_json_out(cx, &o->common, qb_search_json(&searched, &settings.limits, &files)));
    QB_TRY(draw(cx, o, &project, &searched, &settings.limits));
    if (searched.search.picked < 0)
        return qb_fail(cx, QB_STATUS_CHECK, "search: no plan meets the limits");
    return QB_OK;
}

const qb_command qb_command_search = {
    .name = "search",
    .usage = "[MODEL] [options]",
    .summary = "which layers stay in float: the front of accuracy and latency",
    .notes = "Each group of fused layers is measured alone in integers and alone in float;\n"
             "what follows from that is built and measured, accuracy on all samples, latency\n"
             "with the conversions around float groups. The fastest plan within the limits is\n"
             "written as MODEL.search.qbe, MODEL.search.plan.json and MODEL.search.qdq.onnx,\n"
             "all that was measured as MODEL.search.json. With --max-latency alone the most\n"
             "accurate plan within it is picked. Exit code 3: none meets the limits.\n"
             "\n"
             "What was measured is kept in MODEL.search.part: --resume goes on from there,\n"
             "also after a kill, and answers other limits without measuring again what is\n"
             "known. The picked plan is the best of many on these samples: check it on\n"
             "others.",
    .example = "qbench search --max-drop 0.5\n"
               "qbench search net.onnx --data val/ --min-agreement 99 --max-latency 1.1x\n"
               "qbench search --precision int8,int8+recover --max-latency 2.5 --for trt\n"
               "qbench build --precision best --plan net.search.plan.json",
    .options = table,
    .options_size = sizeof(options),
    .max_arguments = 1,
    .defaults = defaults,
    .run = run,
};
