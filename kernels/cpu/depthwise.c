/* Planning and running depthwise convolutions; the loops are in depthwise_*.c. */
#include "depthwise_internal.h"

#include <string.h>

#include "base/vector_loop.h"

#define MOST_LANES 64  /* of a block */
#define MOST_REPEATS 8 /* outputs of an input channel */
#define MOST_FOLDED 16
#define FOLDED_APART 25 /* fewest taps that columns are copied one by one for */
#define FEW_PIXELS 128  /* their rows cannot be shared out evenly */

/* One input channel a group, or so few, and as many outputs, that a vector has several groups. */
static bool takes_groups(const qb_problem *p, const qb_dw_arch *arch, int64_t taps) {
    const int64_t in = p->in[QB_IN_DATA].shape.dim[1], out = p->out.shape.dim[1];
    const int64_t inputs = in / p->group;
    if (inputs == 1) return out % p->group == 0 && out <= p->group * MOST_REPEATS;
    return in == out && inputs <= arch->most_inputs && (inputs & (inputs - 1)) == 0 &&
           taps <= QB_DW_FEW_TAPS;
}

bool qb_dw_supports(const qb_problem *p, const bool *constant, const qb_dw_arch *arch) {
    const bool integer = arch->integer;
    const qb_desc *x = &p->in[QB_IN_DATA], *w = &p->in[QB_IN_WEIGHT], *bias = &p->in[QB_IN_BIAS];
    const qb_desc *r = &p->in[QB_IN_RESIDUAL];
    if (p->window.n < 1 || p->window.n > QB_SPATIAL || p->group < 2) return false;
    if (!constant[QB_IN_WEIGHT] || !qb_epilogue_supports(p)) return false;
    if (!qb_cpu_is_nhwc(x) || !qb_cpu_is_nhwc(&p->out)) return false;
    if (qb_problem_has(p, QB_IN_RESIDUAL) && !qb_cpu_is_nhwc(r)) return false;
    if (integer ? !qb_cpu_is_quantized(x) || !qb_cpu_is_weight(w, 0, arch->wide_weights)
                : !qb_cpu_is_f32(x) || !qb_cpu_is_f32(w))
        return false;
    if (qb_problem_has(p, QB_IN_BIAS) &&
        (!constant[QB_IN_BIAS] ||
         !(qb_cpu_is_f32(bias) || (integer && bias->dtype == QB_DTYPE_S32))))
        return false;
    int64_t taps = 1;
    for (int32_t d = 0; d < p->window.n && taps <= QB_DW_TAPS; d++) {
        if (p->window.kernel[d] > QB_DW_TAPS) return false;
        taps *= p->window.kernel[d];
    }
    return taps <= QB_DW_TAPS && takes_groups(p, arch, taps) && qb_shape_count(&p->out.shape) > 0 &&
           qb_shape_count(&x->shape) > 0;
}

static void describe(qb_dw *dw, const qb_problem *p) {
    const qb_desc *x = &p->in[QB_IN_DATA], *y = &p->out;
    const qb_window window = qb_cpu_window(&p->window);
    for (int32_t d = 0; d < QB_SPATIAL; d++) {
        dw->kernel[d] = window.kernel[d];
        dw->stride[d] = window.stride[d];
        dw->dilation[d] = window.dilation[d];
        dw->pad[d] = window.pad_begin[d];
    }
    dw->images = x->shape.dim[0];
    dw->channels = y->shape.dim[1];
    dw->repeats = dw->channels / x->shape.dim[1];
    qb_cpu_spatial(&x->shape, dw->in);
    qb_cpu_spatial(&y->shape, dw->out);
    dw->element = qb_dtype_size(x->dtype);
    int64_t out_size = (int64_t)qb_dtype_size(y->dtype);
    dw->data_stride = qb_cpu_channels(x) * (int64_t)dw->element;
    dw->data_offset = x->channel_offset * (int64_t)dw->element;
    dw->in_stride = dw->repeats > 1 ? dw->channels * (int64_t)dw->element : dw->data_stride;
    dw->out_stride = qb_cpu_channels(y) * out_size;
    dw->out_offset = y->channel_offset * out_size;
    if (!qb_problem_has(p, QB_IN_RESIDUAL)) return;
    const qb_desc *r = &p->in[QB_IN_RESIDUAL];
    int64_t size = (int64_t)qb_dtype_size(r->dtype);
    dw->residual_stride = qb_cpu_channels(r) * size;
    dw->residual_offset = r->channel_offset * size;
}

