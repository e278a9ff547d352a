/* --tacticSources: the libraries that a device's tactics come from. */
#include <string.h>

#include "kernels/sources.h"
#include "qb_test.h"

static uint32_t parse(const char *text) {
    qb_ctx cx;
    uint32_t without = 99;
    qb_ctx_init(&cx);
    assert_ok(&cx, qb_sources_parse(&cx, text, &without));
    return without;
}

static void words_add_and_leave_out(void **state) {
    (void)state;
    assert_int_equal(parse(NULL), 0);
    assert_int_equal(parse(""), 0);
    assert_int_equal(parse("-CUDNN"), QB_SOURCE_CUDNN);
    assert_int_equal(parse("-cudnn,+CUBLAS_LT"), QB_SOURCE_CUDNN);
    assert_int_equal(parse("-CUDNN,-CUBLAS_LT"), QB_SOURCES_ALL);
    assert_int_equal(parse("-CUDNN,+CUDNN"), 0);
    assert_int_equal(parse("-CUBLAS,+EDGE_MASK_CONVOLUTIONS,-JIT_CONVOLUTIONS"), 0);
}

static void other_words_are_refused(void **state) {
    (void)state;
    static const char *const bad[] = {"CUDNN", "-", "*CUDNN", "-CUDN", "+-CUDNN", ","};
    qb_ctx cx;
    uint32_t without;
    qb_ctx_init(&cx);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_fails(&cx, qb_sources_parse(&cx, bad[i], &without), QB_STATUS_USAGE);
        assert_message(&cx, "--tacticSources: expected + or -");
        qb_ctx_clear(&cx);
    }
}

/* Every tactic whose name says so, and no other. */
static void a_tactics_name_says_its_source(void **state) {
    (void)state;
    for (const qb_tactic *const *t = qb_tactics(); *t; t++) {
        const uint32_t source = qb_tactic_source(*t);
        assert_int_equal(source == QB_SOURCE_CUDNN, strstr((*t)->name, "cudnn") != NULL);
        assert_int_equal(source == QB_SOURCE_CUBLAS_LT, strstr((*t)->name, "cublaslt") != NULL);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(words_add_and_leave_out),
    cmocka_unit_test(other_words_are_refused),
    cmocka_unit_test(a_tactics_name_says_its_source),
};
QB_TEST_MAIN(tests)
