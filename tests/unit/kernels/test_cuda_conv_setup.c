/* What the host decides for a convolution: tiles of the halo kernels, which are what the kernels
 * can work on whatever the image, and the epilogue of a set. Skips where CUDA is not built. */
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
    assert_int_equal(choose(QB_EPILOGUE_RESIDUAL_SATURATE, QB_EPILOGUES_MMA), QB_EPILOGUE_RESIDUAL);
    assert_int_equal(choose(QB_EPILOGUE_SATURATE, QB_EPILOGUES_STEM), QB_EPILOGUE_CLASS);
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
#endif
};
QB_TEST_MAIN(tests)
