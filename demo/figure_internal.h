/* The ten figures as "is this point inside?" functions in their own coordinates. */
#ifndef QB_DEMO_FIGURE_INTERNAL_H
#define QB_DEMO_FIGURE_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rng.h"

enum { QB_FIGURE_POINTS = 40 };

/* One figure with its random proportions. Coordinates are such that it about fills the unit disc;
 * y points down. */
typedef struct qb_figure {
    int32_t label;
    double width;    /* ring: inner radius; cross: half arm; spiral: half stroke */
    double period;   /* checker, stripes: length of one light-dark pair */
    double phase[2]; /* checker, stripes: offset of the pattern */
    bool round;      /* checker, stripes: a disc rather than a square of pattern */
    int n_points;    /* triangle, star: polygon; spiral: open line */
    double point[QB_FIGURE_POINTS][2];
} qb_figure;

const char *qb_figure_name(int32_t label);
void qb_figure_init(qb_figure *figure, int32_t label, qb_rng *rng);
bool qb_figure_inside(const qb_figure *figure, double x, double y);

/* cos and sin of `turns` whole turns. Not libm's, whose last bits differ between systems. */
void qb_turn(double turns, double *cosine, double *sine);
/* Uniform in [low, high). */
double qb_draw_range(qb_rng *rng, double low, double high);

#endif
