/* yolov6: cx cy w h in pixels of the input, an objectness that is 1 everywhere, a score a class;
 * https://github.com/meituan/YOLOv6 (deploy/ONNX). */
#include "eval/detection.h"

/* The shape is YOLOX's: without a name only the objectness tells. */
static int32_t classes(const qb_decode *in) {
    if (in->n < 1 || !qb_is_batch_of(&in->output[0], 3)) return 0;
    const int64_t n = in->output[0].desc.shape.dim[1], each = in->output[0].desc.shape.dim[2];
    const float *p = in->output[0].data;
    if (each < 6 || each > 100000) return 0;
    if (qb_decoder_is_told(in, classes)) return (int32_t)(each - 5);
    if (!p || n < 2 || p[4] < 0.5F) return 0;
    for (int64_t i = 1; i < n; i++)
        if (p[i * each + 4] != p[4]) return 0;
    return (int32_t)(each - 5);
}

const qb_box_decoder qb_box_decoder_yolov6 = {
    .name = "yolov6",
    .text = "an output 1 x N x (5 + classes), the fifth value 1",
    .classes = classes,
    .decode = qb_decode_objectness_rows,
};
