/* qbench init: a commented qbench.yaml for a model. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/strbuf.h"
#include "base/text.h"
#include "cli/out/json.h"
#include "cli/pipeline.h"
#include "cli/settings/inputs.h"
#include "datasets/shards.h"
#include "datasets/sidecar.h"
#include "eval/detector.h"

#define SPLIT 50 /* percent for calibration where one set is all there is */

typedef struct options {
    qb_common common;
    qb_project_flags project;
    const char *evaluation;
    bool sidecar, force;
} options;

static const qb_opt table[] = {
    QB_COMMON_OPTIONS,
    QB_MODEL_OPTIONS(options),
    QB_TEXT(options, "data", project.data, "PATH",
            "folder of images or of class folders, list file, HDF5 file, or COCO's .json",
            .letter = 'd'),
    QB_TEXT(options, "images", project.images, "DIR",
            "where the images of a COCO .json file lie (default: images/ beside it)"),
    QB_TEXT(options, "evaluation", evaluation, "PATH",
            "what compare scores on (default: half of --data, drawn by a seed and held out from "
            "calibration)",
            .letter = 'e'),
    QB_TEXT(options, "labels", project.labels, "FILE",
            "class numbers: lines of [synset TAB] index TAB name"),
    QB_FLAG(options, "sidecar", sidecar,
            "write MODEL.json instead, which programs with libqbench read: preprocessing and "
            "labels, from qbench.yaml where there is one"),
    QB_FLAG(options, "force", force, "replace an existing file", .letter = 'f'),
    {0},
};

/* In single quotes, where only those need care; a line break would become a space there. */
static void add_quoted(qb_strbuf *b, const char *text) {
    bool plain = true;
    for (const char *c = text; *c; c++) plain = plain && (unsigned char)*c >= ' ';
    const char *quote = plain ? "'" : "\"";
    qb_strbuf_add(b, quote);
    for (; *text; text++) {
        if (plain && *text == '\'')
            qb_strbuf_add(b, "''");
        else if (!plain && (unsigned char)*text < ' ')
            qb_strbuf_addf(b, "\\x%02x", (unsigned)*text);
        else if (!plain && (*text == '"' || *text == '\\'))
            qb_strbuf_addf(b, "\\%c", *text);
        else
            qb_strbuf_addn(b, text, 1);
    }
    qb_strbuf_add(b, quote);
}

static void add_setting(qb_strbuf *b, const char *key, const char *value, const char *comment) {
    if (value) {
        qb_strbuf_addf(b, "%s: ", key);
        add_quoted(b, value);
    } else {
        const size_t indent = strspn(key, " "); /* not known yet: the key stands commented out */
        qb_strbuf_addf(b, "%.*s# %s: PATH", (int)indent, key, key + indent);
    }
    qb_strbuf_addf(b, "  # %s\n", comment);
}

static void add_channels(qb_strbuf *b, const char *key, const float *value, int n) {
    qb_strbuf_addf(b, "  %s: [", key);
    for (int i = 0; i < n; i++) qb_strbuf_addf(b, "%s%.9g", i ? ", " : "", (double)value[i]);
    qb_strbuf_add(b, "]");
}

static void add_preprocess(qb_strbuf *b, const qb_preprocess *p, bool guessed) {
    const int channels = qb_preprocess_channels(p);
    if (guessed)
        qb_strbuf_add(b, "# GUESSED from the model's input: check it, wrong preprocessing is the\n"
                         "# most common reason for a low FP32 accuracy.\n");
    qb_strbuf_add(b, "preprocess:\n");
    qb_strbuf_addf(b,
                   "  resize:\n    mode: %s  # none, stretch, short_side, longer_side, letterbox\n",
                   qb_resize_mode_text(p->resize));
    if (p->resize != QB_RESIZE_NONE)
        qb_strbuf_addf(b, "    size: [%d, %d]  # width, height; short_side uses the first\n",
                       p->resize_width, p->resize_height);
    qb_strbuf_addf(b,
                   "    filter: %s  # Pillow's bilinear, bicubic, lanczos, box, nearest; OpenCV's "
                   "linear, cubic, area\n",
                   qb_filter_text(p->filter));
    if (p->resize == QB_RESIZE_LETTERBOX)
        qb_strbuf_addf(b,
                       "    anchor: %s  # center, topleft\n    pad: %d  # pixels around the image\n"
                       "    stride: %d  # above 0: pad to multiples of it only\n    enlarge: %s\n",
                       qb_anchor_words[p->anchor], p->pad, p->stride,
                       p->no_enlarge ? "false" : "true");
    if (p->crop_width > 0)
        qb_strbuf_addf(b, "  crop: [%d, %d]  # centre crop: width, height\n", p->crop_width,
                       p->crop_height);
    if (p->channels_last) qb_strbuf_add(b, "  layout: NHWC\n");
    qb_strbuf_addf(b, "  color: %s  # RGB, BGR, GRAY, Y\n", qb_color_text(p->color));
    add_channels(b, "mean", p->mean, channels);
    qb_strbuf_add(b, "  # the network is fed (pixel - mean) / std, pixel in 0..255\n");
    add_channels(b, "std", p->std, channels);
    qb_strbuf_add(b, "\n");
}

