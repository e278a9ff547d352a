/* Spectra: DFT, STFT and the windows HannWindow, HammingWindow and BlackmanWindow. Sums and angles
 * are in double. */
#include <math.h>

#include "base/vector_loop.h"
#include "ops_internal.h"

#define PI 3.14159265358979323846

/* Fails unless there is one number in `n` that is at least `low`. */
static qb_status expect_one(qb_ctx *cx, const char *what, int32_t n, int64_t v, int64_t low) {
    if (n == 1 && v >= low && v <= QB_ATTR_BIG) return QB_OK;
    if (n != 1) return qb_fail(cx, QB_STATUS_INVALID, "%s: expected one number, got %d", what, n);
    return qb_fail(cx, QB_STATUS_INVALID, "%s: expected %lld to %d, got %lld", what, (long long)low,
                   QB_ATTR_BIG, (long long)v);
}

/* The number in input i while inferring: QB_DIM_UNKNOWN when it is left out or not known. */
static qb_status infer_number(qb_ctx *cx, const qb_infer_args *args, int32_t i, const char *what,
                              int64_t low, int64_t *v) {
    int32_t n;
    *v = QB_DIM_UNKNOWN;
    QB_TRY(qb_infer_ints(cx, args, i, v, 1, &n));
    return n < 0 ? QB_OK : expect_one(cx, what, n, *v, low);
}

/* --- transforms ------------------------------------------------------------------------------ */

/* Numbers `step` elements apart, each with its imaginary part behind it when it has one. */
typedef struct series {
    float *data;
    int64_t n, step;
    bool is_complex;
} series;

/* Many of them: the first one, and how many elements the others lie behind it. */
typedef struct lines {
    series first;
    int64_t inner, outer_step, inner_step;
} lines;

static series line_of(const lines *of, int64_t i) {
    series line = of->first;
    line.data += i / of->inner * of->outer_step + i % of->inner * of->inner_step;
    return line;
}

/* Lines that are transformed together, and the doubles of one complex number of each: their real
 * parts, their imaginary parts. */
enum { LINES = 8, NUMBER = 2 * LINES };

/* y[k] = sum over j of x[j] w[j] exp(-2 pi i j k / n), n the length; `inverse` turns the sign and
 * divides by n. What x lacks is 0; where the spectrum of a real signal stops half-way it goes on as
 * its mirror image. */
typedef struct transform {
    int64_t length, n; /* n: complex numbers, half the length where pairs of reals are one */
    bool inverse, mirrored;
    double *cosine, *sine; /* of -2 pi k / length, or 2 pi k / length */
    double *x, *y, *part;  /* `length` numbers each: signal, spectrum, what is being put together */
} transform;

static qb_status transform_begin(qb_ctx *cx, int64_t length, bool is_complex, transform *t) {
    const size_t numbers = (size_t)length * NUMBER;
    t->length = length;
    t->n = is_complex || t->mirrored || length % 2 ? length : length / 2;
    QB_TRY_NEW(cx, t->x = qb_temp_take(cx, 3 * numbers + 2 * (size_t)length, sizeof *t->x));
    memset(t->x, 0, numbers * sizeof *t->x);
    t->y = t->x + numbers;
    t->part = t->y + numbers;
    t->cosine = t->part + numbers;
    t->sine = t->cosine + length;
    for (int64_t k = 0; k < length; k++) {
        const double angle = 2 * PI * (double)k / (double)length;
        t->cosine[k] = cos(angle);
        t->sine[k] = sin(angle) * (t->inverse ? 1 : -1);
    }
    return QB_OK;
}

static void load(const transform *t, series from, const float *window, double *x) {
    const bool pairs = t->n < t->length;
    for (int64_t j = 0; j < t->length; j++) {
        const bool there = j < from.n;
        const float *at = from.data + (there ? j * from.step : 0);
        const double w = !there ? 0.0 : window ? (double)window[j] : 1.0;
        double *to = pairs ? x + j / 2 * NUMBER + j % 2 * LINES : x + j * NUMBER;
        to[0] = there ? w * (double)at[0] : 0.0;
        if (!pairs) to[LINES] = there && from.is_complex ? w * (double)at[1] : 0.0;
    }
    for (int64_t j = t->n / 2 + 1; j < t->n && t->mirrored; j++) {
        x[j * NUMBER] = x[(t->n - j) * NUMBER];
        x[j * NUMBER + LINES] = -x[(t->n - j) * NUMBER + LINES];
    }
}

