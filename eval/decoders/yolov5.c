/* yolov5: also YOLOv3, v4 and v7 exports whose boxes are decoded in the graph: cx cy w h in pixels
 * of the input, objectness, then a score a class. */
#include "eval/detection.h"

/* 1 x N x (5 + C). Guessed by YOLO's number of boxes: three at each cell of the strides 8, 16, 32.
 */
static int32_t classes(const qb_decode *in) {
    if (in->n < 1 || !qb_is_batch_of(&in->output[0], 3)) return 0;
    const int64_t n = in->output[0].desc.shape.dim[1], each = in->output[0].desc.shape.dim[2];
    if (each < 6 || each > 100000) return 0;
    qb_grid grid;
    const bool fits =
        qb_decoder_is_told(in, classes) || (n % 3 == 0 && qb_grid_find(in, n / 3, 0, &grid));
    return fits ? (int32_t)(each - 5) : 0;
}

const qb_box_decoder qb_box_decoder_yolov5 = {
    .name = "yolov5",
    .text = "an output 1 x N x (5 + classes)",
    .words = "yolov3 yolov4 yolov7",
    .classes = classes,
    .decode = qb_decode_objectness_rows,
};
