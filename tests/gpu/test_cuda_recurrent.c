/* Recurrent layers on the GPU: all attributes and outputs against eval, in f32 and f16; the same
 * bits in each run, also where blocks wait for each other. Needs a GPU.
 * ctest-timeout: 300 */
#include "qb_test.h"

#include <math.h>
#include <string.h>

#include "../unit/engine/recurrent_layers.h"
#include "kernels/cuda/common/device.h"

static void require_device(void) {
    qb_ctx cx;
    qb_cuda_device device;
    qb_ctx_init(&cx);
    if (qb_cuda_open(&cx, 0, &device) != QB_OK) qb_test_skip("%s", cx.message);
}

static void answer_of(layer_graph *f, const layer *l, const char *backends, qb_dtype type,
                      const float *x, layer_answer *a) {
    const qb_build_spec spec = {.backends = backends, .float_type = type, .threads = 1};
    qb_engine *engine;
    assert_ok(&f->cx, qb_engine_build(&f->cx, f->graph, &spec, &engine));
    layer_run(f, engine, l, x, false, a);
    qb_engine_free(engine);
}

static void assert_close(int number, const layer_answer *expected, const layer_answer *got,
                         float tolerance) {
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < LAYER_MOST; i++) {
            const float a = expected->out[k][i], b = got->out[k][i];
            if (!(fabsf(a - b) <= tolerance * (1 + fabsf(a))))
                fail_msg("layer %d, output %d, element %d: expected %g, got %g", number, k, i,
                         (double)a, (double)b);
        }
}

/* Functions that the host's kernels do not have; states that grow leave the numbers of f16. */
static void choose_activation(layer *l, int i, qb_dtype type) {
    static const char *const others[] = {"HardSigmoid", "LeakyRelu", "Elu"};
    if (l->activation && type == QB_DTYPE_F16) l->activation = "HardSigmoid";
    if (!l->activation && l->clip > 0) l->activation = others[i % 3];
}

static void layers_compute_what_eval_does(void **state) {
    (void)state;
    static const qb_dtype types[] = {QB_DTYPE_F32, QB_DTYPE_F16};
    static float x[LAYER_INPUTS * 5 * 9];
    static layer_answer expected, got, again;
    require_device();
    layer_fill(1, x, LAYER_INPUTS * 5 * 9, 1);
    for (int i = 0; i < 2 * 72; i++) {
        const qb_dtype type = types[i % 2];
        layer l = layer_numbered(i / 2);
        layer_graph f;
        if (!l.outputs[0] && !l.outputs[1] && !l.outputs[2]) continue;
        choose_activation(&l, i / 2, type);
        layer_make(&f, &l);
        answer_of(&f, &l, "ref", QB_DTYPE_F32, x, &expected);
        answer_of(&f, &l, "cuda,cpu,ref", type, x, &got);
        answer_of(&f, &l, "cuda,cpu,ref", type, x, &again);
        assert_string_equal(got.tactic, "cuda.recurrent");
        assert_close(i / 2, &expected, &got, type == QB_DTYPE_F16 ? 1e-2f : 1e-4f);
        assert_memory_equal(&got, &again, sizeof got);
        qb_graph_free(f.graph);
    }
}

/* Widths at the borders of the kernels with R in registers, batches at those of their tiles. */
static void wide_layers_compute_what_eval_does(void **state) {
    (void)state;
    static const int64_t hidden[] = {8, 50, 64, 65, 96, 128, 129, 200, 256, 257};
    static const int64_t batch[] = {1, 2, 8, 9, 21};
    static const char *const directions[] = {"forward", "reverse", "bidirectional"};
    static float x[LAYER_INPUTS * 21 * 7];
    static layer_answer expected, got, again;
    require_device();
    layer_fill(1, x, LAYER_INPUTS * 21 * 7, 1);
    for (int i = 0; i < 100; i++) {
        const bool lstm = i % 2 == 0;
        layer l = {.op = lstm ? "LSTM" : "GRU",
                   .direction = directions[i % 3],
                   .steps = 1 + i % 7,
                   .hidden = hidden[i / 10],
                   .batch = batch[i % 5],
                   .batch_first = i % 4 > 1,
                   .bias = i % 5 > 0,
                   .lengths = i % 3 > 0,
                   .states = i % 4 < 3,
                   .attr = lstm ? NULL : "linear_before_reset",
                   .outputs = {i % 7 > 0, true, lstm}};
        layer_graph f;
        layer_make(&f, &l);
        answer_of(&f, &l, "ref", QB_DTYPE_F32, x, &expected);
        answer_of(&f, &l, "cuda,cpu,ref", QB_DTYPE_F16, x, &got);
        answer_of(&f, &l, "cuda,cpu,ref", QB_DTYPE_F16, x, &again);
        assert_string_equal(got.tactic, "cuda.recurrent");
        assert_close(i, &expected, &got, 1e-2f);
        assert_memory_equal(&got, &again, sizeof got);
        qb_graph_free(f.graph);
    }
}

static const struct CMUnitTest tests[] = {cmocka_unit_test(layers_compute_what_eval_does),
                                          cmocka_unit_test(wide_layers_compute_what_eval_does)};

QB_TEST_MAIN(tests)
