/* COCO's evaluation of detections, with the numbers of pycocotools 2.0.11: ten IoU thresholds from
 * 0.5 to 0.95, 101 recall points, four ranges of area, the best 1, 10 and 100 detections of a
 * category in an image; https://cocodataset.org/#detection-eval. */
#ifndef QB_EVAL_COCO_H
#define QB_EVAL_COCO_H

#include "datasets/coco.h"

enum { QB_COCO_IOUS = 10, QB_COCO_AREAS = 4, QB_COCO_DETECTIONS = 100, QB_COCO_RECALLS = 101 };

/* The scores in COCO's order. */
#define QB_COCO_SCORES(X)                                                                          \
    X(AP, "AP")                                                                                    \
    X(AP50, "AP50")                                                                                \
    X(AP75, "AP75")                                                                                \
    X(APS, "APs")                                                                                  \
    X(APM, "APm")                                                                                  \
    X(APL, "APl")                                                                                  \
    X(AR1, "AR1")                                                                                  \
    X(AR10, "AR10")                                                                                \
    X(AR100, "AR100")                                                                              \
    X(ARS, "ARs")                                                                                  \
    X(ARM, "ARm")                                                                                  \
    X(ARL, "ARl")
typedef enum qb_coco_score {
#define X(name, text) QB_COCO_##name,
    QB_COCO_SCORES(X)
#undef X
        QB_COCO_N
} qb_coco_score;
const char *qb_coco_score_name(qb_coco_score score);

/* 0 to 1; -1 where there is nothing to average over. */
typedef struct qb_coco_scores {
    double value[QB_COCO_N];
} qb_coco_scores;

/* Which detection found which object, at every threshold and range of area. */
typedef struct qb_coco_matches qb_coco_matches;

/* What is compared: IoU of boxes or masks; object keypoint similarity, with COCO's spread of each
 * of 17 points (others: 1 over their number), of the best 20 detections of an image. With key
 * points AR100 is that of 20, and there are neither APs nor ARs. */
typedef enum qb_coco_kind { QB_COCO_BOXES, QB_COCO_MASKS, QB_COCO_KEYPOINTS } qb_coco_kind;

/* Matches detections (their image and category are indices into the truth's) with ground truth.
 * Objects of category -1 or image -1 do not count. The result refers to nothing. */
qb_status qb_coco_match(qb_ctx *cx, const qb_coco *truth, const qb_coco_objects *results,
                        qb_coco_kind kind, qb_coco_matches **out);
void qb_coco_matches_free(qb_coco_matches *matches); /* accepts NULL */
QB_RELEASE_AT(qb_coco_matches, qb_coco_matches_free)

/* Scores over all categories, and of each (`each`: [n_categories] or NULL). `weight` tells how
 * often an image counts ([n_images]; NULL: once), as a bootstrap sample has it; the number is that
 * of a data set with so many copies of the image. `wanted`: bits 1 << qb_coco_score of those to
 * compute, the others are -1. Thread safe. */
qb_status qb_coco_summarize(qb_ctx *cx, const qb_coco_matches *matches, const int32_t *weight,
                            uint32_t wanted, qb_coco_scores *all, qb_coco_scores *each);
#define QB_COCO_ALL ((1u << QB_COCO_N) - 1)

/* Precision at the recalls 0, 0.01, ... 1 at IoU 0.5, the mean over categories that have objects.
 */
qb_status qb_coco_curve(qb_ctx *cx, const qb_coco_matches *matches, const int32_t *weight,
                        double precision[QB_COCO_RECALLS]);
/* The share of all objects, of whatever category, that detections with a score above `score` find
 * at IoU 0.5; -1 without objects. */
double qb_coco_recall_above(const qb_coco_matches *matches, const int32_t *weight, double score);

/* Intersection over union of two boxes x, y, width, height; over the first one's area where the
 * second is a crowd. */
double qb_box_iou(const double a[4], const double b[4], bool crowd);
#endif
