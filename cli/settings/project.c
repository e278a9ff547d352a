#include "cli/settings/project.h"
#include "cli/settings/inputs.h"

#include <dirent.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/open.h"
#include "base/opt.h"
#include "cli/settings/precision.h"
#include "cli/settings/task.h"
#include "datasets/decoder.h"
#include "eval/detector.h"
#include "eval/gate.h"
#include "graph/plugin.h"

static const char *const known_keys[] = {"model",
                                         "plugins",
                                         "data.calibration",
                                         "data.evaluation",
                                         "data.targets",
                                         "data.images",
                                         "data.labels",
                                         "data.split",
                                         "data.split_seed",
                                         "data.decoder",
                                         "preprocess.resize.mode",
                                         "preprocess.resize.size",
                                         "preprocess.resize.filter",
                                         "preprocess.resize.anchor",
                                         "preprocess.resize.pad",
                                         "preprocess.resize.stride",
                                         "preprocess.resize.enlarge",
                                         "preprocess.layout",
                                         "preprocess.crop",
                                         "preprocess.color",
                                         "preprocess.mean",
                                         "preprocess.std",
                                         "fixed_inputs",
                                         "task",
                                         "detection.decode",
                                         "detection.score_threshold",
                                         "detection.report_threshold",
                                         "detection.nms_iou",
                                         "detection.nms_per_class",
                                         "detection.multi_label",
                                         "detection.normalized",
                                         "detection.box_format",
                                         "detection.top_k",
                                         "detection.strides",
                                         "detection.anchors",
                                         "detection.category_ids",
                                         "detection.cell_offset",
                                         "detection.sigmoid",
                                         "detection.background",
                                         "detection.exponential",
                                         "detection.variance",
                                         "detection.min_sizes",
                                         "detection.max_sizes",
                                         "detection.aspect_ratios",
                                         "segmentation.classes",
                                         "segmentation.threshold",
                                         "calibration.method",
                                         "calibration.samples",
                                         "quantization.activations",
                                         "quantization.weights",
                                         "quantization.per_tensor_weights",
                                         "quantization.keep_float",
                                         "quantization.activations_16",
                                         "compare.batch",
                                         "compare.duration",
#define X(field, option, unit, least, most, text) "gate." #field,
                                         QB_GATE_LIMITS(X)
#undef X
                                             "gate.relative",
                                         "gate.mlperf",
                                         "gate.confidence",
                                         "gate.baseline",
                                         "gate.baseline_accuracy",
                                         "gate.precision",
                                         "gate.metric",
                                         "gate.min",
                                         "gate.allow",
                                         NULL};

/* ---- small pieces ---- */

/* *slot = copy of text, freeing what was there; text NULL leaves it alone. */
static qb_status set(qb_ctx *cx, char **slot, const char *text) {
    if (!text) return QB_OK;
    char *copy = QB_NEW(cx, qb_strdup(cx, text));
    qb_free(*slot);
    *slot = copy;
    return QB_OK;
}

/* ---- model ---- */

/* Models that qbench writes beside the one that they are made of. */
static bool is_made_here(const char *name) {
    return qb_has_suffix(name, ".qdq.onnx") || qb_has_suffix(name, ".recovered.onnx") ||
           qb_has_suffix(name, ".recovered.float.onnx");
}

/* The only .onnx of the current folder that is not a product of ours. */
static qb_status find_model(qb_ctx *cx, qb_project *p) {
    QB_RELEASED(qb_dir_close) DIR *folder = opendir(".");
    if (!folder) return qb_fail_errno(cx, "current folder");
    const struct dirent *entry;
    while ((entry = readdir(folder)) != NULL) {
        if (!qb_has_suffix(entry->d_name, ".onnx") || is_made_here(entry->d_name)) continue;
        if (p->model)
            return qb_fail(cx, QB_STATUS_USAGE,
                           "several models here (%s, %s): name one with --model", p->model,
                           entry->d_name);
        QB_TRY(set(cx, &p->model, entry->d_name));
    }
    if (p->model) return QB_OK;
    return qb_fail(
        cx, QB_STATUS_USAGE,
        "no model: give --model FILE, or run in a folder with one .onnx or a " QB_CONFIG_NAME);
}

/* ---- sidecar ---- */

