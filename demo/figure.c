#include "figure_internal.h"

#include <math.h>

#include "draw.h"

enum { CHECKER, CIRCLE, CROSS, HEART, RING, SPIRAL, SQUARE, STAR, STRIPES, TRIANGLE };

double qb_draw_range(qb_rng *rng, double low, double high) {
    return low + (high - low) * qb_rng_uniform(rng);
}

void qb_turn(double turns, double *cosine, double *sine) {
    /* Nearest quarter turn, then Taylor series on [-pi/4, pi/4]: error below 1e-11. */
    double quarter = floor(4.0 * turns + 0.5);
    double x = (turns - 0.25 * quarter) * 6.283185307179586;
    double x2 = x * x;
    double s =
        x * (1.0 +
             x2 * (-1.0 / 6.0 +
                   x2 * (1.0 / 120.0 +
                         x2 * (-1.0 / 5040.0 + x2 * (1.0 / 362880.0 - x2 * (1.0 / 39916800.0))))));
    double c =
        1.0 + x2 * (-1.0 / 2.0 +
                    x2 * (1.0 / 24.0 +
                          x2 * (-1.0 / 720.0 + x2 * (1.0 / 40320.0 - x2 * (1.0 / 3628800.0)))));
    switch ((int)(quarter - 4.0 * floor(quarter / 4.0))) {
    case 0:
        *cosine = c;
        *sine = s;
        break;
    case 1:
        *cosine = -s;
        *sine = c;
        break;
    case 2:
        *cosine = -c;
        *sine = -s;
        break;
    default:
        *cosine = s;
        *sine = -c;
        break;
    }
}

/* n corners at equal angles, the odd ones at radius `inner`: 1 for a plain polygon, less for a
 * star. */
static void set_polygon(qb_figure *figure, int n, double inner) {
    figure->n_points = n;
    for (int i = 0; i < n; i++) {
        double c, s, r = i % 2 ? inner : 1.0;
        qb_turn((double)i / n - 0.25, &c, &s);
        figure->point[i][0] = r * c;
        figure->point[i][1] = r * s;
    }
}

/* Archimedean spiral from the middle to radius 1. */
static void set_spiral(qb_figure *figure, double turns, double direction) {
    figure->n_points = QB_FIGURE_POINTS;
    for (int i = 0; i < QB_FIGURE_POINTS; i++) {
        double c, s, r = (double)i / (QB_FIGURE_POINTS - 1);
        qb_turn(direction * turns * r, &c, &s);
        figure->point[i][0] = r * c;
        figure->point[i][1] = r * s;
    }
}

void qb_figure_init(qb_figure *figure, int32_t label, qb_rng *rng) {
    /* Every figure draws the same number of random values, so that what follows in the stream (the
     * scene around it) does not depend on the class. */
    double u[5];
    for (int i = 0; i < 5; i++) u[i] = qb_rng_uniform(rng);
    *figure = (qb_figure){.label = label};
    figure->phase[0] = u[1];
    figure->phase[1] = u[2];
    figure->round = u[3] < 0.5;
    switch (label) {
    case CHECKER: figure->period = 0.75 + 0.45 * u[0]; break;
    case CROSS: figure->width = 0.2 + 0.2 * u[0]; break;
    case RING: figure->width = 0.5 + 0.25 * u[0]; break;
    case SPIRAL:
        figure->width = 0.1 + 0.06 * u[0];
        set_spiral(figure, 1.6 + 0.6 * u[1], u[2] < 0.5 ? -1.0 : 1.0);
        break;
    case STAR: set_polygon(figure, 10, 0.38 + 0.16 * u[0]); break;
    case STRIPES: figure->period = 0.5 + 0.45 * u[0]; break;
    case TRIANGLE: set_polygon(figure, 3, 1.0); break;
    default: break;
    }
}

/* Even-odd rule. */
static bool inside_polygon(const qb_figure *figure, double x, double y) {
    bool inside = false;
    for (int i = 0, j = figure->n_points - 1; i < figure->n_points; j = i++) {
        const double *a = figure->point[i], *b = figure->point[j];
        if ((a[1] > y) != (b[1] > y) && x < (b[0] - a[0]) * (y - a[1]) / (b[1] - a[1]) + a[0])
            inside = !inside;
    }
    return inside;
}

static bool near_line(const qb_figure *figure, double x, double y) {
    for (int i = 1; i < figure->n_points; i++) {
        const double *a = figure->point[i - 1], *b = figure->point[i];
        double dx = b[0] - a[0], dy = b[1] - a[1];
        double t = ((x - a[0]) * dx + (y - a[1]) * dy) / (dx * dx + dy * dy);
        t = t < 0.0 ? 0.0 : t > 1.0 ? 1.0 : t;
        double ex = x - a[0] - t * dx, ey = y - a[1] - t * dy;
        if (ex * ex + ey * ey <= figure->width * figure->width) return true;
    }
    return false;
}

static bool inside_pattern(const qb_figure *figure, double x, double y, bool two_ways) {
    if (figure->round ? x * x + y * y > 1.0 : fabs(x) > 0.88 || fabs(y) > 0.88) return false;
    double u = x / figure->period + figure->phase[0], v = y / figure->period + figure->phase[1];
    bool a = u - floor(u) < 0.5, b = v - floor(v) < 0.5;
    return two_ways ? a != b : a;
}

bool qb_figure_inside(const qb_figure *figure, double x, double y) {
    double r2 = x * x + y * y;
    if (r2 > 1.7) return false;
    switch (figure->label) {
    case CHECKER: return inside_pattern(figure, x, y, true);
    case CIRCLE: return r2 <= 0.9;
    case CROSS:
        return (fabs(x) <= figure->width && fabs(y) <= 1.0) ||
               (fabs(y) <= figure->width && fabs(x) <= 1.0);
    case HEART: { /* (x^2 + y^2 - 1)^3 <= x^2 y^3, y up, shrunk into the unit disc */
        double hx = 1.2 * x, hy = 0.1 - 1.2 * y, h = hx * hx + hy * hy - 1.0;
        return h * h * h <= hx * hx * hy * hy * hy;
    }
    case RING: return r2 <= 1.0 && r2 >= figure->width * figure->width;
    case SPIRAL: return near_line(figure, x, y);
    case SQUARE: return fabs(x) <= 0.8 && fabs(y) <= 0.8;
    case STRIPES: return inside_pattern(figure, x, y, false);
    default: return inside_polygon(figure, x, y);
    }
}

const char *qb_figure_name(int32_t label) {
    static const char *const name[QB_DEMO_CLASSES] = {
        [CHECKER] = "checker", [CIRCLE] = "circle",    [CROSS] = "cross",   [HEART] = "heart",
        [RING] = "ring",       [SPIRAL] = "spiral",    [SQUARE] = "square", [STAR] = "star",
        [STRIPES] = "stripes", [TRIANGLE] = "triangle"};
    return label >= 0 && label < QB_DEMO_CLASSES ? name[label] : NULL;
}
