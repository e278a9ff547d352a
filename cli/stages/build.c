#include "cli/stages/build.h"

#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/shell.h"
#include "cli/settings/inputs.h"
#include "cli/stages/stages_internal.h"
#include "eval/probe.h"
#include "graph/plugin.h"

qb_status qb_build_quantize(qb_ctx *cx, const qb_project *project, const qb_precision *precision,
                            qb_build_spec *spec, qb_graph **graph, qb_built *built) {
    QB_RELEASED(qb_stage_source_release) qb_stage_source source = {0};
    qb_graph *quantized;
    const char *method;
    QB_TRY(qb_stage_source_load(cx, project, *graph, precision->recover, &source));
    QB_TRY(qb_stage_quantize_for(cx, project, &source, precision, spec, &quantized, &method));
    qb_graph_free(*graph);
    *graph = quantized;
    qb_stage_check_preparation(cx, project, source.table);
    built->data_hash = source.table->data_hash;
    QB_TRY_NEW(cx, built->calibration = qb_strdup(cx, method));
    if (source.table->preprocess)
        QB_TRY_NEW(cx, built->prepared = qb_strdup(cx, source.table->preprocess));
    return QB_OK;
}

qb_status qb_build_sizes_parse(qb_ctx *cx, const qb_project *project, const qb_shape_flags *flags,
                               const qb_graph *graph, qb_build_spec *spec, qb_build_sizes *out) {
    QB_TRY(qb_probe_check(cx, graph, project->batch));
    QB_TRY(qb_profiles_parse(cx, flags, graph, project->batch, &out->profiles, &spec->n_profiles));
    if (!out->profiles)
        QB_TRY(qb_bench_shapes(cx, graph, flags->shapes, project->batch, &out->shapes));
    spec->profiles = out->profiles;
    spec->input_shapes = out->shapes;
    return QB_OK;
}

void qb_build_sizes_release(qb_build_sizes *sizes) {
    QB_FREE_ALL(sizes->profiles, sizes->shapes);
    *sizes = (qb_build_sizes){0};
}

/* Steps that the device computes in f32 although its floats are f16. */
static void tell_f32(qb_ctx *cx, const qb_engine *engine) {
    int n = 0;
    const char *reason = NULL;
    for (int32_t i = 0; i < qb_engine_n_steps(engine); i++) {
        qb_step_info step;
        qb_engine_step(engine, i, &step);
        if (!step.on_device || !step.fallback_reason) continue;
        if (n++ == 0) reason = step.fallback_reason;
    }
    if (n > 0) qb_info(cx, "%d steps stay in FP32: %s%s", n, reason, n > 1 ? ", ..." : "");
}

qb_status qb_build_graph(qb_ctx *cx, qb_build_spec spec, const qb_graph *graph, qb_engine **out) {
    const double start = qb_now();
    QB_TRY(qb_engine_build(cx, graph, &spec, out));
    const double device = qb_engine_device_seconds(*out);
    qb_info(cx, "Engine built in %.3g sec.: %zu bytes in memory, %d threads",
            qb_now() - start - device, qb_engine_bytes(*out), qb_engine_threads(*out));
    tell_f32(cx, *out);
    if (device > 0) qb_info(cx, "device opened in %.3g s", device);
    return QB_OK;
}

const char *qb_precision_asked(const qb_precision_flags *flags) {
    if (flags->best || (flags->int8 && (flags->fp16 || flags->bf16))) return "best";
    return flags->int8 ? "int8" : flags->bf16 ? "bf16" : flags->fp16 ? "fp16" : flags->precision;
}

qb_status qb_precision_refuse(qb_ctx *cx, const qb_command *command, const void *options,
                              const qb_precision_flags *flags) {
    static const char *const of_type[] = {"precision", NULL}, *const of_integers[] = {
                                                                  QB_QUANT_OPTION_NAMES, NULL};
    const char *asked = qb_precision_asked(flags);
    qb_precision parsed = {0};
    if (strcmp(asked, flags->precision) != 0) {
        char *why = QB_NEW(cx, qb_format(cx, "the switches say %s", asked));
        const qb_status status = qb_options_refuse(cx, command, options, of_type, why);
        qb_free(why);
        QB_TRY(status);
    }
    QB_TRY(qb_precision_parse(cx, asked, &parsed));
    if (qb_precision_is_quantized(&parsed)) return QB_OK;
    return qb_options_refuse(cx, command, options, of_integers,
                             "the engine is to hold no integers");
}

void qb_built_release(qb_built *built) {
    qb_engine_free(built->engine);
    QB_FREE_ALL(built->calibration, built->prepared);
    *built = (qb_built){0};
}

/* ---- memory ---- */

static double mib(size_t bytes) { return (double)bytes / (1 << 20); }

