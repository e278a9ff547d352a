/* yolov5: also YOLOv3, v4 and v7 exports whose boxes are decoded in the graph: cx cy w h in pixels
 * of the input, objectness, then a score a class. */
#include "eval/detection.h"

/* 1 x N x (5 + C). Guessed by YOLO's number of boxes: three at each cell of the strides 8, 16, 32.
 */
static int32_t classes(const qb_decode *in) {
    if (in->n < 1 || !qb_is_batch_of(&in->output[0], 3)) return 0;
    const int64_t n = in->output[0].desc.shape.dim[1], each = in->output[0].desc.shape.dim[2];
    if (each < 6 || each > 100000) return 0;
    const bool told = in->settings->decoder && in->settings->decoder->classes == classes;
    const int64_t cells = (int64_t)in->width * in->height / 64;
    return told || n == 3 * (cells + cells / 4 + cells / 16) ? (int32_t)(each - 5) : 0;
}

static qb_status decode(qb_ctx *cx, const qb_decode *in) {
    const int64_t n = in->output[0].desc.shape.dim[1], each = in->output[0].desc.shape.dim[2];
    const float *p = in->output[0].data;
    for (int64_t i = 0; i < n; i++, p += each) {
        const double box[] = {p[0], p[1], p[2], p[3]};
        QB_TRY(qb_decode_best(cx, in, box, p + 5, 1, (int32_t)(each - 5), p[4]));
    }
    return QB_OK;
}

const qb_box_decoder qb_box_decoder_yolov5 = {
    .name = "yolov5",
    .text = "an output 1 x N x (5 + classes)",
    .classes = classes,
    .decode = decode,
};
