/* Transposed convolution by a convolution, see kernels/subpixel.h, and a copy of its pixels. A
 * weight that is computed as well is spread and packed by each launch, in the workspace. */
#include <string.h>

#include "conv_internal.h"
#include "kernels/subpixel.h"

#define BYTES_PER_TASK 65536

typedef struct transpose {
    qb_kernel *conv;
    qb_subpixel to;
    bool computed;                   /* the constants come with each launch */
    int64_t images, size;            /* bytes of an element */
    int64_t channels, total, offset; /* of the result, in memory */
    int64_t conv_bytes;              /* of its result, before its workspace */
} transpose;

/* ---- the convolution ---- */

typedef struct lowered {
    qb_problem p;
    qb_desc in[3];
    float *scale; /* of the weight by channel */
    float *bias_scale;
} lowered;

static bool describe(const qb_problem *p, transpose *t) {
    *t = (transpose){.images = p->out.shape.dim[0], .size = (int64_t)qb_dtype_size(p->out.dtype)};
    t->channels = p->out.shape.dim[1];
    t->total = p->out.channel_total > 0 ? p->out.channel_total : t->channels;
    t->offset = p->out.channel_offset;
    return qb_subpixel_of(p, &t->to);
}

static void spread_scales(const qb_subpixel *s, const qb_problem *p, lowered *to) {
    const qb_desc *bias = &to->in[QB_IN_BIAS];
    const int32_t made = (int32_t)qb_subpixel_channels(s);
    const bool by_channel = to->in[QB_IN_WEIGHT].q.n > 1, biases = bias->q.n > 1;
    for (int32_t c = 0; c < made; c++) {
        int64_t in_group;
        const int64_t output = qb_subpixel_output(s, c, &in_group);
        if (by_channel) to->scale[c] = p->in[QB_IN_WEIGHT].q.scale[in_group];
        if (biases) to->bias_scale[c] = p->in[QB_IN_BIAS].q.scale[output];
    }
    if (by_channel) to->in[QB_IN_WEIGHT].q = (qb_qparams){QB_DTYPE_S8, 0, made, to->scale, NULL};
    if (biases) to->in[QB_IN_BIAS].q = (qb_qparams){bias->dtype, 0, made, to->bias_scale, NULL};
}

static qb_status lower(qb_ctx *cx, const qb_problem *p, const qb_subpixel *s, lowered *to) {
    const size_t made = (size_t)qb_subpixel_channels(s);
    *to = (lowered){0};
    qb_subpixel_conv(p, s, &to->p, to->in);
    QB_TRY_NEW(cx, to->scale = qb_alloc(cx, 2 * made, sizeof *to->scale));
    to->bias_scale = to->scale + made;
    spread_scales(s, p, to);
    return QB_OK;
}

static void lowered_release(lowered *to) { qb_free(to->scale); }

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

/* The convolution's constants: its weight, then its bias. */
static size_t spread_bytes(const transpose *t) {
    return qb_pad64(qb_desc_bytes(&t->conv->problem.in[QB_IN_WEIGHT])) +
           qb_pad64((size_t)qb_subpixel_channels(&t->to) * 4);
}

static qb_status pack_spread(qb_ctx *cx, qb_workers *workers, const qb_kernel *kernel,
                             const void *const *constants, char *spread, void *packed) {
    const transpose *t = kernel->state;
    const qb_desc *w = &t->conv->problem.in[QB_IN_WEIGHT];
    char *bias = spread + qb_pad64(qb_desc_bytes(w));
    const void *all[QB_MAX_INPUTS] = {[QB_IN_WEIGHT] = spread, [QB_IN_BIAS] = bias};
    memset(spread, (uint8_t)qb_cpu_zero(w), qb_desc_bytes(w));
    qb_subpixel_weight(&kernel->problem, &t->to, constants[QB_IN_WEIGHT], spread);
    if (qb_problem_has(&kernel->problem, QB_IN_BIAS))
        qb_subpixel_bias(&t->to, constants[QB_IN_BIAS], bias);
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
    const qb_subpixel *p = &t->to;
    const int64_t y = row % p->out[1], z = row / p->out[1] % p->out[0];
    const int64_t image = row / (p->out[0] * p->out[1]), s = p->stride[2];
    const int64_t at[2] = {z + p->pad[0], y + p->pad[1]}, bytes = p->per_group * t->size;
    const int64_t phase = (at[0] % p->stride[0] * p->stride[1] + at[1] % p->stride[1]) * s;
    const int64_t line = ((image * p->made[0] + at[0] / p->stride[0] - p->first[0]) * p->made[1] +
                          at[1] / p->stride[1] - p->first[1]) *
                         p->made[2];
    const bool whole = p->group == 1 && t->total == p->per_group;
    char *to = j->out + (row * p->out[2] * t->total + t->offset) * t->size;
    for (int64_t x = 0, n; x < p->out[2]; x += n, to += n * t->total * t->size) {
        const int64_t a = (x + p->pad[2]) % s, q = (x + p->pad[2]) / s - p->first[2];
        const char *from = j->made + ((line + q) * p->phases * p->group + phase + a) * bytes;
        n = whole ? qb_min64(s - a, p->out[2] - x) : 1;
        for (int64_t g = 0; g < p->group; g++)
            memcpy(to + g * bytes, from + g * p->phases * bytes, (size_t)(n * bytes));
    }
}

static void run_task(int64_t task, void *argument) {
    const job *j = argument;
    const int64_t *out = j->t->to.out, rows = j->t->images * out[0] * out[1];
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
    const int64_t *size = t->to.out, rows = t->images * size[0] * size[1];
    const int64_t row = size[2] * t->channels * t->size;
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
           describe(p, &t);
}

static bool are_constant(const qb_problem *p, const bool *constant) {
    return constant[QB_IN_WEIGHT] && (!qb_problem_has(p, QB_IN_BIAS) || constant[QB_IN_BIAS]);
}

static qb_status create(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *p,
                        const bool *constant, int threads, qb_kernel **out) {
    QB_RELEASED(qb_kernel_free_at) qb_kernel *kernel = NULL;
    QB_RELEASED(lowered_release) lowered to = {0};
    QB_TRY(qb_cpu_kernel_create(cx, tactic, p, sizeof(transpose), &kernel));
    transpose *t = kernel->state;
    kernel->destroy = destroy;
    describe(p, t);
    QB_TRY(lower(cx, p, &t->to, &to));
    QB_TRY(find_conv(cx, tactic, &to, qb_conv_known, threads, t));
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
    return QB_OK;
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
