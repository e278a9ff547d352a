/* Resize (and Upsample, rewritten to it on import). Interpolation is separable: the dimensions are
 * resized one after another, each output element a weighted sum of a few input elements. */
#include <math.h>

#include "ops_internal.h"

typedef struct resize_attrs {
    const char *mode, *transform, *nearest_mode, *policy;
    qb_ints axes;
    float cubic_coeff_a, extrapolation_value;
    int64_t antialias, exclude_outside;
} resize_attrs;

QB_ATTRS(resize_table, QB_A_INT(resize_attrs, antialias, "antialias", 0, 0, 1),
         QB_A_INTS(resize_attrs, axes, "axes", 0, 0),
         QB_A_STRING(resize_attrs, transform, "coordinate_transformation_mode", "half_pixel"),
         QB_A_FLOAT(resize_attrs, cubic_coeff_a, "cubic_coeff_a", -0.75f),
         QB_A_INT(resize_attrs, exclude_outside, "exclude_outside", 0, 0, 1),
         QB_A_FLOAT(resize_attrs, extrapolation_value, "extrapolation_value", 0.0f),
         QB_A_STRING(resize_attrs, policy, "keep_aspect_ratio_policy", "stretch"),
         QB_A_STRING(resize_attrs, mode, "mode", "nearest"),
         QB_A_STRING(resize_attrs, nearest_mode, "nearest_mode", "round_prefer_floor"));

typedef enum resize_mode { RESIZE_NEAREST, RESIZE_LINEAR, RESIZE_CUBIC } resize_mode;
typedef enum transform {
    HALF_PIXEL,
    HALF_PIXEL_SYMMETRIC,
    PYTORCH_HALF_PIXEL,
    ALIGN_CORNERS,
    ASYMMETRIC,
    CROP_AND_RESIZE
} transform;
typedef enum rounding { PREFER_FLOOR, PREFER_CEIL, FLOOR, CEIL } rounding;
typedef enum policy { STRETCH, NOT_LARGER, NOT_SMALLER } policy;

/* All attributes checked, and what happens along each dimension. */
typedef struct plan {
    resize_mode mode;
    transform transform;
    rounding rounding;
    policy policy;
    double scale[QB_MAX_RANK]; /* 1 where nothing is resized */
    int64_t size[QB_MAX_RANK]; /* of the output; may be unknown */
    double roi[2 * QB_MAX_RANK];
    bool resized[QB_MAX_RANK];
} plan;

/* Numbers of an input: known (n >= 0) or not there yet (n < 0). */
typedef struct numbers {
    int32_t n;
    double v[2 * QB_MAX_RANK];
} numbers;

static qb_status choose(qb_ctx *cx, const char *attribute, const char *given,
                        const char *const *names, int *out) {
    for (int i = 0; names[i]; i++)
        if (strcmp(given, names[i]) == 0) {
            *out = i;
            return QB_OK;
        }
    return qb_fail(cx, QB_STATUS_UNSUPPORTED, "attribute %s: '%s' is not supported", attribute,
                   given);
}

static qb_status plan_attrs(qb_ctx *cx, const resize_attrs *attrs, plan *p) {
    static const char *const modes[] = {"nearest", "linear", "cubic", NULL};
    static const char *const transforms[] = {"half_pixel",
                                             "half_pixel_symmetric",
                                             "pytorch_half_pixel",
                                             "align_corners",
                                             "asymmetric",
                                             "tf_crop_and_resize",
                                             NULL};
    static const char *const roundings[] = {"round_prefer_floor", "round_prefer_ceil", "floor",
                                            "ceil", NULL};
    static const char *const policies[] = {"stretch", "not_larger", "not_smaller", NULL};
    int mode = 0, transformation = 0, rounded = 0, policed = 0;
    QB_TRY(choose(cx, "mode", attrs->mode, modes, &mode));
    QB_TRY(choose(cx, "coordinate_transformation_mode", attrs->transform, transforms,
                  &transformation));
    QB_TRY(choose(cx, "nearest_mode", attrs->nearest_mode, roundings, &rounded));
    QB_TRY(choose(cx, "keep_aspect_ratio_policy", attrs->policy, policies, &policed));
    p->mode = (resize_mode)mode;
    p->transform = (transform)transformation;
    p->rounding = (rounding)rounded;
    p->policy = (policy)policed;
    return QB_OK;
}

