/* gfl: distances to a box's four sides from each cell (eval/distances.h): NanoDet, GFL, FCOS, raw
 * heads of YOLOv8, YOLOv10 and YOLO26. https://github.com/RangiLyu/nanodet. */
#include "eval/distances.h"

static int32_t classes(const qb_decode *in) {
    qb_distances h;
    if (!qb_distances_find(in, &h)) return 0;
    const bool fits = h.whole || h.parts != 1 || h.bins > 1;
    return fits ? (int32_t)h.classes : 0;
}

/* Cells count from their middle; those of NanoDet-Plus, of four strides, from their corner. */
static qb_status decode(qb_ctx *cx, const qb_decode *in) {
    qb_distances h;
    qb_grid grid;
    qb_distances_find(in, &h);
    const bool plus =
        h.whole && qb_grid_find(in, in->output[0].desc.shape.dim[1], 0, &grid) && grid.n != 3;
    return qb_distances_decode(cx, in, &h, plus ? 0 : 0.5);
}

const qb_box_decoder qb_box_decoder_gfl = {
    .name = "gfl",
    .text = "an output 1 x N x (classes + 4 bins), or outputs of boxes and classes a stride",
    .words = "nanodet nanodet_plus nanodetplus picodet fcos dfl yolov8_raw yolo11_raw yolov6_raw",
    /* NanoDet's */
    .images = &(const qb_preprocess){.resize = QB_RESIZE_STRETCH, QB_IMAGENET_BGR},
    .classes = classes,
    .decode = decode,
};
