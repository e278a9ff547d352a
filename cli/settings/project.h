/* A project: which model, which data, how inputs are prepared. Put together from, in rising order,
 * defaults, the model's JSON sidecar, qbench.yaml and the command line. */
#ifndef QB_CLI_SETTINGS_PROJECT_H
#define QB_CLI_SETTINGS_PROJECT_H

#include "base/config.h"
#include "cli/command.h"
#include "cli/settings/build_flags.h"
#include "datasets/loader.h"
#include "datasets/sidecar.h"
#include "eval/task.h"
#include "graph/graph.h"
#include "quant/quant.h"

#define QB_CONFIG_NAME "qbench.yaml"
#define QB_PROJECT_NAMES 256 /* names in one --keep-float or --disable-pass list */

/* Flags that the stages share; the second member of their option structs. */
typedef struct qb_project_flags {
    const char *model, *data, *targets, *images, *task, *labels, *shapes;
    const char *activations, *weights, *decoder;
    qb_build_flags build;
    int64_t samples, batch;
    bool strict, per_tensor_weights;
    bool samples_given, per_tensor_given; /* a 0 or a --no-... wins over qbench.yaml as well */
    qb_opt_list disable_pass, keep_float, activations_16;
} qb_project_flags;

/* Of commands that build no engine. */
#define QB_MODEL_OPTIONS(STRUCT)                                                                   \
    {.name = "model",                                                                              \
     .letter = 'm',                                                                                \
     .type = QB_OPT_STRING,                                                                        \
     .offset = offsetof(STRUCT, project.model),                                                    \
     .argument = "FILE",                                                                           \
     .help = "the ONNX model (default: the only .onnx here)"},                                     \
        {.name = "onnx",                                                                           \
         .type = QB_OPT_STRING,                                                                    \
         .offset = offsetof(STRUCT, project.model),                                                \
         .argument = "FILE",                                                                       \
         .help = "the same as --model"},                                                           \
    {                                                                                              \
        .name = "disable-pass", .type = QB_OPT_LIST,                                               \
        .offset = offsetof(STRUCT, project.disable_pass), .argument = "NAME",                      \
        .help = "leave an optimizer pass out (repeatable; see inspect)"                            \
    }

#define QB_PROJECT_OPTIONS(STRUCT) QB_MODEL_OPTIONS(STRUCT), QB_BUILD_OPTIONS(STRUCT)

#define QB_DECODER_OPTION(STRUCT)                                                                  \
    {                                                                                              \
        .name = "decoder", .type = QB_OPT_STRING, .offset = offsetof(STRUCT, project.decoder),     \
        .argument = "cpu|nvjpeg",                                                                  \
        .help = "what decodes JPEG files: nvjpeg is a GPU, its pixels differ by 1 here and there " \
                "(default: cpu)"                                                                   \
    }

#define QB_DATA_OPTIONS(STRUCT)                                                                    \
    {.name = "data",                                                                               \
     .letter = 'd',                                                                                \
     .type = QB_OPT_STRING,                                                                        \
     .offset = offsetof(STRUCT, project.data),                                                     \
     .argument = "PATH",                                                                           \
     .help = "folder or file of samples (see 'qbench help data')"},                                \
        {.name = "images",                                                                         \
         .type = QB_OPT_STRING,                                                                    \
         .offset = offsetof(STRUCT, project.images),                                               \
         .argument = "DIR",                                                                        \
         .help = "images of COCO's ground truth (default: images/ beside the file)"},              \
        {.name = "task",                                                                           \
         .type = QB_OPT_STRING,                                                                    \
         .offset = offsetof(STRUCT, project.task),                                                 \
         .argument = "WORD",                                                                       \
         .help = "what the model is for: classify, detect, segment, keypoints, multilabel, "       \
                 "tokens, regress "                                                                \
                 "(default: its sidecar)"},                                                        \
        {.name = "labels",                                                                         \
         .type = QB_OPT_STRING,                                                                    \
         .offset = offsetof(STRUCT, project.labels),                                               \
         .argument = "FILE",                                                                       \
         .help = "class numbers: lines of [synset TAB] index TAB name"},                           \
        {.name = "shapes",                                                                         \
         .type = QB_OPT_STRING,                                                                    \
         .offset = offsetof(STRUCT, project.shapes),                                               \
         .argument = "NAME:1x3x8x8,...",                                                           \
         .help = "shapes of inputs, for raw .bin data"},                                           \
        {.name = "samples",                                                                        \
         .letter = 'n',                                                                            \
         .type = QB_OPT_INT,                                                                       \
         .offset = offsetof(STRUCT, project.samples),                                              \
         .argument = "N",                                                                          \
         .help = "use N samples, evenly spread (default: 0, all)",                                 \
         .given_offset = offsetof(STRUCT, project.samples_given),                                  \
         .min = 0,                                                                                 \
         .max = 1e12},                                                                             \
        {.name = "batch",                                                                          \
         .letter = 'b',                                                                            \
         .type = QB_OPT_INT,                                                                       \
         .offset = offsetof(STRUCT, project.batch),                                                \
         .argument = "N",                                                                          \
         .help = "samples a batch (default: 1)",                                                   \
         .min = 1,                                                                                 \
         .max = 65536},                                                                            \
    {                                                                                              \
        .name = "strict", .type = QB_OPT_FLAG, .offset = offsetof(STRUCT, project.strict),         \
        .help = "an unreadable sample is an error"                                                 \
    }

#define QB_DATA_OPTION_NAMES                                                                       \
    "data", "images", "task", "labels", "shapes", "samples", "batch", "strict", "decoder"

