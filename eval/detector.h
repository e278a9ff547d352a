/* What a graph's declared outputs tell of a detector. */
#ifndef QB_EVAL_DETECTOR_H
#define QB_EVAL_DETECTOR_H

#include "datasets/coco.h"
#include "eval/detection.h"
#include "graph/graph.h"

typedef struct qb_detector_hints {
    const qb_detect_settings *settings; /* its decoder is of no consequence */
    int32_t width, height;              /* of the input; 0: open */
    int32_t n_labels;                   /* classes that something tells of; 0: not known */
    int64_t top_id;                     /* the highest id of the data's categories; 0: not known */
    bool sure; /* only outputs that nothing but a detector has: the cells of usual strides */
} qb_detector_hints;

/* The decoder that fits; NULL in *out when there is none. *classes (may be NULL): how many the
 * shapes tell, 0: values alone name them, or there is no decoder. */
qb_status qb_detector_guess(qb_ctx *cx, const qb_graph *graph, const qb_detector_hints *hints,
                            const qb_box_decoder **out, int32_t *classes);

/* How the numbers of a detector's classes stand for the categories of a ground truth, where neither
 * names nor category ids tell: class k is the category of rank k, by id; or that of id k + first.
 * Models that number as COCO does (1 to 90 for 80 categories) have as many classes as the highest
 * id, or one more. */
typedef struct qb_class_rule {
    bool ids;
    int64_t first;
} qb_class_rule;
/* `told`: classes of the model, 0: not known; `seen`: one more than the highest class of a box. */
qb_class_rule qb_detector_class_rule(const qb_coco *truth, int32_t told, int32_t seen);
/* Which category each class is, as far as the number of classes tells, in words into text[n]. */
void qb_detector_class_text(const qb_coco *truth, int32_t told, char *text, size_t n);
#endif