/* Scales and output sizes of the dimensions in `axis` (n of them) from sizes. */
static qb_status plan_sizes(qb_ctx *cx, const numbers *sizes, const int32_t *axis,
                            const qb_shape *x, plan *p) {
    double common = p->policy == NOT_LARGER ? INFINITY : 0.0;
    for (int32_t i = 0; i < sizes->n; i++) {
        int64_t in = x->dim[axis[i]];
        if (sizes->v[i] < 0.0 || sizes->v[i] > 0x1p40 || (in == 0 && sizes->v[i] > 0.0))
            return qb_fail(cx, QB_STATUS_INVALID, "sizes: no size %g for dimension %d", sizes->v[i],
                           axis[i]);
        double scale = in > 0 ? sizes->v[i] / (double)in : 1.0;
        if (in < 0) common = NAN; /* not known yet */
        if (p->policy == NOT_LARGER ? scale < common : scale > common) common = scale;
        p->size[axis[i]] = (int64_t)sizes->v[i];
        p->scale[axis[i]] = scale;
    }
    if (p->policy == STRETCH) return QB_OK;
    for (int32_t i = 0; i < sizes->n; i++) { /* half up */
        p->scale[axis[i]] = common;
        double size = floor(common * (double)x->dim[axis[i]] + 0.5);
        p->size[axis[i]] = isnan(size) ? QB_DIM_UNKNOWN : (int64_t)size;
    }
    return QB_OK;
}

static qb_status plan_scales(qb_ctx *cx, const numbers *scales, const int32_t *axis,
                             const qb_shape *x, plan *p) {
    for (int32_t i = 0; i < scales->n; i++) {
        int64_t in = x->dim[axis[i]];
        if (!(scales->v[i] > 0.0) || scales->v[i] > 0x1p31)
            return qb_fail(cx, QB_STATUS_INVALID, "scales: expected more than 0, got %g",
                           scales->v[i]);
        p->scale[axis[i]] = scales->v[i];
        if (scales->v[i] == 1.0) continue;
        double size = floor((double)in * scales->v[i]);
        if (size > 0x1p40)
            return qb_fail(cx, QB_STATUS_INVALID, "scales: dimension %d becomes too large",
                           axis[i]);
        p->size[axis[i]] = in < 0 ? QB_DIM_UNKNOWN : (int64_t)size;
    }
    return QB_OK;
}

static qb_status make_plan(qb_ctx *cx, const resize_attrs *attrs, const qb_shape *x,
                           const numbers *roi, const numbers *scales, const numbers *sizes,
                           plan *p) {
    int32_t axis[QB_MAX_RANK], n = attrs->axes.n ? attrs->axes.n : x->rank;
    uint32_t mask;
    QB_TRY(plan_attrs(cx, attrs, p));
    QB_TRY(qb_axes_resolve(cx, attrs->axes.v, attrs->axes.n, x->rank, &mask));
    for (int32_t d = 0; d < x->rank; d++) {
        p->size[d] = x->dim[d], p->scale[d] = 1.0;
        p->roi[d] = 0.0, p->roi[x->rank + d] = 1.0;
        p->resized[d] = false;
    }
    for (int32_t i = 0; i < n; i++)
        axis[i] = attrs->axes.n ? (int32_t)((attrs->axes.v[i] + x->rank) % x->rank) : i;
    if (scales->n > 0 && sizes->n > 0)
        return qb_fail(cx, QB_STATUS_INVALID, "expected scales or sizes, got both");
    const numbers *given = sizes->n > 0 ? sizes : scales;
    if (given->n != n)
        return qb_fail(cx, QB_STATUS_INVALID, "%s: expected %d values, got %d",
                       given == sizes ? "sizes" : "scales", n, given->n);
    QB_TRY((given == sizes ? plan_sizes : plan_scales)(cx, given, axis, x, p));
    if (p->transform == CROP_AND_RESIZE) {
        if (roi->n != 2 * n)
            return qb_fail(cx, QB_STATUS_INVALID, "roi: expected %d values, got %d", 2 * n, roi->n);
        for (int32_t i = 0; i < roi->n; i++)
            if (!isfinite(roi->v[i]))
                return qb_fail(cx, QB_STATUS_INVALID, "roi: expected finite numbers, got %g",
                               roi->v[i]);
        for (int32_t i = 0; i < n; i++) {
            p->roi[axis[i]] = roi->v[i];
            p->roi[x->rank + axis[i]] = roi->v[n + i];
        }
    }
    for (int32_t d = 0; d < x->rank; d++)
        p->resized[d] = p->size[d] != x->dim[d] || p->scale[d] != 1.0 || p->roi[d] != 0.0 ||
                        p->roi[x->rank + d] != 1.0;
    return QB_OK;
}