#define QB_QUANT_OPTION_NAMES                                                                      \
    "activations", "weights", "per-tensor-weights", "keep-float", "activations-16"

#define QB_QUANT_OPTIONS(STRUCT)                                                                   \
    {.name = "activations",                                                                        \
     .type = QB_OPT_STRING,                                                                        \
     .offset = offsetof(STRUCT, project.activations),                                              \
     .argument = "SCHEME",                                                                         \
     .help = "u8-affine (default), s8-affine or s8-symmetric"},                                    \
        {.name = "weights",                                                                        \
         .type = QB_OPT_STRING,                                                                    \
         .offset = offsetof(STRUCT, project.weights),                                              \
         .argument = "RANGE",                                                                      \
         .help = "of a channel's weights: minmax (default) or mse (least squared error)"},         \
        {.name = "per-tensor-weights",                                                             \
         .type = QB_OPT_FLAG,                                                                      \
         .offset = offsetof(STRUCT, project.per_tensor_weights),                                   \
         .help = "one weight scale a tensor instead of one an output channel",                     \
         .given_offset = offsetof(STRUCT, project.per_tensor_given)},                              \
        {.name = "keep-float",                                                                     \
         .type = QB_OPT_LIST,                                                                      \
         .offset = offsetof(STRUCT, project.keep_float),                                           \
         .argument = "NODE",                                                                       \
         .help = "leave nodes of this name (glob) in float (repeatable)"},                         \
    {                                                                                              \
        .name = "activations-16", .type = QB_OPT_LIST,                                             \
        .offset = offsetof(STRUCT, project.activations_16), .argument = "VALUE",                   \
        .help = "hold activations of this name (glob) in 16 bits (repeatable)"                     \
    }

typedef struct qb_project {
    char *model; /* path, never NULL */
    char *stem;  /* its base name without .onnx: artifacts are named after it */
    char *calibration_data, *evaluation_data; /* NULL when unknown */
    char *targets; /* images that the evaluation data should become; NULL: none */
    char *images;  /* folder of COCO's images; NULL: beside the file */
    qb_task_settings task;
    const char *decoder;    /* of image files, see datasets/decoder.h; NULL: the default */
    char *method;           /* of calibration; NULL: not told, see qb_project_method */
    qb_build_flags build;   /* as given */
    qb_build_spec spec;     /* what they ask of every engine */
    qb_devices devices;     /* GPUs that share the samples; n == 0: not told */
    char *missing_provider; /* why the first of --providers is not used; NULL */
    const char *shapes;     /* NAME:1x3x8x8,...; NULL: the model's own */
    int made_dirs; /* of out_dir, from its end, that were not there: they go if nothing is written
                    */
    char *out_dir,
        *out_file;       /* from -o: a folder, or a file when it names one; either may be NULL */
    qb_labels labels;    /* n == 0: none */
    char *absent_labels; /* file of labels that the sidecar names and that does not exist; NULL */
    bool has_preprocess; /* told by sidecar or yaml; otherwise guessed from the model */
    qb_preprocess preprocess;
    qb_act_scheme activations;
    bool per_tensor_weights, strict;
    const qb_weight_range *weights; /* NULL: the default */
    const char *keep_float[QB_PROJECT_NAMES + 1];
    const char *activations_16[QB_PROJECT_NAMES + 1];
    const char *disabled[QB_PROJECT_NAMES + 1];
    int32_t split;      /* percent for calibration where both data are one set; 0: not split */
    int64_t split_seed; /* of the draw */
    int64_t samples, batch;
    double duration_s;       /* of a latency measurement, an engine; 0: the default */
    qb_config *config;       /* NULL when there is no qbench.yaml */
    const char *config_name; /* its path, for messages */
} qb_project;

/* The settings file that --config names, else qbench.yaml here; leaves *name and *out alone when
 * there is none. Unknown keys are errors. The caller frees *out. */
qb_status qb_settings_load(qb_ctx *cx, const qb_common *common, const char **name, qb_config **out);

/* `data_is_calibration`: --data names the calibration set, otherwise the evaluation set. */
qb_status qb_project_open(qb_ctx *cx, const qb_common *common, const qb_project_flags *flags,
                          bool data_is_calibration, qb_project *out);
void qb_project_close(qb_project *project);

/* Where artifacts go: what -o says (NULL: here). Part of qb_project_open. */
qb_status qb_project_place(qb_ctx *cx, const char *out, qb_project *project);

/* The part of the project's data that `path` is read for, ranges or (`evaluation`) scores; percent
 * 0 where the settings do not split it. */
qb_split qb_project_split(const qb_project *project, const char *path, bool evaluation);
/* The methods of calibration that the settings ask for, else the task's, else entropy. */
const char *qb_project_method(const qb_project *project, const qb_task *task);
/* Whether the evaluation data are those that ranges are chosen on: the score flatters. */
bool qb_project_scores_on_calibration(const qb_project *project);

/* Path of an artifact: OUT/STEM.SUFFIX, or what -o said when that names a file. New memory. */
char *qb_project_artifact(qb_ctx *cx, const qb_project *project, const char *suffix);
/* Path of a file of fixed name in the output folder. New memory. */
char *qb_project_file(qb_ctx *cx, const qb_project *project, const char *name);

/* Path of the comparison's record: compare.json there, or the .json that -o names. New memory. */
char *qb_project_record(qb_ctx *cx, const qb_project *project);

/* Preprocessing guessed from the model's input and one image of the data, for models without
 * sidecar and settings; says what it assumed. */
qb_status qb_project_guess(qb_ctx *cx, const qb_project *project, const qb_graph *graph,
                           const qb_dataset *dataset, qb_preprocess *out);

#endif
