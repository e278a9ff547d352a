/* Passes that move computation into weights and padding, or recognize operators. */
#include <string.h>

#include "run_passes.h"

/* --- reduce-mean-to-pool, Gemm --------------------------------------------------------------- */

static void spatial_means_become_pools(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 16);
    int32_t x = make_image(&m);
    int32_t flat = NODE(&m, "ReduceMean", "flat", x, INTS(&m, "axes", -1, 2));
    set_int(&m, "keepdims", 0);
    make_output(&m, flat);
    make_output(&m, NODE(&m, "ReduceMean", "kept", x, INTS(&m, "axes", 2, 3)));
    make_output(&m, NODE(&m, "ReduceMean", "partial", x, INTS(&m, "axes", 3)));
    make_output(&m, NODE(&m, "ReduceMean", "channels", x, INTS(&m, "axes", 1, 2)));
    assert_int_equal(optimize(&m, "reduce-mean-to-pool", TOLERANCE), 2);
    assert_int_equal(count_op(m.graph, "GlobalAveragePool"), 2);
    assert_int_equal(count_op(m.graph, "ReduceMean"), 2);
    assert_string_equal(node_writing(&m, "flat")->op->name, "Squeeze");
    maker_release(&m);
}

static void pools_of_the_whole_are_global(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 17);
    const int32_t x = make_input(&m, "x", DIMS(1, 3, 5, 7));
    const int32_t whole = NODE(&m, "AveragePool", "whole", x);
    SET_INTS(&m, "kernel_shape", 5, 7);
    SET_INTS(&m, "strides", 5, 7);
    make_output(&m, whole);
    const int32_t part = NODE(&m, "AveragePool", "part", x);
    SET_INTS(&m, "kernel_shape", 5, 6);
    make_output(&m, part);
    const int32_t padded = NODE(&m, "AveragePool", "padded", x);
    SET_INTS(&m, "kernel_shape", 5, 7);
    SET_INTS(&m, "pads", 0, 1, 0, 0);
    make_output(&m, padded);
    assert_int_equal(optimize(&m, "whole-average-pool", TOLERANCE), 1);
    assert_string_equal(node_writing(&m, "whole")->op->name, "GlobalAveragePool");
    assert_int_equal(count_op(m.graph, "AveragePool"), 2);
    maker_release(&m);
}

static void matmul_and_add_become_gemm(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 17);
    int32_t x = make_input(&m, "x", DIMS(-1, 5)), w = make_random(&m, "w", DIMS(5, 3));
    make_output(&m, NODE(&m, "Add", "a", NODE(&m, "MatMul", "am", x, w),
                         make_random(&m, "row", DIMS(1, 3))));
    make_output(&m,
                NODE(&m, "Add", "b", make_scalar(&m, "one", 2), NODE(&m, "MatMul", "bm", x, w)));
    make_output(
        &m, NODE(&m, "Add", "c", NODE(&m, "MatMul", "cm", x, w), NODE(&m, "MatMul", "cn", x, w)));
    int32_t shared = NODE(&m, "MatMul", "shared", x, w);
    make_output(&m, shared);
    make_output(&m, NODE(&m, "Add", "d", shared, make_random(&m, "row2", DIMS(3))));
    int32_t column = make_random(&m, "column", DIMS(5, 1));
    make_output(&m, NODE(&m, "Add", "wide", NODE(&m, "MatMul", "wm", x, column),
                         make_random(&m, "row3", DIMS(3))));
    assert_int_equal(optimize(&m, "matmul-add-to-gemm", TOLERANCE), 2);
    assert_int_equal(count_op(m.graph, "Gemm"), 2);
    maker_release(&m);
}

static void vectors_become_matrices(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 19);
    int32_t x = make_input(&m, "x", DIMS(2, 4, 5)), w = make_random(&m, "w", DIMS(5));
    int32_t row = make_input(&m, "row", DIMS(4)), both = make_random(&m, "b", DIMS(2, 5, 3));
    make_output(&m, NODE(&m, "MatMul", "column", x, w));
    make_output(&m, NODE(&m, "MatMul", "row_x", row, x));
    make_output(&m, NODE(&m, "MatMul", "number", row, make_random(&m, "four", DIMS(4))));
    make_output(&m, NODE(&m, "MatMul", "matrices", x, both));
    assert_int_equal(optimize(&m, "vector-to-matrix", TOLERANCE), 4);
    assert_int_equal(count_op(m.graph, "MatMul"), 4);
    assert_int_equal(count_op(m.graph, "Squeeze"), 4);
    assert_string_equal(node_writing(&m, "number")->op->name, "Squeeze");
    maker_release(&m);
}

static void gemm_gets_a_plain_bias(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 18);
    int32_t x = make_input(&m, "x", DIMS(-1, 5)), w = make_random(&m, "w", DIMS(3, 5));
    int32_t a = NODE(&m, "Gemm", "a", x, w, make_random(&m, "row", DIMS(1, 3)));
    set_int(&m, "transB", 1);
    set_float(&m, "beta", 0.5f);
    set_float(&m, "alpha", 2);
    int32_t b = NODE(&m, "Gemm", "b", x, w, make_scalar(&m, "two", 2));
    set_int(&m, "transB", 1);
    make_output(&m, a);
    make_output(&m, b);
    assert_int_equal(optimize(&m, "normalize-gemm", TOLERANCE), 2);
    const qb_node *node = node_writing(&m, "a");
    const qb_gemm_attrs *attrs = node->attrs;
    assert_true(attrs->beta == 1 && attrs->alpha == 2);
    assert_int_equal(m.graph->values[node->in[2]].shape.rank, 1);
    maker_release(&m);
}

/* --- fold-batch-norm, fold-scale ------------------------------------------------------------- */

