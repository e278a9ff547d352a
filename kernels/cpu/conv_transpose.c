/* Transposed convolution by a convolution. With stride s, output pixels whose number (plus pads) is
 * a modulo s all see the same kernel elements, those that are a modulo s, and their neighbours of
 * the data in the same way: they are an output channel of a dense convolution over the data. So a
 * convolution with s times as many channels (for each axis) makes all pixels, and a copy puts them
 * where they belong. Elements that a pixel does not have are weights of zero; integer sums are the
 * same, and so is the end of the step, which the convolution does. A weight that is computed as
 * well is spread and packed by each launch, in the workspace. */
#include <string.h>

#include "conv_internal.h"

#define BYTES_PER_TASK 65536

typedef struct transpose {
    qb_kernel *conv;
    bool computed;                    /* the constants come with each launch */
    int64_t group, per_group, phases; /* outputs a group; channels of one output */
    int64_t first[QB_SPATIAL], stride[QB_SPATIAL], pad[QB_SPATIAL]; /* leading axes: 0, 1, 0 */
    int64_t made[QB_SPATIAL], out[QB_SPATIAL]; /* pixels of the convolution, of the result */
    int64_t images, size;                      /* bytes of an element */
    int64_t channels, total, offset;           /* of the result, in memory */
    int64_t conv_bytes;                        /* of its result, before its workspace */
} transpose;

/* ---- the convolution ---- */

typedef struct lowered {
    qb_problem p;
    qb_desc in[3];
    float *scale;       /* of the weight by channel */
    int32_t *bias_zero; /* zeros */
    float *bias_scale;
} lowered;

static int64_t channels_made(const transpose *t) { return t->group * t->per_group * t->phases; }

/* Geometry of axis d (of n); false where the result begins or ends inside of the data. */
static bool describe_axis(const qb_problem *p, int32_t d, transpose *t, qb_window *w) {
    const qb_window *from = &p->window;
    const int32_t at = QB_SPATIAL - from->n + d;
    const int64_t in = p->in[QB_IN_DATA].shape.dim[2 + d], stride = from->stride[d];
    const int64_t taps = (from->kernel[d] - 1) * from->dilation[d] / stride + 1;
    t->stride[at] = stride;
    t->pad[at] = from->pad_begin[d];
    t->out[at] = p->out.shape.dim[2 + d];
    if (t->pad[at] < 0 || in < 1 || t->out[at] < 1) return false;
    t->first[at] = t->pad[at] / stride;
    t->made[at] = (t->out[at] - 1 + t->pad[at]) / stride - t->first[at] + 1;
    w->kernel[d] = taps;
    w->stride[d] = w->dilation[d] = 1;
    w->pad_begin[d] = taps - 1 - t->first[at];
    w->pad_end[d] = t->made[at] - in - w->pad_begin[d] + taps - 1;
    t->phases *= stride;
    return w->pad_begin[d] >= 0 && w->pad_end[d] >= 0 && w->pad_begin[d] < taps &&
           w->pad_end[d] < taps && t->phases <= 4096;
}

static bool describe(const qb_problem *p, transpose *t, qb_window *w) {
    *t = (transpose){.group = p->group,
                     .per_group = p->in[QB_IN_WEIGHT].shape.dim[1],
                     .phases = 1,
                     .images = p->out.shape.dim[0],
                     .size = (int64_t)qb_dtype_size(p->out.dtype)};
    for (int32_t d = 0; d < QB_SPATIAL; d++) t->stride[d] = t->made[d] = t->out[d] = 1;
    *w = (qb_window){.n = p->window.n};
    for (int32_t d = 0; d < p->window.n; d++)
        if (!describe_axis(p, d, t, w)) return false;
    t->channels = p->out.shape.dim[1];
    t->total = p->out.channel_total > 0 ? p->out.channel_total : t->channels;
    t->offset = p->out.channel_offset;
    return t->group >= 1 && channels_made(t) <= INT32_MAX / 64;
}

/* The output that a channel of the convolution belongs to, and its number in the group. */
static int64_t output_of(const transpose *t, int64_t channel, int64_t *in_group) {
    const int64_t each = t->per_group * t->phases;
    *in_group = channel % each % t->per_group;
    return channel / each * t->per_group + *in_group;
}

