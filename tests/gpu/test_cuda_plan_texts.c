/* Damaged texts of cuDNN's plans: whatever the check of their form lets through, cuDNN reads
 * without ending the process. Files have a hash of each text, so that accidents never get this far:
 * this is about texts with the right hash. Their machine code is left as it is, since the driver
 * loads what it is given: who writes that is trusted as the author of a program is
 * (docs/formats/engine.md).
 *
 * Plans of a convolution in FP16 and in INT8, of pooling and of attention are made on the device;
 * each is damaged some hundred times (QB_TEST_CASES, QB_TEST_SEED) and read in a child, which
 * counts texts that the check refuses, that cuDNN refuses, and that it takes. Where a child dies or
 * hangs, the damage is printed, and another goes on behind it. The parent must not touch CUDA,
 * which does not survive a fork. Skips without a device or cuDNN. ctest-timeout: 300 */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "json_damage.h"
#include "kernels/compiled.h"
#include "kernels/cuda/common/device.h"
#include "kernels/cuda/vendor/cudnn_internal.h"
#include "kernels/cuda/vendor/cudnn_text/cudnn_text.h"
#include "qb_test.h"

#define CASES 300
#define HANGS_AFTER 30 /* seconds without a step */
#define DEATHS_MAX 40  /* of one plan, then it is given up */
#define SKIPPED 77

enum { FP16, INT8, POOL, ATTENTION, PLANS };
static const char *const names[PLANS] = {"convolution, FP16", "convolution, INT8", "pooling",
                                         "attention"};

/* What parent and child share. */
typedef struct sweep {
    _Atomic int at; /* the case that is being read */
    int refused, not_read, taken;
    char what[512];
    char reason[QB_MESSAGE_MAX];
    size_t bytes;
    char text[QB_CUDNN_TEXT_MAX / 4];
} sweep;

/* ---- plans ----------------------------------------------------------------------------------- */

static qb_cudnn_tensor image(qb_cudnn_graph *g, int id, qb_dtype dtype, const int64_t dim[4]) {
    const int64_t stride[4] = {dim[1] * dim[2] * dim[3], 1, dim[3] * dim[1], dim[1]};
    return qb_cudnn_add(g, id, dtype, dim, stride);
}

static const int64_t data[4] = {8, 64, 14, 14}, weight[4] = {64, 64, 3, 3}, row[4] = {1, 64, 1, 1},
                     half[4] = {8, 64, 7, 7}, one[4] = {1, 1, 1, 1}, heads[4] = {2, 4, 128, 64};

static void lower(qb_cudnn_graph *g, int plan) {
    const qb_cudnn_window window = {.kernel = {3, 3},
                                    .stride = {1 + (plan == POOL), 1 + (plan == POOL)},
                                    .dilation = {1, 1},
                                    .before = {1, 1},
                                    .after = {plan != POOL, plan != POOL}};
    const qb_dtype type = plan == INT8 ? QB_DTYPE_S8 : QB_DTYPE_F16;
    if (plan == FP16 || plan == INT8) {
        qb_cudnn_tensor sums = qb_cudnn_inner(g, data), more = qb_cudnn_inner(g, data);
        qb_cudnn_convolution(g, &window, plan == INT8, image(g, 0, type, data),
                             image(g, 1, type, weight), sums);
        qb_cudnn_combine(g, plan == INT8 ? QB_CUDNN_MUL : QB_CUDNN_ADD, sums,
                         image(g, 2, QB_DTYPE_F32, row), more);
        qb_cudnn_act(g, (qb_act){.kind = QB_ACT_RELU}, more, image(g, 3, type, data));
    } else if (plan == POOL) {
        qb_cudnn_pool(g, &window, QB_POOL_MAX, image(g, 0, type, data), image(g, 1, type, half));
    } else {
        qb_cudnn_tensor in[3];
        static const int64_t stride[4] = {4 * 128 * 64, 128 * 64, 64, 1};
        for (int i = 0; i < 3; i++) in[i] = qb_cudnn_add(g, i, type, heads, stride);
        qb_cudnn_attention(g, in[0], in[1], in[2], qb_cudnn_add(g, 3, QB_DTYPE_F32, one, one),
                           qb_cudnn_add(g, 4, type, heads, stride));
    }
}

/* Makes the plan and leaves its text in *s; false with the reason where cuDNN makes none. */
static bool make_plan(qb_ctx *cx, int plan, sweep *s) {
    static const size_t enough = 8 * 64 * 14 * 14 * 4;
    const size_t bytes[QB_CUDNN_BOUND] = {enough, enough, enough, enough, enough};
    qb_cudnn_graph *g = NULL;
    qb_problem problem = {0};
    qb_hash key;
    bool made =
        qb_compiled_create(cx, &problem.compiled) == QB_OK && qb_cudnn_open(cx, &g) == QB_OK;
    if (made) lower(g, plan);
    made = made && qb_cudnn_choose(cx, g, QB_CUDNN_ANY, &problem, 0, bytes) == QB_OK &&
           qb_compiled_count(problem.compiled) > 0;
    if (made) {
        const char *text = qb_compiled_entry(problem.compiled, 0, &key, &s->bytes);
        made = s->bytes < sizeof s->text;
        if (made) memcpy(s->text, text, s->bytes);
    }
    snprintf(s->reason, sizeof s->reason, "%s", cx->code ? cx->message : "its text is not kept");
    qb_cudnn_close(g);
    qb_compiled_free(problem.compiled);
    qb_ctx_clear(cx);
    return made;
}

