/* Tiers of instruction sets: those of the machine, and what QB_CPU leaves of them. */
#include "base/processor.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "qb_test.h"

static int forget(void **state) {
    (void)state;
    return unsetenv("QB_CPU");
}

static void the_limit_only_takes_away(void **state) {
    bool has[QB_TIER_COUNT];
    (void)state;
    assert_int_equal(qb_processor_limit(), QB_TIER_COUNT);
    for (int i = 0; i < QB_TIER_COUNT; i++) has[i] = qb_processor_has((qb_tier)i);
    assert_true(has[QB_TIER_SCALAR]);
    assert_true(has[qb_processor_tier()]);
    for (int limit = 0; limit < QB_TIER_COUNT; limit++) {
        assert_int_equal(setenv("QB_CPU", qb_tier_text((qb_tier)limit), 1), 0);
        assert_int_equal(qb_processor_limit(), limit);
        for (int i = 0; i < QB_TIER_COUNT; i++)
            assert_int_equal(qb_processor_has((qb_tier)i), has[i] && i <= limit);
        assert_true(qb_processor_tier() <= (qb_tier)limit);
    }
}

static void higher_tiers_include_lower_ones(void **state) {
    (void)state;
    if (qb_processor_has(QB_TIER_AVX512)) assert_true(qb_processor_has(QB_TIER_AVX2));
    if (qb_processor_has(QB_TIER_AVX512_VNNI)) assert_true(qb_processor_has(QB_TIER_AVX512));
    if (qb_processor_has(QB_TIER_AVX512_BF16)) assert_true(qb_processor_has(QB_TIER_AVX512_VNNI));
    assert_int_equal(setenv("QB_CPU", "avx2", 1), 0);
    assert_false(qb_processor_has_vbmi());
}

static void other_names_are_refused(void **state) {
    qb_ctx cx;
    (void)state;
    qb_ctx_init(&cx);
    assert_int_equal(qb_processor_check(&cx), QB_OK);
    assert_int_equal(setenv("QB_CPU", "avx512-vnni", 1), 0);
    assert_int_equal(qb_processor_check(&cx), QB_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(setenv("QB_CPU", i ? " " : "AVX2", 1), 0);
        assert_int_equal(qb_processor_check(&cx), QB_STATUS_INVALID);
        assert_non_null(strstr(cx.message, "avx512-vnni"));
        qb_ctx_clear(&cx);
    }
}

static void an_empty_name_is_none(void **state) {
    qb_ctx cx;
    (void)state;
    qb_ctx_init(&cx);
    const qb_tier highest = qb_processor_tier();
    assert_int_equal(setenv("QB_CPU", "", 1), 0);
    assert_ok(&cx, qb_processor_check(&cx));
    assert_int_equal(qb_processor_limit(), QB_TIER_COUNT);
    assert_int_equal(qb_processor_tier(), highest);
}

/* Each in a process of its own, for the first answer holds. */
static void loops_follow_the_limit(void **state) {
    (void)state;
    for (int limit = 0; limit < QB_TIER_COUNT; limit++) {
        int status = 0;
        const pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            setenv("QB_CPU", qb_tier_text((qb_tier)limit), 1);
            const int bytes = qb_processor_vector_bytes();
            const int most = limit >= QB_TIER_AVX512 ? 64 : limit >= QB_TIER_AVX2 ? 32 : 16;
            const bool own =
                bytes == 16 || qb_processor_has(bytes == 64 ? QB_TIER_AVX512 : QB_TIER_AVX2);
            const bool all = bytes == most || !qb_processor_has((qb_tier)limit);
            _exit(bytes <= most && own && all ? 0 : 1);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_limit_only_takes_away, forget, forget),
        cmocka_unit_test_setup_teardown(higher_tiers_include_lower_ones, forget, forget),
        cmocka_unit_test_setup_teardown(other_names_are_refused, forget, forget),
        cmocka_unit_test_setup_teardown(an_empty_name_is_none, forget, forget),
        cmocka_unit_test_setup_teardown(loops_follow_the_limit, forget, forget),
    };
    return qb_test_exit_code(cmocka_run_group_tests(tests, NULL, NULL),
                             sizeof tests / sizeof *tests);
}
