#include "trial.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/ref.h"
#include "qb_test.h"
#ifdef QB_HAVE_CUDA
#include "kernels/cuda/common/device.h"
#endif

#define GUARD 256 /* keeps the alignment of device memory */
#define GUARD_BYTE 0xa5
#define FLOAT_TOLERANCE 1e-4
#define F16_TOLERANCE 2e-3        /* results, and perhaps weights, rounded to binary16 */
#define BF16_ROUNDING (1.0 / 256) /* of a result: half a unit of its 8 bits */
#define TF32_TOLERANCE 2e-3       /* factors rounded to 10 bits: a product is off by up to 2^-10 */

/* ---- guarded memory -------------------------------------------------------------------------- */

typedef struct guarded {
    uint8_t *block, *data;
    size_t bytes, total;
    void *device; /* a copy of the block, for tactics of a device */
} guarded;

static guarded guarded_new(size_t bytes, size_t slack) {
    guarded g = {.bytes = bytes};
    g.total = (GUARD + bytes + slack + GUARD + 63) / 64 * 64;
    g.block = aligned_alloc(64, g.total);
    assert_non_null(g.block);
    memset(g.block, GUARD_BYTE, g.total);
    g.data = g.block + GUARD;
    return g;
}

#ifdef QB_HAVE_CUDA
static void guarded_send(qb_ctx *cx, guarded *g) {
    if (!g->block) return;
    if (!g->device) assert_ok(cx, qb_cuda_alloc(cx, g->total, &g->device));
    assert_ok(cx, qb_cuda_upload(cx, g->device, g->block, g->total, NULL));
}

static void guarded_fetch(qb_ctx *cx, guarded *g) {
    if (g->block) assert_ok(cx, qb_cuda_download(cx, g->block, g->device, g->total, NULL));
}
#endif

static void guarded_free(guarded *g) {
#ifdef QB_HAVE_CUDA
    qb_cuda_free(g->device);
#endif
    free(g->block);
}

/* Where the kernel finds it; NULL when there is none. */
static void *guarded_at(const guarded *g) {
    if (!g->block) return NULL;
    return g->device ? (char *)g->device + GUARD : (void *)g->data;
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
    guarded data[CASE_INPUTS], out, more[2], packed, workspace; /* more: DYNAMIC_QUANTIZE's */
} trial;

/* For tactics of a device everything is sent before a launch and fetched after it. */
static void move_all(trial *t, bool send) {
    if (!t->tactic->device_memory) return;
#ifdef QB_HAVE_CUDA
    void (*move)(qb_ctx *, guarded *) = send ? guarded_send : guarded_fetch;
    for (int i = 0; i < CASE_INPUTS; i++) move(t->cx, &t->data[i]);
    move(t->cx, &t->out);
    for (int i = 0; i < 2; i++) move(t->cx, &t->more[i]);
    move(t->cx, &t->packed);
    move(t->cx, &t->workspace);
    assert_ok(t->cx, qb_cuda_sync(t->cx, NULL));
#else
    (void)send;
#endif
}

static bool is_image(const qb_shape *shape) { return shape->rank >= 3 && shape->rank <= 5; }

static void slice(qb_rng *rng, qb_desc *desc) {
    desc->channel_offset = random_between(rng, 0, 9);
    desc->channel_total = desc->channel_offset + desc->shape.dim[1] + random_between(rng, 0, 9);
}

/* Is every expected value a number in binary16? Quotients may be too large. */
static bool fits_f16(const random_case *c) {
    const float *value = c->expected;
    int64_t n = qb_shape_count(&c->problem.out.shape);
    for (int64_t i = 0; i < n; i++)
        if (!(fabsf(value[i]) < 65000.0f)) return false;
    return true;
}

/* Floats that are no constants become f16 or bf16: the data of the case are such numbers. */
static void lower_f16(trial *t) {
    for (int32_t i = 0; i < t->problem.n_in; i++)
        if (t->in[i].dtype == QB_DTYPE_F32 && !t->c->constant[i]) t->in[i].dtype = t->c->half;
    if (t->problem.out.dtype != QB_DTYPE_F32) return;
    const bool fits = t->c->half == QB_DTYPE_BF16 || fits_f16(t->c);
    if (fits && random_chance(t->rng, 80)) t->problem.out.dtype = t->c->half;
}

/* Such a tactic takes problems that allow it alone. */
static bool rounds_to_tf32(const qb_tactic *tactic) { return strstr(tactic->name, "tf32") != NULL; }

