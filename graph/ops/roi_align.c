/* RoiAlign: each region is cut into bins, each bin is sampled at a grid of points, and each point
 * is read from the feature map by bilinear interpolation. */
#include <math.h>

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

/* Pools one bin of one channel. The largest of `max` is taken over the weighted corners, not over
 * the interpolated points: so the standard's implementations have it. */
static double pool_bin(const float *x, const side s[2], const int64_t bin[2], bool max) {
    int64_t first[2], end[2];
    for (int32_t d = 0; d < 2; d++) samples_inside(&s[d], bin[d], &first[d], &end[d]);
    const double n = s[0].samples * s[1].samples;
    const bool all = (double)(end[0] - first[0]) * (double)(end[1] - first[1]) == n;
    double sum = 0.0, most = all && n > 0.0 ? -INFINITY : 0.0; /* points outside read 0 */
    for (int64_t i = first[0]; i < end[0]; i++) {
        const pair v = pair_at(&s[0], bin[0], i);
        const float *row[2] = {x + v.low * s[1].size, x + v.high * s[1].size};
        for (int64_t k = first[1]; k < end[1]; k++) {
            const pair h = pair_at(&s[1], bin[1], k);
            const double corner[4] = {(1.0 - v.part) * (1.0 - h.part) * (double)row[0][h.low],
                                      (1.0 - v.part) * h.part * (double)row[0][h.high],
                                      v.part * (1.0 - h.part) * (double)row[1][h.low],
                                      v.part * h.part * (double)row[1][h.high]};
            for (int32_t c = 0; c < 4; c++) {
                sum += corner[c];
                most = fmax(most, corner[c]);
            }
        }
    }
    return max ? most : n > 1.0 ? sum / n : sum;
}

static qb_status eval_roi(qb_ctx *cx, const qb_node *node, const qb_tensor *in, qb_tensor *out) {
    const roi_attrs *attrs = node->attrs;
    QB_EVAL_IN_F32(eval_roi);
    const qb_shape *x = &in[0].desc.shape, *y = &out[0].desc.shape;
    const int64_t plane = x->dim[2] * x->dim[3], bins = y->dim[2] * y->dim[3];
    const bool max = is(attrs->mode, "max");
    float *to = out[0].data;
    for (int64_t r = 0; r < y->dim[0]; r++) {
        const float *roi = (const float *)in[1].data + r * 4;
        const side s[2] = {side_of(attrs, roi[1], roi[3], y->dim[2], x->dim[2]),
                           side_of(attrs, roi[0], roi[2], y->dim[3], x->dim[3])};
        int64_t sample;
        QB_TRY_WRAP(cx, qb_eval_index(cx, &in[2], r, x->dim[0], &sample), "batch_indices");
        for (int64_t c = 0; c < x->dim[1]; c++) {
            const float *from = (const float *)in[0].data + (sample * x->dim[1] + c) * plane;
            for (int64_t i = 0; i < bins; i++) {
                const int64_t bin[2] = {i / y->dim[3], i % y->dim[3]};
                *to++ = plane ? (float)pool_bin(from, s, bin, max) : 0.0f;
            }
        }
    }
    return QB_OK;
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
