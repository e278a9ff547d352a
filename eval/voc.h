/* PASCAL VOC's average precision: IoU 0.5, every detection held against the object that it covers
 * most; difficult objects (crowds) do not count. */
#ifndef QB_EVAL_VOC_H
#define QB_EVAL_VOC_H

#include "datasets/coco.h"

/* 0 to 1; -1 without objects. Means over categories that have objects. */
typedef struct qb_voc_scores {
    double eleven; /* VOC 2007: over the recalls 0, 0.1, ... 1 */
    double all;    /* VOC 2010 on: the area under the curve */
} qb_voc_scores;

/* Detections as qb_coco_match takes them; `counts`: [n_images], images that count. */
qb_status qb_voc_score(qb_ctx *cx, const qb_coco *truth, const qb_coco_objects *results,
                       const int32_t *counts, qb_voc_scores *out);
#endif
