/* The INT8 and f16 convolutions of this folder as tactics. INT8 activations without exact
 * arithmetic on the device (exp, tanh, erf) have rows of their own, which promise results within
 * one code. */
#include <string.h>

#include "kernels/cuda/code.h"
#include "kernels/cuda/conv.h"
#include "kernels/cuda/real.h"
#include "kernels/tactic.h"

#define MAX_SPLITS 32
#define STEPS_PER_SPLIT 2 /* at least, of 64 bytes of K */

typedef struct conv_way {
    qb_cuda_form form;
    int32_t rows, block_n, block_k;
    qb_cuda_need need; /* of the device */
    bool smooth;       /* takes the activations that are not exact, and no others */
    bool general;      /* has kernels of the modes GENERAL, REAL, SILU and GELU */
    bool half;         /* f16 data */
    int32_t resident;  /* groups of warps of the kernel that keeps the weight; 0: another one */
    bool window;       /* brings a box for each column of the window */
    bool split;        /* shares K among blocks; only where the grid would not fill the device */
    qb_cuda_mma_tile tile;
    int (*prepare)(qb_cuda_mode mode);
    int (*run)(const qb_cuda_conv *conv, const qb_cuda_conv_io *io, const qb_cuda_encode *encode,
               int32_t multiprocessors, void *stream);
} conv_way;

typedef struct conv_state {
    const conv_way *way;
    qb_cuda_conv conv;
    qb_cuda_encode encode;
    int32_t multiprocessors;
} conv_state;

static bool in_byte(int64_t low, int64_t high) { return low >= INT8_MIN && high <= INT8_MAX; }

/* What the copy engine's im2col addresses can express. */
static bool copy_engine_fits(const qb_cuda_conv *c) {
    int64_t upper_w = (int64_t)(c->out_w - 1) * c->stride_w - c->pad_w + 1 - c->in_w;
    int64_t upper_h = (int64_t)(c->out_h - 1) * c->stride_h - c->pad_h + 1 - c->in_h;
    return c->stride_w <= 8 && c->stride_h <= 8 && in_byte(-c->pad_w, upper_w) &&
           in_byte(-c->pad_h, upper_h) && in_byte(upper_w, -c->pad_w) &&
           in_byte(upper_h, -c->pad_h) && (c->kernel_w - 1) * c->dilation_w <= UINT8_MAX &&
           (c->kernel_h - 1) * c->dilation_h <= UINT8_MAX;
}

bool qb_cuda_stem_fits(const qb_cuda_conv *c) {
    return c->kernel_w <= 8 && (c->stride_w == 1 || c->stride_w == 2 || c->stride_w == 4) &&
           c->in_total == c->in_c &&
           (c->mode == QB_CUDA_PLAIN || c->mode == QB_CUDA_PLAIN_ZERO ||
            (c->mode == QB_CUDA_GENERAL && c->real)) &&
           QB_CUDA_STEM_SHARED(c) <= QB_CUDA_STEM_SHARED_MOST;
}

/* What the kernels that keep the weight can: see conv_wgmma_resident.cuh. */
static bool resident_fits(const conv_way *way, const qb_cuda_conv *c) {
    return c->kernel_h * c->kernel_w == 1 && c->mode <= QB_CUDA_RESIDUAL_ZERO &&
           qb_cuda_resident_places(c, way->block_n, way->block_k, way->resident) >=
               QB_CUDA_RESIDENT_LEAST;
}

static bool way_takes(const conv_way *way, const qb_problem *problem, const bool *constant,
                      qb_cuda_conv *conv) {
    bool smooth = !way->half && qb_cuda_is_smooth(problem->act.kind);
    if (problem->kind != QB_KIND_CONV || smooth != way->smooth) return false;
    if (!qb_cuda_conv_of(problem, constant, way->form, way->half ? way->block_k / 2 : way->block_k,
                         way->block_n, conv))
        return false;
    if (conv->half != way->half || (conv->narrow && way->need.wgmma)) return false;
    bool long_code = conv->brief == QB_CUDA_GENERAL || conv->brief == QB_CUDA_REAL;
    if (long_code && !way->general) return false;
    /* a narrower tile does the same with less waste */
    if (way->block_n > 64 && conv->out_c <= way->block_n / 2) return false;
    if (way->block_k > 64 && conv->in_c <= 64 && !way->half) return false;
    if (way->form == QB_CUDA_FORM_STEM_FILLED) return qb_cuda_stem_fits(conv);
    if (way->resident && !resident_fits(way, conv)) return false;
    qb_cuda_boxes boxes;
    if (way->window) return qb_cuda_boxes_of(conv, way->block_n, way->rows, &boxes);
    return way->need.wgmma ? copy_engine_fits(conv) : true;
}

