/* Every tactic against the reference, on random problems: odd sizes, pads, strides, groups,
 * dilations, residuals, activations, zero points, channel slices, in place; see trial.h.
 *
 * ctest-timeout: 300, ctest-cost: 55 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/processor.h"
#include "qb_test.h"
#include "trial.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CASES FEW
#else
#define CASES 150 /* of each tactic */
#endif
#define FEW 50         /* every kind of edge comes early; what many cases are for is bits */
#define ATTEMPTS 12000 /* problems offered to find them */

/* Rows whose name asks for an instruction set that this machine lacks cannot be exercised; those of
 * devices have tests of their own (tests/gpu), with buffers in device memory. */
static bool machine_has(const qb_tactic *tactic) {
    if (strcmp(tactic->backend, "cuda") == 0) return false;
    static const struct {
        const char *name;
        qb_tier tier;
    } asks[] = {{"bf16", QB_TIER_AVX512_BF16},
                {"avx512vnni", QB_TIER_AVX512_VNNI},
                {"avx512", QB_TIER_AVX512},
                {"avx2vnni", QB_TIER_AVX2_VNNI},
                {"avx2", QB_TIER_AVX2},
                {"dnnl.conv_s8", QB_TIER_AVX512_VNNI},
                {"dnnl.matmul_s8", QB_TIER_AVX512_VNNI}};
    for (size_t i = 0; i < sizeof asks / sizeof *asks; i++)
        if (strstr(tactic->name, asks[i].name)) return qb_processor_has(asks[i].tier);
    return true;
}

/* Tactics of bf16, and some problems of those that take bf16 beside f32. */
static bool in_bf16(qb_rng *rng, const qb_tactic *tactic) {
    if (strstr(tactic->name, "bf16")) return true;
    const bool light = tactic->kind == QB_KIND_POOL || tactic->kind == QB_KIND_BINARY ||
                       tactic->kind == QB_KIND_UNARY || tactic->kind == QB_KIND_COPY ||
                       strstr(tactic->name, "scale_shift");
    return light && strcmp(tactic->backend, "ref") != 0 && random_chance(rng, 30);
}

static void every_tactic_agrees_with_the_reference(void **state) {
    const char *only = *state; /* beginning of the names to test, or NULL */
    /* Most kernels of a lower tier have rows that run in the processor's own as well. */
    const int cases = qb_processor_limit() < QB_TIER_COUNT ? FEW : CASES;
    static qb_ctx cx;
    qb_workers *workers;
    qb_ctx_init(&cx);
    assert_ok(&cx, qb_workers_create(&cx, 2, &workers));
    int missing = 0;
    for (const qb_tactic *const *t = qb_tactics(); *t; t++) {
        if (only && strncmp((*t)->name, only, strlen(only)) != 0) continue;
        if (!machine_has(*t)) {
            print_message("%s: this machine cannot run it\n", (*t)->name);
            continue;
        }
        qb_rng rng;
        qb_rng_seed(&rng, 20240229);
        int done = 0, offered = 0;
        for (; done < cases && offered < ATTEMPTS; offered++) {
            random_case c;
            random_case_make(&cx, &rng, (*t)->kind, &c);
            if (in_bf16(&rng, *t)) random_case_halve(&c, QB_DTYPE_BF16);
            done += trial_run(&cx, &rng, *t, &c, workers);
            random_case_release(&c);
        }
        print_message("%-32s %4d cases of %d problems\n", (*t)->name, done, offered);
        missing += done == 0;
    }
    qb_workers_free(workers);
    assert_int_equal(missing, 0);
}

/* test_tactics [BEGINNING OF NAMES]; in the tier of QB_CPU, which the processor must have, and
 * which must not be its own: the run without QB_CPU is in that. */
int main(int argc, char **argv) {
    const qb_tier limit = qb_processor_limit();
    if (limit < QB_TIER_COUNT) {
        const bool has = qb_processor_tier() == limit;
        unsetenv("QB_CPU");
        if (!has || qb_processor_tier() == limit) {
            printf("skipped: %s\n", has ? "op.tactics runs in this tier" : "not on this processor");
            return 77;
        }
        setenv("QB_CPU", qb_tier_text(limit), 1);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(every_tactic_agrees_with_the_reference,
                                  argc > 1 ? argv[1] : NULL),
    };
    return qb_test_exit_code(cmocka_run_group_tests(tests, NULL, NULL),
                             sizeof tests / sizeof *tests);
}
