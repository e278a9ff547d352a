/* Operators on regions, sequences, chosen elements and spectra: small cases worked out by hand.
 * Inputs without values count up from 0, integers down from 5. */
#include "op_text.h"

#include <math.h>
#include <string.h>

#include "kernels/ref.h"

typedef struct row {
    const char *op, *inputs, *attrs, *shape; /* of the output */
    double y[12];
    int32_t out; /* which one */
} row;

static const row rows[] = {
    /* the region x 0 to 2, y 1 to 3 of an image whose pixels are 4 y + x; half a pixel less, scaled
     * out of the image */
    {"RoiAlign", "f32:1,1,4,4 f32:1,4 =0", "sampling_ratio=1", "1,1,1,1", {6.5}, 0},
    {"RoiAlign", "f32:1,1,4,4 f32:1,4 =0", "", "1,1,1,1", {6.5}, 0},
    {"RoiAlign", "f32:1,1,4,4 f32:1,4 =0", "sampling_ratio=1 mode=max", "1,1,1,1", {2.25}, 0},
    {"RoiAlign",
     "f32:1,1,4,4 f32:1,4 =0",
     "sampling_ratio=1 coordinate_transformation_mode=output_half_pixel",
     "1,1,1,1",
     {9},
     0},
    {"RoiAlign", "f32:1,1,4,4 f32:1,4 =0", "sampling_ratio=1 spatial_scale=4", "1,1,1,1", {0}, 0},
    {"RoiAlign",
     "f32:1,1,4,4 f32:1,4 =0",
     "sampling_ratio=2 output_width=2",
     "1,1,1,2",
     {6.125, 7},
     0},
    {"ReverseSequence", "f32:2,3 =2,1", "batch_axis=0 time_axis=1", "2,3", {1, 0, 2, 3, 4, 5}, 0},
    {"ReverseSequence", "f32:2,3 =2,1,2", "", "2,3", {3, 1, 5, 0, 4, 2}, 0},
    {"TensorScatter", "f32:1,4,1 f32:1,2,1 =1", "", "1,4,1", {0, 0, 1, 3}, 0},
    {"TensorScatter", "f32:1,4,1 f32:1,2,1 =3", "mode=circular", "1,4,1", {1, 1, 2, 0}, 0},
    {"Compress", "f32:2,3 =bool:0,1", "axis=-1", "2,1", {1, 4}, 0},
    {"Compress", "f32:2,3 =bool:0,1,1,0", "", "2", {1, 2}, 0},
    {"Unique", "=f32:2,1,1,3,4,3", "", "4", {1, 2, 3, 4}, 0},
    {"Unique", "=f32:2,1,1,3,4,3", "sorted=0", "4", {2, 1, 3, 4}, 0},
    {"Unique", "=f32:2,1,1,3,4,3", "sorted=0", "4", {0, 1, 3, 4}, 1},
    {"Unique", "=f32:2,1,1,3,4,3", "sorted=0", "6", {0, 1, 1, 2, 3, 2}, 2},
    {"Unique", "=f32:2,1,1,3,4,3", "sorted=0", "4", {1, 2, 2, 1}, 3},
    {"Unique", "f32:2,0", "axis=1", "2,0", {0}, 0},
    {"DFT", "f32:1,4,1", "", "1,4,2", {6, 0, -2, 2, -2, 0, -2, -2}, 0},
    {"DFT", "f32:1,4,1", "onesided=1", "1,3,2", {6, 0, -2, 2, -2, 0}, 0},
    {"DFT", "f32:4,1 =2 =0", "", "2,2", {1, 0, -1, 0}, 0},
    {"DFT", "f32:1,2,1 =4", "inverse=1", "1,4,2", {0.25, 0, 0, 0.25, -0.25, 0, 0, -0.25}, 0},
    {"DFT", "f32:1,2,2", "inverse=1 onesided=1", "1,2,1", {1, -1}, 0},
    {"STFT",
     "f32:1,6,1 =2 =f32:1,0.5",
     "",
     "1,3,2,2",
     {0.5, 0, -0.5, 0, 3.5, 0, 0.5, 0, 6.5, 0, 1.5, 0},
     0},
    {"HannWindow", "=4", "", "4", {0, 0.5, 1, 0.5}, 0},
    {"HannWindow", "=3", "periodic=0 output_datatype=11", "3", {0, 1, 0}, 0},
    {"HammingWindow", "=2", "", "2", {4.0 / 46, 1}, 0},
    {"BlackmanWindow", "=2", "", "2", {0, 1}, 0},
    /* bands from 0 over 1 to 2 and from 1 over 2 to 3 of five bins */
    {"MelWeightMatrix", "=2 =8 =16 =f32:0 =f32:8", "", "5,2", {0, 0, 1, 0, 0, 1}, 0},
    {"AffineGrid", "f32:1,2,3 =1,1,1,2", "", "1,1,2,2", {2, 3.5, 2, 6.5}, 0},
    {"AffineGrid", "f32:1,2,3 =1,1,1,2", "align_corners=1", "1,1,2,2", {2, 2, 2, 8}, 0},
    {"CenterCropPad", "f32:5 =3", "", "3", {1, 2, 3}, 0},
    {"CenterCropPad", "f32:2 =5", "", "5", {0, 0, 1, 0, 0}, 0},
    {"CenterCropPad", "f32:2,3 =2", "axes=-1", "2,2", {0, 1, 3, 4}, 0},
    {"Col2Im", "f32:1,4,4 =3,3 =2,2", "", "1,1,3,3", {0, 5, 5, 10, 30, 20, 10, 25, 15}, 0},
    {"Col2Im", "f32:1,4,1 =1,1 =2,2", "pads=1,1,0,0", "1,1,1,1", {3}, 0},
    {"MaxUnpool",
     "f32:1,1,1,2 s64:1,1,1,2",
     "kernel_shape=2,2 strides=2,2",
     "1,1,2,4",
     {0, 0, 0, 0, 1, 0, 0, 0},
     0},
    {"MaxUnpool",
     "f32:1,1,1,2 s64:1,1,1,2 =1,1,2,5",
     "kernel_shape=2,2 strides=2,2",
     "1,1,2,5",
     {0, 0, 0, 0, 0, 1, 0, 0, 0, 0},
     0},
    /* the one sample of a 1x1 kernel, moved by (0, 1); weights 0 and 1 */
    {"DeformConv", "f32:1,1,2,3 f32:2,1,1,1 f32:1,2,1,1", "strides=2,3", "1,2,1,1", {0, 1}, 0},
    {"DeformConv",
     "f32:1,1,2,3 f32:2,1,1,1 f32:1,2,1,1 f32:2",
     "strides=2,3",
     "1,2,1,1",
     {0, 2},
     0},
    {"DeformConv",
     "f32:1,1,2,3 f32:2,1,1,1 f32:1,2,1,1 f32:2 f32:1,1,1,1",
     "strides=2,3",
     "1,2,1,1",
     {0, 1},
     0},
    {"LpPool", "f32:1,1,2,2", "kernel_shape=2,2", "1,1,1,1", {3.7416573867739413}, 0},
    {"LpPool", "f32:1,1,2,2", "kernel_shape=2,2 p=1 pads=1,1,0,0", "1,1,2,2", {0, 1, 2, 6}, 0},
    {"GlobalLpPool", "f32:1,2,2,1", "p=1", "1,2,1,1", {1, 5}, 0},
    {"CumProd", "=f32:2,3,4 =0", "", "3", {2, 6, 24}, 0},
    {"CumProd", "=s32:2,3,4 =-1", "exclusive=1 reverse=1", "3", {12, 4, 1}, 0},
    {"CumSum", "=s32:2,3,4 =-1", "exclusive=1 reverse=1", "3", {7, 4, 0}, 0},
    {"BitCast", "=f32:1,-2", "to=6", "2", {1065353216, -1073741824}, 0},
    /* one head of size 1: the state is 0, 1, 5; what is known already is not added; it decays */
    {"LinearAttention",
     "f32:1,3,1 f32:1,3,1 f32:1,3,1",
     "q_num_heads=1 kv_num_heads=1 update_rule=linear",
     "1,3,1",
     {0, 1, 10},
     0},
    {"LinearAttention",
     "f32:1,3,1 f32:1,3,1 f32:1,3,1 - - f32:1,3,1",
     "q_num_heads=1 kv_num_heads=1 update_rule=delta",
     "1,3,1",
     {0, 1, 2},
     0},
    {"LinearAttention",
     "f32:1,3,1 f32:1,3,1 f32:1,3,1 - f32:1,3,1",
     "q_num_heads=1 kv_num_heads=1 update_rule=gated",
     "1,1,1,1",
     {11.38905609893065},
     1},
    /* two heads share the state 0 0 / 0 1 of keys 0 1 and values 0 1 */
    {"LinearAttention",
     "f32:1,1,4 f32:1,1,2 f32:1,1,2",
     "q_num_heads=2 kv_num_heads=1 update_rule=linear scale=2",
     "1,1,4",
     {0, 2, 0, 6},
     0},
    {"CausalConvWithState", "f32:1,1,4 f32:1,1,3", "", "1,1,4", {0, 2, 5, 8}, 0},
    {"CausalConvWithState", "f32:1,1,4 f32:1,1,3", "", "1,1,2", {2, 3}, 1},
    {"CausalConvWithState",
     "f32:1,1,2 f32:1,1,3 - f32:1,1,2",
     "activation=silu",
     "1,1,2",
     {0.7310585786300049, 1.7615941559557649},
     0},
};

