/* Plans of convolutions: geometry, regions, runs, blocks of columns, tasks. */
#include <string.h>

#include "conv_internal.h"

#define CACHE_BYTES ((size_t)256 << 10) /* share of the second level cache for one task's data */
#define ALIASING_BYTES                                                                             \
    2048                 /* rows that are a multiple of this apart share sets of the first cache */
#define ROOM_BYTES 64    /* between them in a copy of the data */
#define THIN_BYTES 32    /* pixels below this are cheap to copy and slow to walk one by one */
#define MIN_CHUNK 42     /* pixels of a task */
#define MIN_CHUNK_FAR 98 /* ... when float weights come from beyond the second level cache */
#define TASKS_PER_THREAD 8
#define MOST_REGIONS 27 /* three bands in each dimension */

const qb_conv_arch *qb_conv_best(const qb_problem *p) {
    const bool integer = p->in[QB_IN_DATA].dtype != QB_DTYPE_F32;
    const bool wide =
        integer && !qb_cpu_is_weight(&p->in[QB_IN_WEIGHT], p->in[QB_IN_WEIGHT].q.axis, false);
#if QB_X86
    if (qb_cpu_is_bf16(&p->in[QB_IN_DATA])) return &qb_conv_bf16_avx512_bf16;
    static const struct {
        qb_tier tier;
        const qb_conv_arch *f32, *s8;
    } rows[] = {{QB_TIER_AVX512_VNNI, &qb_conv_f32_avx512, &qb_conv_s8_avx512_vnni},
                {QB_TIER_AVX512, &qb_conv_f32_avx512, &qb_conv_s8_avx512},
                {QB_TIER_AVX2_VNNI, &qb_conv_f32_avx2, &qb_conv_s8_avx2_vnni},
                {QB_TIER_AVX2, &qb_conv_f32_avx2, &qb_conv_s8_avx2},
                {QB_TIER_SCALAR, &qb_conv_f32_generic, &qb_conv_s8_sse2}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (qb_processor_has(rows[i].tier) && (!wide || rows[i].s8->wide_weights))
            return integer ? rows[i].s8 : rows[i].f32;
#endif
    return integer ? &qb_conv_s8_generic : &qb_conv_f32_generic;
}

/* ---- what can be run ------------------------------------------------------------------------- */

static bool fits_32(int64_t v) { return v >= 0 && v <= INT32_MAX; }

static bool is_float(const qb_desc *desc) { return qb_cpu_is_f32(desc) || qb_cpu_is_bf16(desc); }

/* Two values of a group that has an odd number would meet those of the next one in a unit. */
static bool bf16_supported(const qb_problem *p, const bool *constant) {
    const qb_desc *x = &p->in[QB_IN_DATA], *w = &p->in[QB_IN_WEIGHT];
    const qb_desc *residual = qb_problem_has(p, QB_IN_RESIDUAL) ? &p->in[QB_IN_RESIDUAL] : NULL;
    return qb_cpu_is_bf16(x) && qb_cpu_is_f32(w) && is_float(&p->out) &&
           (!residual || (is_float(residual) && qb_shape_equal(&residual->shape, &p->out.shape))) &&
           (p->group == 1 || w->shape.dim[1] % 2 == 0) &&
           (!qb_problem_has(p, QB_IN_BIAS) ||
            (constant[QB_IN_BIAS] && qb_cpu_is_f32(&p->in[QB_IN_BIAS])));
}

static bool types_supported(const qb_problem *p, const bool *constant, qb_dtype data,
                            int32_t weight_axis, bool wide) {
    const qb_desc *x = &p->in[QB_IN_DATA], *w = &p->in[QB_IN_WEIGHT], *bias = &p->in[QB_IN_BIAS];
    const bool integer = data == QB_DTYPE_S8;
    if (!constant[QB_IN_WEIGHT]) return false;
    if (data == QB_DTYPE_BF16) return bf16_supported(p, constant);
    if (!qb_epilogue_supports(p)) return false;
    if (integer ? !qb_cpu_is_quantized(x) || !qb_cpu_is_weight(w, weight_axis, wide)
                : !qb_cpu_is_f32(x) || !qb_cpu_is_f32(w))
        return false;
    if (!qb_problem_has(p, QB_IN_BIAS)) return true;
    if (!constant[QB_IN_BIAS]) return false;
    return qb_cpu_is_f32(bias) || (integer && bias->dtype == QB_DTYPE_S32);
}

bool qb_conv_supports(const qb_problem *p, const bool *constant, qb_dtype data, bool wide) {
    const qb_desc *x = &p->in[QB_IN_DATA];
    if (p->window.n < 1 || p->window.n > QB_SPATIAL || !types_supported(p, constant, data, 0, wide))
        return false;
    if (!qb_cpu_is_nhwc(x) || !qb_cpu_is_nhwc(&p->out)) return false;
    if (qb_problem_has(p, QB_IN_RESIDUAL) && !qb_cpu_is_nhwc(&p->in[QB_IN_RESIDUAL])) return false;
    int64_t taps = 1;
    for (int32_t d = 0; d < p->window.n; d++) {
        if (p->window.kernel[d] > INT16_MAX) return false;
        taps *= p->window.kernel[d];
    }
    return qb_shape_count(&p->out.shape) > 0 && qb_shape_count(&x->shape) > 0 &&
           fits_32(taps * x->shape.dim[1]) && fits_32(p->out.shape.dim[1]);
}

/* [..., m, k] x [k, n] with the right side constant, two-dimensional and packed. */
bool qb_matmul_supports(const qb_problem *p, const bool *constant, qb_dtype data) {
    const qb_desc *a = &p->in[QB_IN_DATA], *b = &p->in[QB_IN_WEIGHT];
    if (!types_supported(p, constant, data, p->transpose_b ? 0 : 1, true)) return false;
    if (b->shape.rank != 2 || a->shape.rank < 2 || p->transpose_a) return false;
    if (a->layout != QB_LAYOUT_ROW || p->out.layout != QB_LAYOUT_ROW) return false;
    const qb_desc *r = qb_problem_has(p, QB_IN_RESIDUAL) ? &p->in[QB_IN_RESIDUAL] : NULL;
    if (r && (r->layout != QB_LAYOUT_ROW || r->channel_total > 0)) return false;
    if (a->channel_total > 0 || p->out.channel_total > 0) return false;
    return qb_shape_count(&p->out.shape) > 0 && qb_shape_count(&a->shape) > 0 &&
           fits_32(a->shape.dim[a->shape.rank - 1]) &&
           fits_32(p->out.shape.dim[p->out.shape.rank - 1]);
}

/* ---- geometry -------------------------------------------------------------------------------- */

static void set_strides(qb_conv_plan *plan, const qb_problem *p) {
    const qb_desc *x = &p->in[QB_IN_DATA], *y = &p->out;
    int64_t out_size = (int64_t)qb_dtype_size(y->dtype);
    plan->src_stride = qb_cpu_channels(x) * (int64_t)plan->element;
    plan->src_offset = x->channel_offset * (int64_t)plan->element;
    plan->out_stride = qb_cpu_channels(y) * out_size;
    plan->out_offset = y->channel_offset * out_size;
    if (!qb_problem_has(p, QB_IN_RESIDUAL)) return;
    const qb_desc *r = &p->in[QB_IN_RESIDUAL];
    int64_t size = (int64_t)qb_dtype_size(r->dtype);
    plan->residual_stride = qb_cpu_channels(r) * size;
    plan->residual_offset = r->channel_offset * size;
}

static void describe_conv(qb_conv_plan *plan, const qb_problem *p) {
    const qb_shape *x = &p->in[QB_IN_DATA].shape, *w = &p->in[QB_IN_WEIGHT].shape;
    const qb_window window = qb_cpu_window(&p->window);
    for (int32_t d = 0; d < QB_SPATIAL; d++) {
        plan->kernel[d] = window.kernel[d];
        plan->stride[d] = window.stride[d];
        plan->dilation[d] = window.dilation[d];
        plan->pad[d] = window.pad_begin[d];
    }
    plan->images = x->dim[0];
    qb_cpu_spatial(x, plan->src);
    qb_cpu_spatial(&p->out.shape, plan->out);
    plan->channels = x->dim[1];
    plan->groups = p->group;
    plan->outputs = p->out.shape.dim[1];
    plan->weight_stride[1] = plan->kernel[0] * plan->kernel[1] * plan->kernel[2];
    plan->weight_stride[0] = plan->weight_stride[1] * w->dim[1];
    plan->factor = 1.0f;
    set_strides(plan, p);
}

static void describe_matmul(qb_conv_plan *plan, const qb_problem *p) {
    const qb_shape *a = &p->in[QB_IN_DATA].shape;
    int64_t k = a->dim[a->rank - 1], n = p->out.shape.dim[p->out.shape.rank - 1];
    for (int32_t d = 0; d < QB_SPATIAL; d++) {
        plan->kernel[d] = plan->stride[d] = plan->dilation[d] = 1;
        plan->src[d] = plan->out[d] = 1;
    }
    plan->images = 1;
    plan->src[1] = plan->out[1] = qb_shape_count(a) / k;
    plan->channels = k;
    plan->groups = 1;
    plan->outputs = n;
    plan->weight_stride[0] = p->transpose_b ? k : 1;
    plan->weight_stride[1] = p->transpose_b ? 1 : n;
    plan->factor = p->scale;
    plan->is_matrix = true;
    plan->src_stride = k * (int64_t)plan->element;
    plan->out_stride = n * (int64_t)qb_dtype_size(p->out.dtype);
    if (qb_problem_has(p, QB_IN_RESIDUAL))
        plan->residual_stride = n * (int64_t)qb_dtype_size(p->in[QB_IN_RESIDUAL].dtype);
}

/* Kernel elements of output `at` that fall inside [0, size). */
static void inside(const qb_conv_plan *plan, int d, int64_t size, int64_t at, int32_t *first,
                   int32_t *end) {
    int64_t origin = at * plan->stride[d] - plan->pad[d], step = plan->dilation[d];
    int64_t low = origin >= 0 ? 0 : qb_ceil64(-origin, step);
    int64_t high = origin >= size ? 0 : (size - 1 - origin) / step + 1;
    if (high > plan->kernel[d]) high = plan->kernel[d];
    *first = (int32_t)qb_min64(low, high);
    *end = (int32_t)high;
}

static int64_t taps_of(const qb_conv_plan *plan) {
    return plan->kernel[0] * plan->kernel[1] * plan->kernel[2];
}

static bool is_clipped(const qb_conv_plan *plan) {
    int32_t first, end;
    for (int d = 0; d < QB_SPATIAL; d++) {
        inside(plan, d, plan->src[d], 0, &first, &end);
        if (first > 0 || end < plan->kernel[d]) return true;
        inside(plan, d, plan->src[d], plan->out[d] - 1, &first, &end);
        if (end < plan->kernel[d]) return true;
    }
    return false;
}

/* The copy has all that windows reach. */
static void cover_windows(qb_conv_plan *plan) {
    for (int d = 0; d < QB_SPATIAL; d++) {
        const int64_t reach =
            (plan->out[d] - 1) * plan->stride[d] + (plan->kernel[d] - 1) * plan->dilation[d] + 1;
        plan->in[d] = qb_max64(plan->src[d] + plan->pad[d], reach);
        plan->source_pad[d] = plan->pad[d];
        plan->pad[d] = 0;
    }
}

/* Decides how the window is walked: whole kernel rows at once where neighbouring pixels touch in
 * memory, and over a padded copy of the data where units of four quantized values would straddle
 * pixels, where border pixels would take many short runs, or where the rows of a matrix would push
 * each other out of the cache. An odd number of bf16 values gets a zero: what else follows may be
 * infinite. */
static void choose_walk(qb_conv_plan *plan) {
    int64_t tight = plan->channels * (int64_t)plan->element;
    bool dense = plan->groups == 1 && plan->dilation[2] == 1 && plan->kernel[2] > 1;
    bool odd = plan->integer && plan->channels % 4 != 0 && dense;
    bool uneven = plan->per_unit == 2 && plan->channels % 2 != 0;
    bool clipped = is_clipped(plan), thin = dense && tight < THIN_BYTES;
    /* A tile reads a line of each of its rows again and again, and the cache has eight places. */
    bool aliased = plan->is_matrix && tight % ALIASING_BYTES == 0 && plan->src[1] > 8 &&
                   plan->outputs >= 8 * plan->arch->lanes;
    plan->padded = aliased || uneven || (odd && (clipped || plan->src_stride != tight)) ||
                   (clipped && thin) || (clipped && taps_of(plan) > QB_TILE_TAPS);
    for (int d = 0; d < QB_SPATIAL; d++) plan->in[d] = plan->src[d];
    plan->in_stride = plan->src_stride;
    plan->in_offset = plan->src_offset;
    if (plan->padded) {
        cover_windows(plan);
        if (uneven) tight += (int64_t)plan->element;
        plan->in_stride = tight + (aliased ? ROOM_BYTES : 0);
        plan->in_offset = 0;
    }
    plan->merged = dense && plan->in_stride == tight && (odd || !plan->arch->ordered);
    plan->row_bytes = plan->in[2] * plan->in_stride;
    plan->plane_bytes = plan->in[1] * plan->row_bytes;
    plan->tap_units = qb_ceil64(plan->group_channels, plan->per_unit);
    plan->row_units = plan->kernel[2] * plan->tap_units;
    if (odd && plan->merged) {
        plan->row_units = qb_ceil64(plan->kernel[2] * plan->channels, 4);
        plan->tap_units = 0; /* taps do not begin at units */
    }
    plan->kernel_rows = plan->kernel[0] * plan->kernel[1];
    plan->total_units = plan->kernel_rows * plan->row_units;
    if (plan->arch->ordered)
        plan->order_bytes = qb_pad64((size_t)plan->total_units * sizeof(qb_unit_order));
    bool chained = plan->integer || plan->total_units <= QB_CHAIN;
    plan->segment = chained ? INT32_MAX : qb_ceil64(plan->total_units, 4);
}

/* ---- regions and runs ------------------------------------------------------------------------ */

typedef struct band {
    int64_t begin, end;
    int32_t first, last; /* union of the taps */
    bool mixed;          /* not the same for all */
} band;

/* Behind the last output that reads nothing beyond the end. */
static int64_t unclipped_end(const qb_conv_plan *plan, int d) {
    const int64_t reach = (plan->kernel[d] - 1) * plan->dilation[d] - plan->pad[d];
    return qb_min64(plan->out[d], (plan->in[d] - 1 - reach) / plan->stride[d] + 1);
}

/* Cuts one dimension: what is clipped in front, the middle, what is clipped behind. */
static int make_bands(const qb_conv_plan *plan, int d, band out[3]) {
    int count = 0, kind = -1;
    for (int64_t at = 0; at < plan->out[d]; at++) {
        int32_t first, end;
        inside(plan, d, plan->in[d], at, &first, &end);
        int now = first > 0 ? 0 : end < plan->kernel[d] ? 2 : 1;
        if (now > kind) {
            kind = now;
            out[count++] = (band){at, at + 1, first, end, false};
            if (kind == 1) out[count - 1].end = unclipped_end(plan, d);
            at = out[count - 1].end - 1;
            continue;
        }
        band *b = &out[count - 1]; /* once clipped behind, always clipped behind */
        b->mixed = b->mixed || b->first != first || b->last != end;
        if (first < b->first) b->first = first;
        if (end > b->last) b->last = end;
        b->end = at + 1;
    }
    return count;
}

/* The runs of one row of the kernel. */
static void add_row(qb_conv_plan *plan, const qb_conv_region *r, int32_t z, int32_t y) {
    const int64_t data =
        z * plan->dilation[0] * plan->plane_bytes + y * plan->dilation[1] * plan->row_bytes;
    const int64_t weight = (z * plan->kernel[1] + y) * plan->row_units;
    const bool whole = plan->merged && !r->indirect;
    for (int32_t x = r->tap[2]; x < r->tap_end[2]; x++) {
        int64_t units = whole ? (r->tap_end[2] - x) * plan->tap_units : plan->tap_units;
        if (plan->tap_units == 0) units = plan->row_units;
        plan->runs[plan->n_runs++] =
            (qb_run){.units = (int32_t)units,
                     .weight = (int32_t)(weight + x * plan->tap_units),
                     .data = data + x * plan->dilation[2] * plan->in_stride,
                     .at = {(int16_t)z, (int16_t)y, (int16_t)x}};
        if (whole) break;
    }
}

static void add_runs(qb_conv_plan *plan, qb_conv_region *r) {
    r->first_run = plan->n_runs;
    for (int32_t z = r->tap[0]; z < r->tap_end[0]; z++)
        for (int32_t y = r->tap[1]; y < r->tap_end[1]; y++) add_row(plan, r, z, y);
    r->n_runs = plan->n_runs - r->first_run;
}

/* Bands of planes and rows, and all columns from `x` to `x_end`. */
static void add_region(qb_conv_plan *plan, const band *z, const band *y, const band *x,
                       const band *x_end, int64_t *pixel) {
    qb_conv_region *r = &plan->regions[plan->n_regions++];
    *r = (qb_conv_region){.first = {z->begin, y->begin, x->begin},
                          .end = {z->end, y->end, x_end->end},
                          .tap = {z->first, y->first, x->first},
                          .tap_end = {z->last, y->last, x->last},
                          .indirect = z->mixed || y->mixed || x != x_end,
                          .first_pixel = *pixel,
                          .n_pixels = plan->images};
    for (const band *b = x; b <= x_end; b++) {
        if (b->first < r->tap[2]) r->tap[2] = b->first;
        if (b->last > r->tap_end[2]) r->tap_end[2] = b->last;
        r->indirect = r->indirect || b->mixed;
    }
    for (int d = 0; d < QB_SPATIAL; d++) r->n_pixels *= r->end[d] - r->first[d];
    *pixel += r->n_pixels;
    add_runs(plan, r);
}

/* The middle rows are cut in columns, too; the clipped rows stay whole: their corners are few. */
static void make_regions(qb_conv_plan *plan) {
    band z[3], y[3], x[3];
    int n_z = make_bands(plan, 0, z), n_y = make_bands(plan, 1, y), n_x = make_bands(plan, 2, x);
    int64_t pixel = 0;
    for (int i = 0; i < n_z * n_y; i++) {
        const band *plane = &z[i / n_y], *row = &y[i % n_y];
        bool middle = row->first == 0 && row->last == plan->kernel[1] && !row->mixed;
        if (!middle) {
            add_region(plan, plane, row, &x[0], &x[n_x - 1], &pixel);
            continue;
        }
        for (int k = 0; k < n_x; k++) add_region(plan, plane, row, &x[k], &x[k], &pixel);
    }
}

/* ---- blocks of columns, tasks, packed memory ------------------------------------------------- */

/* Vectors of the next block when `left` vectors remain: pairs, and one triple when odd; or triples,
 * and up to two pairs for the rest. */
static int block_vectors(const qb_conv_arch *arch, int64_t left) {
    int most = 0;
    for (int v = 1; v <= QB_TILE_VECTORS; v++)
        if (arch->rows[v] > 0) most = v;
    if (left <= most) return (int)left;
    if (most == 3) return (arch->wide ? left % 3 != 1 : left % 2 == 1) ? 3 : 2;
    return most;
}

static int64_t group_blocks(qb_conv_plan *plan, int64_t group, qb_conv_block *blocks) {
    int64_t per_group = plan->outputs / plan->groups, count = 0;
    int lanes = plan->arch->lanes;
    for (int64_t done = 0; done < per_group; count++) {
        int vectors = block_vectors(plan->arch, qb_ceil64(per_group - done, lanes));
        int64_t width = qb_min64(per_group - done, vectors * lanes);
        if (blocks) {
            blocks[count] = (qb_conv_block){.group = (int32_t)group,
                                            .channel = (int32_t)(group * per_group + done),
                                            .width = (int32_t)width,
                                            .vectors = vectors,
                                            .panel = plan->packed_bytes};
            plan->packed_bytes += qb_pad64((size_t)(plan->total_units * vectors * lanes) *
                                           (size_t)plan->arch->column_bytes) +
                                  plan->order_bytes;
        }
        done += width;
    }
    return count;
}

static void layout_packed(qb_conv_plan *plan) {
    size_t row = (size_t)(plan->outputs + QB_TILE_VECTORS * plan->arch->lanes) * 4;
    plan->columns = (int64_t)(qb_pad64(row) / 4);
    bool corrected = plan->integer && (plan->zero != 0 || plan->flipped);
    plan->n_starts = corrected ? plan->n_regions : 1;
    plan->start = plan->packed_bytes;
    plan->packed_bytes += qb_pad64(row) * (size_t)plan->n_starts;
    plan->multiplier = plan->packed_bytes;
    if (plan->integer) plan->packed_bytes += qb_pad64(row);
    plan->bias = plan->packed_bytes;
    if (plan->float_bias) plan->packed_bytes += qb_pad64(row);
    plan->zeros = plan->packed_bytes;
    plan->packed_bytes += qb_pad64((size_t)plan->channels * plan->element + QB_BUFFER_SLACK);
}

/* Pixels of the most common tile. */
static int common_rows(const qb_conv_arch *arch) {
    const int rows = arch->rows[arch->wide ? 3 : 2];
    return rows > 0 ? rows : arch->rows[1];
}

static int64_t pixels_of(const qb_conv_plan *plan) {
    int64_t pixels = plan->images;
    for (int d = 0; d < QB_SPATIAL; d++) pixels *= plan->out[d];
    return pixels;
}

/* Tasks: a chunk of pixels times a group of blocks. Pixels are cut first; where there are few, so
 * are the blocks. */
static void choose_tasks(qb_conv_plan *plan) {
    const int64_t pixels = pixels_of(plan);
    int64_t per_pixel = plan->channels * (int64_t)plan->element;
    for (int d = 0; d < QB_SPATIAL; d++) per_pixel *= plan->stride[d];
    per_pixel = qb_max64(1, per_pixel);
    bool far = !plan->integer && plan->packed_bytes > CACHE_BYTES;
    int64_t least = far ? MIN_CHUNK_FAR : MIN_CHUNK;
    int64_t most = qb_min64(QB_CHUNK, qb_max64(least, (int64_t)CACHE_BYTES / per_pixel));
    int64_t wanted = plan->threads > 1 ? TASKS_PER_THREAD * plan->threads : 1;
    int64_t chunk = qb_min64(qb_max64(least, qb_ceil64(pixels, wanted)), most);
    int64_t chunks = qb_ceil64(pixels, chunk);
    if (pixels < chunk + chunk / 2 && pixels <= QB_CHUNK) chunks = 1; /* no small rest */
    plan->n_chunks =
        (int32_t)qb_parts(pixels, chunks, QB_CHUNK, common_rows(plan->arch), plan->threads);
    int64_t groups = qb_min64(plan->n_blocks, qb_ceil64(wanted, plan->n_chunks));
    plan->n_block_groups =
        (int32_t)qb_parts(plan->n_blocks, groups, plan->n_blocks, 1,
                          plan->n_chunks % plan->threads == 0 ? 1 : plan->threads);
}

static qb_status allocate(qb_ctx *cx, qb_conv_plan *plan) {
    int64_t blocks = group_blocks(plan, 0, NULL) * plan->groups;
    int64_t taps = taps_of(plan);
    if (!fits_32(blocks) || !fits_32(plan->total_units) || !fits_32(MOST_REGIONS * taps) ||
        !fits_32(pixels_of(plan) / QB_CHUNK * 2))
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "convolution too large for the CPU kernels");
    plan->blocks = qb_alloc(cx, (size_t)blocks, sizeof *plan->blocks);
    plan->regions = qb_alloc(cx, MOST_REGIONS, sizeof *plan->regions);
    plan->runs = qb_alloc(cx, (size_t)(MOST_REGIONS * taps), sizeof *plan->runs);
    return plan->blocks && plan->regions && plan->runs ? QB_OK : cx->code;
}