static qb_status apply_sidecar(qb_ctx *cx, qb_project *p) {
    QB_FREED char *name = NULL;
    QB_TRY(qb_sidecar_find(cx, p->model, &name));
    if (!name) return QB_OK;
    qb_sidecar *sidecar = &p->sidecar;
    QB_TRY(qb_sidecar_load(cx, name, sidecar));
    QB_TRY(qb_task_from_sidecar(cx, sidecar, &p->task));
    if (sidecar->has_preprocess) {
        p->preprocess = sidecar->preprocess;
        p->has_preprocess = true;
    }
    if (sidecar->labels.n > 0) {
        qb_labels_release(&p->labels);
        p->labels = QB_MOVE(sidecar->labels);
    } else {
        p->absent_labels = QB_MOVE(sidecar->labels_path);
    }
    return QB_OK;
}

/* A name that the sidecar gives one of the model's inputs or outputs is one of them. */
static qb_status check_name(qb_ctx *cx, const qb_project *p, const char *key, const char *name,
                            const qb_graph *graph, const int32_t *value, int32_t n) {
    if (!name) return QB_OK;
    QB_FREED const char **known = QB_NEW(cx, qb_alloc(cx, (size_t)n + 1, sizeof *known));
    for (int32_t i = 0; i < n; i++) {
        known[i] = graph->values[value[i]].name;
        if (strcmp(known[i], name) == 0) return QB_OK;
    }
    const char *nearest = qb_nearest(name, known);
    if (!nearest && n == 1) nearest = known[0];
    return qb_fail(cx, QB_STATUS_INVALID, "%s: key '%s': %s has no %s '%.120s'%s%.120s%s",
                   p->sidecar.path, key, p->model, key, name, nearest ? ", but '" : "",
                   nearest ? nearest : "", nearest ? "'" : "");
}

/* The type that a sidecar calls so, as numpy does; NONE: no such type. */
static qb_dtype named_type(const char *text) {
    static const struct {
        const char *name;
        qb_dtype dtype;
    } known[] = {{"float32", QB_DTYPE_F32}, {"float16", QB_DTYPE_F16}, {"bfloat16", QB_DTYPE_BF16},
                 {"float64", QB_DTYPE_F64}, {"uint8", QB_DTYPE_U8},    {"int8", QB_DTYPE_S8},
                 {"uint16", QB_DTYPE_U16},  {"int16", QB_DTYPE_S16},   {"uint32", QB_DTYPE_U32},
                 {"int32", QB_DTYPE_S32},   {"uint64", QB_DTYPE_U64},  {"int64", QB_DTYPE_S64},
                 {"bool", QB_DTYPE_BOOL}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].name, text) == 0) return known[i].dtype;
    return QB_DTYPE_NONE;
}

/* What a sidecar says of the input's type: floats are floats, however wide. */
static qb_status check_type(qb_ctx *cx, const qb_sidecar *s, const qb_value *input) {
    /* What QuantizeLinear nodes read is float in the file. */
    const qb_dtype real = input->q.n > 0 ? QB_DTYPE_F32 : input->dtype;
    const qb_dtype told = s->dtype ? named_type(s->dtype) : real;
    if (told == QB_DTYPE_NONE)
        qb_warn(cx, "%s: key 'dtype': '%.40s' is no type's name and is not held against the model",
                s->path, s->dtype);
    if (told == QB_DTYPE_NONE || told == real ||
        (qb_dtype_is_float(told) && qb_dtype_is_float(real)))
        return QB_OK;
    return qb_fail(cx, QB_STATUS_INVALID, "%s: key 'dtype': %s, but input '%s' is %s", s->path,
                   s->dtype, input->name, qb_dtype_text(real));
}

/* And of its shape; how many samples are run at once is another matter. */
static qb_status check_shape(qb_ctx *cx, const qb_sidecar *s, const qb_value *input) {
    char told[128], real[128];
    const qb_shape *a = &s->shape, *b = &input->shape;
    bool same = a->rank < 0 || b->rank < 0 || a->rank == b->rank;
    for (int32_t i = 1; same && i < a->rank && i < b->rank; i++)
        same = a->dim[i] < 0 || b->dim[i] < 0 || a->dim[i] == b->dim[i];
    if (same) return QB_OK;
    return qb_fail(cx, QB_STATUS_INVALID, "%s: key 'shape': %s, but input '%s' is %s", s->path,
                   qb_shape_text(a, told, sizeof told), input->name,
                   qb_shape_text(b, real, sizeof real));
}

