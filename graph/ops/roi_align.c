/* RoiAlign: each region is cut into bins, each bin is sampled at a grid of points, and each point
 * is read from the feature map by bilinear interpolation. */
#include <math.h>

#include "base/vector_loop.h"
#include "ops_internal.h"

typedef struct roi_attrs {
    const char *coordinate_transformation_mode, *mode;
    int64_t output_height, output_width, sampling_ratio;
    float spatial_scale;
} roi_attrs;
QB_ATTRS(roi_table,
         QB_A_STRING(roi_attrs, coordinate_transformation_mode, "coordinate_transformation_mode",
                     "half_pixel"),
         QB_A_STRING(roi_attrs, mode, "mode", "avg"),
         QB_A_INT(roi_attrs, output_height, "output_height", 1, 1, QB_ATTR_BIG),
         QB_A_INT(roi_attrs, output_width, "output_width", 1, 1, QB_ATTR_BIG),
         QB_A_INT(roi_attrs, sampling_ratio, "sampling_ratio", 0, 0, QB_ATTR_BIG),
         QB_A_FLOAT(roi_attrs, spatial_scale, "spatial_scale", 1.0f));

static bool is(const char *text, const char *name) { return strcmp(text, name) == 0; }

static qb_status check_attrs(qb_ctx *cx, const roi_attrs *attrs) {
    if (!is(attrs->mode, "avg") && !is(attrs->mode, "max"))
        return qb_fail(cx, QB_STATUS_INVALID, "mode: expected avg or max, got '%s'", attrs->mode);
    const char *how = attrs->coordinate_transformation_mode;
    if (!is(how, "half_pixel") && !is(how, "output_half_pixel"))
        return qb_fail(cx, QB_STATUS_INVALID,
                       "coordinate_transformation_mode: expected half_pixel or output_half_pixel, "
                       "got '%s'",
                       how);
    return QB_OK;
}

static qb_status infer_roi(qb_ctx *cx, const qb_infer_args *args) {
    const roi_attrs *attrs = qb_infer_at(args)->attrs;
    const qb_value *x = qb_infer_in(args, 0), *rois = qb_infer_in(args, 1);
    const qb_value *batch = qb_infer_in(args, 2);
    QB_TRY(check_attrs(cx, attrs));
    QB_TRY(qb_infer_rank(cx, args, 0, 4, 4));
    QB_TRY(qb_infer_rank(cx, args, 1, 2, 2));
    QB_TRY(qb_infer_rank(cx, args, 2, 1, 1));
    QB_TRY(qb_infer_same_type(cx, args, 1));
    qb_shape out = qb_shape_unknown(4);
    if (rois->shape.rank == 2) {
        if (rois->shape.dim[1] >= 0 && rois->shape.dim[1] != 4)
            return qb_fail(cx, QB_STATUS_INVALID, "rois: expected 4 coordinates, got %lld",
                           (long long)rois->shape.dim[1]);
        out.dim[0] = rois->shape.dim[0];
    }
    if (batch->shape.rank == 1) {
        const int64_t n = batch->shape.dim[0];
        if (n >= 0 && out.dim[0] >= 0 && n != out.dim[0])
            return qb_fail(cx, QB_STATUS_INVALID, "batch_indices: expected %lld, got %lld",
                           (long long)out.dim[0], (long long)n);
        if (out.dim[0] == QB_DIM_UNKNOWN) out.dim[0] = n;
    }
    if (x->shape.rank == 4) out.dim[1] = x->shape.dim[1];
    out.dim[2] = attrs->output_height;
    out.dim[3] = attrs->output_width;
    return qb_infer_set(cx, args, 0, x->dtype, &out);
}

/* One spatial dimension of a region: bins of `bin` pixels from `start`, `samples` points in each.
 */
typedef struct side {
    double start, bin, samples;
    int64_t size; /* of the feature map */
} side;

static side side_of(const roi_attrs *attrs, float low, float high, int64_t bins, int64_t size) {
    const bool half_pixel = is(attrs->coordinate_transformation_mode, "half_pixel");
    const double scale = (double)attrs->spatial_scale, offset = half_pixel ? 0.5 : 0.0;
    const double start = (double)low * scale - offset;
    double length = (double)high * scale - offset - start;
    if (!half_pixel && !(length > 1.0)) length = 1.0;
    const double bin = length / (double)bins;
    const double samples = attrs->sampling_ratio ? (double)attrs->sampling_ratio : ceil(bin);
    return (side){start, bin, samples > 0.0 ? samples : 0.0, size};
}

