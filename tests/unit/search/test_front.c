/* Which measured plans are on the front and which one is picked; the model that proposes them; and
 * the journal that a search goes on from. */
#include <math.h>
#include <string.h>

#include "base/file.h"
#include "qb_test.h"
#include "search/costs.h"
#include "search/search.h"

static const qb_search_limits nothing = {NAN, NAN, NAN, NAN, false};

/* ---- the front ------------------------------------------------------------------------------- */

enum { POINTS = 5 };
static bool all_integers[1] = {false}, one_float[1] = {true};

/* In no order: ratio, drop with its interval's end, agreement, SQNR. */
static void make_points(qb_search_point *p, qb_search *out) {
    static const double values[POINTS][5] = {{1.30, 0.1, 0.6, 99.0, 40},
                                             {1.00, 0.9, 1.9, 96.0, 30},
                                             {1.10, 0.3, 1.1, 98.0, 36},
                                             {1.20, 0.4, 0.5, 97.0, 38}, /* slower, loses more */
                                             {2.00, 0.0, 0.0, 100.0, INFINITY}};
    memset(p, 0, POINTS * sizeof *p);
    for (int i = 0; i < POINTS; i++) {
        p[i].a = (qb_alternative){.is_float = i == 1 ? all_integers : one_float};
        p[i].time = (qb_search_time){10 * values[i][0], values[i][0], {NAN, NAN}};
        p[i].score = (qb_search_score){.drop = values[i][1],
                                       .drop_ci = {0, values[i][2]},
                                       .agreement = values[i][3],
                                       .sqnr_db = values[i][4]};
    }
    *out = (qb_search){.n_groups = 1, .n_points = POINTS, .point = p};
}

static double picked_ratio(const qb_search_limits *limits) {
    qb_search_point points[POINTS];
    qb_search search;
    make_points(points, &search);
    qb_search_judge(limits, &search);
    return search.picked < 0 ? 0 : search.point[search.picked].time.ratio;
}

static void the_fastest_within_the_limits_is_picked(void **state) {
    (void)state;
    qb_search_limits l = nothing;
    l.max_drop = 0.5;
    assert_true(picked_ratio(&l) == 1.10);
    l.sure = true; /* its interval reaches to 1.1 points */
    assert_true(picked_ratio(&l) == 1.20);
    l.max_ratio = 1.15;
    assert_true(picked_ratio(&l) == 0);
    l = nothing;
    l.min_agreement = 98.5;
    assert_true(picked_ratio(&l) == 1.30);
    l.max_latency_ms = 12.5;
    assert_true(picked_ratio(&l) == 0);
    l = nothing;
    l.max_ratio = 1.25; /* alone: the most accurate */
    assert_true(picked_ratio(&l) == 1.20);
}

static void a_point_of_the_front_has_no_better_one(void **state) {
    (void)state;
    qb_search_point points[POINTS];
    qb_search search;
    qb_search_limits l = nothing;
    l.max_drop = 0.5;
    make_points(points, &search);
    qb_search_judge(&l, &search);
    static const bool on_front[POINTS] = {true, true, false, true, true};
    for (int i = 0; i < POINTS; i++) {
        assert_true(i == 0 || points[i - 1].time.ratio < points[i].time.ratio);
        assert_int_equal(points[i].on_front, on_front[i]);
    }
    assert_int_equal(search.integers, 0);
    make_points(points, &search);
    points[2].score.drop = NAN; /* what was not measured keeps to no limit */
    points[3].score.drop = NAN;
    qb_search_judge(&l, &search);
    assert_true(search.point[search.picked].time.ratio == 1.30);
    make_points(points, &search); /* where nothing was, noise decides */
    for (int i = 0; i < POINTS; i++) points[i].score.drop = NAN;
    qb_search_judge(&l, &search);
    assert_int_equal(search.picked, -1);
    assert_true(points[0].on_front && points[POINTS - 1].on_front);
}

/* ---- the model ------------------------------------------------------------------------------- */

/* Three groups in a row. The second one alone costs conversions on both sides, together with its
 * neighbours none. */
static void neighbours_go_together(void **state) {
    (void)state;
    qb_space_edge edges[] = {{0, 1, 10}, {1, 2, 10}};
    qb_space space = {.n = 3, .n_edges = 2, .edge = edges};
    double more[] = {1, 4, 1}, apart[] = {-1, 1, -1}, saved[] = {0, 0}, noise[] = {0.1, 5, 0.1};
    qb_costs costs = {&space, more, apart, saved};
    qb_costs_share_conversions(&costs, 1);
    assert_true(saved[0] == 3.5 && saved[1] == 3.5); /* 2 of the first, half of 3 of the second */
    const qb_noise of = {.of = noise};
    bool is_float[3] = {false};
    qb_costs_descend(&costs, &of, 0.1, is_float); /* not worth it */
    assert_false(is_float[0] || is_float[1] || is_float[2]);
    qb_costs_descend(&costs, &of, 1, is_float);
    assert_true(is_float[0] && is_float[1] && is_float[2]);
    assert_true(qb_costs_of(&costs, is_float) == 6 - 7);
    assert_true(qb_noise_of(&of, 3, is_float) == 0);
}