/* The input that the sidecar is of: the one that it names, or the only one. */
static qb_status check_input(qb_ctx *cx, const qb_sidecar *s, const qb_graph *graph) {
    for (int32_t i = 0; s->path && i < graph->n_inputs; i++) {
        const qb_value *input = &graph->values[graph->inputs[i]];
        if (s->input ? strcmp(s->input, input->name) != 0 : graph->n_inputs > 1) continue;
        QB_TRY(check_type(cx, s, input));
        QB_TRY(check_shape(cx, s, input));
    }
    return QB_OK;
}

qb_status qb_project_read_model(qb_ctx *cx, const qb_project *project, const qb_onnx_part *part,
                                qb_graph **out) {
    QB_RELEASED(qb_graph_free_at) qb_graph *graph = NULL;
    QB_TRY(qb_onnx_load_part(cx, project->model, part, &graph));
    if (part->n_inputs + part->n_outputs == 0) {
        QB_TRY(check_name(cx, project, "input", project->sidecar.input, graph, graph->inputs,
                          graph->n_inputs));
        QB_TRY(check_name(cx, project, "output", project->sidecar.output, graph, graph->outputs,
                          graph->n_outputs));
        QB_TRY(check_input(cx, &project->sidecar, graph));
    }
    *out = QB_MOVE(graph);
    return QB_OK;
}

/* ---- qbench.yaml ---- */

qb_status qb_settings_load(qb_ctx *cx, const qb_common *common, const char **name,
                           qb_config **out) {
    const char *path = common->config ? common->config : QB_CONFIG_NAME;
    if (path[0] == '\0' || (!common->config && qb_path_is_absent(path))) return QB_OK;
    QB_RELEASED(qb_config_free_at) qb_config *config = NULL;
    QB_TRY(qb_config_load(cx, path, &config));
    QB_TRY(qb_config_check_keys(cx, config, known_keys));
    *name = path;
    *out = QB_MOVE(config);
    return QB_OK;
}

/* A path setting, relative to the settings file. */
static qb_status config_path(qb_ctx *cx, const qb_project *p, const qb_common *common,
                             const char *key, char **slot) {
    const char *text = NULL;
    QB_TRY(qb_config_string(cx, p->config, key, &text));
    if (!text) return QB_OK;
    char *folder = common->config ? qb_path_dir(cx, common->config) : NULL;
    if (common->config && !folder) return cx->code;
    char *path = qb_path_join(cx, folder, text);
    qb_free(folder);
    if (!path) return cx->code;
    qb_free(*slot);
    *slot = path;
    return QB_OK;
}

/* One number for both sides, or [width, height]. */
static qb_status config_size(qb_ctx *cx, const qb_project *p, const char *key, int32_t *width,
                             int32_t *height) {
    double size[2];
    int n;
    QB_TRY(qb_config_doubles(cx, p->config, key, size, 2, &n));
    for (int i = 0; i < n; i++)
        if (!(size[i] >= 1 && size[i] <= 65535))
            return qb_config_fail(cx, p->config, key, "expected 1 to 65535, got %g", size[i]);
    if (n > 0) {
        *width = (int32_t)size[0];
        *height = (int32_t)size[n - 1];
    }
    return QB_OK;
}

/* One number for all channels, or one a channel. */
static qb_status config_channels(qb_ctx *cx, const qb_project *p, const char *key, int channels,
                                 float out[4]) {
    double value[4];
    int n;
    QB_TRY(qb_config_doubles(cx, p->config, key, value, 4, &n));
    if (n > 1 && n != channels)
        return qb_config_fail(cx, p->config, key,
                              channels > 1 ? "expected 1 or %d numbers, got %d"
                                           : "expected %d number, got %d",
                              channels, n);
    for (int i = 0; i < 4 && n > 0; i++) out[i] = (float)value[i < n ? i : n - 1];
    return QB_OK;
}

/* The number of a word; *out is left alone where the key is absent. */
static qb_status config_word(qb_ctx *cx, const qb_project *p, const char *key,
                             const char *const *words, int32_t *out) {
    const char *word = NULL;
    char text[256];
    QB_TRY(qb_config_string(cx, p->config, key, &word));
    const int32_t found = word ? qb_word_find(words, word) : *out;
    if (found < 0)
        return qb_config_fail(cx, p->config, key, "%s",
                              qb_word_error(words, word, text, sizeof text));
    *out = found;
    return QB_OK;
}

