/* qbench compare: engines side by side -> table, compare.json, figures, report.html. */
#include <string.h>

#include "base/file.h"
#include "base/text.h"
#include "cli/calib/ranks.h"
#include "cli/out/json.h"
#include "cli/out/results.h"
#include "cli/pipeline.h"
#include "cli/settings/precision.h"
#include "cli/settings/trust.h"
#include "eval/part.h"

typedef struct options {
    qb_common common;
    qb_project_flags project;
    double duration;
    const char *batches, *shard;
    int64_t thumbnail;
    bool layers, no_figures;
    qb_trust_flags trust;
} options;

static const qb_opt table[] = {
    QB_COMMON_OPTIONS,
    QB_PROJECT_OPTIONS(options),
    QB_DATA_OPTIONS(options),
    QB_DECODER_OPTION(options),
    QB_DEVICES_OPTION(options),
    QB_CHECK_OPTION(options),
    QB_QUANT_OPTIONS(options),
    QB_TEXT(options, "targets", project.targets, "PATH",
            "images that those of --data should become, in the same order: PSNR (default: "
            "'targets' of an HDF5 file with 'images'); or the true tokens of sequences (.npy)"),
    QB_DOUBLE(options, "duration", duration, "SECONDS", 0.001, 86400,
              "latency measurement an engine (default: 2)"),
    QB_TEXT(options, "batches", batches, "LIST",
            "measure throughput at these batch sizes too, such as 1,8,32"),
    QB_INT(options, "thumbnails", thumbnail, "PIXELS", 0, 256,
           "largest side of the worst samples' pictures (default: 64, four times that under boxes "
           "and masks; 0: none)"),
    QB_FLAG(options, "layers", layers, "measure the error of each layer: where accuracy goes"),
    QB_TEXT(options, "shard", shard, "I/N",
            "only part I of N of the samples, into -o part_I.json, for 'qbench merge'"),
    QB_FLAG(options, "no-figures", no_figures, "draw no charts"),
    QB_TRUST_OPTIONS(options),
    {0},
};

static void defaults(void *opts) {
    options *o = opts;
    o->thumbnail = 64;
}

/* What -o names, else part_I.json. New memory. */
static char *part_path(qb_ctx *cx, const qb_project *project, const qb_part *part) {
    char name[32];
    snprintf(name, sizeof name, "part_%d.json", (int)part->shard);
    return project->out_file ? qb_project_record(cx, project) : qb_project_file(cx, project, name);
}

static qb_status compare_part(qb_ctx *cx, const options *o, const qb_project *project,
                              const qb_compare_settings *settings, const char *path) {
    const qb_part *part = settings->part;
    QB_RELEASED(qb_run_free_at) qb_run *run = NULL;
    QB_FREED char *text = NULL;
    qb_status status = QB_OK;
    QB_TRY(qb_stage_compare(cx, project, settings, &run));
    QB_TRY(qb_results_describe(cx, &o->common, run));
    QB_TRY(qb_part_json(cx, part, run, &text));
    QB_TRY(qb_file_write(cx, path, text, strlen(text)));
    if (!qb_json_on_stdout(&o->common))
        printf("%s: part %d/%d, %lld samples\n", QB_SHOWN(path), (int)part->shard,
               (int)part->shards, (long long)run->samples);
    if (o->common.json)
        status =
            qb_json_out(cx, &o->common,
                        json_pack("{s:s, s:o, s:i, s:i, s:I}", "schema", "qbench.compare-part/1",
                                  "file", qb_json_text(path), "shard", part->shard, "shards",
                                  part->shards, "samples", (json_int_t)run->samples));
    return status;
}

/* Where no row is quantized by this command, options of quantization would be ignored. */
static qb_status refuse_quantization(qb_ctx *cx, const options *o,
                                     const qb_compare_settings *settings) {
    static const char *const of_integers[] = {QB_QUANT_OPTION_NAMES, NULL};
    for (int32_t i = 0; i < settings->n_precisions; i++)
        if (strncmp(settings->precision[i], "int8", 4) == 0 ||
            strncmp(settings->precision[i], "best", 4) == 0)
            return QB_OK;
    return qb_options_refuse(cx, &qb_command_compare, o, of_integers,
                             "no row is quantized here (int8, best)");
}

