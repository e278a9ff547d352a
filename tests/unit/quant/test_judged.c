/* Which values recovery and auto are judged by, and in which parts. */
#include <math.h>
#include <string.h>

#include "quant/recover/judged.h"
#include "small_graph.h"

static qb_judged find(small *s) {
    qb_judged judged;
    assert_ok(&s->cx, qb_graph_infer(&s->cx, s->graph));
    assert_ok(&s->cx, qb_judged_find(&s->cx, s->graph, &judged));
    return judged;
}

/* Boxes and scores of two strides, as YOLO exports join them. */
static void boxes_and_scores_count_apart(void **state) {
    (void)state;
    small s;
    small_init(&s);
    int32_t level[2];
    for (int i = 0; i < 2; i++) {
        const int32_t x = small_input(&s, i ? "x1" : "x0", i ? "1x4x2" : "1x4x6");
        const int32_t y = small_input(&s, i ? "y1" : "y0", i ? "1x3x2" : "1x3x6");
        const int32_t box = NODE(&s, "Relu", i ? "b1" : "b0", x);
        const int32_t score = NODE(&s, "Sigmoid", i ? "s1" : "s0", y);
        level[i] = NODE(&s, "Concat", i ? "l1" : "l0", box, score);
        ((qb_axis_attrs *)small_attrs(&s))->axis = 1;
    }
    const int32_t all = NODE(&s, "Concat", "all", level[0], level[1]);
    ((qb_axis_attrs *)small_attrs(&s))->axis = 2;
    small_output(&s, all);
    const qb_judged judged = find(&s);
    assert_int_equal(judged.n, 1);
    assert_int_equal(judged.n_parts, 2);
    assert_string_equal(judged.value[0].name, "all");
    assert_int_equal(judged.value[0].axis, 1);
    assert_int_equal(judged.value[0].end[0], 4);
    assert_int_equal(judged.value[0].end[1], 7);
    /* Errors of a tenth of each part's numbers weigh the same, whatever these are. */
    float wanted[7 * 8], got[7 * 8];
    for (int i = 0; i < 7 * 8; i++) {
        wanted[i] = i < 4 * 8 ? 300 : 0.5F;
        got[i] = wanted[i] * 1.1F;
    }
    const qb_shape shape = qb_shape_of(3, 1, 7, 8);
    double error[2], signal[2], sum;
    qb_judged_compare(&judged.value[0], &shape, wanted, got, error, signal);
    assert_true(fabs(signal[0] - 32 * 9e4) < 1 && fabs(signal[1] - 24 * 0.25) < 1e-6);
    assert_true(fabs(error[0] / signal[0] - 0.01) < 1e-6);
    assert_true(fabs(error[1] / signal[1] - 0.01) < 1e-6);
    qb_judged_sum(&judged, 1, error, signal, &sum, error);
    assert_true(fabs(sum - 0.02) < 1e-6 && fabs(error[1] - 0.01) < 1e-6);
    small_release(&s);
}

/* Of an output whose size comes with the data what its nodes read, before a Softmax. */
static void what_a_tail_reads_is_judged(void **state) {
    (void)state;
    small s;
    small_init(&s);
    const int32_t x = small_input(&s, "x", "1x5");
    const int32_t relu = NODE(&s, "Relu", "relu", x), p = NODE(&s, "Softmax", "p", relu);
    small_output(&s, NODE(&s, "NonZero", "where", p));
    const qb_judged judged = find(&s);
    assert_int_equal(judged.n, 1);
    assert_string_equal(judged.value[0].name, "relu");
    qb_graph *exposed;
    assert_ok(&s.cx, qb_judged_expose(&s.cx, &judged, s.graph, &exposed));
    assert_int_equal(exposed->n_outputs, 1);
    assert_string_equal(exposed->values[exposed->outputs[0]].name, "relu");
    qb_graph_free(exposed);
    small_release(&s);
}

/* All outputs, each once; integers only where there is nothing else. */
static void every_float_output_counts(void **state) {
    (void)state;
    small s;
    small_init(&s);
    const int32_t x = small_input(&s, "x", "1x5"), relu = NODE(&s, "Relu", "relu", x);
    small_output(&s, NODE(&s, "ArgMax", "class", relu));
    small_output(&s, NODE(&s, "Softmax", "p", relu));
    small_output(&s, NODE(&s, "Sigmoid", "other", relu));
    const qb_judged judged = find(&s);
    assert_int_equal(judged.n, 2);
    assert_string_equal(judged.value[0].name, "relu");
    assert_string_equal(judged.value[1].name, "other");
    small_release(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(boxes_and_scores_count_apart),
                                       cmocka_unit_test(what_a_tail_reads_is_judged),
                                       cmocka_unit_test(every_float_output_counts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