static void store(const transform *t, const double *y, series to) {
    const double scale = t->inverse ? 1.0 / (double)t->length : 1.0;
    for (int64_t k = 0; k < to.n; k++, y += NUMBER) {
        to.data[k * to.step] = (float)(y[0] * scale);
        if (to.is_complex) to.data[k * to.step + 1] = (float)(y[LINES] * scale);
    }
}

static int64_t smallest_factor(int64_t n) {
    for (int64_t f = 2; f * f <= n; f++)
        if (n % f == 0) return f;
    return n;
}

/* y = the sum of `count` numbers, `in` apart, times the roots 0, root, 2 root ... */
QB_LOOP(sum_up,
        (const transform *t, const double *x, int64_t count, int64_t in, int64_t root, double *y),
        (t, x, count, in, root, y)) {
    double sum[NUMBER] = {0};
    for (int64_t j = 0, at = 0; j < count; j++, x += in * NUMBER) {
        const double c = t->cosine[at], s = t->sine[at];
        for (int l = 0; l < LINES; l++) {
            sum[l] += x[l] * c - x[LINES + l] * s;
            sum[LINES + l] += x[l] * s + x[LINES + l] * c;
        }
        at = at + root < t->length ? at + root : at + root - t->length;
    }
    memcpy(y, sum, sizeof sum);
}

/* The same for two, of all numbers of a part, in place. */
QB_LOOP(put_halves_together, (const transform *t, double *y, int64_t m), (t, y, m)) {
    const int64_t root = t->length / (2 * m);
    for (int64_t k = 0; k < m; k++, y += NUMBER) {
        const double c = t->cosine[k * root], s = t->sine[k * root];
        double *other = y + m * NUMBER;
        for (int l = 0; l < LINES; l++) {
            const double re = other[l] * c - other[LINES + l] * s;
            const double im = other[l] * s + other[LINES + l] * c;
            other[l] = y[l] - re;
            other[LINES + l] = y[LINES + l] - im;
            y[l] += re;
            y[LINES + l] += im;
        }
    }
}

/* The spectrum of `count` numbers of the signal, from `first` and n / count apart: those of f times
 * fewer numbers, f times, are put together, f being the count's smallest factor (Cooley, Tukey). */
static void transform_part(const transform *t, int64_t first, int64_t count, double *y) {
    const int64_t f = smallest_factor(count), m = count / f, step = t->n / count;
    const int64_t root = t->length / count;
    if (m <= 1) { /* one number, or a prime */
        for (int64_t k = 0; k < count; k++)
            sum_up(t, t->x + first * NUMBER, count, step, k * root, y + k * NUMBER);
        return;
    }
    for (int64_t i = 0; i < f; i++) transform_part(t, first + i * step, m, y + i * m * NUMBER);
    if (f == 2) {
        put_halves_together(t, y, m);
        return;
    }
    memcpy(t->part, y, (size_t)(count * NUMBER) * sizeof *y);
    for (int64_t k = 0; k < count; k++)
        sum_up(t, t->part + k % m * NUMBER, f, m, k * root, y + k * NUMBER);
}

/* The spectrum of reals from that of their pairs: those of the even and of the odd ones are its
 * symmetric and its antisymmetric part. */
QB_LOOP(part_pairs, (const transform *t, const double *pairs, double *y), (t, pairs, y)) {
    for (int64_t k = 0; k <= t->n; k++) {
        const double *a = pairs + k % t->n * NUMBER, *b = pairs + (t->n - k) % t->n * NUMBER;
        double *to = y + k * NUMBER, *mirror = y + (t->length - k) % t->length * NUMBER;
        const double c = t->cosine[k], s = t->sine[k];
        for (int l = 0; l < LINES; l++) {
            const double odd = 0.5 * (a[LINES + l] + b[LINES + l]), odd_i = 0.5 * (b[l] - a[l]);
            const double re = 0.5 * (a[l] + b[l]) + (odd * c - odd_i * s);
            const double im = 0.5 * (a[LINES + l] - b[LINES + l]) + (odd * s + odd_i * c);
            mirror[l] = re;
            mirror[LINES + l] = -im;
            to[l] = re;
            to[LINES + l] = im;
        }
    }
}