static qb_status read_numbers(qb_ctx *cx, const char *what, qb_dtype dtype, const qb_shape *shape,
                              const void *data, numbers *out) {
    int64_t n = qb_shape_count(shape);
    if (shape->rank != 1 || n > 2 * QB_MAX_RANK)
        return qb_fail(cx, QB_STATUS_INVALID,
                       "%s: expected a list of at most %d, got rank %d and "
                       "%lld elements",
                       what, 2 * QB_MAX_RANK, shape->rank, (long long)n);
    out->n = (int32_t)n;
    for (int32_t i = 0; i < out->n; i++) out->v[i] = qb_number_get(dtype, data, i);
    return QB_OK;
}

static const char *const input_names[] = {"data", "roi", "scales", "sizes"};

static qb_status infer_resize(qb_ctx *cx, const qb_infer_args *args) {
    const resize_attrs *attrs = qb_infer_at(args)->attrs;
    const qb_value *x = qb_infer_in(args, 0);
    numbers list[4] = {{0}, {0}, {0}, {0}};
    bool known = x->shape.rank >= 0;
    plan p;
    QB_TRY(plan_attrs(cx, attrs, &p));
    for (int32_t i = 1; i < 4; i++) {
        const qb_value *v = qb_infer_in(args, i);
        if (!v || qb_infer_length(args, i) == 0) continue;
        if (i > 1 && v->dtype != (i == 3 ? QB_DTYPE_S64 : QB_DTYPE_F32) &&
            v->dtype != QB_DTYPE_NONE)
            return qb_fail(cx, QB_STATUS_INVALID, "%s: type %s is not supported", input_names[i],
                           qb_dtype_text(v->dtype));
        if (v->data)
            QB_TRY(read_numbers(cx, input_names[i], v->dtype, &v->shape, v->data, &list[i]));
        else if (i > 1 || p.transform == CROP_AND_RESIZE)
            known = false;
    }
    qb_shape out = x->shape;
    if (known) {
        QB_TRY(make_plan(cx, attrs, &x->shape, &list[1], &list[2], &list[3], &p));
        memcpy(out.dim, p.size, sizeof out.dim);
    } else if (out.rank >= 0) {
        out = qb_shape_unknown(out.rank);
    }
    return qb_infer_set(cx, args, 0, x->dtype, &out);
}

/* --- where an output element looks ------------------------------------------------------------ */

/* Position in the input of output element `at` along dimension d. */
static double position(const plan *p, const qb_shape *x, int32_t d, int64_t at) {
    double in = (double)x->dim[d], scale = p->scale[d], out = scale * in, i = (double)at;
    double start = p->roi[d], end = p->roi[x->rank + d];
    switch (p->transform) {
    case HALF_PIXEL: break;
    case HALF_PIXEL_SYMMETRIC: {
        double offset = in / 2.0 * (1.0 - (double)p->size[d] / out);
        return offset + (i + 0.5) / scale - 0.5;
    }
    case PYTORCH_HALF_PIXEL:
        if (p->size[d] <= 1) return 0.0;
        break;
    case ALIGN_CORNERS: return out == 1.0 ? 0.0 : i * (in - 1.0) / (out - 1.0);
    case ASYMMETRIC: return i / scale;
    case CROP_AND_RESIZE:
        if (out == 1.0) return start * (in - 1.0) + (end - start) * (in - 1.0) / 2.0;
        return start * (in - 1.0) + i * (end - start) * (in - 1.0) / (out - 1.0);
    }
    return (i + 0.5) / scale - 0.5;
}

static double cubic(double x, double a) {
    x = fabs(x);
    if (x <= 1.0) return ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0;
    return x < 2.0 ? ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a : 0.0;
}

