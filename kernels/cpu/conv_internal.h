/* Convolution as an implicit matrix product over channels-last data, shared by all instruction
 * sets; MATMUL with a constant right side is the case of a 1x1 window.
 *
 * Output pixels are rows, output channels are columns. Weights are packed into panels of a few
 * vectors of columns; a tile of up to QB_TILE_ROWS pixels keeps all its sums in registers while it
 * walks over the window. What it walks over is a list of runs: stretches of memory, relative to the
 * pixel, that lie next to each other in both the data and the panel. Nothing is copied (no im2col).
 *
 * Order of summation for each output: kernel z, y, x, channel, one fused multiply-add after
 * another, in four segments when there are more than QB_CHAIN. It does not depend on tiles, threads
 * or the batch, so float results are the same bits for all.
 *
 * Borders: the output is cut into regions in which the same kernel planes, rows and columns can lie
 * inside the data. Taps outside for all pixels of a region are not computed at all; where they are
 * outside for some (corners), those pixels read a row of zeros (of zero points) instead. */
#ifndef QB_CPU_CONV_INTERNAL_H
#define QB_CPU_CONV_INTERNAL_H

#include "cpu_internal.h"

#define QB_TILE_ROWS 24
#define QB_TILE_VECTORS 3
#define QB_CHUNK 504 /* most pixels of one task: whole tiles of 24, 14 and 9 rows */
#define QB_CHAIN                                                                                   \
    256 /* float products: longer sums are cut in four, for the error grows with length */
#define QB_TILE_TAPS 64 /* most kernel elements for which border pixels read zeros */

typedef struct qb_run {
    int32_t units;          /* steps of 4 bytes of data */
    int32_t weight;         /* bytes from the panel's start */
    int64_t data;           /* bytes from the pixel's first window element */
    int16_t at[QB_SPATIAL]; /* kernel element (of its first element) */
} qb_run;

/* Where a panel begins that has an order: for each of its units, in the order in which its run adds
 * them up, where the unit's data lie. The first units of a run may have their weights as bytes. */
typedef struct qb_unit_order {
    int32_t data;   /* bytes from where the run's data begin */
    int32_t narrow; /* at a run's first unit: units with bytes */
} qb_unit_order;

typedef struct qb_tile {
    int rows, vectors, width; /* width: columns to store */
    bool indirect;
    bool fast; /* whole vectors, the usual types, nothing in the epilogue but bounds and a residual
                */
    int64_t segment; /* units that are summed up before they are added to the others */
    int32_t n_runs;
    const qb_run *runs;
    const char *panel;
    size_t order_bytes;      /* of the panel's qb_unit_order */
    const void *start;       /* sums begin here: bias and zero point correction */
    const char *const *data; /* [rows] pixels; indirect: [n_runs * rows] starts of runs */
    const int64_t *pixel;    /* [rows] index of the output pixel */
    char *out;               /* column 0 of pixel 0 */
    const char *residual;
    int64_t out_stride, residual_stride; /* bytes between pixels */
    const float *multiplier;             /* integer: by column */
    const float *bias;                   /* integer with a float bias: by column, else NULL */
    const qb_epilogue *epilogue;
} qb_tile;

/* One way to compute tiles. */
typedef struct qb_conv_arch {
    bool integer;
    bool wide_weights; /* panels hold weights of 16 bits */
    bool ordered;      /* panels have an order, and no run is longer than a kernel element */
    bool flips;        /* tile_s8 reads s8 data as u8 by flipping the sign bit: zero point + 128 */
    int lanes;         /* columns in a vector */
    int column_bytes;  /* of one unit of one column in a panel, at least 4 */
    bool wide;         /* blocks of three vectors go faster than those of two */
    int rows[QB_TILE_VECTORS + 1]; /* most rows by number of vectors; 0: not that many */
    /* Integer panels in another form than four quantized values a column, one after the other:
     * writes those of one column into a unit of a block. May be NULL. */
    void (*spread)(char *unit, int column, const int16_t code[4]);
    void (*tile)(const qb_tile *tile);
    void (*tile_s8)(const qb_tile *tile); /* the same for s8 data; NULL for floats */
} qb_conv_arch;

extern const qb_conv_arch qb_conv_f32_avx512, qb_conv_f32_avx2, qb_conv_f32_generic;
extern const qb_conv_arch qb_conv_bf16_avx512_bf16;
extern const qb_conv_arch qb_conv_s8_avx512_vnni, qb_conv_s8_avx512, qb_conv_s8_avx2_vnni,
    qb_conv_s8_avx2, qb_conv_s8_sse2, qb_conv_s8_generic;
extern const qb_conv_arch qb_conv_s16_avx512, qb_conv_s16_avx2; /* tiles of winograd_internal.h */
/* The first of them that runs here, for f32, bf16 or 8-bit data and the problem's
 * weight. */
const qb_conv_arch *qb_conv_best(const qb_problem *p);