/* What only a letterbox has. */
static qb_status config_letterbox(qb_ctx *cx, const qb_project *p, qb_preprocess *q) {
    int64_t pad = q->pad, stride = q->stride;
    bool enlarge = !q->no_enlarge;
    QB_TRY(qb_config_int(cx, p->config, "preprocess.resize.pad", &pad));
    QB_TRY(qb_config_int(cx, p->config, "preprocess.resize.stride", &stride));
    QB_TRY(qb_config_bool(cx, p->config, "preprocess.resize.enlarge", &enlarge));
    if (pad < 0 || pad > 255)
        return qb_config_fail(cx, p->config, "preprocess.resize.pad", "expected 0 to 255, got %lld",
                              (long long)pad);
    if (stride < 0 || stride > 65536)
        return qb_config_fail(cx, p->config, "preprocess.resize.stride",
                              "expected 0 to 65536, got %lld", (long long)stride);
    q->pad = (uint8_t)pad;
    q->stride = (int32_t)stride;
    q->no_enlarge = !enlarge;
    return QB_OK;
}

/* The words of a preprocessing: modes, filters, colours. */
static qb_status config_words(qb_ctx *cx, const qb_project *p, qb_preprocess *q) {
    int32_t mode = q->resize, filter = q->filter, color = q->color, anchor = q->anchor,
            layout = q->channels_last;
    QB_TRY(config_word(cx, p, "preprocess.resize.mode", qb_resize_mode_words, &mode));
    QB_TRY(config_word(cx, p, "preprocess.resize.filter", qb_filter_words, &filter));
    QB_TRY(config_word(cx, p, "preprocess.resize.anchor", qb_anchor_words, &anchor));
    QB_TRY(config_word(cx, p, "preprocess.color", qb_color_words, &color));
    QB_TRY(config_word(cx, p, "preprocess.layout", qb_layout_words, &layout));
    q->resize = (qb_resize_mode)mode;
    q->filter = (qb_filter)filter;
    q->anchor = (qb_anchor)anchor;
    q->color = (qb_color)color;
    q->channels_last = layout == 1;
    return QB_OK;
}

static qb_status config_preprocess(qb_ctx *cx, qb_project *p) {
    if (!qb_config_find(p->config, "preprocess")) return QB_OK;
    qb_preprocess *q = &p->preprocess;
    QB_TRY(config_words(cx, p, q));
    QB_TRY(config_letterbox(cx, p, q));
    QB_TRY(config_size(cx, p, "preprocess.resize.size", &q->resize_width, &q->resize_height));
    QB_TRY(config_size(cx, p, "preprocess.crop", &q->crop_width, &q->crop_height));
    const int channels = qb_preprocess_channels(q); /* by the color, which is read above */
    QB_TRY(config_channels(cx, p, "preprocess.mean", channels, q->mean));
    QB_TRY(config_channels(cx, p, "preprocess.std", channels, q->std));
    p->has_preprocess = true;
    if (qb_preprocess_validate(cx, q) == QB_OK) return QB_OK;
    char why[256];
    snprintf(why, sizeof why, "%.255s", cx->message);
    return qb_config_fail(cx, p->config, "preprocess", "%s", why);
}

static qb_status config_labels(qb_ctx *cx, const qb_common *common, qb_project *p) {
    qb_named named = {NULL, p->config_name, "the settings'"};
    char *path = NULL;
    QB_TRY(config_path(cx, p, common, "data.labels", &path));
    if (!path) return QB_OK;
    QB_TRY(qb_config_string(cx, p->config, "data.labels", &named.name));
    qb_labels_release(&p->labels);
    qb_status status = qb_labels_load_named(cx, path, &named, &p->labels);
    qb_free(path);
    return status == QB_OK ? QB_OK : qb_wrap(cx, "%s: data.labels", p->config_name);
}

static qb_status config_names(qb_ctx *cx, const qb_project *p, const char *key, const char *what,
                              const char **names) {
    const qb_config_node *list = qb_config_find(p->config, key);
    const int n = list ? qb_config_size(list) : 0;
    if (n > QB_PROJECT_NAMES)
        return qb_config_fail(cx, p->config, key, "at most %d names, got %d", QB_PROJECT_NAMES, n);
    for (int i = 0; i < n; i++) {
        names[i] = qb_config_text(qb_config_at(list, i));
        if (!names[i])
            return qb_config_fail(cx, p->config, key, "expected a list of names of %s", what);
    }
    return QB_OK;
}

