#include "datasets/sidecar.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/json_clean.h"
#include "base/log.h"
#include "base/open.h"
#include "datasets_internal.h"

#define SIDECAR_BYTES_MAX ((size_t)16 << 20)

typedef struct reader {
    qb_ctx *cx;
    json_t *root;
    qb_sidecar sidecar;
} reader;

static const char *type_text(const json_t *value) {
    switch (json_typeof(value)) {
    case JSON_OBJECT: return "an object";
    case JSON_ARRAY: return "a list";
    case JSON_STRING: return "a string";
    case JSON_INTEGER:
    case JSON_REAL: return "a number";
    case JSON_TRUE:
    case JSON_FALSE: return "a boolean";
    default: return "null";
    }
}

static qb_status wrong_type(reader *r, const char *key, const char *expected, const json_t *got) {
    return qb_fail(r->cx, QB_STATUS_FORMAT, "%s: key '%s': expected %s, got %s", r->sidecar.path,
                   key, expected, got ? type_text(got) : "nothing");
}

/* A string or null; *out is left alone when the key is absent. */
static qb_status read_string(reader *r, const char *key, char **out) {
    const json_t *value = json_object_get(r->root, key);
    if (!value || json_is_null(value)) return QB_OK;
    if (!json_is_string(value)) return wrong_type(r, key, "a string", value);
    *out = qb_strdup(r->cx, json_string_value(value));
    return *out ? QB_OK : r->cx->code;
}

static qb_status read_shape(reader *r) {
    qb_shape *shape = &r->sidecar.shape;
    shape->rank = -1;
    const json_t *value = json_object_get(r->root, "shape");
    if (!value || json_is_null(value)) return QB_OK;
    if (!json_is_array(value)) return wrong_type(r, "shape", "a list", value);
    size_t n = json_array_size(value);
    if (n > QB_MAX_RANK)
        return qb_fail(r->cx, QB_STATUS_FORMAT, "%s: key 'shape': %zu dimensions, the limit is %d",
                       r->sidecar.path, n, QB_MAX_RANK);
    for (size_t i = 0; i < n; i++) {
        const json_t *item = json_array_get(value, i);
        if (!json_is_integer(item) && !json_is_string(item))
            return wrong_type(r, "shape", "numbers and symbols", item);
        int64_t size = json_is_integer(item) ? json_integer_value(item) : -1;
        shape->dim[i] = size < 0 ? -1 : size;
    }
    shape->rank = (int32_t)n;
    return QB_OK;
}

static bool read_side(const json_t *value, int32_t *out) {
    if (!json_is_integer(value)) return false;
    json_int_t n = json_integer_value(value);
    *out = (int32_t)n;
    return n >= 1 && n <= INT32_MAX;
}

/* "size" of the object under `key`: N or [width, height]. */
static qb_status read_size(reader *r, const char *key, const json_t *object, int32_t *width,
                           int32_t *height) {
    const json_t *size = json_object_get(object, "size");
    bool pair = json_is_array(size) && json_array_size(size) == 2;
    const json_t *w = pair ? json_array_get(size, 0) : size;
    const json_t *h = pair ? json_array_get(size, 1) : size;
    if (read_side(w, width) && read_side(h, height)) return QB_OK;
    return qb_fail(r->cx, QB_STATUS_FORMAT,
                   "%s: key '%s.size': expected a number of pixels or [width, height]",
                   r->sidecar.path, key);
}

/* The string under `name` of the object under `key`; NULL when absent. */
static qb_status read_choice(reader *r, const char *key, const json_t *object, const char *name,
                             const char **out) {
    const json_t *value = json_object_get(object, name);
    *out = json_string_value(value);
    if (!value || *out) return QB_OK;
    return qb_fail(r->cx, QB_STATUS_FORMAT, "%s: key '%s.%s': expected a string, got %s",
                   r->sidecar.path, key, name, type_text(value));
}

