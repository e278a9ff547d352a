/* qbench build: MODEL.onnx (+ MODEL.calib.h5) -> MODEL.PRECISION.qbe. */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/sign.h"
#include "base/text.h"
#include "cli/out/json.h"
#include "cli/out/steps.h"
#include "cli/pipeline.h"
#include "engine/file.h"
#include "engine/providers.h"

typedef struct options {
    qb_common common;
    qb_project_flags project;
    qb_precision_flags type;
    const char *save_engine, *plan, *sign;
    qb_shape_flags sizes;
    bool steps, version_compatible, hardware_compatible;
} options;

static const qb_opt table[] = {
    QB_COMMON_OPTIONS,
    QB_PROJECT_OPTIONS(options),
    QB_QUANT_OPTIONS(options),
    QB_PRECISION_OPTIONS(options),
    QB_TEXT(options, "saveEngine", save_engine, "FILE",
            "the file to write, whatever its ending (default: MODEL.PRECISION.qbe in -o)"),
    QB_INT(options, "batch", project.batch, "N", 1, 65536,
           "size of a symbolic first dimension (default: 1)", .letter = 'b'),
    QB_SHAPE_OPTIONS(options),
    QB_TUNE_OPTIONS(options),
    QB_TEXT(options, "plan", plan, "FILE",
            "realize this plan ('inspect ENGINE.qbe --plan' prints one): nothing is chosen"),
    QB_TEXT(options, "sign", sign, "KEY",
            "sign the file with this private key (Ed25519, PEM), into FILE.sig"),
    QB_FLAG(options, "steps", steps,
            "print every step with its kernel; on a GPU also times, alternatives and reasons"),
    QB_FLAG(options, "version-compatible", version_compatible,
            "the file loads in other versions of qbench: slower, weights are packed at each load"),
    QB_FLAG(options, "hardware-compatible", hardware_compatible,
            "the file loads on other processors: likewise, and kernels are chosen there"),
    {0},
};

static void defaults(void *opts) { ((options *)opts)->type.precision = QB_PRECISION_DEFAULT; }

/* "int8:minmax+per-tensor" as a part of a file name: letters that shells look at become '-'. */
static char *artifact(qb_ctx *cx, const qb_project *project, const char *precision) {
    char *suffix = qb_format(cx, "%s.qbe", precision);
    for (char *c = suffix; c && *c; c++)
        if (strchr(":+/", *c)) *c = '-';
    char *path = suffix ? qb_project_artifact(cx, project, suffix) : NULL;
    qb_free(suffix);
    return path;
}

/* What computes in which type, and what a GPU left to the processor: never silently. */
static void print_types(const qb_engine *engine) {
    char types[128];
    qb_provider_count n;
    qb_steps_summary(engine, types, sizeof types);
    qb_providers_count(engine, &n);
    printf("types: %s", types);
    if (qb_engine_device(engine) && n.cpu > 0)
        printf("; %d steps of %d run on the CPU, with %d copies", n.cpu, n.cuda + n.cpu, n.copies);
    printf("\n");
}

static qb_status report(qb_ctx *cx, const options *o, const qb_engine *engine, const char *path) {
    const int64_t bytes = qb_file_bytes(path);
    json_t *root = json_pack("{s:s, s:o, s:I, s:s, s:i, s:i}", "schema", "qbench.build/1", "file",
                             qb_json_text(path), "file_bytes", (json_int_t)bytes, "precision",
                             qb_precision_asked(&o->type), "steps", qb_engine_n_steps(engine),
                             "profiles", qb_engine_n_profiles(engine));
    const bool wanted = o->steps || o->common.json;
    json_t *memory = qb_memory_json(engine), *steps = wanted ? qb_steps_json(engine) : NULL;
    json_object_update(root, memory);
    json_decref(memory);
    if (!qb_json_on_stdout(&o->common)) {
        printf("%s: %lld bytes, %d steps", QB_SHOWN(path), (long long)bytes,
               qb_engine_n_steps(engine));
        if (qb_engine_n_profiles(engine) > 0) printf(", %d profiles", qb_engine_n_profiles(engine));
        printf("\n");
        qb_memory_print(engine);
        print_types(engine);
        if (o->steps) qb_steps_print(steps);
    }
    if (steps) json_object_set_new(root, "plan", steps);
    return qb_json_out(cx, &o->common, root);
}

/* Found out before the engine is built: a file that should be signed is not left without. */
static qb_status can_sign(qb_ctx *cx, const char *key, const char *path) {
    QB_FREED char *to = QB_NEW(cx, qb_format(cx, "%s.sig", path));
    QB_TRY(qb_sign_ready(cx, key));
    return qb_file_can_write(cx, to);
}

static qb_status run(qb_ctx *cx, void *opts, const qb_opt_list *arguments) {
    const options *o = opts;
    qb_project_flags flags = o->project;
    QB_TRY(qb_argument_is(cx, arguments, "model", &flags.model));
    const qb_build_settings settings = {.precision = qb_precision_asked(&o->type),
                                        .sizes = &o->sizes,
                                        .version_compatible = o->version_compatible,
                                        .hardware_compatible = o->hardware_compatible};
    QB_RELEASED(qb_project_close) qb_project project = {0};
    QB_RELEASED(qb_built_release) qb_built built = {0};
    QB_TRY(qb_precision_refuse(cx, &qb_command_build, o, &o->type));
    QB_TRY(qb_project_open(cx, &o->common, &flags, true, &project));
    if (o->save_engine && project.out_file)
        return qb_fail(cx, QB_STATUS_USAGE, "-o %s and --saveEngine=%s: name one file to write",
                       project.out_file, o->save_engine);
    QB_FREED char *path = QB_NEW(cx, o->save_engine ? qb_strdup(cx, o->save_engine)
                                                    : artifact(cx, &project, settings.precision));
    QB_TRY(qb_file_can_write(cx, path));
    if (o->sign) QB_TRY(can_sign(cx, o->sign, path));
    project.spec.plan = o->plan;
    QB_TRY(qb_stage_build(cx, &project, &settings, &built));
    QB_TRY(qb_built_save(cx, &project, &settings, &built, path));
    if (o->sign && qb_engine_file_sign(cx, o->sign, path) != QB_OK) {
        remove(path); /* it was asked for with a signature */
        return cx->code;
    }
    return report(cx, o, built.engine, path);
}

const qb_command qb_command_build = {
    .name = "build",
    .usage = "[MODEL] [options]",
    .summary = "write an engine file (MODEL.PRECISION.qbe) that loads at once",
    .notes = "An engine file runs on machines like this one, with this qbench and its\n"
             "libraries; elsewhere it says so, with the command that builds it there.\n"
             "--version-compatible and --hardware-compatible files run there as well. The\n"
             "plan of an engine, edited by hand or not, makes another one with --plan; what\n"
             "of it cannot be had here is an error that names the row. With --minShapes and\n"
             "--maxShapes one engine takes all sizes between them.",
    .example = "qbench build --precision int8\n"
               "qbench build --onnx=net.onnx --int8 --saveEngine=net.engine\n"
               "qbench build net.onnx --precision fp32 --minShapes=x:1x3x64x64 \\\n"
               "    --optShapes=x:1x3x224x224 --maxShapes=x:8x3x512x512\n"
               "qbench bench --loadEngine=squeezenet1.1.int8.qbe",
    .options = table,
    .options_size = sizeof(options),
    .max_arguments = 1,
    .defaults = defaults,
    .run = run,
};