/* Doubling the blocks until they fill the device, as long as each has some of K. */
static int32_t choose_splits(const conv_way *way, const qb_cuda_conv *c, int32_t multiprocessors) {
    int64_t tiles = (int64_t)(c->n_pad / way->block_n) * ((c->rows + way->rows - 1) / way->rows);
    int64_t steps = (int64_t)c->kernel_h * c->kernel_w * (c->k_pad / way->block_k);
    int32_t splits = 1;
    while (tiles * splits < multiprocessors && splits * 2 <= MAX_SPLITS &&
           steps / (splits * 2) >= STEPS_PER_SPLIT)
        splits *= 2;
    return splits;
}

/* Asks for the shared memory that the kernel needs: the first time loads its code, on each device,
 * so that this is left to the first launch. */
static int prepare(const conv_state *state) {
    const conv_way *way = state->way;
    const qb_cuda_mode mode = (qb_cuda_mode)state->conv.brief;
    if (way->prepare) return way->prepare(mode);
    return way->form == QB_CUDA_FORM_TENSOR ? qb_cuda_conv_mma_prepare(way->tile, mode) : 0;
}

static qb_status launch(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    const conv_state *state = kernel->state;
    const qb_problem *p = &kernel->problem;
    QB_TRY(qb_cuda_check(cx, prepare(state), kernel->tactic->name));
    qb_cuda_conv_io io = {.in = args->in[QB_IN_DATA],
                          .residual =
                              qb_problem_has(p, QB_IN_RESIDUAL) ? args->in[QB_IN_RESIDUAL] : NULL,
                          .out = args->out,
                          .packed = args->packed,
                          .workspace = args->workspace};
    int code = state->way->run ? state->way->run(&state->conv, &io, &state->encode,
                                                 state->multiprocessors, args->stream)
               : state->way->form == QB_CUDA_FORM_DIRECT
                   ? qb_cuda_conv_direct(&state->conv, &io, args->stream)
                   : qb_cuda_conv_mma(state->way->tile, &state->conv, &io, args->stream);
    return qb_cuda_check(cx, code, kernel->tactic->name);
}

static qb_status pack(qb_ctx *cx, const qb_kernel *kernel, const void *const *constants,
                      void *packed) {
    (void)cx;
    const conv_state *state = kernel->state;
    qb_cuda_conv_pack(&kernel->problem, &state->conv, state->way->form, constants, packed);
    return QB_OK;
}

static void destroy(qb_kernel *kernel) { qb_free(kernel->state); }

/* Looks at the device: is it one that the way runs on? */
static qb_status open_way(qb_ctx *cx, const qb_tactic *tactic, conv_state *state) {
    const conv_way *way = state->way;
    qb_cuda_device device;
    QB_TRY(qb_cuda_current(cx, &device));
    QB_TRY(qb_cuda_need_check(cx, tactic->name, &way->need, &device));
    state->multiprocessors = device.multiprocessors;
    if (way->split) {
        state->conv.splits = choose_splits(way, &state->conv, device.multiprocessors);
        if (state->conv.splits < 2)
            return qb_fail(cx, QB_STATUS_UNSUPPORTED, "%s: nothing to split", tactic->name);
    }
    return way->prepare ? qb_cuda_encode_find(cx, &state->encode) : QB_OK;
}