static void give_values(qb_graph *graph) {
    static const int64_t down[] = {5, 4, 3, 2, 1, 0};
    const qb_node *node = &graph->nodes[0];
    for (int32_t i = 0; i < node->n_in; i++) {
        qb_value *x = node->in[i] >= 0 ? &graph->values[node->in[i]] : NULL;
        if (!x || x->data) continue;
        if (x->dtype == QB_DTYPE_S64)
            x->data = down, x->bytes = sizeof *down * (size_t)qb_shape_count(&x->shape);
        else
            count_up(graph, node->in[i], x->shape);
    }
}

static void values_are_as_worked_out(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const row *r = &rows[i];
        qb_graph *graph = graph_of(r->op, r->inputs, r->attrs, r->out + 1, QB_GRAPH_OPSET);
        const qb_node *node = &graph->nodes[0];
        qb_ctx cx;
        qb_ctx_init(&cx);
        give_values(graph);
        assert_ok(&cx, evaluate_graph(&cx, graph));
        const qb_value *y = &graph->values[node->out[r->out]];
        char text[QB_TEST_PATH];
        assert_string_equal(dims_text(&y->shape, text, sizeof text), r->shape);
        for (int64_t k = 0; k < qb_shape_count(&y->shape); k++)
            if (fabs(qb_number_get(y->dtype, y->data, k) - r->y[k]) > 1e-7 * (1 + fabs(r->y[k])))
                fail_msg("row %zu, %s: element %lld: expected %g, got %g", i, r->op, (long long)k,
                         r->y[k], qb_number_get(y->dtype, y->data, k));
        qb_graph_free(graph);
    }
}

