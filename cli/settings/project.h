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
    QB_TEXT(STRUCT, "model", project.model, "FILE",                                                \
            "the ONNX model (default: the only .onnx here)", .letter = 'm'),                       \
        QB_TEXT(STRUCT, "onnx", project.model, "FILE", "the same as --model"),                     \
        QB_LIST(STRUCT, "disable-pass", project.disable_pass, "NAME",                              \
                "leave an optimizer pass out (repeatable; see inspect)")

#define QB_PROJECT_OPTIONS(STRUCT) QB_MODEL_OPTIONS(STRUCT), QB_BUILD_OPTIONS(STRUCT)

#define QB_DECODER_OPTION(STRUCT)                                                                  \
    QB_TEXT(STRUCT, "decoder", project.decoder, "cpu|nvjpeg",                                      \
            "what decodes JPEG files: nvjpeg is a GPU, its pixels differ by 1 here and there "     \
            "(default: cpu)")

#define QB_DATA_OPTIONS(STRUCT)                                                                    \
    QB_TEXT(STRUCT, "data", project.data, "PATH",                                                  \
            "folder or file of samples (see 'qbench help data')", .letter = 'd'),                  \
        QB_TEXT(STRUCT, "images", project.images, "DIR",                                           \
                "images of COCO's ground truth (default: images/ beside the file)"),               \
        QB_TEXT(STRUCT, "task", project.task, "WORD",                                              \
                "what the model is for: classify, detect, segment, keypoints, multilabel, "        \
                "tokens, regress (default: its sidecar)"),                                         \
        QB_TEXT(STRUCT, "labels", project.labels, "FILE",                                          \
                "class numbers: lines of [synset TAB] index TAB name"),                            \
        QB_TEXT(STRUCT, "shapes", project.shapes, "NAME:1x3x8x8,...",                              \
                "shapes of inputs, for raw .bin data"),                                            \
        QB_INT(STRUCT, "samples", project.samples, "N", 0, 1e12,                                   \
               "use N samples, evenly spread (default: 0, all)", .letter = 'n',                    \
               .given_offset = offsetof(STRUCT, project.samples_given)),                           \
        QB_INT(STRUCT, "batch", project.batch, "N", 1, 65536, "samples a batch (default: 1)",      \
               .letter = 'b'),                                                                     \
        QB_FLAG(STRUCT, "strict", project.strict, "an unreadable sample is an error")

#define QB_DATA_OPTION_NAMES                                                                       \
    "data", "images", "task", "labels", "shapes", "samples", "batch", "strict", "decoder"

#define QB_QUANT_OPTION_NAMES                                                                      \
    "activations", "weights", "per-tensor-weights", "keep-float", "activations-16"

#define QB_QUANT_OPTIONS(STRUCT)                                                                   \
    QB_TEXT(STRUCT, "activations", project.activations, "SCHEME",                                  \
            "u8-affine (default), s8-affine or s8-symmetric"),                                     \
        QB_TEXT(STRUCT, "weights", project.weights, "RANGE",                                       \
                "of a channel's weights: minmax (default) or mse (least squared error)"),          \
        QB_FLAG(STRUCT, "per-tensor-weights", project.per_tensor_weights,                          \
                "one weight scale a tensor instead of one an output channel",                      \
                .given_offset = offsetof(STRUCT, project.per_tensor_given)),                       \
        QB_LIST(STRUCT, "keep-float", project.keep_float, "NODE",                                  \
                "leave nodes of this name (glob) in float (repeatable)"),                          \
        QB_LIST(STRUCT, "activations-16", project.activations_16, "VALUE",                         \
                "hold activations of this name (glob) in 16 bits (repeatable)")

typedef struct qb_project {
    char *model; /* path, never NULL */
    char *stem;  /* its base name without .onnx: artifacts are named after it */
    char *calibration_data, *evaluation_data; /* NULL when unknown */
    char *targets;      /* images that the evaluation data should become; NULL: none */
    char *images;       /* folder of COCO's images; NULL: beside the file */
    qb_sidecar sidecar; /* zeroed: none; its labels are `labels` */
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
    const char *fixed_inputs[QB_PROJECT_NAMES + 1]; /* NAME=V,V..., see qb_fix_inputs */
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

/* The model as it is in its file, or a part of it. An input or output that the sidecar names and
 * that is none of the model's is an error, where all of the model is read. */
qb_status qb_project_read_model(qb_ctx *cx, const qb_project *project, const qb_onnx_part *part,
                                qb_graph **out);

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

/* Preprocessing guessed from the model's input and one image of the data (NULL: not known), for
 * models without sidecar and settings; says what it assumed. */
qb_status qb_project_guess(qb_ctx *cx, const qb_project *project, const qb_graph *graph,
                           const qb_dataset *dataset, qb_preprocess *out);

#endif