static void batch_norm_moves_into_weights(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 19);
    int32_t x = make_image(&m);
    make_output(&m, make_batch_norm(&m, "a", make_conv(&m, "ac", x, DIMS(8, 4, 3, 3), true), 8));
    int32_t grouped = make_conv(&m, "bc", x, DIMS(8, 2, 1, 1), false);
    set_int(&m, "group", 2);
    make_output(&m, make_batch_norm(&m, "b", grouped, 8));
    int32_t up = NODE(&m, "ConvTranspose", "ct", x, make_random(&m, "w", DIMS(4, 3, 2, 2)));
    set_int(&m, "group", 2);
    make_output(&m, make_batch_norm(&m, "c", up, 6));
    int32_t flat = make_input(&m, "flat", DIMS(-1, 5));
    int32_t gemm = NODE(&m, "Gemm", "dg", flat, make_random(&m, "w", DIMS(5, 3)),
                        make_random(&m, "row", DIMS(1, 3)));
    set_float(&m, "alpha", 0.5f);
    set_float(&m, "beta", 3);
    make_output(&m, make_batch_norm(&m, "d", gemm, 3));
    gemm = NODE(&m, "Gemm", "eg", flat, make_random(&m, "w", DIMS(3, 5)));
    set_int(&m, "transB", 1);
    make_output(&m, make_batch_norm(&m, "e", gemm, 3));
    int32_t product = NODE(&m, "MatMul", "fm", flat, make_random(&m, "w", DIMS(5, 3)));
    make_output(&m, make_batch_norm(&m, "f", product, 3));
    assert_int_equal(optimize(&m, "fold-batch-norm", TOLERANCE), 6);
    assert_int_equal(count_op(m.graph, "BatchNormalization"), 0);
    assert_int_equal(count_nodes(m.graph), 6);
    assert_string_equal(node_writing(&m, "f")->op->name, "Gemm");
    maker_release(&m);
}

static void batch_norm_of_a_shared_value_becomes_mul_and_add(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 20);
    int32_t x = make_image(&m), c = make_conv(&m, "c", x, DIMS(8, 4, 1, 1), true);
    int32_t bn = make_batch_norm(&m, "bn", c, 8);
    make_output(&m, NODE(&m, "Add", "sum", c, bn));
    make_output(&m, make_batch_norm(&m, "direct", x, 4));
    int32_t tokens = NODE(&m, "MatMul", "tokens", make_input(&m, "t", DIMS(2, 3, 5)),
                          make_random(&m, "w", DIMS(5, 3)));
    make_output(&m, make_batch_norm(&m, "rows", tokens, 3)); /* channels are not the columns */
    assert_int_equal(optimize(&m, "fold-batch-norm", TOLERANCE), 3);
    assert_int_equal(count_op(m.graph, "Mul"), 3);
    assert_int_equal(count_op(m.graph, "BatchNormalization"), 0);
    maker_release(&m);
}

/* Its scale and shift stay floats, and so does what lies between them. */
static void batch_norm_of_quantized_values_becomes_mul_and_add(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 21);
    int32_t c = make_conv(&m, "c", make_image(&m), DIMS(8, 4, 1, 1), true);
    int32_t out = make_batch_norm(&m, "bn", c, 8);
    make_output(&m, NODE(&m, "Relu", "y", out));
    make_quantized(&m, c, 0.1f, 128);
    make_quantized(&m, out, 0.2f, 100);
    assert_int_equal(optimize_unchecked(&m, "fold-batch-norm"), 1);
    assert_string_equal(node_writing(&m, "bn")->op->name, "Add");
    assert_int_equal(value_of(&m, node_writing(&m, "bn")->in[0])->q.n, 0);
    assert_int_equal(count_op(m.graph, "Conv"), 1);
    maker_release(&m);
}

static void degenerate_batch_norm_stays(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 22);
    const float zero[4] = {0}, huge[4] = {1e38f, 1e38f, 1e38f, 1e38f};
    int32_t c = make_conv(&m, "c", make_image(&m), DIMS(4, 4, 1, 1), true);
    int32_t big = make_floats(&m, "big", DIMS(4), huge),
            none = make_floats(&m, "none", DIMS(4), zero);
    make_output(&m, NODE(&m, "BatchNormalization", "bn", c, big, none, none, none));
    assert_int_equal(optimize_unchecked(&m, "fold-batch-norm"), 0);
    maker_release(&m);
}

static void constant_scales_move_into_weights(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 23);
    int32_t v = make_conv(&m, "c", make_image(&m), DIMS(8, 4, 3, 3), false);
    v = NODE(&m, "Mul", "v1", v, make_random(&m, "s", DIMS(8, 1, 1)));
    v = NODE(&m, "Add", "v2", make_random(&m, "t", DIMS(1, 8, 1, 1)), v);
    v = NODE(&m, "Sub", "v3", v, make_scalar(&m, "u", 0.25f));
    v = NODE(&m, "Div", "v4", v, make_uniform(&m, "d", DIMS(8, 1, 1), 0.5, 2));
    make_output(&m, NODE(&m, "Relu", "y", v));
    int32_t tokens = NODE(&m, "MatMul", "mm", make_input(&m, "t", DIMS(2, 3, 5)),
                          make_random(&m, "w", DIMS(5, 6)));
    tokens = NODE(&m, "Mul", "scaled", tokens, make_random(&m, "s", DIMS(6)));
    make_output(&m, NODE(&m, "Add", "shifted", tokens, make_random(&m, "t", DIMS(6))));
    assert_int_equal(optimize(&m, "fold-scale", TOLERANCE), 5);
    assert_int_equal(count_nodes(m.graph), 4);
    assert_string_equal(node_writing(&m, "v4")->op->name, "Conv");
    assert_string_equal(node_writing(&m, "scaled")->op->name, "MatMul");
    assert_string_equal(node_writing(&m, "shifted")->op->name, "Add"); /* rank 3: no Gemm */
    maker_release(&m);
}

static void scales_that_do_not_fit_stay(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 24);
    int32_t x = make_image(&m);
    make_output(&m, NODE(&m, "Mul", "columns", make_conv(&m, "a", x, DIMS(6, 4, 1, 1), false),
                         make_random(&m, "s", DIMS(6))));
    make_output(&m, NODE(&m, "Sub", "from", make_scalar(&m, "one", 1),
                         make_conv(&m, "b", x, DIMS(6, 4, 1, 1), false)));
    make_output(&m, NODE(&m, "Add", "wider", make_conv(&m, "c", x, DIMS(6, 4, 1, 1), false),
                         make_random(&m, "s", DIMS(2, 1, 6, 1, 1))));
    int32_t used_twice = make_conv(&m, "d", x, DIMS(6, 4, 1, 1), false);
    make_output(&m, used_twice);
    make_output(&m, NODE(&m, "Mul", "half", used_twice, make_scalar(&m, "h", 0.5f)));
    assert_int_equal(optimize(&m, "fold-scale", TOLERANCE), 0);
    maker_release(&m);
}