/* The samples of a bin that lie at most a pixel outside the map; all others read 0. */
static void samples_inside(const side *s, int64_t bin, int64_t *first, int64_t *end) {
    const double from = s->start + (double)bin * s->bin, step = s->bin / s->samples;
    *first = *end = 0;
    if (!(s->samples <= 0x1p31)) return; /* too many to matter: their mean is 0 */
    if (!(s->samples > 0.0) || !(step != 0.0) || !isfinite(from) || !isfinite(step)) {
        /* an empty region has its samples at one place, others nowhere */
        if (s->samples > 0.0 && step == 0.0 && from >= -1.0 && from <= (double)s->size)
            *end = (int64_t)s->samples;
        return;
    }
    const double a = (-1.0 - from) / step - 0.5, b = ((double)s->size - from) / step - 0.5;
    const double low = ceil(fmin(a, b)), high = floor(fmax(a, b)) + 1.0;
    if (high <= 0.0 || low >= s->samples) return;
    *first = low > 0.0 ? (int64_t)low : 0;
    *end = (int64_t)(high < s->samples ? high : s->samples);
}

/* Two neighbouring elements and the second one's weight. */
typedef struct pair {
    int64_t low, high;
    double part;
} pair;

static pair pair_at(const side *s, int64_t bin, int64_t sample) {
    double x = s->start + (double)bin * s->bin + ((double)sample + 0.5) * (s->bin / s->samples);
    const double last = (double)(s->size - 1);
    x = x > 0.0 ? (x < last ? x : last) : 0.0;
    const int64_t low = (int64_t)x;
    return (pair){low, low + 1 < s->size ? low + 1 : low, x - (double)low};
}

/* The samples of one dimension of a region, those inside the map, bin after bin. */
typedef struct line {
    pair *at;
    size_t capacity;
    int64_t *end; /* [bins] behind the last one of each bin */
} line;

static qb_status place_samples(qb_ctx *cx, const side *s, int64_t bins, line *out) {
    int64_t first, end, n = 0;
    for (int64_t b = 0; b < bins; b++) {
        samples_inside(s, b, &first, &end);
        QB_TRY(qb_grow(cx, &out->at, &out->capacity, (size_t)(n + end - first), sizeof *out->at));
        for (int64_t i = first; i < end; i++) out->at[n++] = pair_at(s, b, i);
        out->end[b] = n;
    }
    return QB_OK;
}

/* Feature maps with channels last, row by row as regions need them: a point is read for all
 * channels at once. */
typedef struct maps {
    const float *planes;
    int64_t channels, height, width;
    float *rows;
    bool *there; /* [images x height] */
} maps;

QB_LOOP(spread, (const float *from, int64_t n, int64_t step, float *to), (from, n, step, to)) {
    for (int64_t i = 0; i < n; i++) to[i * step] = from[i];
}

static const float *row_at(const maps *m, int64_t image, int64_t y) {
    const int64_t row = image * m->height + y;
    float *to = m->rows + row * m->width * m->channels;
    if (m->there[row]) return to;
    const float *from = m->planes + (image * m->channels * m->height + y) * m->width;
    for (int64_t c = 0; c < m->channels; c++)
        spread(from + c * m->height * m->width, m->width, m->channels, to + c);
    m->there[row] = true;
    return to;
}

/* What the four pixels around a point add to each channel, one after the other. */
QB_LOOP(add_corners, (const float *const x[4], const double w[4], int64_t n, double *sum),
        (x, w, n, sum)) {
    const float *a = x[0], *b = x[1], *c = x[2], *d = x[3];
    for (int64_t i = 0; i < n; i++) {
        double v = sum[i] + w[0] * (double)a[i];
        v += w[1] * (double)b[i];
        v += w[2] * (double)c[i];
        sum[i] = v + w[3] * (double)d[i];
    }
}

/* As fmax: a NaN is nothing beside a number. */
QB_LOOP(take_largest, (const float *x, double w, int64_t n, double *most), (x, w, n, most)) {
    for (int64_t i = 0; i < n; i++) {
        const double v = w * (double)x[i], before = most[i];
        most[i] = v > before || before != before ? v : before;
    }
}

/* A bin: its samples' rows and columns. `points`: how many it has, those outside included. */
typedef struct bin {
    const pair *v, *h;
    int64_t n_v, n_h;
    double points;
} bin;

/* The mean of the points; or the largest of the weighted corners, not of the interpolated points:
 * so the standard's implementations have it. Points outside read 0. */
