/* Every tactic against the reference, on random problems: odd sizes, pads, strides, groups,
 * dilations, residuals, activations, zero points, channel slices, in place. Guard bytes around all
 * that a kernel may write, garbage in all that it may only read past.
 *
 * ctest-timeout: 300 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/ref.h"
#include "qb_test.h"
#include "random_problem.h"

#define GUARD 192
#define GUARD_BYTE 0xa5
#define CASES 150      /* of each tactic */
#define ATTEMPTS 12000 /* problems offered to find them */
#define FLOAT_TOLERANCE 1e-4

/* ---- guarded memory -------------------------------------------------------------------------- */

typedef struct guarded {
    uint8_t *block, *data;
    size_t bytes;
} guarded;

static guarded guarded_new(size_t bytes, size_t slack) {
    guarded g = {.bytes = bytes};
    size_t total = (GUARD + bytes + slack + GUARD + 63) / 64 * 64;
    g.block = aligned_alloc(64, total);
    assert_non_null(g.block);
    memset(g.block, GUARD_BYTE, total);
    g.data = g.block + GUARD;
    return g;
}

static void guarded_check(const guarded *g, const char *what) {
    for (size_t i = 0; i < GUARD; i++) {
        if (g->block[i] != GUARD_BYTE) fail_msg("%s: written %zu bytes before it", what, GUARD - i);
        if (g->data[g->bytes + i] != GUARD_BYTE)
            fail_msg("%s: written %zu bytes behind it", what, i);
    }
}

/* ---- one case on one tactic ------------------------------------------------------------------ */

typedef struct trial {
    qb_ctx *cx;
    qb_rng *rng;
    const qb_tactic *tactic;
    const random_case *c;
    qb_problem problem; /* with layouts and slices */
    qb_desc in[CASE_INPUTS];
    qb_kernel *kernel;
    qb_workers *workers;
    guarded data[CASE_INPUTS], out, packed, workspace;
} trial;

static bool is_image(const qb_shape *shape) { return shape->rank >= 3 && shape->rank <= 5; }

static void slice(qb_rng *rng, qb_desc *desc) {
    desc->channel_offset = random_between(rng, 0, 9);
    desc->channel_total = desc->channel_offset + desc->shape.dim[1] + random_between(rng, 0, 9);
}

/* A random form of the problem: layout of all images, and perhaps slices. */
static void pose(trial *t) {
    const qb_layout layouts[] = {QB_LAYOUT_ROW, QB_LAYOUT_NHWC, QB_LAYOUT_NHWC, QB_LAYOUT_ANY};
    qb_layout layout = layouts[random_between(t->rng, 0, 3)];
    bool copy = t->c->problem.kind == QB_KIND_COPY, slices = random_chance(t->rng, 40);
    if (copy && layout == QB_LAYOUT_ANY) layout = QB_LAYOUT_NHWC;
    t->problem = t->c->problem;
    t->problem.in = t->in;
    for (int32_t i = 0; i < t->problem.n_in; i++) {
        t->in[i] = t->c->in[i];
        if (!qb_problem_has(&t->c->problem, i) || t->c->constant[i] || !is_image(&t->in[i].shape))
            continue;
        if (t->in[i].shape.rank != t->problem.out.shape.rank) continue;
        t->in[i].layout = copy && random_chance(t->rng, 60) ? QB_LAYOUT_ROW : layout;
        if (slices && random_chance(t->rng, 50) && layout != QB_LAYOUT_ANY)
            slice(t->rng, &t->in[i]);
    }
    if (!is_image(&t->problem.out.shape)) return;
    t->problem.out.layout = layout;
    if (slices && random_chance(t->rng, 60) && layout != QB_LAYOUT_ANY)
        slice(t->rng, &t->problem.out);
}

static void reform(qb_ctx *cx, const qb_desc *from, const void *in, const qb_desc *to, void *out) {
    (void)cx;
    qb_problem p = {.kind = QB_KIND_COPY, .n_in = 1, .in = from, .out = *to};
    const void *inputs[] = {in};
    qb_ref_copy(&p, inputs, out);
}

/* Garbage that would show in a result: for floats NaN. */
static void spoil(const qb_desc *desc, guarded *g) {
    memset(g->data, desc->dtype == QB_DTYPE_F32 ? 0xff : 0x7b, g->bytes);
}