static qb_status create(qb_ctx *cx, const qb_tactic *tactic, const conv_way *way,
                        const qb_problem *problem, const bool *constant, qb_kernel **out) {
    conv_state state = {.way = way};
    if (!way_takes(way, problem, constant, &state.conv))
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "%s: not for this problem", tactic->name);
    QB_TRY(open_way(cx, tactic, &state));
    qb_kernel *kernel;
    QB_TRY(qb_kernel_alloc(cx, tactic, problem, &kernel));
    kernel->state = qb_alloc(cx, 1, sizeof state);
    if (!kernel->state) {
        qb_kernel_free(kernel);
        return QB_STATUS_NOMEM;
    }
    memcpy(kernel->state, &state, sizeof state);
    for (int32_t i = 0; i < problem->n_in; i++)
        if (kernel->in[i].layout == QB_LAYOUT_ANY)
            kernel->in[i].layout =
                i == QB_IN_DATA || i == QB_IN_RESIDUAL ? QB_LAYOUT_NHWC : QB_LAYOUT_ROW;
    kernel->problem.out.layout = QB_LAYOUT_NHWC;
    kernel->packed_bytes = (size_t)state.conv.packed_bytes;
    kernel->packed_form = qb_cuda_conv_packed_form(&state.conv);
    kernel->packed_inputs = (uint64_t)1 << QB_IN_WEIGHT;
    if (qb_problem_has(problem, QB_IN_BIAS)) kernel->packed_inputs |= (uint64_t)1 << QB_IN_BIAS;
    if (state.conv.splits > 1)
        kernel->workspace_bytes =
            (size_t)state.conv.splits * (size_t)state.conv.rows * (size_t)state.conv.n_pad * 4;
    kernel->pack = pack;
    kernel->launch = launch;
    kernel->destroy = destroy;
    *out = kernel;
    return QB_OK;
}

