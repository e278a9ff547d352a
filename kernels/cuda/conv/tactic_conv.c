/* The INT8 and f16 convolutions of this folder as tactics. INT8 activations without exact
 * arithmetic on the device (exp, tanh, erf) have rows of their own, which promise results within
 * one code. */
#include <string.h>

#include "kernels/cuda/common/code.h"
#include "kernels/cuda/common/tactic_common.h"
#include "kernels/cuda/common/value.h"
#include "kernels/cuda/conv/conv.h"
#include "kernels/cuda/conv/tile_tactics.h"
#include "kernels/tactic.h"

#define MAX_SPLITS 32
#define STEPS_PER_SPLIT 2 /* at least, of 64 bytes of K */

typedef struct conv_algorithm {
    qb_cuda_packing packing;
    int32_t m, n, k, groups; /* see tiles.def */
    qb_cuda_need need;       /* of the device */
    uint32_t epilogues;      /* that it has kernels of */
    bool smooth;             /* takes the activations that
                                are not exact, and no others */
    bool f16;                /* data */
    bool splitk;             /* only where the grid would not
                                fill the device */
    qb_cuda_conv_fits *fits; /* NULL: whatever is lowered */
    qb_cuda_conv_run *run;   /* NULL: not in this program */
} conv_algorithm;

typedef struct conv_state {
    const conv_algorithm *algorithm;
    qb_cuda_conv conv;
    qb_cuda_tensor_maps maps;
    int32_t multiprocessors;
} conv_state;

bool qb_cuda_stem_fits(const qb_cuda_conv *c) {
    return c->kernel_w <= 8 && (c->stride_w == 1 || c->stride_w == 2 || c->stride_w == 4) &&
           c->in_total == c->in_c && QB_CUDA_STEM_SHARED(c) <= QB_CUDA_STEM_SHARED_MOST;
}

static bool lower(const conv_algorithm *a, const qb_problem *problem, const bool *constant,
                  qb_cuda_conv *conv) {
    bool smooth = !a->f16 && qb_cuda_is_smooth(problem->act.kind);
    if (problem->kind != QB_KIND_CONV || smooth != a->smooth) return false;
    if (!qb_cuda_conv_of(problem, constant, a->packing, a->f16 ? a->k / 2 : a->k, a->n, conv))
        return false;
    if (qb_cuda_conv_is_f16(conv) != a->f16 || (conv->in_pieces_of_8 && a->need.wgmma))
        return false;
    const qb_cuda_epilogue epilogue = qb_cuda_conv_epilogue(conv, a->epilogues);
    if (epilogue == QB_EPILOGUES) return false;
    conv->epilogue = epilogue;
    /* a narrower tile does the same with less waste */
    if (a->n > 64 && conv->out_c <= a->n / 2) return false;
    if (a->k > 64 && qb_cuda_conv_span(conv) <= 64 && !a->f16) return false;
    return !a->fits || a->fits(conv);
}

/* Doubling the blocks until they fill the device, as long as each has some of K. */
static int32_t choose_splits(const conv_algorithm *a, const qb_cuda_conv *c,
                             int32_t multiprocessors) {
    int64_t tiles = (int64_t)(c->n_pad / a->n) * ((c->rows + a->m - 1) / a->m);
    int64_t steps = (int64_t)c->taps * (c->k_pad / a->k);
    int32_t splits = 1;
    while (tiles * splits < multiprocessors && splits * 2 <= MAX_SPLITS &&
           steps / (splits * 2) >= STEPS_PER_SPLIT)
        splits *= 2;
    return splits;
}

static qb_status launch(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    const conv_state *state = kernel->state;
    const qb_problem *p = &kernel->problem;
    const qb_cuda_conv_io io = {
        .in = args->in[QB_IN_DATA],
        .residual = qb_problem_has(p, QB_IN_RESIDUAL) ? args->in[QB_IN_RESIDUAL] : NULL,
        .out = args->out,
        .packed = args->packed,
        .workspace = args->workspace};
    qb_cuda_conv_call call = {.conv = &state->conv,
                              .maps = &state->maps,
                              .multiprocessors = state->multiprocessors,
                              .stream = args->stream};
    QB_TRY(qb_cuda_check(cx, state->algorithm->run(&call), kernel->tactic->name));
    call.io = &io;
    return qb_cuda_check(cx, state->algorithm->run(&call), kernel->tactic->name);
}

