#include "eval/crop_points.h"

#include <math.h>

static bool holds(const qb_graph *graph, int32_t output, int32_t rank, int32_t points) {
    if (output >= graph->n_outputs) return false;
    const qb_value *value = &graph->values[graph->outputs[output]];
    const qb_shape *s = &value->shape;
    return qb_dtype_is_float(value->dtype) && s->rank == rank && s->dim[0] <= 1 &&
           s->dim[1] == points;
}

bool qb_crop_points_find(const qb_graph *graph, int32_t points, qb_crop_points *out) {
    for (int32_t i = 0; i < graph->n_outputs && points > 0; i++) {
        const bool map = holds(graph, i, 4, points);
        *out = (qb_crop_points){i, map ? -1 : i + 1};
        if (map || (holds(graph, i, 3, points) && holds(graph, i + 1, 3, points))) return true;
    }
    return false;
}

static int64_t largest(const float *v, int64_t n) {
    int64_t best = 0;
    for (int64_t i = 1; i < n; i++)
        if (v[i] > v[best]) best = i;
    return best;
}

/* A quarter towards the larger of two neighbours; 0 where one is beyond the border. */
static double quarter(const float *peak, int64_t step, int64_t at, int64_t n) {
    if (at < 1 || at + 1 >= n || peak[step] == peak[-step]) return 0;
    return peak[step] > peak[-step] ? 0.25 : -0.25;
}

static void of_map(const qb_tensor *output, int32_t k, double width, double height, double *out) {
    const int64_t h = output->desc.shape.dim[2], w = output->desc.shape.dim[3];
    const float *map = (const float *)output->data + k * h * w;
    const int64_t at = largest(map, h * w), x = at % w, y = at / w;
    out[0] = ((double)x + quarter(map + at, 1, x, w)) * width / (double)w;
    out[1] = ((double)y + quarter(map + at, w, y, h)) * height / (double)h;
    out[2] = map[at];
}

static double of_bins(const qb_tensor *output, int32_t k, double side, double *score) {
    const int64_t n = output->desc.shape.dim[2];
    const float *bin = (const float *)output->data + k * n;
    const int64_t at = largest(bin, n);
    *score = fmin(*score, bin[at]);
    return (double)at * side / (double)n;
}

void qb_crop_points_decode(const qb_crop_points *form, const qb_tensor *output, int32_t points,
                           int32_t width, int32_t height, double *out) {
    for (int32_t k = 0; k < points; k++, out += 3) {
        if (form->y < 0) {
            of_map(&output[form->x], k, width, height, out);
            continue;
        }
        out[2] = INFINITY;
        out[0] = of_bins(&output[form->x], k, width, &out[2]);
        out[1] = of_bins(&output[form->y], k, height, &out[2]);
    }
}