static qb_status unknown_choice(reader *r, const char *key, const char *const *words,
                                const char *got) {
    char text[256];
    return qb_fail(r->cx, QB_STATUS_UNSUPPORTED, "%s: key '%s': %s", r->sidecar.path, key,
                   qb_word_error(words, got, text, sizeof text));
}

/* The number of the word under `name` of the object under `key`; *out is left alone without one. */
static qb_status read_word(reader *r, const char *key, const json_t *object, const char *name,
                           const char *const *words, int32_t *out) {
    const char *word;
    char path[64];
    QB_TRY(read_choice(r, key, object, name, &word));
    if (!word) return QB_OK;
    *out = qb_word_find(words, word);
    if (*out >= 0) return QB_OK;
    snprintf(path, sizeof path, "%s.%s", key, name);
    return unknown_choice(r, path, words, word);
}

/* A whole number from 0 to `most`, or a flag where `most` is 1. */
static qb_status read_small(reader *r, const char *key, const json_t *object, const char *name,
                            int32_t most, int32_t *out) {
    const json_t *value = json_object_get(object, name);
    if (!value) return QB_OK;
    const json_int_t n = json_is_boolean(value) && most == 1 ? json_is_true(value)
                         : json_is_integer(value)            ? json_integer_value(value)
                                                             : -1;
    if (n < 0 || n > most)
        return qb_fail(r->cx, QB_STATUS_FORMAT, "%s: key '%s.%s': expected %s", r->sidecar.path,
                       key, name, most == 1 ? "true or false" : "a whole number in its range");
    *out = (int32_t)n;
    return QB_OK;
}

static qb_status read_resize(reader *r) {
    qb_preprocess *p = &r->sidecar.preprocess;
    const json_t *value = json_object_get(r->root, "resize");
    if (!value) return QB_OK;
    p->resize = QB_RESIZE_NONE;
    if (json_is_null(value)) return QB_OK;
    if (!json_is_object(value)) return wrong_type(r, "resize", "an object or null", value);
    int32_t mode = -1, filter = p->filter, anchor = p->anchor, pad = p->pad, stride = p->stride,
            enlarge = !p->no_enlarge;
    QB_TRY(read_word(r, "resize", value, "mode", qb_resize_mode_words, &mode));
    if (mode < 0) return unknown_choice(r, "resize.mode", qb_resize_mode_words, NULL);
    QB_TRY(read_word(r, "resize", value, "filter", qb_filter_words, &filter));
    QB_TRY(read_word(r, "resize", value, "anchor", qb_anchor_words, &anchor));
    QB_TRY(read_small(r, "resize", value, "pad", 255, &pad));
    QB_TRY(read_small(r, "resize", value, "stride", 65536, &stride));
    QB_TRY(read_small(r, "resize", value, "enlarge", 1, &enlarge));
    p->resize = (qb_resize_mode)mode;
    p->filter = (qb_filter)filter;
    p->anchor = (qb_anchor)anchor;
    p->pad = (uint8_t)pad;
    p->stride = stride;
    p->no_enlarge = !enlarge;
    if (p->resize == QB_RESIZE_NONE) return QB_OK;
    QB_TRY(read_size(r, "resize", value, &p->resize_width, &p->resize_height));
    const bool one = p->resize == QB_RESIZE_SHORT_SIDE || p->resize == QB_RESIZE_LONGER_SIDE;
    if (one && json_is_array(json_object_get(value, "size")))
        return qb_fail(r->cx, QB_STATUS_FORMAT,
                       "%s: key 'resize.size': %s takes one number, got a list", r->sidecar.path,
                       qb_resize_mode_text(p->resize));
    return QB_OK;
}

static qb_status read_crop(reader *r) {
    qb_preprocess *p = &r->sidecar.preprocess;
    const json_t *value = json_object_get(r->root, "crop");
    if (!value || json_is_null(value)) return QB_OK;
    if (!json_is_object(value)) return wrong_type(r, "crop", "an object or null", value);
    const char *mode;
    QB_TRY(read_choice(r, "crop", value, "mode", &mode));
    static const char *const words[] = {"center", NULL};
    if (mode && strcmp(mode, "center") != 0) return unknown_choice(r, "crop.mode", words, mode);
    return read_size(r, "crop", value, &p->crop_width, &p->crop_height);
}