/* Integer ends convert to int32 without bounds before: no accumulator may lead beyond it. */
static bool stays_in_int32(const qb_conv_plan *plan, const qb_problem *p) {
    const qb_qparams *w = &p->in[QB_IN_WEIGHT].q;
    float most = 0.0f, unit = p->in[QB_IN_DATA].q.scale[0] * plan->epilogue.inverse * plan->factor;
    for (int32_t i = 0; i < w->n; i++)
        if (w->scale[i] > most) most = w->scale[i];
    const qb_epilogue *f = &plan->epilogue;
    const bool rounds = !f->rounds || f->first_scale * f->inverse <= 1e6f;
    return most * unit <= 0.25f && f->residual_scale * f->inverse <= 1e6f && rounds;
}

static bool has_plain_epilogue(const qb_conv_plan *plan, const qb_problem *p) {
    const qb_epilogue *f = &plan->epilogue;
    if (f->act.kind != QB_ACT_NONE || plan->float_bias || (f->clamp_first && !f->rounds))
        return false;
    qb_dtype usual = plan->integer ? QB_DTYPE_U8 : p->in[QB_IN_DATA].dtype;
    return (f->residual == QB_DTYPE_NONE || f->residual == usual) &&
           (plan->integer
                ? (f->out == QB_DTYPE_U8 || f->out == QB_DTYPE_S8) && stays_in_int32(plan, p)
                : f->out == usual);
}

