/* Running a planned convolution. */
#include <string.h>

#include "conv_internal.h"

#define PAD_BYTES 32768 /* of the padded copy, for one task */

typedef struct job {
    const qb_conv_plan *plan;
    const char *data; /* first pixel, first channel of the convolution's input */
    char *out;
    const char *residual;
    const char *packed;
    const char *start; /* sums begin here */
    const float *multiplier;
} job;

/* Where the pixels of a chunk are: one entry a pixel. */
typedef struct places {
    const char *data[QB_CHUNK];
    int64_t pixel[QB_CHUNK];
    int32_t at[QB_SPATIAL][QB_CHUNK]; /* of the first window element; for indirect regions */
} places;

/* One row of a region's pixels: the output's place of the first one, and how many. */
static void find_row(const job *j, bool indirect, int64_t image, const int64_t out[QB_SPATIAL],
                     int64_t first, int64_t n, places *at) {
    const qb_conv_plan *plan = j->plan;
    const int64_t step = plan->stride[2] * plan->in_stride;
    int64_t in[QB_SPATIAL], pixel = image, row = image;
    for (int d = 0; d < QB_SPATIAL; d++) {
        in[d] = out[d] * plan->stride[d] - plan->pad[d];
        pixel = pixel * plan->out[d] + out[d];
        if (d < 2) row = row * plan->in[d] + in[d];
    }
    const char *data = j->data + row * plan->row_bytes + in[2] * plan->in_stride;
    for (int64_t i = 0; indirect && i < n; i++) {
        at->at[0][first + i] = (int32_t)in[0];
        at->at[1][first + i] = (int32_t)in[1];
        at->at[2][first + i] = (int32_t)(in[2] + i * plan->stride[2]);
    }
    for (int64_t i = 0; i < n; i++, data += step, pixel++) {
        at->data[first + i] = data;
        at->pixel[first + i] = pixel;
    }
}

static void find_places(const job *j, const qb_conv_region *r, int64_t first, int64_t n,
                        places *at) {
    int64_t out[QB_SPATIAL], image = first;
    for (int d = QB_SPATIAL - 1; d >= 0; d--) {
        const int64_t size = r->end[d] - r->first[d];
        out[d] = r->first[d] + image % size;
        image /= size;
    }
    for (int64_t i = 0, row; i < n; i += row) {
        row = qb_min64(n - i, r->end[2] - out[2]);
        find_row(j, r->indirect, image, out, i, row, at);
        out[2] = r->first[2];
        if (++out[1] < r->end[1]) continue;
        out[1] = r->first[1];
        if (++out[0] < r->end[0]) continue;
        out[0] = r->first[0];
        image++;
    }
}

/* The starts of all runs of a tile's pixels, zeros where a tap lies outside the data. */
static void find_runs(const job *j, const qb_tile *tile, const places *at, int64_t first,
                      int64_t group_offset, const char **far) {
    const qb_conv_plan *plan = j->plan;
    const char *zeros = j->packed + plan->zeros;
    const uint32_t depth = (uint32_t)plan->in[0], height = (uint32_t)plan->in[1];
    const uint32_t width = (uint32_t)plan->in[2];
    for (int32_t k = 0; k < tile->n_runs; k++) {
        const qb_run *run = &tile->runs[k];
        const int32_t deep = run->at[0] * (int32_t)plan->dilation[0];
        const int32_t down = run->at[1] * (int32_t)plan->dilation[1];
        const int32_t right = run->at[2] * (int32_t)plan->dilation[2];
        const int64_t offset = group_offset + run->data;
        for (int i = 0; i < tile->rows; i++) { /* negative numbers are large ones, too */
            bool there = ((uint32_t)(at->at[0][first + i] + deep) < depth) &
                         ((uint32_t)(at->at[1][first + i] + down) < height) &
                         ((uint32_t)(at->at[2][first + i] + right) < width);
            *far++ = there ? at->data[first + i] + offset : zeros;
        }
    }
}

