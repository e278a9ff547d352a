/* Ground truth of boxes put together by formats that are not COCO's. */
#ifndef QB_DATASETS_TRUTH_H
#define QB_DATASETS_TRUTH_H

#include "datasets/datasets_internal.h"

/* Gives the data set an empty ground truth, to be filled; ids count from 0. */
qb_status qb_truth_begin(qb_ctx *cx, qb_dataset *dataset);
/* A category of this name, as it may be shown. */
qb_status qb_truth_add_category(qb_ctx *cx, qb_coco *truth, const char *name);
/* An image as it is. */
qb_status qb_truth_put_image(qb_ctx *cx, qb_coco *truth, const qb_coco_image *image);
/* A sample's image, of the size that its file's header tells; 1 x 1 where it cannot be read, which
 * reading the sample tells. `name` lives in the data set's arena. */
qb_status qb_truth_add_image(qb_ctx *cx, qb_dataset *dataset, const char *name);
/* An object in the last image, x y width height in pixels. */
qb_status qb_truth_add_object(qb_ctx *cx, qb_coco *truth, int32_t category, const double box[4],
                              bool ignored);

/* Labels as YOLO's trainers write them, into the last image: a line an object, `class cx cy w h` in
 * shares of the image, or `class x1 y1 x2 y2 ...`, a polygon, of which the box counts. `n_classes`:
 * 0 where it is not known, then categories are added. */
qb_status qb_yolo_labels_parse(qb_ctx *cx, const char *name, const char *text, size_t n,
                               int32_t n_classes, qb_coco *truth);
/* datasets/voc_xml.c: the <object>s of an annotation as PASCAL VOC writes it, into the last image:
 * name and bndbox, with corners that count from 1; categories are added as they come. */
qb_status qb_voc_objects_parse(qb_ctx *cx, const char *name, const char *text, size_t n,
                               qb_coco *truth);

#endif
