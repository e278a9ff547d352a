#include "cli/settings/task.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

/* A number, flag or list of `detection`. */
typedef struct key {
    const char *name;
    size_t offset; /* in qb_detect_settings */
    double least, most;
    bool flag;
} key;

#define NUMBER(NAME, FIELD, LEAST, MOST)                                                           \
    { NAME, offsetof(qb_detect_settings, FIELD), LEAST, MOST, false }
#define FLAG(NAME, FIELD)                                                                          \
    { NAME, offsetof(qb_detect_settings, FIELD), 0, 1, true }
static const key keys[] = {
    NUMBER("score_threshold", score_threshold, 0, 1),
    NUMBER("report_threshold", report_threshold, 0, 1),
    NUMBER("nms_iou", nms_iou, 0, 1),
    FLAG("multi_label", multi_label),
    FLAG("normalized", normalized),
};
enum { KEYS = sizeof keys / sizeof *keys, IDS_MAX = 1 << 16 };

/* Where messages say that a value is, and what it is. */
typedef struct place {
    const char *file, *key;
} place;

static qb_status bad(qb_ctx *cx, const place *p, const char *expected) {
    return qb_fail(cx, QB_STATUS_FORMAT, "%s: key 'detection.%s': expected %s", p->file, p->key,
                   expected);
}

static qb_status set_number(qb_ctx *cx, const place *p, const key *k, double value,
                            qb_detect_settings *out) {
    char expected[64];
    void *field = (char *)out + k->offset;
    snprintf(expected, sizeof expected, "%g to %g", k->least, k->most);
    if (!(value >= k->least && value <= k->most)) return bad(cx, p, expected);
    if (k->flag)
        *(bool *)field = value != 0;
    else
        *(double *)field = value;
    return QB_OK;
}

static qb_status set_decoder(qb_ctx *cx, const place *p, const char *name,
                             qb_detect_settings *out) {
    QB_TRY_WRAP(cx, qb_box_decoder_find(cx, name, &out->decoder), "%s: key 'detection.%s'", p->file,
                p->key);
    return QB_OK;
}

static qb_status set_box(qb_ctx *cx, const place *p, const char *word, qb_detect_settings *out) {
    char text[128];
    out->box = qb_word_find(qb_box_words, word);
    return out->box >= 0 ? QB_OK
                         : bad(cx, p, qb_word_error(qb_box_words, word, text, sizeof text) + 9);
}

static qb_status set_ids(qb_ctx *cx, const double *value, int32_t n, qb_detect_settings *out) {
    int64_t *ids = qb_alloc(cx, (size_t)n, sizeof *ids);
    if (!ids) return cx->code;
    for (int32_t i = 0; i < n; i++) ids[i] = (int64_t)value[i];
    qb_free(out->category_id);
    out->category_id = ids;
    out->n_category_ids = n;
    return QB_OK;
}

/* ---- sidecar ---- */

/* The numbers of a list, flattened: anchors come in pairs and in lists of pairs. False: not
 * numbers, or more than `most`. */
static bool flatten(const json_t *value, double *out, size_t most, int32_t *n) {
    if (json_is_number(value) && (size_t)*n < most) {
        out[(*n)++] = json_number_value(value);
        return isfinite(out[*n - 1]) && fabs(out[*n - 1]) < 0x1p53;
    }
    if (!json_is_array(value)) return false;
    size_t i;
    const json_t *item;
    json_array_foreach(value, i, item) if (!flatten(item, out, most, n)) return false;
    return true;
}

static qb_status sidecar_list(qb_ctx *cx, const place *p, const json_t *object, double *out,
                              size_t most, int32_t *n) {
    const json_t *value = json_object_get(object, p->key);
    int32_t read = 0;
    if (!value || json_is_null(value)) return QB_OK;
    if (!json_is_array(value) || !flatten(value, out, most, &read))
        return bad(cx, p, "a list of numbers");
    *n = read;
    return QB_OK;
}

static qb_status sidecar_ids(qb_ctx *cx, const char *file, const json_t *object,
                             qb_detect_settings *out) {
    const place p = {file, "category_ids"};
    if (!json_object_get(object, p.key)) return QB_OK;
    double *value = qb_alloc(cx, IDS_MAX, sizeof *value);
    if (!value) return cx->code;
    int32_t n = 0;
    qb_status status = sidecar_list(cx, &p, object, value, IDS_MAX, &n);
    if (status == QB_OK && n > 0) status = set_ids(cx, value, n, out);
    qb_free(value);
    return status;
}

