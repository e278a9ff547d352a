/* qbench bench: how fast a model runs, with trtexec's options and definitions. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "cli/bench/devices.h"
#include "cli/bench/report.h"
#include "cli/bench/trtexec.h"
#include "cli/out/engine_file.h"
#include "cli/out/json.h"
#include "cli/out/steps.h"
#include "cli/pipeline.h"
#include "cli/settings/inputs.h"
#include "cli/settings/trust.h"
#include "kernels/ref.h"

typedef struct options {
    qb_common common;
    qb_project_flags project;
    qb_precision_flags type;
    const char *load_inputs, *percentile, *load_engine, *save_engine, *hardware_level;
    qb_shape_flags sizes;
    const char *export_times, *export_profile, *export_layers, *export_output;
    double warmup, duration, idle;
    int64_t iterations, average, streams, use_profile;
    bool profile, layers, dump_output, dump_profiles, only_build, time_load;
    bool version_compatible, hardware_compatible, no_transfers;
    qb_opt_list trtexec; /* its flags that qbench does not act on */
    qb_trust_flags trust;
} options;

static const qb_opt table[] = {
    QB_COMMON_OPTIONS,
    QB_PROJECT_OPTIONS(options),
    QB_QUANT_OPTIONS(options),
    QB_PRECISION_OPTIONS(options),
    QB_TEXT(options, "loadEngine", load_engine, "FILE", "an engine file instead of a model"),
    QB_TEXT(options, "saveEngine", save_engine, "FILE", "keep the engine in a file"),
    QB_INT(options, "batch", project.batch, "N", 1, 65536,
           "size of a symbolic first dimension (default: 1)"),
    QB_SHAPE_OPTIONS(options),
    QB_TUNE_OPTIONS(options),
    QB_INT(options, "useProfile", use_profile, "N", 0, 15,
           "run by this profile: at --shapes, or at its usual sizes (default: the one that fits "
           "--shapes best; 0)"),
    QB_INT(options, "useOptimizationProfile", use_profile, "N", 0, 15, "the same as --useProfile"),
    QB_FLAG(options, "dumpOptimizationProfile", dump_profiles, "print the profiles"),
    QB_FLAG(options, "skipInference", only_build, "build (and save), measure nothing"),
    QB_FLAG(options, "buildOnly", only_build, "the same as --skipInference"),
    QB_FLAG(options, "version-compatible", version_compatible,
            "the file of --saveEngine loads in other versions, see build"),
    QB_FLAG(options, "versionCompatible", version_compatible, "the same as --version-compatible"),
    QB_FLAG(options, "vc", version_compatible, "the same as --version-compatible"),
    QB_FLAG(options, "hardware-compatible", hardware_compatible,
            "the file of --saveEngine loads on other processors, see build"),
    QB_TEXT(options, "hardwareCompatibilityLevel", hardware_level, "LEVEL",
            "anything but none: the same as --hardware-compatible"),
    QB_FLAG(options, "timeDeserialize", time_load, "print how long --loadEngine takes, twice over"),
    QB_TEXT(options, "loadInputs", load_inputs, "NAME:FILE,...",
            "raw input data; what is not named gets seeded values"),
    QB_INT(options, "iterations", iterations, "N", 1, 1e9,
           "at least this many queries a stream (default: 10)"),
    QB_DOUBLE(options, "warmUp", warmup, "MS", 0, 1e9,
              "milliseconds before anything counts (default: 200)"),
    QB_DOUBLE(options, "duration", duration, "SECONDS", -1, 1e6,
              "measure for at least this long (default: 3); -1: until interrupted"),
    QB_DOUBLE(options, "sleepTime", idle, "MS", 0, 1e6, "pause between queries (default: 0)"),
    QB_DOUBLE(options, "idleTime", idle, "MS", 0, 1e6, "the same as --sleepTime"),
    QB_INT(options, "avgRuns", average, "N", 0, 1e9,
           "queries of one line of the trace (default: 0, no trace)"),
    QB_TEXT(options, "percentile", percentile, "P,...", "percentiles to print (default: 90,95,99)"),
    QB_INT(options, "streams", streams, "N", 1, 1024, "the same as --infStreams"),
    QB_INT(options, "infStreams", streams, "N", 1, 1024,
           "execution contexts at once; --threads are divided among them (default: 1)"),
    QB_FLAG(options, "dumpProfile", profile, "print the time of every step"),
    QB_FLAG(options, "dumpLayerInfo", layers, "print every step with its tactic"),
    QB_FLAG(options, "dumpOutput", dump_output, "print the outputs of one run"),
    QB_TEXT(options, "exportTimes", export_times, "FILE", "times of every query, JSON"),
    QB_TEXT(options, "exportProfile", export_profile, "FILE", "the time of every step, JSON"),
    QB_TEXT(options, "exportLayerInfo", export_layers, "FILE", "every step with its tactic, JSON"),
    QB_TEXT(options, "exportOutput", export_output, "FILE", "the outputs of one run, JSON"),
    QB_TEXT(options, "device", project.build.devices, "N", "the GPU, counted from 0 (default: 0)"),
    QB_TEXT(options, "devices", project.build.devices, "N,...",
            "several GPUs: one engine and --infStreams streams on each, all at once"),
    QB_FLAG(options, "noDataTransfers", no_transfers, "on a GPU: inputs and outputs stay there"),
    QB_TRUST_OPTIONS(options),
    {0},
};