static int64_t nearest(rounding how, double at) {
    double low = floor(at), rest = at - low;
    switch (how) {
    case PREFER_FLOOR: return (int64_t)low + (rest > 0.5);
    case PREFER_CEIL: return (int64_t)low + (rest >= 0.5);
    case FLOOR: return (int64_t)low;
    case CEIL: break;
    }
    return (int64_t)low + (rest > 0.0);
}

static int64_t clamp(int64_t v, int64_t n) { return v < 0 ? 0 : v >= n ? n - 1 : v; }

/* Input elements and weights of every output element along one dimension. */
typedef struct taps {
    int32_t n;      /* taps an output element */
    int64_t *index; /* [size * n]; -1 in the first: the extrapolation value */
    double *weight; /* [size * n]; NULL for nearest */
} taps;

static qb_status taps_count(qb_ctx *cx, const plan *p, const resize_attrs *attrs, int32_t d,
                            int32_t *n) {
    *n = 1;
    if (p->mode == RESIZE_NEAREST) return QB_OK;
    double reach = p->mode == RESIZE_LINEAR ? 1.0 : 2.0;
    double scale = attrs->antialias && p->scale[d] < 1.0 ? p->scale[d] : 1.0;
    double count = 2.0 - 2.0 * (floor(-reach / scale) + 1.0);
    if (count > 0x1p24)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "scale %g of dimension %d is too small", scale,
                       d);
    *n = (int32_t)count;
    return QB_OK;
}

static void weights_at(const plan *p, const resize_attrs *attrs, int32_t d, int64_t size, double at,
                       int32_t n, int64_t *index, double *weight) {
    double low = floor(at), sum = 0.0;
    double stretch = attrs->antialias && p->scale[d] < 1.0 ? p->scale[d] : 1.0;
    for (int32_t t = 0; t < n; t++) {
        int64_t k = (int64_t)low + 1 - n / 2 + t;
        double distance = ((double)k - at) * stretch;
        double w = p->mode == RESIZE_CUBIC ? cubic(distance, (double)attrs->cubic_coeff_a)
                   : fabs(distance) < 1.0  ? 1.0 - fabs(distance)
                                           : 0.0;
        if (attrs->exclude_outside && (k < 0 || k >= size)) w = 0.0;
        index[t] = clamp(k, size);
        weight[t] = w;
        sum += w;
    }
    for (int32_t t = 0; t < n && sum != 0.0; t++) weight[t] /= sum;
}

static void taps_release(taps *t) {
    qb_temp_give(t->index);
    qb_temp_give(t->weight);
    *t = (taps){0};
}

static qb_status taps_make(qb_ctx *cx, const plan *p, const resize_attrs *attrs, const qb_shape *x,
                           int32_t d, taps *out) {
    QB_RELEASED(taps_release) taps t = {0};
    QB_TRY(taps_count(cx, p, attrs, d, &t.n));
    size_t count = (size_t)p->size[d] * (size_t)t.n;
    t.index = qb_temp_take(cx, count, sizeof *t.index);
    if (p->mode != RESIZE_NEAREST) t.weight = qb_temp_take(cx, count, sizeof *t.weight);
    if (!t.index || (p->mode != RESIZE_NEAREST && !t.weight)) return QB_STATUS_NOMEM;
    for (int64_t i = 0; i < p->size[d]; i++) {
        int64_t *index = t.index + i * t.n;
        double at = p->resized[d] ? position(p, x, d, i) : (double)i;
        bool inside = at >= 0.0 && at <= (double)(x->dim[d] - 1);
        at = fmin(fmax(at, -0x1p40), 0x1p40); /* a converted int64_t either way */
        if (p->transform == CROP_AND_RESIZE && !inside)
            index[0] = -1;
        else if (p->mode == RESIZE_NEAREST)
            index[0] = clamp(nearest(p->rounding, at), x->dim[d]);
        else
            weights_at(p, attrs, d, x->dim[d], at, t.n, index, t.weight + i * t.n);
    }
    *out = QB_MOVE(t);
    return QB_OK;
}

static qb_status add_taps(qb_ctx *cx, const resize_attrs *attrs, const plan *p, const qb_shape *x,
                          int32_t d, float *weights) {
    const int64_t in = x->dim[d];
    QB_RELEASED(taps_release) taps t = {0};
    QB_TRY(taps_make(cx, p, attrs, x, d, &t));
    memset(weights, 0, (size_t)(p->size[d] * in) * sizeof *weights);
    for (int64_t i = 0; i < p->size[d]; i++)
        for (int32_t k = 0; k < t.n && t.index[i * t.n] >= 0; k++) {
            const int64_t at = i * t.n + k;
            weights[i * in + t.index[at]] += t.weight ? (float)t.weight[at] : 1.0f;
        }
    return QB_OK;
}