static void run_block(const job *j, const qb_conv_region *r, const qb_conv_block *block,
                      const places *at, int64_t n) {
    const qb_conv_plan *plan = j->plan;
    const char *far[QB_TILE_TAPS * QB_TILE_ROWS], *shifted[QB_TILE_ROWS];
    int64_t group_offset = block->group * plan->group_channels * (int64_t)plan->element;
    int64_t most = plan->arch->rows[block->vectors], tiles = qb_ceil64(n, most);
    int32_t start = plan->n_starts > 1 ? (int32_t)(r - plan->regions) : 0;
    int64_t channel = block->channel;
    qb_tile tile = {
        .vectors = block->vectors,
        .width = block->width,
        .indirect = r->indirect,
        .fast = plan->plain_epilogue && block->width == block->vectors * plan->arch->lanes,
        .segment = plan->segment,
        .n_runs = r->n_runs,
        .runs = plan->runs + r->first_run,
        .panel = j->packed + block->panel,
        .order_bytes = plan->order_bytes,
        .start = j->start + (size_t)(start * plan->columns + channel) * 4,
        .out = j->out + channel * (int64_t)qb_dtype_size(plan->epilogue.out),
        .residual = j->residual
                        ? j->residual + channel * (int64_t)qb_dtype_size(plan->epilogue.residual)
                        : NULL,
        .out_stride = plan->out_stride,
        .residual_stride = plan->residual_stride,
        .multiplier = j->multiplier + channel,
        .bias = plan->float_bias ? (const float *)(const void *)(j->packed + plan->bias) + channel
                                 : NULL,
        .epilogue = &plan->epilogue};
    for (int64_t t = 0, first = 0; t < tiles; t++) {
        int64_t end = n * (t + 1) / tiles; /* tiles of nearly equal size */
        tile.rows = (int)(end - first);
        tile.data = at->data + first;
        tile.pixel = at->pixel + first;
        if (r->indirect) {
            find_runs(j, &tile, at, first, group_offset, far);
            tile.data = far;
        } else if (group_offset != 0) {
            for (int i = 0; i < tile.rows; i++) shifted[i] = tile.data[i] + group_offset;
            tile.data = shifted;
        }
        plan->tile(&tile);
        first = end;
    }
}

static void run_task(int64_t task, void *argument) {
    const job *j = argument;
    const qb_conv_plan *plan = j->plan;
    const qb_conv_region *last = &plan->regions[plan->n_regions - 1];
    int64_t pixels = last->first_pixel + last->n_pixels;
    int64_t chunk = task / plan->n_block_groups, group = task % plan->n_block_groups;
    int64_t first = qb_part_begin(pixels, plan->n_chunks, chunk);
    int64_t end = qb_part_begin(pixels, plan->n_chunks, chunk + 1);
    int32_t block0 = (int32_t)qb_part_begin(plan->n_blocks, plan->n_block_groups, group);
    int32_t block1 = (int32_t)qb_part_begin(plan->n_blocks, plan->n_block_groups, group + 1);
    places at;
    for (int32_t i = 0; i < plan->n_regions; i++) {
        const qb_conv_region *r = &plan->regions[i];
        int64_t low = qb_max64(first, r->first_pixel);
        int64_t high = qb_min64(end, r->first_pixel + r->n_pixels);
        if (low >= high) continue;
        find_places(j, r, low - r->first_pixel, high - low, &at);
        for (int32_t b = block0; b < block1; b++)
            run_block(j, r, &plan->blocks[b], &at, high - low);
    }
}

/* The padded copy. */
typedef struct pad_job {
    const qb_conv_plan *plan;
    const char *data;
    char *out;
    int64_t rows_per_task;
} pad_job;

static void pad_row(const pad_job *j, int64_t row) {
    const qb_conv_plan *plan = j->plan;
    const int64_t y = row % plan->in[1] - plan->source_pad[1], planes = row / plan->in[1];
    const int64_t z = planes % plan->in[0] - plan->source_pad[0], image = planes / plan->in[0];
    const int64_t left = plan->source_pad[2] * plan->in_stride;
    char *to = j->out + row * plan->row_bytes;
    if (z < 0 || z >= plan->src[0] || y < 0 || y >= plan->src[1]) {
        memset(to, (uint8_t)plan->zero, (size_t)plan->row_bytes);
        return;
    }
    const int64_t line = (image * plan->src[0] + z) * plan->src[1] + y;
    const char *from = j->data + line * plan->src[2] * plan->src_stride;
    int64_t width = plan->src[2] * plan->in_stride;
    const size_t tight = (size_t)plan->channels * plan->element;
    memset(to, (uint8_t)plan->zero, (size_t)left);
    if (plan->per_unit == 2 && plan->channels % 2 != 0) memset(to + left, 0, (size_t)width);
    if (plan->src_stride == plan->in_stride)
        memcpy(to + left, from, (size_t)width);
    else
        for (int64_t x = 0; x < plan->src[2]; x++)
            memcpy(to + left + x * plan->in_stride, from + x * plan->src_stride, tight);
    memset(to + left + width, (uint8_t)plan->zero, (size_t)(plan->row_bytes - left - width));
}

