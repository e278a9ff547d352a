/* What a GPU runs otherwise than the model has it, against eval: TopK as places and a gather, forms
 * of Resize and AffineGrid as products. No step runs on the host. Needs a GPU.
 * ctest-timeout: 300 */
#include <math.h>
#include <string.h>

#include "../unit/graph/build_graph.h"
#include "engine/engine.h"
#include "graph/passes.h"
#include "kernels/cuda/common/device.h"
#include "kernels/ref.h"

#define OUTPUTS 2
#define MOST 20000 /* elements of an output */

typedef struct answers {
    double out[OUTPUTS][MOST]; /* places are integers */
} answers;

static void require_device(void) {
    qb_ctx cx;
    qb_cuda_device device;
    qb_ctx_init(&cx);
    if (qb_cuda_open(&cx, 0, &device) != QB_OK) qb_test_skip("%s", cx.message);
}

static int count_host(const qb_engine *engine) {
    int host = 0;
    for (int32_t s = 0; s < qb_engine_n_steps(engine); s++) {
        qb_step_info step;
        qb_engine_step(engine, s, &step);
        host += strcmp(step.tactic, "node") == 0;
    }
    return host;
}

static void run(maker *m, const char *backends, qb_dtype type, const float *const *x, answers *a) {
    static float memory[OUTPUTS][2 * MOST]; /* room for 64 bits */
    const qb_build_spec spec = {.backends = backends, .float_type = type, .threads = 1};
    const void *inputs[2];
    void *outputs[OUTPUTS];
    qb_engine *engine;
    qb_context *context;
    for (int32_t i = 0; i < m->graph->n_inputs; i++) inputs[i] = x[i];
    for (int32_t i = 0; i < m->graph->n_outputs; i++) outputs[i] = memory[i];
    assert_ok(&m->cx, qb_engine_build(&m->cx, m->graph, &spec, &engine));
    if (strncmp(backends, "cuda", 4) == 0) assert_int_equal(count_host(engine), 0);
    assert_ok(&m->cx, qb_context_create(&m->cx, engine, &context));
    assert_ok(&m->cx, qb_context_run(&m->cx, context, inputs, outputs));
    for (int32_t i = 0; i < m->graph->n_outputs; i++) {
        const qb_value *y = value_of(m, m->graph->outputs[i]);
        const int64_t n = qb_shape_count(&y->shape);
        assert_true(n <= MOST);
        for (int64_t k = 0; k < n; k++) a->out[i][k] = qb_number_get(y->dtype, memory[i], k);
    }
    qb_context_free(context);
    qb_engine_free(engine);
}

/* In both types; `exact`: numbers that f16 holds come through as they are. */
static void check(maker *m, const float *const *x, bool exact) {
    static const qb_dtype types[] = {QB_DTYPE_F32, QB_DTYPE_F16};
    static answers expected, got;
    assert_ok(&m->cx, qb_optimize(&m->cx, m->graph, NULL, NULL));
    run(m, "ref", QB_DTYPE_F32, x, &expected);
    for (int t = 0; t < 2; t++) {
        const double tolerance = exact ? 0 : types[t] == QB_DTYPE_F16 ? 2e-2 : 1e-4;
        memset(&got, 0, sizeof got);
        run(m, "cuda,cpu,ref", types[t], x, &got);
        for (int32_t i = 0; i < m->graph->n_outputs; i++) {
            const int64_t n = qb_shape_count(&value_of(m, m->graph->outputs[i])->shape);
            for (int64_t k = 0; k < n; k++)
                if (!(fabs(got.out[i][k] - expected.out[i][k]) <= tolerance))
                    fail_msg("%s: output %d, element %lld: expected %g, got %g",
                             qb_dtype_text(types[t]), i, (long long)k, expected.out[i][k],
                             got.out[i][k]);
        }
    }
}

static void fill(qb_rng *rng, float *x, int64_t n, float step) {
    for (int64_t i = 0; i < n; i++) {
        const float v = (float)qb_rng_normal(rng);
        x[i] = step > 0 ? step * roundf(v / step) : v;
    }
}