qb_status qb_conv_plan_create(qb_ctx *cx, const qb_problem *p, const qb_conv_arch *arch,
                              int threads, qb_conv_plan **out) {
    QB_RELEASED(qb_conv_plan_free_at)
    qb_conv_plan *plan = QB_NEW(cx, qb_alloc(cx, 1, sizeof *plan));
    plan->arch = arch;
    plan->integer = arch->integer;
    bool is_s8 = p->in[QB_IN_DATA].dtype == QB_DTYPE_S8;
    plan->tile = is_s8 ? arch->tile_s8 : arch->tile;
    plan->flipped = is_s8 && arch->flips;
    plan->threads = threads;
    plan->element = qb_dtype_size(p->in[QB_IN_DATA].dtype);
    plan->per_unit = 4 / (int64_t)plan->element;
    plan->zero = qb_cpu_zero(&p->in[QB_IN_DATA]);
    plan->float_bias =
        plan->integer && qb_problem_has(p, QB_IN_BIAS) && p->in[QB_IN_BIAS].dtype == QB_DTYPE_F32;
    plan->epilogue = qb_epilogue_of(p);
    if (p->kind == QB_KIND_MATMUL)
        describe_matmul(plan, p);
    else
        describe_conv(plan, p);
    plan->plain_epilogue = has_plain_epilogue(plan, p);
    plan->group_channels = plan->channels / plan->groups;
    choose_walk(plan);
    QB_TRY(allocate(cx, plan));
    make_regions(plan);
    for (int64_t g = 0; g < plan->groups; g++)
        plan->n_blocks += (int32_t)group_blocks(plan, g, plan->blocks + plan->n_blocks);
    layout_packed(plan);
    choose_tasks(plan);
    *out = QB_MOVE(plan);
    return QB_OK;
}

void qb_conv_plan_free(qb_conv_plan *plan) {
    if (!plan) return;
    QB_FREE_ALL(plan->blocks, plan->regions, plan->runs, plan);
}