/* Of the padded copy. */
static int64_t rows_of(const qb_conv_plan *plan) {
    return plan->images * plan->in[0] * plan->in[1];
}

size_t qb_conv_workspace(const qb_conv_plan *plan) {
    return plan->padded ? (size_t)(rows_of(plan) * plan->row_bytes) + QB_BUFFER_SLACK : 0;
}

static void pad_rows(int64_t task, void *argument) {
    const pad_job *j = argument;
    int64_t first = task * j->rows_per_task, rows = rows_of(j->plan);
    for (int64_t row = first; row < qb_min64(rows, first + j->rows_per_task); row++)
        pad_row(j, row);
}

static void pad(const qb_conv_plan *plan, const qb_launch *args, const char *data) {
    int64_t rows = rows_of(plan);
    pad_job j = {plan, data, args->workspace, qb_max64(1, PAD_BYTES / plan->row_bytes)};
    qb_workers_run(args->workers, qb_ceil64(rows, j.rows_per_task), pad_rows, &j);
}

qb_status qb_conv_launch_with(const qb_kernel *kernel, const qb_launch *args, const void *start,
                              const float *multiplier) {
    const qb_conv_plan *plan = kernel->state;
    const char *data = (const char *)args->in[QB_IN_DATA] + plan->src_offset;
    if (plan->padded) {
        pad(plan, args, data);
        data = args->workspace;
    }
    const char *packed = args->packed;
    const float *packed_multiplier = (const float *)(const void *)(packed + plan->multiplier);
    bool residual = plan->epilogue.residual != QB_DTYPE_NONE;
    job j = {.plan = plan,
             .data = data,
             .out = (char *)args->out + plan->out_offset,
             .residual =
                 residual ? (const char *)args->in[QB_IN_RESIDUAL] + plan->residual_offset : NULL,
             .packed = packed,
             .start = start,
             .multiplier = multiplier ? multiplier : packed_multiplier};
    qb_workers_run(args->workers, (int64_t)plan->n_chunks * plan->n_block_groups, run_task, &j);
    return QB_OK;
}

qb_status qb_conv_launch(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    const qb_conv_plan *plan = kernel->state;
    (void)cx;
    return qb_conv_launch_with(kernel, args, (const char *)args->packed + plan->start, NULL);
}

static void destroy(qb_kernel *kernel) { qb_conv_plan_free(kernel->state); }

static void finalize(qb_desc *desc) {
    if (desc->layout == QB_LAYOUT_ANY) desc->layout = QB_LAYOUT_NHWC;
}

void qb_conv_finalize(qb_kernel *kernel, const qb_conv_plan *plan) {
    if (plan->epilogue.residual == plan->epilogue.out &&
        plan->out_stride == plan->residual_stride && plan->out_offset == plan->residual_offset)
        kernel->in_place_inputs = 1u << QB_IN_RESIDUAL;
    for (int32_t i = 0; i < kernel->problem.n_in; i++)
        if (i == QB_IN_DATA || i == QB_IN_RESIDUAL) finalize(&kernel->in[i]);
    finalize(&kernel->problem.out);
}

qb_status qb_conv_create(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *p,
                         const bool *constant, int threads, const qb_conv_arch *arch,
                         qb_kernel **out) {
    QB_RELEASED(qb_kernel_free_at) qb_kernel *kernel = NULL;
    qb_conv_plan *plan;
    (void)constant;
    QB_TRY(qb_kernel_alloc(cx, tactic, p, &kernel));
    kernel->destroy = destroy;
    QB_TRY(qb_conv_plan_create(cx, p, arch, threads, &plan));
    kernel->state = plan;
    kernel->packed_bytes = plan->packed_bytes;
    kernel->packing_id = qb_conv_form(plan);
    kernel->packed_inputs = 1u << QB_IN_WEIGHT | 1u << QB_IN_BIAS;
    kernel->workspace_bytes = qb_conv_workspace(plan);
    kernel->pack = qb_conv_pack;
    kernel->launch = qb_conv_launch;
    qb_conv_finalize(kernel, plan);
    *out = QB_MOVE(kernel);
    return QB_OK;
}
