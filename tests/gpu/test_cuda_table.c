/* The table of CUDA's tactics, without a device: whatever any of them takes, a plain kernel takes,
 * too; random problems are for all of them; cuDNN's INT8 stays out where it is not exact; and slow
 * kernels say why the fast ones do not run.
 * ctest-timeout: 300 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../op/trial.h"
#include "conv_case.h"
#include "kernels/cuda/common/fallback_reason.h"
#include "kernels/sources.h"
#include "qb_test.h"

#define CASES 150
#define TILE_CASES                                                                                 \
    800 /* of convolutions and products, which have many tiles; test_cuda_ops: 3000 */
#define CONV_CASES 100
#define TACTICS_MAX 1000

/* Of these each kind has what needs neither a library nor matrix units; attention, whose scores
 * never reach memory, is on mma.sync alone. */
static bool is_plain(const qb_tactic *t) {
    if (qb_tactic_source(t) != QB_SOURCE_OWN) return false;
    if (t->kind == QB_KIND_ATTENTION) return strcmp(t->name, "cuda.attention_f16.mma_16x64") == 0;
    return !strstr(t->name, "mma");
}

static bool is_cuda(const qb_tactic *t, qb_kind kind) {
    return t->kind == kind && strcmp(t->backend, "cuda") == 0;
}

/* One random problem before all tactics of its kind; counts who takes it. */
static void offer(const random_case *c, uint64_t seed, int taken[TACTICS_MAX]) {
    const qb_tactic *other = NULL;
    bool plain = false;
    int at = 0;
    for (const qb_tactic *const *t = qb_tactics(); *t; t++, at++) {
        if (!is_cuda(*t, c->problem.kind) || !trial_takes(seed, *t, c)) continue;
        taken[at]++;
        if (is_plain(*t))
            plain = true;
        else
            other = *t;
    }
    if (other && !plain) fail_msg("%s takes what no plain kernel does", other->name);
}

/* Convolutions of quantized values have problems of their own: test_cuda_convs,
 * test_cuda_conv_pool. */
static bool is_elsewhere(const qb_tactic *t) {
    return t->kind == QB_KIND_CONV_POOL ||
           strncmp(t->name, "cuda.conv_s8.", strlen("cuda.conv_s8.")) == 0;
}

static void whatever_is_taken_has_a_plain_kernel(void **state) {
    (void)state;
    static int taken[TACTICS_MAX];
    qb_ctx cx;
    qb_rng rng;
    int at = 0, none = 0;
    qb_ctx_init(&cx);
    for (int kind = 0; kind < QB_KIND_COUNT; kind++) {
        if (kind == QB_KIND_CONV_POOL) continue; /* what no tactic takes stays two steps */
        bool any = false;
        for (const qb_tactic *const *t = qb_tactics(); *t; t++)
            any = any || is_cuda(*t, (qb_kind)kind);
        const bool tiles =
            kind == QB_KIND_CONV || kind == QB_KIND_CONV_TRANSPOSE || kind == QB_KIND_MATMUL;
        qb_rng_seed(&rng, 12); /* by which these few problems reach every tactic */
        for (int i = 0; any && i < (tiles ? TILE_CASES : CASES); i++) {
            random_case c;
            random_case_make_device(&cx, &rng, (qb_kind)kind, &c);
            offer(&c, qb_rng_u64(&rng), taken);
            random_case_release(&c);
        }
    }
    for (const qb_tactic *const *t = qb_tactics(); *t; t++, at++) {
        assert_true(at < TACTICS_MAX);
        if (strcmp((*t)->backend, "cuda") != 0) continue;
        print_message("%-46s %5d problems\n", (*t)->name, taken[at]);
        none += taken[at] == 0 && !is_elsewhere(*t);
    }
    assert_int_equal(none, 0);
}

/* The same for the convolutions of test_cuda_convs. */
static void convolutions_have_a_plain_kernel(void **state) {
    (void)state;
    qb_ctx cx;
    qb_rng rng;
    qb_ctx_init(&cx);
    qb_rng_seed(&rng, 20261121);
    for (int i = 0; i < CONV_CASES; i++) {
        conv_case c;
        qb_problem problem;
        qb_desc in[4];
        bool any = false, plain = false;
        const conv_spec spec = conv_spec_random(&rng);
        assert_ok(&cx, conv_case_init(&cx, &c, &spec, &rng));
        conv_case_on_device(&c, &problem, in);
        for (const qb_tactic *const *t = qb_tactics(); *t; t++) {
            if (!is_cuda(*t, QB_KIND_CONV) || !qb_tactic_takes(*t, &problem, c.constant)) continue;
            any = true;
            plain = plain || is_plain(*t);
        }
        assert_true(any && plain);
        conv_case_release(&c);
    }
}

/* Its products are s8 x s8: zero points go into the bias, which is right where no window hangs over
 * the border and nothing is cut off before the zero point is added. */
