#include "draw.h"

#include <math.h>
#include <string.h>

#include "figure_internal.h"

enum { SIDE = QB_DEMO_SIDE, SAMPLES = 4, GRID = 8 };

typedef struct color {
    double c[3];
} color;

/* Levels in 0..255 before rounding; they may leave the range until the end. */
typedef struct canvas {
    color at[SIDE][SIDE];
} canvas;

/* Maps pixels to figure coordinates: u = m (p - centre). */
typedef struct placement {
    double centre[2];
    double m[2][2];
} placement;

static color random_color(qb_rng *rng) {
    color out;
    for (int k = 0; k < 3; k++) out.c[k] = qb_draw_range(rng, 10.0, 245.0);
    return out;
}

/* The first of eight colours that differs from `other` by at least `distance` (root mean square
 * over the channels), or the one that differs most. Always eight draws from the stream. */
static color random_color_apart(qb_rng *rng, color other, double distance) {
    color best = other;
    double best_d2 = -1.0;
    for (int i = 0; i < 8; i++) {
        color try = random_color(rng);
        double d2 = 0.0;
        for (int k = 0; k < 3; k++) d2 += (try.c[k] - other.c[k]) * (try.c[k] - other.c[k]) / 3.0;
        if (best_d2 < distance * distance && d2 > best_d2) {
            best = try;
            best_d2 = d2;
        }
    }
    return best;
}

static color mix(color a, color b, double t) {
    for (int k = 0; k < 3; k++) a.c[k] += t * (b.c[k] - a.c[k]);
    return a;
}

/* Random figure position, size, turn, stretch and shear. */
static placement random_placement(qb_rng *rng, double min_radius, double max_radius) {
    placement p;
    double c, s;
    double radius = qb_draw_range(rng, min_radius, max_radius);
    double stretch = qb_draw_range(rng, 0.8, 1.25), shear = qb_draw_range(rng, -0.2, 0.2);
    double reach = 0.5 * SIDE - 0.8 * radius;
    p.centre[0] = 0.5 * SIDE + qb_draw_range(rng, -reach, reach);
    p.centre[1] = 0.5 * SIDE + qb_draw_range(rng, -reach, reach);
    qb_turn(qb_rng_uniform(rng), &c, &s);
    double sx = 1.0 / (radius * sqrt(stretch)), sy = sqrt(stretch) / radius;
    p.m[0][0] = sx * (c + shear * s);
    p.m[0][1] = sx * (s - shear * c);
    p.m[1][0] = -sy * s;
    p.m[1][1] = sy * c;
    return p;
}

/* Two colours blended across the image, plus smoothed noise on a coarse random grid. */
static void paint_background(canvas *to, qb_rng *rng, color base) {
    double change = qb_draw_range(rng, 0.0, 0.5);
    color far = mix(base, random_color(rng), change);
    double c, s, amplitude = qb_draw_range(rng, 0.0, 45.0), cell = qb_draw_range(rng, 5.0, 14.0);
    double tint[3], grid[GRID][GRID];
    qb_turn(qb_rng_uniform(rng), &c, &s);
    for (int k = 0; k < 3; k++) tint[k] = qb_draw_range(rng, 0.4, 1.0);
    for (int i = 0; i < GRID * GRID; i++) grid[i / GRID][i % GRID] = qb_draw_range(rng, -1.0, 1.0);
    for (int y = 0; y < SIDE; y++) {
        for (int x = 0; x < SIDE; x++) {
            double along = (c * (x - 0.5 * SIDE) + s * (y - 0.5 * SIDE)) / (1.5 * SIDE) + 0.5;
            double gx = x / cell, gy = y / cell;
            int ix = (int)gx, iy = (int)gy;
            double fx = gx - ix, fy = gy - iy;
            fx = fx * fx * (3.0 - 2.0 * fx);
            fy = fy * fy * (3.0 - 2.0 * fy);
            double top = grid[iy][ix] + fx * (grid[iy][ix + 1] - grid[iy][ix]);
            double low = grid[iy + 1][ix] + fx * (grid[iy + 1][ix + 1] - grid[iy + 1][ix]);
            double noise = amplitude * (top + fy * (low - top));
            color here = mix(base, far, along);
            for (int k = 0; k < 3; k++) here.c[k] += tint[k] * noise;
            to->at[y][x] = here;
        }
    }
}

/* Share of the pixel that the figure covers, from SAMPLES x SAMPLES points. */
static double coverage(const qb_figure *figure, const placement *p, int x, int y) {
    int hits = 0;
    for (int j = 0; j < SAMPLES; j++) {
        for (int i = 0; i < SAMPLES; i++) {
            double px = x + (i + 0.5) / SAMPLES - p->centre[0];
            double py = y + (j + 0.5) / SAMPLES - p->centre[1];
            hits += qb_figure_inside(figure, p->m[0][0] * px + p->m[0][1] * py,
                                     p->m[1][0] * px + p->m[1][1] * py);
        }
    }
    return (double)hits / (SAMPLES * SAMPLES);
}

/* The figure in a colour that shifts towards `second` along its own x axis. */
static void paint_figure(canvas *to, const qb_figure *figure, const placement *p, color first,
                         color second) {
    for (int y = 0; y < SIDE; y++) {
        for (int x = 0; x < SIDE; x++) {
            double share = coverage(figure, p, x, y);
            if (share == 0.0) continue;
            double u =
                p->m[0][0] * (x + 0.5 - p->centre[0]) + p->m[0][1] * (y + 0.5 - p->centre[1]);
            double t = 0.5 * (u + 1.0);
            t = t < 0.0 ? 0.0 : t > 1.0 ? 1.0 : t;
            to->at[y][x] = mix(to->at[y][x], mix(first, second, t), share);
        }
    }
}