/* As exporters write a BatchNormalization of tokens. */
static void scales_behind_a_view_move_to_the_product(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 29);
    const int32_t x = make_input(&m, "x", DIMS(2, 4, 5)), w = make_random(&m, "w", DIMS(5, 3));
    const int32_t flat = NODE(&m, "Flatten", "flat", NODE(&m, "MatMul", "product", x, w));
    set_int(&m, "axis", 2);
    const int32_t scaled = NODE(&m, "Mul", "scaled", flat, make_random(&m, "s", DIMS(3)));
    const int32_t shifted = NODE(&m, "Add", "shifted", make_random(&m, "t", DIMS(1, 3)), scaled);
    make_output(&m, NODE(&m, "Reshape", "back", shifted, INTS(&m, "shape", 2, 4, 3)));
    assert_int_equal(optimize(&m, "scale-before-view", TOLERANCE), 1);
    assert_int_equal(optimize(&m, "fold-scale", TOLERANCE), 1);
    assert_int_equal(optimize(&m, "scale-before-view", TOLERANCE), 1);
    assert_int_equal(count_op(m.graph, "Mul"), 0);
    const qb_node *add = node_writing(&m, "shifted_rows");
    assert_string_equal(add->op->name, "Add");
    assert_string_equal(node_writing(&m, "shifted")->op->name, "Flatten");
    maker_release(&m);
}

/* As scales of layers are written; the term is scaled with the product. */
static void scales_behind_a_term_move_to_the_product(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 31);
    const int32_t x = make_input(&m, "x", DIMS(2, 4, 5)), w = make_random(&m, "w", DIMS(5, 3));
    const int32_t product = NODE(&m, "MatMul", "product", x, w);
    const int32_t sum = NODE(&m, "Add", "sum", make_random(&m, "t", DIMS(3)), product);
    const int32_t y = NODE(&m, "Div", "y", sum, make_uniform(&m, "s", DIMS(1, 1, 3), 0.5, 1.5));
    make_output(&m, NODE(&m, "Add", "z", y, make_input(&m, "r", DIMS(2, 4, 3))));
    assert_int_equal(optimize(&m, "scale-before-shift", TOLERANCE), 1);
    assert_string_equal(node_writing(&m, "y")->op->name, "Add");
    assert_int_equal(optimize(&m, "fold-scale", TOLERANCE), 1);
    assert_int_equal(count_op(m.graph, "Div"), 0);
    assert_int_equal(optimize(&m, "scale-before-shift", TOLERANCE), 0);
    maker_release(&m);
}

/* A sum that others read, a term or a factor that varies along the rows, no product. */
static void other_scales_behind_terms_stay(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 32);
    const int32_t x = make_input(&m, "x", DIMS(4, 2, 5)), w = make_random(&m, "w", DIMS(5, 3));
    const int32_t three = make_random(&m, "three", DIMS(3)),
                  two = make_random(&m, "two", DIMS(2, 1));
    const int32_t shared = NODE(&m, "Add", "shared", NODE(&m, "MatMul", "a", x, w), three);
    make_output(&m, NODE(&m, "Mul", "a1", shared, three));
    make_output(&m, NODE(&m, "Relu", "a2", shared));
    make_output(&m, NODE(&m, "Mul", "b1", NODE(&m, "Add", "bs", NODE(&m, "MatMul", "b", x, w), two),
                         three));
    make_output(&m, NODE(&m, "Mul", "c1",
                         NODE(&m, "Add", "cs", NODE(&m, "MatMul", "c", x, w), three), two));
    make_output(
        &m, NODE(&m, "Mul", "d1",
                 NODE(&m, "Add", "ds", NODE(&m, "Relu", "d", x), make_random(&m, "five", DIMS(5))),
                 make_random(&m, "other", DIMS(5))));
    assert_int_equal(optimize(&m, "scale-before-shift", TOLERANCE), 0);
    maker_release(&m);
}

/* Other channels behind the view, a view that others read, a constant that varies along the rows,
 * no product. */
static void other_scales_behind_views_stay(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 30);
    const int32_t x = make_input(&m, "x", DIMS(2, 4, 5)), w = make_random(&m, "w", DIMS(5, 6));
    const int32_t three = make_random(&m, "three", DIMS(3));
    const int32_t rows = make_random(&m, "rows", DIMS(8, 1));
    const int32_t halves =
        NODE(&m, "Reshape", "halves", NODE(&m, "MatMul", "a", x, w), INTS(&m, "s1", 16, 3));
    make_output(&m, NODE(&m, "Mul", "a1", halves, three));
    const int32_t shared = NODE(&m, "Flatten", "shared", NODE(&m, "MatMul", "b", x, w));
    set_int(&m, "axis", 2);
    make_output(&m, NODE(&m, "Mul", "b1", shared, make_random(&m, "six", DIMS(6))));
    make_output(&m, NODE(&m, "Relu", "b2", shared));
    const int32_t own = NODE(&m, "Flatten", "own", NODE(&m, "MatMul", "c", x, w));
    set_int(&m, "axis", 2);
    make_output(&m, NODE(&m, "Mul", "c1", own, rows));
    const int32_t none = NODE(&m, "Flatten", "none", NODE(&m, "Relu", "d", x));
    set_int(&m, "axis", 2);
    make_output(&m, NODE(&m, "Add", "d1", none, make_random(&m, "five", DIMS(5))));
    assert_int_equal(optimize(&m, "scale-before-view", TOLERANCE), 0);
    maker_release(&m);
}

static void division_by_zero_stays_where_it_is(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 25);
    int32_t c = make_conv(&m, "c", make_image(&m), DIMS(6, 4, 1, 1), true);
    make_output(&m, NODE(&m, "Div", "y", c, make_scalar(&m, "zero", 0)));
    assert_int_equal(optimize_unchecked(&m, "fold-scale"), 0);
    maker_release(&m);
}

/* --- scale-to-conv --------------------------------------------------------------------------- */

static void scales_and_shifts_of_channels_become_convolutions(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 33);
    int32_t x = make_image(&m);
    int32_t scaled = NODE(&m, "Mul", "scaled", make_random(&m, "s", DIMS(4, 1, 1)), x);
    make_output(&m, NODE(&m, "Add", "y", make_random(&m, "t", DIMS(1, 4, 1, 1)), scaled));
    scaled = NODE(&m, "Mul", "doubled", x, make_scalar(&m, "two", 2));
    make_output(&m, NODE(&m, "Add", "z", scaled, make_random(&m, "u", DIMS(4, 1, 1))));
    int32_t line = make_input(&m, "line", DIMS(-1, 3, 5));
    scaled = NODE(&m, "Mul", "line_scaled", line, make_random(&m, "v", DIMS(3, 1)));
    make_output(&m, NODE(&m, "Add", "w", scaled, make_random(&m, "r", DIMS(3, 1))));
    assert_int_equal(optimize(&m, "scale-to-conv", TOLERANCE), 3);
    assert_int_equal(count_op(m.graph, "Conv"), 3);
    assert_int_equal(count_nodes(m.graph), 3);
    maker_release(&m);
}