qb_status qb_node_resize_weights(qb_ctx *cx, const qb_graph *graph, const qb_node *node, int32_t d,
                                 float *weights, bool *known) {
    const resize_attrs *attrs = node->attrs;
    const qb_shape *x = &graph->values[node->in[0]].shape;
    numbers list[4] = {{0}, {0}, {0}, {0}};
    plan p;
    *known = qb_shape_known(x);
    for (int32_t i = 1; i < node->n_in && *known; i++) {
        const qb_value *v = node->in[i] < 0 ? NULL : &graph->values[node->in[i]];
        *known = !v || v->data || qb_shape_count(&v->shape) == 0;
        if (v && v->data)
            QB_TRY(read_numbers(cx, input_names[i], v->dtype, &v->shape, v->data, &list[i]));
    }
    if (!*known) return QB_OK;
    QB_TRY(make_plan(cx, attrs, x, &list[1], &list[2], &list[3], &p));
    *known = p.transform != CROP_AND_RESIZE || attrs->extrapolation_value == 0.0f;
    return *known && weights ? add_taps(cx, attrs, &p, x, d, weights) : QB_OK;
}

/* --- eval ------------------------------------------------------------------------------------- */

#define BLOCK 256 /* sums at a time */

static float one_weighted(const taps *t, int64_t i, const float *x, float outside) {
    const int64_t *index = t->index + i * t->n;
    const double *weight = t->weight + i * t->n;
    double sum = 0.0;
    if (index[0] < 0) return outside;
    for (int32_t j = 0; j < t->n; j++) sum += weight[j] * (double)x[index[j]];
    return (float)sum;
}

static void add_weighted(double *sum, double weight, const float *x, int64_t n) {
    for (int64_t m = 0; m < n; m++) sum[m] += weight * (double)x[m];
}

/* Resizes dimension d of `shape` from x to y, float. */
static void resize_dim(const float *x, float *y, const qb_shape *shape, int32_t d, int64_t size,
                       const taps *t, float outside) {
    const int64_t outer = qb_shape_span(shape, 0, d), in = shape->dim[d];
    const int64_t inner = qb_shape_span(shape, d + 1, shape->rank);
    for (int64_t o = 0; o < outer; o++)
        for (int64_t i = 0; i < size; i++) {
            const int64_t *index = t->index + i * t->n;
            const double *weight = t->weight + i * t->n;
            float *to = y + (o * size + i) * inner;
            if (inner == 1) {
                to[0] = one_weighted(t, i, x + o * in, outside);
                continue;
            }
            for (int64_t k = 0; k < inner; k += BLOCK) {
                const int64_t n = inner - k < BLOCK ? inner - k : BLOCK;
                double sum[BLOCK];
                for (int64_t m = 0; m < n; m++) sum[m] = index[0] < 0 ? (double)outside : 0.0;
                for (int32_t j = 0; j < t->n && index[0] >= 0; j++)
                    add_weighted(sum, weight[j], x + (o * in + index[j]) * inner + k, n);
                for (int64_t m = 0; m < n; m++) to[k + m] = (float)sum[m];
            }
        }
}

static qb_status eval_weighted(qb_ctx *cx, const resize_attrs *attrs, const plan *p,
                               const qb_tensor *in, qb_tensor *out) {
    qb_shape shape = in->desc.shape;
    const float *from = in->data;
    QB_RELEASED(qb_temp_give_at) float *owned = NULL;
    for (int32_t d = 0; d < shape.rank; d++) {
        if (!p->resized[d]) continue;
        qb_shape next = shape;
        next.dim[d] = p->size[d];
        QB_RELEASED(taps_release) taps t = {0};
        QB_TRY(taps_make(cx, p, attrs, &in->desc.shape, d, &t));
        float *to = QB_NEW(cx, qb_temp_take(cx, (size_t)qb_shape_count(&next), sizeof *to));
        resize_dim(from, to, &shape, d, p->size[d], &t, attrs->extrapolation_value);
        qb_temp_give(owned);
        from = owned = to;
        shape = next;
    }
    memcpy(out->data, from, (size_t)qb_shape_count(&shape) * sizeof(float));
    return QB_OK;
}