static bool slides_weight(qb_kind kind) {
    return kind == QB_KIND_CONV || kind == QB_KIND_CONV_POOL || kind == QB_KIND_CONV_TRANSPOSE;
}

/* A random form of the problem: layout of all images, and perhaps slices. What copies, and what
 * scales an image on the way, may read another layout than it writes. */
static void lower(trial *t) {
    const qb_layout layouts[] = {QB_LAYOUT_ROW, QB_LAYOUT_NHWC, QB_LAYOUT_NHWC, QB_LAYOUT_ANY};
    qb_layout layout = layouts[random_between(t->rng, 0, 3)];
    const qb_kind kind = t->c->problem.kind;
    bool copy = kind == QB_KIND_COPY || kind == QB_KIND_STRIDED_COPY;
    bool slices = random_chance(t->rng, 40);
    bool turns = copy || (qb_problem_is_scale(&t->c->problem) &&
                          !qb_problem_has(&t->c->problem, QB_IN_RESIDUAL));
    if (copy && layout == QB_LAYOUT_ANY) layout = QB_LAYOUT_NHWC;
    t->problem = t->c->problem;
    t->problem.in = t->in;
    t->problem.tf32 = rounds_to_tf32(t->tactic);
    for (int32_t i = 0; i < t->problem.n_in; i++) {
        t->in[i] = t->c->in[i];
        if (!qb_problem_has(&t->c->problem, i) || t->c->constant[i] || !is_image(&t->in[i].shape))
            continue;
        if (t->in[i].shape.rank != t->problem.out.shape.rank && kind != QB_KIND_REDUCE) continue;
        if (slides_weight(kind) && i == QB_IN_WEIGHT) continue; /* row-major */
        t->in[i].layout = turns && random_chance(t->rng, 60) ? QB_LAYOUT_ROW : layout;
        if (slices && random_chance(t->rng, 50) && layout != QB_LAYOUT_ANY)
            slice(t->rng, &t->in[i]);
    }
    if (t->c->half) lower_f16(t);
    if (!is_image(&t->problem.out.shape)) return;
    if (kind == QB_KIND_REDUCE && t->in[0].shape.rank != t->problem.out.shape.rank) return;
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
    bool is_float = qb_dtype_is_float(desc->dtype);
    memset(g->data, is_float ? 0xff : 0x7b, g->bytes);
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
    for (int i = 0; i < 2 && k->problem.kind == QB_KIND_DYNAMIC_QUANTIZE; i++)
        t->more[i] = guarded_new(i == 0 ? sizeof(float) : 1, 0);
    t->packed = guarded_new(k->packed_bytes, 0);
    t->workspace = guarded_new(k->workspace_bytes, 0);
    if (!k->pack) return;
    const void *constants[CASE_INPUTS];
    for (int i = 0; i < CASE_INPUTS; i++) constants[i] = t->c->constant[i] ? t->c->data[i] : NULL;
    assert_ok(t->cx, k->pack(t->cx, k, constants, t->packed.data));
    guarded_check(&t->packed, "packed");
}

static void launch(trial *t, guarded *out) {
    const void *in[CASE_INPUTS] = {0};
    move_all(t, true);
    void *more[] = {guarded_at(&t->more[0]), guarded_at(&t->more[1])};
    for (int32_t i = 0; i < t->problem.n_in; i++)
        if (!(t->kernel->packed_inputs >> i & 1)) in[i] = guarded_at(&t->data[i]);
    qb_launch args = {.in = in,
                      .out = guarded_at(out),
                      .more = t->more[0].block ? more : NULL,
                      .packed = guarded_at(&t->packed),
                      .workspace = t->kernel->workspace_bytes ? guarded_at(&t->workspace) : NULL,
                      .workers = t->workers};
    assert_ok(t->cx, t->kernel->launch(t->cx, t->kernel, &args));
    move_all(t, false);
}

/* What the sums of a problem with a weight spread over, before an activation cuts them off: the
 * test's data are around 1 and its weights around 0.3. */
static double spread_of_sums(const trial *t) {
    qb_kind kind = t->problem.kind;
    if (kind != QB_KIND_CONV && kind != QB_KIND_CONV_TRANSPOSE && kind != QB_KIND_MATMUL)
        return 0.0;
    return sqrt(qb_problem_flops(&t->problem) / 2.0 /
                (double)qb_shape_count(&t->problem.out.shape));
}

