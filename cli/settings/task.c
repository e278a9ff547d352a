#include "cli/settings/task.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

#include "base/log.h"
#include "base/opt.h"

typedef enum kind { KEY_NUMBER, KEY_FLAG, KEY_CHOICE } kind; /* a choice may stay untold: -1 */

/* A number or flag of `detection`. */
typedef struct number_key {
    const char *name;
    const char *others; /* what other tools call it, between spaces; sidecars alone have them */
    size_t offset;      /* in qb_detect_settings */
    double least, most;
    kind kind;
} number_key;

#define NUMBER(NAME, OTHERS, FIELD, LEAST, MOST)                                                   \
    { NAME, OTHERS, offsetof(qb_detect_settings, FIELD), LEAST, MOST, KEY_NUMBER }
#define FLAG(NAME, FIELD)                                                                          \
    { NAME, "", offsetof(qb_detect_settings, FIELD), 0, 1, KEY_FLAG }
#define CHOICE(NAME, FIELD)                                                                        \
    { NAME, "", offsetof(qb_detect_settings, FIELD), 0, 1, KEY_CHOICE }
static const number_key keys[] = {
    NUMBER("score_threshold",
           "conf_threshold confidence_threshold conf_thres score_thr score_thresh conf "
           "confidence",
           score_threshold, 0, 1),
    NUMBER("report_threshold", "visual_threshold", report_threshold, 0, 1),
    NUMBER("nms_iou", "iou_threshold nms_threshold iou_thres nms_iou_threshold nms_thresh iou",
           nms_iou, 0, 1),
    NUMBER("cell_offset", "center_offset", cell_offset, 0, 1),
    FLAG("multi_label", multi_label),
    CHOICE("normalized", normalized),
    CHOICE("sigmoid", sigmoid),
    CHOICE("background", background),
    CHOICE("exponential", exponential),
};

/* A list of numbers of `detection`. */
typedef struct list_key {
    const char *name, *others;
    size_t offset, count;
    int32_t most;
} list_key;

#define LIST(NAME, OTHERS, FIELD, COUNT, MOST)                                                     \
    { NAME, OTHERS, offsetof(qb_detect_settings, FIELD), offsetof(qb_detect_settings, COUNT), MOST }
static const list_key lists[] = {
    LIST("strides", "steps stride", stride, n_strides, QB_STRIDES_MAX),
    LIST("anchors", "", anchor, n_anchors, QB_ANCHORS_MAX),
    LIST("min_sizes", "min_size", min_size, n_min_sizes, QB_ANCHORS_MAX),
    LIST("max_sizes", "max_size", max_size, n_max_sizes, QB_STRIDES_MAX),
    LIST("aspect_ratios", "ratios", ratio, n_ratios, QB_RATIOS_MAX),
};
enum { KEYS = sizeof keys / sizeof *keys, LISTS = sizeof lists / sizeof *lists, IDS_MAX = 1 << 16 };

/* Where messages say that a value is, and what it is. */
typedef struct place {
    const char *file, *key;
} place;

static qb_status bad(qb_ctx *cx, const place *p, const char *expected) {
    return qb_fail(cx, QB_STATUS_FORMAT, "%s: key 'detection.%s': expected %s", p->file, p->key,
                   expected);
}