/* ---- the child ------------------------------------------------------------------------------- */

static bool is_read(qb_ctx *cx, const char *text, size_t bytes) {
    qb_compiled *compiled;
    qb_cudnn_graph *g;
    const qb_hash key = qb_hash_bytes("key", 3);
    assert_ok(cx, qb_compiled_create(cx, &compiled));
    assert_ok(cx, qb_compiled_borrow(cx, compiled, key, text, bytes));
    assert_ok(cx, qb_cudnn_open(cx, &g));
    const bool good = qb_cudnn_restore(cx, g, compiled, key);
    qb_cudnn_close(g);
    qb_compiled_free(compiled);
    return good;
}

static int read_cases(sweep *s, int plan, int cases, uint64_t seed) {
    static qb_ctx cx;
    qb_cuda_device device;
    const struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    for (int i = 1; i < NSIG; i++) signal(i, SIG_DFL); /* not the test framework's */
    qb_ctx_init(&cx);
    if (qb_cuda_open(&cx, 0, &device) != QB_OK) {
        snprintf(s->reason, sizeof s->reason, "%s", cx.message);
        return SKIPPED;
    }
    if (s->bytes == 0 && !make_plan(&cx, plan, s)) return SKIPPED;
    if (!is_read(&cx, s->text, s->bytes)) return 1; /* undamaged */
    while (++s->at < cases) {
        size_t bytes;
        const uint64_t which = seed << 40 | (uint64_t)plan << 32 | (uint64_t)s->at;
        char *text = json_damage(s->text, which, &bytes, s->what);
        if (!qb_cudnn_text_is_plan(text, bytes))
            s->refused++;
        else if (is_read(&cx, text, bytes))
            s->taken++;
        else
            s->not_read++;
        free(text);
    }
    return 0;
}

/* ---- the parent ------------------------------------------------------------------------------ */

/* Waits for the child as long as it makes steps; its wait status, with SIGKILL where it hung. */
static int wait_for(pid_t child, const sweep *s) {
    int status, last = -2;
    time_t since = time(NULL);
    while (waitpid(child, &status, WNOHANG) == 0) {
        if (s->at != last) last = s->at, since = time(NULL);
        if (time(NULL) - since > HANGS_AFTER) {
            kill(child, SIGKILL);
            waitpid(child, &status, 0);
            return status;
        }
        usleep(2000);
    }
    return status;
}

/* The number of texts at which a child died; -1: no plan to damage. */
static int sweep_plan(int plan, int cases, uint64_t seed, sweep *s) {
    int deaths = 0;
    *s = (sweep){.at = -1};
    while (deaths < DEATHS_MAX) {
        fflush(NULL);
        const pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) _exit(read_cases(s, plan, cases, seed));
        const int status = wait_for(child, s);
        if (WIFEXITED(status) && WEXITSTATUS(status) == SKIPPED) {
            print_message("%s: %s\n", names[plan], s->reason);
            return -1;
        }
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0) break;
        if (s->at < 0) fail_msg("%s: no plan, or it is not read: status %d", names[plan], status);
        print_message("%s, case %d: %s %d: %s\n", names[plan], s->at,
                      WIFSIGNALED(status) ? "signal" : "exit code",
                      WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status), s->what);
        deaths++;
    }
    print_message("%s: %zu bytes, %d texts: %d refused, %d not read, %d taken, %d deaths\n",
                  names[plan], s->bytes, s->at, s->refused, s->not_read, s->taken, deaths);
    return deaths;
}

static void damaged_plans_end_no_process(void **state) {
    (void)state;
    const char *text = getenv("QB_TEST_CASES"), *given = getenv("QB_TEST_SEED");
    const int cases = text ? atoi(text) : CASES;
    const uint64_t seed = given ? strtoull(given, NULL, 10) : 1;
    int deaths = 0, plans = 0;
    if (getenv("QB_TEST_NO_CUDNN")) qb_test_skip("QB_TEST_NO_CUDNN is set");
    sweep *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(s != MAP_FAILED);
    for (int plan = 0; plan < PLANS; plan++) {
        const int died = sweep_plan(plan, cases, seed, s);
        if (died < 0) continue;
        plans++;
        deaths += died;
    }
    munmap(s, sizeof *s);
    if (plans == 0) qb_test_skip("no plan of cuDNN");
    assert_int_equal(deaths, 0);
}

static const struct CMUnitTest tests[] = {cmocka_unit_test(damaged_plans_end_no_process)};
QB_TEST_MAIN(tests)