static void prepare(trial *t) {
    const qb_kernel *k = t->kernel;
    for (int32_t i = 0; i < t->problem.n_in; i++) {
        if (!qb_problem_has(&t->problem, i)) continue;
        const qb_desc *desc = &k->problem.in[i];
        bool byte = qb_dtype_size(desc->dtype) == 1;
        t->data[i] = guarded_new(qb_desc_bytes(desc), byte ? QB_BUFFER_SLACK : 0);
        spoil(desc, &t->data[i]);
        reform(t->cx, &t->c->in[i], t->c->data[i], desc, t->data[i].data);
    }
    t->out = guarded_new(qb_desc_bytes(&k->problem.out), 0);
    t->packed = guarded_new(k->packed_bytes, 0);
    t->workspace = guarded_new(k->workspace_bytes, 0);
    if (!k->pack) return;
    const void *constants[CASE_INPUTS];
    for (int i = 0; i < CASE_INPUTS; i++) constants[i] = t->c->constant[i] ? t->c->data[i] : NULL;
    assert_ok(t->cx, k->pack(t->cx, k, constants, t->packed.data));
    guarded_check(&t->packed, "packed");
}

static void launch(trial *t, void *out) {
    const void *in[CASE_INPUTS] = {0};
    for (int32_t i = 0; i < t->problem.n_in; i++)
        if (!(t->kernel->packed_inputs >> i & 1)) in[i] = t->data[i].data;
    qb_launch args = {.in = in,
                      .out = out,
                      .packed = t->packed.data,
                      .workspace = t->kernel->workspace_bytes ? t->workspace.data : NULL,
                      .workers = t->workers};
    assert_ok(t->cx, t->kernel->launch(t->cx, t->kernel, &args));
}

static void compare_floats(const trial *t, const float *got, const float *expected, int64_t n) {
    double low = 0.0, high = 0.0;
    for (int64_t i = 0; i < n; i++) {
        if (expected[i] < low) low = (double)expected[i];
        if (expected[i] > high) high = (double)expected[i];
    }
    double most = FLOAT_TOLERANCE * fmax(high - low, 1e-3);
    for (int64_t i = 0; i < n; i++)
        if (!(fabs((double)got[i] - (double)expected[i]) <= most))
            fail_msg("%s (%s): element %lld: expected %.9g, got %.9g", t->tactic->name,
                     t->kernel->impl, (long long)i, (double)expected[i], (double)got[i]);
}

static void compare_codes(const trial *t, const uint8_t *got, const uint8_t *expected, int64_t n) {
    bool exact = t->tactic->exactness == QB_EXACT &&
                 (t->problem.in[0].dtype != QB_DTYPE_F32 || t->problem.kind == QB_KIND_COPY);
    int most = exact ? 0 : 1;
    bool is_signed = t->problem.out.dtype == QB_DTYPE_S8;
    for (int64_t i = 0; i < n; i++) {
        int a = is_signed ? (int)(int8_t)got[i] : got[i];
        int b = is_signed ? (int)(int8_t)expected[i] : expected[i];
        if (abs(a - b) > most)
            fail_msg("%s (%s): element %lld: expected %d, got %d", t->tactic->name, t->kernel->impl,
                     (long long)i, b, a);
    }
}

static void compare(trial *t, const void *data) {
    const qb_desc *plain = &t->c->problem.out;
    void *row = qb_alloc(t->cx, qb_desc_bytes(plain) + 1, 1);
    assert_non_null(row);
    reform(t->cx, &t->kernel->problem.out, data, plain, row);
    int64_t n = qb_shape_count(&plain->shape);
    if (plain->dtype == QB_DTYPE_F32)
        compare_floats(t, row, t->c->expected, n);
    else
        compare_codes(t, row, t->c->expected, n);
    qb_free(row);
}