static qb_status transform_lines(qb_ctx *cx, transform *t, int64_t length, int64_t n,
                                 const lines *from, const float *window, const lines *to) {
    QB_TRY(transform_begin(cx, length, from->first.is_complex, t));
    const bool pairs = t->n < length;
    for (int64_t i = 0; i < n; i += LINES) {
        const int64_t some = n - i < LINES ? n - i : LINES;
        for (int64_t l = 0; l < some; l++) load(t, line_of(from, i + l), window, t->x + l);
        transform_part(t, 0, t->n, t->y);
        if (pairs) part_pairs(t, t->y, t->part);
        const double *y = pairs ? t->part : t->y;
        for (int64_t l = 0; l < some; l++) store(t, y + l, line_of(to, i + l));
    }
    qb_temp_give(t->x);
    return QB_OK;
}

/* --- DFT ------------------------------------------------------------------------------------- */

typedef struct dft_attrs {
    int64_t inverse, onesided, axis;
} dft_attrs;
QB_ATTRS(dft_table, QB_A_INT(dft_attrs, inverse, "inverse", 0, 0, 1),
         QB_A_INT(dft_attrs, onesided, "onesided", 0, 0, 1),
         QB_A_OLD_INT(dft_attrs, axis, "axis", 1));

/* Length of the transform when none is given. */
static int64_t default_length(const dft_attrs *attrs, int64_t n) {
    if (!attrs->inverse || !attrs->onesided) return n;
    return n < 0 ? QB_DIM_UNKNOWN : n > 0 ? 2 * (n - 1) : 0;
}

static int64_t bins_of(bool onesided, int64_t length) {
    if (!onesided) return length;
    return length < 0 ? QB_DIM_UNKNOWN : length / 2 + 1;
}

static qb_status infer_dft(qb_ctx *cx, const qb_infer_args *args) {
    const dft_attrs *attrs = qb_infer_at(args)->attrs;
    const qb_value *x = qb_infer_in(args, 0);
    const bool back_to_float = attrs->inverse && attrs->onesided;
    int64_t length, given = -2;
    int32_t n = 1, axis;
    QB_TRY(qb_infer_rank(cx, args, 0, 2, QB_MAX_RANK));
    QB_TRY(infer_number(cx, args, 1, "dft_length", 1, &length));
    if (qb_infer_in(args, 2)) QB_TRY(qb_infer_ints(cx, args, 2, &given, 1, &n));
    qb_shape out = x->shape;
    if (out.rank < 0) return qb_infer_set(cx, args, 0, x->dtype, &out);
    const int64_t parts = out.dim[out.rank - 1];
    if (parts >= 0 && parts != 2 && (parts != 1 || back_to_float))
        return qb_fail(cx, QB_STATUS_INVALID, "last dimension: expected %s, got %lld",
                       back_to_float ? "2" : "1 or 2", (long long)parts);
    if (parts == 2 && attrs->onesided && !attrs->inverse)
        return qb_fail(cx, QB_STATUS_INVALID, "onesided: expected a real signal");
    if (n == 1) {
        QB_TRY(qb_axis_resolve(cx, given, out.rank, &axis));
        if (axis == out.rank - 1)
            return qb_fail(cx, QB_STATUS_INVALID, "axis: expected any but the last dimension");
        if (!qb_infer_in(args, 1)) length = default_length(attrs, out.dim[axis]);
        out.dim[axis] = bins_of(attrs->onesided && !attrs->inverse, length);
    } else {
        out = qb_shape_unknown(out.rank);
    }
    out.dim[out.rank - 1] = back_to_float ? 1 : 2;
    return qb_infer_set(cx, args, 0, x->dtype, &out);
}