enum { FIXED_MAX = 8, CLASSES_TEXT = 256 };

/* What was guessed of a model's task and inputs; zeroed: nothing. */
typedef struct guessed {
    const qb_task *task;
    const qb_box_decoder *decoder;
    char classes[CLASSES_TEXT]; /* which category each of a detector's classes is, in words */
    char *fixed[FIXED_MAX + 1]; /* see qb_guess_fixed */
} guessed;

static void guessed_release(guessed *g) {
    for (int i = 0; i < FIXED_MAX; i++) qb_free(g->fixed[i]);
}

static void add_fixed(qb_strbuf *b, const guessed *g) {
    if (!g->fixed[0]) return;
    qb_strbuf_add(b, "\nfixed_inputs:  # GUESSED: the size of the input, so that boxes are in its "
                     "pixels\n");
    for (int i = 0; g->fixed[i]; i++) {
        qb_strbuf_add(b, "  - ");
        add_quoted(b, g->fixed[i]);
        qb_strbuf_add(b, "\n");
    }
}

static void add_detection(qb_strbuf *b, const qb_detect_settings *d, const guessed *g) {
    const qb_box_decoder *guess = g->decoder;
    const qb_box_decoder *decoder = d->decoder ? d->decoder : guess;
    qb_strbuf_add(b, "detection:\n");
    if (guess)
        qb_strbuf_addf(b, "  # GUESSED from the outputs: %s. Others:\n  # ", guess->text);
    else
        qb_strbuf_add(b, "  # ");
    for (int i = 0; qb_box_decoders[i]; i++)
        qb_strbuf_addf(b, "%s%s", i ? ", " : "", qb_box_decoders[i]->name);
    if (decoder)
        qb_strbuf_addf(b, "\n  decode: %s\n", decoder->name);
    else
        qb_strbuf_add(b, "\n  # decode: NAME  # no decoder is known for these outputs: name one\n");
    qb_strbuf_addf(b,
                   "  score_threshold: %g  # boxes below are left out before AP is computed\n"
                   "  nms_iou: %g  # suppression; decoders that need none ignore it\n"
                   "  nms_per_class: %s\n"
                   "  multi_label: %s  # a box may stand for several classes, as Ultralytics "
                   "scores\n"
                   "  top_k: %lld  # boxes that an image keeps; 0: all\n"
                   "  report_threshold: %g  # the score from which on your users see a box\n",
                   d->score_threshold, d->nms_iou, d->across_classes ? "false" : "true",
                   d->multi_label ? "true" : "false", (long long)d->top_k, d->report_threshold);
    if (g->classes[0] != '\0') qb_strbuf_addf(b, "  # %s\n", g->classes);
    if (d->n_category_ids == 0)
        qb_strbuf_add(b, "  # category_ids: [1, 2, 3]  # COCO's id of each class, where neither "
                         "names nor order tell\n");
}

/* What the sidecar tells is not said again. */
static void add_task(qb_strbuf *b, const qb_project *p, const guessed *g) {
    if (!g->task) return;
    const char *name = g->task->name;
    qb_strbuf_addf(b, "\ntask: %s  # %s; ", name,
                   p->task.task ? "told by the sidecar" : "GUESSED from the outputs and the data");
    for (int i = 0; qb_tasks[i]; i++) qb_strbuf_addf(b, "%s%s", i ? ", " : "", qb_tasks[i]->name);
    qb_strbuf_add(b, "\n");
    if (strcmp(name, "detect") == 0) add_detection(b, &p->task.detect, g);
    if (strcmp(name, "segment") == 0 && p->task.segment.classes.n == 0 && p->labels.n == 0)
        qb_strbuf_add(b, "# segmentation:\n#   classes: [background, person]  # in the order of "
                         "the model's channels\n");
}

