/* Convolutions by Winograd's algorithm: plan, weights, tasks.
 *
 * A task takes a chunk of tiles, whose transformed data stay in the second level cache, through
 * blocks of output columns: 16 products a block, then the transform back and the epilogue.
 * Transformed data lie in one of as many slots of the workspace as there are threads. */
#include <math.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "winograd_internal.h"

#define DATA_BYTES ((size_t)1 << 20)
#define WEIGHT_BYTES ((size_t)1 << 20) /* that stay there beside them */
#define MOST_SLOTS 64                  /* bits of the set of free ones */
#define MOST_TILES 256                 /* of a chunk */
#define LEAST_CHANNELS 16              /* below half their harmonic mean transforms cost too much */
#define LEAST_CHANNELS_S8 20           /* ... and direct sums of bytes less */
#define LEAST_TILES 16                 /* of an image: weights are read for so many at least */
#define LEAST_TILES_F32 32             /* ... that take twice the memory */
#define ALIASING_BYTES 2048            /* rows that are a multiple of this apart share cache sets */

typedef struct winograd {
    qb_conv_plan *plan; /* shapes, strides, blocks of columns, the epilogue */
    const qb_winograd_arch *arch;
    qb_epilogue sums_only;
    qb_run run;          /* all channels */
    int64_t segment;     /* see qb_tile */
    int64_t pad[2];      /* above and left of the data */
    int64_t rows, width; /* tiles of an image */
    int64_t tiles;       /* of all images */
    int64_t chunk;       /* most tiles of a task */
    int64_t n_chunks, n_block_groups;
    size_t tile_bytes; /* from one tile's data to the next in an element's plane */
    size_t element_bytes, sums_bytes, slot_bytes;
    size_t start, multiplier, bias, zeros, packed_bytes; /* offsets in packed; panels are at 0 */
    int n_slots;
    bool is_signed; /* integers: s8 */
} winograd;

static int64_t channel_limit(const qb_problem *p) {
    const bool narrow = qb_cpu_is_weight(&p->in[QB_IN_WEIGHT], p->in[QB_IN_WEIGHT].q.axis, false);
    return INT32_MAX / (4 * 9 * UINT8_MAX * (narrow ? 128 : UINT8_MAX));
}

/* What is faster so must not depend on the batch: floats are rounded in other places. */
bool qb_winograd_supports(const qb_problem *p, const bool *constant, qb_dtype data) {
    const qb_window *w = &p->window;
    const qb_shape *out = &p->out.shape;
    if (w->n != 2 || p->group != 1 || out->rank != 4 ||
        !qb_conv_supports(p, constant, data, data == QB_DTYPE_S8))
        return false;
    for (int d = 0; d < 2; d++)
        if (w->kernel[d] != 3 || w->stride[d] != 1 || w->dilation[d] != 1) return false;
    const int64_t tiles = qb_ceil64(out->dim[2], 2) * qb_ceil64(out->dim[3], 2);
    const int64_t channels = p->in[QB_IN_DATA].shape.dim[1];
    const int64_t least = data == QB_DTYPE_S8 ? LEAST_CHANNELS_S8 : LEAST_CHANNELS;
    return tiles >= (data == QB_DTYPE_S8 ? LEAST_TILES : LEAST_TILES_F32) &&
           channels * out->dim[1] >= least * (channels + out->dim[1]) &&
           (data != QB_DTYPE_S8 || channels <= channel_limit(p));
}

/* ---- plan ------------------------------------------------------------------------------------ */

static size_t panel_bytes(const winograd *w, const qb_conv_block *block) {
    return (size_t)w->run.units * (size_t)(block->vectors * w->arch->product->lanes) * 4;
}