/* ---- pixels side by side instead of channels ---- */

/* How long a pixel takes, in blocks. Loops that read a column once for several outputs take less,
 * of floats a quarter: the measured mean of windows from 3 x 3 to 7 x 7. */
static double cost_of(const qb_dw *dw, int64_t fold) {
    const double blocks = (double)qb_ceil64(fold * dw->channels, dw->arch->lanes[0]);
    const bool shares = fold == 1 && (qb_dw_is_3x3(dw) || qb_dw_slides(dw));
    return blocks / (double)fold / (!shares ? 1 : dw->integer ? 1.5 : 4);
}

/* What windows reach of dimension d, padding and all. */
static int64_t reach_of(const qb_dw *dw, int d) {
    return (dw->out[d] - 1) * dw->stride[d] + (dw->kernel[d] - 1) * dw->dilation[d] + 1;
}

/* Is the copy not much more than the data? */
static bool is_mostly_data(const qb_dw *dw) {
    for (int d = 0; d < QB_SPATIAL; d++)
        if (reach_of(dw, d) > 2 * dw->in[d] + 32) return false;
    return true;
}

/* Only where results lie side by side; the copy is worth a fifth. */
static int64_t best_fold(const qb_dw *dw, const qb_problem *p) {
    const int64_t out_size = (int64_t)qb_dtype_size(p->out.dtype);
    const int64_t residual_size = (int64_t)qb_dtype_size(dw->epilogue.residual);
    int64_t best = 1;
    const bool apart = dw->stride[2] > 1; /* columns are copied one by one */
    if (dw->repeats > 1 || dw->taps > QB_DW_FEW_TAPS || (apart && dw->taps < FOLDED_APART) ||
        dw->out_stride != dw->channels * out_size ||
        dw->residual_stride != dw->channels * residual_size || !is_mostly_data(dw))
        return 1;
    for (int64_t n = 2; n <= MOST_FOLDED; n++)
        if (dw->out[2] % n == 0 && cost_of(dw, n) < 0.8 * cost_of(dw, best)) best = n;
    return best;
}

static qb_status fold_pixels(qb_ctx *cx, qb_dw *dw, int64_t n) {
    dw->fold = n;
    dw->own_channels = dw->channels;
    if (n == 1) return QB_OK;
    const int64_t step = dw->stride[2];
    QB_TRY_NEW(cx, dw->tap = qb_alloc(cx, (size_t)dw->taps, sizeof *dw->tap));
    dw->in_stride = dw->channels * (int64_t)dw->element;
    for (int d = 0; d < QB_SPATIAL; d++) {
        dw->source[d] = dw->in[d];
        dw->padding[d] = dw->pad[d];
        dw->in[d] = reach_of(dw, d);
        dw->pad[d] = 0;
    }
    dw->part = qb_ceil64(dw->in[2], step);
    dw->in[2] = dw->part * step;
    for (int64_t t = 0; t < dw->taps; t++) {
        const int64_t x = t % dw->kernel[2] * dw->dilation[2], row = t / dw->kernel[2];
        const int64_t y = row % dw->kernel[1] * dw->dilation[1];
        const int64_t z = row / dw->kernel[1] * dw->dilation[0];
        dw->tap[t] =
            ((z * dw->in[1] + y) * dw->in[2] + x % step * dw->part + x / step) * dw->in_stride;
    }
    dw->shift = n * dw->in_stride;
    dw->out[2] /= n;
    dw->channels *= n;
    dw->out_stride *= n;
    dw->residual_stride *= n;
    return QB_OK;
}