static void describe_desc(const char *name, const qb_desc *d) {
    char text[96];
    if (d->dtype == QB_DTYPE_NONE) return;
    print_message("  %s: %s %s, layout %d, channels from %lld of %lld, %d scales\n", name,
                  qb_dtype_text(d->dtype), qb_shape_text(&d->shape, text, sizeof text),
                  (int)d->layout, (long long)d->channel_offset, (long long)d->channel_total,
                  (int)d->q.n);
}

/* Which problem it was: for a machine that is not at hand any more. */
static void describe(const trial *t) {
    static const char *const names[CASE_INPUTS] = {"data", "weight", "bias", "residual"};
    const qb_problem *p = &t->problem;
    for (int32_t i = 0; i < p->n_in && i < CASE_INPUTS; i++)
        describe_desc(names[i] ? names[i] : "more", &p->in[i]);
    describe_desc("result", &p->out);
    for (int32_t d = 0; d < p->window.n; d++)
        print_message("  window %d, stride %d, dilation %d, padding %d\n", (int)p->window.kernel[d],
                      (int)p->window.stride[d], (int)p->window.dilation[d],
                      (int)p->window.pad_begin[d]);
    print_message("  groups %d, activation %d (first: %d), rounded to %s, variant %d\n",
                  (int)p->group, (int)p->act.kind, p->act_first, qb_dtype_text(p->rounding.dtype),
                  (int)p->variant);
}

#define FAIL(t, ...)                                                                               \
    do {                                                                                           \
        describe(t);                                                                               \
        fail_msg(__VA_ARGS__);                                                                     \
    } while (0)

static void compare_floats(const trial *t, const float *got, const float *expected, int64_t n) {
    double low = 0.0, high = 0.0;
    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(expected[i])) continue; /* a quotient by 0 */
        if (expected[i] < low) low = (double)expected[i];
        if (expected[i] > high) high = (double)expected[i];
    }
    const double range = fmax(high - low, 1e-3), sums = fmax(range, spread_of_sums(t));
    const double most = t->c->half == QB_DTYPE_F16  ? F16_TOLERANCE * sums
                        : rounds_to_tf32(t->tactic) ? TF32_TOLERANCE * sums
                                                    : FLOAT_TOLERANCE * range;
    /* bf16: the sums are those of f32, and what is written is rounded */
    double rounding = t->problem.out.dtype == QB_DTYPE_BF16 ? BF16_ROUNDING : 0.0;
    /* products of subnormal probabilities take ten times as long on a processor */
    const bool subnormal =
        t->problem.kind != QB_KIND_SOFTMAX || strcmp(t->tactic->backend, "cpu") != 0;
    for (int64_t i = 0; i < n; i++) {
        assert_true(subnormal || fpclassify(got[i]) != FP_SUBNORMAL);
        if (got[i] != expected[i] && !(isnan(got[i]) && isnan(expected[i])) &&
            !(fabs((double)got[i] - (double)expected[i]) <=
              most + rounding * (fabs((double)expected[i]) + most)))
            FAIL(t, "%s (%s): element %lld: expected %.9g, got %.9g", t->tactic->name,
                 t->kernel->impl, (long long)i, (double)expected[i], (double)got[i]);
    }
}

/* Activations that kernels compute to a tolerance. */
static bool has_exponential(qb_act_kind act) {
    return act == QB_ACT_SIGMOID || act == QB_ACT_TANH || act == QB_ACT_SILU ||
           act == QB_ACT_GELU || act == QB_ACT_GELU_TANH || act == QB_ACT_ELU;
}

static void compare_quantized(const trial *t, const uint8_t *got, const uint8_t *expected,
                              int64_t n) {
    /* the processor's functions of one 8-bit value are tables that the reference fills */
    const bool table = t->problem.kind == QB_KIND_UNARY && strcmp(t->tactic->backend, "cpu") == 0;
    bool exact = t->tactic->exactness == QB_EXACT &&
                 (table || !has_exponential(t->problem.act.kind)) &&
                 (t->problem.in[0].q.n > 0 || t->problem.kind == QB_KIND_COPY ||
                  t->problem.kind == QB_KIND_DYNAMIC_QUANTIZE);
    int most = exact ? 0 : 1;
    bool is_signed = t->problem.out.dtype == QB_DTYPE_S8;
    for (int64_t i = 0; i < n; i++) {
        int a = is_signed ? (int)(int8_t)got[i] : got[i];
        int b = is_signed ? (int)(int8_t)expected[i] : expected[i];
        if (abs(a - b) > most)
            FAIL(t, "%s (%s): element %lld: expected %d, got %d", t->tactic->name, t->kernel->impl,
                 (long long)i, b, a);
    }
}