/* Panels of a block's 16 elements lie behind those of the block before. */
static void lay_out_packed(winograd *w) {
    qb_conv_plan *plan = w->plan;
    size_t at = 0;
    for (int32_t b = 0; b < plan->n_blocks; b++) {
        plan->blocks[b].panel = at;
        at += panel_bytes(w, &plan->blocks[b]) * QB_WINOGRAD_PLANES;
    }
    const size_t row = qb_pad64((size_t)plan->columns * 4);
    w->start = qb_pad64(at);
    w->multiplier = w->start + row;
    w->bias = w->multiplier + row;
    w->zeros = w->bias + row;
    w->packed_bytes = w->zeros + qb_pad64((size_t)plan->channels * plan->element + QB_BUFFER_SLACK);
}

static void choose_tasks(winograd *w) {
    const qb_conv_plan *plan = w->plan;
    const int rows = w->arch->product->rows[2];
    const int64_t fit = (int64_t)(DATA_BYTES / (QB_WINOGRAD_PLANES * w->tile_bytes));
    const int64_t most = qb_min64(MOST_TILES, qb_max64(fit / rows, 1) * rows);
    const int threads = plan->threads;
    /* Weights that do not stay in the cache are shared out before tiles are. */
    const bool far = w->start > WEIGHT_BYTES && w->tiles <= most;
    const int64_t wanted = far ? 1 : qb_min64(threads, qb_ceil64(w->tiles, rows));
    w->n_chunks = far ? 1 : qb_parts(w->tiles, wanted, most, rows, threads);
    w->chunk = qb_ceil64(w->tiles, w->n_chunks);
    w->n_block_groups =
        w->n_chunks % threads == 0 ? 1 : qb_min64(plan->n_blocks, qb_ceil64(threads, w->n_chunks));
}

static void lay_out_slot(winograd *w) {
    size_t vectors = 0;
    for (int32_t b = 0; b < w->plan->n_blocks; b++)
        if ((size_t)w->plan->blocks[b].vectors > vectors)
            vectors = (size_t)w->plan->blocks[b].vectors;
    w->sums_bytes = vectors * (size_t)w->arch->product->lanes * 4;
    w->element_bytes = (size_t)w->chunk * w->tile_bytes;
    w->slot_bytes = QB_WINOGRAD_PLANES * (w->element_bytes + (size_t)w->chunk * w->sums_bytes);
    w->n_slots = (int)qb_min64(MOST_SLOTS, w->plan->threads);
}

static void describe(winograd *w, const qb_problem *p) {
    qb_conv_plan *plan = w->plan;
    const bool integer = plan->integer;
    const size_t size = integer ? 2 : 4, vector = (size_t)w->arch->product->lanes * 4;
    for (int d = 0; d < 2; d++) w->pad[d] = p->window.pad_begin[d];
    w->is_signed = p->in[QB_IN_DATA].dtype == QB_DTYPE_S8;
    w->rows = qb_ceil64(plan->out[1], QB_WINOGRAD_OUT);
    w->width = qb_ceil64(plan->out[2], QB_WINOGRAD_OUT);
    w->tiles = plan->images * w->rows * w->width;
    w->run.units = (int32_t)qb_ceil64(plan->channels, integer ? 2 : 1);
    w->segment = integer || plan->channels <= QB_CHAIN ? INT32_MAX : qb_ceil64(plan->channels, 4);
    w->tile_bytes = ((size_t)plan->channels * size + vector - 1) / vector * vector;
    if (w->tile_bytes % ALIASING_BYTES == 0) w->tile_bytes += 64;
    w->sums_only = (qb_epilogue){.out = integer ? QB_DTYPE_S32 : QB_DTYPE_F32,
                                 .residual = QB_DTYPE_NONE,
                                 .inverse = 1.0f,
                                 .low = -INFINITY,
                                 .high = INFINITY};
    lay_out_packed(w);
    choose_tasks(w);
    lay_out_slot(w);
}

/* ---- weights --------------------------------------------------------------------------------- */

/* G g G^T of one window, or 4 of it, row by row. */
static void transform_weights(const double g[9], double scale, double u[QB_WINOGRAD_PLANES]) {
    static const double G[4][3] = {{1, 0, 0}, {0.5, 0.5, 0.5}, {0.5, -0.5, 0.5}, {0, 0, 1}};
    for (int y = 0; y < 4; y++)
        for (int x = 0; x < 4; x++) {
            double sum = 0;
            for (int i = 0; i < 9; i++) sum += G[y][i / 3] * g[i] * G[x][i % 3];
            u[4 * y + x] = scale * sum;
        }
}

