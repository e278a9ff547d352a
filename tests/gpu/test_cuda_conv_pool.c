/* The first layer with its max pool as one kernel against the reference of the two, bit for bit:
 * random windows of both, sizes, types, zero points and slices; guard bytes. Skips without a device
 * that has the kernel. ctest-timeout: 300 */
#include <stdlib.h>

#include "conv_case.h"
#include "kernels/cuda/common/code.h"
#include "qb_test.h"

#define CASES 120

static const qb_tactic *tactic;

static void need_kernel(qb_ctx *cx) {
    qb_cuda_device device;
    const qb_cuda_need need = {.wgmma = true};
    qb_ctx_init(cx);
    tactic = qb_tactic_find("cuda.conv_pool_s8.stem_wgmma_nhwc");
    assert_non_null(tactic);
    if (qb_cuda_open(cx, 0, &device) != QB_OK ||
        qb_cuda_need_check(cx, tactic->name, &need, &device) != QB_OK)
        qb_test_skip("%s", cx->message);
}

static int64_t pick(qb_rng *rng, int64_t low, int64_t high) {
    return low + (int64_t)qb_rng_below(rng, (uint64_t)(high - low + 1));
}

static void check(qb_ctx *cx, const conv_spec *spec, qb_rng *rng) {
    char text[640];
    conv_case c;
    assert_ok(cx, conv_case_init(cx, &c, spec, rng));
    char *got = malloc((size_t)c.n_out);
    assert_non_null(got);
    const qb_status status = conv_case_run(cx, &c, tactic, got);
    const double distance = status == QB_OK ? conv_case_distance(&c, got) : 0;
    if (status != QB_OK || distance > 0)
        fail_msg("%s: off by %g, expected the same codes\n  %s", cx->message, distance,
                 conv_spec_text(spec, text, sizeof text));
    free(got);
    conv_case_release(&c);
}

static qb_window pool_of(int64_t kernel, int64_t stride, int64_t pad) {
    return (qb_window){.n = 2,
                       .kernel = {kernel, kernel},
                       .stride = {stride, stride},
                       .dilation = {1, 1},
                       .pad_begin = {pad, pad},
                       .pad_end = {pad, pad}};
}

/* Windows that overlap by one row or none, with any padding in front of and behind the data. */
static qb_window random_pool(qb_rng *rng) {
    qb_window w = pool_of(3, 2, 1);
    if (pick(rng, 0, 3) == 0) return w;
    for (int32_t d = 0; d < 2; d++) {
        w.stride[d] = pick(rng, 1, 3);
        w.kernel[d] = w.stride[d] + pick(rng, 0, 1);
        w.pad_begin[d] = pick(rng, 0, w.kernel[d] - 1);
        w.pad_end[d] = pick(rng, 0, w.kernel[d] - 1);
    }
    return w;
}

static conv_spec random_spec(qb_rng *rng) {
    static const int64_t strides[] = {1, 2, 2, 4};
    conv_spec s = conv_spec_plain(pick(rng, 1, 3), pick(rng, 1, 4), 8, 16 * pick(rng, 1, 9),
                                  pick(rng, 1, 8), strides[pick(rng, 0, 3)]);
    if (s.out_c == 32) s.out_c = 64; /* see below */
    s.in_h = pick(rng, 8, 40);
    s.in_w = pick(rng, 8, pick(rng, 0, 3) == 0 ? 400 : 90);
    s.pad_top = pick(rng, 0, s.kernel_h / 2);
    s.pad_bottom = pick(rng, 0, s.kernel_h / 2);
    s.pad_left = pick(rng, 0, s.kernel_w / 2);
    s.pad_right = pick(rng, 0, s.kernel_w / 2);
    s.in = pick(rng, 0, 1) ? QB_DTYPE_U8 : QB_DTYPE_S8;
    s.out = pick(rng, 0, 1) ? QB_DTYPE_U8 : QB_DTYPE_S8;
    s.in_zero = (int32_t)(s.in == QB_DTYPE_U8 ? pick(rng, 0, 255) : pick(rng, -128, 127));
    s.out_zero = (int32_t)(s.out == QB_DTYPE_U8 ? pick(rng, 0, 255) : pick(rng, -128, 127));
    if (pick(rng, 0, 1)) s.in_zero = s.out_zero = 0;
    if (pick(rng, 0, 3) == 0) s.bias = QB_DTYPE_NONE;
    if (pick(rng, 0, 2) == 0) s.act.kind = QB_ACT_NONE;
    if (pick(rng, 0, 3) == 0) s.act = (qb_act){QB_ACT_CLIP, -0.3f, 0.9f};
    s.per_channel = pick(rng, 0, 3) > 0;
    s.out_slice = pick(rng, 0, 3) == 0 ? 16 * pick(rng, 1, 3) : 0;
    s.pool = random_pool(rng);
    return s;
}