static void other_products_and_sums_stay(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 34);
    int32_t x = make_image(&m);
    int32_t s = make_random(&m, "s", DIMS(4, 1, 1)), t = make_random(&m, "t", DIMS(4, 1, 1));
    int32_t seen = NODE(&m, "Mul", "seen", x, s); /* an output */
    make_output(&m, seen);
    make_output(&m, NODE(&m, "Add", "a", seen, t));
    int32_t twice = NODE(&m, "Mul", "twice", x, s);
    make_output(&m, NODE(&m, "Add", "b", twice, t));
    make_output(&m, NODE(&m, "Relu", "c", twice));
    int32_t columns = make_random(&m, "columns", DIMS(1, 6));
    make_output(&m, NODE(&m, "Add", "d", NODE(&m, "Mul", "dm", x, columns), t));
    make_output(&m, NODE(&m, "Add", "e", NODE(&m, "Mul", "em", x, s), x));
    int32_t two = make_scalar(&m, "two", 2); /* no channel differs from another */
    make_output(&m, NODE(&m, "Add", "f", NODE(&m, "Mul", "fm", x, two), two));
    make_output(&m, NODE(&m, "Sub", "g", t, NODE(&m, "Mul", "gm", x, s)));
    int32_t flat = make_input(&m, "flat", DIMS(-1, 4)), row = make_random(&m, "row", DIMS(4));
    make_output(&m, NODE(&m, "Add", "h", NODE(&m, "Mul", "hm", flat, row), row));
    int32_t wider = make_random(&m, "wider", DIMS(1, 1, 4, 1, 1));
    make_output(&m, NODE(&m, "Add", "i", NODE(&m, "Mul", "im", x, wider), t));
    int32_t grey = make_input(&m, "grey", DIMS(-1, 1, 6, 6)); /* broadcast to the channels */
    make_output(&m, NODE(&m, "Add", "j", NODE(&m, "Mul", "jm", grey, s), t));
    assert_int_equal(optimize(&m, "scale-to-conv", TOLERANCE), 0);
    maker_release(&m);
}

static void scales_of_quantized_values_stay(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 35);
    int32_t scaled = NODE(&m, "Mul", "scaled", make_image(&m), make_random(&m, "s", DIMS(4, 1, 1)));
    make_output(&m, NODE(&m, "Add", "y", scaled, make_random(&m, "t", DIMS(4, 1, 1))));
    make_quantized(&m, scaled, 0.5f, 3);
    assert_int_equal(optimize_unchecked(&m, "scale-to-conv"), 0);
    maker_release(&m);
}

/* --- input-scale ------------------------------------------------------------------------------ */

static void what_normalizes_an_image_becomes_one_convolution(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 36);
    int32_t x = make_input(&m, "rgb", DIMS(-1, 3, 5, 7));
    x = NODE(&m, "Div", "in_one", x, make_scalar(&m, "range", 255));
    x = NODE(&m, "Sub", "centred", x, make_random(&m, "mean", DIMS(3, 1, 1)));
    x = NODE(&m, "Div", "normalized", x, make_uniform(&m, "std", DIMS(1, 3, 1, 1), 0.5, 2));
    make_output(&m, make_conv(&m, "c", x, DIMS(6, 3, 3, 3), true));
    int32_t shifted = NODE(&m, "Add", "shifted", make_scalar(&m, "t", -0.5f), make_image(&m));
    make_output(&m, make_conv(&m, "d", shifted, DIMS(6, 4, 1, 1), false));
    assert_int_equal(optimize(&m, "input-scale", TOLERANCE), 2);
    assert_int_equal(optimize(&m, "fold-scale", TOLERANCE), 2);
    assert_int_equal(count_op(m.graph, "Conv"), 4);
    assert_int_equal(count_nodes(m.graph), 4);
    assert_string_equal(node_writing(&m, "normalized")->op->name, "Conv");
    maker_release(&m);
}

static void what_is_no_image_keeps_its_arithmetic(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 37);
    int32_t x = make_image(&m), s = make_random(&m, "s", DIMS(4, 1, 1));
    make_output(&m, NODE(&m, "Mul", "inner", NODE(&m, "Relu", "r", x), s));
    make_output(&m, NODE(&m, "Sub", "from", s, x));
    make_output(&m, NODE(&m, "Mul", "columns", x, make_random(&m, "columns", DIMS(1, 6))));
    make_output(&m, NODE(&m, "Div", "by_zero", x, make_scalar(&m, "zero", 0)));
    int32_t mask = make_input(&m, "mask", DIMS(-1, 1, 6, 6));
    make_output(&m, NODE(&m, "Mul", "masked", mask, make_scalar(&m, "large", -10000)));
    int32_t last = make_input(&m, "last", DIMS(-1, 6, 6, 3)); /* channels last */
    make_output(&m, NODE(&m, "Mul", "last_scaled", last, make_random(&m, "v", DIMS(3))));
    assert_int_equal(optimize_unchecked(&m, "input-scale"), 0);
    maker_release(&m);
}

/* --- merge-convs ------------------------------------------------------------------------------ */

/* A convolution of x with these pads in front of and behind two dimensions. */
static int32_t padded_conv(maker *m, const char *name, int32_t x, qb_shape weight, int pad,
                           int dilation, int group) {
    char w[32];
    snprintf(w, sizeof w, "%s_w", name);
    const int32_t y = NODE(m, "Conv", name, x, make_random(m, w, weight));
    SET_INTS(m, "pads", pad, pad, pad, pad);
    SET_INTS(m, "dilations", dilation, dilation);
    set_int(m, "group", group);
    return y;
}