/* Within 5 seconds the hull of time and noise has but the group of 2; that of 3 takes more away
 * than that of 1 beside it, and both together more than the one of 5. */
static void a_limit_is_filled(void **state) {
    (void)state;
    qb_space space = {.n = 4};
    double more[] = {2, 3, 1, 5}, apart[4] = {0}, noise[] = {10, 4, 1, 12};
    qb_costs costs = {.space = &space, .more = more, .apart = apart};
    const qb_noise of = {.of = noise};
    bool is_float[4] = {true, false, false, false};
    qb_costs_fill(&costs, &of, 5, is_float);
    assert_true(is_float[0] && is_float[1] && !is_float[2] && !is_float[3]);
    bool worse[4] = {false, false, true, true}; /* an exchange: 13 of 6 seconds, 22 of 7 */
    qb_costs_fill(&costs, &of, 7, worse);
    assert_true(worse[0] && !worse[1] && !worse[2] && worse[3]);
    bool none[4] = {false};
    qb_costs_fill(&costs, &of, 0.5, none);
    assert_false(none[0] || none[1] || none[2] || none[3]);
}

/* What engines took corrects what the model puts them at, the costs of what they hold in float
 * alone. */
static void measured_times_correct_costs(void **state) {
    (void)state;
    qb_space_edge edges[] = {{0, 1, 1}, {1, 2, 1}};
    qb_space space = {.n = 3, .n_edges = 2, .edge = edges};
    double more[] = {1, 4, 2}, apart[] = {1, 1, 1}, saved[] = {0.5, 0.5};
    qb_costs costs = {&space, more, apart, saved};
    const bool first_two[] = {true, true, false}, all[] = {true, true, true};
    for (int i = 0; i < 50; i++) qb_costs_correct(&costs, first_two, 2);
    assert_true(fabs(qb_costs_of(&costs, first_two) - 2) < 1e-6);
    assert_true(more[0] < 1 && 4 - more[1] > 1 - more[0] && saved[0] > 0.5);
    assert_true(more[2] == 2 && saved[1] == 0.5);
    for (int i = 0; i < 50; i++) qb_costs_correct(&costs, all, 1);
    assert_true(fabs(qb_costs_of(&costs, all) - 1) < 1e-6);
}

/* ---- the journal ----------------------------------------------------------------------------- */

static json_t *of(int samples) { return json_pack("{s:s, s:i}", "model", "m", "samples", samples); }

static void a_torn_journal_goes_on(void **state) {
    (void)state;
    char folder[QB_TEST_PATH], path[QB_TEST_PATH], *text;
    size_t size;
    qb_ctx cx;
    qb_journal *j;
    qb_ctx_init(&cx);
    qb_test_temp_dir(folder);
    qb_test_join(path, folder, "net.search.part");
    assert_ok(&cx, qb_journal_open(&cx, path, of(3), true, &j)); /* there is none yet */
    assert_ok(&cx, qb_journal_add(&cx, j, "time", "a", json_real(0.1)));
    assert_ok(&cx, qb_journal_add(&cx, j, "time", "b", json_real(1.0 / 3)));
    qb_journal_close(j);
    assert_ok(&cx, qb_file_read(&cx, path, 4096, &text, &size));
    assert_ok(&cx, qb_file_write(&cx, path, text, size - 5)); /* killed while it wrote "b" */
    qb_free(text);
    assert_ok(&cx, qb_journal_open(&cx, path, of(3), true, &j));
    assert_int_equal(qb_journal_taken(j), 1);
    assert_true(json_real_value(qb_journal_find(j, "time", "a")) == 0.1);
    assert_null(qb_journal_find(j, "time", "b"));
    assert_null(qb_journal_find(j, "score", "a"));
    assert_ok(&cx, qb_journal_add(&cx, j, "time", "b", json_real(1.0 / 3)));
    qb_journal_close(j);
    assert_ok(&cx, qb_journal_open(&cx, path, of(3), true, &j));
    assert_int_equal(qb_journal_taken(j), 2);
    assert_true(json_real_value(qb_journal_find(j, "time", "b")) == 1.0 / 3);
    qb_journal_close(j);
    assert_fails(&cx, qb_journal_open(&cx, path, of(4), true, &j), QB_STATUS_MISMATCH);
    assert_message(&cx, "is of another search: its samples is 3, not 4");
    qb_ctx_clear(&cx);
    assert_ok(&cx, qb_journal_open(&cx, path, of(4), false, &j)); /* begins anew */
    assert_int_equal(qb_journal_taken(j), 0);
    qb_journal_close(j);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(the_fastest_within_the_limits_is_picked),
    cmocka_unit_test(a_point_of_the_front_has_no_better_one),
    cmocka_unit_test(neighbours_go_together),
    cmocka_unit_test(a_limit_is_filled),
    cmocka_unit_test(measured_times_correct_costs),
    cmocka_unit_test(a_torn_journal_goes_on),
};

QB_TEST_MAIN(tests)