/* The first word counts: "GRAY (white digit on black)", "Y of YCbCr". */
static qb_status read_color(reader *r) {
    const json_t *value = json_object_get(r->root, "color");
    if (!value || json_is_null(value)) return QB_OK;
    const char *text = json_string_value(value);
    if (!text) return wrong_type(r, "color", "a string", value);
    char word[8] = "";
    for (size_t i = 0; i + 1 < sizeof word && isalnum((unsigned char)text[i]); i++)
        word[i] = (char)toupper((unsigned char)text[i]);
    if (strcmp(word, "GREY") == 0) memcpy(word, "GRAY", 4);
    const int32_t color = qb_word_find(qb_color_words, word);
    if (color < 0) return unknown_choice(r, "color", qb_color_words, text);
    r->sidecar.preprocess.color = (qb_color)color;
    return QB_OK;
}

/* mean or std: a number for all channels, or one for each. */
static qb_status read_numbers(reader *r, const char *key, float out[4]) {
    const json_t *value = json_object_get(r->root, key);
    if (!value || json_is_null(value)) return QB_OK;
    size_t channels = (size_t)qb_preprocess_channels(&r->sidecar.preprocess);
    size_t n = json_is_array(value) ? json_array_size(value) : 1;
    if (n != 1 && n != channels)
        return qb_fail(r->cx, QB_STATUS_FORMAT,
                       "%s: key '%s': expected 1 or %zu numbers for colour %s, got %zu",
                       r->sidecar.path, key, channels, qb_color_text(r->sidecar.preprocess.color),
                       n);
    for (size_t c = 0; c < channels; c++) {
        const json_t *item = json_is_array(value) ? json_array_get(value, n == 1 ? 0 : c) : value;
        if (!json_is_number(item)) return wrong_type(r, key, "numbers", item);
        out[c] = (float)json_number_value(item);
    }
    return QB_OK;
}