/* ---- the plan ---- */

/* The narrowest block that has the rest, or the widest: two narrow ones take as long as one of
 * twice their width. */
static int block_lanes(const qb_dw_arch *arch, int64_t left) {
    int lanes = arch->lanes[0];
    for (int i = 1; i < 3 && arch->lanes[i] > 0 && left <= arch->lanes[i]; i++)
        lanes = arch->lanes[i];
    return lanes;
}

static int32_t cut_blocks(qb_dw *dw, qb_dw_block *blocks) {
    int32_t n = 0;
    for (int64_t c = 0; c < dw->channels; n++) {
        int lanes = block_lanes(dw->arch, dw->channels - c);
        int width = (int)qb_min64(lanes, dw->channels - c);
        if (blocks) {
            size_t weights = (size_t)(dw->groups * lanes * dw->arch->group_bytes);
            blocks[n] = (qb_dw_block){.channel = c,
                                      .width = width,
                                      .lanes = lanes,
                                      .weight = dw->packed_bytes,
                                      .start = dw->packed_bytes + weights};
            dw->packed_bytes += weights + 3 * (size_t)lanes * 4;
        }
        c += width;
    }
    return n;
}

static int64_t rows_of(const qb_dw *dw) { return dw->images * dw->out[0] * dw->out[1]; }

/* By rows; where there are few pixels by channels, as the convolutions around do. */
static void choose_tasks(qb_dw *dw) {
    int64_t rows = rows_of(dw);
    int64_t work = rows * dw->out[2] * dw->channels * dw->weights;
    int64_t wanted = qb_min64(8 * dw->threads, qb_ceil64(work, 32768));
    int64_t at_once = qb_dw_is_3x3(dw) ? qb_max64(1, dw->arch->rows_3x3) : 1;
    const int64_t pixels = dw->images * dw->in[0] * dw->in[1] * dw->in[2];
    bool by_channel = pixels <= FEW_PIXELS && dw->n_blocks > 1;
    dw->row_parts = by_channel ? 1 : qb_parts(rows, wanted, rows, at_once, dw->threads);
    dw->block_parts = by_channel ? qb_parts(dw->n_blocks, wanted, dw->n_blocks, 1, dw->threads) : 1;
}

static int64_t groups_of(const qb_dw *dw) {
    const int64_t columns = dw->kernel[2], rows = dw->taps / columns, each = dw->arch->tap_group;
    if (!qb_dw_slides(dw)) return qb_ceil64(dw->weights, each);
    return dw->arch->by_rows ? qb_ceil64(rows, each) * columns : rows * qb_ceil64(columns, each);
}

static qb_status plan(qb_ctx *cx, const qb_problem *p, const qb_dw_arch *arch, int threads,
                      qb_dw *dw) {
    dw->arch = arch;
    dw->threads = threads;
    dw->integer = arch->integer;
    dw->is_s8 = p->in[QB_IN_DATA].dtype == QB_DTYPE_S8;
    dw->zero = qb_cpu_zero(&p->in[QB_IN_DATA]);
    dw->float_bias =
        dw->integer && qb_problem_has(p, QB_IN_BIAS) && p->in[QB_IN_BIAS].dtype == QB_DTYPE_F32;
    dw->epilogue = qb_epilogue_of(p);
    describe(dw, p);
    dw->taps = dw->kernel[0] * dw->kernel[1] * dw->kernel[2];
    dw->inputs = p->in[QB_IN_DATA].shape.dim[1] / p->group;
    dw->weights = dw->taps * dw->inputs;
    QB_TRY(fold_pixels(cx, dw, best_fold(dw, p)));
    dw->groups = groups_of(dw);
    dw->n_blocks = cut_blocks(dw, NULL);
    QB_TRY_NEW(cx, dw->blocks = qb_alloc(cx, (size_t)dw->n_blocks, sizeof *dw->blocks));
    cut_blocks(dw, dw->blocks);
    dw->packed_bytes = qb_pad64(dw->packed_bytes);
    dw->zeros = dw->packed_bytes;
    dw->packed_bytes += qb_pad64((size_t)dw->channels * dw->element + QB_BUFFER_SLACK);
    choose_tasks(dw);
    return QB_OK;
}

