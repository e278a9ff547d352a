/* Each model of the zoo, evaluated by the reference: shapes, and activations of a steady scale.
 * ctest-timeout: 600, ctest-cost: 60
 * ctest-labels: slow */
#include "graph/zoo.h"

#include <math.h>
#include <string.h>

#include "build_graph.h"

/* Random inputs for the model: planes of their own brightness, token numbers, masks and segments.
 */
static qb_tensor random_input(maker *m, const qb_value *value, int64_t batch) {
    qb_shape shape = value->shape;
    shape.dim[0] = batch;
    if (shape.rank == 2) shape.dim[1] = 8; /* tokens: the reference evaluation is slow */
    int64_t count = qb_shape_count(&shape),
            plane = shape.rank == 4 ? shape.dim[2] * shape.dim[3] : 1;
    void *data = qb_alloc(&m->cx, (size_t)count, sizeof(int64_t));
    assert_non_null(data);
    uint64_t numbers = strcmp(value->name, "input_ids") == 0 ? 30522 : 2;
    double level = 0;
    for (int64_t i = 0; i < count; i++) {
        if (i % plane == 0) level = 0.7 * qb_rng_normal(&m->rng);
        if (value->dtype == QB_DTYPE_S64)
            ((int64_t *)data)[i] = (int64_t)qb_rng_below(&m->rng, numbers);
        else
            ((float *)data)[i] = (float)(level + 0.5 * qb_rng_normal(&m->rng));
    }
    return qb_tensor_of(value->dtype, shape, data);
}

static double deviation(const qb_tensor *t) {
    const float *v = t->data;
    int64_t n = qb_shape_count(&t->desc.shape);
    double mean = 0, sum = 0;
    for (int64_t i = 0; i < n; i++) mean += v[i] / (double)n;
    for (int64_t i = 0; i < n; i++) sum += (v[i] - mean) * (v[i] - mean) / (double)n;
    return sqrt(sum);
}

static int64_t argmax(const float *v, int64_t n) {
    int64_t best = 0;
    for (int64_t i = 1; i < n; i++)
        if (v[i] > v[best]) best = i;
    return best;
}

/* A size that the reference evaluation runs quickly, and where the inputs still get classes of
 * their own. */
static int64_t small_side(const qb_zoo_model *model) {
    if (model->channels == 0) return 0; /* open */
    if (strcmp(model->name, "vit_b_16") == 0) return 32;
    if (strcmp(model->name, "efficientnet_b0") == 0) return 72;
    return strcmp(model->name, "yolov5s") == 0 ? 64 : 48; /* yolov5s: a multiple of 32 */
}

/* Trained ones, as the original's authors count: no running statistics. */
static int64_t parameters_of(const char *name) {
    static const struct {
        const char *name;
        int64_t parameters;
    } known[] = {
        {"resnet18", 11689512},     {"resnet50", 25557032},       {"mobilenet_v2", 3504872},
        {"squeezenet1_1", 1235496}, {"efficientnet_b0", 5288548}, {"densenet121", 7978856},
        {"yolov5s", 7235389},       {"vit_b_16", 86567656},       {"bert_base", 109482240}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].name, name) == 0) return known[i].parameters;
    fail_msg("%s: expected a number of parameters", name);
    return 0;
}

static void check_shapes(const qb_graph *graph, const qb_zoo_model *model) {
    int64_t side = small_side(model), parameters = parameters_of(model->name);
    const qb_value *in = &graph->values[graph->inputs[0]];
    const qb_value *out = &graph->values[graph->outputs[0]];
    if (strcmp(model->name, "vit_b_16") == 0) parameters -= (14 * 14 - 2 * 2) * 768; /* positions */
    assert_int_equal(count_trained(graph), parameters);
    assert_string_equal(graph->symbols[-2 - in->shape.dim[0]], "N");
    const int64_t last = in->shape.dim[in->shape.rank - 1];
    if (side)
        assert_int_equal(last, side);
    else
        assert_string_equal(graph->symbols[-2 - last], "length");
    assert_int_equal(out->shape.dim[0], in->shape.dim[0]);
    assert_string_equal(out->name, model->output ? model->output : "logits");
    for (int32_t i = 1; i < out->shape.rank; i++) assert_true(out->shape.dim[i] > 0);
}

static void check_activations(const qb_eval *run, const char *name) {
    const qb_graph *graph = run->graph;
    for (int32_t i = 0; i < graph->n_nodes; i++) {
        const qb_node *node = &graph->nodes[i];
        int32_t v = node->out[0];
        qb_tensor t = qb_eval_value(run, v);
        /* By definition between 0 and 1, and gates need not vary. */
        bool small =
            strcmp(node->op->name, "Softmax") == 0 || strcmp(node->op->name, "Sigmoid") == 0;
        bool mask = strncmp(graph->values[v].name, "mask.", 5) == 0 ||
                    strstr(graph->values[v].name, ".masked");
        if (t.desc.dtype != QB_DTYPE_F32 || small || mask) continue;
        double s = deviation(&t);
        if (!(s >= 0.05 && s <= 20))
            fail_msg("%s: '%s' has deviation %g", name, graph->values[v].name, s);
    }
}

/* The inputs of a batch lead to outputs of their own; classes are not all the same. */
static void check_outputs(const qb_eval *run, const char *name, int64_t batch) {
    qb_tensor out = qb_eval_output(run, 0);
    int64_t n = qb_shape_count(&out.desc.shape) / batch;
    const float *v = out.data;
    double s = deviation(&out), moved = 0;
    int classes = 0;
    for (int64_t k = 1; k < batch; k++) {
        for (int64_t i = 0; i < n; i++) moved = fmax(moved, fabs((double)v[k * n + i] - v[i]));
        classes += argmax(v + k * n, n) != argmax(v, n);
    }
    assert_true(moved > 0.5 * s);
    if (classes == 0) fail_msg("%s: one class for all inputs", name);
}

static void every_model_has_its_shapes_and_a_steady_scale(void **state) {
    (void)state;
    const int64_t batch = 3;
    const qb_zoo_model *const *models = qb_zoo_models;
    for (int32_t i = 0; models[i]; i++) {
        maker m = {.graph = NULL};
        qb_ctx_init(&m.cx);
        qb_rng_seed(&m.rng, 99);
        qb_zoo_options options = {.side = small_side(models[i])};
        assert_ok(&m.cx, qb_zoo_build(&m.cx, models[i]->name, 5, &options, &m.graph));
        check_shapes(m.graph, models[i]);
        qb_tensor inputs[3];
        for (int32_t k = 0; k < m.graph->n_inputs; k++)
            inputs[k] = random_input(&m, &m.graph->values[m.graph->inputs[k]], batch);
        qb_eval run;
        assert_ok(&m.cx, qb_eval_run(&m.cx, m.graph, inputs, &run));
        check_activations(&run, models[i]->name);
        check_outputs(&run, models[i]->name, batch);
        qb_eval_release(&run);
        for (int32_t k = 0; k < m.graph->n_inputs; k++) qb_free(inputs[k].data);
        maker_release(&m);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_model_has_its_shapes_and_a_steady_scale),
    };
    return qb_test_exit_code(cmocka_run_group_tests(tests, NULL, NULL),
                             sizeof tests / sizeof *tests);
}
