/* The ONNX node cases, by the operators' definitions, by the reference engine and by the default
 * backends.
 *
 * QB_NODE_CASE picks cases whose name contains it; QB_NODE_VERBOSE lists all of them.
 * ctest-timeout: 120 */
#include "qb_test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "eval/verify.h"

/* At least this many of the 629 cases must pass; more operators raise it. The others are refused by
 * name: opsets older than 7, and in engines shapes that follow from values. */
#define MIN_BY_EVAL 627
#define MIN_BY_ENGINE 621

static void run_all(const char *backends, int32_t min_passed) {
    char root[QB_TEST_PATH];
    qb_test_need_shared(root, "onnx-node-tests");
    const char *only = getenv("QB_NODE_CASE");
    bool verbose = getenv("QB_NODE_VERBOSE") != NULL;
    const qb_verify_options options = {.spec.backends = backends, .rtol = NAN, .atol = NAN};
    qb_ctx cx;
    qb_ctx_init(&cx);
    cx.threads = 1;
    char **cases;
    int32_t n, count[QB_OUTCOME_COUNT] = {0};
    assert_ok(&cx, qb_cases_find(&cx, root, &cases, &n));
    for (int32_t i = 0; i < n; i++) {
        qb_case_result r;
        const char *name = qb_path_base(cases[i]);
        if (only && !strstr(name, only)) continue;
        assert_ok(&cx, qb_verify_case(&cx, cases[i], &options, &r));
        count[r.outcome]++;
        if (r.outcome == QB_OUTCOME_FAILED || verbose)
            printf("%s %s: error %g %s\n", qb_outcome_text(r.outcome), name, r.max_error, r.reason);
    }
    qb_cases_free(cases, n);
    printf("%d passed, %d failed, %d unsupported (%s)\n", count[QB_OUTCOME_PASSED],
           count[QB_OUTCOME_FAILED], count[QB_OUTCOME_UNSUPPORTED],
           backends ? backends : "default backends");
    assert_int_equal(count[QB_OUTCOME_FAILED], 0);
    if (!only) assert_true(count[QB_OUTCOME_PASSED] >= min_passed);
}

static void definitions_match_the_standard(void **state) {
    (void)state;
    run_all(QB_VERIFY_EVAL, MIN_BY_EVAL);
}

static void reference_engine_matches_the_standard(void **state) {
    (void)state;
    run_all("ref", MIN_BY_ENGINE);
}

static void default_engine_matches_the_standard(void **state) {
    (void)state;
    run_all(NULL, MIN_BY_ENGINE);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(definitions_match_the_standard),
    cmocka_unit_test(reference_engine_matches_the_standard),
    cmocka_unit_test(default_engine_matches_the_standard),
};
QB_TEST_MAIN(tests)