static void pool_bin(const maps *m, int64_t image, const bin *b, bool max, double *sum) {
    const bool all = (double)b->n_v * (double)b->n_h == b->points;
    for (int64_t c = 0; c < m->channels; c++)
        sum[c] = max && all && b->points > 0.0 ? -INFINITY : 0.0;
    for (int64_t i = 0; i < b->n_v; i++) {
        const float *low = row_at(m, image, b->v[i].low), *high = row_at(m, image, b->v[i].high);
        const double v = b->v[i].part;
        for (int64_t k = 0; k < b->n_h; k++) {
            const int64_t left = b->h[k].low * m->channels, right = b->h[k].high * m->channels;
            const double h = b->h[k].part;
            const float *const x[4] = {low + left, low + right, high + left, high + right};
            const double w[4] = {(1.0 - v) * (1.0 - h), (1.0 - v) * h, v * (1.0 - h), v * h};
            if (max)
                for (int32_t c = 0; c < 4; c++) take_largest(x[c], w[c], m->channels, sum);
            else
                add_corners(x, w, m->channels, sum);
        }
    }
    if (!max && b->points > 1.0)
        for (int64_t c = 0; c < m->channels; c++) sum[c] /= b->points;
}

static qb_status pool_region(qb_ctx *cx, const roi_attrs *attrs, const float *roi, const maps *m,
                             int64_t image, line l[2], const int64_t bins[2], double *sum,
                             float *to) {
    const bool max = is(attrs->mode, "max");
    const side s[2] = {side_of(attrs, roi[1], roi[3], bins[0], m->height),
                       side_of(attrs, roi[0], roi[2], bins[1], m->width)};
    if (m->height * m->width == 0) {
        memset(to, 0, (size_t)(m->channels * bins[0] * bins[1]) * sizeof *to);
        return QB_OK;
    }
    for (int32_t d = 0; d < 2; d++) QB_TRY(place_samples(cx, &s[d], bins[d], &l[d]));
    const double points = s[0].samples * s[1].samples;
    for (int64_t i = 0, v = 0; i < bins[0]; v = l[0].end[i++])
        for (int64_t k = 0, h = 0; k < bins[1]; h = l[1].end[k++], to++) {
            const bin b = {l[0].at + v, l[1].at + h, l[0].end[i] - v, l[1].end[k] - h, points};
            pool_bin(m, image, &b, max, sum);
            for (int64_t c = 0; c < m->channels; c++) to[c * bins[0] * bins[1]] = (float)sum[c];
        }
    return QB_OK;
}

static qb_status pool_regions(qb_ctx *cx, const qb_node *node, const qb_tensor *in,
                              const qb_shape *out, const maps *m, line l[2], float *to) {
    const int64_t bins[2] = {out->dim[2], out->dim[3]}, each = m->channels * bins[0] * bins[1];
    QB_FREED double *sum = QB_NEW(cx, qb_alloc(cx, (size_t)m->channels, sizeof *sum));
    for (int32_t d = 0; d < 2; d++)
        QB_TRY_NEW(cx, l[d].end = qb_alloc(cx, (size_t)bins[d], sizeof *l[d].end));
    for (int64_t r = 0; r < out->dim[0]; r++) {
        int64_t image;
        QB_TRY_WRAP(cx, qb_eval_index(cx, &in[2], r, in[0].desc.shape.dim[0], &image),
                    "batch_indices");
        QB_TRY(pool_region(cx, node->attrs, (const float *)in[1].data + r * 4, m, image, l, bins,
                           sum, to + r * each));
    }
    return QB_OK;
}

static qb_status eval_roi(qb_ctx *cx, const qb_node *node, const qb_tensor *in, qb_tensor *out) {
    QB_EVAL_IN_F32(eval_roi);
    const qb_shape *x = &in[0].desc.shape;
    line l[2] = {0};
    maps m = {.planes = in[0].data, .channels = x->dim[1], .height = x->dim[2], .width = x->dim[3]};
    qb_status status = QB_OK;
    QB_GO_NEW(cx, m.there = qb_alloc(cx, (size_t)(x->dim[0] * m.height), sizeof *m.there));
    QB_GO_NEW(cx, m.rows = qb_alloc(cx, (size_t)qb_shape_count(x), sizeof *m.rows));
    status = pool_regions(cx, node, in, &out[0].desc.shape, &m, l, out[0].data);
out:
    for (int32_t d = 0; d < 2; d++) QB_FREE_ALL(l[d].at, l[d].end);
    QB_FREE_ALL(m.there, m.rows);
    return status;
}

/* Before opset 16 coordinates were not shifted by half a pixel. */
static qb_status upgrade_roi(qb_ctx *cx, qb_graph *graph, int32_t node, int32_t version) {
    roi_attrs *attrs = graph->nodes[node].attrs;
    (void)cx;
    if (version < 16) attrs->coordinate_transformation_mode = "output_half_pixel";
    return QB_OK;
}

QB_OP_SIMPLE(roi_align, "RoiAlign", 10, 3, 3, 1, sizeof(roi_attrs), roi_table, FLOAT, infer_roi,
             eval_roi, .upgrade = upgrade_roi, .types = QB_TYPES_FLOATS, .traits = QB_TRAIT_WINDOW);