static void random_pairs_equal_the_reference(void **state) {
    (void)state;
    qb_ctx cx;
    qb_rng rng;
    need_kernel(&cx);
    const char *seed = getenv("QB_TEST_SEED"), *cases = getenv("QB_TEST_CASES");
    const int n = cases ? atoi(cases) : CASES;
    qb_rng_seed(&rng, seed ? strtoull(seed, NULL, 10) : 20261122);
    for (int i = 0; i < n; i++) {
        const conv_spec spec = random_spec(&rng);
        check(&cx, &spec, &rng);
    }
}

/* ResNet's first layer, at batches of one row and of several rows a block, and SqueezeNet's. */
static void known_layers_equal_the_reference(void **state) {
    (void)state;
    qb_ctx cx;
    qb_rng rng;
    need_kernel(&cx);
    if (getenv("QB_TEST_CASES")) qb_test_skip("only a few cases are asked for");
    qb_rng_seed(&rng, 5);
    for (int64_t batch = 1; batch <= 16; batch += 15) {
        conv_spec spec = conv_spec_plain(batch, 3, 224, 64, 7, 2);
        spec.in_zero = 114;
        spec.pool = pool_of(3, 2, 1);
        check(&cx, &spec, &rng);
    }
    conv_spec spec = conv_spec_plain(3, 3, 224, 64, 3, 2);
    spec.pad_top = spec.pad_left = spec.pad_bottom = spec.pad_right = 0;
    spec.out = QB_DTYPE_S8;
    spec.out_zero = -128;
    spec.pool = pool_of(3, 2, 0);
    spec.pool.pad_end[0] = spec.pool.pad_end[1] = 1;
    check(&cx, &spec, &rng);
}

/* What the kernel cannot do is left to others. */
static void other_problems_are_left_out(void **state) {
    (void)state;
    qb_ctx cx;
    qb_rng rng;
    need_kernel(&cx);
    qb_rng_seed(&rng, 6);
    for (int i = 0; i < 7; i++) {
        conv_case c;
        qb_problem problem;
        qb_desc in[4];
        conv_spec spec = conv_spec_plain(1, 3, 20, 48, 3, 2);
        spec.pool = pool_of(3, 2, 1);
        if (i == 0) spec.in_c = 8;
        if (i == 1) spec.out_c = 24;
        if (i == 2) spec.act.kind = QB_ACT_LEAKY_RELU;
        if (i == 3) spec.pool.stride[0] = 1;
        if (i == 4) spec.pool.dilation[1] = 2;
        if (i == 5) spec.group = 3;
        assert_ok(&cx, conv_case_init(&cx, &c, &spec, &rng));
        conv_case_on_device(&c, &problem, in);
        assert_int_equal(qb_tactic_takes(tactic, &problem, c.constant), i == 6);
        conv_case_release(&c);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(random_pairs_equal_the_reference),
    cmocka_unit_test(known_layers_equal_the_reference),
    cmocka_unit_test(other_problems_are_left_out),
};

QB_TEST_MAIN(tests)
