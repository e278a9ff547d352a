#include <math.h>
#include <stdio.h>
#include <string.h>

#include "datasets_internal.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const qb_transform *const transforms[] = {
#define X(name) &qb_transform_##name,
#include "datasets/transforms.def"
#undef X
};

static const char *const resize_mode_texts[] = {"none", "stretch", "short_side"};
static const char *const filter_texts[] = {"bilinear", "bicubic", "lanczos"};
static const char *const color_texts[] = {"RGB", "BGR", "GRAY", "Y"};

static const char *text_of(const char *const *texts, size_t n, unsigned value) {
    return value < n ? texts[value] : "?";
}

static bool find_text(const char *const *texts, size_t n, const char *text, int *out) {
    for (size_t i = 0; i < n; i++) {
        if (strcmp(text, texts[i]) != 0) continue;
        *out = (int)i;
        return true;
    }
    return false;
}

const char *qb_resize_mode_text(qb_resize_mode mode) {
    return text_of(resize_mode_texts, COUNT(resize_mode_texts), (unsigned)mode);
}

const char *qb_filter_text(qb_filter filter) {
    return text_of(filter_texts, COUNT(filter_texts), (unsigned)filter);
}

const char *qb_color_text(qb_color color) {
    return text_of(color_texts, COUNT(color_texts), (unsigned)color);
}

bool qb_resize_mode_parse(const char *text, qb_resize_mode *out) {
    int value;
    if (!find_text(resize_mode_texts, COUNT(resize_mode_texts), text, &value)) return false;
    *out = (qb_resize_mode)value;
    return true;
}

bool qb_filter_parse(const char *text, qb_filter *out) {
    int value;
    if (!find_text(filter_texts, COUNT(filter_texts), text, &value)) return false;
    *out = (qb_filter)value;
    return true;
}

bool qb_color_parse(const char *text, qb_color *out) {
    int value;
    if (!find_text(color_texts, COUNT(color_texts), text, &value)) return false;
    *out = (qb_color)value;
    return true;
}

void qb_preprocess_default(qb_preprocess *p) {
    memset(p, 0, sizeof *p);
    for (int c = 0; c < 4; c++) p->std[c] = 1;
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
    bool stretch = p->resize == QB_RESIZE_STRETCH;
    if ((unsigned)p->resize > QB_RESIZE_SHORT_SIDE || (unsigned)p->filter > QB_FILTER_LANCZOS ||
        (unsigned)p->color > QB_COLOR_LUMA)
        return qb_fail(cx, QB_STATUS_INVALID,
                       "preprocessing: unknown resize %d, filter %d or colour %d", (int)p->resize,
                       (int)p->filter, (int)p->color);
    if (p->resize != QB_RESIZE_NONE && (p->resize_width < 1 || (stretch && p->resize_height < 1)))
        return qb_fail(cx, QB_STATUS_INVALID, "preprocessing: resize %s to %dx%d",
                       qb_resize_mode_text(p->resize), p->resize_width, p->resize_height);
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

char *qb_loader_text(const qb_loader_options *o, char *text, size_t n) {
    const qb_preprocess *p = &o->preprocess;
    char resize[64] = "", crop[48] = "";
    if (qb_dataset_has_tensors(o->dataset)) {
        snprintf(text, n, "tensors");
        return text;
    }
    if (p->resize == QB_RESIZE_SHORT_SIDE)
        snprintf(resize, sizeof resize, ", resize short_side %d %s", p->resize_width,
                 qb_filter_text(p->filter));
    if (p->resize == QB_RESIZE_STRETCH)
        snprintf(resize, sizeof resize, ", resize stretch %dx%d %s", p->resize_width,
                 p->resize_height, qb_filter_text(p->filter));
    if (p->crop_width) snprintf(crop, sizeof crop, ", crop %dx%d", p->crop_width, p->crop_height);
    const bool grey = qb_preprocess_channels(p) == 1;
    int used = snprintf(text, n, "%s%s%s", qb_color_text(p->color), resize, crop);
    for (int k = 0; k < 2 && used > 0 && (size_t)used < n; k++) {
        const float *v = k == 0 ? p->mean : p->std;
        used += snprintf(text + used, n - (size_t)used, grey ? ", %s %.9g" : ", %s %.9g %.9g %.9g",
                         k == 0 ? "mean" : "std", (double)v[0], (double)v[1], (double)v[2]);
    }
    if (used > 0 && (size_t)used < n)
        used += snprintf(text + used, n - (size_t)used, ", input %dx%d", o->width, o->height);
    /* Only where pixels differ from the usual ones: what was recorded before stays the same text.
     */
    const char *decoder = qb_dataset_decoder(o->dataset);
    if (used > 0 && (size_t)used < n && strcmp(decoder, "cpu") != 0)
        snprintf(text + used, n - (size_t)used, ", decoder %s", decoder);
    return text;
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
