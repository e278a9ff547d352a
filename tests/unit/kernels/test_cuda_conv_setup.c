/* What the host decides for a convolution: tiles of the halo kernels, which are what the kernels
 * can work on whatever the image, the epilogue of a set, and the packed weight of groups. Skips
 * where CUDA is not built. */
#include <stdlib.h>

#include "base/rng.h"
#include "qb_test.h"

#ifdef QB_HAVE_CUDA
#include "kernels/cuda/conv/conv.h"

static qb_cuda_conv conv_of(int32_t kernel, int32_t side) {
    return (qb_cuda_conv){.kernel_h = kernel,
                          .kernel_w = kernel,
                          .stride_h = 1,
                          .stride_w = 1,
                          .dilation_h = 1,
                          .dilation_w = 1,
                          .out_h = side,
                          .out_w = side,
                          .k_pad = 64};
}

static qb_cuda_conv random_conv(qb_rng *rng) {
    qb_cuda_conv c = conv_of(2 + (int32_t)qb_rng_below(rng, 6), 1);
    c.kernel_w = 1 + (int32_t)qb_rng_below(rng, 7);
    c.out_h = 1 + (int32_t)qb_rng_below(rng, 700);
    c.out_w = 1 + (int32_t)qb_rng_below(rng, 700);
    c.k_pad = 64 * (1 + (int32_t)qb_rng_below(rng, 4));
    return c;
}

static bool takes(const qb_cuda_conv *c) {
    qb_cuda_halo w;
    return qb_cuda_halo_of(c, 64, 256, &w);
}

static void tiles_fit_the_kernel(void **state) {
    (void)state;
    static const int32_t sizes[][2] = {{64, 256}, {128, 128}}; /* channels, pixels */
    int fitting = 0;
    qb_rng rng;
    qb_rng_seed(&rng, 5);
    for (int i = 0; i < 4000; i++) {
        const qb_cuda_conv c = random_conv(&rng);
        const int32_t channels = sizes[i % 2][0], pixels = sizes[i % 2][1];
        qb_cuda_halo w;
        if (!qb_cuda_halo_of(&c, channels, pixels, &w)) continue;
        const int32_t lines = w.rows + c.kernel_h - 1;
        const int32_t weight = c.kernel_h * c.kernel_w * c.k_pad * channels;
        fitting++;
        assert_true(w.rows >= 1 && w.columns >= 8 && w.columns % 8 == 0);
        assert_true(w.rows * w.columns <= pixels && lines <= 256);
        assert_int_equal(w.stage_bytes, lines * w.columns * 64);
        assert_true(w.stages >= QB_CUDA_HALO_LEAST && w.stages <= QB_CUDA_HALO_MOST);
        assert_int_equal(w.shared_bytes, 1024 + w.stages * (w.stage_bytes + 16) + weight + 24);
        assert_true(w.shared_bytes <= QB_CUDA_WGMMA_SHARED);
        /* the last multiplication reads so far: no further than the weight */
        assert_true((pixels - w.rows * w.columns) * 64 <= weight);
    }
    assert_true(fitting > 1000);
}

/* An image of 56 x 56 needs no pixel beside it, and few lines twice. */
static void tiles_copy_little(void **state) {
    (void)state;
    const qb_cuda_conv c = conv_of(3, 56);
    qb_cuda_halo w;
    assert_true(qb_cuda_halo_of(&c, 64, 256, &w));
    assert_int_equal(56 % w.columns, 0);
    assert_int_equal(56 % w.rows, 0);
    assert_true(w.rows >= 14);
}

static void other_windows_are_refused(void **state) {
    (void)state;
    qb_cuda_conv c = conv_of(3, 20);
    assert_true(takes(&c));
    int32_t *const sizes[] = {&c.stride_h, &c.stride_w, &c.dilation_h, &c.dilation_w};
    for (int i = 0; i < 4; i++) {
        *sizes[i] = 2;
        assert_false(takes(&c));
        *sizes[i] = 1;
    }
    c.kernel_h = 1;
    assert_false(takes(&c));
    c.kernel_h = 3;
    c.k_pad = 4096; /* a weight that does not fit */
    assert_false(takes(&c));
}

