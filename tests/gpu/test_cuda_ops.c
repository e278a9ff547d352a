/* Every CUDA tactic against the scalar reference on random problems of all kinds, with f32 and f16
 * data and 8-bit values; see tests/op/trial.h. QB_TEST_CASES cases of each tactic, QB_TEST_SEED,
 * QB_TEST_ONLY a tactic, or the beginning of the names to test.
 * ctest-timeout: 600 */
#include <stdlib.h>
#include <string.h>

#include "../op/trial.h"
#include "kernels/cuda/common/code.h"
#include "kernels/cuda/common/device.h"
#include "qb_test.h"

#define CASES 80
#define ATTEMPTS 3000
#define LIBRARY_CASES 6 /* where a library makes and times plans for each problem */
#define LIBRARY_ATTEMPTS 1500
#define TACTICS_MAX 200 /* of a kind */

static bool is_library(const qb_tactic *t) {
    return strstr(t->name, "cudnn") != NULL || strstr(t->name, "cublas") != NULL;
}

/* A library's that is not here; or convolutions of quantized values, alone or with a pool, for
 * which random problems are rare: they have tests of their own too. */
static bool is_absent(const qb_tactic *t) {
    return (strstr(t->name, "cudnn") && qb_cuda_cudnn_version() == 0) ||
           t->kind == QB_KIND_CONV_POOL ||
           strncmp(t->name, "cuda.conv_s8.", strlen("cuda.conv_s8.")) == 0;
}

static bool is_chosen(const qb_tactic *t, const char *only) {
    if (strcmp(t->backend, "cuda") != 0) return false;
    if (!only || qb_tactic_find(only) == t) return true;
    return !qb_tactic_find(only) && strncmp(t->name, only, strlen(only)) == 0;
}

/* A library's plans take long to make: they are tried once, and then the first ones are taken.
 * cuDNN numbers them one after the other. */
static int32_t variant_of(const qb_tactic *t, int done, int offered) {
    if (!is_library(t) || done == 0) return 0;
    return strstr(t->name, "cudnn") ? 1 + offered % 2 : 1;
}

/* A tactic at work: how many problems it was offered and ran, all of them right. */
typedef struct entrant {
    const qb_tactic *tactic;
    qb_rng rng;
    int wanted, attempts, done, offered;
} entrant;

static bool is_hungry(const entrant *e) { return e->done < e->wanted && e->offered < e->attempts; }

static bool any_hungry(const entrant *list, int n) {
    for (int i = 0; i < n; i++)
        if (is_hungry(&list[i])) return true;
    return false;
}

/* Each random problem of the kind is made once and offered to all that want more. */
static void try_kind(qb_ctx *cx, uint64_t seed, qb_kind kind, entrant *list, int n) {
    qb_rng rng;
    qb_rng_seed(&rng, seed);
    while (any_hungry(list, n)) {
        random_case c;
        random_case_make_device(cx, &rng, kind, &c);
        for (int i = 0; i < n; i++) {
            if (!is_hungry(&list[i])) continue;
            c.problem.variant = variant_of(list[i].tactic, list[i].done, list[i].offered);
            list[i].done += trial_run(cx, &list[i].rng, list[i].tactic, &c, NULL);
            list[i].offered++;
        }
        random_case_release(&c);
    }
    for (int i = 0; i < n; i++)
        print_message("%-44s %4d cases of %d problems\n", list[i].tactic->name, list[i].done,
                      list[i].offered);
}

static int enter(qb_kind kind, const char *only, int cases, uint64_t seed, entrant *list) {
    int n = 0;
    for (const qb_tactic *const *t = qb_tactics(); *t; t++) {
        const bool few = is_library(*t);
        if ((*t)->kind != kind || !is_chosen(*t, only)) continue;
        if (few && getenv("QB_TEST_NO_CUDNN")) continue;
        assert_true(n < TACTICS_MAX);
        entrant *e = &list[n++];
        *e = (entrant){.tactic = *t,
                       .wanted = few && cases > LIBRARY_CASES ? LIBRARY_CASES : cases,
                       .attempts = few ? LIBRARY_ATTEMPTS : ATTEMPTS};
        qb_rng_seed(&e->rng, seed + (uint64_t)n);
    }
    return n;
}

/* How many problems it must have run: some, where it can run at all. test_cuda_table holds that the
 * problems are for every tactic. */
static int required(const entrant *e, const qb_cuda_device *device) {
    qb_ctx cx;
    qb_ctx_init(&cx);
    const qb_cuda_need need = {.wgmma = strstr(e->tactic->name, "wgmma") != NULL};
    const bool may = qb_cuda_need_check(&cx, e->tactic->name, &need, device) == QB_OK;
    qb_ctx_clear(&cx);
    if (!may || is_absent(e->tactic)) return 0;
    return is_library(e->tactic) || e->wanted < 3 ? 1 : 3;
}

static void every_tactic_agrees_with_the_reference(void **state) {
    (void)state;
    static qb_ctx cx;
    static entrant list[TACTICS_MAX];
    qb_cuda_device device;
    int missing = 0;
    const char *text = getenv("QB_TEST_CASES"), *given = getenv("QB_TEST_SEED");
    const uint64_t seed = given ? strtoull(given, NULL, 10) : 20261121;
    const int cases = text ? atoi(text) : CASES;
    qb_ctx_init(&cx);
    if (qb_cuda_open(&cx, 0, &device) != QB_OK) qb_test_skip("%s", cx.message);
    for (int kind = 0; kind < QB_KIND_COUNT; kind++) {
        const int n = enter((qb_kind)kind, getenv("QB_TEST_ONLY"), cases, seed, list);
        try_kind(&cx, seed, (qb_kind)kind, list, n);
        for (int i = 0; i < n; i++)
            if (list[i].done < required(&list[i], &device)) {
                print_error("%s: %d cases\n", list[i].tactic->name, list[i].done);
                missing++;
            }
    }
    assert_int_equal(missing, 0);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_tactic_agrees_with_the_reference),
};

QB_TEST_MAIN(tests)