static void compare_sums(const trial *t, const int32_t *got, const int32_t *expected, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if (got[i] != expected[i])
            FAIL(t, "%s (%s): element %lld: expected %d, got %d", t->tactic->name, t->kernel->impl,
                 (long long)i, (int)expected[i], (int)got[i]);
}

static void compare_places(const trial *t, const int64_t *got, const int64_t *expected, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if (got[i] != expected[i])
            FAIL(t, "%s: element %lld: expected %lld, got %lld", t->tactic->name, (long long)i,
                 (long long)expected[i], (long long)got[i]);
}

static void compare(trial *t, const void *data) {
    const qb_desc *plain = &t->c->problem.out;
    void *row = qb_alloc(t->cx, qb_desc_bytes(plain) + 1, 1);
    assert_non_null(row);
    reform(t->cx, &t->kernel->problem.out, data, plain, row);
    int64_t n = qb_shape_count(&plain->shape);
    if (plain->dtype == QB_DTYPE_F32)
        compare_floats(t, row, t->c->expected, n);
    else if (plain->dtype == QB_DTYPE_S32)
        compare_sums(t, row, t->c->expected, n);
    else if (plain->dtype == QB_DTYPE_S64)
        compare_places(t, row, t->c->expected, n);
    else
        compare_quantized(t, row, t->c->expected, n);
    qb_free(row);
}

static void compare_more(const trial *t) {
    if (!t->more[0].block) return;
    assert_memory_equal(t->more[0].data, &t->c->scale[0], sizeof(float));
    assert_int_equal(*t->more[1].data, t->c->zero[0]);
    guarded_check(&t->more[0], "scale");
    guarded_check(&t->more[1], "zero point");
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
                if (at[i] != GUARD_BYTE) FAIL(t, "%s: wrote outside its slice", t->tactic->name);
        }
    qb_free(data);
}

static void run_in_place(trial *t) {
    for (int32_t i = 0; i < t->problem.n_in; i++) {
        if (!(t->kernel->in_place_inputs >> i & 1) || !qb_problem_has(&t->problem, i)) continue;
        launch(t, &t->data[i]);
        guarded_check(&t->data[i], "input used in place");
        compare(t, t->data[i].data);
        reform(t->cx, &t->c->in[i], t->c->data[i], &t->kernel->problem.in[i], t->data[i].data);
    }
}

static void release(trial *t) {
    for (int i = 0; i < CASE_INPUTS; i++) guarded_free(&t->data[i]);
    guarded_free(&t->out);
    for (int i = 0; i < 2; i++) guarded_free(&t->more[i]);
    guarded_free(&t->packed);
    guarded_free(&t->workspace);
    qb_kernel_free(t->kernel);
}

bool trial_run(qb_ctx *cx, qb_rng *rng, const qb_tactic *tactic, random_case *c,
               qb_workers *workers) {
    trial t = {.cx = cx, .rng = rng, .tactic = tactic, .c = c};
    lower(&t);
    if (!qb_tactic_takes(tactic, &t.problem, c->constant)) return false;
    int threads = (int)random_between(rng, 1, 2);
    qb_status status = tactic->create(cx, tactic, &t.problem, c->constant, threads, &t.kernel);
    if (status == QB_STATUS_UNSUPPORTED) {
        qb_ctx_clear(cx);
        return false;
    }
    assert_ok(cx, status);
    if (threads > 1) t.workers = workers;
    random_case_answer(cx, c);
    prepare(&t);
    if (!t.kernel->in_place_required) {
        launch(&t, &t.out);
        compare(&t, t.out.data);
        compare_more(&t);
        check_outside_slice(&t);
        guarded_check(&t.out, "output");
    }
    run_in_place(&t);
    guarded_check(&t.workspace, "workspace");
    release(&t);
    return true;
}

bool trial_takes(uint64_t seed, const qb_tactic *tactic, const random_case *c) {
    qb_rng rng;
    trial t = {.rng = &rng, .tactic = tactic, .c = c};
    qb_rng_seed(&rng, seed);
    lower(&t);
    return qb_tactic_takes(tactic, &t.problem, c->constant);
}