static qb_cuda_epilogue choose(qb_cuda_epilogue own, uint32_t set) {
    const qb_cuda_conv c = {.epilogue = own, .out_dtype = QB_DTYPE_U8, .wide = 1};
    return qb_cuda_conv_epilogue(&c, set);
}

static void epilogues_are_their_own_or_more_general(void **state) {
    (void)state;
    for (qb_cuda_epilogue e = 0; e < QB_EPILOGUES; e++) {
        const bool f16 = e >= QB_EPILOGUE_F16;
        assert_int_equal(choose(e, UINT32_MAX), e);
        assert_int_equal(choose(e, 0), QB_EPILOGUES);
        assert_int_equal(choose(e, QB_EPILOGUES_F16), f16 ? e : QB_EPILOGUES);
        /* every problem has a kernel where the general ones are */
        assert_int_equal(choose(e, QB_EPILOGUE_BIT(GENERAL)),
                         f16 ? QB_EPILOGUES : QB_EPILOGUE_GENERAL);
        assert_int_equal(choose(e, QB_EPILOGUE_BIT(F16_GENERAL)),
                         f16 ? QB_EPILOGUE_F16_GENERAL : QB_EPILOGUES);
    }
    const uint32_t others = ~QB_EPILOGUE_BIT(RESIDUAL_SATURATE);
    assert_int_equal(choose(QB_EPILOGUE_RESIDUAL_SATURATE, others), QB_EPILOGUE_RESIDUAL);
    assert_int_equal(choose(QB_EPILOGUE_SATURATE, QB_EPILOGUES_LONG), QB_EPILOGUE_CLASS);
    assert_int_equal(choose(QB_EPILOGUE_GELU, QB_EPILOGUES_SPLITK), QB_EPILOGUE_GENERAL);
    assert_int_equal(choose(QB_EPILOGUE_CLASS, QB_EPILOGUES_BASIC), QB_EPILOGUES);
    assert_int_equal(choose(QB_EPILOGUE_GELU, QB_EPILOGUES_SHORT), QB_EPILOGUES);
}

/* 16 channels at once are no f32: such results have one general epilogue, channels on no boundary
 * another. */
static void unaligned_results_are_general_in_two_ways(void **state) {
    (void)state;
    qb_cuda_conv c = {.epilogue = QB_EPILOGUE_UNALIGNED, .out_dtype = QB_DTYPE_F32, .wide = 1};
    const uint32_t set = QB_EPILOGUE_BIT(VECTOR) | QB_EPILOGUE_BIT(GENERAL);
    assert_int_equal(qb_cuda_conv_epilogue(&c, set), QB_EPILOGUE_GENERAL);
    c.wide = 0;
    assert_int_equal(qb_cuda_conv_epilogue(&c, set), QB_EPILOGUE_VECTOR);
}

/* A convolution of groups, windows of 1 x 3: u8, and s8 weights. */
typedef struct grouped {
    qb_desc in[2];
    qb_problem problem;
    float scale;
} grouped;

static void grouped_of(grouped *g, int64_t group, int64_t ins, int64_t outs) {
    const qb_qparams q = {.dtype = QB_DTYPE_U8, .axis = -1, .n = 1, .scale = &g->scale};
    *g = (grouped){.scale = 0.5f};
    g->in[0] = (qb_desc){.dtype = QB_DTYPE_U8,
                         .layout = QB_LAYOUT_NHWC,
                         .shape = {.rank = 4, .dim = {1, group * ins, 1, 7}},
                         .q = q};
    g->in[1] = (qb_desc){
        .dtype = QB_DTYPE_S8, .shape = {.rank = 4, .dim = {group * outs, ins, 1, 3}}, .q = q};
    g->in[1].q.dtype = QB_DTYPE_S8;
    g->problem = (qb_problem){.kind = QB_KIND_CONV, .n_in = 2, .in = g->in, .group = group};
    g->problem.out = g->in[0];
    g->problem.out.shape.dim[1] = group * outs;
    g->problem.window = (qb_window){.n = 2,
                                    .kernel = {1, 3},
                                    .stride = {1, 1},
                                    .dilation = {1, 1},
                                    .pad_begin = {0, 1},
                                    .pad_end = {0, 1}};
}