static qb_status eval_dft(qb_ctx *cx, const qb_node *node, const qb_tensor *in, qb_tensor *out) {
    const dft_attrs *attrs = node->attrs;
    QB_EVAL_IN_F32(eval_dft);
    const qb_shape *x = &in[0].desc.shape, *y = &out[0].desc.shape;
    int64_t length, given = -2;
    int32_t n = 1, axis;
    if (qb_eval_has(node, in, 2)) QB_TRY(qb_eval_ints(cx, &in[2], &given, 1, &n));
    QB_TRY(expect_one(cx, "axis", n, given, -x->rank));
    QB_TRY(qb_axis_resolve(cx, given, x->rank, &axis));
    length = default_length(attrs, x->dim[axis]);
    if (qb_eval_has(node, in, 1)) QB_TRY(qb_eval_ints(cx, &in[1], &length, 1, &n));
    if (qb_shape_count(y) == 0) return QB_OK;
    QB_TRY(expect_one(cx, "dft_length", n, length, 1));
    const int64_t inner = qb_shape_span(x, axis + 1, x->rank - 1);
    const int64_t parts_x = x->dim[x->rank - 1], parts_y = y->dim[y->rank - 1];
    const int64_t n_x = x->dim[axis], n_y = y->dim[axis];
    const lines from = {{(float *)in[0].data, n_x, inner * parts_x, parts_x == 2},
                        inner,
                        n_x * inner * parts_x,
                        parts_x};
    const lines to = {{(float *)out[0].data, n_y, inner * parts_y, parts_y == 2},
                      inner,
                      n_y * inner * parts_y,
                      parts_y};
    transform t = {.inverse = attrs->inverse != 0, .mirrored = attrs->inverse && attrs->onesided};
    return transform_lines(cx, &t, length, qb_shape_count(y) / parts_y / n_y, &from, NULL, &to);
}

/* Before opset 20 the axis was an attribute. */
static qb_status upgrade_dft(qb_ctx *cx, qb_graph *graph, int32_t node, int32_t version) {
    dft_attrs *attrs = graph->nodes[node].attrs;
    int32_t id;
    if (version >= 20) return QB_OK;
    const qb_shape scalar = {.rank = 0};
    QB_TRY(qb_node_const_ints(cx, graph, node, "axis", &attrs->axis, 1, &id));
    graph->values[id].shape = scalar;
    attrs->axis = 1;
    return qb_node_input_set(cx, graph, node, 2, id);
}

QB_OP_SIMPLE(dft, "DFT", 17, 1, 3, 1, sizeof(dft_attrs), dft_table, FLOAT, infer_dft, eval_dft,
             .upgrade = upgrade_dft, .types = QB_TYPES_FLOATS, .traits = QB_TRAIT_WINDOW);

/* --- STFT ------------------------------------------------------------------------------------ */

QB_ATTRS(stft_table, QB_A_INT(dft_attrs, onesided, "onesided", 1, 0, 1));

static qb_status infer_stft(qb_ctx *cx, const qb_infer_args *args) {
    const dft_attrs *attrs = qb_infer_at(args)->attrs;
    const qb_value *x = qb_infer_in(args, 0);
    qb_shape out = qb_shape_unknown(4);
    int64_t step, length;
    QB_TRY(qb_infer_rank(cx, args, 0, 2, 3));
    QB_TRY(qb_infer_rank(cx, args, 2, 1, 1));
    QB_TRY(qb_infer_same_type(cx, args, 2));
    QB_TRY(infer_number(cx, args, 1, "frame_step", 1, &step));
    QB_TRY(infer_number(cx, args, 3, "frame_length", 1, &length));
    const int64_t window = qb_infer_length(args, 2);
    if (window >= 0 && length >= 0 && window != length)
        return qb_fail(cx, QB_STATUS_INVALID, "window: expected frame_length %lld, got %lld",
                       (long long)length, (long long)window);
    out.dim[3] = 2;
    if (x->shape.rank < 0) return qb_infer_set(cx, args, 0, x->dtype, &out);
    const int64_t parts = x->shape.rank == 3 ? x->shape.dim[2] : 1, n = x->shape.dim[1];
    if (parts >= 0 && (parts < 1 || parts > (attrs->onesided ? 1 : 2)))
        return qb_fail(cx, QB_STATUS_INVALID, "last dimension: expected %s, got %lld",
                       attrs->onesided ? "1 (onesided)" : "1 or 2", (long long)parts);
    if (length < 0 && !qb_infer_in(args, 3)) length = qb_infer_in(args, 2) ? window : n;
    out.dim[0] = x->shape.dim[0];
    out.dim[2] = bins_of(attrs->onesided != 0, length);
    if (length >= 0 && n >= 0 && (length < 1 || length > n))
        return qb_fail(cx, QB_STATUS_INVALID, "frame_length: expected 1 to %lld, got %lld",
                       (long long)n, (long long)length);
    if (length >= 0 && n >= 0 && step >= 0) out.dim[1] = (n - length) / step + 1;
    return qb_infer_set(cx, args, 0, x->dtype, &out);
}