/* ---- packing --------------------------------------------------------------------------------- */

/* `weight`: the channel's. */
static int32_t first_sum(const qb_dw *dw, const int16_t *weight, const int32_t *bias, int64_t c,
                         int32_t flip) {
    uint32_t sum = 0;
    for (int64_t t = 0; t < dw->weights; t++) sum += (uint32_t)weight[t];
    uint32_t first = bias && !dw->float_bias ? (uint32_t)bias[c] : 0;
    return (int32_t)(first - sum * (uint32_t)(dw->zero + flip));
}

/* A channel's weights, int16 or floats. */
static void copy_weights(const qb_dw *dw, const qb_desc *weight, const void *all, int64_t c,
                         int64_t i, void *to) {
    const int64_t first = c * dw->weights;
    int16_t *wide = (int16_t *)to + i * dw->weights;
    float *f32 = (float *)to + i * dw->weights;
    for (int64_t k = 0; k < dw->weights; k++)
        if (dw->integer)
            wide[k] = (int16_t)qb_cpu_weight_at(weight, all, first + k, c);
        else
            f32[k] = ((const float *)all)[first + k];
}

/* `own`: room for the windows of MOST_LANES channels. */
static void pack_block(const qb_dw *dw, const qb_problem *p, const qb_dw_block *block,
                       const void *all, const void *b, void *own, char *packed) {
    int32_t start[MOST_LANES] = {0};
    float f32[MOST_LANES] = {0}, multiplier[MOST_LANES] = {0}, bias[MOST_LANES] = {0};
    const qb_qparams *w = &p->in[QB_IN_WEIGHT].q;
    for (int i = 0; i < block->width; i++) {
        const int64_t c = (block->channel + i) % dw->own_channels;
        copy_weights(dw, &p->in[QB_IN_WEIGHT], all, c, i, own);
        if (!dw->integer) {
            f32[i] = b ? ((const float *)b)[c] : 0.0f;
            continue;
        }
        start[i] = first_sum(dw, (const int16_t *)own + i * dw->weights, b, c,
                             dw->is_s8 ? dw->arch->flip : 0);
        multiplier[i] = p->in[QB_IN_DATA].q.scale[0] * w->scale[w->n > 1 ? c : 0];
        if (dw->float_bias) bias[i] = ((const float *)b)[c];
    }
    dw->arch->pack(dw, block, own, dw->integer ? (const void *)start : f32, multiplier, bias,
                   packed);
}

static qb_status pack(qb_ctx *cx, const qb_kernel *kernel, const void *const *constants,
                      void *packed) {
    const qb_dw *dw = kernel->state;
    const qb_problem *p = &kernel->problem;
    const void *bias = qb_problem_has(p, QB_IN_BIAS) ? constants[QB_IN_BIAS] : NULL;
    void *own = QB_NEW(cx, qb_alloc(cx, (size_t)(MOST_LANES * dw->weights), sizeof(float)));
    for (int32_t b = 0; b < dw->n_blocks; b++)
        pack_block(dw, p, &dw->blocks[b], constants[QB_IN_WEIGHT], bias, own, packed);
    qb_free(own);
    memset((char *)packed + dw->zeros, (uint8_t)dw->zero,
           (size_t)dw->channels * dw->element + QB_BUFFER_SLACK);
    return QB_OK;
}

/* ---- several outputs of a channel: the data with each channel as often ---- */