/* The rows of the packed weight are those of a matrix of all groups, where 64 channels meet their
 * own data; nothing else stands in it. */
static void check_grouped(int64_t group, int64_t ins, int64_t outs, qb_rng *rng) {
    static const bool constant[2] = {false, true};
    grouped g;
    qb_cuda_conv c;
    grouped_of(&g, group, ins, outs);
    assert_true(qb_cuda_conv_of(&g.problem, constant, QB_CUDA_PACKING_TENSOR, 64, 64, &c));
    assert_false(qb_cuda_conv_of(&g.problem, constant, QB_CUDA_PACKING_TENSOR, 64, 128, &c));
    const int64_t n = group * outs * ins * 3;
    int8_t *weight = malloc((size_t)n), *packed = malloc((size_t)c.packed_bytes);
    for (int64_t i = 0; i < n; i++) weight[i] = (int8_t)(1 + qb_rng_below(rng, 127));
    qb_cuda_conv_pack(&g.problem, &c, QB_CUDA_PACKING_TENSOR, (const void *[]){NULL, weight},
                      packed);
    assert_true(c.k_pad % 64 == 0 && c.k_pad - qb_cuda_conv_span(&c) < 64);
    for (int64_t m = 0; m < c.n_pad; m++) {
        const int64_t lane = m % 64, first = QB_CUDA_CONV_FIRST(&c, (int32_t)(m - lane));
        const int64_t row = m - lane + lane % 16 / 2 * 8 + lane / 16 * 2 + lane % 2;
        assert_int_equal(first % 16, 0);
        for (int64_t k = 0; k < c.k_pad; k++)
            for (int64_t t = 0; t < 3; t++) {
                const int64_t in = first + k - m / outs * ins; /* in the group of m */
                const bool own = m < c.out_c && in >= 0 && in < ins;
                assert_int_equal(packed[(row * 3 + t) * c.k_pad + k],
                                 own ? weight[(m * ins + in) * 3 + t] : 0);
            }
        /* all of a channel's data are met */
        if (m < c.out_c) {
            assert_true(m / outs * ins >= first);
            assert_true((m / outs + 1) * ins <= first + c.k_pad);
        }
    }
    free(weight);
    free(packed);
}

/* Sixteen channels of 4 x 6 x 7, with as much padding as keeps the size. */
static bool volume_of(int64_t depth, int64_t height, int64_t width, const int32_t *zero,
                      qb_cuda_packing packing, qb_cuda_conv *c) {
    static const bool constant[2] = {false, true};
    grouped g;
    grouped_of(&g, 1, 16, 16);
    g.in[0].shape = (qb_shape){.rank = 5, .dim = {2, 16, 4, 6, 7}};
    g.in[1].shape = (qb_shape){.rank = 5, .dim = {16, 16, depth, height, width}};
    g.problem.out.shape = g.in[0].shape;
    g.in[0].q.zero = zero;
    g.problem.window = (qb_window){.n = 3,
                                   .kernel = {depth, height, width},
                                   .stride = {1, 1, 1},
                                   .dilation = {1, 1, 1},
                                   .pad_begin = {depth / 2, height / 2, width / 2},
                                   .pad_end = {depth / 2, height / 2, width / 2}};
    return qb_cuda_conv_of(&g.problem, constant, packing, 64, 64, c);
}