/* In the words of the task's first metric. */
static void add_gate(qb_strbuf *b, const qb_task *task) {
    const bool classes = !task || strcmp(task->name, "classify") == 0;
    const char *metric = classes ? "top1" : task->metric;
    qb_strbuf_addf(b,
                   "\ngate:\n"
                   "  max_drop: 1.0  # points of %s that int8 may lose\n"
                   "  # relative: true  # max_drop in percent of FP32's %s\n"
                   "  # mlperf: true  # %s at least 99 %% of FP32's\n"
                   "  # min: [%s=50]  # int8's own %s at least\n"
                   "  # confidence: pass  # the whole 95 %% interval must keep the limits\n",
                   metric, metric, metric, metric, metric);
    if (classes)
        qb_strbuf_add(b, "  # min_agreement: 95.0  # percent of samples with FP32's class\n");
    qb_strbuf_add(b, "  # max_latency_ratio: 1.0  # int8 must not be slower\n"
                     "  # min_samples: 500\n");
}

static qb_status compose(qb_ctx *cx, const qb_project *p, const guessed *task, const char *labels,
                         bool image_output, char **out) {
    qb_strbuf b = {0};
    qb_strbuf_add(&b, "# qbench settings. Flags on the command line win over this file;\n"
                      "# paths are relative to it.\n");
    add_setting(&b, "model", p->model, "the trained FP32 ONNX model");
    qb_strbuf_add(&b, "\ndata:\n");
    add_setting(&b, "  calibration", p->calibration_data,
                "folder of images, list file, .h5, or COCO's .json");
    add_setting(&b, "  evaluation", p->evaluation_data,
                "what compare scores on; better a set that was held out");
    if (p->images)
        add_setting(&b, "  images", p->images, "where the images of COCO's .json files lie");
    if (p->split > 0)
        qb_strbuf_addf(
            &b,
            "  # No evaluation data were named, so one set is split: no sample that ranges "
            "are\n  # chosen on is scored. Both keys mean nothing where the two data "
            "differ.\n"
            "  split: %d  # percent for calibration, drawn at random; the rest is "
            "scored\n"
            "  split_seed: %lld\n",
            p->split, (long long)p->split_seed);
    if (image_output)
        add_setting(&b, "  targets", NULL,
                    "what the evaluation images should become, in the same order: PSNR");
    if (labels)
        add_setting(&b, "  labels", labels, "lines of [synset TAB] index TAB name");
    else if (p->labels.n > 0)
        qb_strbuf_add(&b, "  # labels come from the model's sidecar\n");
    else
        add_setting(&b, "  labels", NULL, "needed where the data has only some of the classes");
    add_fixed(&b, task);
    add_task(&b, p, task);
    qb_strbuf_add(&b, "\n");
    add_preprocess(&b, &p->preprocess, !p->has_preprocess);
    qb_strbuf_addf(&b,
                   "\ncalibration:\n"
                   "  method: %s  # entropy, percentile:99.99, minmax\n"
                   "  samples: %lld  # 0: all; otherwise that many, evenly spread\n"
                   "\nquantization:\n"
                   "  activations: u8-affine  # or s8-affine, s8-symmetric (TensorRT)\n"
                   "  weights: minmax  # or mse: the range of least squared error\n"
                   "  per_tensor_weights: false  # one weight scale an output channel\n"
                   "  keep_float: []  # names (globs) of nodes to leave in float\n"
                   "  activations_16: []  # names (globs) of values to hold in 16 bits\n"
                   "\ncompare:\n"
                   "  batch: %lld  # samples a run in the latency measurement\n"
                   "  duration: 2  # its seconds, an engine\n",
                   qb_project_method(p, task->task), (long long)p->samples, (long long)p->batch);
    add_gate(&b, task->task);
    return qb_strbuf_take(cx, &b, out);
}

/* The task that nobody told, from the outputs and the data's ground truth; and a detector's
 * decoder. Without data only outputs that nothing but a detector has tell. */