static qb_status set_number(qb_ctx *cx, const place *p, const number_key *k, double value,
                            qb_detect_settings *out) {
    char expected[64];
    void *field = (char *)out + k->offset;
    snprintf(expected, sizeof expected, "%g to %g", k->least, k->most);
    if (!(value >= k->least && value <= k->most)) return bad(cx, p, expected);
    if (k->kind == KEY_FLAG)
        *(bool *)field = value != 0;
    else if (k->kind == KEY_CHOICE)
        *(int32_t *)field = value != 0;
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

/* Strides, sides and ratios of boxes. */
static qb_status check_positive(qb_ctx *cx, const place *p, const double *value, int32_t n) {
    for (int32_t i = 0; i < n; i++)
        if (!(value[i] > 0)) return bad(cx, p, "numbers above 0");
    return QB_OK;
}

static qb_status set_ids(qb_ctx *cx, const place *p, const double *value, int32_t n,
                         qb_detect_settings *out) {
    for (int32_t i = 0; i < n; i++)
        if (value[i] != trunc(value[i])) return bad(cx, p, "whole numbers");
    int64_t *ids = QB_NEW(cx, qb_alloc(cx, (size_t)n, sizeof *ids));
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

/* The value of a key by its name or one of the others; *name tells which. */
static const json_t *find_key(const json_t *object, const char *own, const char *others,
                              const char **name) {
    static const char *const none = "";
    const char *key;
    json_t *value;
    *name = own;
    const json_t *found = json_object_get(object, own);
    if (found || others == none) return found;
    json_object_foreach((json_t *)(uintptr_t)object, key, value) {
        const char *at = strstr(others, key);
        const size_t n = strlen(key);
        for (; at && n > 0; at = strstr(at + 1, key))
            if ((at == others || at[-1] == ' ') && (at[n] == ' ' || at[n] == '\0')) {
                *name = key;
                return value;
            }
    }
    return NULL;
}

static qb_status read_list(qb_ctx *cx, const char *file, const char *name, const json_t *value,
                           double *out, size_t most, int32_t *n) {
    const place p = {file, name};
    int32_t read = 0;
    char expected[64];
    snprintf(expected, sizeof expected, "a list of at most %zu numbers", most);
    if (!value || json_is_null(value)) return QB_OK;
    if (!json_is_array(value) || !flatten(value, out, most, &read)) return bad(cx, &p, expected);
    *n = read;
    return QB_OK;
}

static qb_status sidecar_ids(qb_ctx *cx, const char *file, const json_t *object,
                             qb_detect_settings *out) {
    const place p = {file, "category_ids"};
    const json_t *list = json_object_get(object, p.key);
    if (!list) return QB_OK;
    QB_FREED double *value = QB_NEW(cx, qb_alloc(cx, IDS_MAX, sizeof *value));
    int32_t n = 0;
    QB_TRY(read_list(cx, file, p.key, list, value, IDS_MAX, &n));
    if (n > 0) QB_TRY(set_ids(cx, &p, value, n, out));
    return QB_OK;
}

static qb_status sidecar_numbers(qb_ctx *cx, const char *file, const json_t *object,
                                 qb_detect_settings *out) {
    const char *name;
    for (int i = 0; i < KEYS; i++) {
        const json_t *value = find_key(object, keys[i].name, keys[i].others, &name);
        const place p = {file, name};
        const bool flag = keys[i].kind != KEY_NUMBER;
        if (!value || json_is_null(value)) continue;
        if (flag ? !json_is_boolean(value) : !json_is_number(value))
            return bad(cx, &p, flag ? "true or false" : "a number");
        const double number = flag ? json_is_true(value) : json_number_value(value);
        QB_TRY(set_number(cx, &p, &keys[i], number, out));
    }
    for (int i = 0; i < LISTS; i++) {
        const json_t *value = find_key(object, lists[i].name, lists[i].others, &name);
        double *list = (double *)(void *)((char *)out + lists[i].offset);
        int32_t *count = (int32_t *)(void *)((char *)out + lists[i].count);
        QB_TRY(read_list(cx, file, name, value, list, (size_t)lists[i].most, count));
        if (value) QB_TRY(check_positive(cx, &(place){file, name}, list, *count));
    }
    const json_t *variance = find_key(object, "variance", "variances", &name);
    double four[4];
    int32_t n = 0;
    QB_TRY(read_list(cx, file, name, variance, four, 4, &n));
    if (n == 1 || n == 3) return bad(cx, &(place){file, name}, "2 or 4 numbers");
    if (n > 0) memcpy(out->variance, (double[]){four[0], four[n - 1]}, sizeof out->variance);
    const json_t *apart = json_object_get(object, "nms_per_class");
    if (apart && !json_is_boolean(apart) && !json_is_null(apart))
        return bad(cx, &(place){file, "nms_per_class"}, "true or false");
    if (json_is_boolean(apart)) out->across_classes = json_is_false(apart);
    const json_t *across = find_key(object, "class_agnostic", "agnostic_nms agnostic", &name);
    if (across && !json_is_boolean(across) && !json_is_null(across))
        return bad(cx, &(place){file, name}, "true or false");
    if (json_is_boolean(across)) out->across_classes = json_is_true(across);
    const json_t *most =
        find_key(object, "top_k", "max_detections max_det topk max_per_img", &name);
    if (!most || json_is_null(most)) return QB_OK;
    if (!json_is_integer(most) || json_integer_value(most) < 0)
        return bad(cx, &(place){file, name}, "a whole number from 0 on");
    out->top_k = json_integer_value(most);
    return QB_OK;
}

/* Sidecars say many things in words of their own; one that is nearly a key is a slip. */
static void warn_of_slips(const qb_ctx *cx, const char *file, const json_t *object) {
    const char *known[KEYS + LISTS + 9] = {"decode",       "box_format", "nms_per_class", "top_k",
                                           "category_ids", "labels",     "variance",      "score"};
    int n = 8;
    const char *key;
    json_t *value;
    for (int i = 0; i < KEYS; i++) known[n++] = keys[i].name;
    for (int i = 0; i < LISTS; i++) known[n++] = lists[i].name;
    json_object_foreach((json_t *)(uintptr_t)object, key, value) {
        const char *near = qb_nearest(key, known);
        if (near && strcmp(near, key) != 0 && strlen(key) + 1 >= strlen(near) &&
            strlen(key) <= strlen(near) + 1)
            qb_warn(cx, "%s: key 'detection.%s' is not known (did you mean '%s'?)", file, key,
                    near);
    }
}

/* *out is NULL where nothing is said. */
static qb_status word_of(qb_ctx *cx, const place *p, const json_t *value, const char **out) {
    *out = json_string_value(value);
    return *out || !value || json_is_null(value) ? QB_OK : bad(cx, p, "a text");
}

static qb_status sidecar_detection(qb_ctx *cx, const char *file, const json_t *object,
                                   qb_detect_settings *out) {
    const char *name, *box_name, *decode, *box;
    const json_t *value = find_key(object, "decode", "decoder", &name);
    QB_TRY(word_of(cx, &(place){file, name}, value, &decode));
    value = find_key(object, "box_format", "boxes_format bbox_format", &box_name);
    QB_TRY(word_of(cx, &(place){file, box_name}, value, &box));
    if (decode) QB_TRY(set_decoder(cx, &(place){file, name}, decode, out));
    if (box) QB_TRY(set_box(cx, &(place){file, box_name}, box, out));
    QB_TRY(sidecar_numbers(cx, file, object, out));
    warn_of_slips(cx, file, object);
    return sidecar_ids(cx, file, object, out);
}

/* A list of names; other forms tell nothing. */
static qb_status sidecar_names(qb_ctx *cx, const json_t *list, qb_labels *out) {
    enum { NAMES_MAX = 1 << 16 };
    const size_t n = json_array_size(list);
    if (n == 0 || n > NAMES_MAX) return QB_OK;
    QB_FREED const char **name = QB_NEW(cx, qb_alloc(cx, n, sizeof *name));
    bool texts = true;
    for (size_t i = 0; i < n; i++) {
        name[i] = json_string_value(json_array_get(list, i));
        texts = texts && name[i];
    }
    if (texts) {
        qb_labels_release(out);
        QB_TRY(qb_labels_from_names(cx, name, (int)n, out));
    }
    return QB_OK;
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
    if (sidecar->task) {
        out->task = qb_task_find(sidecar->task);
        if (!out->task)
            qb_warn(cx, "%s: key 'task': no task is called '%.40s': it goes by the model's outputs",
                    sidecar->path, sidecar->task);
    } else if (json_is_object(detection) || json_is_object(segmentation)) /* what else is it for? */
        out->task = qb_task_find(json_is_object(detection) ? "detect" : "segment");
    if (sidecar->output) QB_TRY_NEW(cx, out->output = qb_strdup(cx, sidecar->output));
    if (json_is_object(detection))
        QB_TRY(sidecar_detection(cx, sidecar->path, detection, &out->detect));
    return sidecar_segmentation(cx, sidecar->path, segmentation, &out->segment);
}

/* ---- qbench.yaml ---- */

static qb_status config_lists(qb_ctx *cx, const qb_config *config, qb_detect_settings *out) {
    char path[64];
    for (int i = 0; i < LISTS; i++) {
        int n = 0;
        snprintf(path, sizeof path, "detection.%s", lists[i].name);
        if (!qb_config_find(config, path)) continue;
        QB_TRY(qb_config_doubles(cx, config, path,
                                 (double *)(void *)((char *)out + lists[i].offset), lists[i].most,
                                 &n));
        *(int32_t *)(void *)((char *)out + lists[i].count) = n;
        const place p = {"qbench.yaml", lists[i].name};
        QB_TRY(check_positive(cx, &p, (double *)(void *)((char *)out + lists[i].offset), n));
    }
    double variance[2];
    int n = 0;
    QB_TRY(qb_config_doubles(cx, config, "detection.variance", variance, 2, &n));
    if (n == 1) return qb_config_fail(cx, config, "detection.variance", "expected 2 numbers");
    if (n == 2) memcpy(out->variance, variance, sizeof variance);
    return QB_OK;
}

static qb_status config_numbers(qb_ctx *cx, const qb_config *config, qb_detect_settings *out) {
    char path[64];
    for (int i = 0; i < KEYS; i++) {
        const place p = {"qbench.yaml", keys[i].name};
        const bool is_flag = keys[i].kind != KEY_NUMBER;
        double value = NAN;
        bool flag = false;
        snprintf(path, sizeof path, "detection.%s", keys[i].name);
        if (!qb_config_find(config, path)) continue;
        QB_TRY(is_flag ? qb_config_bool(cx, config, path, &flag)
                       : qb_config_double(cx, config, path, &value));
        QB_TRY(set_number(cx, &p, &keys[i], is_flag ? flag : value, out));
    }
    QB_TRY(config_lists(cx, config, out));
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
    QB_FREED double *value = QB_NEW(cx, qb_alloc(cx, (size_t)size, sizeof *value));
    int n = 0;
    QB_TRY(qb_config_doubles(cx, config, "detection.category_ids", value, size, &n));
    return set_ids(cx, &(place){"qbench.yaml", "category_ids"}, value, n, out);
}

static qb_status config_segmentation(qb_ctx *cx, const qb_config *config,
                                     qb_segment_settings *out) {
    const qb_config_node *list = qb_config_find(config, "segmentation.classes");
    const int n = list ? qb_config_size(list) : 0;
    QB_FREED const char **name = QB_NEW(cx, qb_alloc(cx, (size_t)n, sizeof *name));
    for (int i = 0; i < n; i++) {
        name[i] = qb_config_text(qb_config_at(list, i));
        if (!name[i])
            return qb_config_fail(cx, config, "segmentation.classes", "expected a list of names");
    }
    if (n > 0) {
        qb_labels_release(&out->classes);
        QB_TRY(qb_labels_from_names(cx, name, n, &out->classes));
    }
    double threshold = out->threshold;
    QB_TRY(qb_config_double(cx, config, "segmentation.threshold", &threshold));
    return set_threshold(cx, "qbench.yaml", threshold, &out->threshold);
}

qb_status qb_task_from_config(qb_ctx *cx, const qb_config *config, qb_task_settings *out) {
    const char *task = NULL, *decode = NULL, *box = NULL;
    qb_detect_settings *d = &out->detect;
    QB_TRY(qb_config_string(cx, config, "task", &task));
    QB_TRY(qb_config_string(cx, config, "detection.decode", &decode));
    QB_TRY(qb_config_string(cx, config, "detection.box_format", &box));
    if (task) QB_TRY_WRAP(cx, qb_task_of_word(cx, task, &out->task), "qbench.yaml");
    if (decode) QB_TRY(set_decoder(cx, &(place){"qbench.yaml", "decode"}, decode, d));
    if (box) QB_TRY(set_box(cx, &(place){"qbench.yaml", "box_format"}, box, d));
    QB_TRY(config_numbers(cx, config, d));
    QB_TRY(config_segmentation(cx, config, &out->segment));
    return config_ids(cx, config, d);
}