typedef struct pack_job {
    const winograd *w;
    const qb_problem *p;
    const void *weight;
    char *packed;
} pack_job;

static void pack_block(int64_t index, void *argument) {
    const pack_job *j = argument;
    const qb_conv_plan *plan = j->w->plan;
    const qb_conv_block *block = &plan->blocks[index];
    const size_t columns = (size_t)(block->vectors * plan->arch->lanes);
    const size_t panel = panel_bytes(j->w, block);
    char *to = j->packed + block->panel;
    memset(to, 0, panel * QB_WINOGRAD_PLANES);
    for (int32_t column = 0; column < block->width; column++)
        for (int64_t c = 0; c < plan->channels; c++) {
            const int64_t output = block->channel + column;
            const int64_t at = output * plan->weight_stride[0] + c * plan->weight_stride[1];
            double g[9], u[QB_WINOGRAD_PLANES];
            for (int i = 0; i < 9; i++)
                g[i] = plan->integer ? (double)qb_cpu_weight_at(&j->p->in[QB_IN_WEIGHT], j->weight,
                                                                at + i, output)
                                     : (double)((const float *)j->weight)[at + i];
            transform_weights(g, plan->integer ? 4 : 1, u);
            for (int e = 0; e < QB_WINOGRAD_PLANES; e++) {
                char *plane = to + (size_t)e * panel;
                if (plan->integer)
                    ((int16_t *)(void *)plane)[((size_t)(c / 2) * columns + (size_t)column) * 2 +
                                               (size_t)(c % 2)] = (int16_t)u[e];
                else
                    ((float *)(void *)plane)[(size_t)c * columns + (size_t)column] = (float)u[e];
            }
        }
}

static qb_status pack(qb_ctx *cx, const qb_kernel *kernel, const void *const *constants,
                      void *packed) {
    const winograd *w = kernel->state;
    const qb_conv_plan *plan = w->plan;
    const qb_problem *p = &kernel->problem;
    const bool has_bias = qb_problem_has(p, QB_IN_BIAS);
    const float *bias = has_bias ? constants[QB_IN_BIAS] : NULL;
    pack_job j = {w, p, constants[QB_IN_WEIGHT], packed};
    (void)cx;
    qb_workers_run(NULL, plan->n_blocks, pack_block, &j);
    memset(j.packed + w->start, 0, w->packed_bytes - w->start);
    if (has_bias && !plan->float_bias) memcpy(j.packed + w->start, bias, (size_t)plan->outputs * 4);
    if (plan->integer)
        qb_conv_pack_multipliers(plan, p, plan->float_bias ? bias : NULL,
                                 (float *)(void *)(j.packed + w->multiplier),
                                 (float *)(void *)(j.packed + w->bias));
    memset(j.packed + w->zeros, (uint8_t)plan->zero,
           (size_t)plan->channels * plan->element + QB_BUFFER_SLACK);
    return QB_OK;
}

/* ---- tasks ----------------------------------------------------------------------------------- */

typedef struct job {
    const winograd *w;
    const char *data, *residual, *packed;
    char *out, *workspace;
    atomic_uint_least64_t free_slots; /* a bit each */
} job;

/* As many tasks run as there are slots, but for more than MOST_SLOTS threads. */
static int take_slot(job *j) {
    for (;;) {
        uint64_t set = atomic_load_explicit(&j->free_slots, memory_order_relaxed);
        if (set == 0) {
            sched_yield();
            continue;
        }
        if (atomic_compare_exchange_weak_explicit(&j->free_slots, &set, set & (set - 1),
                                                  memory_order_acquire, memory_order_relaxed))
            return __builtin_ctzll(set);
    }
}

