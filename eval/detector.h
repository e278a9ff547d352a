/* What a graph's declared outputs tell of a detector. */
#ifndef QB_EVAL_DETECTOR_H
#define QB_EVAL_DETECTOR_H

#include "eval/detection.h"
#include "graph/graph.h"

typedef struct qb_detector_hints {
    const qb_detect_settings *settings; /* its decoder is of no consequence */
    int32_t width, height;              /* of the input; 0: open */
    int32_t n_labels;                   /* classes that something tells of; 0: not known */
    int64_t top_id;                     /* the highest id of the data's categories; 0: not known */
    bool sure; /* only outputs that nothing but a detector has: the cells of usual strides */
} qb_detector_hints;

/* The decoder that fits; NULL in *out when there is none. */
qb_status qb_detector_guess(qb_ctx *cx, const qb_graph *graph, const qb_detector_hints *hints,
                            const qb_box_decoder **out);
#endif
