/* qbench build: MODEL.onnx (+ MODEL.calib.h5) -> MODEL.PRECISION.qbe. */
#include <string.h>

#include "cli/json_out.h"
#include "cli/making.h"

typedef struct options {
    qb_common common;
    qb_project_flags project;
    const char *precision, *shapes;
    bool time_tactics;
} options;

static const qb_opt table[] = {
    QB_COMMON_OPTIONS,
    QB_PROJECT_OPTIONS(options),
    QB_QUANT_OPTIONS(options),
    {.name = "precision",
     .type = QB_OPT_STRING,
     .offset = offsetof(options, precision),
     .argument = "PRECISION",
     .help = "fp32, or int8[:METHOD][+SCHEME] with the calibration's ranges (default: int8)"},
    {.name = "batch",
     .letter = 'b',
     .type = QB_OPT_INT,
     .offset = offsetof(options, project.batch),
     .argument = "N",
     .help = "size of a symbolic first dimension (default: 1)",
     .min = 1,
     .max = 65536},
    {.name = "shapes",
     .type = QB_OPT_STRING,
     .offset = offsetof(options, shapes),
     .argument = "NAME:AxB,...",
     .help = "sizes of inputs: input:1x3x224x224"},
    {.name = "time-tactics",
     .type = QB_OPT_FLAG,
     .offset = offsetof(options, time_tactics),
     .help = "choose kernels by timing them here: faster, but two builds may differ"},
    {0},
};

static void defaults(void *opts) { ((options *)opts)->precision = "int8"; }

/* "int8:minmax+per-tensor" as a part of a file name: letters that shells look at become '-'. */
static char *artifact(qb_ctx *cx, const qb_project *project, const char *precision) {
    char *suffix = qb_format(cx, "%s.qbe", precision);
    for (char *c = suffix; c && *c; c++)
        if (strchr(":+/", *c)) *c = '-';
    char *path = suffix ? qb_project_artifact(cx, project, suffix) : NULL;
    qb_free(suffix);
    return path;
}

static qb_status report(qb_ctx *cx, const options *o, const qb_engine *engine, const char *path) {
    qb_engine_memory memory;
    qb_engine_memory_of(engine, &memory);
    if (!qb_json_on_stdout(&o->common))
        printf("%s: %d steps, %.1f MiB of weights, %.1f MiB of activations\n", path,
               qb_engine_n_steps(engine), (double)memory.weights / (1 << 20),
               (double)memory.arena / (1 << 20));
    return qb_json_out(cx, &o->common,
                       json_pack("{s:s, s:o, s:s, s:i, s:I, s:I, s:I}", "schema", "qbench.build/1",
                                 "file", qb_json_string(path), "precision", o->precision, "steps",
                                 qb_engine_n_steps(engine), "weights_bytes",
                                 (json_int_t)memory.weights, "arena_bytes",
                                 (json_int_t)memory.arena, "workspace_bytes",
                                 (json_int_t)memory.workspace));
}

static qb_status run(qb_ctx *cx, void *opts, const qb_opt_list *arguments) {
    const options *o = opts;
    qb_project_flags flags = o->project;
    if (arguments->n > 0 && !flags.model) flags.model = arguments->item[0];
    const qb_making making = {.precision = o->precision,
                              .shapes = o->shapes,
                              .threads = qb_threads(cx),
                              .time_tactics = o->time_tactics};
    qb_project project = {0};
    qb_made made = {0};
    char *path = NULL;
    qb_status status = QB_OK;
    QB_GO(qb_project_open(cx, &o->common, &flags, true, &project));
    path = artifact(cx, &project, o->precision);
    if (!path) QB_GO(cx->code);
    QB_GO(qb_stage_engine(cx, &project, &making, &made));
    QB_GO(qb_made_save(cx, &project, &making, &made, path));
    QB_GO(report(cx, o, made.engine, path));
out:
    qb_made_release(&made);
    qb_free(path);
    qb_project_close(&project);
    return status;
}

const qb_command qb_command_build = {
    .name = "build",
    .usage = "[MODEL] [options]",
    .summary = "write an engine file (MODEL.PRECISION.qbe) that loads at once",
    .notes = "An engine file runs on machines like this one, with this qbench and its libraries;\n"
             "elsewhere it says so, with the command that builds it there.",
    .example = "qbench build --precision int8\n"
               "qbench bench --loadEngine=squeezenet1.1.int8.qbe",
    .options = table,
    .options_size = sizeof(options),
    .max_arguments = 1,
    .defaults = defaults,
    .run = run,
};
