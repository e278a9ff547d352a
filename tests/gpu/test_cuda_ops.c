/* Every CUDA tactic against the scalar reference on random problems of all kinds, with f32 and f16
 * data and 8-bit codes; see tests/op/trial.h. QB_TEST_CASES cases of each tactic, QB_TEST_SEED,
 * QB_TEST_ONLY a tactic, or the beginning of the names to test.
 * ctest-timeout: 600 */
#include <stdlib.h>
#include <string.h>

#include "../op/trial.h"
#include "kernels/cuda/device.h"
#include "qb_test.h"

#define CASES 80
#define ATTEMPTS 6000
#define LIBRARY_CASES 6 /* where a library makes and times plans for each problem */
#define LIBRARY_ATTEMPTS 1500

static bool is_library(const qb_tactic *t) {
    return strstr(t->name, "cudnn") != NULL || strstr(t->name, "cublas") != NULL;
}

/* A library's that is not here; or s8 convolutions of cuDNN, which random problems hardly ever are:
 * they have a test of their own too. */
static bool is_absent(const qb_tactic *t) {
    return strstr(t->name, "cudnn") &&
           (qb_cuda_cudnn_version() == 0 || strcmp(t->name, "cuda.conv_s8.cudnn") == 0);
}

static bool is_chosen(const qb_tactic *t, const char *only) {
    if (strcmp(t->backend, "cuda") != 0) return false;
    if (!only || qb_tactic_find(only) == t) return true;
    return !qb_tactic_find(only) && strncmp(t->name, only, strlen(only)) == 0;
}

/* How many random problems the tactic ran, all of them right. */
static int try_tactic(qb_ctx *cx, qb_rng *rng, const qb_tactic *t, int cases, int attempts) {
    int done = 0, offered = 0;
    for (; done < cases && offered < attempts; offered++) {
        random_case c;
        random_case_make(cx, rng, t->kind, &c);
        if (random_chance(rng, 50)) random_case_halve(cx, &c, QB_DTYPE_F16);
        done += trial_run(cx, rng, t, &c, NULL);
        random_case_release(&c);
    }
    print_message("%-44s %4d cases of %d problems\n", t->name, done, offered);
    return done;
}

static void every_tactic_agrees_with_the_reference(void **state) {
    (void)state;
    static qb_ctx cx;
    qb_cuda_device device;
    int missing = 0;
    const char *seed = getenv("QB_TEST_SEED"), *text = getenv("QB_TEST_CASES");
    const char *only = getenv("QB_TEST_ONLY");
    int cases = text ? atoi(text) : CASES;
    qb_ctx_init(&cx);
    if (qb_cuda_open(&cx, 0, &device) != QB_OK) qb_test_skip("%s", cx.message);
    for (const qb_tactic *const *t = qb_tactics(); *t; t++) {
        if (!is_chosen(*t, only)) continue;
        if (is_library(*t) && getenv("QB_TEST_NO_CUDNN")) continue;
        qb_rng rng;
        qb_rng_seed(&rng, seed ? strtoull(seed, NULL, 10) : 20261121);
        bool few = is_library(*t) && cases > LIBRARY_CASES;
        int done = try_tactic(&cx, &rng, *t, few ? LIBRARY_CASES : cases,
                              is_library(*t) ? LIBRARY_ATTEMPTS : ATTEMPTS);
        /* the tiles of Tensor Cores have a test of their own, with problems made for them */
        bool tile = strstr((*t)->name, "wgmma") || strstr((*t)->name, "mma_");
        missing += done == 0 && !is_absent(*t) && !tile;
    }
    assert_int_equal(missing, 0);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_tactic_agrees_with_the_reference),
};

QB_TEST_MAIN(tests)