/* to[i * n + k] = from[i] for k < n, for elements of a type. */
#define DEFINE_REPEAT(NAME, TYPE)                                                                  \
    QB_LOOP(NAME, (const TYPE *from, int64_t count, int64_t n, TYPE *to), (from, count, n, to)) {  \
        if (n == 2)                                                                                \
            for (int64_t i = 0; i < count; i++) to[2 * i] = to[2 * i + 1] = from[i];               \
        else                                                                                       \
            for (int64_t i = 0; i < count; i++)                                                    \
                for (int64_t k = 0; k < n; k++) to[i * n + k] = from[i];                           \
    }
DEFINE_REPEAT(repeat_f32, float)
DEFINE_REPEAT(repeat_bytes, uint8_t)

typedef struct copying {
    const qb_dw *dw;
    const char *data;
    char *to;
} copying;

/* A row of pixels. */
static void repeat_task(int64_t task, void *argument) {
    const copying *r = argument;
    const qb_dw *dw = r->dw;
    const int64_t count = dw->channels / dw->repeats;
    for (int64_t p = task * dw->in[2]; p < (task + 1) * dw->in[2]; p++) {
        const char *from = r->data + p * dw->data_stride;
        char *to = r->to + p * dw->in_stride;
        if (dw->integer)
            repeat_bytes((const uint8_t *)from, count, dw->repeats, (uint8_t *)to);
        else
            repeat_f32((const float *)(const void *)from, count, dw->repeats, (float *)(void *)to);
    }
}

/* ---- folded pixels: the data with their padding, the columns of a stride's step together ---- */

/* Row (z, y) of an image of the copy; NULL: padding. */
static const char *source_line(const copying *r, int64_t image, int64_t z, int64_t y) {
    const qb_dw *dw = r->dw;
    const int64_t *n = dw->source;
    z -= dw->padding[0], y -= dw->padding[1];
    if (z < 0 || z >= n[0] || y < 0 || y >= n[1]) return NULL;
    return r->data + ((image * n[0] + z) * n[1] + y) * n[2] * dw->data_stride;
}

/* A row of the copy. */
static void fold_task(int64_t task, void *argument) {
    const copying *r = argument;
    const qb_dw *dw = r->dw;
    const int64_t bytes = dw->in_stride, plane = task / dw->in[1], *n = dw->in;
    const char *from = source_line(r, plane / n[0], plane % n[0], task % n[1]);
    char *to = r->to + task * n[2] * bytes;
    if (!from || dw->padding[2] > 0 || n[2] > dw->source[2])
        memset(to, (uint8_t)dw->zero, (size_t)(n[2] * bytes));
    if (!from) return;
    if (dw->stride[2] == 1 && dw->data_stride == bytes) {
        const int64_t pixels = qb_min64(dw->source[2], n[2] - dw->padding[2]);
        if (pixels > 0) memcpy(to + dw->padding[2] * bytes, from, (size_t)(pixels * bytes));
        return;
    }
    for (int64_t i = 0; i < n[2]; i++) {
        const int64_t x = i % dw->part * dw->stride[2] + i / dw->part - dw->padding[2];
        if (x >= 0 && x < dw->source[2])
            memcpy(to + i * bytes, from + x * dw->data_stride, (size_t)bytes);
    }
}

/* ---- running --------------------------------------------------------------------------------- */

/* The first pixel of a row of the data; NULL outside of it. */
static const char *line_at(const qb_dw *dw, const qb_dw_row *row, int64_t z, int64_t y) {
    if (z < 0 || z >= dw->in[0] || y < 0 || y >= dw->in[1]) return NULL;
    return row->in + (z * dw->in[1] + y) * dw->in[2] * dw->in_stride;
}

const char *qb_dw_tap_line(const qb_dw *dw, const qb_dw_row *row, int64_t k) {
    const int64_t z = k / dw->kernel[1] * dw->dilation[0], y = k % dw->kernel[1] * dw->dilation[1];
    return line_at(dw, row, row->out_z * dw->stride[0] - dw->pad[0] + z,
                   row->out_y * dw->stride[1] - dw->pad[1] + y);
}