static qb_status guess_task(qb_ctx *cx, const qb_project *p, const qb_graph *graph,
                            const qb_dataset *dataset, guessed *out) {
    const qb_value *input = &graph->values[graph->inputs[0]];
    const bool tensors = dataset && qb_dataset_has_tensors(dataset);
    qb_image_input size = {0};
    if (!tensors && (!qb_image_input_of(&input->shape, p->preprocess.channels_last, &size) ||
                     graph->n_inputs != 1))
        return QB_OK;
    const qb_loader_options loader = {
        .dataset = dataset,
        .preprocess = p->preprocess,
        .height = (int32_t)(size.height > 0 ? size.height : p->preprocess.resize_height),
        .width = (int32_t)(size.width > 0 ? size.width : p->preprocess.resize_width)};
    const qb_task_data data = {.settings = &p->task,
                               .loader = &loader,
                               .graph = graph,
                               .labels = p->labels.n > 0 ? &p->labels : NULL,
                               .n_engines = 1};
    const qb_task *detect = qb_task_find("detect");
    out->task = p->task.task || !dataset ? p->task.task : qb_task_guess(cx, &data);
    if (tensors || p->task.detect.decoder || (out->task && out->task != detect)) return QB_OK;
    const qb_coco *truth = dataset ? qb_dataset_truth(dataset) : NULL;
    const qb_detector_hints hints = {.settings = &p->task.detect,
                                     .width = loader.width,
                                     .height = loader.height,
                                     .n_labels = p->task.detect.n_category_ids > 0
                                                     ? p->task.detect.n_category_ids
                                                 : p->labels.n > 0 ? p->labels.n
                                                 : truth           ? truth->n_categories
                                                                   : 0,
                                     .top_id = qb_coco_top_id(truth),
                                     .sure = out->task != detect};
    int32_t classes;
    QB_TRY(qb_detector_guess(cx, graph, &hints, &out->decoder, &classes));
    if (out->decoder && truth && truth->n_categories > 0 && p->labels.n == 0 &&
        p->task.detect.n_category_ids == 0)
        qb_detector_class_text(truth, classes, out->classes, sizeof out->classes);
    if (out->decoder && !dataset) out->task = detect;
    if (out->task != detect) {
        out->decoder = NULL;
        out->classes[0] = '\0';
    }
    return QB_OK;
}

/* Inputs beside an image that nobody told; the graph has them as constants from now on. */
static qb_status guess_inputs(qb_ctx *cx, qb_project *p, qb_graph *graph, guessed *out) {
    if (graph->n_inputs < 2) return QB_OK;
    QB_TRY(qb_guess_fixed(cx, graph, FIXED_MAX, out->fixed));
    for (int i = 0; i < FIXED_MAX; i++) p->fixed_inputs[i] = out->fixed[i];
    return qb_fix_inputs(cx, p->fixed_inputs, graph);
}

/* Fills in preprocessing that nobody described, from the model and the first image. */
static qb_status guess(qb_ctx *cx, qb_project *p, const qb_graph *graph, guessed *task) {
    if (graph->n_inputs != 1 && !p->calibration_data) return QB_OK;
    qb_image_input input;
    const bool images = qb_image_input_of(&graph->values[graph->inputs[0]].shape, false, &input);
    if (images && input.items > 1)
        qb_warn(cx,
                "%s takes %lld images at once, and samples run one by one: export it with a batch "
                "of 1 or an open one",
                p->model, (long long)input.items);
    if (!p->calibration_data) {
        if (!p->has_preprocess && !images) return QB_OK;
        if (!p->has_preprocess) QB_TRY(qb_project_guess(cx, p, graph, NULL, &p->preprocess));
        return guess_task(cx, p, graph, NULL, task);
    }
    const qb_dataset_options all = {.labels = p->labels.n > 0 ? &p->labels : NULL,
                                    .folder = p->images};
    QB_RELEASED(qb_dataset_close_at) qb_dataset *dataset = NULL;
    QB_TRY(qb_dataset_open(cx, p->calibration_data, &all, &dataset));
    if (!p->has_preprocess && !qb_dataset_has_tensors(dataset) && graph->n_inputs == 1)
        QB_TRY(qb_project_guess(cx, p, graph, dataset, &p->preprocess));
    return guess_task(cx, p, graph, dataset, task);
}