static qb_status sidecar_numbers(qb_ctx *cx, const char *file, const json_t *object,
                                 qb_detect_settings *out) {
    for (int i = 0; i < KEYS; i++) {
        const json_t *value = json_object_get(object, keys[i].name);
        const place p = {file, keys[i].name};
        if (!value || json_is_null(value)) continue;
        if (keys[i].flag ? !json_is_boolean(value) : !json_is_number(value))
            return bad(cx, &p, keys[i].flag ? "true or false" : "a number");
        const double number = keys[i].flag ? json_is_true(value) : json_number_value(value);
        QB_TRY(set_number(cx, &p, &keys[i], number, out));
    }
    const json_t *apart = json_object_get(object, "nms_per_class");
    const json_t *most = json_object_get(object, "top_k");
    if (json_is_boolean(apart)) out->across_classes = json_is_false(apart);
    if (json_is_integer(most) && json_integer_value(most) >= 0)
        out->top_k = json_integer_value(most);
    return QB_OK;
}

static qb_status sidecar_detection(qb_ctx *cx, const char *file, const json_t *object,
                                   qb_detect_settings *out) {
    const char *decode = json_string_value(json_object_get(object, "decode")),
               *box = json_string_value(json_object_get(object, "box_format"));
    const place strides = {file, "strides"}, anchors = {file, "anchors"};
    if (decode) QB_TRY(set_decoder(cx, &(place){file, "decode"}, decode, out));
    if (box) QB_TRY(set_box(cx, &(place){file, "box_format"}, box, out));
    QB_TRY(sidecar_numbers(cx, file, object, out));
    QB_TRY(sidecar_list(cx, &strides, object, out->stride, QB_STRIDES_MAX, &out->n_strides));
    QB_TRY(sidecar_list(cx, &anchors, object, out->anchor, QB_ANCHORS_MAX, &out->n_anchors));
    return sidecar_ids(cx, file, object, out);
}

/* A list of names; other forms tell nothing. */
static qb_status sidecar_names(qb_ctx *cx, const json_t *list, qb_labels *out) {
    enum { NAMES_MAX = 1 << 16 };
    const size_t n = json_array_size(list);
    if (n == 0 || n > NAMES_MAX) return QB_OK;
    const char **name = qb_alloc(cx, n, sizeof *name);
    if (!name) return cx->code;
    bool texts = true;
    for (size_t i = 0; i < n; i++) {
        name[i] = json_string_value(json_array_get(list, i));
        texts = texts && name[i];
    }
    qb_status status = QB_OK;
    if (texts) {
        qb_labels_release(out);
        status = qb_labels_from_names(cx, name, (int)n, out);
    }
    qb_free(name);
    return status;
}

static qb_status set_threshold(qb_ctx *cx, const char *file, double value, double *out) {
    *out = value;
    if (value > 0 && value < 1) return QB_OK;
    return qb_fail(cx, QB_STATUS_FORMAT,
                   "%s: key 'segmentation.threshold': expected a number between 0 and 1", file);
}

static qb_status sidecar_segmentation(qb_ctx *cx, const char *file, const json_t *object,
                                      qb_segment_settings *out) {
    const json_t *threshold = json_object_get(object, "threshold");
    QB_TRY(sidecar_names(cx, json_object_get(object, "classes"), &out->classes));
    return json_is_number(threshold)
               ? set_threshold(cx, file, json_number_value(threshold), &out->threshold)
               : QB_OK;
}

qb_status qb_task_from_sidecar(qb_ctx *cx, const qb_sidecar *sidecar, qb_task_settings *out) {
    const json_t *detection = json_object_get(sidecar->root, "detection");
    const json_t *segmentation = json_object_get(sidecar->root, "segmentation");
    if (sidecar->task) out->task = qb_task_find(sidecar->task);
    if (sidecar->output) {
        out->output = qb_strdup(cx, sidecar->output);
        if (!out->output) return cx->code;
    }
    if (json_is_object(detection))
        QB_TRY(sidecar_detection(cx, sidecar->path, detection, &out->detect));
    return sidecar_segmentation(cx, sidecar->path, segmentation, &out->segment);
}