static bool has_any(const json_t *root) {
    static const char *const keys[] = {"resize", "crop", "color", "mean", "std"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (json_object_get(root, keys[i])) return true;
    return false;
}

/* Of images; that of other inputs is a remark. */
static qb_status read_layout(reader *r, bool *last) {
    static const char *const words[] = {"NCHW", "NHWC", NULL};
    const json_t *value = json_object_get(r->root, "layout");
    *last = false;
    if (!value || json_is_null(value)) return QB_OK;
    if (!json_is_string(value)) return wrong_type(r, "layout", "a string", value);
    const int32_t word = qb_word_find(words, json_string_value(value));
    if (word < 0) return unknown_choice(r, "layout", words, json_string_value(value));
    *last = word == 1;
    return QB_OK;
}

static qb_status read_preprocess(reader *r) {
    qb_sidecar *s = &r->sidecar;
    qb_preprocess_default(&s->preprocess);
    s->has_preprocess = has_any(r->root);
    if (!s->has_preprocess) return QB_OK;
    bool last;
    QB_TRY(read_layout(r, &last));
    qb_image_input input;
    if (qb_image_input_of(&s->shape, last, &input))
        qb_preprocess_for_shape(&s->preprocess, input.channels, input.height, input.width);
    s->preprocess.channels_last = last;
    if (json_is_object(json_object_get(r->root, "crop"))) s->preprocess.resize = QB_RESIZE_NONE;
    QB_TRY(read_resize(r));
    QB_TRY(read_crop(r));
    QB_TRY(read_color(r));
    QB_TRY(read_numbers(r, "mean", s->preprocess.mean));
    QB_TRY(read_numbers(r, "std", s->preprocess.std));
    QB_TRY_WRAP(r->cx, qb_preprocess_validate(r->cx, &s->preprocess), "%s", s->path);
    return QB_OK;
}

static qb_status read_inline_labels(reader *r, const json_t *list) {
    size_t n = json_array_size(list);
    if (n > QB_CLASSES_MAX) n = QB_CLASSES_MAX + 1; /* qb_labels_from_names refuses */
    QB_FREED const char **names = QB_NEW(r->cx, qb_alloc(r->cx, n, sizeof *names));
    for (size_t i = 0; i < n; i++) {
        names[i] = json_string_value(json_array_get(list, i));
        if (!names[i]) return wrong_type(r, "labels", "strings", json_array_get(list, i));
    }
    if (qb_labels_from_names(r->cx, names, (int)n, &r->sidecar.labels) != QB_OK)
        return qb_wrap(r->cx, "%s: key 'labels'", r->sidecar.path);
    return QB_OK;
}

static qb_status read_labels(reader *r) {
    qb_sidecar *s = &r->sidecar;
    const json_t *value = json_object_get(r->root, "labels");
    const json_t *detection = json_object_get(r->root, "detection");
    const bool inside = !value || json_is_null(value);
    if (inside) value = json_object_get(detection, "labels");
    if (!value || json_is_null(value)) return QB_OK;
    if (json_is_array(value)) return read_inline_labels(r, value);
    if (!json_is_string(value))
        return wrong_type(r, "labels", "a list of names or a file name", value);
    char *folder = QB_NEW(r->cx, qb_path_dir(r->cx, s->path));
    s->labels_path = qb_path_join(r->cx, folder, json_string_value(value));
    qb_free(folder);
    if (!s->labels_path) return r->cx->code;
    const qb_named named = {json_string_value(value), s->path, "the sidecar's"};
    qb_status status = qb_labels_load_named(r->cx, s->labels_path, &named, &s->labels);
    if (status == QB_STATUS_NOTFOUND) {
        qb_ctx_clear(r->cx);
        if (inside) return QB_OK; /* category ids may stand beside it */
        qb_warn(r->cx, "%s: key 'labels': there is no file %s", s->path, s->labels_path);
        status = QB_OK;
    }
    return status == QB_OK ? QB_OK : qb_wrap(r->cx, "%s: key 'labels'", s->path);
}

static qb_status parse(reader *r, const char *path) {
    char *text;
    size_t size;
    QB_TRY(qb_file_read(r->cx, path, SIDECAR_BYTES_MAX, &text, &size));
    json_error_t error;
    r->root = json_loadb(text, size, JSON_REJECT_DUPLICATES, &error);
    qb_free(text);
    if (!r->root)
        return qb_fail(r->cx, QB_STATUS_FORMAT, "%s:%d:%d: %s", path, error.line, error.column,
                       error.text);
    if (!qb_json_clean(r->root)) return qb_fail(r->cx, QB_STATUS_NOMEM, "%s: out of memory", path);
    if (json_is_object(r->root)) return QB_OK;
    return qb_fail(r->cx, QB_STATUS_FORMAT, "%s: expected an object, got %s", path,
                   type_text(r->root));
}

qb_status qb_sidecar_load(qb_ctx *cx, const char *path, qb_sidecar *out) {
    reader r = {.cx = cx};
    qb_status status = QB_OK;
    QB_TRY_NEW(cx, r.sidecar.path = qb_strdup(cx, path));
    QB_GO(parse(&r, path));
    QB_GO(read_string(&r, "input", &r.sidecar.input));
    QB_GO(read_string(&r, "output", &r.sidecar.output));
    QB_GO(read_string(&r, "task", &r.sidecar.task));
    QB_GO(read_string(&r, "dtype", &r.sidecar.dtype));
    QB_GO(read_shape(&r));
    QB_GO(read_preprocess(&r));
    QB_GO(read_labels(&r));
    r.sidecar.root = QB_MOVE(r.root);
    *out = r.sidecar;
out:
    json_decref(r.root);
    if (status != QB_OK) qb_sidecar_release(&r.sidecar);
    return status;
}

/* ---- writing ---- */

static json_t *numbers_json(const float *value, int32_t n) {
    json_t *list = json_array();
    for (int32_t i = 0; i < n; i++) json_array_append_new(list, json_real((double)value[i]));
    return list;
}

static json_t *shape_json(const qb_shape *shape) {
    json_t *list = json_array();
    for (int32_t i = 0; i < shape->rank; i++)
        json_array_append_new(list,
                              shape->dim[i] > 0 ? json_integer(shape->dim[i]) : json_string("N"));
    return list;
}

static json_t *resize_json(const qb_preprocess *p) {
    const bool one = p->resize == QB_RESIZE_SHORT_SIDE || p->resize == QB_RESIZE_LONGER_SIDE;
    if (p->resize == QB_RESIZE_NONE) return json_null();
    json_t *resize = json_pack("{s:s, s:s}", "mode", qb_resize_mode_text(p->resize), "filter",
                               qb_filter_text(p->filter));
    json_object_set_new(resize, "size",
                        one ? json_integer(p->resize_width)
                            : json_pack("[i, i]", p->resize_width, p->resize_height));
    json_object_set_new(resize, "enlarge", json_boolean(!p->no_enlarge));
    if (p->resize != QB_RESIZE_LETTERBOX) return resize;
    json_object_set_new(resize, "anchor", json_string(qb_anchor_words[p->anchor]));
    json_object_set_new(resize, "pad", json_integer(p->pad));
    json_object_set_new(resize, "stride", json_integer(p->stride));
    return resize;
}

static json_t *labels_json(const qb_labels *labels) {
    json_t *list = json_array();
    for (int32_t i = 0; i < labels->n; i++)
        json_array_append_new(list, json_string(labels->name[i]));
    return list;
}

qb_status qb_sidecar_write(qb_ctx *cx, const qb_shape *shape, const qb_preprocess *p,
                           const qb_labels *labels, const char *path) {
    const int32_t channels = qb_preprocess_channels(p);
    json_t *crop = p->crop_width > 0 ? json_pack("{s:s, s:[i, i]}", "mode", "center", "size",
                                                 p->crop_width, p->crop_height)
                                     : json_null();
    json_t *root =
        json_pack("{s:o, s:s, s:o, s:o, s:s, s:o, s:o}", "shape", shape_json(shape), "layout",
                  p->channels_last ? "NHWC" : "NCHW", "resize", resize_json(p), "crop", crop,
                  "color", qb_color_text(p->color), "mean", numbers_json(p->mean, channels), "std",
                  numbers_json(p->std, channels));
    if (root && labels->n > 0) {
        json_t *names = labels_json(labels);
        const bool all = json_array_size(names) == (size_t)labels->n;
        json_object_set_new(root, "labels", names);
        if (!all) {
            json_decref(root);
            return qb_fail(cx, QB_STATUS_INVALID, "%s: a label is not UTF-8", path);
        }
    }
    QB_FREED char *text = root ? json_dumps(root, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) : NULL;
    json_decref(root);
    if (!text) return qb_fail(cx, QB_STATUS_NOMEM, "out of memory");
    return qb_file_write(cx, path, text, strlen(text));
}

void qb_sidecar_release(qb_sidecar *sidecar) {
    if (!sidecar) return;
    QB_FREE_ALL(sidecar->path, sidecar->input, sidecar->output, sidecar->labels_path, sidecar->task,
                sidecar->dtype);
    json_decref(sidecar->root);
    qb_labels_release(&sidecar->labels);
    memset(sidecar, 0, sizeof *sidecar);
}

qb_status qb_sidecar_find(qb_ctx *cx, const char *model_path, char **out) {
    const char *base = qb_path_base(model_path);
    const char *dot = strrchr(base, '.');
    size_t n = dot && dot != base ? (size_t)(dot - model_path) : strlen(model_path);
    char *path = QB_NEW(cx, qb_format(cx, "%.*s.json", (int)n, model_path));
    if (!qb_path_exists(path) || qb_path_is_dir(path)) qb_free(QB_MOVE(path));
    *out = path;
    return QB_OK;
}