/* *slot as seen from another folder: settings hold paths relative to themselves. */
static qb_status make_absolute(qb_ctx *cx, char **slot) {
    if (!*slot || (*slot)[0] == '/') return QB_OK;
    const bool pattern = qb_shards_is_pattern(*slot); /* whose folder is there */
    QB_FREED char *folder = QB_NEW(cx, qb_path_dir(cx, *slot));
    char *full = realpath(pattern ? folder : *slot, NULL);
    if (!full) return qb_fail_errno(cx, "%s", *slot);
    char *copy = pattern ? qb_path_join(cx, full, qb_path_base(*slot)) : qb_strdup(cx, full);
    free(full);
    if (!copy) return cx->code;
    qb_free(*slot);
    *slot = copy;
    return QB_OK;
}

/* qbench.yaml here, or what -o names: a file, or a folder to put it into. New memory. */
static char *config_path(qb_ctx *cx, const options *o) {
    const char *out = o->common.out ? o->common.out : "";
    return qb_has_suffix(out, ".yaml") && !qb_path_is_dir(out)
               ? qb_strdup(cx, out)
               : qb_path_join(cx, out, "qbench.yaml");
}

static qb_status write_config(qb_ctx *cx, const options *o, const guessed *g, const char *path,
                              const char *text) {
    if (qb_path_exists(path) && !o->force)
        return qb_fail(cx, QB_STATUS_INVALID, "%s is there already: use --force to replace it",
                       path);
    QB_RELEASED(qb_config_free_at) qb_config *readable = NULL;
    QB_TRY_WRAP(cx, qb_config_parse(cx, path, text, strlen(text), &readable),
                "a path that a settings file cannot hold");
    QB_TRY(qb_file_write(cx, path, text, strlen(text)));
    if (!qb_json_on_stdout(&o->common)) {
        if (g->task) printf("task %s: %s\n", g->task->name, g->task->text);
        if (g->decoder) printf("outputs look like %s:\n  %s\n", g->decoder->name, g->decoder->text);
        if (g->classes[0] != '\0') printf("%s\n", g->classes);
        for (int i = 0; g->fixed[i]; i++)
            printf("input fixed: %s (the size of the input)\n", QB_SHOWN(g->fixed[i]));
        printf("wrote %s\n", QB_SHOWN(path));
    }
    return qb_json_out(
        cx, &o->common,
        json_pack("{s:s, s:o}", "schema", "qbench.init/1", "file", qb_json_text(path)));
}

/* ---- the sidecar ---- */

/* MODEL.json beside the model, or what -o names: a file, or a folder to put it into. New memory. */
static char *sidecar_path(qb_ctx *cx, const options *o, const char *model) {
    const char *out = o->common.out ? o->common.out : "";
    if (qb_has_suffix(out, ".json") && !qb_path_is_dir(out)) return qb_strdup(cx, out);
    QB_FREED char *folder = out[0] ? qb_strdup(cx, out) : qb_path_dir(cx, model);
    char *path = NULL;
    QB_FREED char *stem = qb_path_stem(cx, model);
    QB_FREED char *name = stem ? qb_format(cx, "%s.json", stem) : NULL;
    if (folder && name) path = qb_path_join(cx, strcmp(folder, ".") == 0 ? "" : folder, name);
    return path;
}

/* What qbench.yaml says of images and labels, or what can be guessed, as the file that libqbench
 * reads beside an engine. */
static qb_status write_sidecar(qb_ctx *cx, const options *o, const qb_project_flags *flags) {
    QB_RELEASED(qb_project_close) qb_project project = {0};
    QB_RELEASED(qb_graph_free_at) qb_graph *graph = NULL;
    guessed task = {0};
    qb_status status = QB_OK;
    QB_TRY(qb_project_open(cx, &o->common, flags, true, &project));
    QB_TRY(qb_stage_load(cx, &project, NULL, &graph, NULL));
    const qb_shape *shape = &graph->values[graph->inputs[0]].shape;
    qb_image_input input;
    if (graph->n_inputs != 1 ||
        (!qb_image_input_of(shape, false, &input) && !qb_image_input_of(shape, true, &input)))
        QB_TRY(qb_fail(cx, QB_STATUS_UNSUPPORTED,
                       "%s: a sidecar says how images become the input; this model's inputs are "
                       "tensors",
                       project.model));
    if (!project.has_preprocess) {
        QB_TRY(guess(cx, &project, graph, &task));
        qb_warn(cx, "preprocessing was GUESSED from the model's input: check mean, std, color and "
                    "resize");
    }
    QB_FREED char *path = QB_NEW(cx, sidecar_path(cx, o, project.model));
    if (qb_path_exists(path) && !o->force)
        QB_TRY(
            qb_fail(cx, QB_STATUS_INVALID, "%s is there already: use --force to replace it", path));
    QB_TRY(qb_sidecar_write(cx, shape, &project.preprocess, &project.labels, path));
    if (!qb_json_on_stdout(&o->common)) printf("wrote %s\n", QB_SHOWN(path));
    status =
        qb_json_out(cx, &o->common,
                    json_pack("{s:s, s:o}", "schema", "qbench.init/1", "file", qb_json_text(path)));
    return status;
}

