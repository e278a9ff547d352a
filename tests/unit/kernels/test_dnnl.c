/* What is particular to the tactics over oneDNN; tests/op/test_tactics.c holds all their results to
 * the reference on random problems. */
#include "run_problem.h"

#ifdef QB_HAVE_DNNL
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/processor.h"
#include "kernels/ref.h"

#define LAUNCHES 40

/* A convolution of quantized values with everything fused, or of floats. */
typedef struct conv_case {
    qb_problem p;
    qb_desc in[4];
    void *data[4]; /* row-major */
    float scale[4], out_scale, weight_scale[64];
    int32_t zero[4], out_zero;
} conv_case;

static void conv_make(conv_case *c, bool integer, int in_channels, int channels) {
    qb_rng rng;
    qb_rng_seed(&rng, 11);
    qb_shape x = qb_shape_of(4, 2, in_channels, 9, 11), y = qb_shape_of(4, 2, channels, 9, 11);
    qb_shape w = qb_shape_of(4, channels, in_channels, 3, 3);
    *c = (conv_case){.scale = {0.02f, 0.0f, 0.0f, 0.03f},
                     .zero = {11, 0, 0, 99},
                     .out_scale = 0.05f,
                     .out_zero = 7};
    for (int i = 0; i < 64; i++) c->weight_scale[i] = 0.001f * (float)(1 + i % 5);
    c->in[0] = integer ? quantized_desc(QB_DTYPE_U8, x, &c->scale[0], &c->zero[0]) : float_desc(x);
    c->in[1] = integer ? quantized_desc(QB_DTYPE_S8, w, c->weight_scale, NULL) : float_desc(w);
    if (integer) c->in[1].q.axis = 0, c->in[1].q.n = channels;
    c->in[2] = (qb_desc){.dtype = integer ? QB_DTYPE_S32 : QB_DTYPE_F32,
                         .shape = qb_shape_of(1, channels),
                         .q = {.axis = -1}};
    c->in[3] = integer ? quantized_desc(QB_DTYPE_U8, y, &c->scale[3], &c->zero[3]) : float_desc(y);
    c->p = (qb_problem){.kind = QB_KIND_CONV,
                        .n_in = 4,
                        .in = c->in,
                        .out = integer ? quantized_desc(QB_DTYPE_U8, y, &c->out_scale, &c->out_zero)
                                       : float_desc(y),
                        .window = {2, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
                        .group = 1,
                        .act = {QB_ACT_RELU, 0, 0}};
    for (int i = 0; i < 4; i++)
        c->data[i] = random_data(&rng, c->in[i].dtype, qb_shape_count(&c->in[i].shape));
}

static void conv_release(conv_case *c) {
    for (int i = 0; i < 4; i++) qb_free(c->data[i]);
}

static void set_layout(conv_case *c, qb_layout layout) {
    c->in[0].layout = c->in[3].layout = c->p.out.layout = layout;
}

static qb_kernel *make_kernel(qb_ctx *cx, const char *name, const qb_problem *p, int threads) {
    const bool constant[4] = {false, true, true, false};
    const qb_tactic *tactic = qb_tactic_find(name);
    qb_kernel *kernel = NULL;
    assert_non_null(tactic);
    assert_true(qb_tactic_takes(tactic, p, constant));
    assert_ok(cx, tactic->create(cx, tactic, p, constant, threads, &kernel));
    assert_null(strstr(kernel->impl, "ref"));
    return kernel;
}

static void copy_form(const qb_desc *from, const void *in, const qb_desc *to, void *out) {
    qb_problem p = {.kind = QB_KIND_COPY, .n_in = 1, .in = from, .out = *to};
    qb_ref_copy(&p, (const void *const[]){in}, out);
}

/* One caller with buffers of its own. */
typedef struct caller {
    const qb_kernel *kernel;
    const conv_case *c;
    const void *packed;
    size_t bytes;
    unsigned char *out;
    int wrong;
    qb_status status;
} caller;

static void *call(void *argument) {
    caller *a = argument;
    static const int data[2] = {QB_IN_DATA, QB_IN_RESIDUAL};
    const qb_kernel *k = a->kernel;
    qb_ctx cx;
    void *buffer[4] = {0};
    qb_ctx_init(&cx);
    a->bytes = qb_desc_bytes(&k->problem.out);
    a->out = qb_alloc_aligned(&cx, a->bytes + GUARD, 1);
    unsigned char *first = qb_alloc_aligned(&cx, a->bytes, 1);
    void *workspace = qb_alloc_aligned(&cx, k->workspace_bytes, 1);
    for (int i = 0; i < 2; i++)
        buffer[data[i]] =
            qb_alloc_aligned(&cx, qb_desc_bytes(&k->in[data[i]]) + QB_BUFFER_SLACK, 1);
    memset(a->out, GUARD_BYTE, a->bytes + GUARD);
    qb_desc row = a->c->in[3];
    row.layout = QB_LAYOUT_ROW;
    qb_desc x = a->c->in[0];
    x.layout = QB_LAYOUT_ROW;
    copy_form(&x, a->c->data[0], &k->in[0], buffer[0]);
    for (int run = 0; run < LAUNCHES && a->status == QB_OK; run++) {
        void *residual = k->in_place_required ? a->out : buffer[3];
        copy_form(&row, a->c->data[3], &k->in[3], residual);
        qb_launch args = {.in = (const void *const[]){buffer[0], NULL, NULL, residual},
                          .out = a->out,
                          .packed = a->packed,
                          .workspace = k->workspace_bytes ? workspace : NULL};
        a->status = k->launch(&cx, k, &args);
        if (run == 0) memcpy(first, a->out, a->bytes);
        a->wrong += memcmp(first, a->out, a->bytes) != 0;
    }
    for (int i = 0; i < GUARD; i++) a->wrong += a->out[a->bytes + (size_t)i] != GUARD_BYTE;
    for (int i = 0; i < 4; i++) qb_free(buffer[i]);
    qb_free(workspace);
    qb_free(first);
    return NULL;
}

/* Against the reference: quantized values within 1, floats within 1e-4 of the range. */
static void check_result(const conv_case *c, const qb_kernel *kernel, const void *got) {
    qb_ctx cx;
    qb_ctx_init(&cx);
    conv_case plain = *c;
    plain.p.in = plain.in;
    set_layout(&plain, QB_LAYOUT_ROW);
    void *expected = run_problem("ref.conv", &plain.p, (const void *const *)plain.data, 1);
    int64_t n = qb_shape_count(&plain.p.out.shape);
    void *row = qb_alloc(&cx, qb_desc_bytes(&plain.p.out), 1);
    assert_non_null(row);
    copy_form(&kernel->problem.out, got, &plain.p.out, row);
    for (int64_t i = 0; i < n; i++) {
        if (plain.p.out.dtype == QB_DTYPE_U8)
            assert_in_range(((uint8_t *)row)[i] + 1 - ((uint8_t *)expected)[i], 0, 2);
        else
            assert_true(fabsf(((float *)row)[i] - ((float *)expected)[i]) < 1e-3f);
    }
    qb_free(row);
    qb_free(expected);
}

/* Runs `callers` threads on one kernel; all get the same bits, and the right ones. */
static void run_callers(conv_case *c, const char *name, int threads, int callers) {
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_kernel *kernel = make_kernel(&cx, name, &c->p, threads);
    void *packed = qb_alloc_aligned(&cx, kernel->packed_bytes + GUARD, 1);
    assert_non_null(packed);
    memset(packed, GUARD_BYTE, kernel->packed_bytes + GUARD);
    const void *constants[4] = {NULL, c->data[1], c->data[2], NULL};
    assert_ok(&cx, kernel->pack(&cx, kernel, constants, packed));
    for (int i = 0; i < GUARD; i++)
        assert_int_equal(((uint8_t *)packed)[kernel->packed_bytes + (size_t)i], GUARD_BYTE);
    caller all[4];
    pthread_t thread[4];
    for (int i = 0; i < callers; i++) {
        all[i] = (caller){.kernel = kernel, .c = c, .packed = packed};
        assert_int_equal(pthread_create(&thread[i], NULL, call, &all[i]), 0);
    }
    for (int i = 0; i < callers; i++) {
        pthread_join(thread[i], NULL);
        assert_int_equal(all[i].status, QB_OK);
        assert_int_equal(all[i].wrong, 0);
        assert_memory_equal(all[i].out, all[0].out, all[0].bytes);
    }
    check_result(c, kernel, all[0].out);
    for (int i = 0; i < callers; i++) qb_free(all[i].out);
    qb_free(packed);
    qb_kernel_free(kernel);
}

/* Does oneDNN multiply integers on this processor in a way that qbench takes? */
static bool has_integers(void) {
    const qb_tier tier = qb_processor_tier();
    return tier == QB_TIER_AVX2_VNNI || tier >= QB_TIER_AVX512_VNNI;
}

static void threads_share_one_kernel(void **state) {
    (void)state;
    for (int integer = 0; integer < 1 + has_integers(); integer++)
        for (int threads = 1; threads <= 2; threads++) {
            conv_case c;
            conv_make(&c, integer, 32, 48);
            set_layout(&c, QB_LAYOUT_NHWC);
            run_callers(&c, integer ? "dnnl.conv_s8.packed" : "dnnl.conv_f32.packed", threads, 3);
            conv_release(&c);
        }
}

/* Left open, the layouts come back as ones that the engine can copy from. */
static void open_layouts_are_settled(void **state) {
    (void)state;
    for (int integer = 0; integer < 1 + has_integers(); integer++) {
        qb_ctx cx;
        qb_ctx_init(&cx);
        const char *name = integer ? "dnnl.conv_s8.packed" : "dnnl.conv_f32.packed";
        conv_case c;
        conv_make(&c, integer, 32, 48);
        set_layout(&c, QB_LAYOUT_ANY);
        qb_kernel *kernel = make_kernel(&cx, name, &c.p, 1);
        assert_int_not_equal(kernel->in[0].layout, QB_LAYOUT_ANY);
        assert_int_not_equal(kernel->problem.out.layout, QB_LAYOUT_ANY);
        assert_int_equal(kernel->in[3].layout, kernel->problem.out.layout);
        qb_kernel_free(kernel);
        run_callers(&c, name, 1, 1);
        conv_release(&c);
    }
}

/* A residual of the output's type is summed where it lies, which a channel slice forbids. */
static void residuals_in_place_are_never_slices(void **state) {
    (void)state;
    if (!has_integers()) skip();
    const bool constant[4] = {false, true, true, false};
    const qb_tactic *conv = qb_tactic_find("dnnl.conv_s8.packed");
    qb_ctx cx;
    qb_ctx_init(&cx);
    conv_case c;
    conv_make(&c, true, 32, 48);
    set_layout(&c, QB_LAYOUT_NHWC);
    qb_kernel *kernel = make_kernel(&cx, "dnnl.conv_s8.packed", &c.p, 1);
    assert_true(kernel->in_place_required);
    assert_int_equal(kernel->in_place_inputs, 1 << QB_IN_RESIDUAL);
    qb_kernel_free(kernel);
    c.in[3].channel_total = 64;
    c.in[3].channel_offset = 16;
    assert_fails(&cx, conv->create(&cx, conv, &c.p, constant, 1, &kernel), QB_STATUS_UNSUPPORTED);
    conv_release(&c);
}

/* To blocks of channels with zeros in the lanes beyond them, and back. */
static void blocked_copies_keep_padding_lanes_zero(void **state) {
    (void)state;
    const qb_layout layouts[] = {QB_LAYOUT_C8, QB_LAYOUT_C16};
    for (int i = 0; i < 2; i++) {
        qb_ctx cx;
        qb_rng rng;
        qb_ctx_init(&cx);
        qb_rng_seed(&rng, 3);
        qb_desc plain = float_desc(qb_shape_of(4, 2, 19, 5, 7)), blocked = plain;
        blocked.layout = layouts[i];
        void *data = random_data(&rng, QB_DTYPE_F32, qb_shape_count(&plain.shape));
        qb_problem there = {.kind = QB_KIND_COPY, .n_in = 1, .in = &plain, .out = blocked};
        qb_problem back = {.kind = QB_KIND_COPY, .n_in = 1, .in = &blocked, .out = plain};
        void *got = run_problem("dnnl.copy.reorder", &there, (const void *const[]){data}, 2);
        void *expected = qb_alloc(&cx, qb_desc_bytes(&blocked), 1);
        assert_non_null(expected);
        copy_form(&plain, data, &blocked, expected);
        assert_memory_equal(got, expected, qb_desc_bytes(&blocked));
        void *again = run_problem("dnnl.copy.reorder", &back, (const void *const[]){got}, 1);
        assert_memory_equal(again, data, qb_desc_bytes(&plain));
        qb_free(again);
        qb_free(expected);
        qb_free(got);
        qb_free(data);
    }
}

static void what_it_gets_wrong_or_slow_is_refused(void **state) {
    (void)state;
    if (!has_integers()) skip();
    const bool constant[4] = {false, true, true, false};
    const qb_tactic *conv = qb_tactic_find("dnnl.conv_s8.packed");
    conv_case c;
    conv_make(&c, true, 32, 48);
    set_layout(&c, QB_LAYOUT_NHWC);
    assert_true(qb_tactic_takes(conv, &c.p, constant));
    c.p.window.pad_begin[0] = c.p.window.pad_end[0] = 3; /* rows that see only padding */
    c.p.out.shape.dim[2] = c.in[3].shape.dim[2] = 13;
    assert_false(qb_tactic_takes(conv, &c.p, constant));
    conv_release(&c);
    conv_make(&c, true, 32, 48);
    int32_t weight_zero[48] = {[47] = 1}; /* asymmetric weights */
    c.in[1].q.zero = weight_zero;
    assert_false(qb_tactic_takes(conv, &c.p, constant));
    c.in[1].q.zero = NULL;
    c.in[1].dtype = QB_DTYPE_U8;
    assert_false(qb_tactic_takes(conv, &c.p, constant));
    conv_release(&c);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(threads_share_one_kernel),
    cmocka_unit_test(open_layouts_are_settled),
    cmocka_unit_test(residuals_in_place_are_never_slices),
    cmocka_unit_test(blocked_copies_keep_padding_lanes_zero),
    cmocka_unit_test(what_it_gets_wrong_or_slow_is_refused),
};
QB_TEST_MAIN(tests)
#else
#include <stdio.h>

int main(void) {
    puts("skipped: built without oneDNN");
    return 77;
}
#endif