/* ---- qbench.yaml ---- */

static qb_status config_numbers(qb_ctx *cx, const qb_config *config, qb_detect_settings *out) {
    char path[64];
    for (int i = 0; i < KEYS; i++) {
        const place p = {"qbench.yaml", keys[i].name};
        double value = NAN;
        bool flag = false;
        snprintf(path, sizeof path, "detection.%s", keys[i].name);
        if (!qb_config_find(config, path)) continue;
        QB_TRY(keys[i].flag ? qb_config_bool(cx, config, path, &flag)
                            : qb_config_double(cx, config, path, &value));
        QB_TRY(set_number(cx, &p, &keys[i], keys[i].flag ? flag : value, out));
    }
    bool apart = !out->across_classes;
    QB_TRY(qb_config_bool(cx, config, "detection.nms_per_class", &apart));
    QB_TRY(qb_config_int(cx, config, "detection.top_k", &out->top_k));
    out->across_classes = !apart;
    if (out->top_k < 0) return qb_config_fail(cx, config, "detection.top_k", "expected 0 or more");
    return QB_OK;
}

static qb_status config_ids(qb_ctx *cx, const qb_config *config, qb_detect_settings *out) {
    const qb_config_node *list = qb_config_find(config, "detection.category_ids");
    const int size = list ? qb_config_size(list) : 0;
    if (size < 1) return QB_OK;
    double *value = qb_alloc(cx, (size_t)size, sizeof *value);
    if (!value) return cx->code;
    int n = 0;
    qb_status status = qb_config_doubles(cx, config, "detection.category_ids", value, size, &n);
    if (status == QB_OK) status = set_ids(cx, value, n, out);
    qb_free(value);
    return status;
}

static qb_status config_segmentation(qb_ctx *cx, const qb_config *config,
                                     qb_segment_settings *out) {
    const qb_config_node *list = qb_config_find(config, "segmentation.classes");
    const int n = list ? qb_config_size(list) : 0;
    const char **name = qb_alloc(cx, (size_t)n, sizeof *name);
    if (!name) return cx->code;
    qb_status status = QB_OK;
    for (int i = 0; i < n && status == QB_OK; i++) {
        name[i] = qb_config_text(qb_config_at(list, i));
        if (!name[i])
            status = qb_config_fail(cx, config, "segmentation.classes", "expected a list of names");
    }
    if (status == QB_OK && n > 0) {
        qb_labels_release(&out->classes);
        status = qb_labels_from_names(cx, name, n, &out->classes);
    }
    qb_free(name);
    QB_TRY(status);
    double threshold = out->threshold;
    QB_TRY(qb_config_double(cx, config, "segmentation.threshold", &threshold));
    return set_threshold(cx, "qbench.yaml", threshold, &out->threshold);
}

qb_status qb_task_from_config(qb_ctx *cx, const qb_config *config, qb_task_settings *out) {
    const char *task = NULL, *decode = NULL, *box = NULL;
    qb_detect_settings *d = &out->detect;
    int strides = d->n_strides, anchors = d->n_anchors;
    QB_TRY(qb_config_string(cx, config, "task", &task));
    QB_TRY(qb_config_string(cx, config, "detection.decode", &decode));
    QB_TRY(qb_config_string(cx, config, "detection.box_format", &box));
    if (task) QB_TRY_WRAP(cx, qb_task_of_word(cx, task, &out->task), "qbench.yaml");
    if (decode) QB_TRY(set_decoder(cx, &(place){"qbench.yaml", "decode"}, decode, d));
    if (box) QB_TRY(set_box(cx, &(place){"qbench.yaml", "box_format"}, box, d));
    QB_TRY(config_numbers(cx, config, d));
    if (qb_config_find(config, "detection.strides"))
        QB_TRY(qb_config_doubles(cx, config, "detection.strides", d->stride, QB_STRIDES_MAX,
                                 &strides));
    if (qb_config_find(config, "detection.anchors"))
        QB_TRY(qb_config_doubles(cx, config, "detection.anchors", d->anchor, QB_ANCHORS_MAX,
                                 &anchors));
    d->n_strides = strides;
    d->n_anchors = anchors;
    QB_TRY(config_segmentation(cx, config, &out->segment));
    return config_ids(cx, config, d);
}