static qb_status eval_stft(qb_ctx *cx, const qb_node *node, const qb_tensor *in, qb_tensor *out) {
    QB_EVAL_IN_F32(eval_stft);
    const qb_shape *x = &in[0].desc.shape, *y = &out[0].desc.shape;
    const bool has_window = qb_eval_has(node, in, 2);
    const int64_t parts = x->rank == 3 ? x->dim[2] : 1, n = x->dim[1];
    int64_t step, length = has_window ? qb_shape_count(&in[2].desc.shape) : n;
    int32_t count;
    QB_TRY(qb_eval_ints(cx, &in[1], &step, 1, &count));
    QB_TRY(expect_one(cx, "frame_step", count, step, 1));
    if (qb_eval_has(node, in, 3)) QB_TRY(qb_eval_ints(cx, &in[3], &length, 1, &count));
    if (qb_shape_count(y) == 0) return QB_OK;
    QB_TRY(expect_one(cx, "frame_length", count, length, 1));
    const lines from = {
        {(float *)in[0].data, length, parts, parts == 2}, y->dim[1], n * parts, step * parts};
    const int64_t each = y->dim[2] * 2;
    const lines to = {
        {(float *)out[0].data, y->dim[2], 2, true}, y->dim[1], y->dim[1] * each, each};
    transform t = {0};
    return transform_lines(cx, &t, length, y->dim[0] * y->dim[1], &from,
                           has_window ? in[2].data : NULL, &to);
}

QB_OP_SIMPLE(stft, "STFT", 17, 2, 4, 1, sizeof(dft_attrs), stft_table, FLOAT, infer_stft, eval_stft,
             .types = QB_TYPES_FLOATS, .traits = QB_TRAIT_WINDOW);

/* --- windows --------------------------------------------------------------------------------- */

typedef struct window_attrs {
    int64_t output_datatype, periodic;
} window_attrs;
QB_ATTRS(window_table, QB_A_INT(window_attrs, output_datatype, "output_datatype", 1, 0, 63),
         QB_A_INT(window_attrs, periodic, "periodic", 1, 0, 1));

static qb_status output_type(qb_ctx *cx, int64_t code, qb_dtype *dtype) {
    *dtype = qb_dtype_from_onnx((int)code);
    if (*dtype != QB_DTYPE_NONE) return QB_OK;
    return qb_fail(cx, QB_STATUS_UNSUPPORTED,
                   "attribute output_datatype: type %lld is not supported", (long long)code);
}

static qb_status infer_window(qb_ctx *cx, const qb_infer_args *args) {
    const window_attrs *attrs = qb_infer_at(args)->attrs;
    qb_shape out = qb_shape_unknown(1);
    qb_dtype dtype;
    QB_TRY(output_type(cx, attrs->output_datatype, &dtype));
    QB_TRY(infer_number(cx, args, 0, "size", 0, &out.dim[0]));
    return qb_infer_set(cx, args, 0, dtype, &out);
}

/* sum over i of c[i] cos(2 pi i k / n), n the size or, unless periodic, one less */
static qb_status eval_window(const qb_node *node, const double c[3], qb_tensor *out) {
    const window_attrs *attrs = node->attrs;
    const int64_t size = qb_shape_count(&out[0].desc.shape);
    const double n = (double)(attrs->periodic ? size : size - 1);
    for (int64_t k = 0; k < size; k++) {
        const double angle = 2 * PI * (double)k / n;
        qb_number_put(out[0].desc.dtype, out[0].data, k,
                      c[0] + c[1] * cos(angle) + c[2] * cos(2 * angle));
    }
    return QB_OK;
}

#define WINDOW(SYMBOL, NAME, ...)                                                                  \
    static qb_status eval_##SYMBOL(qb_ctx *cx, const qb_node *node, const qb_tensor *in,           \
                                   qb_tensor *out) {                                               \
        static const double c[3] = {__VA_ARGS__};                                                  \
        (void)cx, (void)in;                                                                        \
        return eval_window(node, c, out);                                                          \
    }                                                                                              \
    QB_OP_SIMPLE(SYMBOL, NAME, 17, 1, 1, 1, sizeof(window_attrs), window_table, FLOAT,             \
                 infer_window, eval_##SYMBOL, .types = QB_TYPES_NUMBERS)
WINDOW(hann_window, "HannWindow", 0.5, -0.5);
WINDOW(hamming_window, "HammingWindow", 25.0 / 46.0, -21.0 / 46.0);
WINDOW(blackman_window, "BlackmanWindow", 0.42, -0.5, 0.08);