static qb_status config_numbers(qb_ctx *cx, qb_project *p) {
    QB_TRY(qb_config_int(cx, p->config, "calibration.samples", &p->samples));
    QB_TRY(qb_config_int(cx, p->config, "compare.batch", &p->batch));
    QB_TRY(qb_config_double(cx, p->config, "compare.duration", &p->duration_s));
    int64_t split = p->split;
    QB_TRY(qb_config_int(cx, p->config, "data.split", &split));
    QB_TRY(qb_config_int(cx, p->config, "data.split_seed", &p->split_seed));
    if (split < 0 || split > 99)
        return qb_config_fail(cx, p->config, "data.split", "expected 0 to 99 percent, got %lld",
                              (long long)split);
    p->split = (int32_t)split;
    if (p->batch < 1 || p->batch > 65536)
        return qb_config_fail(cx, p->config, "compare.batch", "expected 1 to 65536, got %lld",
                              (long long)p->batch);
    if (!(p->duration_s >= 0 && p->duration_s <= 86400))
        return qb_config_fail(cx, p->config, "compare.duration", "expected 0 to 86400, got %g",
                              p->duration_s);
    if (p->samples < 0)
        return qb_config_fail(cx, p->config, "calibration.samples", "expected 0 or more, got %lld",
                              (long long)p->samples);
    return QB_OK;
}

/* Plugins that the settings name, relative to their file. */
static qb_status config_plugins(qb_ctx *cx, const qb_project *p, const qb_common *common) {
    const qb_config_node *list = qb_config_find(p->config, "plugins");
    const int n = list ? qb_config_size(list) : 0;
    QB_FREED char *folder = common->config ? qb_path_dir(cx, common->config) : NULL;
    qb_status status = common->config && !folder ? cx->code : QB_OK;
    for (int i = 0; i < n && status == QB_OK; i++) {
        const char *name = qb_config_text(qb_config_at(list, i));
        char *path = name ? qb_path_join(cx, folder, name) : NULL;
        if (path)
            status = qb_plugins_load(cx, cx->plugins, path);
        else
            status = name
                         ? cx->code
                         : qb_config_fail(cx, p->config, "plugins", "expected a list of libraries");
        qb_free(path);
    }
    return status;
}

static qb_status apply_config(qb_ctx *cx, const qb_common *common, qb_project *p) {
    if (!p->config) return QB_OK;
    const char *method = NULL, *scheme = NULL, *weights = NULL;
    QB_TRY(config_plugins(cx, p, common));
    QB_TRY(config_path(cx, p, common, "data.calibration", &p->calibration_data));
    QB_TRY(config_path(cx, p, common, "data.evaluation", &p->evaluation_data));
    QB_TRY(config_path(cx, p, common, "data.targets", &p->targets));
    QB_TRY(config_path(cx, p, common, "data.images", &p->images));
    QB_TRY(config_labels(cx, common, p));
    QB_TRY(qb_task_from_config(cx, p->config, &p->task));
    QB_TRY(qb_config_string(cx, p->config, "data.decoder", &p->decoder));
    QB_TRY(config_preprocess(cx, p));
    QB_TRY(qb_config_string(cx, p->config, "calibration.method", &method));
    QB_TRY(set(cx, &p->method, method));
    QB_TRY(qb_config_string(cx, p->config, "quantization.activations", &scheme));
    if (scheme && !qb_scheme_parse(scheme, &p->activations))
        return qb_config_fail(cx, p->config, "quantization.activations",
                              "unknown value '%s': expected %s", scheme, QB_SCHEME_WORDS);
    QB_TRY(qb_config_string(cx, p->config, "quantization.weights", &weights));
    if (weights)
        QB_TRY_WRAP(cx, qb_weight_range_find(cx, weights, &p->weights), "%s: quantization.weights",
                    p->config_name);
    QB_TRY(
        qb_config_bool(cx, p->config, "quantization.per_tensor_weights", &p->per_tensor_weights));
    QB_TRY(config_names(cx, p, "quantization.keep_float", "nodes", p->keep_float));
    QB_TRY(config_names(cx, p, "quantization.activations_16", "values", p->activations_16));
    QB_TRY(config_names(cx, p, "fixed_inputs", "inputs, NAME=V,V,", p->fixed_inputs));
    return config_numbers(cx, p);
}

/* ---- command line ---- */

static qb_status copy_names(qb_ctx *cx, const char *option, const qb_opt_list *list,
                            const char **names) {
    if (list->n > QB_PROJECT_NAMES)
        return qb_fail(cx, QB_STATUS_USAGE, "--%s: at most %d names, got %d", option,
                       QB_PROJECT_NAMES, list->n);
    for (int i = 0; i < list->n; i++) names[i] = list->item[i];
    if (list->n > 0) names[list->n] = NULL;
    return QB_OK;
}

