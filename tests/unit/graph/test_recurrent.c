/* Recurrent layers on numbers worked out by hand: one hidden unit, steps 1, 2, 3. */
#include <math.h>

#include "build_graph.h"
#include "graph/graph_internal.h"
#include "graph/store.h"
#include "onnx_bytes.h"

static const float steps[] = {1, 2, 3};

static void *field(maker *m, const char *attr) {
    const qb_node *node = &m->graph->nodes[m->graph->n_nodes - 1];
    const qb_attr_desc *desc = qb_attr_find(node->op, attr);
    assert_non_null(desc);
    return (char *)node->attrs + desc->offset;
}

static void set_acts(maker *m, int32_t n, const char *const *names, int32_t n_alpha,
                     const float *alpha, int32_t n_beta, const float *beta) {
    *(qb_strings *)field(m, "activations") = (qb_strings){n, names};
    *(qb_floats *)field(m, "activation_alpha") = (qb_floats){n_alpha, alpha};
    *(qb_floats *)field(m, "activation_beta") = (qb_floats){n_beta, beta};
}

/* A layer with one hidden unit; w, r and b have one value for each gate of each direction. */
static void layer(maker *m, const char *op, int directions, int gates, const float *w,
                  const float *r, const float *b) {
    maker_init(m, 1);
    int32_t x = make_floats(m, "x", DIMS(3, 1, 1), steps);
    int32_t vw = make_floats(m, "w", DIMS(directions, gates, 1), w);
    int32_t vr = make_floats(m, "r", DIMS(directions, gates, 1), r);
    int32_t vb = b ? make_floats(m, "b", DIMS(directions, 2 * gates), b) : -1;
    make_output(m, NODE(m, op, "y", x, vw, vr, vb));
}

static void expect(maker *m, int32_t n, const float *wanted) {
    qb_eval run;
    assert_ok(&m->cx, qb_graph_infer(&m->cx, m->graph));
    assert_ok(&m->cx, qb_eval_run(&m->cx, m->graph, NULL, &run));
    const qb_tensor y = qb_eval_output(&run, 0);
    assert_int_equal(qb_shape_count(&y.desc.shape), n);
    for (int32_t i = 0; i < n; i++)
        if (((const float *)y.data)[i] != wanted[i])
            fail_msg("element %d: got %g, expected %g", i, (double)((const float *)y.data)[i],
                     (double)wanted[i]);
    qb_eval_release(&run);
    maker_release(m);
}

static const float one[] = {1, 1, 1, 1}, nothing[4] = {0}, biases[8] = {0};

static void directions_run_their_own_way(void **state) {
    (void)state;
    static const float half[] = {0.5f, 0.5f}, both[] = {1, 2.75f, 2.5f, 3.5f, 4.25f, 3};
    static const char *const relus[] = {"Relu", "relu"}; /* case is of no consequence */
    maker m;
    layer(&m, "RNN", 2, 1, one, half, NULL);
    set_string(&m, "direction", "bidirectional");
    set_acts(&m, 2, relus, 0, NULL, 0, NULL);
    expect(&m, 6, both);
    layer(&m, "RNN", 1, 1, one, half, NULL);
    set_string(&m, "direction", "reverse");
    set_acts(&m, 1, relus, 0, NULL, 0, NULL);
    expect(&m, 3, (const float[]){2.75f, 3.5f, 3});
}

static void clip_bounds_what_goes_into_functions(void **state) {
    (void)state;
    static const char *const names[] = {"Affine"};
    static const float alpha[] = {2}, beta[] = {0.5f};
    maker m;
    layer(&m, "RNN", 1, 1, one, nothing, NULL);
    set_acts(&m, 1, names, 1, alpha, 1, beta);
    set_float(&m, "clip", 1.5f);
    expect(&m, 3, (const float[]){2.5f, 3.5f, 3.5f});
}

static void clip_is_above_zero(void **state) {
    (void)state;
    static const float wrong[] = {-1, NAN, 0}; /* onnxruntime's RNN makes zeros of 0 */
    for (int i = 0; i < 3; i++) {
        maker m;
        layer(&m, "RNN", 1, 1, one, nothing, NULL);
        set_float(&m, "clip", wrong[i]);
        assert_fails(&m.cx, qb_graph_infer(&m.cx, m.graph), QB_STATUS_INVALID);
        assert_message(&m.cx, "attribute clip: expected more than 0, got ");
        maker_release(&m);
    }
}

/* Gates that are always open, so that the state is a sum; alpha and beta go in order to the
 * functions that have them. */
static void lstm_adds_up(void **state) {
    (void)state;
    static const char *const names[] = {"HardSigmoid", "Affine", "Affine"};
    static const float alpha[] = {0, 1, 2}, beta[] = {1, 0, 0};
    maker m;
    for (int forgets = 0; forgets < 2; forgets++) {
        layer(&m, "LSTM", 1, 4, one, nothing, NULL);
        set_acts(&m, 3, names, 3, alpha, 3, beta);
        set_int(&m, "input_forget", forgets); /* f = 1 - i: nothing is kept */
        expect(&m, 3, forgets ? (const float[]){2, 4, 6} : (const float[]){2, 6, 12});
    }
}