static void convolutions_that_are_added_become_one(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 31);
    const int32_t x = NODE(&m, "Relu", "x1", make_image(&m));
    int32_t y = NODE(&m, "Add", "a1", padded_conv(&m, "wide", x, DIMS(4, 4, 3, 3), 1, 1, 1),
                     padded_conv(&m, "point", x, DIMS(4, 4, 1, 1), 0, 1, 1));
    y = NODE(&m, "Add", "a2", make_batch_norm(&m, "norm", x, 4), y); /* one weight a channel */
    y = NODE(&m, "Add", "a3", padded_conv(&m, "pairs", x, DIMS(4, 2, 3, 3), 1, 1, 2), y);
    make_output(&m, NODE(&m, "Relu", "y", y));
    int32_t z = NODE(&m, "Add", "b1", padded_conv(&m, "far", x, DIMS(4, 1, 3, 3), 2, 2, 4),
                     padded_conv(&m, "self", x, DIMS(4, 1, 1, 1), 0, 1, 4));
    z = NODE(&m, "Add", "b2", z, padded_conv(&m, "farther", x, DIMS(4, 1, 5, 5), 4, 2, 4));
    make_output(&m, NODE(&m, "Relu", "z", z));
    optimize(&m, NULL, TOLERANCE);
    assert_int_equal(count_op(m.graph, "Conv"), 2);
    assert_int_equal(count_op(m.graph, "Add"), 0);
    maker_release(&m);
}

static void other_sums_of_convolutions_stay(void **state) {
    (void)state;
    const char *const misses[] = {"cross", "more products", "two values", "read twice", "steps"};
    for (size_t i = 0; i < sizeof misses / sizeof *misses; i++) {
        maker m;
        maker_init(&m, 32);
        const int32_t x = NODE(&m, "Relu", "x1", make_image(&m)), v = NODE(&m, "Sigmoid", "v", x);
        int32_t a = padded_conv(&m, "a", x, DIMS(4, 1, 3, 3), 1, 1, 4), b;
        switch (i) {
        case 0:
            a = NODE(&m, "Conv", "row", x, make_random(&m, "row_w", DIMS(4, 1, 1, 3)));
            SET_INTS(&m, "pads", 0, 1, 0, 1);
            set_int(&m, "group", 4);
            b = NODE(&m, "Conv", "column", x, make_random(&m, "column_w", DIMS(4, 1, 3, 1)));
            SET_INTS(&m, "pads", 1, 0, 1, 0);
            set_int(&m, "group", 4);
            break;
        case 1: b = padded_conv(&m, "b", x, DIMS(4, 4, 1, 1), 0, 1, 1); break;
        case 4: b = padded_conv(&m, "b", x, DIMS(4, 1, 3, 3), 2, 2, 4); break;
        default: b = padded_conv(&m, "b", i == 2 ? v : x, DIMS(4, 1, 1, 1), 0, 1, 4);
        }
        make_output(&m, NODE(&m, "Relu", "y", NODE(&m, "Add", "sum", a, b)));
        make_output(&m, NODE(&m, "Relu", "z", i == 3 ? b : v));
        optimize(&m, NULL, TOLERANCE);
        assert_int_equal(count_op(m.graph, "Conv"), 2);
        maker_release(&m);
    }
}

/* --- sum-of-parts ----------------------------------------------------------------------------- */

/* Split attention: branches are stacked, or groups taken apart, weighted and added. */
static void sums_over_few_parts_become_additions(void **state) {
    (void)state;
    for (int i = 0; i < 4; i++) {
        const bool stacked = i % 2 == 0, keepdims = i >= 2;
        maker m;
        maker_init(&m, 33);
        const int32_t x = NODE(&m, "Relu", "x1", make_image(&m)), one = INTS(&m, "one", 1);
        const int32_t a = NODE(&m, "Sigmoid", "a", x), b = NODE(&m, "Tanh", "b", x);
        int32_t all;
        if (stacked)
            all = NODE(&m, "Concat", "all", NODE(&m, "Unsqueeze", "a1", a, one),
                       NODE(&m, "Unsqueeze", "b1", b, one));
        else
            all = NODE(&m, "Concat", "all", a, b);
        set_int(&m, "axis", 1);
        if (!stacked) all = NODE(&m, "Reshape", "apart", all, INTS(&m, "sizes", 0, 2, 4, 6, 6));
        const int32_t mean = NODE(&m, "ReduceSum", "sum", all, one);
        set_int(&m, "keepdims", keepdims);
        make_output(&m, NODE(&m, "Relu", "y", mean));
        const int32_t weights = NODE(&m, "Softmax", "w", make_random(&m, "v", DIMS(2, 4, 1, 1)));
        set_int(&m, "axis", 0);
        make_output(&m, NODE(&m, "ReduceSum", "z", NODE(&m, "Mul", "weighted", all, weights), one));
        set_int(&m, "keepdims", keepdims);
        make_output(&m, NODE(&m, "ReduceMax", "most", NODE(&m, "Sub", "less", all, weights), one));
        set_int(&m, "keepdims", keepdims);
        assert_int_equal(optimize(&m, "sum-of-parts", TOLERANCE), 3);
        assert_int_equal(count_op(m.graph, "ReduceSum"), 0);
        assert_int_equal(count_op(m.graph, "ReduceMax"), 0);
        maker_release(&m);
    }
}

/* Many parts, parts that lie among each other, values that are read otherwise: one reduction. */
static void other_sums_over_a_dimension_stay(void **state) {
    (void)state;
    const struct {
        int64_t sizes[5];
        int64_t axis;
    } cases[] = {{{0, 2, 2, 6, 6}, 2}, {{0, 4, 1, 6, 6}, 3}, {{0, 4, 3, 2, 6}, 3}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        maker m;
        maker_init(&m, 34);
        const int64_t *d = cases[i].sizes;
        const int32_t x = NODE(&m, "Relu", "x1", make_image(&m));
        const int32_t apart =
            NODE(&m, "Reshape", "apart", x, INTS(&m, "sizes", d[0], d[1], d[2], d[3], d[4]));
        make_output(&m, NODE(&m, "ReduceSum", "y", apart, INTS(&m, "axes", cases[i].axis)));
        optimize_unchecked(&m, "sum-of-parts");
        assert_int_equal(count_op(m.graph, "ReduceSum"), 1);
        maker_release(&m);
    }
}

/* A hostile chain of products is not followed to its beginning, once for each of its nodes. */
static void sums_far_behind_a_stack_stay(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 35);
    const int32_t x = NODE(&m, "Relu", "x1", make_image(&m)), one = INTS(&m, "one", 1);
    int32_t y = NODE(&m, "Concat", "all", NODE(&m, "Unsqueeze", "a", x, one),
                     NODE(&m, "Unsqueeze", "b", NODE(&m, "Tanh", "t", x), one));
    set_int(&m, "axis", 1);
    for (int i = 0; i < 5; i++) {
        char name[2][16];
        snprintf(name[0], sizeof name[0], "w%d", i);
        snprintf(name[1], sizeof name[1], "p%d", i);
        y = NODE(&m, "Mul", name[1], y, make_random(&m, name[0], DIMS(2, 4, 1, 1)));
    }
    make_output(&m, NODE(&m, "ReduceSum", "y", y, one));
    assert_int_equal(optimize(&m, "sum-of-parts", TOLERANCE), 0);
    maker_release(&m);
}