/* Many equal numbers, which f16 holds; short lines and long ones, along any axis. */
static void the_first_elements(void **state) {
    (void)state;
    static const struct {
        int dims[3], axis, k;
        bool smallest;
    } cases[] = {{{3, 40, 5}, 1, 7, false},
                 {{2, 3, 900}, 2, 900, true},
                 {{1, 2, 9000}, -1, 300, false},
                 {{5000, 2, 1}, 0, 1000, true},
                 {{4, 1, 64}, 2, 1, false}};
    static float x[20000];
    require_device();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        maker m;
        const float *inputs[] = {x};
        const int *d = cases[i].dims;
        maker_init(&m, 7 + i);
        fill(&m.rng, x, (int64_t)d[0] * d[1] * d[2], 0.125f);
        const int32_t in[] = {make_input(&m, "x", DIMS(d[0], d[1], d[2])),
                              INTS(&m, "k", cases[i].k)};
        const qb_shape unknown = {.rank = -1};
        int32_t out[2];
        out[0] = qb_graph_add_value(&m.cx, m.graph, "values", QB_DTYPE_NONE, &unknown);
        out[1] = qb_graph_add_value(&m.cx, m.graph, "places", QB_DTYPE_NONE, &unknown);
        assert_true(
            qb_graph_add_node(&m.cx, m.graph, qb_op_find("TopK", ""), "first", in, 2, out, 2) >= 0);
        set_int(&m, "axis", cases[i].axis);
        set_int(&m, "largest", !cases[i].smallest);
        make_output(&m, out[0]);
        make_output(&m, out[1]);
        check(&m, inputs, true);
        maker_release(&m);
    }
}

static void forms_of_resize(void **state) {
    (void)state;
    static const struct {
        const char *mode, *transform, *nearest;
        bool antialias, exclude;
        int h, w;
    } cases[] = {{"cubic", "half_pixel", "floor", true, false, 9, 40},
                 {"cubic", "asymmetric", "floor", false, true, 30, 11},
                 {"linear", "half_pixel", "floor", true, true, 5, 8},
                 {"linear", "tf_crop_and_resize", "floor", false, false, 12, 12},
                 {"nearest", "half_pixel", "ceil", false, false, 33, 7}};
    static const float roi[] = {0, 0, 0.1f, -0.2f, 1, 1, 0.8f, 0.9f};
    static float x[2 * 16 * 20 * 24];
    require_device();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        maker m;
        const float *inputs[] = {x};
        maker_init(&m, 17 + i);
        fill(&m.rng, x, sizeof x / sizeof *x, 0);
        const int32_t in = make_input(&m, "x", DIMS(2, 16, 20, 24));
        const int32_t y = NODE(&m, "Resize", "y", in, make_floats(&m, "roi", DIMS(8), roi), -1,
                               INTS(&m, "size", 2, 16, cases[i].h, cases[i].w));
        set_string(&m, "mode", cases[i].mode);
        set_string(&m, "coordinate_transformation_mode", cases[i].transform);
        set_string(&m, "nearest_mode", cases[i].nearest);
        set_int(&m, "antialias", cases[i].antialias);
        set_int(&m, "exclude_outside", cases[i].exclude);
        make_output(&m, y);
        check(&m, inputs, false);
        maker_release(&m);
    }
}

static void grids(void **state) {
    (void)state;
    static float theta[2 * 3 * 4];
    require_device();
    for (int i = 0; i < 4; i++) {
        maker m;
        const float *inputs[] = {theta};
        const bool solid = i / 2;
        maker_init(&m, 27);
        fill(&m.rng, theta, 2 * 3 * 4, 0.125f);
        const int32_t in = make_input(&m, "theta", solid ? DIMS(2, 3, 4) : DIMS(2, 2, 3));
        const int32_t y =
            NODE(&m, "AffineGrid", "y", in,
                 solid ? INTS(&m, "size", 2, 1, 3, 4, 5) : INTS(&m, "size", 2, 3, 9, 12));
        set_int(&m, "align_corners", i % 2);
        make_output(&m, y);
        check(&m, inputs, false);
        maker_release(&m);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(the_first_elements),
    cmocka_unit_test(forms_of_resize),
    cmocka_unit_test(grids),
};

QB_TEST_MAIN(tests)
