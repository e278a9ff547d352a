/* Key points of one object that fills the input, as top-down pose models give them. */
#ifndef QB_EVAL_CROP_POINTS_H
#define QB_EVAL_CROP_POINTS_H

#include "graph/graph.h"

/* Which outputs hold them: heat maps 1 x K x H x W (y below 0), whose peaks are the points, as of
 * HRNet, ViTPose and SimpleBaseline; or SimCC's 1 x K x W r and 1 x K x H r, bins of a point's x
 * and y, as of RTMPose. */
typedef struct qb_crop_points {
    int32_t x, y;
} qb_crop_points;

/* From the outputs' shapes, where dimensions may be open; false: they hold none. */
bool qb_crop_points_find(const qb_graph *graph, int32_t points, qb_crop_points *out);
/* Into x, y (pixels of an input of width x height) and score of each point. Peaks of heat maps move
 * a quarter of a cell towards the larger neighbour; of SimCC's two scores the lower one counts.
 * Numbers in f32; heat maps and bins may not be empty. */
void qb_crop_points_decode(const qb_crop_points *form, const qb_tensor *output, int32_t points,
                           int32_t width, int32_t height, double *out);
#endif