static qb_status apply_flags(qb_ctx *cx, const qb_project_flags *flags, bool data_is_calibration,
                             qb_project *p) {
    QB_TRY(set(cx, data_is_calibration ? &p->calibration_data : &p->evaluation_data, flags->data));
    QB_TRY(set(cx, &p->targets, flags->targets));
    QB_TRY(set(cx, &p->images, flags->images));
    if (flags->task) QB_TRY_WRAP(cx, qb_task_of_word(cx, flags->task, &p->task.task), "--task");
    QB_TRY(copy_names(cx, "keep-float", &flags->keep_float, p->keep_float));
    QB_TRY(copy_names(cx, "activations-16", &flags->activations_16, p->activations_16));
    QB_TRY(copy_names(cx, "disable-pass", &flags->disable_pass, p->disabled));
    if (flags->labels) {
        qb_labels_release(&p->labels);
        QB_TRY(qb_labels_load(cx, flags->labels, &p->labels));
    }
    if (flags->activations && !qb_scheme_parse(flags->activations, &p->activations))
        return qb_fail(cx, QB_STATUS_USAGE, "--activations: expected " QB_SCHEME_WORDS ", got '%s'",
                       flags->activations);
    if (flags->weights)
        QB_TRY_WRAP(cx, qb_weight_range_find(cx, flags->weights, &p->weights), "--weights");
    const qb_jpeg_batch_api *decoder;
    if (flags->decoder) p->decoder = flags->decoder;
    if (p->decoder) QB_TRY(qb_decoder_find(cx, p->decoder, &decoder));
    if (flags->samples_given) p->samples = flags->samples;
    if (flags->batch > 0) p->batch = flags->batch;
    p->strict = flags->strict;
    if (flags->per_tensor_given) p->per_tensor_weights = flags->per_tensor_weights;
    p->shapes = flags->shapes;
    p->build = flags->build;
    return qb_build_flags_parse(cx, &p->build, &p->spec, &p->devices, &p->missing_provider);
}

/* -o names a file when its ending is one of ours; the artifacts then go to its folder. Whether it
 * can be written is asked before hours of work, not behind them. */
qb_status qb_project_place(qb_ctx *cx, const char *out, qb_project *p) {
    if (!out) return QB_OK;
    static const char *const endings[] = {".h5", ".onnx", ".json", ".yaml", ".qbe"};
    bool is_file = false;
    for (int i = 0; i < 5; i++) is_file = is_file || qb_has_suffix(out, endings[i]);
    if (!is_file || qb_path_is_dir(out)) {
        QB_TRY(set(cx, &p->out_dir, out));
        p->made_dirs = qb_missing_dirs(out);
        QB_TRY(qb_make_dirs(cx, out));
        return access(out, W_OK) == 0 ? QB_OK : qb_fail_errno(cx, "write to folder %s", out);
    }
    QB_TRY(qb_file_can_write(cx, out));
    QB_TRY(set(cx, &p->out_file, out));
    p->out_dir = qb_path_dir(cx, out);
    return p->out_dir ? QB_OK : cx->code;
}

/* ---- interface ---- */

const char *qb_project_method(const qb_project *project, const qb_task *task) {
    if (project->method) return project->method;
    return task && task->method ? task->method : "entropy";
}

static qb_status project_open(qb_ctx *cx, const qb_common *common, const qb_project_flags *flags,
                              bool data_is_calibration, qb_project *p) {
    qb_preprocess_default(&p->preprocess);
    qb_task_settings_default(&p->task);
    QB_TRY(qb_settings_load(cx, common, &p->config_name, &p->config));
    if (p->config) QB_TRY(config_path(cx, p, common, "model", &p->model));
    QB_TRY(set(cx, &p->model, flags->model));
    if (!p->model) QB_TRY(find_model(cx, p));
    QB_TRY_NEW(cx, p->stem = qb_path_stem(cx, p->model));
    QB_TRY(apply_sidecar(cx, p));
    QB_TRY(apply_config(cx, common, p));
    QB_TRY(apply_flags(cx, flags, data_is_calibration, p));
    p->spec.threads = (int)common->threads;
    QB_TRY(qb_output_check(cx, "--json", common->json, p->model));
    QB_TRY(qb_output_check(cx, "--json", common->json, p->config_name));
    return qb_project_place(cx, common->out, p);
}

