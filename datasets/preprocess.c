#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/opt.h"
#include "datasets_internal.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const qb_transform *const transforms[] = {
#define X(name) &qb_transform_##name,
#include "datasets/transforms.def"
};

const char *const qb_resize_mode_words[] = {"none",      "stretch",     "short_side",
                                            "letterbox", "longer_side", NULL};
const char *const qb_filter_words[] = {"bilinear", "bicubic", "lanczos", "box", "nearest",
                                       "linear",   "cubic",   "area",    NULL};
const char *const qb_color_words[] = {"RGB", "BGR", "GRAY", "Y", NULL};
const char *const qb_anchor_words[] = {"center", "topleft", NULL};
const char *const qb_layout_words[] = {"NCHW", "NHWC", NULL};

int32_t qb_word_find(const char *const *words, const char *text) {
    for (int32_t i = 0; words[i]; i++)
        if (strcmp(text, words[i]) == 0) return i;
    return -1;
}

char *qb_word_error(const char *const *words, const char *got, char *text, size_t n) {
    const char *near = got ? qb_nearest(got, words) : NULL;
    int used = snprintf(text, n, "expected ");
    for (int32_t i = 0; words[i] && used > 0 && (size_t)used < n; i++)
        used += snprintf(text + used, n - (size_t)used, "%s%s",
                         i == 0         ? ""
                         : words[i + 1] ? ", "
                                        : " or ",
                         words[i]);
    if (used > 0 && (size_t)used < n)
        used += snprintf(text + used, n - (size_t)used, got ? ", got '%s'" : ", got nothing%s",
                         got ? got : "");
    if (near && used > 0 && (size_t)used < n)
        snprintf(text + used, n - (size_t)used, " (did you mean '%s'?)", near);
    return text;
}

static const char *text_of(const char *const *words, unsigned value) {
    for (unsigned i = 0; words[i]; i++)
        if (i == value) return words[i];
    return "?";
}

const char *qb_resize_mode_text(qb_resize_mode mode) {
    return text_of(qb_resize_mode_words, (unsigned)mode);
}

const char *qb_filter_text(qb_filter filter) { return text_of(qb_filter_words, (unsigned)filter); }

const char *qb_color_text(qb_color color) { return text_of(qb_color_words, (unsigned)color); }

void qb_preprocess_default(qb_preprocess *p) {
    memset(p, 0, sizeof *p);
    for (int c = 0; c < 4; c++) p->std[c] = 1;
    p->pad = 114; /* what most detectors are trained with */
}

void qb_preprocess_for_shape(qb_preprocess *p, int64_t channels, int64_t height, int64_t width) {
    qb_preprocess_default(p);
    if (channels == 1) p->color = QB_COLOR_GRAY;
    if (height < 1 || width < 1 || height > INT32_MAX || width > INT32_MAX) return;
    p->resize = QB_RESIZE_STRETCH;
    p->resize_width = (int32_t)width;
    p->resize_height = (int32_t)height;
}

int32_t qb_preprocess_channels(const qb_preprocess *p) {
    return p->color == QB_COLOR_GRAY || p->color == QB_COLOR_LUMA ? 1 : 3;
}

qb_status qb_preprocess_validate(qb_ctx *cx, const qb_preprocess *p) {
    const bool two = p->resize == QB_RESIZE_STRETCH || p->resize == QB_RESIZE_LETTERBOX;
    if ((unsigned)p->resize > QB_RESIZE_LONGER_SIDE || (unsigned)p->filter > QB_FILTER_AREA ||
        (unsigned)p->color > QB_COLOR_LUMA)
        return qb_fail(cx, QB_STATUS_INVALID,
                       "preprocessing: unknown resize %d, filter %d or colour %d", (int)p->resize,
                       (int)p->filter, (int)p->color);
    if (p->resize != QB_RESIZE_NONE && (p->resize_width < 1 || (two && p->resize_height < 1)))
        return qb_fail(cx, QB_STATUS_INVALID, "preprocessing: resize %s to %dx%d",
                       qb_resize_mode_text(p->resize), p->resize_width, p->resize_height);
    if (p->stride < 0 || p->stride > 65536)
        return qb_fail(cx, QB_STATUS_INVALID, "preprocessing: a stride of %d pixels", p->stride);
    if (p->crop_width < 0 || p->crop_height < 0 || !p->crop_width != !p->crop_height)
        return qb_fail(cx, QB_STATUS_INVALID, "preprocessing: crop to %dx%d", p->crop_width,
                       p->crop_height);
    for (int c = 0; c < qb_preprocess_channels(p); c++) {
        if (!isfinite(p->mean[c]))
            return qb_fail(cx, QB_STATUS_INVALID, "preprocessing: mean[%d] is %g", c,
                           (double)p->mean[c]);
        if (!isfinite(p->std[c]) || p->std[c] == 0)
            return qb_fail(cx, QB_STATUS_INVALID,
                           "preprocessing: std[%d]: expected a finite number other than 0, got %g",
                           c, (double)p->std[c]);
    }
    return QB_OK;
}