static void gru_resets_before_or_after_the_product(void **state) {
    (void)state;
    static const char *const names[] = {"HardSigmoid", "Affine"};
    static const float alpha[] = {0, 1}, beta[] = {0.5f, 0}, r[] = {0, 0, 1};
    static const float bias[] = {0, 0, 0, 0, 0, 2}; /* Rbh = 2 */
    maker m;
    layer(&m, "GRU", 1, 3, one, r, NULL);
    set_acts(&m, 2, names, 2, alpha, 2, beta);
    expect(&m, 3, (const float[]){0.5f, 1.375f, 2.53125f});
    layer(&m, "GRU", 1, 3, one, r, bias);
    set_acts(&m, 2, names, 2, alpha, 2, beta);
    set_int(&m, "linear_before_reset", 1);
    expect(&m, 3, (const float[]){1, 2.25f, 3.6875f});
}

/* The second sequence ends after one step: what is behind is zero, the last state its own. */
static void sequences_have_their_own_lengths(void **state) {
    (void)state;
    static const float x[] = {1, 10, 2, 20, 3, 30};
    static const int32_t lengths[] = {3, 1};
    static const char *const names[] = {"Relu"};
    const qb_shape two = qb_shape_of(1, 2);
    maker m;
    maker_init(&m, 1);
    int32_t vx = make_floats(&m, "x", DIMS(3, 2, 1), x),
            w = make_floats(&m, "w", DIMS(1, 1, 1), one);
    int32_t n = qb_graph_add_constant(&m.cx, m.graph, "n", QB_DTYPE_S32, &two, lengths);
    make_output(&m, NODE(&m, "RNN", "y", vx, w, w, -1, n));
    set_acts(&m, 1, names, 0, NULL, 0, NULL);
    set_string(&m, "direction", "reverse");
    expect(&m, 6, (const float[]){6, 10, 5, 0, 3, 0});
}

static void wrong_layers_are_refused(void **state) {
    (void)state;
    static const char *const unknown[] = {"Sine"}, *const two[] = {"Tanh", "Tanh"};
    maker m;
    layer(&m, "RNN", 1, 1, one, one, NULL);
    set_acts(&m, 1, unknown, 0, NULL, 0, NULL);
    assert_int_equal(qb_graph_infer(&m.cx, m.graph), QB_STATUS_UNSUPPORTED);
    assert_non_null(strstr(m.cx.message, "'Sine' is not known"));
    set_acts(&m, 2, two, 0, NULL, 0, NULL);
    assert_int_equal(qb_graph_infer(&m.cx, m.graph), QB_STATUS_INVALID);
    assert_non_null(strstr(m.cx.message, "activations: expected 1, got 2"));
    set_acts(&m, 0, NULL, 0, NULL, 0, NULL);
    set_int(&m, "hidden_size", 7);
    assert_int_equal(qb_graph_infer(&m.cx, m.graph), QB_STATUS_INVALID);
    assert_non_null(strstr(m.cx.message, "expected 7, got 1"));
    maker_release(&m);
}

/* Lists of texts go through copies, engine files and ONNX files. */
static void names_of_functions_survive(void **state) {
    (void)state;
    static const char *const names[] = {"HardSigmoid", "Affine", "Tanh"};
    static const float alpha[] = {0.5f, 1}, beta[] = {1, 0};
    char folder[QB_TEST_PATH], path[QB_TEST_PATH];
    qb_strbuf bytes = {0};
    size_t hole, apart;
    qb_graph *copy[3] = {0};
    maker m;
    qb_test_temp_dir(folder);
    qb_test_join(path, folder, "lstm.onnx");
    layer(&m, "LSTM", 1, 4, one, nothing, biases);
    set_acts(&m, 3, names, 2, alpha, 2, beta);
    assert_ok(&m.cx, qb_graph_infer(&m.cx, m.graph));
    assert_ok(&m.cx, qb_graph_clone(&m.cx, m.graph, &copy[0]));
    assert_ok(&m.cx, qb_graph_store(&m.cx, copy[0], NULL, &bytes, &hole, &apart));
    assert_ok(&m.cx, qb_graph_restore(&m.cx, "graph", bytes.data, bytes.size, &(qb_store_memory){0},
                                      &copy[1]));
    assert_ok(&m.cx, qb_onnx_save(&m.cx, m.graph, path));
    assert_ok(&m.cx, qb_onnx_load_unfolded(&m.cx, path, &copy[2]));
    char *wanted = ob_text_of(&m.cx, m.graph);
    assert_non_null(strstr(wanted, "activations=[HardSigmoid,Affine,Tanh]"));
    for (int i = 0; i < 3; i++) {
        char *text = ob_text_of(&m.cx, copy[i]);
        assert_string_equal(text, wanted);
        qb_free(text);
        qb_graph_free(copy[i]);
    }
    for (size_t cut = 0; cut < bytes.size; cut++)
        assert_int_not_equal(
            qb_graph_restore(&m.cx, "cut", bytes.data, cut, &(qb_store_memory){0}, &copy[0]),
            QB_OK);
    qb_free(wanted);
    qb_strbuf_release(&bytes);
    maker_release(&m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(directions_run_their_own_way),
        cmocka_unit_test(clip_bounds_what_goes_into_functions),
        cmocka_unit_test(clip_is_above_zero),
        cmocka_unit_test(lstm_adds_up),
        cmocka_unit_test(gru_resets_before_or_after_the_product),
        cmocka_unit_test(sequences_have_their_own_lengths),
        cmocka_unit_test(wrong_layers_are_refused),
        cmocka_unit_test(names_of_functions_survive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