/* --- pad-into-conv --------------------------------------------------------------------------- */

static void zero_padding_moves_into_convolutions(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 26);
    int32_t x = make_image(&m), pads = INTS(&m, "pads", 0, 0, 1, 0, 0, 0, 2, 3);
    int32_t a = NODE(&m, "Pad", "ap", x, pads);
    int32_t w = make_random(&m, "w", DIMS(2, 4, 3, 3));
    make_output(&m, NODE(&m, "Conv", "a", a, w));
    SET_INTS(&m, "pads", 1, 1, 0, 0);
    int32_t b =
        NODE(&m, "Pad", "bp", x, INTS(&m, "short", 1, 0, 0, 1), -1, INTS(&m, "axes", 2, -1));
    make_output(&m, NODE(&m, "Conv", "b", b, w));
    set_string(&m, "auto_pad", "SAME_UPPER");
    SET_INTS(&m, "strides", 2, 2);
    int32_t c = NODE(&m, "Pad", "cp", x, INTS(&m, "all", 0, 0, 1, 1, 0, 0, 1, 1));
    make_output(&m, NODE(&m, "AveragePool", "c", c));
    SET_INTS(&m, "kernel_shape", 2, 2);
    assert_int_equal(optimize(&m, "pad-into-conv", TOLERANCE), 3);
    const qb_conv_attrs *attrs = node_writing(&m, "a")->attrs;
    assert_int_equal(attrs->pads.n, 4);
    assert_true(attrs->pads.v[0] == 2 && attrs->pads.v[1] == 1 && attrs->pads.v[2] == 2 &&
                attrs->pads.v[3] == 3);
    const qb_pool_attrs *pool = node_writing(&m, "c")->attrs;
    assert_int_equal(pool->count_include_pad, 1);
    maker_release(&m);
}

static void other_padding_stays(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 27);
    int32_t x = make_image(&m), w = make_random(&m, "w", DIMS(2, 4, 3, 3));
    int32_t ones = INTS(&m, "ones", 0, 0, 1, 1, 0, 0, 1, 1);
    make_output(&m,
                NODE(&m, "Conv", "a", NODE(&m, "Pad", "ap", x, ones, make_scalar(&m, "f", 1)), w));
    int32_t reflected = NODE(&m, "Pad", "bp", x, ones);
    set_string(&m, "mode", "reflect");
    make_output(&m, NODE(&m, "Conv", "b", reflected, w));
    int32_t cropped = NODE(&m, "Pad", "cp", x, INTS(&m, "crop", 0, 0, -1, 1, 0, 0, 1, 1));
    make_output(&m, NODE(&m, "Conv", "c", cropped, w));
    int32_t channels = NODE(&m, "Pad", "dp", x, INTS(&m, "channels", 0, 1, 0, 0, 0, 0, 0, 0));
    make_output(&m, NODE(&m, "Conv", "d", channels, make_random(&m, "w", DIMS(2, 5, 1, 1))));
    make_output(&m, NODE(&m, "MaxPool", "e", NODE(&m, "Pad", "ep", x, ones)));
    SET_INTS(&m, "kernel_shape", 3, 3);
    make_output(&m, NODE(&m, "AveragePool", "f", NODE(&m, "Pad", "fp", x, ones)));
    SET_INTS(&m, "kernel_shape", 3, 3);
    SET_INTS(&m, "pads", 1, 1, 1, 1); /* its own padding is not counted */
    assert_int_equal(optimize(&m, "pad-into-conv", TOLERANCE), 0);
    maker_release(&m);
}

static void padding_of_quantized_values_stays(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 28);
    int32_t x = make_image(&m), r = NODE(&m, "Relu", "r", x);
    int32_t padded = NODE(&m, "Pad", "p", r, INTS(&m, "pads", 0, 0, 1, 1, 0, 0, 1, 1));
    make_output(&m, NODE(&m, "Conv", "y", padded, make_random(&m, "w", DIMS(2, 4, 3, 3))));
    make_quantized(&m, r, 0.1f, 7);
    make_quantized(&m, padded, 0.1f, 7);
    assert_int_equal(optimize_unchecked(&m, "pad-into-conv"), 0);
    maker_release(&m);
}

/* --- fuse-* ---------------------------------------------------------------------------------- */

static int32_t ramp(maker *m, int32_t x) {
    int32_t sum = NODE(m, "Add", "sum", x, make_scalar(m, "three", 3));
    return NODE(m, "Clip", "ramp", sum, make_scalar(m, "zero", 0), make_scalar(m, "six", 6));
}

static void written_out_hard_swish_is_recognized(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 29);
    int32_t x = make_image(&m), six = make_scalar(&m, "six", 6),
            sixth = make_scalar(&m, "s", 1.0f / 6);
    make_output(&m, NODE(&m, "Div", "a", NODE(&m, "Mul", "am", ramp(&m, x), x), six));
    make_output(&m, NODE(&m, "Mul", "b", x, NODE(&m, "Div", "bd", ramp(&m, x), six)));
    make_output(&m, NODE(&m, "Mul", "c", NODE(&m, "Mul", "cm", sixth, ramp(&m, x)), x));
    int32_t gate = NODE(&m, "HardSigmoid", "gate", x);
    set_float(&m, "alpha", 1.0f / 6);
    make_output(&m, NODE(&m, "Mul", "d", x, gate));
    make_output(&m, NODE(&m, "Div", "e", ramp(&m, x), six));
    optimize(&m, NULL, TOLERANCE);
    assert_int_equal(count_op(m.graph, "HardSwish"), 4);
    assert_int_equal(count_op(m.graph, "HardSigmoid"), 1);
    assert_int_equal(count_nodes(m.graph), 5);
    maker_release(&m);
}