static qb_status eval_nearest(qb_ctx *cx, const resize_attrs *attrs, const plan *p,
                              const qb_tensor *in, qb_tensor *out) {
    const qb_shape *x = &in->desc.shape, *y = &out->desc.shape;
    qb_status status = QB_OK;
    taps t[QB_MAX_RANK] = {{0}};
    char outside[8] = {0};
    size_t size = qb_dtype_size(in->desc.dtype);
    int64_t stride[QB_MAX_RANK], index[QB_MAX_RANK] = {0}, count = qb_shape_count(y);
    int32_t last = y->rank - 1;
    for (int32_t d = 0; d < y->rank; d++) QB_GO(taps_make(cx, p, attrs, x, d, &t[d]));
    qb_number_put(in->desc.dtype, outside, 0, (double)attrs->extrapolation_value);
    qb_strides_of(x, stride);
    for (int64_t at = 0; at < count; at += y->dim[last]) {
        int64_t row = 0;
        for (int32_t d = 0; d < last && row >= 0; d++) {
            int64_t k = t[d].index[index[d]];
            row = k < 0 ? -1 : row + k * stride[d];
        }
        for (int64_t i = 0; i < y->dim[last]; i++) {
            int64_t k = t[last].index[i];
            const char *from =
                row < 0 || k < 0 ? outside : (const char *)in->data + (size_t)(row + k) * size;
            memcpy((char *)out->data + (size_t)(at + i) * size, from, size);
        }
        for (int32_t d = last - 1; d >= 0; d--) {
            if (++index[d] < y->dim[d]) break;
            index[d] = 0;
        }
    }
out:
    for (int32_t d = 0; d < QB_MAX_RANK; d++) taps_release(&t[d]);
    return status;
}

/* Integers, computed as floats; their fraction goes, and what is beyond the type. */
static qb_status eval_integers(qb_ctx *cx, const resize_attrs *attrs, const plan *p,
                               const qb_tensor *in, qb_tensor *out) {
    const int64_t n_in = qb_shape_count(&in->desc.shape), n = qb_shape_count(&out->desc.shape);
    const qb_dtype dtype = in->desc.dtype;
    const double low = dtype == QB_DTYPE_U8 ? 0.0 : dtype == QB_DTYPE_S8 ? -128.0 : -0x1p31;
    const double high = dtype == QB_DTYPE_U8 ? 255.0 : dtype == QB_DTYPE_S8 ? 127.0 : 0x1p31 - 1;
    QB_RELEASED(qb_temp_give_at) float *x = qb_temp_take(cx, (size_t)(n_in + n), sizeof *x);
    if (!x) return cx->code;
    if (dtype == QB_DTYPE_U8)
        for (int64_t i = 0; i < n_in; i++) x[i] = ((const uint8_t *)in->data)[i];
    else
        for (int64_t i = 0; i < n_in; i++) x[i] = (float)qb_number_get(dtype, in->data, i);
    const qb_tensor from = qb_tensor_of(QB_DTYPE_F32, in->desc.shape, x);
    qb_tensor to = qb_tensor_of(QB_DTYPE_F32, out->desc.shape, x + n_in);
    QB_TRY(eval_weighted(cx, attrs, p, &from, &to));
    const bool bytes = dtype == QB_DTYPE_U8;
    for (int64_t i = 0; i < n && bytes; i++) {
        const float v = x[n_in + i];
        ((uint8_t *)out->data)[i] = (uint8_t)(v < 0.0f ? 0.0f : v > 255.0f ? 255.0f : v);
    }
    for (int64_t i = 0; i < n && !bytes; i++)
        qb_number_put(dtype, out->data, i, fmin(fmax(trunc((double)x[n_in + i]), low), high));
    return QB_OK;
}