static void spread_scales(const transpose *t, const qb_problem *p, lowered *to) {
    const qb_desc *bias = &to->in[QB_IN_BIAS];
    const bool by_channel = to->in[QB_IN_WEIGHT].q.n > 1, biases = bias->q.n > 1;
    for (int64_t c = 0; c < channels_made(t); c++) {
        int64_t in_group;
        const int64_t output = output_of(t, c, &in_group);
        if (by_channel) to->scale[c] = p->in[QB_IN_WEIGHT].q.scale[in_group];
        if (biases) to->bias_scale[c] = p->in[QB_IN_BIAS].q.scale[output];
    }
    if (by_channel)
        to->in[QB_IN_WEIGHT].q =
            (qb_qparams){QB_DTYPE_S8, 0, (int32_t)channels_made(t), to->scale, NULL};
    if (biases)
        to->in[QB_IN_BIAS].q =
            (qb_qparams){bias->dtype, 0, (int32_t)channels_made(t), to->bias_scale, NULL};
}

static qb_status lower(qb_ctx *cx, const qb_problem *p, const transpose *t, const qb_window *w,
                       lowered *to) {
    const int64_t made = channels_made(t);
    *to = (lowered){.p = *p};
    to->p.kind = QB_KIND_CONV;
    to->p.in = to->in;
    to->p.n_in = qb_problem_has(p, QB_IN_BIAS) ? 3 : 2;
    to->p.window = *w;
    for (int32_t i = 0; i < to->p.n_in; i++) to->in[i] = p->in[i];
    qb_desc *weight = &to->in[QB_IN_WEIGHT];
    weight->shape.dim[1] = p->in[QB_IN_WEIGHT].shape.dim[0] / p->group;
    weight->shape.dim[0] = made;
    for (int32_t d = 0; d < w->n; d++) weight->shape.dim[2 + d] = w->kernel[d];
    if (weight->q.n == 1) weight->q.axis = -1;
    if (to->p.n_in > QB_IN_BIAS) to->in[QB_IN_BIAS].shape = (qb_shape){1, {made}};
    to->p.out.shape.dim[1] = made;
    for (int32_t d = 0; d < w->n; d++) to->p.out.shape.dim[2 + d] = t->made[QB_SPATIAL - w->n + d];
    to->p.out.layout = QB_LAYOUT_NHWC;
    to->p.out.channel_offset = to->p.out.channel_total = 0;
    QB_TRY_NEW(cx, to->scale = qb_alloc(cx, 2 * (size_t)made, sizeof *to->scale));
    to->bias_scale = to->scale + made;
    spread_scales(t, p, to);
    return QB_OK;
}

/* The first convolution of the same backend that takes it; it has to leave channels last. */
static qb_status find_conv(qb_ctx *cx, const qb_tactic *tactic, const lowered *to,
                           const bool *constant, int threads, transpose *t) {
    for (const qb_tactic *const *c = qb_tactics(); *c && !t->conv; c++) {
        if ((*c)->kind != QB_KIND_CONV || strcmp((*c)->backend, tactic->backend) != 0 ||
            !qb_tactic_takes(*c, &to->p, constant))
            continue;
        const qb_status status = (*c)->create(cx, *c, &to->p, constant, threads, &t->conv);
        if (status != QB_OK && status != QB_STATUS_UNSUPPORTED) return status;
        if (status != QB_OK) t->conv = NULL;
        if (t->conv && t->conv->in_place_required) qb_kernel_free(QB_MOVE(t->conv));
    }
    if (t->conv) return QB_OK;
    return qb_fail(cx, QB_STATUS_UNSUPPORTED, "no convolution of backend %s", tactic->backend);
}

/* ---- constants ---- */

/* Element k of each axis of the kernel goes to phase k dilation % stride, tap (k dilation) / stride
 * from the end. */
static void place_of(const qb_window *w, const qb_window *made, int64_t k, int64_t *phase,
                     int64_t *tap) {
    int64_t before = 1;
    *phase = *tap = 0;
    for (int32_t d = 0; d < w->n; d++) before *= w->kernel[d];
    for (int32_t d = 0; d < w->n; d++) {
        before /= w->kernel[d];
        const int64_t at = k / before * w->dilation[d];
        k %= before;
        *phase = *phase * w->stride[d] + at % w->stride[d];
        *tap = *tap * made->kernel[d] + made->kernel[d] - 1 - at / w->stride[d];
    }
}

/* Element k of all channels' kernels; steps in elements of `size` bytes, 4 or 1. */
static void spread_element(const transpose *t, const char *from, int64_t elements, char *to,
                           int64_t taps, int64_t inputs, size_t size) {
    for (int64_t c = 0; c < t->group * inputs; c++) {
        const char *x = from + (size_t)(c * t->per_group * elements) * size;
        const int64_t first = c / inputs * t->phases * t->per_group * inputs + c % inputs;
        char *y = to + (size_t)(first * taps) * size;
        for (int64_t m = 0; m < t->per_group; m++) {
            const int64_t at = m * elements, there = m * inputs * taps;
            if (size == 4)
                memcpy(y + there * 4, x + at * 4, 4);
            else
                y[there] = x[at];
        }
    }
}