static qb_status run(qb_ctx *cx, void *opts, const qb_opt_list *arguments) {
    const options *o = opts;
    QB_TRY(qb_trust_apply(cx, &o->trust));
    /* One precision alone would be measured against itself: 100 % agreement, no drop. */
    const bool alone = arguments->n == 1 && strcmp(arguments->item[0], "fp32") != 0;
    const char *const usual[] = {"fp32", alone ? arguments->item[0] : "int8"};
    const bool told = arguments->n > 0 && !alone;
    qb_compare_settings settings = {.precision = told ? arguments->item : usual,
                                    .n_precisions = told ? arguments->n : 2,
                                    .duration_s = o->duration,
                                    .batches = o->batches,
                                    .layers = o->layers,
                                    .thumbnail = o->thumbnail};
    QB_RELEASED(qb_project_close) qb_project project = {0};
    qb_ranks ranks = {.size = 1};
    QB_RELEASED(qb_part_release) qb_part part = {0};
    QB_RELEASED(qb_run_free_at) qb_run *result = NULL;
    QB_FREED char *path = NULL;
    QB_TRY(refuse_quantization(cx, o, &settings));
    QB_TRY(qb_shard_parse(cx, o->shard, QB_PARTS_MAX, &part.shard, &part.shards));
    QB_TRY(qb_ranks_join(cx, &ranks));
    if (o->shard && ranks.size > 1)
        return qb_fail(cx, QB_STATUS_USAGE, "--shard and mpirun both share the samples: one alone");
    QB_TRY(qb_project_open(cx, &o->common, &o->project, false, &project));
    if (alone) qb_info(cx, "%s alone: fp32 is added, to measure it against", usual[1]);
    path = o->shard ? part_path(cx, &project, &part) : qb_project_record(cx, &project);
    if (!path) return cx->code;
    QB_TRY(qb_results_can_save(cx, path));
    if (o->shard) {
        settings.part = &part;
        QB_TRY(compare_part(cx, o, &project, &settings, path));
        return QB_OK;
    }
    QB_TRY(ranks.size > 1 ? qb_stage_compare_ranks(cx, &project, &settings, &ranks, &result)
                          : qb_stage_compare(cx, &project, &settings, &result));
    qb_ranks_leave(&ranks);
    if (ranks.rank > 0) return QB_OK;
    QB_TRY(qb_results_describe(cx, &o->common, result));
    QB_TRY(qb_results_save(cx, path, result));
    QB_TRY(qb_results_show(cx, &o->common, result));
    if (!o->no_figures) QB_TRY(qb_results_page(cx, &o->common, project.out_dir, result));
    return QB_OK;
}

const qb_command qb_command_compare = {
    .name = "compare",
    .usage = "[PRECISION|FILE.onnx|FILE.qbe...] [options]",
    .summary = "score engines side by side: accuracy, latency (compare.json)",
    .notes = "A row is one engine: its accuracy and its latency are of the same plan. int8 is\n"
             "INT8 wherever an integer kernel exists, best what is fastest of all types.\n"
             "\n"
             "A compare.json of rows that this one lacks is kept as compare.1.json; -o\n"
             "FILE.json writes that file.\n"
             "\n"
             "PRECISION: fp32, tf32, fp16, bf16, best or\n"
             "  int8[:METHOD][+u8-affine|+s8-affine|+s8-symmetric][+per-tensor]\n"
             "       [+weights-mse][+recover],\n"
             "each with " QB_WHERE_FORM " behind it (see 'qbench help\n"
             "precisions'); the first one is what the others are measured against (default:\n"
             "fp32 int8). METHOD: one of the calibration's; then the form of the activations,\n"
             "one weight scale a tensor instead of one an output channel, and weight ranges\n"
             "of least squared error.\n"
             "FILE.onnx: another model with the same input and output, such as a Q/DQ file\n"
             "that some other tool wrote; it takes its turns in the same rounds. FILE.qbe: an\n"
             "engine that 'build' made before, such as the last release's (any name will do).",
    .example = "qbench compare fp32 int8\n"
               "qbench compare fp32 int8:entropy int8:minmax --data val/ --batch 32\n"
               "qbench compare fp32 int8 int8:minmax+s8-symmetric+per-tensor\n"
               "qbench compare fp32 int8 other.qdq.onnx --layers --batches 1,8,32\n"
               "qbench compare fp32 int8 release/model.int8.qbe\n"
               "qbench compare fp32 int8 --data val/ --shard 3/8 -o part_3.json\n"
               "mpirun -n 4 qbench compare fp32 int8 --data val/ --threads 8\n"
               "qbench compare fp32 int8 --providers=cuda,cpu --devices=0,1\n"
               "qbench compare fp32 fp32@dnnl int8 int8@dnnl int8@cuda",
    .options = table,
    .options_size = sizeof(options),
    .max_arguments = 64,
    .defaults = defaults,
    .run = run,
};
