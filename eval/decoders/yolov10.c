/* yolov10: also YOLO26 and exports with suppression inside: x1 y1 x2 y2 in pixels of the input,
 * score, class. */
#include "eval/detection.h"

/* Boxes of their own stand beside the scores of six classes (DETR). */
static bool has_boxes_beside(const qb_decode *in) {
    return in->n > 1 && qb_is_batch_of(&in->output[1], 3) && in->output[1].desc.shape.dim[2] == 4;
}

/* How many classes there are the output does not tell: as many as it may name. */
static int32_t classes(const qb_decode *in) {
    const bool fits = in->n >= 1 && qb_is_batch_of(&in->output[0], 3) &&
                      in->output[0].desc.shape.dim[2] == 6 && !has_boxes_beside(in) &&
                      in->output[0].desc.shape.dim[1] != 5;
    const int64_t n = in->output[0].desc.shape.dim[1];
    qb_grid grid; /* boxes of all cells are no final ones: one class with objectness, or two; 300
                   * final ones are usual, and an input of 320 has three times 100 cells */
    const bool cells =
        fits && n != 300 &&
        (qb_grid_find(in, n, 0, &grid) || (n % 3 == 0 && qb_grid_find(in, n / 3, 0, &grid)));
    return fits && (!cells || qb_decoder_is_told(in, classes)) ? QB_CLASSES_NOT_TOLD : 0;
}

static qb_status decode(qb_ctx *cx, const qb_decode *in) {
    const float *p = in->output[0].data;
    const qb_box_form form = qb_box_form_of(in, 0, p, in->output[0].desc.shape.dim[1], 6, 1);
    for (int64_t i = 0; i < in->output[0].desc.shape.dim[1]; i++, p += 6) {
        double box[4];
        qb_box_convert(&form, p, 1, box);
        if (p[5] >= 0 && p[5] < QB_CLASSES_NOT_TOLD)
            QB_TRY(qb_decode_box(cx, in, box, p[4], (int32_t)p[5]));
    }
    return QB_OK;
}

const qb_box_decoder qb_box_decoder_yolov10 = {
    .name = "yolov10",
    .text = "an output 1 x N x 6",
    .words = "yolo26 yolov26 yoloe",
    .keeps_all = true,
    .classes = classes,
    .decode = decode,
};
