/* yolov10: also YOLO26 and exports with suppression inside: x1 y1 x2 y2 in pixels of the input,
 * score, class. */
#include "eval/detection.h"

/* How many classes there are the output does not tell: as many as it may name. */
static int32_t classes(const qb_decode *in) {
    const bool fits = in->n >= 1 && qb_is_batch_of(&in->output[0], 3) &&
                      in->output[0].desc.shape.dim[2] == 6 && in->output[0].desc.shape.dim[1] != 5;
    return fits ? 1 << 20 : 0;
}

static qb_status decode(qb_ctx *cx, const qb_decode *in) {
    const float *p = in->output[0].data;
    for (int64_t i = 0; i < in->output[0].desc.shape.dim[1]; i++, p += 6) {
        const double box[] = {((double)p[0] + p[2]) / 2, ((double)p[1] + p[3]) / 2,
                              (double)p[2] - p[0], (double)p[3] - p[1]};
        if (p[5] >= 0 && p[5] < 1 << 20) QB_TRY(qb_decode_box(cx, in, box, p[4], (int32_t)p[5]));
    }
    return QB_OK;
}

const qb_box_decoder qb_box_decoder_yolov10 = {
    .name = "yolov10",
    .text = "an output 1 x N x 6",
    .keeps_all = true,
    .classes = classes,
    .decode = decode,
};