qb_dw_span qb_dw_inside(const qb_dw *dw, int64_t first, int64_t last) {
    const int64_t d = dw->dilation[2];
    qb_dw_span s = {.begin = first < 0 ? qb_ceil64(-first, d) : 0,
                    .end = last < dw->in[2] ? qb_ceil64(dw->in[2] - last, d) : 0};
    s.end = qb_min64(s.end, dw->kernel[2]);
    s.begin = qb_min64(s.begin, s.end);
    return s;
}

static void folded_taps(const qb_dw *dw, const qb_dw_row *row, int64_t out_x, const char **taps) {
    const int64_t z = row->out_z * dw->stride[0], y = row->out_y * dw->stride[1];
    const char *first = row->in + (z * dw->in[1] + y) * dw->in[2] * dw->in_stride;
    for (int64_t t = 0; t < dw->taps; t++) taps[t] = first + out_x * dw->shift + dw->tap[t];
    for (int64_t t = dw->taps; t % dw->arch->tap_group; t++) taps[t] = taps[0];
}

void qb_dw_taps(const qb_dw *dw, const qb_dw_row *row, int64_t out_x, const char **taps) {
    if (dw->fold > 1) {
        folded_taps(dw, row, out_x, taps);
        return;
    }
    const char *zeros = row->packed + dw->zeros;
    const int64_t x0 = out_x * dw->stride[2] - dw->pad[2], n = dw->kernel[2];
    const int64_t step = dw->dilation[2] * dw->in_stride;
    const qb_dw_span inside = qb_dw_inside(dw, x0, x0);
    const char **next = taps;
    for (int64_t k = 0; k < dw->kernel[0] * dw->kernel[1]; k++, next += n) {
        const char *line = qb_dw_tap_line(dw, row, k);
        const int64_t begin = line ? inside.begin : n, end = line ? inside.end : n;
        for (int64_t kx = 0; kx < begin; kx++) next[kx] = zeros;
        for (int64_t kx = begin; kx < end; kx++) next[kx] = line + x0 * dw->in_stride + kx * step;
        for (int64_t kx = end; kx < n; kx++) next[kx] = zeros;
    }
    while ((next - taps) % dw->arch->tap_group) *next++ = zeros;
}

void qb_dw_lines(const qb_dw *dw, const qb_dw_row *row, int n, qb_dw_line *line) {
    const int64_t z = row->out_z * dw->stride[0] - dw->pad[0];
    const int64_t y = row->out_y * dw->stride[1] - dw->pad[1];
    for (int k = 0; k < n; k++) {
        const char *inside = line_at(dw, row, z, y + k);
        line[k].start = inside ? inside : row->packed + dw->zeros;
        line[k].step = inside ? dw->in_stride : 0;
    }
}

bool qb_dw_slides(const qb_dw *dw) {
    return dw->arch->slides && qb_dw_is_plain(dw) && dw->kernel[2] >= 4 && dw->stride[2] == 1 &&
           dw->dilation[2] == 1;
}

bool qb_dw_is_3x3(const qb_dw *dw) {
    return qb_dw_is_plain(dw) && dw->kernel[0] == 1 && dw->kernel[1] == 3 && dw->kernel[2] == 3 &&
           dw->dilation[1] == 1 && dw->dilation[2] == 1 && dw->stride[1] == dw->stride[2] &&
           dw->stride[1] <= 2;
}

typedef struct job {
    const qb_dw *dw;
    const char *in;
    char *out;
    const char *residual;
    const char *packed;
} job;