static void something_like_hard_swish_is_not(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 30);
    int32_t x = make_image(&m), y = NODE(&m, "Relu", "other", x), six = make_scalar(&m, "six", 6);
    make_output(&m, NODE(&m, "Mul", "a", y, NODE(&m, "Div", "ad", ramp(&m, x), six)));
    make_output(&m, NODE(&m, "Div", "b", six, ramp(&m, x)));
    make_output(&m, NODE(&m, "Mul", "c", x, ramp(&m, x)));
    optimize(&m, "fuse-hard-swish", TOLERANCE);
    assert_int_equal(count_op(m.graph, "HardSwish"), 0);
    maker_release(&m);
}

static int32_t erf_gate(maker *m, int32_t x) {
    int32_t scaled = NODE(m, "Div", "scaled", x, make_scalar(m, "root", 1.41421356f));
    return NODE(m, "Add", "gate", NODE(m, "Erf", "erf", scaled), make_scalar(m, "one", 1));
}

static int32_t tanh_gate(maker *m, int32_t x) {
    int32_t cube = NODE(m, "Pow", "cube", x, make_scalar(m, "three", 3));
    int32_t small = NODE(m, "Mul", "small", cube, make_scalar(m, "k", 0.044715f));
    int32_t inner = NODE(m, "Mul", "inner", make_scalar(m, "root", 0.7978845608f),
                         NODE(m, "Add", "sum", x, small));
    return NODE(m, "Add", "gate", make_scalar(m, "one", 1), NODE(m, "Tanh", "tanh", inner));
}

static void written_out_gelu_is_recognized(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 31);
    int32_t x = make_image(&m), half = make_scalar(&m, "half", 0.5f);
    make_output(&m, NODE(&m, "Mul", "a", NODE(&m, "Mul", "am", x, erf_gate(&m, x)), half));
    make_output(&m, NODE(&m, "Mul", "b", NODE(&m, "Mul", "bm", half, x), erf_gate(&m, x)));
    make_output(&m, NODE(&m, "Mul", "c", x, NODE(&m, "Mul", "cm", erf_gate(&m, x), half)));
    make_output(&m, NODE(&m, "Mul", "d", NODE(&m, "Mul", "dm", half, x), tanh_gate(&m, x)));
    int32_t other = NODE(&m, "Relu", "other", x);
    make_output(&m, NODE(&m, "Mul", "e", NODE(&m, "Mul", "em", half, other), erf_gate(&m, x)));
    optimize(&m, "fuse-gelu", TOLERANCE);
    assert_int_equal(count_op(m.graph, "Gelu"), 4);
    assert_string_equal(node_writing(&m, "e")->op->name, "Mul");
    maker_release(&m);
}

static int32_t layer_norm(maker *m, const char *name, int32_t x, int32_t gamma, int32_t beta) {
    int32_t axes = INTS(m, "axes", -1);
    int32_t d = NODE(m, "Sub", "d", x, NODE(m, "ReduceMean", "mean", x, axes));
    int32_t square = NODE(m, "Pow", "square", d, make_scalar(m, "two", 2));
    int32_t var = NODE(m, "ReduceMean", "var", square, axes);
    int32_t root = NODE(m, "Sqrt", "root", NODE(m, "Add", "ve", var, make_scalar(m, "eps", 1e-3f)));
    int32_t scaled = NODE(m, "Mul", "scaled", NODE(m, "Div", "unit", d, root), gamma);
    return NODE(m, "Add", name, beta, scaled);
}

static void written_out_layer_norm_is_recognized(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 32);
    int32_t x = make_input(&m, "x", DIMS(-1, 3, 8));
    int32_t gamma = make_random(&m, "gamma", DIMS(8)), beta = make_random(&m, "beta", DIMS(8));
    make_output(&m, layer_norm(&m, "a", x, gamma, beta));
    make_output(&m, layer_norm(&m, "b", x, make_random(&m, "rows", DIMS(3, 1)), beta));
    optimize(&m, "fuse-layer-norm", TOLERANCE);
    assert_int_equal(count_op(m.graph, "LayerNormalization"), 1);
    assert_string_equal(node_writing(&m, "a")->op->name, "LayerNormalization");
    maker_release(&m);
}

/* Over the last of three axes the mean could be a pool; no pass takes it before it is recognized,
 * and what is not stays a mean. */
static void the_mean_of_a_layer_norm_is_no_pool(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 33);
    int32_t x = make_input(&m, "x", DIMS(-1, 3, 8)), beta = make_random(&m, "beta", DIMS(8));
    make_output(&m, layer_norm(&m, "a", x, make_random(&m, "gamma", DIMS(8)), beta));
    make_output(&m, layer_norm(&m, "b", NODE(&m, "Relu", "r", x),
                               make_random(&m, "rows", DIMS(3, 1)), beta));
    optimize(&m, NULL, TOLERANCE);
    assert_string_equal(node_writing(&m, "a")->op->name, "LayerNormalization");
    assert_int_equal(count_op(m.graph, "ReduceMean"), 1);
    assert_int_equal(count_op(m.graph, "GlobalAveragePool"), 1); /* of b's squares */
    maker_release(&m);
}

static int32_t einsum(maker *m, const char *equation, int32_t a, int32_t b) {
    const int32_t in[2] = {a, b};
    const int32_t out = make_node(m, "Einsum", equation, b < 0 ? 1 : 2, in);
    set_string(m, "equation", equation);
    make_output(m, out);
    return out;
}

static void einsums_become_products(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 34);
    int32_t q = make_input(&m, "q", DIMS(-1, 3, 5, 4)), k = make_input(&m, "k", DIMS(-1, 3, 7, 4));
    int32_t w = make_random(&m, "w", DIMS(4, 6)), v = make_random(&m, "v", DIMS(3, 5));
    einsum(&m, "bhid,bhjd->bhij", q, k);
    einsum(&m, "bhid,bhjd->bjhi", q, k);  /* the result is transposed */
    einsum(&m, "bhid,bhjd->bhijd", q, k); /* nothing is summed: a product of elements */
    einsum(&m, "bhid,dk->bhik", q, w);    /* three rows as one */
    einsum(&m, "...id,dk->...ik", q, w);  /* the same by an ellipsis */
    einsum(&m, "bhid,hi->bd", q, v);      /* two labels are summed over */
    einsum(&m, "bhid,dk->bk", q, w);      /* those of one operand before the product */
    einsum(&m, "bhid->dbi", q, -1);
    optimize(&m, "einsum-to-matmul", TOLERANCE);
    assert_int_equal(count_op(m.graph, "Einsum"), 0);
    assert_int_equal(count_op(m.graph, "MatMul"), 6);
    assert_int_equal(count_op(m.graph, "Mul"), 1);
    maker_release(&m);
}

