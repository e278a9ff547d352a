/* Tiles of the convolutions that bring a box for each column of the window: whatever the image,
 * they are what the kernel can work on. Skips where CUDA is not built. */
#include "base/rng.h"
#include "qb_test.h"

#ifdef QB_HAVE_CUDA
#include "kernels/cuda/conv.h"

static qb_cuda_conv conv_of(int32_t kernel, int32_t side) {
    return (qb_cuda_conv){.kernel_h = kernel,
                          .kernel_w = kernel,
                          .stride_h = 1,
                          .stride_w = 1,
                          .dilation_h = 1,
                          .dilation_w = 1,
                          .out_h = side,
                          .out_w = side,
                          .k_pad = 64,
                          .brief = QB_CUDA_PLAIN};
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
    qb_cuda_boxes w;
    return qb_cuda_boxes_of(c, 64, 256, &w);
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
        qb_cuda_boxes w;
        if (!qb_cuda_boxes_of(&c, channels, pixels, &w)) continue;
        const int32_t lines = w.rows + c.kernel_h - 1;
        const int32_t weight = c.kernel_h * c.kernel_w * c.k_pad * channels;
        fitting++;
        assert_true(w.rows >= 1 && w.columns >= 8 && w.columns % 8 == 0);
        assert_true(w.rows * w.columns <= pixels && lines <= 256);
        assert_int_equal(w.stage_bytes, lines * w.columns * 64);
        assert_true(w.stages >= QB_CUDA_BOXES_LEAST && w.stages <= QB_CUDA_BOXES_MOST);
        assert_int_equal(w.shared_bytes, 1024 + w.stages * (w.stage_bytes + 16) + weight + 24);
        assert_true(w.shared_bytes <= QB_CUDA_WGMMA_SHARED);
        /* the last multiplication reads so far: no further than the weight */
        assert_true((pixels - w.rows * w.columns) * 64 <= weight);
    }
    assert_true(fitting > 1000);
}

/* An image of 56 x 56 needs no pixel beside it, and few lines twice. */
static void tiles_bring_little(void **state) {
    (void)state;
    const qb_cuda_conv c = conv_of(3, 56);
    qb_cuda_boxes w;
    assert_true(qb_cuda_boxes_of(&c, 64, 256, &w));
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
    for (c.brief = 0; c.brief <= QB_CUDA_HALF_RAGGED; c.brief++)
        assert_int_equal(takes(&c), c.brief <= QB_CUDA_BORDER || c.brief == QB_CUDA_SILU);
    c.brief = QB_CUDA_PLAIN;
    c.kernel_h = 1;
    assert_false(takes(&c));
    c.kernel_h = 3;
    c.k_pad = 4096; /* a weight that has no room */
    assert_false(takes(&c));
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
    cmocka_unit_test(tiles_bring_little),
    cmocka_unit_test(other_windows_are_refused),
#endif
};
QB_TEST_MAIN(tests)