static void leave_slot(job *j, int slot) {
    atomic_fetch_or_explicit(&j->free_slots, UINT64_C(1) << slot, memory_order_release);
}

/* Where a tile is: its image and first output. */
typedef struct place {
    int64_t image, y, x;
} place;

static place place_of(const winograd *w, int64_t tile) {
    const int64_t row = tile / w->width;
    return (place){row / w->rows, row % w->rows * QB_WINOGRAD_OUT,
                   tile % w->width * QB_WINOGRAD_OUT};
}

static void transform_data(const job *j, int64_t first, int64_t n, char *to) {
    const winograd *w = j->w;
    const qb_conv_plan *plan = w->plan;
    qb_winograd_in in = {.channels = plan->channels,
                         .zero = plan->zero,
                         .is_signed = w->is_signed,
                         .plane = w->element_bytes};
    for (int64_t t = 0; t < n; t++) {
        const place at = place_of(w, first + t);
        for (int i = 0; i < QB_WINOGRAD_PLANES; i++) {
            const int64_t y = at.y - w->pad[0] + i / 4, x = at.x - w->pad[1] + i % 4;
            const bool there = y >= 0 && y < plan->src[1] && x >= 0 && x < plan->src[2];
            const int64_t pixel = (at.image * plan->src[1] + y) * plan->src[2] + x;
            in.from[i] = there ? j->data + pixel * plan->src_stride : j->packed + w->zeros;
        }
        in.to = to + (size_t)t * w->tile_bytes;
        w->arch->in(&in);
    }
}

/* The sums of a block's columns, for all elements and tiles of the chunk. */
static void multiply(const job *j, const qb_conv_block *block, int64_t n, const char *data,
                     char *sums) {
    static const char zeros[QB_TILE_VECTORS * 64];
    const winograd *w = j->w;
    const qb_conv_arch *product = w->arch->product;
    const char *from[QB_TILE_ROWS];
    int64_t at[QB_TILE_ROWS];
    qb_tile tile = {.vectors = block->vectors,
                    .width = block->vectors * product->lanes,
                    .fast = true,
                    .segment = w->segment,
                    .n_runs = 1,
                    .runs = &w->run,
                    .start = zeros,
                    .data = from,
                    .pixel = at,
                    .out_stride = (int64_t)w->sums_bytes,
                    .epilogue = &w->sums_only};
    const int64_t tiles = qb_ceil64(n, product->rows[block->vectors]);
    for (int e = 0; e < QB_WINOGRAD_PLANES; e++) {
        tile.panel = j->packed + block->panel + (size_t)e * panel_bytes(w, block);
        tile.out = sums + (size_t)(e * w->chunk) * w->sums_bytes;
        for (int64_t t = 0, first = 0; t < tiles; t++) {
            const int64_t end = n * (t + 1) / tiles;
            tile.rows = (int)(end - first);
            for (int i = 0; i < tile.rows; i++) {
                at[i] = first + i;
                from[i] = data + (size_t)e * w->element_bytes + (size_t)at[i] * w->tile_bytes;
            }
            product->tile(&tile);
            first = end;
        }
    }
}

static void run_epilogue(const job *j, const qb_conv_block *block, int64_t first, int64_t n,
                         const char *sums) {
    const winograd *w = j->w;
    const qb_conv_plan *plan = w->plan;
    const qb_epilogue *f = &plan->epilogue;
    const int64_t channel = block->channel;
    int64_t pixel[QB_WINOGRAD_OUT * QB_WINOGRAD_OUT];
    qb_tile tile = {
        .vectors = block->vectors,
        .width = block->width,
        .pixel = pixel,
        .out = j->out + channel * (int64_t)qb_dtype_size(f->out),
        .residual =
            j->residual ? j->residual + channel * (int64_t)qb_dtype_size(f->residual) : NULL,
        .out_stride = plan->out_stride,
        .residual_stride = plan->residual_stride,
        .multiplier = (const float *)(const void *)(j->packed + w->multiplier) + channel,
        .bias =
            plan->float_bias ? (const float *)(const void *)(j->packed + w->bias) + channel : NULL,
        .epilogue = f};
    qb_winograd_out out = {.plane = (size_t)w->chunk * w->sums_bytes,
                           .start = j->packed + w->start + channel * 4,
                           .tile = &tile};
    for (int64_t t = 0; t < n; t++) {
        const place at = place_of(w, first + t);
        out.rows = (int)qb_min64(QB_WINOGRAD_OUT, plan->out[1] - at.y);
        out.columns = (int)qb_min64(QB_WINOGRAD_OUT, plan->out[2] - at.x);
        tile.rows = 0;
        for (int y = 0; y < out.rows; y++)
            for (int x = 0; x < out.columns; x++)
                pixel[tile.rows++] = (at.image * plan->out[1] + at.y + y) * plan->out[2] + at.x + x;
        out.from = sums + (size_t)t * w->sums_bytes;
        w->arch->out(&out);
    }
}