/* A path that is not there is a slip of the fingers, which calibrate would be too late to tell. */
static qb_status check_there(qb_ctx *cx, const char *option, const char *path) {
    if (!path || qb_path_exists(path)) return QB_OK;
    return qb_fail(cx, QB_STATUS_NOTFOUND, "option --%s: %s: No such file or folder", option, path);
}

static qb_status run(qb_ctx *cx, void *opts, const qb_opt_list *arguments) {
    const options *o = opts;
    qb_project_flags flags = o->project;
    QB_TRY(qb_argument_is(cx, arguments, "model", &flags.model));
    /* An old qbench.yaml must not leak into the new one. */
    const qb_common common = {.config = "", .out = o->common.out};
    QB_RELEASED(qb_project_close) qb_project project = {0};
    QB_RELEASED(qb_graph_free_at) qb_graph *graph = NULL;
    QB_RELEASED(guessed_release) guessed task = {0};
    QB_FREED char *text = NULL, *path = NULL, *labels = NULL;
    QB_TRY(check_there(cx, "data", flags.data));
    QB_TRY(check_there(cx, "images", flags.images));
    QB_TRY(check_there(cx, "evaluation", o->evaluation));
    if (o->sidecar && o->evaluation)
        QB_TRY(
            qb_fail(cx, QB_STATUS_USAGE, "--sidecar names no data: --evaluation would be ignored"));
    if (o->sidecar) QB_TRY(write_sidecar(cx, o, &flags));
    if (o->sidecar) return QB_OK;
    QB_TRY(qb_project_open(cx, &common, &flags, true, &project));
    QB_TRY(qb_stage_load(cx, &project, NULL, &graph, NULL));
    QB_TRY(guess_inputs(cx, &project, graph, &task));
    QB_TRY(guess(cx, &project, graph, &task));
    const char *evaluation = o->evaluation ? o->evaluation : flags.data;
    if (evaluation) {
        qb_free(project.evaluation_data);
        QB_TRY_NEW(cx, project.evaluation_data = qb_strdup(cx, evaluation));
    }
    project.split = project.calibration_data && !o->evaluation ? SPLIT : 0;
    project.split_seed = 1;
    if (project.split > 0)
        qb_info(cx,
                "no --evaluation: %d %% of %s, drawn with seed %lld, are for calibration, the rest "
                "for scores (data.split)",
                project.split, project.calibration_data, (long long)project.split_seed);
    path = config_path(cx, o);
    labels = flags.labels ? qb_strdup(cx, flags.labels) : NULL;
    if (!path || (flags.labels && !labels)) return cx->code;
    if (o->common.out) {
        QB_TRY(make_absolute(cx, &project.model));
        QB_TRY(make_absolute(cx, &project.calibration_data));
        QB_TRY(make_absolute(cx, &project.evaluation_data));
        QB_TRY(make_absolute(cx, &project.images));
        QB_TRY(make_absolute(cx, &labels));
    }
    QB_TRY(compose(cx, &project, &task, labels,
                   qb_output_kind_of(graph->values[graph->outputs[0]].dtype,
                                     &graph->values[graph->outputs[0]].shape) == QB_OUTPUT_IMAGE,
                   &text));
    return write_config(cx, o, &task, path, text);
}

const qb_command qb_command_init = {
    .name = "init",
    .usage = "[MODEL] [--data PATH] [--evaluation PATH] [options]",
    .summary = "write a commented qbench.yaml for a model",
    .example = "qbench init --model resnet50.onnx --data calib/ --evaluation val/",
    .options = table,
    .options_size = sizeof(options),
    .max_arguments = 1,
    .run = run,
};
