/* The tactic registry and kernels' ownership of their problem. */
#include "run_problem.h"

#include <string.h>

static void names_are_unique_and_follow_the_grammar(void **state) {
    (void)state;
    for (const qb_tactic *const *a = qb_tactics(); *a; a++) {
        size_t n = strlen((*a)->backend);
        assert_memory_equal((*a)->name, (*a)->backend, n);
        assert_int_equal((*a)->name[n], '.');
        assert_ptr_equal(qb_tactic_find((*a)->name), *a);
        for (const qb_tactic *const *b = qb_tactics(); b < a; b++)
            assert_string_not_equal((*a)->name, (*b)->name);
    }
    assert_null(qb_tactic_find("ref.nothing"));
}

static void a_reference_stands_last_for_each_kind(void **state) {
    (void)state;
    for (int k = QB_KIND_NODE + 1; k <= QB_KIND_COPY; k++) {
        const qb_tactic *last = NULL;
        for (const qb_tactic *const *t = qb_tactics(); *t; t++)
            if ((*t)->kind == (qb_kind)k) last = *t;
        assert_non_null(last);
        assert_string_equal(last->backend, "ref");
        assert_int_equal(last->exactness, QB_EXACT);
    }
}

/* The caller's descs and scales may go away after create. */
static void kernels_own_their_problem(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    float scale[2] = {0.5f, 0.25f};
    int32_t zero[2] = {3, 9};
    qb_desc in = quantized_desc(QB_DTYPE_U8, qb_shape_of(1, 4), &scale[0], &zero[0]);
    in.layout = QB_LAYOUT_ANY;
    qb_problem p = {.kind = QB_KIND_COPY,
                    .n_in = 1,
                    .in = &in,
                    .out = quantized_desc(QB_DTYPE_U8, qb_shape_of(1, 4), &scale[1], &zero[1])};
    const qb_tactic *tactic = qb_tactic_find("ref.copy");
    qb_kernel *kernel;
    assert_ok(&cx, tactic->create(&cx, tactic, &p, (bool[]){false}, 1, &kernel));
    memset(scale, 0, sizeof scale), memset(zero, 0, sizeof zero), memset(&in, 0, sizeof in);
    assert_true(kernel->problem.in[0].q.scale[0] == 0.5f && kernel->problem.in[0].q.zero[0] == 3);
    assert_true(kernel->problem.out.q.scale[0] == 0.25f && kernel->problem.out.q.zero[0] == 9);
    assert_int_equal(kernel->problem.in[0].layout, QB_LAYOUT_ROW); /* settled */
    uint8_t x[4] = {3, 4, 5, 6}, y[4];
    const void *inputs[1] = {x};
    assert_ok(&cx, kernel->launch(&cx, kernel, &(qb_launch){.in = inputs, .out = y}));
    for (int i = 0; i < 4; i++) assert_int_equal(y[i], 9 + 2 * i);
    qb_kernel_free(kernel);
    qb_kernel_free(NULL);
}

static void unfit_problems_are_refused_with_a_reason(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_kernel *kernel;
    const qb_tactic *tactic = qb_tactic_find("ref.conv");
    qb_desc in[2] = {float_desc(qb_shape_of(4, 1, 4, 5, 5)),
                     float_desc(qb_shape_of(4, 6, 2, 3, 3))};
    qb_problem p = {.kind = QB_KIND_CONV,
                    .n_in = 2,
                    .in = in,
                    .out = float_desc(qb_shape_of(4, 1, 6, 3, 3)),
                    .window = {2, {3, 3}, {1, 1}, {1, 1}, {0, 0}, {0, 0}},
                    .group = 1};
    bool constant[2] = {false, true};
    assert_fails(&cx, tactic->create(&cx, tactic, &p, constant, 1, &kernel), QB_STATUS_INVALID);
    assert_message(&cx, "weight dimension 1: expected 4, got 2");
    assert_false(qb_tactic_takes(tactic, &p, constant));
    p.group = 2;
    assert_true(qb_tactic_takes(tactic, &p, constant));
    in[0].layout = QB_LAYOUT_NHWC;
    assert_fails(&cx, tactic->create(&cx, tactic, &p, constant, 1, &kernel), QB_STATUS_UNSUPPORTED);
    assert_message(&cx, "expected layout row, got nhwc");
    in[0].layout = QB_LAYOUT_ROW;
    in[1].dtype = QB_DTYPE_S8;
    assert_false(qb_tactic_takes(tactic, &p, constant)); /* float data, integer weight */
    p.kind = QB_KIND_MATMUL;
    assert_false(qb_tactic_takes(tactic, &p, constant)); /* not its kind */
}

static qb_status make_kernel(qb_ctx *cx, void *user) {
    qb_kernel *kernel = NULL;
    const qb_problem *p = user;
    const qb_tactic *tactic = qb_tactic_find("ref.concat");
    qb_status status = tactic->create(cx, tactic, p, (bool[]){false, false}, 1, &kernel);
    qb_kernel_free(kernel);
    return status;
}

static void running_out_of_memory_is_reported(void **state) {
    (void)state;
    qb_desc in[2] = {float_desc(qb_shape_of(2, 2, 3)), float_desc(qb_shape_of(2, 2, 4))};
    qb_problem p = {.kind = QB_KIND_CONCAT,
                    .n_in = 2,
                    .in = in,
                    .out = float_desc(qb_shape_of(2, 2, 7)),
                    .axis = 1};
    assert_int_equal(qb_test_alloc_sweep(make_kernel, &p), 1);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(names_are_unique_and_follow_the_grammar),
    cmocka_unit_test(a_reference_stands_last_for_each_kind),
    cmocka_unit_test(kernels_own_their_problem),
    cmocka_unit_test(unfit_problems_are_refused_with_a_reason),
    cmocka_unit_test(running_out_of_memory_is_reported),
};
QB_TEST_MAIN(tests)