static void other_einsums_stay(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 35);
    int32_t x = make_input(&m, "x", DIMS(-1, 4, 4));
    einsum(&m, "bii->bi", x, -1); /* a diagonal */
    assert_int_equal(optimize(&m, "einsum-to-matmul", TOLERANCE), 0);
    maker_release(&m);
}

/* The two operands with the smallest result first. */
static void einsums_of_three_become_products(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 37);
    int32_t x = make_input(&m, "x", DIMS(2, 5, 4)), gate = make_input(&m, "gate", DIMS(2, 5, 3));
    const int32_t three[3] = {gate, x, make_random(&m, "w", DIMS(3, 4, 6))};
    int32_t out = make_node(&m, "Einsum", "experts", 3, three);
    set_string(&m, "equation", "bte,btd,edf->btef");
    make_output(&m, out);
    assert_true(optimize(&m, "einsum-to-matmul", TOLERANCE) > 0);
    assert_int_equal(count_op(m.graph, "Einsum"), 0);
    maker_release(&m);
}

/* Transposed and reshaped as they are; the product has the parameters of the result. */
static void einsums_of_quantized_values_become_products(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 36);
    int32_t x = NODE(&m, "Relu", "r", make_input(&m, "x", DIMS(2, 3, 5, 4)));
    int32_t y = einsum(&m, "bhid,bhjd->bjhi", x, x);
    make_quantized(&m, x, 0.1f, 3);
    make_quantized(&m, y, 0.2f, 5);
    assert_int_equal(optimize_unchecked(&m, "einsum-to-matmul"), 1);
    assert_int_equal(count_op(m.graph, "MatMul"), 1);
    for (int32_t i = 0; i < m.graph->n_nodes; i++) {
        const qb_node *node = &m.graph->nodes[i];
        if (!node->op || strcmp(node->op->name, "Relu") == 0) continue;
        const qb_qparams *q = &value_of(&m, node->out[0])->q;
        assert_int_equal(q->n, 1);
        const bool product = strcmp(node->op->name, "MatMul") == 0;
        const bool ends = product || value_of(&m, node->in[0])->q.scale[0] == 0.2f;
        assert_true(q->scale[0] == (ends ? 0.2f : 0.1f));
    }
    maker_release(&m);
}

/* What two of three operands make is float 32, whatever they and the result are. */
static void einsums_of_three_quantized_values_become_products(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 38);
    const int32_t x = NODE(&m, "Relu", "r", make_input(&m, "x", DIMS(2, 5, 4)));
    const int32_t three[3] = {make_input(&m, "gate", DIMS(2, 5, 3)), x,
                              make_random(&m, "w", DIMS(3, 4, 6))};
    const int32_t y = make_node(&m, "Einsum", "experts", 3, three);
    set_string(&m, "equation", "bte,btd,edf->btef");
    make_output(&m, y);
    make_quantized(&m, x, 0.1f, 3);
    make_quantized(&m, y, 0.2f, 5);
    assert_true(optimize_unchecked(&m, "einsum-to-matmul") > 0);
    assert_int_equal(count_op(m.graph, "Einsum"), 0);
    assert_int_equal(count_op(m.graph, "MatMul"), 1);
    for (int32_t i = 0; i < m.graph->n_nodes; i++) {
        const qb_node *node = &m.graph->nodes[i];
        if (!node->op || strcmp(node->op->name, "Mul") != 0) continue;
        assert_int_equal(value_of(&m, node->out[0])->dtype, QB_DTYPE_F32);
        assert_int_equal(value_of(&m, node->out[0])->q.n, 0);
    }
    assert_int_equal(value_of(&m, y)->q.n, 1);
    maker_release(&m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spatial_means_become_pools),
        cmocka_unit_test(pools_of_the_whole_are_global),
        cmocka_unit_test(matmul_and_add_become_gemm),
        cmocka_unit_test(vectors_become_matrices),
        cmocka_unit_test(gemm_gets_a_plain_bias),
        cmocka_unit_test(batch_norm_moves_into_weights),
        cmocka_unit_test(batch_norm_of_a_shared_value_becomes_mul_and_add),
        cmocka_unit_test(batch_norm_of_quantized_values_becomes_mul_and_add),
        cmocka_unit_test(degenerate_batch_norm_stays),
        cmocka_unit_test(constant_scales_move_into_weights),
        cmocka_unit_test(scales_that_do_not_fit_stay),
        cmocka_unit_test(scales_behind_a_view_move_to_the_product),
        cmocka_unit_test(scales_behind_a_term_move_to_the_product),
        cmocka_unit_test(other_scales_behind_terms_stay),
        cmocka_unit_test(other_scales_behind_views_stay),
        cmocka_unit_test(division_by_zero_stays_where_it_is),
        cmocka_unit_test(scales_and_shifts_of_channels_become_convolutions),
        cmocka_unit_test(other_products_and_sums_stay),
        cmocka_unit_test(scales_of_quantized_values_stay),
        cmocka_unit_test(what_normalizes_an_image_becomes_one_convolution),
        cmocka_unit_test(what_is_no_image_keeps_its_arithmetic),
        cmocka_unit_test(convolutions_that_are_added_become_one),
        cmocka_unit_test(other_sums_of_convolutions_stay),
        cmocka_unit_test(sums_over_few_parts_become_additions),
        cmocka_unit_test(other_sums_over_a_dimension_stay),
        cmocka_unit_test(sums_far_behind_a_stack_stay),
        cmocka_unit_test(zero_padding_moves_into_convolutions),
        cmocka_unit_test(other_padding_stays),
        cmocka_unit_test(padding_of_quantized_values_stays),
        cmocka_unit_test(written_out_hard_swish_is_recognized),
        cmocka_unit_test(something_like_hard_swish_is_not),
        cmocka_unit_test(written_out_gelu_is_recognized),
        cmocka_unit_test(written_out_layer_norm_is_recognized),
        cmocka_unit_test(the_mean_of_a_layer_norm_is_no_pool),
        cmocka_unit_test(einsums_become_products),
        cmocka_unit_test(other_einsums_stay),
        cmocka_unit_test(einsums_of_three_become_products),
        cmocka_unit_test(einsums_of_quantized_values_become_products),
        cmocka_unit_test(einsums_of_three_quantized_values_become_products),
    };
    return qb_test_exit_code(cmocka_run_group_tests(tests, NULL, NULL),
                             sizeof tests / sizeof *tests);
}