static void spread_weight(const qb_kernel *kernel, const char *from, char *to, size_t size) {
    const transpose *t = kernel->state;
    const qb_window *w = &kernel->problem.window, *made = &t->conv->problem.window;
    const int64_t inputs = kernel->problem.in[QB_IN_WEIGHT].shape.dim[0] / t->group;
    int64_t elements = 1, taps = 1, phase, tap;
    for (int32_t d = 0; d < w->n; d++) elements *= w->kernel[d], taps *= made->kernel[d];
    for (int64_t k = 0; k < elements; k++) {
        place_of(w, made, k, &phase, &tap);
        spread_element(t, from + (size_t)k * size, elements,
                       to + (size_t)(phase * t->per_group * inputs * taps + tap) * size, taps,
                       inputs, size);
    }
}

static void spread_bias(const transpose *t, const char *from, char *to) {
    for (int64_t c = 0; c < channels_made(t); c++) {
        int64_t in_group;
        memcpy(to + c * 4, from + output_of(t, c, &in_group) * 4, 4);
    }
}

/* The convolution's constants: its weight, then its bias. */
static size_t spread_bytes(const transpose *t) {
    return qb_pad64(qb_desc_bytes(&t->conv->problem.in[QB_IN_WEIGHT])) +
           qb_pad64((size_t)channels_made(t) * 4);
}

static qb_status pack_spread(qb_ctx *cx, qb_workers *workers, const qb_kernel *kernel,
                             const void *const *constants, char *spread, void *packed) {
    const transpose *t = kernel->state;
    const qb_desc *w = &t->conv->problem.in[QB_IN_WEIGHT];
    char *bias = spread + qb_pad64(qb_desc_bytes(w));
    const void *all[QB_MAX_INPUTS] = {[QB_IN_WEIGHT] = spread, [QB_IN_BIAS] = bias};
    memset(spread, (uint8_t)qb_cpu_zero(w), qb_desc_bytes(w));
    spread_weight(kernel, constants[QB_IN_WEIGHT], spread, qb_dtype_size(w->dtype));
    if (qb_problem_has(&kernel->problem, QB_IN_BIAS)) spread_bias(t, constants[QB_IN_BIAS], bias);
    if (t->computed) return qb_conv_pack_computed(cx, workers, t->conv, all, packed);
    return t->conv->pack ? t->conv->pack(cx, t->conv, all, packed) : QB_OK;
}

static qb_status pack(qb_ctx *cx, const qb_kernel *kernel, const void *const *constants,
                      void *packed) {
    QB_FREED char *spread = QB_NEW(cx, qb_alloc(cx, spread_bytes(kernel->state), 1));
    return pack_spread(cx, NULL, kernel, constants, spread, packed);
}

/* ---- running ---- */

typedef struct job {
    const transpose *t;
    const char *made;
    char *out;
    int64_t rows_a_task;
} job;

/* One row of the result; a run of neighbours of one pixel of the convolution at a time. */
static void one_row(const job *j, int64_t row) {
    const transpose *t = j->t;
    const int64_t y = row % t->out[1], z = row / t->out[1] % t->out[0];
    const int64_t image = row / (t->out[0] * t->out[1]), s = t->stride[2];
    const int64_t at[2] = {z + t->pad[0], y + t->pad[1]}, bytes = t->per_group * t->size;
    const int64_t phase = (at[0] % t->stride[0] * t->stride[1] + at[1] % t->stride[1]) * s;
    const int64_t line = ((image * t->made[0] + at[0] / t->stride[0] - t->first[0]) * t->made[1] +
                          at[1] / t->stride[1] - t->first[1]) *
                         t->made[2];
    const bool whole = t->group == 1 && t->total == t->per_group;
    char *to = j->out + (row * t->out[2] * t->total + t->offset) * t->size;
    for (int64_t x = 0, n; x < t->out[2]; x += n, to += n * t->total * t->size) {
        const int64_t a = (x + t->pad[2]) % s, q = (x + t->pad[2]) / s - t->first[2];
        const char *from = j->made + ((line + q) * t->phases * t->group + phase + a) * bytes;
        n = whole ? qb_min64(s - a, t->out[2] - x) : 1;
        for (int64_t g = 0; g < t->group; g++)
            memcpy(to + g * bytes, from + g * t->phases * bytes, (size_t)(n * bytes));
    }
}

static void run_task(int64_t task, void *argument) {
    const job *j = argument;
    const transpose *t = j->t;
    const int64_t rows = t->images * t->out[0] * t->out[1];
    const int64_t end = qb_min64((task + 1) * j->rows_a_task, rows);
    for (int64_t row = task * j->rows_a_task; row < end; row++) one_row(j, row);
}

