/* What makes auto give its choice by tensor up: scores of held-back samples, here made up. */
#include "small_run.h"

#include <math.h>

#include "base/log.h"
#include "calib/holdout.h"

enum { METHODS = 3, AUTO = 0, HELD_BACK = RUN_IMAGES / 5 };

/* Scores by method, and of each sample its squared error. */
typedef struct made_up {
    double sqnr_db[METHODS], err[METHODS][HELD_BACK];
    int64_t seen; /* samples behind the statistics that were scored */
} made_up;

static qb_status give(qb_ctx *cx, const void *user, const qb_graph *graph, const qb_table *table,
                      const qb_calib_options *options, qb_method_scores *out) {
    made_up *m = (made_up *)(uintptr_t)user;
    (void)graph;
    assert_int_equal(options->hold_back, 5);
    m->seen = table->n_recorded;
    *out = (qb_method_scores){.samples = HELD_BACK};
    out->err_square = qb_alloc(cx, METHODS * HELD_BACK, sizeof *out->err_square);
    if (!out->err_square) return cx->code;
    for (int i = 0; i < METHODS; i++) {
        out->sqnr_db[i] = m->sqnr_db[i];
        out->agreement[i] = 50 + i;
        for (int k = 0; k < HELD_BACK; k++) out->err_square[i * HELD_BACK + k] = m->err[i][k];
    }
    return QB_OK;
}

/* Calibrates by auto, percentile and minmax; *own and *minmax: the input's ranges. */
static qb_holdout decide(int64_t samples, made_up *scores, qb_range *own, qb_range *minmax) {
    static const char *const names[METHODS] = {"auto", "percentile:90", "minmax"};
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_method_choice choice[METHODS];
    qb_dataset *dataset = run_dataset(&cx);
    qb_graph *graph = run_graph(&cx, RUN_SIDE);
    qb_table *table;
    qb_holdout out;
    if (samples < RUN_IMAGES) qb_dataset_keep_part(dataset, 0, (int32_t)(RUN_IMAGES / samples));
    for (int i = 0; i < METHODS; i++) assert_ok(&cx, qb_method_parse(&cx, names[i], &choice[i]));
    const qb_calib_options options = {.methods = choice,
                                      .n_methods = METHODS,
                                      .spec.backends = "ref",
                                      .resume = true, /* of the first pass: not of the second */
                                      .checkpoint = "/nowhere/at.all",
                                      .loader = run_loader(dataset, 4, 1)};
    qb_calib_options first = options;
    first.checkpoint = NULL;
    first.resume = false;
    assert_ok(&cx, qb_calibrate(&cx, graph, &first, &table));
    assert_ok(&cx, qb_calib_hold_out(&cx, graph, &options, AUTO, give, scores, table, &out));
    *own = qb_table_find(table, "image")->range[AUTO];
    *minmax = qb_table_find(table, "image")->range[2];
    qb_table_free(table);
    qb_graph_free(graph);
    qb_dataset_close(dataset);
    return out;
}

static void a_method_that_is_better_on_each_sample_is_taken(void **state) {
    (void)state;
    made_up m = {.sqnr_db = {20, 19, 30}, .err = {{4, 5, 4, 5}, {5, 6, 5, 6}, {1, 1.5, 1, 1.25}}};
    qb_range own, minmax;
    const qb_holdout out = decide(RUN_IMAGES, &m, &own, &minmax);
    assert_int_equal(out.n, METHODS);
    assert_int_equal(out.samples, HELD_BACK);
    assert_int_equal(out.best, 2);
    assert_int_equal(m.seen, RUN_IMAGES - HELD_BACK);
    assert_string_equal(out.item[1].method, "percentile:90");
    assert_float_equal(out.item[2].sqnr_db, 30, 0);
    assert_float_equal(out.item[1].agreement, 51, 0);
    assert_true(own.lo == minmax.lo && own.hi == minmax.hi);
}

/* One sample decides most of the sum: less error in total, and no evidence. */
static void a_method_that_is_better_by_chance_is_not(void **state) {
    (void)state;
    made_up m = {.sqnr_db = {20, 24, 19}, .err = {{20, 1, 1, 1}, {2, 2, 2, 2}, {30, 1, 1, 1}}};
    qb_range own, minmax;
    assert_int_equal(decide(RUN_IMAGES, &m, &own, &minmax).best, AUTO);
}

static void whatever_computes_beats_a_choice_that_makes_nan(void **state) {
    (void)state;
    made_up m = {.sqnr_db = {NAN, 3, 4}, .err = {{NAN, NAN, NAN, NAN}, {9, 9, 9, 9}, {8, 9, 8, 9}}};
    qb_range own, minmax;
    assert_int_equal(decide(RUN_IMAGES, &m, &own, &minmax).best, 2);
}

static void few_samples_judge_nothing(void **state) {
    (void)state;
    made_up m = {.seen = -1};
    qb_range own, minmax;
    const qb_holdout out = decide(7, &m, &own, &minmax);
    assert_int_equal(out.n, 0);
    assert_int_equal(m.seen, -1);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_method_that_is_better_on_each_sample_is_taken),
    cmocka_unit_test(a_method_that_is_better_by_chance_is_not),
    cmocka_unit_test(whatever_computes_beats_a_choice_that_makes_nan),
    cmocka_unit_test(few_samples_judge_nothing),
};

QB_TEST_MAIN(tests)