void qb_memory_print(const qb_engine *engine) {
    qb_engine_memory m;
    qb_engine_memory_of(engine, &m);
    printf("memory: %.1f MiB of weights, %.1f MiB of activations, %.1f MiB of workspace; "
           "%.1f MiB at the peak of this process\n",
           mib(m.weights), mib(m.arena), mib(m.workspace), mib(qb_peak_rss()));
    if (m.lower_bound > 0)
        printf("activations: %.1f MiB planned, %.3f times the most that live at once\n",
               mib(m.planned), (double)m.planned / (double)m.lower_bound);
}

json_t *qb_memory_json(const qb_engine *engine) {
    qb_engine_memory m;
    qb_engine_memory_of(engine, &m);
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "engine_bytes",
                     (json_int_t)qb_engine_bytes(engine), "weights_bytes", (json_int_t)m.weights,
                     "arena_bytes", (json_int_t)m.arena, "workspace_bytes", (json_int_t)m.workspace,
                     "planned_bytes", (json_int_t)m.planned, "lower_bound_bytes",
                     (json_int_t)m.lower_bound, "peak_bytes", (json_int_t)qb_peak_rss());
}

/* ---- files ---- */

static void add_text(qb_strbuf *out, const char *name, const char *value) {
    if (!value) return;
    qb_strbuf_addf(out, " --%s=", name);
    qb_shell_add_word(out, value);
}

static void add_flag(qb_strbuf *out, const char *name, bool given) {
    if (given) qb_strbuf_addf(out, " --%s", name);
}

/* Of an integer engine: what the project says, for the precision's text may leave it open. */
static void add_quantization(qb_strbuf *out, const qb_project *project) {
    add_text(out, "activations", qb_scheme_text(project->activations));
    add_text(out, "weights", project->weights ? project->weights->name : NULL);
    add_flag(out, project->per_tensor_weights ? "per-tensor-weights" : "no-per-tensor-weights",
             true);
    for (int i = 0; project->keep_float[i]; i++)
        add_text(out, "keep-float", project->keep_float[i]);
    for (int i = 0; project->activations_16[i]; i++)
        add_text(out, "activations-16", project->activations_16[i]);
}

/* What `qbench build` needs beside model and precision to make the same engine. */
static char *options_of(qb_ctx *cx, const qb_project *project, const qb_build_settings *settings,
                        const qb_built *built) {
    const qb_shape_flags *sizes = settings->sizes;
    QB_RELEASED(qb_strbuf_release) qb_strbuf out = {0};
    qb_strbuf_addf(&out, " --threads=%d", qb_engine_threads(built->engine));
    if (project->batch > 1) qb_strbuf_addf(&out, " --batch=%lld", (long long)project->batch);
    if (sizes->profiles.n == 0) add_text(&out, "shapes", sizes->shapes);
    for (int i = 0; i < sizes->profiles.n; i += 2)
        add_text(&out, sizes->profiles.item[i], sizes->profiles.item[i + 1]);
    add_text(&out, "memPoolSize", project->build.pools);
    add_text(&out, "backends", project->spec.backends);
    for (int i = 0; project->disabled[i]; i++) add_text(&out, "disable-pass", project->disabled[i]);
    if (built->calibration) add_quantization(&out, project);
    for (int32_t i = 0; i < qb_plugins_count(cx->plugins); i++)
        add_text(&out, "plugin", qb_plugins_at(cx->plugins, i)->path);
    add_flag(&out, "no-mixing", project->spec.no_mixed_precision);
    add_text(&out, "tacticSources", project->build.tactic_sources);
    add_text(&out, "max-size", project->build.max_sizes);
    add_flag(&out, "time-tactics", project->spec.time_tactics);
    add_flag(&out, "no-check", !project->spec.check);
    add_flag(&out, "version-compatible", settings->version_compatible);
    add_flag(&out, "hardware-compatible", settings->hardware_compatible);
    return out.failed ? NULL : qb_strdup(cx, out.size > 0 ? out.data + 1 : "");
}

qb_status qb_built_save(qb_ctx *cx, const qb_project *project, const qb_build_settings *settings,
                        const qb_built *built, const char *path) {
    if (qb_path_is_same(path, project->model))
        return qb_fail(cx, QB_STATUS_USAGE,
                       "%s is the model: the engine would replace it, name another file", path);
    QB_FREED char *options = options_of(cx, project, settings, built);
    if (!options) return qb_fail(cx, QB_STATUS_NOMEM, "out of memory");
    const qb_engine_origin origin = {.model = qb_path_base(project->model),
                                     .precision = settings->precision,
                                     .calibration = built->calibration,
                                     .data_hash = built->data_hash,
                                     .prepared = built->prepared,
                                     .options = options,
                                     .version_compatible = settings->version_compatible,
                                     .hardware_compatible = settings->hardware_compatible};
    return qb_engine_save(cx, built->engine, &origin, path);
}