bool qb_image_input_of(const qb_shape *shape, bool channels_last, qb_image_input *out) {
    const int32_t first = shape->rank - 3, last = channels_last;
    if (first != 0 && first != 1) return false;
    const int64_t *dim = shape->dim + first;
    *out = (qb_image_input){.items = first ? shape->dim[0] : 1,
                            .channels = dim[last ? 2 : 0],
                            .height = dim[last ? 0 : 1],
                            .width = dim[last ? 1 : 2]};
    return first == 1 || out->channels == 3;
}

qb_shape qb_preprocess_shape(const qb_preprocess *p, int64_t height, int64_t width) {
    const int64_t channels = qb_preprocess_channels(p);
    if (p->single)
        return p->channels_last ? qb_shape_of(3, height, width, channels)
                                : qb_shape_of(3, channels, height, width);
    return p->channels_last ? qb_shape_of(4, 1, height, width, channels)
                            : qb_shape_of(4, 1, channels, height, width);
}

qb_status qb_preprocess_map(qb_ctx *cx, const qb_preprocess *p, int32_t width, int32_t height,
                            qb_pixel_map *out) {
    *out = (qb_pixel_map){{1, 1}, {0, 0}};
    for (size_t i = 0; i < COUNT(transforms); i++) {
        if (transforms[i]->map) transforms[i]->map(p, width, height, out);
        if (transforms[i]->size) QB_TRY(transforms[i]->size(cx, p, &width, &height));
    }
    return QB_OK;
}

qb_status qb_preprocess_size(qb_ctx *cx, const qb_preprocess *p, int32_t *width, int32_t *height) {
    for (size_t i = 0; i < COUNT(transforms); i++)
        if (transforms[i]->size) QB_TRY(transforms[i]->size(cx, p, width, height));
    return QB_OK;
}

qb_status qb_preprocess_check(qb_ctx *cx, const qb_preprocess *p, const qb_image *image,
                              int32_t height, int32_t width) {
    int32_t got_width = image->width, got_height = image->height;
    QB_TRY(qb_preprocess_size(cx, p, &got_width, &got_height));
    if ((got_width == width || width == 0) && (got_height == height || height == 0)) return QB_OK;
    return qb_fail(
        cx, QB_STATUS_INVALID,
        "an image of %dx%d pixels is %dx%d after preprocessing (resize %s%s), the model's "
        "input is %dx%d (width x height)",
        image->width, image->height, got_width, got_height, qb_resize_mode_text(p->resize),
        p->crop_width ? ", crop" : "", width, height);
}

char *qb_preprocess_text(const qb_preprocess *p, char *text, size_t n) {
    char resize[128] = "", crop[48] = "";
    const char *mode = qb_resize_mode_text(p->resize), *filter = qb_filter_text(p->filter);
    if (p->resize == QB_RESIZE_SHORT_SIDE || p->resize == QB_RESIZE_LONGER_SIDE)
        snprintf(resize, sizeof resize, ", resize %s %d %s%s", mode, p->resize_width, filter,
                 p->no_enlarge ? " no_enlarge" : "");
    if (p->resize == QB_RESIZE_STRETCH)
        snprintf(resize, sizeof resize, ", resize %s %dx%d %s", mode, p->resize_width,
                 p->resize_height, filter);
    if (p->resize == QB_RESIZE_LETTERBOX)
        snprintf(resize, sizeof resize, ", resize %s %dx%d %s %s pad %d stride %d%s", mode,
                 p->resize_width, p->resize_height, filter, qb_anchor_words[p->anchor], p->pad,
                 p->stride, p->no_enlarge ? " no_enlarge" : "");
    if (p->crop_width) snprintf(crop, sizeof crop, ", crop %dx%d", p->crop_width, p->crop_height);
    const bool grey = qb_preprocess_channels(p) == 1;
    int used = snprintf(text, n, "%s%s%s", qb_color_text(p->color), resize, crop);
    for (int k = 0; k < 2 && used > 0 && (size_t)used < n; k++) {
        const float *v = k == 0 ? p->mean : p->std;
        used += snprintf(text + used, n - (size_t)used, grey ? ", %s %.9g" : ", %s %.9g %.9g %.9g",
                         k == 0 ? "mean" : "std", (double)v[0], (double)v[1], (double)v[2]);
    }
    return text;
}

