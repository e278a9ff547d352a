/* yunet: faces at several strides, https://github.com/ShiqiYu/libfacedetection.train. */
#include <math.h>
#include <stdio.h>

#include "eval/detection.h"

/* Outputs cls_S, obj_S and bbox_S of each stride, 1 x cells x {1, 1, 4}. */
typedef struct level {
    const qb_tensor *cls, *obj, *box;
    int32_t stride;
} level;

enum { STRIDES = 3 };

static bool find_level(const qb_decode *in, int32_t k, level *out) {
    static const char *const part[] = {"cls", "obj", "bbox"};
    const int64_t last[] = {1, 1, 4};
    const qb_tensor *found[3];
    char name[32];
    out->stride = 8 << k;
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "%s_%d", part[i], (int)out->stride);
        found[i] = qb_decode_named(in, name);
        if (!found[i] || !qb_is_batch_of(found[i], 3) || found[i]->desc.shape.dim[2] != last[i])
            return false;
    }
    out->cls = found[0];
    out->obj = found[1];
    out->box = found[2];
    return true;
}

static int32_t classes(const qb_decode *in) {
    level l;
    for (int32_t k = 0; k < STRIDES; k++)
        if (!find_level(in, k, &l)) return 0;
    return 1;
}

static qb_status decode_level(qb_ctx *cx, const qb_decode *in, const level *l) {
    const int64_t columns = in->width / l->stride, cells = columns * (in->height / l->stride);
    const double s = l->stride;
    const float *cls = l->cls->data, *obj = l->obj->data, *b = l->box->data;
    if (l->cls->desc.shape.dim[1] != cells || l->obj->desc.shape.dim[1] != cells ||
        l->box->desc.shape.dim[1] != cells)
        return qb_fail(cx, QB_STATUS_MISMATCH, "decoder yunet: expected %lld cells at stride %d",
                       (long long)cells, (int)l->stride);
    for (int64_t i = 0; i < cells; i++, b += 4) {
        const double box[] = {(b[0] + (double)(i % columns)) * s,
                              (b[1] + (double)(i / columns)) * s, exp(b[2]) * s, exp(b[3]) * s};
        QB_TRY(qb_decode_box(cx, in, box, (double)cls[i] * obj[i], 0));
    }
    return QB_OK;
}

static qb_status decode(qb_ctx *cx, const qb_decode *in) {
    level l;
    for (int32_t k = 0; k < STRIDES; k++) {
        find_level(in, k, &l);
        QB_TRY(decode_level(cx, in, &l));
    }
    return QB_OK;
}

const qb_box_decoder qb_box_decoder_yunet = {
    .name = "yunet",
    .text = "outputs cls_S, obj_S, bbox_S for the strides 8, 16, 32",
    .classes = classes,
    .decode = decode,
};