/* Channels beside the slice keep the guard byte. */
static void check_outside_slice(trial *t) {
    const qb_desc *desc = &t->kernel->problem.out;
    if (desc->channel_total == 0) return;
    qb_desc whole = *desc;
    whole.shape.dim[1] = desc->channel_total;
    whole.channel_total = whole.channel_offset = 0;
    whole.q = (qb_qparams){.axis = -1};
    qb_desc row = whole;
    row.layout = QB_LAYOUT_ROW;
    uint8_t *data = qb_alloc(t->cx, qb_desc_bytes(&row) + 1, 1);
    assert_non_null(data);
    reform(t->cx, &whole, t->out.data, &row, data);
    int64_t plane = qb_shape_count(&row.shape) / row.shape.dim[0] / row.shape.dim[1];
    size_t bytes = (size_t)plane * qb_dtype_size(row.dtype);
    for (int64_t n = 0; n < row.shape.dim[0]; n++)
        for (int64_t c = 0; c < row.shape.dim[1]; c++) {
            if (c >= desc->channel_offset && c < desc->channel_offset + desc->shape.dim[1])
                continue;
            const uint8_t *at = data + (size_t)(n * row.shape.dim[1] + c) * bytes;
            for (size_t i = 0; i < bytes; i++)
                if (at[i] != GUARD_BYTE) fail_msg("%s: wrote outside its slice", t->tactic->name);
        }
    qb_free(data);
}

static void run_in_place(trial *t) {
    for (int32_t i = 0; i < t->problem.n_in; i++) {
        if (!(t->kernel->in_place_inputs >> i & 1) || !qb_problem_has(&t->problem, i)) continue;
        launch(t, t->data[i].data);
        guarded_check(&t->data[i], "input used in place");
        compare(t, t->data[i].data);
        reform(t->cx, &t->c->in[i], t->c->data[i], &t->kernel->problem.in[i], t->data[i].data);
    }
}

static void release(trial *t) {
    for (int i = 0; i < CASE_INPUTS; i++) free(t->data[i].block);
    free(t->out.block);
    free(t->packed.block);
    free(t->workspace.block);
    qb_kernel_free(t->kernel);
}

/* Does the tactic run the case in a random form? Then it must be right. */
static bool run_case(qb_ctx *cx, qb_rng *rng, const qb_tactic *tactic, const random_case *c,
                     qb_workers *workers) {
    trial t = {.cx = cx, .rng = rng, .tactic = tactic, .c = c};
    pose(&t);
    if (!tactic->supports(&t.problem, c->constant)) return false;
    int threads = (int)random_between(rng, 1, 2);
    qb_status status = tactic->create(cx, tactic, &t.problem, c->constant, threads, &t.kernel);
    if (status == QB_STATUS_UNSUPPORTED) {
        qb_ctx_clear(cx);
        return false;
    }
    assert_ok(cx, status);
    if (threads > 1) t.workers = workers;
    prepare(&t);
    if (!t.kernel->in_place_required) {
        launch(&t, t.out.data);
        compare(&t, t.out.data);
        check_outside_slice(&t);
        guarded_check(&t.out, "output");
    }
    run_in_place(&t);
    guarded_check(&t.workspace, "workspace");
    release(&t);
    return true;
}

/* ---- the tests ------------------------------------------------------------------------------- */

/* Rows whose name asks for an instruction set that this machine lacks cannot be exercised; those of
 * devices have tests of their own (tests/gpu), with buffers in device memory. */
static bool machine_has(const qb_tactic *tactic) {
    if (strcmp(tactic->backend, "cuda") == 0) return false;
#if defined(__x86_64__)
    if (strstr(tactic->name, "avx512vnni")) return __builtin_cpu_supports("avx512vnni");
    if (strstr(tactic->name, "avx512")) return __builtin_cpu_supports("avx512f");
    if (strstr(tactic->name, "avx2")) return __builtin_cpu_supports("avx2");
#endif
    return strstr(tactic->name, "avx") == NULL;
}

static void every_tactic_agrees_with_the_reference(void **state) {
    const char *only = *state; /* beginning of the names to test, or NULL */
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
        for (; done < CASES && offered < ATTEMPTS; offered++) {
            random_case c;
            random_case_make(&cx, &rng, (*t)->kind, &c);
            done += run_case(&cx, &rng, *t, &c, workers);
            random_case_release(&c);
        }
        print_message("%-32s %4d cases of %d problems\n", (*t)->name, done, offered);
        missing += done == 0;
    }
    qb_workers_free(workers);
    assert_int_equal(missing, 0);
}

/* test_tactics [BEGINNING OF NAMES] */
int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(every_tactic_agrees_with_the_reference,
                                  argc > 1 ? argv[1] : NULL),
    };
    return qb_test_exit_code(cmocka_run_group_tests(tests, NULL, NULL),
                             sizeof tests / sizeof *tests);
}