/* One plane of data, and a result that lies in the padding before it. */
static void a_plane_of_padding_is_a_volume(void **state) {
    static const bool constant[2] = {false, true};
    grouped g;
    qb_cuda_conv c;
    (void)state;
    grouped_of(&g, 1, 16, 16);
    g.in[0].shape = g.problem.out.shape = (qb_shape){.rank = 5, .dim = {2, 16, 1, 6, 7}};
    g.in[1].shape = (qb_shape){.rank = 5, .dim = {16, 16, 1, 1, 3}};
    g.problem.window = (qb_window){.n = 3,
                                   .kernel = {1, 1, 3},
                                   .stride = {3, 1, 1},
                                   .dilation = {1, 1, 1},
                                   .pad_begin = {1, 0, 1},
                                   .pad_end = {1, 0, 1}};
    assert_true(qb_cuda_conv_of(&g.problem, constant, QB_CUDA_PACKING_TENSOR, 64, 64, &c));
    assert_true(qb_cuda_conv_is_volume(&c));
    assert_false(qb_cuda_conv_of(&g.problem, constant, QB_CUDA_PACKING_STEM, 64, 64, &c));
}

static void volumes_are_images_where_that_says_the_same(void **state) {
    (void)state;
    const int32_t zero = 5;
    qb_cuda_conv c;
    assert_true(volume_of(1, 3, 3, NULL, QB_CUDA_PACKING_TENSOR, &c)); /* planes */
    assert_false(qb_cuda_conv_is_volume(&c));
    assert_true(c.batch == 8 && c.in_h == 6 && c.in_w == 7 && c.kernel_h == 3 && c.taps == 9);
    assert_true(volume_of(3, 1, 1, NULL, QB_CUDA_PACKING_TENSOR, &c)); /* lines across planes */
    assert_false(qb_cuda_conv_is_volume(&c));
    assert_true(c.batch == 2 && c.in_h == 4 && c.in_w == 42 && c.kernel_h == 3 && c.kernel_w == 1);
    assert_true(volume_of(3, 3, 3, NULL, QB_CUDA_PACKING_TENSOR, &c));
    assert_true(qb_cuda_conv_is_volume(&c));
    assert_true(c.taps == 27 && c.rows == 2 * 4 * 6 * 7 && c.in_d == 4 && c.pad_d == 1);
    assert_false(volume_of(3, 3, 3, NULL, QB_CUDA_PACKING_STEM, &c));
    /* a zero point is made good by classes of pixels: first, middle and last of each axis */
    assert_true(volume_of(3, 3, 3, &zero, QB_CUDA_PACKING_TENSOR, &c));
    assert_true(c.classes == 27 && c.col_classes == 3 && c.middle == (1 * 3 + 1) * 3 + 1);
    assert_true(volume_of(1, 3, 3, &zero, QB_CUDA_PACKING_TENSOR, &c));
    assert_int_equal(c.classes, 9);
}

static void padding_makes_results_wide(void **state) {
    (void)state;
    static const bool constant[2] = {false, true};
    grouped g;
    qb_cuda_conv c;
    grouped_of(&g, 1, 26, 58);
    assert_false(qb_cuda_conv_of(&g.problem, constant, QB_CUDA_PACKING_TENSOR, 64, 64, &c));
    g.in[0].channel_total = 32;
    assert_true(qb_cuda_conv_of(&g.problem, constant, QB_CUDA_PACKING_TENSOR, 64, 64, &c));
    assert_true(!c.wide && !c.in_pieces_of_8 && c.in_c == 26 && c.out_c == 58);
    g.problem.out.channel_total = 64; /* of a Concat: the rest is somebody's */
    assert_true(qb_cuda_conv_of(&g.problem, constant, QB_CUDA_PACKING_TENSOR, 64, 64, &c));
    assert_false(c.wide);
    g.problem.out.padded = true;
    assert_true(qb_cuda_conv_of(&g.problem, constant, QB_CUDA_PACKING_TENSOR, 64, 64, &c));
    assert_true(c.wide && c.eights && c.out_c == 58 && c.out_total == 64);
}

static void groups_meet_their_own_channels(void **state) {
    (void)state;
    static const int64_t shapes[][3] = {{32, 4, 4},   {32, 8, 8},    {6, 8, 8},   {55, 8, 8},
                                        {10, 24, 24}, {2, 48, 32},   {4, 16, 80}, {20, 8, 2},
                                        {64, 1, 2},   {2, 144, 144}, {8, 40, 24}};
    qb_rng rng;
    qb_rng_seed(&rng, 6);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        check_grouped(shapes[i][0], shapes[i][1], shapes[i][2], &rng);
}