static qb_status eval_resize(qb_ctx *cx, const qb_node *node, const qb_tensor *in, qb_tensor *out) {
    const resize_attrs *attrs = node->attrs;
    numbers list[4] = {{0}, {0}, {0}, {0}};
    plan p;
    for (int32_t i = 1; i < 4; i++)
        if (qb_eval_has(node, in, i))
            QB_TRY(read_numbers(cx, input_names[i], in[i].desc.dtype, &in[i].desc.shape, in[i].data,
                                &list[i]));
    QB_TRY(make_plan(cx, attrs, &in[0].desc.shape, &list[1], &list[2], &list[3], &p));
    if (qb_shape_count(&out[0].desc.shape) == 0) return QB_OK;
    if (in[0].desc.shape.rank == 0) return qb_eval_same_bytes(cx, node, in, out);
    if (p.mode == RESIZE_NEAREST) return eval_nearest(cx, attrs, &p, &in[0], &out[0]);
    if (in[0].desc.dtype == QB_DTYPE_U8 || in[0].desc.dtype == QB_DTYPE_S8 ||
        in[0].desc.dtype == QB_DTYPE_S32)
        return eval_integers(cx, attrs, &p, &in[0], &out[0]);
    QB_EVAL_IN_F32(eval_resize);
    return eval_weighted(cx, attrs, &p, &in[0], &out[0]);
}

/* --- import ----------------------------------------------------------------------------------- */

/* Before opset 11: (X, scales), and output element i looks at floor(i / scale). */
static qb_status upgrade_resize(qb_ctx *cx, qb_graph *graph, int32_t node, int32_t version) {
    if (version >= 11) return QB_OK;
    resize_attrs *attrs = graph->nodes[node].attrs;
    if (graph->nodes[node].n_in != 2)
        return qb_fail(cx, QB_STATUS_INVALID, "expected 2 inputs in opset %d, got %d", version,
                       graph->nodes[node].n_in);
    attrs->transform = "asymmetric";
    attrs->nearest_mode = "floor";
    const int32_t *old = graph->nodes[node].in;
    int32_t in[3] = {old[0], -1, old[1]};
    return qb_node_inputs_set(cx, graph, node, in, 3);
}

QB_OP_SIMPLE(resize, "Resize", 10, 1, 4, 1, sizeof(resize_attrs), resize_table, FLOAT, infer_resize,
             eval_resize, .upgrade = upgrade_resize, .bound = qb_bound_none,
             .traits = QB_TRAIT_ITEMWISE, .kernel = {QB_KIND_RESIZE});

typedef struct upsample_attrs {
    const char *mode;
    qb_floats scales; /* before opset 9 */
} upsample_attrs;
QB_ATTRS(upsample_table, QB_A_STRING(upsample_attrs, mode, "mode", "nearest"),
         QB_A_OLD_FLOATS(upsample_attrs, scales, "scales"));

/* Opset 10 replaced Upsample by Resize. */
static qb_status upgrade_upsample(qb_ctx *cx, qb_graph *graph, int32_t node, int32_t version) {
    const upsample_attrs *old = graph->nodes[node].attrs;
    int32_t in[3] = {graph->nodes[node].in[0], -1, -1};
    (void)version;
    if (graph->nodes[node].n_in > 1) {
        in[2] = graph->nodes[node].in[1];
    } else {
        qb_shape shape = {.rank = 1, .dim = {old->scales.n}};
        QB_TRY(qb_node_const_floats(cx, graph, node, "scales", &shape, old->scales.v, &in[2]));
    }
    resize_attrs *attrs = QB_NEW(cx, qb_attrs_new(cx, graph->arena, &qb_op_resize, QB_GRAPH_OPSET));
    attrs->mode = strcmp(old->mode, "bilinear") == 0 ? "linear" : old->mode;
    attrs->transform = "asymmetric";
    attrs->nearest_mode = "floor";
    graph->nodes[node].attrs = attrs;
    graph->nodes[node].op = &qb_op_resize;
    return qb_node_inputs_set(cx, graph, node, in, 3);
}

static qb_status infer_upsample(qb_ctx *cx, const qb_infer_args *args) {
    (void)args;
    return qb_fail(cx, QB_STATUS_UNSUPPORTED, "Upsample ends with opset 9; use Resize");
}

static qb_status eval_upsample(qb_ctx *cx, const qb_node *node, const qb_tensor *in,
                               qb_tensor *out) {
    (void)in, (void)out;
    return qb_eval_refuse(cx, node, in[0].desc.dtype);
}

QB_OP_SIMPLE(upsample, "Upsample", 7, 1, 2, 1, sizeof(upsample_attrs), upsample_table, FLOAT,
             infer_upsample, eval_upsample, .upgrade = upgrade_upsample, .bound = qb_bound_none);