static void run_task(int64_t task, void *argument) {
    const job *j = argument;
    const qb_dw *dw = j->dw;
    const int64_t rows = rows_of(dw), *out = dw->out;
    int64_t part = task / dw->block_parts, block_part = task % dw->block_parts;
    int64_t first = qb_part_begin(rows, dw->row_parts, part);
    int64_t end = qb_part_begin(rows, dw->row_parts, part + 1);
    int64_t most = qb_dw_is_3x3(dw) ? qb_max64(1, dw->arch->rows_3x3) : 1;
    for (int64_t r = first, n; r < end; r += n) {
        const int64_t plane = r / out[1], image = plane / out[0], pixel = r * out[2];
        n = qb_min64(most, qb_min64(end, (plane + 1) * out[1]) - r);
        qb_dw_row row = {
            .first_block = (int32_t)qb_part_begin(dw->n_blocks, dw->block_parts, block_part),
            .end_block = (int32_t)qb_part_begin(dw->n_blocks, dw->block_parts, block_part + 1),
            .in = j->in + image * dw->in[0] * dw->in[1] * dw->in[2] * dw->in_stride,
            .out_z = plane % out[0],
            .out_y = r % out[1],
            .rows = (int)n,
            .out = j->out + pixel * dw->out_stride,
            .residual = j->residual ? j->residual + pixel * dw->residual_stride : NULL,
            .packed = j->packed};
        dw->arch->row(dw, &row);
    }
}

static bool is_copied(const qb_dw *dw) { return dw->fold > 1 || dw->repeats > 1; }

static qb_status launch(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    (void)cx;
    const qb_dw *dw = kernel->state;
    bool residual = dw->epilogue.residual != QB_DTYPE_NONE;
    const char *data = (const char *)args->in[QB_IN_DATA] + dw->data_offset;
    copying r = {.dw = dw, .data = data, .to = args->workspace};
    if (is_copied(dw))
        qb_workers_run(args->workers, dw->images * dw->in[0] * dw->in[1],
                       dw->fold > 1 ? fold_task : repeat_task, &r);
    job j = {.dw = dw,
             .in = is_copied(dw) ? r.to : data,
             .out = (char *)args->out + dw->out_offset,
             .residual =
                 residual ? (const char *)args->in[QB_IN_RESIDUAL] + dw->residual_offset : NULL,
             .packed = args->packed};
    qb_workers_run(args->workers, dw->row_parts * dw->block_parts, run_task, &j);
    return QB_OK;
}

static void destroy(qb_kernel *kernel) {
    qb_dw *dw = kernel->state;
    if (dw) QB_FREE_ALL(dw->blocks, dw->tap);
    qb_free(dw);
}

qb_status qb_dw_create(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *p, int threads,
                       const qb_dw_arch *arch, qb_kernel **out) {
    QB_RELEASED(qb_kernel_free_at) qb_kernel *kernel = NULL;
    QB_TRY(qb_kernel_alloc(cx, tactic, p, &kernel));
    qb_dw *dw = kernel->state = QB_NEW(cx, qb_alloc(cx, 1, sizeof *dw));
    kernel->destroy = destroy;
    QB_TRY(plan(cx, p, arch, threads, dw));
    kernel->packed_bytes = dw->packed_bytes;
    if (is_copied(dw))
        kernel->workspace_bytes =
            (size_t)(dw->images * dw->in[0] * dw->in[1] * dw->in[2]) * (size_t)dw->in_stride +
            QB_BUFFER_SLACK;
    kernel->packing_id = (uint64_t)dw->fold; /* else the image has no part in it */
    kernel->packed_inputs = 1u << QB_IN_WEIGHT | 1u << QB_IN_BIAS;
    if (dw->epilogue.residual == dw->epilogue.out && dw->out_stride == dw->residual_stride &&
        dw->out_offset == dw->residual_offset)
        kernel->in_place_inputs = 1u << QB_IN_RESIDUAL;
    kernel->pack = pack;
    kernel->launch = launch;
    for (int32_t i = 0; i < p->n_in; i++)
        if (kernel->in[i].layout == QB_LAYOUT_ANY) kernel->in[i].layout = QB_LAYOUT_NHWC;
    if (kernel->problem.out.layout == QB_LAYOUT_ANY) kernel->problem.out.layout = QB_LAYOUT_NHWC;
    *out = QB_MOVE(kernel);
    return QB_OK;
}