static qb_status pack(qb_ctx *cx, const qb_kernel *kernel, const void *const *constants,
                      void *packed) {
    (void)cx;
    const conv_state *state = kernel->state;
    qb_cuda_conv_pack(&kernel->problem, &state->conv, state->algorithm->packing, constants, packed);
    return QB_OK;
}

static void destroy(qb_kernel *kernel) { qb_free(kernel->state); }

/* Looks at the device: is it one that the algorithm runs on? */
static qb_status open_device(qb_ctx *cx, const qb_tactic *tactic, conv_state *state) {
    const conv_algorithm *a = state->algorithm;
    qb_cuda_device device;
    QB_TRY(qb_cuda_current(cx, &device));
    QB_TRY(qb_cuda_need_check(cx, tactic->name, &a->need, &device));
    state->multiprocessors = device.multiprocessors;
    if (a->splitk) {
        state->conv.splits = choose_splits(a, &state->conv, device.multiprocessors);
        if (state->conv.splits < 2)
            return qb_fail(cx, QB_STATUS_UNSUPPORTED, "%s: nothing to split", tactic->name);
    }
    return a->need.wgmma ? qb_cuda_tensor_maps_find(cx, &state->maps) : QB_OK;
}

static qb_status create(qb_ctx *cx, const qb_tactic *tactic, const conv_algorithm *algorithm,
                        const qb_problem *problem, const bool *constant, qb_kernel **out) {
    conv_state state = {.algorithm = algorithm};
    if (!lower(algorithm, problem, constant, &state.conv)) return qb_cuda_not_for(cx, tactic);
    QB_TRY(open_device(cx, tactic, &state));
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
    kernel->packing_id = qb_cuda_conv_packing_id(&state.conv);
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

/* The descriptor of tactic SYMBOL, which goes by an algorithm. */
#define CONV(SYMBOL, NAME, EXACTNESS, ...)                                                         \
    static const conv_algorithm SYMBOL##_algorithm = {__VA_ARGS__};                                \
    static bool SYMBOL##_supports(const qb_problem *problem, const bool *constant) {               \
        qb_cuda_conv conv;                                                                         \
        return lower(&SYMBOL##_algorithm, problem, constant, &conv);                               \
    }                                                                                              \
    static qb_status SYMBOL##_create(qb_ctx *cx, const qb_tactic *tactic,                          \
                                     const qb_problem *problem, const bool *constant, int threads, \
                                     qb_kernel **out) {                                            \
        (void)threads;                                                                             \
        return create(cx, tactic, &SYMBOL##_algorithm, problem, constant, out);                    \
    }                                                                                              \
    QB_CUDA_TACTIC_ROW(SYMBOL, NAME, QB_KIND_CONV, .exactness = EXACTNESS, .rounds = true);

/* Kernels of sm_90a are in the program or not. */
#ifdef QB_HAVE_WGMMA
#define RUN_90a(FUNCTION) FUNCTION
#else
#define RUN_90a(FUNCTION) NULL
#endif
#define RUN_PORTABLE(FUNCTION) FUNCTION
#define NEED_90a(SCHEDULE, M, N, K, GROUPS)                                                        \
    { .wgmma = true, .shared_bytes = QB_CUDA_WGMMA_SHARED }
#define NEED_PORTABLE(SCHEDULE, M, N, K, GROUPS)                                                   \
    { .shared_bytes = QB_CUDA_SHARED_##SCHEDULE(M, N, K, GROUPS) }
#define IS_F16_s8 false
#define IS_F16_f16 true

#define TILE_TACTIC(SUFFIX, SMOOTH, SPLITK, EXACTNESS, ARCHITECTURE, KERNEL, TYPE, M, N, K,        \
                    GROUPS, SCHEDULE, EPILOGUES)                                                   \
    CONV(cuda_conv_##TYPE##_##KERNEL##_##M##x##N##x##K##SUFFIX,                                    \
         "conv_" #TYPE "." #KERNEL "_nhwc_" #M "x" #N "x" #K #SUFFIX, EXACTNESS,                   \
         .packing = QB_CUDA_PACKING_TENSOR, .m = M, .n = N, .k = K, .groups = GROUPS,              \
         .need = NEED_##ARCHITECTURE(SCHEDULE, M, N, K, GROUPS),                                   \
         .epilogues = QB_EPILOGUES_##EPILOGUES, .smooth = SMOOTH, .splitk = SPLITK,                \
         .f16 = IS_F16_##TYPE,                                                                     \
         .fits = RUN_##ARCHITECTURE(qb_cuda_fits_##TYPE##_##KERNEL##_##M##x##N##x##K),             \
         .run = RUN_##ARCHITECTURE(qb_cuda_conv_##TYPE##_##KERNEL##_##M##x##N##x##K))
#define QB_CUDA_TILE(ARCHITECTURE, KERNEL, TYPE, M, N, K, GROUPS, SCHEDULE, EPILOGUES, CONV,       \
                     MATMUL)                                                                       \
    QB_TILE_##CONV(TILE_TACTIC, ARCHITECTURE, KERNEL, TYPE, M, N, K, GROUPS, SCHEDULE, EPILOGUES)
#include "kernels/cuda/conv/tiles.def"

#define DEPTHWISE(SMOOTH, F16)                                                                     \
    .packing = QB_CUDA_PACKING_DEPTHWISE, .f16 = F16, .smooth = SMOOTH, .m = 1, .n = 8, .k = 1,    \
    .epilogues = UINT32_MAX, .run = qb_cuda_conv_depthwise
#define STEM(SMOOTH, F16)                                                                          \
    .packing = QB_CUDA_PACKING_STEM_MERGED, .f16 = F16, .smooth = SMOOTH, .m = 1, .n = 64, .k = 1, \
    .epilogues = QB_EPILOGUES_STEM, .run = qb_cuda_conv_stem
#define STEM_WGMMA(SMOOTH)                                                                         \
    .packing = QB_CUDA_PACKING_STEM_MERGED, .smooth = SMOOTH, .m = 1, .n = 64, .k = 1,             \
    .epilogues = QB_EPILOGUES_STEM_WGMMA, .fits = qb_cuda_stem_fits,                               \
    .need = {.wgmma = true, .shared_bytes = QB_CUDA_STEM_SHARED_MOST},                             \
    .run = RUN_90a(qb_cuda_conv_stem_wgmma)

CONV(cuda_conv_s8_depthwise, "conv_s8.depthwise_nhwc", QB_EXACT, DEPTHWISE(false, false))
CONV(cuda_conv_s8_depthwise_smooth, "conv_s8.depthwise_nhwc_smooth", QB_WITHIN_1_LSB,
     DEPTHWISE(true, false))
CONV(cuda_conv_f16_depthwise, "conv_f16.depthwise_nhwc", QB_EXACT, DEPTHWISE(false, true))
CONV(cuda_conv_s8_stem, "conv_s8.stem_nhwc", QB_EXACT, STEM(false, false))
CONV(cuda_conv_s8_stem_smooth, "conv_s8.stem_nhwc_smooth", QB_WITHIN_1_LSB, STEM(true, false))
CONV(cuda_conv_f16_stem, "conv_f16.stem_nhwc", QB_EXACT, STEM(false, true))
CONV(cuda_conv_s8_stem_wgmma, "conv_s8.stem_wgmma_nhwc", QB_EXACT, STEM_WGMMA(false))
CONV(cuda_conv_s8_stem_wgmma_smooth, "conv_s8.stem_wgmma_nhwc_smooth", QB_WITHIN_1_LSB,
     STEM_WGMMA(true))