/* trtexec's flags that change nothing, or that qbench has no answer to. */
#define TRTEXEC_HANDLED(NAME)
#define TRTEXEC_ACCEPTED(NAME)                                                                     \
    {.name = #NAME, .type = QB_OPT_NAMED, .offset = offsetof(options, trtexec)},
#define TRTEXEC_REFUSED TRTEXEC_ACCEPTED
#define TRTEXEC(VERDICT, NAME, WHY) TRTEXEC_##VERDICT(NAME)
static const qb_opt foreign[] = {
#include "cli/bench/trtexec.inc"
    /* A switch there: without a number it is taken as one. */
    {.name = "threads", .type = QB_OPT_NAMED, .offset = offsetof(options, trtexec)},
    {0},
};

static void defaults(void *opts) {
    options *o = opts;
    o->type.precision = QB_PRECISION_DEFAULT;
    o->percentile = "90,95,99";
    o->warmup = 200;
    o->duration = 3;
    o->iterations = 10;
    o->streams = 1;
    o->use_profile = -1;
}

/* ---- the engine ---- */

static qb_build_settings settings_of(const options *o) {
    const char *level = o->hardware_level;
    return (qb_build_settings){.precision = qb_precision_asked(&o->type),
                               .sizes = &o->sizes,
                               .version_compatible = o->version_compatible,
                               .hardware_compatible =
                                   o->hardware_compatible || (level && strcmp(level, "none") != 0)};
}

/* What is measured. */
typedef struct subject {
    qb_built built;
    char *name, *precision;
} subject;

/* What the file has decided that --loadEngine names. trtexec passes over the same silently. */
static bool is_decided(const char *option) {
    static const char names[] =
        " model batch precision fp16 bf16 int8 best backends disable-pass activations weights "
        "per-tensor-weights keep-float no-mixing tacticSources timingCacheFile memPoolSize "
        "time-tactics no-check threads max-size version-compatible hardware-compatible "
        "hardwareCompatibilityLevel ";
    char word[64];
    snprintf(word, sizeof word, " %s ", option);
    return strstr(names, word);
}

static const char *tag(const json_t *tags, const char *key) {
    const char *text = json_string_value(json_object_get(tags, key));
    return text ? text : "?"; /* a program that uses the library need not tell */
}

/* One warning that names the options in vain, and what the file holds instead. */
static qb_status warn_decided(qb_ctx *cx, const options *o, const char *model, const json_t *tags) {
    qb_strbuf vain = {0};
    options *usual = QB_NEW(cx, qb_alloc(cx, 1, sizeof *usual));
    defaults(usual);
    if (model && !o->project.model) qb_strbuf_add(&vain, model);
    for (const qb_opt *opt = table; opt->name; opt++)
        if (is_decided(opt->name) && qb_opt_differs(opt, o, usual))
            qb_strbuf_addf(&vain, "%s--%s%s", vain.size > 0 ? ", " : "", opt->name,
                           strcmp(opt->name, "model") == 0 ? " (--onnx)" : "");
    qb_free(usual);
    if (vain.size > 0)
        qb_warn(cx, "--loadEngine: %s holds %s in %s as it was built: without effect: %s",
                o->load_engine, tag(tags, "model"), tag(tags, "precision"), vain.data);
    const bool failed = vain.failed;
    qb_strbuf_release(&vain);
    return failed ? qb_fail(cx, QB_STATUS_NOMEM, "out of memory") : QB_OK;
}

/* The file's own account of itself. */
static qb_status read_tags(qb_ctx *cx, const options *o, const char *model, subject *out) {
    json_t *tags;
    QB_TRY(qb_engine_file_json(cx, o->load_engine, &tags));
    qb_status status = warn_decided(cx, o, model, tags);
    out->precision = qb_strdup(cx, tag(tags, "precision"));
    json_decref(tags);
    return out->precision ? status : cx->code;
}

static qb_status load_engine(qb_ctx *cx, const options *o, const char *model,
                             qb_bench_devices *devices, subject *out) {
    if (o->sizes.profiles.n > 0 || o->save_engine || o->project.build.providers)
        return qb_fail(cx, QB_STATUS_USAGE,
                       "--loadEngine: profiles and providers are fixed in the file, and it is "
                       "there already");
    qb_engine **engine = &out->built.engine;
    for (int times = o->time_load ? 2 : 1; times > 0; times--) {
        const double start = qb_now();
        qb_engine_free(*engine);
        *engine = NULL;
        QB_TRY(qb_engine_load_on(cx, o->load_engine, devices->at.number[0], engine));
        const double device = qb_engine_device_seconds(*engine);
        const double took = qb_now() - start - device;
        const bool print = o->time_load && !qb_json_on_stdout(&o->common);
        if (print && device > 0) printf("Device opened in %.6g sec.\n", device);
        if (print) printf("Engine deserialized in %.6g sec.\n", took);
        qb_info(cx, "engine loaded in %.3g s: %d threads a stream", took,
                qb_engine_threads(*engine));
    }
    QB_TRY(read_tags(cx, o, model, out));
    QB_TRY(qb_bench_devices_load(cx, *engine, o->load_engine, devices));
    out->name = qb_strdup(cx, qb_path_base(o->load_engine));
    return out->name ? QB_OK : cx->code;
}

static qb_status build_engine(qb_ctx *cx, const options *o, const char *model,
                              qb_bench_devices *devices, subject *out) {
    const qb_build_settings settings = settings_of(o);
    const int threads = qb_threads(cx) / (int)o->streams; /* divided among the streams */
    qb_project_flags flags = o->project;
    QB_RELEASED(qb_project_close) qb_project project = {0};
    flags.model = model;
    QB_TRY(qb_precision_refuse(cx, &qb_command_bench, o, &o->type));
    QB_TRY(qb_project_open(cx, &o->common, &flags, false, &project));
    project.spec.threads = threads > 0 ? threads : 1;
    QB_TRY(qb_stage_build(cx, &project, &settings, &out->built));
    if (o->save_engine) QB_TRY(qb_built_save(cx, &project, &settings, &out->built, o->save_engine));
    QB_TRY(qb_bench_devices_load(cx, out->built.engine, o->save_engine, devices));
    QB_TRY_NEW(cx, out->name = qb_strdup(cx, qb_path_base(project.model)));
    QB_TRY_NEW(cx, out->precision = qb_strdup(cx, settings.precision));
    return QB_OK;
}

/* Items of a query: the first dimension of the first input. */
static int64_t items(const qb_engine *engine) {
    if (qb_engine_n_inputs(engine) == 0) return 1;
    const qb_shape *shape = &qb_engine_input(engine, 0)->shape;
    return shape->rank > 0 ? shape->dim[0] : 1;
}

/* ---- outputs ---- */

#define FLOAT_DIGITS 9
#define DOUBLE_DIGITS 17
#define TIME_DIGITS 12 /* nanoseconds of a quarter of an hour, in ms */

/* One number of an output. JSON has neither NaN nor infinities. */
static void write_number(FILE *to, qb_dtype dtype, const void *data, int64_t i) {
    const size_t digits = dtype == QB_DTYPE_F64 ? DOUBLE_DIGITS : FLOAT_DIGITS;
    if (qb_dtype_is_float(dtype)) {
        json_auto_t *value = json_real(qb_number_get(dtype, data, i));
        if (value)
            json_dumpf(value, to, JSON_ENCODE_ANY | JSON_REAL_PRECISION(digits));
        else
            fputs("null", to);
    } else if (dtype == QB_DTYPE_U64) {
        fprintf(to, "%" PRIu64, ((const uint64_t *)data)[i]);
    } else {
        fprintf(to, "%" PRId64,
                dtype == QB_DTYPE_S64 ? ((const int64_t *)data)[i]
                                      : (int64_t)qb_number_get(dtype, data, i));
    }
}

/* Number by number: as one JSON value in memory they would take fifty times their bytes. */
static qb_status write_outputs(qb_ctx *cx, FILE *to, const qb_engine *engine,
                               const qb_context *context, void *const *outputs) {
    const int32_t n = qb_engine_n_outputs(engine);
    fputs(n > 0 ? "[\n" : "[", to);
    for (int32_t i = 0; i < n; i++) {
        const qb_dtype dtype = qb_engine_output(engine, i)->dtype;
        const qb_shape shape = qb_context_output_shape(context, i);
        const int64_t count = qb_shape_count(&shape);
        char text[128];
        json_auto_t *name = qb_json_text(qb_engine_output_name(engine, i));
        if (!name) return qb_fail(cx, QB_STATUS_NOMEM, "out of memory");
        fputs(" {\n  \"name\": ", to);
        json_dumpf(name, to, JSON_ENCODE_ANY);
        fprintf(to, ",\n  \"dtype\": \"%s\",\n  \"dimensions\": \"%s\",\n  \"values\": [",
                qb_dtype_text(dtype), qb_shape_text(&shape, text, sizeof text));
        for (int64_t k = 0; k < count; k++) {
            fputs(k > 0 ? ",\n   " : "\n   ", to);
            write_number(to, dtype, outputs[i], k);
            if (k % 65536 == 0) QB_TRY(qb_check_cancel(cx));
        }
        fprintf(to, "%s]\n }%s\n", count > 0 ? "\n  " : "", i + 1 < n ? "," : "");
    }
    fputs("]", to);
    return QB_OK;
}

static qb_status export_outputs(qb_ctx *cx, const char *path, const qb_engine *engine,
                                const qb_context *context, void *const *outputs) {
    qb_writer writer = {0};
    const bool print = strcmp(path, "-") == 0;
    if (!print) QB_TRY(qb_writer_open(cx, path, &writer));
    qb_status status = write_outputs(cx, print ? stdout : writer.stream, engine, context, outputs);
    fputc('\n', print ? stdout : writer.stream);
    if (!print && status == QB_OK) status = qb_writer_commit(cx, &writer);
    if (!print) qb_writer_abort(&writer);
    return status;
}

static qb_status export_json(qb_ctx *cx, const char *path, json_t *root, int digits) {
    const qb_common to = {.json = path};
    return qb_json_out_digits(cx, &to, root, digits);
}

static qb_status show_outputs(qb_ctx *cx, const options *o, const qb_engine *engine,
                              const void *const *inputs) {
    qb_status status = QB_OK;
    qb_context *context = NULL;
    void **outputs = QB_NEW(cx, qb_outputs_new(cx, engine));
    QB_GO(qb_context_create(cx, engine, &context));
    QB_GO(qb_context_run(cx, context, inputs, outputs));
    if (o->dump_output && !qb_json_on_stdout(&o->common)) {
        printf("\n=== Outputs ===\n");
        QB_GO(export_outputs(cx, "-", engine, context, outputs));
    }
    if (o->export_output) QB_GO(export_outputs(cx, o->export_output, engine, context, outputs));
out:
    qb_context_free(context);
    qb_outputs_free(engine, outputs);
    return status;
}

/* ---- the command ---- */

static qb_status show_profile(qb_ctx *cx, const options *o, const qb_engine *engine,
                              const void *const *inputs, double median_ms) {
    qb_bench_steps steps;
    const int64_t runs = o->iterations < 1000 ? o->iterations : 1000;
    QB_TRY(qb_bench_profile(cx, engine, inputs, runs, &steps));
    json_auto_t *profile = qb_bench_profile_json(engine, &steps, median_ms);
    qb_bench_steps_release(&steps);
    if (o->profile && !qb_json_on_stdout(&o->common)) qb_bench_profile_print(profile);
    if (o->export_profile)
        QB_TRY(export_json(cx, o->export_profile, json_incref(profile), FLOAT_DIGITS));
    return QB_OK;
}

static void print_layers(const qb_engine *engine) {
    json_t *steps = qb_steps_json(engine);
    printf("\n=== Layers ===");
    qb_steps_print(steps);
    json_decref(steps);
}

static qb_status exports(qb_ctx *cx, const options *o, const qb_engine *engine,
                         const void *const *inputs, const qb_bench *bench, double median_ms) {
    if (o->layers && !qb_json_on_stdout(&o->common)) print_layers(engine);
    if (o->export_layers)
        QB_TRY(export_json(cx, o->export_layers, qb_bench_layers_json(engine), FLOAT_DIGITS));
    if (o->export_times)
        QB_TRY(export_json(cx, o->export_times, qb_bench_times_json(bench), TIME_DIGITS));
    if (o->profile || o->export_profile) QB_TRY(show_profile(cx, o, engine, inputs, median_ms));
    if (o->dump_output || o->export_output) QB_TRY(show_outputs(cx, o, engine, inputs));
    return QB_OK;
}

static void print_profiles(const qb_engine *engine) {
    char text[3][128];
    printf("=== Profiles ===\n");
    if (qb_engine_n_profiles(engine) == 0) printf("none: the shapes are fixed\n");
    for (int32_t p = 0; p < qb_engine_n_profiles(engine); p++)
        for (int32_t i = 0; i < qb_engine_n_inputs(engine); i++) {
            const qb_profile *profile = qb_engine_profile(engine, p);
            printf("%d %s: min %s, opt %s, max %s\n", (int)p, qb_engine_input_name(engine, i),
                   qb_shape_text(&profile->min[i], text[0], sizeof text[0]),
                   qb_shape_text(&profile->opt[i], text[1], sizeof text[1]),
                   qb_shape_text(&profile->max[i], text[2], sizeof text[2]));
        }
    printf("\n");
}

static json_t *result(const options *o, const subject *s, const qb_engine *plan,
                      const qb_bench *bench, const qb_bench_summary *summary, int32_t devices) {
    return json_pack("{s:s, s:o, s:s, s:I, s:I, s:i, s:i, s:o, s:o}", "schema", "qbench.bench/1",
                     "model", qb_json_text(s->name), "precision", s->precision, "batch",
                     (json_int_t)items(plan), "queries", (json_int_t)bench->n, "streams",
                     (int)o->streams, "devices", (int)devices, "memory",
                     qb_memory_json(s->built.engine), "summary",
                     qb_bench_summary_json(bench, summary));
}

/* A step that fails does not know whose it is. */
static qb_status of_subject(qb_ctx *cx, const subject *s, qb_status status) {
    return status == QB_OK ? QB_OK : qb_wrap(cx, "%s", s->name);
}

/* Measures one plan of the engine. */
static qb_status measure(qb_ctx *cx, const options *o, const subject *s, const qb_engine *plan,
                         const qb_bench_devices *devices) {
    const int32_t n_devices = qb_devices_count(&devices->at);
    const qb_bench_options settings = {.streams = (int32_t)o->streams,
                                       .others = devices->plan + 1,
                                       .n_others = n_devices - 1,
                                       .warmup_ms = o->warmup,
                                       .duration_s = o->duration,
                                       .min_runs = o->iterations,
                                       .idle_ms = o->idle,
                                       .no_transfers = o->no_transfers};
    const bool print = !qb_json_on_stdout(&o->common);
    void **inputs = NULL;
    qb_bench bench = {0};
    qb_bench_summary summary = {0};
    qb_status status = QB_OK;
    QB_GO(qb_bench_percents(cx, o->percentile, &summary));
    QB_GO(of_subject(cx, s, qb_bench_inputs(cx, plan, o->load_inputs, &inputs)));
    const void *const *given = (const void *const *)inputs;
    if (print) QB_GO(qb_bench_print_engine(cx, s->built.engine));
    QB_GO(of_subject(cx, s, qb_bench_run(cx, plan, given, &settings, &bench)));
    QB_GO(qb_bench_summarize(cx, &bench, items(plan), &summary));
    if (print) {
        const qb_bench_said said = {o->warmup, o->average, settings.streams * n_devices};
        qb_bench_print(stdout, &bench, &summary, &said);
        qb_memory_print(s->built.engine);
    }
    QB_GO(exports(cx, o, plan, given, &bench, o->streams == 1 ? summary.latency.median : NAN));
    QB_GO(qb_json_out(cx, &o->common, result(o, s, plan, &bench, &summary, n_devices)));
out:
    qb_bench_release(&bench);
    if (inputs) qb_bench_inputs_free(plan, inputs);
    return status;
}

/* Before what is written there is measured. */
static qb_status check_files(qb_ctx *cx, const options *o) {
    const char *const files[] = {o->save_engine, o->export_times, o->export_profile,
                                 o->export_layers, o->export_output};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (files[i]) QB_TRY(qb_file_can_write(cx, files[i]));
    return QB_OK;
}

static qb_status run(qb_ctx *cx, void *opts, const qb_opt_list *arguments) {
    const options *o = opts;
    qb_bench_devices devices = {0};
    QB_TRY(qb_trust_apply(cx, &o->trust));
    QB_TRY(qb_devices_parse(cx, o->project.build.devices, &devices.at));
    const char *model = o->project.model;
    QB_TRY(qb_argument_is(cx, arguments, "model", &model));
    subject s = {.name = NULL};
    const qb_engine *plan = NULL;
    qb_status status = QB_OK;
    qb_bench_summary percents = {0};
    QB_GO(qb_trtexec_check(cx, &o->trtexec));
    QB_GO(qb_bench_percents(cx, o->percentile, &percents)); /* before the engine is built */
    QB_GO(check_files(cx, o));
    QB_GO((o->load_engine ? load_engine : build_engine)(cx, o, model, &devices, &s));
    if (o->dump_profiles && !qb_json_on_stdout(&o->common)) print_profiles(s.built.engine);
    const bool ranges = o->load_engine || qb_engine_n_profiles(s.built.engine) > 0;
    const char *shapes = ranges ? o->sizes.shapes : NULL;
    QB_GO(qb_shapes_plan(cx, s.built.engine, shapes, o->use_profile, &plan));
    QB_GO(qb_bench_devices_plan(cx, shapes, o->use_profile, &devices));
    if (!o->only_build) QB_GO(measure(cx, o, &s, plan, &devices));
out:
    qb_engine_release(plan);
    qb_bench_devices_release(&devices);
    qb_built_release(&s.built);
    QB_FREE_ALL(s.name, s.precision);
    return status;
}

const qb_command qb_command_bench = {
    .name = "bench",
    .usage = "[MODEL] [options]",
    .summary = "measure latency and throughput of one engine, as trtexec does",
    .notes = "Options in trtexec's spelling mean what they mean there, and those that change\n"
             "nothing here are accepted (docs/trtexec.md lists all). A query is one batch.",
    .example = "qbench bench --onnx=squeezenet1.1.onnx --shapes=data:8x3x224x224 --duration=5\n"
               "qbench bench --precision int8 --infStreams=2 --saveEngine=fast.qbe\n"
               "qbench bench --providers=cuda --devices=0,1 --infStreams=4\n"
               "qbench bench model.qdq.onnx --dumpProfile --exportTimes=times.json",
    .options = table,
    .also = foreign,
    .options_size = sizeof(options),
    .max_arguments = 1,
    .defaults = defaults,
    .run = run,
};