/* `data`: F32, BF16 (constants in f32, residual and result in either) or S8 (quantized values). */
/* `wide`: with any quantized weight (qb_cpu_is_weight), which a product always takes. */
bool qb_conv_supports(const qb_problem *p, const bool *constant, qb_dtype data, bool wide);
bool qb_matmul_supports(const qb_problem *p, const bool *constant, qb_dtype data);
/* For both kinds. */
qb_status qb_conv_create(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *p,
                         const bool *constant, int threads, const qb_conv_arch *arch,
                         qb_kernel **out);

/* ---- the plan (conv_plan.c) ------------------------------------------------------------------ */

typedef struct qb_conv_block {              /* columns that share a panel */
    int32_t group, channel, width, vectors; /* channel: of the whole output */
    size_t panel;                           /* offset in packed */
} qb_conv_block;

typedef struct qb_conv_region { /* a box of output pixels, of all images */
    int64_t first[QB_SPATIAL], end[QB_SPATIAL];
    int32_t tap[QB_SPATIAL], tap_end[QB_SPATIAL]; /* taps that lie inside the data for at least one
                                                     pixel */
    bool indirect;                                /* ... but not for all */
    int32_t first_run, n_runs;
    int64_t first_pixel, n_pixels; /* in the order of regions */
} qb_conv_region;

typedef struct qb_conv_plan {
    const qb_conv_arch *arch;
    void (*tile)(const qb_tile *tile);
    bool integer, padded, flipped, is_matrix,
        plain_epilogue; /* plain_epilogue: what qb_tile.fast needs of the problem */
    int64_t images, in[QB_SPATIAL], out[QB_SPATIAL]; /* in: after padding when padded */
    int64_t src[QB_SPATIAL];                         /* before padding */
    int64_t channels, group_channels, outputs, groups;
    int64_t kernel[QB_SPATIAL], stride[QB_SPATIAL], dilation[QB_SPATIAL], pad[QB_SPATIAL];
    int64_t in_stride, in_offset, out_stride, out_offset, residual_stride,
        residual_offset; /* bytes */
    int64_t src_stride, src_offset, source_pad[QB_SPATIAL];
    size_t element;     /* bytes of a data element */
    int32_t zero;       /* of the data */
    int64_t segment;    /* see qb_tile */
    int64_t per_unit;   /* elements in a unit of 4 bytes */
    size_t order_bytes; /* of a panel, see qb_unit_order */
    int64_t tap_units;  /* units of one kernel element; merged rows: see run_units */
    bool merged;        /* one run a kernel row */
    int64_t row_bytes, plane_bytes, kernel_rows, row_units, total_units;
    int32_t n_blocks, n_regions, n_runs, n_starts, n_chunks, n_block_groups;
    qb_conv_block *blocks;
    qb_conv_region *regions;
    qb_run *runs;
    size_t start, multiplier, bias, zeros, packed_bytes; /* offsets in packed */
    int64_t columns;          /* padded number of columns of all blocks */
    int64_t weight_stride[2]; /* elements: output, channel; kernel elements are neighbours */
    float factor;             /* of a MATMUL */
    bool float_bias;          /* integer kernel with float bias */
    qb_epilogue epilogue;
    int threads;
} qb_conv_plan;

qb_status qb_conv_plan_create(qb_ctx *cx, const qb_problem *p, const qb_conv_arch *arch,
                              int threads, qb_conv_plan **out);
void qb_conv_plan_free(qb_conv_plan *plan);
QB_RELEASE_AT(qb_conv_plan, qb_conv_plan_free)

/* Bytes that one launch needs beside its data: the padded copy. */
size_t qb_conv_workspace(const qb_conv_plan *plan);
/* qb_kernel.packing_id of a plan. */
uint64_t qb_conv_form(const qb_conv_plan *plan);
qb_status qb_conv_pack(qb_ctx *cx, const qb_kernel *kernel, const void *const *constants,
                       void *packed);
/* Packs what a launch computed itself for a CONV kernel of this backend, into its workspace; by all
 * workers where the kernel is one of these plans. */
qb_status qb_conv_pack_computed(qb_ctx *cx, qb_workers *workers, const qb_kernel *kernel,
                                const void *const *constants, void *packed);
/* Weight and bias as constants, for qb_tactic.supports and create, and as the only inputs that must
 * be row-major where they are none. */
/* What sums of integers are multiplied with, and their float bias or NULL: plan->columns of each.
 */
void qb_conv_pack_multipliers(const qb_conv_plan *plan, const qb_problem *p, const float *bias,
                              float *multiplier, float *to_bias);
/* Layouts of the kernel's problem, and whether the result may take the residual's place. */
void qb_conv_finalize(qb_kernel *kernel, const qb_conv_plan *plan);
extern const bool qb_conv_known[QB_MAX_INPUTS];
bool qb_conv_has_plain_constants(const qb_problem *p);
qb_status qb_conv_launch(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args);
/* The same for MATMUL of quantized values with constants of this launch instead of those that were
 * packed, plan->columns of each: where sums begin, and what they are multiplied with (NULL: as
 * packed). */
qb_status qb_conv_launch_with(const qb_kernel *kernel, const qb_launch *args, const void *start,
                              const float *multiplier);

#endif
