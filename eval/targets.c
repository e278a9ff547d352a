#include "eval/targets.h"

#include <math.h>
#include <string.h>

#include "base/log.h"

/* Length of a name without folders' help: up to its last dot. */
static size_t stem_length(const char *name) {
    const char *dot = strrchr(name, '.');
    return dot ? (size_t)(dot - name) : strlen(name);
}

/* Files pair up by order; names that differ may be right (x3 and HR), or all wrong. */
static void tell_pairing(qb_ctx *cx, const qb_dataset *data, const qb_dataset *targets) {
    const char *a = qb_dataset_sample_name(data, 0), *b = qb_dataset_sample_name(targets, 0);
    const size_t n = stem_length(a);
    if (strchr(a, '[') || strchr(b, '[') || (n == stem_length(b) && memcmp(a, b, n) == 0)) return;
    qb_warn(cx, "targets are taken in order: '%s' should become '%s'", a, b);
}

qb_status qb_targets_check(qb_ctx *cx, const qb_dataset *data, const qb_dataset *targets) {
    if (qb_dataset_has_tensors(targets))
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "targets: expected images, got tensors");
    if (qb_dataset_count(data) != qb_dataset_count(targets))
        return qb_fail(cx, QB_STATUS_MISMATCH, "targets: expected %lld as the data has, got %lld",
                       (long long)qb_dataset_count(data), (long long)qb_dataset_count(targets));
    tell_pairing(cx, data, targets);
    return QB_OK;
}

qb_status qb_target_read(qb_ctx *cx, const qb_dataset *targets, int64_t index,
                         const qb_preprocess *inputs, const qb_shape *shape, float *out) {
    qb_preprocess pixels;
    QB_RELEASED(qb_image_release) qb_image image = {0};
    qb_preprocess_default(&pixels);
    pixels.color = inputs->color;
    if (shape->rank != 4 || shape->dim[0] != 1 || shape->dim[1] != qb_preprocess_channels(&pixels))
        return qb_fail(cx, QB_STATUS_MISMATCH,
                       "targets: expected an output of 1 x %d x H x W, as images in %s",
                       qb_preprocess_channels(&pixels), qb_color_text(pixels.color));
    QB_TRY(qb_dataset_read(cx, targets, index, &image, NULL));
    if (image.width != shape->dim[3] || image.height != shape->dim[2])
        return qb_fail(cx, QB_STATUS_MISMATCH,
                       "target '%s' is %dx%d pixels, the model's output %lldx%lld (width x height)",
                       qb_dataset_sample_name(targets, index), image.width, image.height,
                       (long long)shape->dim[3], (long long)shape->dim[2]);
    return qb_preprocess_image(cx, &pixels, &image, image.height, image.width, out);
}

double qb_target_error(const float *output, const float *target, const qb_preprocess *inputs,
                       const qb_shape *shape) {
    const int64_t area = shape->dim[2] * shape->dim[3];
    double sum = 0;
    for (int64_t c = 0; c < shape->dim[1]; c++)
        for (int64_t i = c * area; i < (c + 1) * area; i++) {
            const double pixel =
                (double)output[i] * (double)inputs->std[c] + (double)inputs->mean[c];
            const double error =
                (isnan(pixel) ? NAN : fmin(fmax(pixel, 0), 255)) - (double)target[i];
            sum += error * error;
        }
    return sum;
}