/* A straight bar across the image through `through`, hiding what lies below. */
static void paint_bar(canvas *to, qb_rng *rng, const double through[2], double half_width,
                      color paint) {
    double c, s;
    qb_turn(qb_rng_uniform(rng), &c, &s);
    for (int y = 0; y < SIDE; y++) {
        for (int x = 0; x < SIDE; x++) {
            double away = fabs(c * (x + 0.5 - through[0]) + s * (y + 0.5 - through[1]));
            double share = half_width + 0.5 - away;
            share = share < 0.0 ? 0.0 : share > 1.0 ? 1.0 : share;
            to->at[y][x] = mix(to->at[y][x], paint, share);
        }
    }
}

/* Small dots beside and over the figure. */
static void paint_dots(canvas *to, qb_rng *rng, int n) {
    for (int i = 0; i < n; i++) {
        double cx = qb_draw_range(rng, 0.0, SIDE), cy = qb_draw_range(rng, 0.0, SIDE);
        double radius = qb_draw_range(rng, 0.7, 2.6);
        color paint = random_color(rng);
        for (int y = 0; y < SIDE; y++) {
            for (int x = 0; x < SIDE; x++) {
                double dx = x + 0.5 - cx, dy = y + 0.5 - cy;
                double share = radius + 0.5 - sqrt(dx * dx + dy * dy);
                share = share < 0.0 ? 0.0 : share > 1.0 ? 1.0 : share;
                to->at[y][x] = mix(to->at[y][x], paint, share);
            }
        }
    }
}

/* Mean of 3x3 neighbours, mixed in by `amount`: a lens out of focus. */
static void blur(canvas *image, double amount) {
    canvas from = *image;
    for (int y = 0; y < SIDE; y++) {
        for (int x = 0; x < SIDE; x++) {
            color sum = {{0.0, 0.0, 0.0}};
            for (int j = -1; j <= 1; j++) {
                for (int i = -1; i <= 1; i++) {
                    int yy = y + j < 0 ? 0 : y + j >= SIDE ? SIDE - 1 : y + j;
                    int xx = x + i < 0 ? 0 : x + i >= SIDE ? SIDE - 1 : x + i;
                    for (int k = 0; k < 3; k++) sum.c[k] += from.at[yy][xx].c[k];
                }
            }
            for (int k = 0; k < 3; k++) sum.c[k] /= 9.0;
            image->at[y][x] = mix(from.at[y][x], sum, amount);
        }
    }
}

/* Exposure, sensor noise and hot pixels; then rounding to bytes. */
static void develop(const canvas *image, qb_rng *rng, uint8_t *pixel) {
    double contrast = qb_draw_range(rng, 0.4, 1.0), light = qb_draw_range(rng, -45.0, 45.0);
    double sigma = qb_draw_range(rng, 2.0, 20.0);
    int hot = qb_rng_uniform(rng) < 0.12 ? 4 + (int)(24.0 * qb_rng_uniform(rng)) : 0;
    for (int i = 0; i < SIDE * SIDE * 3; i++) {
        /* The sum of four uniforms is close to normal and needs no logarithm; its standard
         * deviation is 1 / sqrt(3). */
        uint64_t bits = qb_rng_u64(rng);
        double sum = 0.0;
        for (int k = 0; k < 4; k++) sum += (double)((bits >> (16 * k)) & 0xffff) / 65536.0;
        double level = image->at[i / (3 * SIDE)][i / 3 % SIDE].c[i % 3];
        double v = 128.0 + contrast * (level - 128.0) + light + sigma * 1.7320508 * (sum - 2.0);
        v = floor(v + 0.5);
        pixel[i] = (uint8_t)(v < 0.0 ? 0.0 : v > 255.0 ? 255.0 : v);
    }
    for (int i = 0; i < hot; i++) {
        int at = (int)(SIDE * SIDE * qb_rng_uniform(rng));
        memset(pixel + 3 * at, qb_rng_uniform(rng) < 0.5 ? 0 : 255, 3);
    }
}

/* One random value a statement: C leaves the order of evaluation inside an argument list open. */
void qb_demo_pixels(uint64_t seed, int64_t index, int32_t label, uint8_t *pixel) {
    qb_rng rng;
    canvas image;
    qb_figure figure;
    qb_rng_seed(&rng, seed);
    qb_rng_seed(&rng, qb_rng_u64(&rng) + (uint64_t)index);
    qb_rng_seed(&rng, qb_rng_u64(&rng) + (uint64_t)label);

    qb_figure_init(&figure, label, &rng);
    placement place = random_placement(&rng, 7.5, 13.5);
    color back = random_color(&rng);
    double apart = qb_draw_range(&rng, 45.0, 105.0);
    color front = random_color_apart(&rng, back, apart);
    double change = qb_draw_range(&rng, 0.0, 0.4);
    color second = mix(front, random_color(&rng), change);
    paint_background(&image, &rng, back);
    paint_figure(&image, &figure, &place, front, second);
    if (qb_rng_uniform(&rng) < 0.4) {
        double through[2];
        for (int k = 0; k < 2; k++) through[k] = place.centre[k] + qb_draw_range(&rng, -9.0, 9.0);
        color paint = random_color(&rng);
        double half_width = qb_draw_range(&rng, 0.5, 2.5);
        paint_bar(&image, &rng, through, half_width, paint);
    }
    paint_dots(&image, &rng, (int)(5.0 * qb_rng_uniform(&rng)));
    blur(&image, qb_rng_uniform(&rng));
    develop(&image, &rng, pixel);
}

const char *qb_demo_class_name(int32_t label) { return qb_figure_name(label); }