static qb_status launch(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    const transpose *t = kernel->state;
    char *made = args->workspace;
    qb_launch conv = *args;
    conv.out = made;
    conv.workspace = t->conv->workspace_bytes ? made + t->conv_bytes : NULL;
    if (t->computed) {
        char *packed = made + kernel->workspace_bytes - qb_pad64(t->conv->packed_bytes);
        char *spread = packed - spread_bytes(t);
        QB_TRY(pack_spread(cx, args->workers, kernel, args->in, spread, packed));
        conv.packed = packed;
    }
    QB_TRY(t->conv->launch(cx, t->conv, &conv));
    job j = {t, made, args->out, 1};
    const int64_t row = t->out[2] * t->channels * t->size, rows = t->images * t->out[0] * t->out[1];
    j.rows_a_task = qb_max64(1, BYTES_PER_TASK / row);
    qb_workers_run(args->workers, qb_ceil64(rows, j.rows_a_task), run_task, &j);
    return QB_OK;
}

static void destroy(qb_kernel *kernel) {
    transpose *t = kernel->state;
    if (t) qb_kernel_free(t->conv);
    qb_free(t);
}

/* ---- the tactic ---- */

static bool supports(const qb_problem *p, const bool *constant) {
    transpose t;
    qb_window w;
    (void)constant;
    if (p->kind != QB_KIND_CONV_TRANSPOSE || qb_problem_has(p, QB_IN_RESIDUAL) || p->window.n < 1 ||
        p->window.n > QB_SPATIAL || !qb_conv_has_plain_constants(p))
        return false;
    if (!qb_cpu_is_nhwc(&p->in[QB_IN_DATA]) || !qb_cpu_is_nhwc(&p->out)) return false;
    if (p->in[QB_IN_DATA].dtype == QB_DTYPE_BF16 || p->out.dtype == QB_DTYPE_BF16) return false;
    const qb_qparams *q = &p->in[QB_IN_WEIGHT].q;
    for (int32_t i = 0; q->zero && q->n > 1 && i < q->n; i++) /* elements that are not there */
        if (q->zero[i] != 0) return false;
    return qb_shape_count(&p->out.shape) > 0 && qb_shape_count(&p->in[QB_IN_DATA].shape) > 0 &&
           describe(p, &t, &w);
}

static bool are_constant(const qb_problem *p, const bool *constant) {
    return constant[QB_IN_WEIGHT] && (!qb_problem_has(p, QB_IN_BIAS) || constant[QB_IN_BIAS]);
}

static qb_status create(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *p,
                        const bool *constant, int threads, qb_kernel **out) {
    qb_status status = QB_OK;
    qb_kernel *kernel = NULL;
    lowered to = {0};
    qb_window w;
    QB_TRY(qb_cpu_kernel_create(cx, tactic, p, sizeof(transpose), &kernel));
    transpose *t = kernel->state;
    kernel->destroy = destroy;
    describe(p, t, &w);
    QB_GO(lower(cx, p, t, &w, &to));
    to.in[QB_IN_DATA].layout = QB_LAYOUT_NHWC;
    QB_GO(find_conv(cx, tactic, &to, qb_conv_known, threads, t));
    t->computed = !are_constant(p, constant);
    kernel->in[QB_IN_DATA].layout = kernel->problem.out.layout = QB_LAYOUT_NHWC;
    t->conv_bytes = (int64_t)qb_pad64(qb_desc_bytes(&t->conv->problem.out) + QB_BUFFER_SLACK);
    kernel->workspace_bytes = (size_t)t->conv_bytes + t->conv->workspace_bytes;
    if (t->computed) {
        kernel->workspace_bytes =
            qb_pad64(kernel->workspace_bytes) + spread_bytes(t) + qb_pad64(t->conv->packed_bytes);
    } else {
        kernel->packed_bytes = t->conv->packed_bytes;
        kernel->packed_inputs = t->conv->packed_inputs;
        kernel->pack = pack;
    }
    kernel->launch = launch;
    *out = QB_MOVE(kernel);
out:
    qb_free(to.scale);
    qb_kernel_free(kernel);
    return status;
}

QB_TACTIC(cpu_conv_transpose, "cpu.conv_transpose.by_conv", "cpu", QB_KIND_CONV_TRANSPOSE,
          QB_WITHIN_1_LSB, supports, create);

#ifdef QB_HAVE_DNNL
static bool supports_constant(const qb_problem *p, const bool *constant) {
    return are_constant(p, constant) && supports(p, constant);
}

QB_TACTIC(dnnl_conv_transpose_by_conv, "dnnl.conv_transpose.by_conv", "dnnl",
          QB_KIND_CONV_TRANSPOSE, QB_WITHIN_1_LSB, supports_constant, create);
#endif