static void cudnn_stays_out_where_it_is_not_exact(void **state) {
    (void)state;
    static const struct {
        const char *what;
        int64_t kernel, pad;
        qb_dtype in, out;
        int32_t in_zero, out_zero;
        qb_act act;
        bool taken;
    } rows[] = {
        {"symmetric", 3, 1, QB_DTYPE_S8, QB_DTYPE_S8, 0, 0, {.kind = QB_ACT_RELU}, true},
        {"Z inside", 3, 0, QB_DTYPE_S8, QB_DTYPE_S8, 7, 0, {.kind = QB_ACT_RELU}, true},
        {"Z, one pixel", 1, 0, QB_DTYPE_S8, QB_DTYPE_S8, -3, 0, {.kind = QB_ACT_NONE}, true},
        {"Z at the border", 3, 1, QB_DTYPE_S8, QB_DTYPE_S8, 7, 0, {.kind = QB_ACT_RELU}, false},
        {"u8 data", 3, 1, QB_DTYPE_U8, QB_DTYPE_S8, 0, 0, {.kind = QB_ACT_RELU}, false},
        {"u8 result", 3, 1, QB_DTYPE_S8, QB_DTYPE_U8, 0, 0, {.kind = QB_ACT_RELU}, false},
        {"Zy, saturated", 3, 1, QB_DTYPE_S8, QB_DTYPE_S8, 0, -128, {.kind = QB_ACT_RELU}, true},
        {"Zy under ReLU", 3, 1, QB_DTYPE_S8, QB_DTYPE_S8, 0, 5, {.kind = QB_ACT_RELU}, false},
        {"Zy", 3, 1, QB_DTYPE_S8, QB_DTYPE_S8, 0, 5, {.kind = QB_ACT_NONE}, true},
        {"SiLU", 3, 1, QB_DTYPE_S8, QB_DTYPE_S8, 0, 0, {.kind = QB_ACT_SILU}, false},
    };
    const qb_tactic *t = qb_tactic_find("cuda.conv_s8.cudnn");
    qb_ctx cx;
    qb_rng rng;
    qb_ctx_init(&cx);
    qb_rng_seed(&rng, 1);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        conv_case c;
        qb_problem problem;
        qb_desc in[4];
        conv_spec spec = conv_spec_plain(2, 64, 14, 64, rows[i].kernel, 1);
        spec.pad_top = spec.pad_left = spec.pad_bottom = spec.pad_right = rows[i].pad;
        spec.in = rows[i].in;
        spec.out = rows[i].out;
        spec.in_zero = rows[i].in_zero;
        spec.out_zero = rows[i].out_zero;
        spec.act = rows[i].act;
        assert_ok(&cx, conv_case_init(&cx, &c, &spec, &rng));
        conv_case_on_device(&c, &problem, in);
        if (qb_tactic_takes(t, &problem, c.constant) != rows[i].taken)
            fail_msg("%s: expected %s", rows[i].what, rows[i].taken ? "taken" : "left out");
        conv_case_release(&c);
    }
}

/* What the plain kernel for quantized values says of a convolution. */
static const char *remark_on(conv_spec spec, const char *name, char text[64]) {
    conv_case c;
    qb_problem problem;
    qb_desc in[4];
    qb_ctx cx;
    qb_rng rng;
    const qb_tactic *t = qb_tactic_find(name);
    qb_ctx_init(&cx);
    qb_rng_seed(&rng, 2);
    assert_non_null(t);
    assert_ok(&cx, conv_case_init(&cx, &c, &spec, &rng));
    conv_case_on_device(&c, &problem, in);
    assert_true(qb_tactic_takes(t, &problem, c.constant));
    const qb_kernel kernel = {.tactic = t, .problem = problem};
    const bool said = qb_cuda_fallback_reason(&kernel, text, 64);
    conv_case_release(&c);
    return said ? text : "nothing";
}

static void slow_kernels_say_why(void **state) {
    (void)state;
    static const char plain[] = "cuda.conv";
    char text[64];
    conv_spec spec = conv_spec_plain(1, 18, 9, 32, 3, 1);
    assert_string_equal(remark_on(spec, plain, text), "C=18: no tile");
    spec.in_c = 48;
    assert_string_equal(remark_on(spec, plain, text), "no tile takes it"); /* it is just slower */
    spec.in_slice = 3;
    assert_string_equal(remark_on(spec, plain, text), "C=48 at 3 of 54: no tile");
    spec.in_slice = 0;
    spec.group = 2;
    assert_string_equal(remark_on(spec, plain, text), "group=2: no tile");
    spec.group = 1;
    spec.weight = QB_DTYPE_U8;
    assert_string_equal(remark_on(spec, plain, text), "weights with zero points: no tile");
    spec.weight = QB_DTYPE_S8;
    spec.out_c = spec.group = spec.in_c;
    spec.kernel_h = spec.kernel_w = 9;
    assert_string_equal(remark_on(spec, plain, text), "depthwise 9x9/1: no tile");
    assert_string_equal(
        remark_on(conv_spec_plain(1, 32, 9, 32, 3, 1), "cuda.conv_s8.mma_nhwc_64x64x64", text),
        "nothing");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(cudnn_stays_out_where_it_is_not_exact),
    cmocka_unit_test(slow_kernels_say_why),
    cmocka_unit_test(convolutions_have_a_plain_kernel),
    cmocka_unit_test(whatever_is_taken_has_a_plain_kernel),
};
QB_TEST_MAIN(tests)
