/* Small pictures of samples as base64 PNG, so that a record shows them without the data. */
#include <stdlib.h>

#include "base/base64.h"
#include "eval/compare_internal.h"

/* The image with its long side cut down to `pixels`; smaller ones keep their size. */
static qb_status shrink(qb_ctx *cx, qb_image *image, int32_t pixels) {
    const int32_t side = image->width > image->height ? image->width : image->height;
    if (side <= pixels) return QB_OK;
    const int64_t width = (int64_t)image->width * pixels / side,
                  height = (int64_t)image->height * pixels / side;
    qb_image small = {0};
    QB_TRY(qb_image_resize(cx, image, width > 0 ? (int32_t)width : 1,
                           height > 0 ? (int32_t)height : 1, QB_FILTER_BILINEAR, &small));
    qb_image_release(image);
    *image = small;
    return QB_OK;
}

qb_status qb_picture_text(qb_ctx *cx, const char *name, const qb_image *image, char **out) {
    char *bytes = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&bytes, &size);
    if (!stream) return qb_fail_errno(cx, "%s", name);
    qb_status status = qb_image_encode_png(cx, name, image, stream);
    if (fclose(stream) != 0 && status == QB_OK) status = qb_fail_errno(cx, "%s", name);
    if (status == QB_OK) status = qb_base64_encode(cx, bytes, size, out);
    free(bytes);
    return status;
}

qb_status qb_thumbnails_fill(qb_ctx *cx, const qb_dataset *dataset, int32_t pixels, qb_run *run) {
    if (qb_dataset_has_tensors(dataset)) return QB_OK;
    for (int32_t i = 0; i < run->n_shown && pixels > 0; i++) {
        qb_run_shown *shown = &run->shown[i];
        qb_image image = {0};
        char *text = NULL;
        QB_TRY(qb_dataset_read(cx, dataset, shown->index, &image, NULL));
        qb_status status = shrink(cx, &image, pixels);
        if (status == QB_OK) status = qb_picture_text(cx, shown->name, &image, &text);
        qb_image_release(&image);
        QB_TRY(status);
        qb_free(shown->thumbnail);
        shown->thumbnail = text;
    }
    return QB_OK;
}