qb_status qb_project_open(qb_ctx *cx, const qb_common *common, const qb_project_flags *flags,
                          bool data_is_calibration, qb_project *out) {
    *out = (qb_project){.batch = 1};
    qb_status status = project_open(cx, common, flags, data_is_calibration, out);
    if (status != QB_OK) qb_project_close(out);
    return status;
}

void qb_project_close(qb_project *project) {
    if (project->made_dirs > 0) qb_remove_empty_dirs(project->out_dir, project->made_dirs);
    QB_FREE_ALL(project->model, project->stem, project->calibration_data, project->evaluation_data,
                project->targets, project->images);
    qb_sidecar_release(&project->sidecar);
    qb_task_settings_release(&project->task);
    QB_FREE_ALL(project->method, project->missing_provider, project->out_dir, project->out_file,
                project->absent_labels);
    qb_labels_release(&project->labels);
    qb_config_free(project->config);
    *project = (qb_project){0};
}

char *qb_project_file(qb_ctx *cx, const qb_project *project, const char *name) {
    return qb_path_join(cx, project->out_dir, name);
}

static bool is_one_set(const qb_project *project) {
    return project->evaluation_data && project->calibration_data &&
           strcmp(project->evaluation_data, project->calibration_data) == 0;
}

qb_split qb_project_split(const qb_project *project, const char *path, bool evaluation) {
    if (project->split == 0 || !is_one_set(project) || strcmp(path, project->calibration_data) != 0)
        return (qb_split){0};
    return (qb_split){project->split, evaluation, project->split_seed};
}

bool qb_project_scores_on_calibration(const qb_project *project) {
    return is_one_set(project) && project->split == 0;
}

char *qb_project_artifact(qb_ctx *cx, const qb_project *project, const char *suffix) {
    const char *dot = strrchr(suffix, '.'); /* "-o net.trt.onnx" is fine for a qdq.onnx */
    if (project->out_file && qb_has_suffix(project->out_file, dot ? dot : suffix))
        return qb_strdup(cx, project->out_file);
    QB_FREED char *name = qb_format(cx, "%s.%s", project->stem, suffix);
    return name ? qb_project_file(cx, project, name) : NULL;
}

char *qb_project_record(qb_ctx *cx, const qb_project *project) {
    if (project->out_file && qb_has_suffix(project->out_file, ".json"))
        return qb_strdup(cx, project->out_file);
    return qb_project_file(cx, project, "compare.json");
}

/* The first image that can be read: its size tells whether images must be resized at all. */
static qb_status first_image(qb_ctx *cx, const qb_dataset *dataset, qb_image *out) {
    qb_status status = QB_OK;
    for (int64_t i = 0; i < qb_dataset_count(dataset); i++) {
        status = qb_dataset_read(cx, dataset, i, out, NULL);
        if (status == QB_OK || status == QB_STATUS_NOMEM) return status;
    }
    return status;
}

/* What values the graph wants to see: bytes as they are, or as its own normalization tells, which
 * the optimizer has folded away by now. */
static qb_status guess_range(qb_ctx *cx, const qb_project *project, qb_dtype dtype,
                             qb_preprocess *out) {
    QB_RELEASED(qb_graph_free_at) qb_graph *written = NULL;
    qb_own_range range = QB_OWN_RANGE_PIXELS;
    if (dtype != QB_DTYPE_U8 && dtype != QB_DTYPE_S8) {
        QB_TRY(qb_onnx_load(cx, project->model, &written));
        QB_TRY(qb_fix_inputs(cx, project->fixed_inputs, written));
        QB_TRY(qb_graph_own_range(cx, written, written->inputs[0], &range));
    }
    if (range == QB_OWN_RANGE_NONE) return QB_OK;
    for (int c = 0; c < 4; c++) {
        out->mean[c] = dtype == QB_DTYPE_S8 ? 128 : 0;
        out->std[c] = range == QB_OWN_RANGE_PIXELS ? 1 : 255;
    }
    if (written)
        qb_info(cx, "%s normalizes its images itself: it is given pixels in %s", project->model,
                range == QB_OWN_RANGE_PIXELS ? "0..255" : "0..1");
    return QB_OK;
}