char *qb_loader_text(const qb_loader_options *o, char *text, size_t n) {
    const qb_preprocess *p = &o->preprocess;
    if (qb_dataset_has_tensors(o->dataset)) {
        snprintf(text, n, "tensors");
        return text;
    }
    qb_preprocess_text(p, text, n);
    size_t used = strlen(text);
    if (used + 1 < n)
        used += (size_t)snprintf(text + used, n - used, ", input %dx%d%s", o->width, o->height,
                                 p->channels_last ? " NHWC" : "");
    /* Only where pixels differ from the usual ones: what was recorded before stays the same text.
     */
    const char *decoder = qb_dataset_decoder(o->dataset);
    if (used < n && strcmp(decoder, "cpu") != 0)
        snprintf(text + used, n - used, ", decoder %s", decoder);
    return text;
}

/* A part of a preparation's text. */
typedef struct piece {
    const char *text;
    int length;
} piece;

/* What the text says behind this word, up to the comma; NULL where it says nothing. The color comes
 * first, without a word. */
static piece find_piece(const char *text, const char *key) {
    const bool color = strcmp(key, "color") == 0;
    const size_t n = color ? 0 : strlen(key) + 1;
    for (const char *at = text;;) {
        const char *end = strstr(at, ", ");
        if (!end) end = at + strlen(at);
        if (color || (strncmp(at, key, n - 1) == 0 && at[n - 1] == ' '))
            return (piece){at + n, (int)(end - at - (ptrdiff_t)n)};
        if (*end == '\0') return (piece){NULL, 0};
        at = end + 2;
    }
}

/* Images that had the input's size were brought to it before, in a way that nothing tells. */
static bool takes_as_they_are(const char *text) {
    const piece input = find_piece(text, "input");
    int width = 1, height = 1;
    if (input.text) sscanf(input.text, "%9dx%9d", &width, &height);
    return !find_piece(text, "resize").text && !find_piece(text, "crop").text && width > 0 &&
           height > 0;
}

bool qb_preprocess_differs(const char *before, const char *now, char *text, size_t n) {
    static const char *const key[] = {"resize", "crop", "color", "mean", "std", "input"};
    const bool sized = !takes_as_they_are(before) && !takes_as_they_are(now);
    size_t used = 0;
    text[0] = '\0';
    if (strcmp(before, "tensors") == 0 || strcmp(now, "tensors") == 0) return false;
    for (size_t i = 0; i < COUNT(key); i++) {
        piece a = find_piece(before, key[i]), b = find_piece(now, key[i]);
        const bool may_lack = i < 2;
        if (may_lack ? !sized : !a.text || !b.text) continue;
        if (!a.text) a = (piece){"none", 4};
        if (!b.text) b = (piece){"none", 4};
        if (a.length == b.length && memcmp(a.text, b.text, (size_t)a.length) == 0) continue;
        if (used + 1 < n)
            used += (size_t)snprintf(text + used, n - used, "%s%s %.*s, now %.*s", used ? "; " : "",
                                     key[i], a.length, a.text, b.length, b.text);
    }
    return used > 0;
}

void qb_frame_replace(qb_frame *frame, qb_image *image) {
    qb_image_release(&frame->own);
    frame->own = *image;
    frame->pixel = image->pixel;
    frame->stride = (size_t)image->width * (size_t)image->channels;
    frame->width = image->width;
    frame->height = image->height;
    frame->channels = image->channels;
    memset(image, 0, sizeof *image);
}

qb_status qb_preprocess_image(qb_ctx *cx, const qb_preprocess *p, const qb_image *image,
                              int32_t height, int32_t width, float *out) {
    QB_TRY(qb_preprocess_validate(cx, p));
    if (image->channels != 1 && image->channels != 3)
        return qb_fail(cx, QB_STATUS_INVALID, "preprocessing: expected 1 or 3 channels, got %d",
                       image->channels);
    QB_TRY(qb_preprocess_check(cx, p, image, height, width));
    qb_frame frame = {.pixel = image->pixel,
                      .stride = (size_t)image->width * (size_t)image->channels,
                      .width = image->width,
                      .height = image->height,
                      .channels = image->channels,
                      .out = out};
    qb_status status = QB_OK;
    for (size_t i = 0; i < COUNT(transforms) && status == QB_OK; i++)
        status = transforms[i]->apply(cx, p, &frame);
    qb_image_release(&frame.own);
    return status;
}