/* supports and create of tactic SYMBOL, which goes WAY. */
#define CONV_FUNCTIONS(SYMBOL, ...)                                                                \
    static const conv_way SYMBOL##_way = {__VA_ARGS__};                                            \
    static bool SYMBOL##_supports(const qb_problem *problem, const bool *constant) {               \
        qb_cuda_conv conv;                                                                         \
        return way_takes(&SYMBOL##_way, problem, constant, &conv);                                 \
    }                                                                                              \
    static qb_status SYMBOL##_create(qb_ctx *cx, const qb_tactic *tactic,                          \
                                     const qb_problem *problem, const bool *constant, int threads, \
                                     qb_kernel **out) {                                            \
        (void)threads;                                                                             \
        return create(cx, tactic, &SYMBOL##_way, problem, constant, out);                          \
    }
#define CONV_FIELDS(SYMBOL, NAME, EXACTNESS)                                                       \
    .name = "cuda.conv_" NAME, .backend = "cuda", .kind = QB_KIND_CONV, .exactness = EXACTNESS,    \
    .device_memory = true, .supports = SYMBOL##_supports, .create = SYMBOL##_create

#ifdef QB_HAVE_WGMMA
#define WGMMA_RUN(NAME, M, N, K)                                                                   \
    .prepare = qb_cuda_conv_##NAME##_##M##x##N##x##K##_prepare,                                    \
    .run = qb_cuda_conv_##NAME##_##M##x##N##x##K
#define STEM_WGMMA_RUN .prepare = qb_cuda_conv_stem_wgmma_prepare, .run = qb_cuda_conv_stem_wgmma
#else
#define WGMMA_RUN(NAME, M, N, K) .run = NULL
#define STEM_WGMMA_RUN .run = NULL
#endif
#define WGMMA(M, N, K, SMOOTH, GENERAL)                                                            \
    .form = QB_CUDA_FORM_TENSOR, .rows = M, .block_n = N, .block_k = K,                            \
    .need = {.wgmma = true, .shared_bytes = QB_CUDA_WGMMA_SHARED}, .smooth = SMOOTH,               \
    .general = GENERAL, WGMMA_RUN(wgmma, M, N, K)
#define RESIDENT(N, K, GROUPS)                                                                     \
    .form = QB_CUDA_FORM_TENSOR, .rows = 64, .block_n = N, .block_k = K, .resident = GROUPS,       \
    .need = {.wgmma = true, .shared_bytes = QB_CUDA_WGMMA_SHARED}, WGMMA_RUN(resident, 64, N, K)
#define WINDOW(PIXELS, N, SMOOTH)                                                                  \
    .form = QB_CUDA_FORM_TENSOR, .rows = PIXELS, .block_n = N, .block_k = 64, .smooth = SMOOTH,    \
    .window = true, .need = {.wgmma = true, .shared_bytes = QB_CUDA_WGMMA_SHARED},                 \
    WGMMA_RUN(window, PIXELS, N, 64)
#define HALF(M, N, K)                                                                              \
    .form = QB_CUDA_FORM_TENSOR, .half = true, .rows = M, .block_n = N, .block_k = K,              \
    .need = {.wgmma = true, .shared_bytes = QB_CUDA_WGMMA_SHARED}, WGMMA_RUN(half, M, N, K)
#define MMA(M, N, SMOOTH, SPLIT)                                                                   \
    .form = QB_CUDA_FORM_TENSOR, .rows = M, .block_n = N, .block_k = 64,                           \
    .need = {.shared_bytes = QB_CUDA_MMA_SHARED(M, N)}, .smooth = SMOOTH, .general = true,         \
    .split = SPLIT, .tile = QB_CUDA_MMA_##M##X##N
#define DEPTHWISE(SMOOTH, HALF)                                                                    \
    .form = QB_CUDA_FORM_DEPTHWISE, .half = HALF, .smooth = SMOOTH, .rows = 1, .block_n = 8,       \
    .block_k = 1, .general = true, .run = qb_cuda_conv_depthwise
#define STEM(SMOOTH, HALF)                                                                         \
    .form = QB_CUDA_FORM_STEM, .half = HALF, .smooth = SMOOTH, .rows = 1, .block_n = 64,           \
    .block_k = 1, .general = true, .run = qb_cuda_conv_stem
#define STEM_WGMMA(SMOOTH)                                                                         \
    .form = QB_CUDA_FORM_STEM_FILLED, .smooth = SMOOTH, .general = true, .rows = 1, .block_n = 64, \
    .block_k = 1, .need = {.wgmma = true, .shared_bytes = QB_CUDA_STEM_SHARED_MOST},               \
    STEM_WGMMA_RUN
#define DIRECT(SMOOTH)                                                                             \
    .form = QB_CUDA_FORM_DIRECT, .rows = 1, .block_n = 1, .block_k = 1, .smooth = SMOOTH,          \
    .general = true

CONV_FUNCTIONS(wgmma_128x128x128, WGMMA(128, 128, 128, false, true))
const qb_tactic qb_tactic_cuda_conv_s8_wgmma_128x128x128 = {
    CONV_FIELDS(wgmma_128x128x128, "s8.wgmma_nhwc_128x128x128", QB_EXACT)};

CONV_FUNCTIONS(wgmma_256x128x128, WGMMA(256, 128, 128, false, true))
const qb_tactic qb_tactic_cuda_conv_s8_wgmma_256x128x128 = {
    CONV_FIELDS(wgmma_256x128x128, "s8.wgmma_nhwc_256x128x128", QB_EXACT)};

CONV_FUNCTIONS(wgmma_128x256x128, WGMMA(128, 256, 128, false, true))
const qb_tactic qb_tactic_cuda_conv_s8_wgmma_128x256x128 = {
    CONV_FIELDS(wgmma_128x256x128, "s8.wgmma_nhwc_128x256x128", QB_EXACT)};

CONV_FUNCTIONS(wgmma_64x128x128, WGMMA(64, 128, 128, false, false))
const qb_tactic qb_tactic_cuda_conv_s8_wgmma_64x128x128 = {
    CONV_FIELDS(wgmma_64x128x128, "s8.wgmma_nhwc_64x128x128", QB_EXACT)};

CONV_FUNCTIONS(wgmma_64x128x64, WGMMA(64, 128, 64, false, false))
const qb_tactic qb_tactic_cuda_conv_s8_wgmma_64x128x64 = {
    CONV_FIELDS(wgmma_64x128x64, "s8.wgmma_nhwc_64x128x64", QB_EXACT)};

CONV_FUNCTIONS(wgmma_256x64x64, WGMMA(256, 64, 64, false, false))
const qb_tactic qb_tactic_cuda_conv_s8_wgmma_256x64x64 = {
    CONV_FIELDS(wgmma_256x64x64, "s8.wgmma_nhwc_256x64x64", QB_EXACT)};

CONV_FUNCTIONS(wgmma_128x64x128, WGMMA(128, 64, 128, false, false))
const qb_tactic qb_tactic_cuda_conv_s8_wgmma_128x64x128 = {
    CONV_FIELDS(wgmma_128x64x128, "s8.wgmma_nhwc_128x64x128", QB_EXACT)};

CONV_FUNCTIONS(wgmma_128x64x64, WGMMA(128, 64, 64, false, true))
const qb_tactic qb_tactic_cuda_conv_s8_wgmma_128x64x64 = {
    CONV_FIELDS(wgmma_128x64x64, "s8.wgmma_nhwc_128x64x64", QB_EXACT)};

CONV_FUNCTIONS(resident_64x64x64, RESIDENT(64, 64, 4))
const qb_tactic qb_tactic_cuda_conv_s8_resident_64x64x64 = {
    CONV_FIELDS(resident_64x64x64, "s8.wgmma_resident_nhwc_64x64x64", QB_EXACT)};

CONV_FUNCTIONS(resident_64x64x128, RESIDENT(64, 128, 4))
const qb_tactic qb_tactic_cuda_conv_s8_resident_64x64x128 = {
    CONV_FIELDS(resident_64x64x128, "s8.wgmma_resident_nhwc_64x64x128", QB_EXACT)};

CONV_FUNCTIONS(resident_64x128x64, RESIDENT(128, 64, 3))
const qb_tactic qb_tactic_cuda_conv_s8_resident_64x128x64 = {
    CONV_FIELDS(resident_64x128x64, "s8.wgmma_resident_nhwc_64x128x64", QB_EXACT)};

CONV_FUNCTIONS(resident_64x128x128, RESIDENT(128, 128, 3))
const qb_tactic qb_tactic_cuda_conv_s8_resident_64x128x128 = {
    CONV_FIELDS(resident_64x128x128, "s8.wgmma_resident_nhwc_64x128x128", QB_EXACT)};

CONV_FUNCTIONS(window_256x64, WINDOW(256, 64, false))
const qb_tactic qb_tactic_cuda_conv_s8_window_256x64 = {
    CONV_FIELDS(window_256x64, "s8.wgmma_window_nhwc_256x64x64", QB_EXACT)};

CONV_FUNCTIONS(window_128x128, WINDOW(128, 128, false))
const qb_tactic qb_tactic_cuda_conv_s8_window_128x128 = {
    CONV_FIELDS(window_128x128, "s8.wgmma_window_nhwc_128x128x64", QB_EXACT)};

CONV_FUNCTIONS(window_256x64_smooth, WINDOW(256, 64, true))
const qb_tactic qb_tactic_cuda_conv_s8_window_256x64_smooth = {
    CONV_FIELDS(window_256x64_smooth, "s8.wgmma_window_nhwc_256x64x64_smooth", QB_WITHIN_1_LSB)};

CONV_FUNCTIONS(window_128x128_smooth, WINDOW(128, 128, true))
const qb_tactic qb_tactic_cuda_conv_s8_window_128x128_smooth = {
    CONV_FIELDS(window_128x128_smooth, "s8.wgmma_window_nhwc_128x128x64_smooth", QB_WITHIN_1_LSB)};

CONV_FUNCTIONS(wgmma_smooth, WGMMA(128, 64, 64, true, true))
const qb_tactic qb_tactic_cuda_conv_s8_wgmma_smooth = {
    CONV_FIELDS(wgmma_smooth, "s8.wgmma_nhwc_128x64x64_smooth", QB_WITHIN_1_LSB)};

CONV_FUNCTIONS(wgmma_smooth_wide, WGMMA(128, 128, 128, true, true))
const qb_tactic qb_tactic_cuda_conv_s8_wgmma_smooth_wide = {
    CONV_FIELDS(wgmma_smooth_wide, "s8.wgmma_nhwc_128x128x128_smooth", QB_WITHIN_1_LSB)};

CONV_FUNCTIONS(wgmma_smooth_tall, WGMMA(256, 128, 128, true, true))
const qb_tactic qb_tactic_cuda_conv_s8_wgmma_smooth_tall = {
    CONV_FIELDS(wgmma_smooth_tall, "s8.wgmma_nhwc_256x128x128_smooth", QB_WITHIN_1_LSB)};

CONV_FUNCTIONS(wgmma_smooth_broad, WGMMA(128, 256, 128, true, true))
const qb_tactic qb_tactic_cuda_conv_s8_wgmma_smooth_broad = {
    CONV_FIELDS(wgmma_smooth_broad, "s8.wgmma_nhwc_128x256x128_smooth", QB_WITHIN_1_LSB)};

CONV_FUNCTIONS(mma_128x128, MMA(128, 128, false, false))
const qb_tactic qb_tactic_cuda_conv_s8_mma_128x128 = {
    CONV_FIELDS(mma_128x128, "s8.mma_nhwc_128x128x64", QB_EXACT)};

CONV_FUNCTIONS(mma_128x64, MMA(128, 64, false, false))
const qb_tactic qb_tactic_cuda_conv_s8_mma_128x64 = {
    CONV_FIELDS(mma_128x64, "s8.mma_nhwc_128x64x64", QB_EXACT)};

CONV_FUNCTIONS(mma_64x64, MMA(64, 64, false, false))
const qb_tactic qb_tactic_cuda_conv_s8_mma_64x64 = {
    CONV_FIELDS(mma_64x64, "s8.mma_nhwc_64x64x64", QB_EXACT)};

CONV_FUNCTIONS(mma_split, MMA(64, 64, false, true))
const qb_tactic qb_tactic_cuda_conv_s8_mma_split = {
    CONV_FIELDS(mma_split, "s8.mma_nhwc_64x64x64_splitk", QB_EXACT)};

CONV_FUNCTIONS(mma_smooth, MMA(64, 64, true, false))
const qb_tactic qb_tactic_cuda_conv_s8_mma_smooth = {
    CONV_FIELDS(mma_smooth, "s8.mma_nhwc_64x64x64_smooth", QB_WITHIN_1_LSB)};

CONV_FUNCTIONS(direct, DIRECT(false))
const qb_tactic qb_tactic_cuda_conv_s8_direct = {CONV_FIELDS(direct, "s8.direct_nhwc", QB_EXACT)};

CONV_FUNCTIONS(direct_smooth, DIRECT(true))
const qb_tactic qb_tactic_cuda_conv_s8_direct_smooth = {
    CONV_FIELDS(direct_smooth, "s8.direct_nhwc_smooth", QB_WITHIN_1_LSB)};

CONV_FUNCTIONS(half_128x128x128, HALF(128, 128, 128))
const qb_tactic qb_tactic_cuda_conv_f16_wgmma_128x128x128 = {
    CONV_FIELDS(half_128x128x128, "f16.wgmma_nhwc_128x128x128", QB_EXACT)};

CONV_FUNCTIONS(half_256x128x128, HALF(256, 128, 128))
const qb_tactic qb_tactic_cuda_conv_f16_wgmma_256x128x128 = {
    CONV_FIELDS(half_256x128x128, "f16.wgmma_nhwc_256x128x128", QB_EXACT)};

CONV_FUNCTIONS(half_64x128x128, HALF(64, 128, 128))
const qb_tactic qb_tactic_cuda_conv_f16_wgmma_64x128x128 = {
    CONV_FIELDS(half_64x128x128, "f16.wgmma_nhwc_64x128x128", QB_EXACT)};

CONV_FUNCTIONS(half_128x64x128, HALF(128, 64, 128))
const qb_tactic qb_tactic_cuda_conv_f16_wgmma_128x64x128 = {
    CONV_FIELDS(half_128x64x128, "f16.wgmma_nhwc_128x64x128", QB_EXACT)};

CONV_FUNCTIONS(depthwise, DEPTHWISE(false, false))
const qb_tactic qb_tactic_cuda_conv_s8_depthwise = {
    CONV_FIELDS(depthwise, "s8.depthwise_nhwc", QB_EXACT)};

CONV_FUNCTIONS(depthwise_smooth, DEPTHWISE(true, false))
const qb_tactic qb_tactic_cuda_conv_s8_depthwise_smooth = {
    CONV_FIELDS(depthwise_smooth, "s8.depthwise_nhwc_smooth", QB_WITHIN_1_LSB)};

CONV_FUNCTIONS(depthwise_half, DEPTHWISE(false, true))
const qb_tactic qb_tactic_cuda_conv_f16_depthwise = {
    CONV_FIELDS(depthwise_half, "f16.depthwise_nhwc", QB_EXACT)};

CONV_FUNCTIONS(stem, STEM(false, false))
const qb_tactic qb_tactic_cuda_conv_s8_stem = {CONV_FIELDS(stem, "s8.stem_nhwc", QB_EXACT)};

CONV_FUNCTIONS(stem_wgmma, STEM_WGMMA(false))
const qb_tactic qb_tactic_cuda_conv_s8_stem_wgmma = {
    CONV_FIELDS(stem_wgmma, "s8.stem_wgmma_nhwc", QB_EXACT)};

CONV_FUNCTIONS(stem_wgmma_smooth, STEM_WGMMA(true))
const qb_tactic qb_tactic_cuda_conv_s8_stem_wgmma_smooth = {
    CONV_FIELDS(stem_wgmma_smooth, "s8.stem_wgmma_nhwc_smooth", QB_WITHIN_1_LSB)};

CONV_FUNCTIONS(stem_smooth, STEM(true, false))
const qb_tactic qb_tactic_cuda_conv_s8_stem_smooth = {
    CONV_FIELDS(stem_smooth, "s8.stem_nhwc_smooth", QB_WITHIN_1_LSB)};

CONV_FUNCTIONS(stem_half, STEM(false, true))
const qb_tactic qb_tactic_cuda_conv_f16_stem = {CONV_FIELDS(stem_half, "f16.stem_nhwc", QB_EXACT)};