/* Detectors are prepared as the models of their decoder usually are. *decoder: NULL: it is none. */
static qb_status guess_detector(qb_ctx *cx, const qb_project *project, const qb_graph *graph,
                                int64_t height, int64_t width, qb_preprocess *out,
                                const qb_box_decoder **decoder) {
    static const qb_preprocess usual = {
        .resize = QB_RESIZE_LETTERBOX, .pad = 114, .std = {255, 255, 255}};
    const qb_task_settings *task = &project->task;
    const bool told = task->task && strcmp(task->task->name, "detect") == 0;
    const qb_detector_hints hints = {.settings = &task->detect,
                                     .width = width > 0 ? (int32_t)width : 640,
                                     .height = height > 0 ? (int32_t)height : 640,
                                     .n_labels = project->labels.n,
                                     .sure = !told};
    *decoder = NULL;
    if (task->task && !told) return QB_OK;
    *decoder = task->detect.decoder;
    if (!*decoder) QB_TRY(qb_detector_guess(cx, graph, &hints, decoder, NULL));
    if (!*decoder) return QB_OK;
    const qb_preprocess given = *out;
    *out = (*decoder)->images ? *(*decoder)->images : usual;
    out->resize_width = hints.width;
    out->resize_height = hints.height;
    out->filter = QB_FILTER_LINEAR;
    out->channels_last = given.channels_last;
    out->single = given.single;
    return QB_OK;
}

qb_status qb_project_guess(qb_ctx *cx, const qb_project *project, const qb_graph *graph,
                           const qb_dataset *dataset, qb_preprocess *out) {
    const qb_value *input = &graph->values[graph->inputs[0]];
    qb_image_input size, nhwc;
    const bool usual = qb_image_input_of(&input->shape, false, &size),
               last = qb_image_input_of(&input->shape, true, &nhwc) &&
                      (!usual || (size.channels != 1 && size.channels != 3)) &&
                      (nhwc.channels == 1 || nhwc.channels == 3);
    if (last) size = nhwc;
    const int64_t height = size.height, width = size.width;
    if ((!usual && !last) || height > 65535 || width > 65535)
        return qb_fail(
            cx, QB_STATUS_INVALID,
            "input '%s' is no image (N x C x H x W): describe preprocess in " QB_CONFIG_NAME
            ", or give tensors (see 'qbench help data')",
            input->name);
    qb_preprocess_for_shape(out, size.channels, height, width);
    out->channels_last = last;
    for (int c = 0; c < 4; c++) out->std[c] = 255;
    const qb_box_decoder *decoder = NULL;
    if (qb_preprocess_channels(out) == 3)
        QB_TRY(guess_detector(cx, project, graph, height, width, out, &decoder));
    QB_TRY(guess_range(cx, project, input->dtype, out));
    if (decoder) {
        qb_warn(cx,
                "no preprocessing is described for this model: assuming that of %s models: %s, "
                "resized (%s) to %d x %d, mean %g %g %g, std %g %g %g",
                decoder->name, qb_color_text(out->color), qb_resize_mode_text(out->resize),
                out->resize_width, out->resize_height, (double)out->mean[0], (double)out->mean[1],
                (double)out->mean[2], (double)out->std[0], (double)out->std[1],
                (double)out->std[2]);
        return QB_OK;
    }
    const char *range = out->std[0] == 255 ? "in 0..1" : "as they are";
    if (height < 1 || width < 1) {
        qb_warn(cx,
                "no preprocessing is described for this model: assuming %s, every image at its own "
                "size, pixels %s",
                qb_color_text(out->color), range);
        return QB_OK;
    }
    qb_image first = {0};
    if (dataset) QB_TRY(first_image(cx, dataset, &first));
    if (first.width == out->resize_width && first.height == out->resize_height) {
        out->resize = QB_RESIZE_NONE;
    } else if (dataset && height == width && !qb_dataset_truth(dataset) &&
               !qb_dataset_has_masks(dataset)) {
        /* Classifiers keep the proportions; where places count, the whole image is needed. */
        out->resize = QB_RESIZE_SHORT_SIDE;
        out->crop_width = out->crop_height = out->resize_width;
    }
    qb_image_release(&first);
    QB_FREED char *resizing =
        QB_NEW(cx, out->resize == QB_RESIZE_NONE
                       ? qb_strdup(cx, "as they are")
                       : qb_format(cx, "resized (%s) to %d x %d", qb_resize_mode_text(out->resize),
                                   out->resize_width, out->resize_height));
    qb_warn(cx,
            "no preprocessing is described for this model: assuming %s images %s, pixels %s; if "
            "FP32 accuracy looks wrong, edit " QB_CONFIG_NAME " ('qbench init' writes it)",
            qb_color_text(out->color), resizing, range);
    return QB_OK;
}