/* With a residual of `slice` channels in all; 0: without one. */
static qb_cuda_epilogue epilogue_of(qb_act_kind act, int32_t slice, bool act_first) {
    static const bool constant[4] = {false, true};
    static const int32_t zero = 3; /* pixels at the border have another bias */
    grouped g;
    qb_cuda_conv c;
    grouped_of(&g, 1, 64, 32);
    g.in[0].q.zero = &zero;
    qb_desc in[4] = {g.in[0], g.in[1], {.dtype = QB_DTYPE_NONE}, g.problem.out};
    in[QB_IN_RESIDUAL].channel_total = slice;
    g.problem.in = in;
    g.problem.n_in = slice > 0 ? 4 : 2;
    g.problem.act = (qb_act){.kind = act, .alpha = 0.1f};
    g.problem.act_first = act_first;
    assert_true(qb_cuda_conv_of(&g.problem, constant, QB_CUDA_PACKING_TENSOR, 64, 64, &c));
    return (qb_cuda_epilogue)c.epilogue;
}

static void activations_that_are_exact_have_an_epilogue(void **state) {
    (void)state;
    static const qb_act_kind acts[] = {QB_ACT_LEAKY_RELU, QB_ACT_HARD_SWISH};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(epilogue_of(acts[i], 0, false), QB_EPILOGUE_EXACT);
        assert_int_equal(epilogue_of(acts[i], 48, true), QB_EPILOGUE_EXACT);
        assert_int_equal(epilogue_of(acts[i], 48, false), QB_EPILOGUE_VECTOR);
        assert_int_equal(epilogue_of(acts[i], 40, true),
                         QB_EPILOGUE_VECTOR); /* no boundary of 16 */
    }
    assert_int_equal(epilogue_of(QB_ACT_RELU, 0, false), QB_EPILOGUE_CLASS);
    assert_int_equal(epilogue_of(QB_ACT_RELU, 48, false), QB_EPILOGUE_EXACT);
    assert_int_equal(epilogue_of(QB_ACT_RELU, 48, true), QB_EPILOGUE_VECTOR);
    assert_int_equal(epilogue_of(QB_ACT_NONE, 48, true), QB_EPILOGUE_EXACT);
    assert_int_equal(epilogue_of(QB_ACT_SILU, 48, true), QB_EPILOGUE_SILU);
    assert_int_equal(epilogue_of(QB_ACT_SILU, 40, true), QB_EPILOGUE_VECTOR);
}

/* Each channel by itself goes to the kernel for that, whatever the window. */
static void depthwise_windows_are_taken(void **state) {
    (void)state;
    static const bool constant[2] = {false, true};
    grouped g;
    qb_cuda_conv c;
    grouped_of(&g, 37, 1, 1);
    assert_false(qb_cuda_conv_of(&g.problem, constant, QB_CUDA_PACKING_TENSOR, 64, 64, &c));
    assert_true(qb_cuda_conv_of(&g.problem, constant, QB_CUDA_PACKING_DEPTHWISE, 1, 8, &c));
    assert_int_equal(c.n_pad, 40);
}
#else
static void tiles_fit_the_kernel(void **state) {
    (void)state;
    qb_test_skip("CUDA is not built");
}
#endif

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(tiles_fit_the_kernel),
#ifdef QB_HAVE_CUDA
    cmocka_unit_test(tiles_copy_little),
    cmocka_unit_test(other_windows_are_refused),
    cmocka_unit_test(epilogues_are_their_own_or_more_general),
    cmocka_unit_test(unaligned_results_are_general_in_two_ways),
    cmocka_unit_test(groups_meet_their_own_channels),
    cmocka_unit_test(depthwise_windows_are_taken),
    cmocka_unit_test(activations_that_are_exact_have_an_epilogue),
    cmocka_unit_test(a_plane_of_padding_is_a_volume),
    cmocka_unit_test(volumes_are_images_where_that_says_the_same),
    cmocka_unit_test(padding_makes_results_wide),
#endif
};
QB_TEST_MAIN(tests)