/* What infer cannot know, since it follows from constants' values. */
static void wrong_values_are_errors(void **state) {
    (void)state;
    static const struct {
        const char *op, *inputs, *attrs, *message;
    } wrong[] = {
        {"RoiAlign", "f32:1,1,4,4 f32:1,4 =1", "", "batch_indices: index: expected -1 to 0, got 1"},
        {"ReverseSequence", "f32:2,3 =2,4", "batch_axis=0 time_axis=1", "expected 0 to 3, got 4"},
        {"TensorScatter", "f32:1,4,1 f32:1,2,1 =3", "", "expected 0 to 2, got 3"},
        {"TensorScatter", "f32:1,4,1 f32:1,2,1 =-1", "mode=circular", "got -1"},
        {"MelWeightMatrix", "=2 =8 =16 =f32:9 =f32:8", "", "got 9, 8 and 16"},
        {"MelWeightMatrix", "=2 =8 =f32:1e30 =f32:0 =f32:1e30", "", "sample_rate <= "},
        {"MaxUnpool", "f32:1,1,1,1 s64:1,1,1,1", "kernel_shape=2,2", "expected -4 to 3, got 5"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        qb_graph *graph = graph_of(wrong[i].op, wrong[i].inputs, wrong[i].attrs, 1, QB_GRAPH_OPSET);
        qb_ctx cx;
        qb_ctx_init(&cx);
        give_values(graph);
        assert_fails(&cx, evaluate_graph(&cx, graph), QB_STATUS_INVALID);
        assert_message(&cx, wrong[i].message);
        qb_graph_free(graph);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(values_are_as_worked_out),
    cmocka_unit_test(wrong_values_are_errors),
};
QB_TEST_MAIN(tests)