static void run_task(int64_t task, void *argument) {
    job *j = argument;
    const winograd *w = j->w;
    const int64_t chunk = task / w->n_block_groups, group = task % w->n_block_groups;
    const int64_t first = qb_part_begin(w->tiles, w->n_chunks, chunk);
    const int64_t n = qb_part_begin(w->tiles, w->n_chunks, chunk + 1) - first;
    const int64_t end = qb_part_begin(w->plan->n_blocks, w->n_block_groups, group + 1);
    const int slot = take_slot(j);
    char *data = j->workspace + (size_t)slot * w->slot_bytes;
    char *sums = data + QB_WINOGRAD_PLANES * w->element_bytes;
    transform_data(j, first, n, data);
    for (int64_t b = qb_part_begin(w->plan->n_blocks, w->n_block_groups, group); b < end; b++) {
        multiply(j, &w->plan->blocks[b], n, data, sums);
        run_epilogue(j, &w->plan->blocks[b], first, n, sums);
    }
    leave_slot(j, slot);
}

static qb_status launch(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    const winograd *w = kernel->state;
    const qb_conv_plan *plan = w->plan;
    (void)cx;
    job j = {.w = w,
             .data = (const char *)args->in[QB_IN_DATA] + plan->src_offset,
             .packed = args->packed,
             .out = (char *)args->out + plan->out_offset,
             .workspace = args->workspace};
    if (plan->epilogue.residual != QB_DTYPE_NONE)
        j.residual = (const char *)args->in[QB_IN_RESIDUAL] + plan->residual_offset;
    atomic_init(&j.free_slots,
                w->n_slots == MOST_SLOTS ? UINT64_MAX : (UINT64_C(1) << w->n_slots) - 1);
    qb_workers_run(args->workers, w->n_chunks * w->n_block_groups, run_task, &j);
    return QB_OK;
}

static void destroy(qb_kernel *kernel) {
    winograd *w = kernel->state;
    if (w) qb_conv_plan_free(w->plan);
    qb_free(w);
}

qb_status qb_winograd_create(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *p, int threads,
                             const qb_winograd_arch *arch, qb_kernel **out) {
    QB_RELEASED(qb_kernel_free_at) qb_kernel *kernel = NULL;
    QB_TRY(qb_cpu_kernel_create(cx, tactic, p, sizeof(winograd), &kernel));
    winograd *w = kernel->state;
    kernel->destroy = destroy;
    w->arch = arch;
    QB_TRY(qb_conv_plan_create(cx, p, arch->product, threads, &w->plan));
    describe(w, p);
    kernel->packed_bytes = w->packed_bytes;
    kernel->packing_id = qb_packing_add(1, (uint64_t)w->run.units);
    kernel->packed_inputs = 1u << QB_IN_WEIGHT | 1u << QB_IN_BIAS;
    kernel->workspace_bytes = (size_t)w->n_slots * w->slot_bytes;
    qb_conv_finalize(kernel, w->plan);
    kernel->pack = pack;
    kernel->launch = launch;
    *out = QB_MOVE(kernel);
    return QB_OK;
}
