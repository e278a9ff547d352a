#include "graph/fusion.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "graph/passes.h"
#include "kernels/ref.h"
#include "random_graph.h"

/* --- looking at groups ----------------------------------------------------------------------- */

static qb_groups fuse(maker *m) {
    qb_groups groups;
    assert_ok(&m->cx, qb_graph_infer(&m->cx, m->graph));
    assert_ok(&m->cx, qb_fuse(&m->cx, m->graph, &groups));
    return groups;
}

/* The group that writes the value of this name. */
static const qb_group *writing(const maker *m, const qb_groups *groups, const char *value) {
    int32_t id = qb_graph_find_value(m->graph, value);
    for (int32_t i = 0; i < groups->n; i++)
        if (groups->group[i].out == id) return &groups->group[i];
    fail_msg("no group writes '%s'", value);
    return NULL;
}

/* Kind, nodes (their first outputs, in order) and inputs ("-" for absent) as text. */
static void expect(const maker *m, const qb_groups *groups, const char *out, qb_kind kind,
                   const char *nodes, const char *inputs) {
    const qb_group *g = writing(m, groups, out);
    char got[256] = "", in[256] = "";
    for (int32_t i = 0; i < g->n_nodes; i++) {
        const qb_node *node = &m->graph->nodes[g->node[i]];
        strcat(strcat(got, i ? " " : ""), m->graph->values[node->out[0]].name);
    }
    for (int32_t i = 0; i < g->n_in; i++)
        strcat(strcat(in, i ? " " : ""), g->in[i] < 0 ? "-" : m->graph->values[g->in[i]].name);
    assert_string_equal(qb_kind_text(g->kind), qb_kind_text(kind));
    assert_string_equal(got, nodes);
    assert_string_equal(in, inputs);
}

static void expect_act(const maker *m, const qb_groups *groups, const char *out, qb_act_kind kind,
                       float alpha, float beta) {
    const qb_group *g = writing(m, groups, out);
    assert_string_equal(qb_act_text(g->act.kind), qb_act_text(kind));
    assert_true(g->act.alpha == alpha && g->act.beta == beta);
}

/* --- running groups -------------------------------------------------------------------------- */

static void move_floats(const qb_strided *s, const float *in, float *out) {
    int64_t at[QB_MAX_RANK] = {0}, n = 1;
    for (int32_t d = 0; d < s->rank; d++) n *= s->dim[d];
    for (int64_t i = 0; i < n; i++) {
        int64_t from = s->offset;
        for (int32_t d = 0; d < s->rank; d++) from += at[d] * s->stride[d];
        out[i] = in[from];
        for (int32_t d = s->rank - 1; d >= 0 && ++at[d] == s->dim[d]; d--) at[d] = 0;
    }
}

static qb_status run_problem(qb_ctx *cx, const qb_problem *p, const void *const *in, void *out) {
    if (p->kind == QB_KIND_STRIDED_COPY) { /* has no reference of its own */
        move_floats(&p->strided, in[0], out);
        return QB_OK;
    }
    QB_TRY(qb_ref_check(cx, p));
    switch (p->kind) {
    case QB_KIND_CONV: qb_ref_conv(p, in, out, 1); return QB_OK;
    case QB_KIND_CONV_TRANSPOSE: qb_ref_conv_transpose(p, in, out, 1); return QB_OK;
    case QB_KIND_MATMUL: qb_ref_matmul(p, in, out, 1); return QB_OK;
    case QB_KIND_POOL: qb_ref_pool(p, in, out, NULL, 1); return QB_OK;
    case QB_KIND_BINARY: qb_ref_binary(p, in, out); return QB_OK;
    case QB_KIND_UNARY: qb_ref_unary(p, in, out); return QB_OK;
    case QB_KIND_SOFTMAX: qb_ref_softmax(p, in, out); return QB_OK;
    case QB_KIND_CONCAT: qb_ref_concat(p, in, out); return QB_OK;
    default: return qb_fail(cx, QB_STATUS_INTERNAL, "unexpected kind");
    }
}

static qb_status run_group(qb_ctx *cx, qb_eval *run, const qb_group *g) {
    if (g->kind == QB_KIND_NODE) return qb_eval_node(cx, run, g->node[0]);
    qb_desc desc[QB_MAX_INPUTS];
    const void *in[QB_MAX_INPUTS];
    qb_problem p;
    QB_TRY(qb_group_problem(cx, run->graph, g, desc, &p));
    for (int32_t i = 0; i < g->n_in; i++) {
        in[i] = g->in[i] < 0 ? NULL : qb_eval_value(run, g->in[i]).data;
        if (g->in[i] >= 0 && !in[i])
            return qb_fail(cx, QB_STATUS_INTERNAL, "'%s' is read before it is written",
                           run->graph->values[g->in[i]].name);
    }
    QB_TRY(qb_eval_place(cx, run, g->out, NULL));
    return run_problem(cx, &p, in, run->data[g->out]);
}

/* Each node is in one group, groups run after what they read, and nothing reads inside a group. */
static void check_groups(const maker *m, const qb_groups *groups) {
    const qb_graph *graph = m->graph;
    int32_t *group_of = qb_alloc((qb_ctx *)&m->cx, (size_t)graph->n_nodes, sizeof *group_of);
    int32_t covered = 0;
    assert_non_null(group_of);
    for (int32_t i = 0; i < groups->n; i++)
        for (int32_t k = 0; k < groups->group[i].n_nodes; k++, covered++) {
            assert_int_equal(group_of[groups->group[i].node[k]], 0);
            group_of[groups->group[i].node[k]] = i + 1;
        }
    assert_int_equal(covered, count_nodes(graph));
    for (int32_t u = 0; u < graph->n_nodes; u++)
        for (int32_t k = 0; graph->nodes[u].op && k < graph->nodes[u].n_in; k++)
            for (int32_t p = 0; p < u; p++) {
                const qb_node *from = &graph->nodes[p];
                if (!from->op || from->out[0] != graph->nodes[u].in[k]) continue;
                assert_true(group_of[p] <= group_of[u]);
                if (group_of[p] < group_of[u])
                    assert_int_equal(groups->group[group_of[p] - 1].out, from->out[0]);
            }
    qb_free(group_of);
}

static bool take_all(const void *user, const qb_problem *problem) {
    (void)user, (void)problem;
    return true;
}

/* The groups compute what the nodes compute; `views`: also where moves are fused. */
static void assert_groups_compute(maker *m, double tolerance, bool views) {
    qb_shape shape = value_of(m, m->graph->inputs[0])->shape;
    for (int32_t i = 0; i < shape.rank; i++)
        if (shape.dim[i] < 0) shape.dim[i] = 2;
    int64_t n = qb_shape_count(&shape);
    float *data = qb_alloc(&m->cx, (size_t)n, sizeof *data);
    assert_non_null(data);
    for (int64_t i = 0; i < n; i++) data[i] = (float)qb_rng_normal(&m->rng);
    qb_tensor input = qb_tensor_of(QB_DTYPE_F32, shape, data);
    qb_eval plain, fused;
    assert_ok(&m->cx, qb_eval_run(&m->cx, m->graph, &input, &plain));
    /* The bound copy of a second run, with nothing computed but the inputs. */
    assert_ok(&m->cx, qb_eval_run(&m->cx, m->graph, &input, &fused));
    for (int32_t i = 0; i < fused.graph->n_values; i++) {
        if (qb_graph_is_input(fused.graph, i)) continue;
        qb_free(fused.data[i]);
        fused.data[i] = NULL;
    }
    qb_groups groups;
    assert_ok(&m->cx, qb_fuse(&m->cx, fused.graph, &groups));
    if (views) assert_ok(&m->cx, qb_fuse_views(&m->cx, fused.graph, take_all, NULL, &groups));
    for (int32_t i = 0; i < groups.n; i++)
        assert_ok(&m->cx, run_group(&m->cx, &fused, &groups.group[i]));
    for (int32_t i = 0; i < plain.graph->n_outputs; i++) {
        qb_tensor a = qb_eval_output(&plain, i), b = qb_eval_output(&fused, i);
        double error = qb_eval_error(&b, &a);
        if (!(error <= tolerance))
            fail_msg("seed %llu, output '%s': error %g", (unsigned long long)m->seed,
                     plain.graph->values[plain.graph->outputs[i]].name, error);
    }
    qb_groups_release(&groups);
    qb_eval_release(&plain);
    qb_eval_release(&fused);
    qb_free(data);
}

static void assert_groups_compute_the_graph(maker *m, double tolerance) {
    assert_groups_compute(m, tolerance, false);
}

#define TOLERANCE 1e-5

/* --- convolutions ---------------------------------------------------------------------------- */

static int32_t image(maker *m) { return make_input(m, "x", DIMS(-1, 4, 6, 6)); }

static int32_t conv(maker *m, const char *name, int32_t x, int channels) {
    int32_t w = make_random(m, "cw", DIMS(channels, (int)value_of(m, x)->shape.dim[1], 1, 1));
    return NODE(m, "Conv", name, x, w, make_random(m, "cb", DIMS(channels)));
}

static void conv_takes_residual_and_activation(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 1);
    int32_t x = image(&m), c = conv(&m, "c", x, 4);
    make_output(&m, NODE(&m, "Relu", "y", NODE(&m, "Add", "sum", x, c)));
    qb_groups groups = fuse(&m);
    assert_int_equal(groups.n, 1);
    expect(&m, &groups, "y", QB_KIND_CONV, "c sum y", "x cw cb x");
    expect_act(&m, &groups, "y", QB_ACT_RELU, 0, 0);
    assert_false(groups.group[0].act_first);
    qb_groups_release(&groups);
    assert_groups_compute_the_graph(&m, TOLERANCE);
    maker_release(&m);
}

static void activation_may_come_before_the_residual(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 2);
    int32_t x = image(&m), r = NODE(&m, "Sigmoid", "r", conv(&m, "c", x, 4));
    make_output(&m, NODE(&m, "Relu", "y", NODE(&m, "Add", "sum", r, x)));
    qb_groups groups = fuse(&m);
    expect(&m, &groups, "sum", QB_KIND_CONV, "c r sum", "x cw cb x");
    expect_act(&m, &groups, "sum", QB_ACT_SIGMOID, 0, 0);
    assert_true(writing(&m, &groups, "sum")->act_first);
    expect(&m, &groups, "y", QB_KIND_UNARY, "y", "sum"); /* one activation a group */
    qb_groups_release(&groups);
    assert_groups_compute_the_graph(&m, TOLERANCE);
    maker_release(&m);
}

/* The residual stands behind the anchor in the graph; the group waits for it. */
static void the_later_of_two_convolutions_takes_the_add(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 3);
    int32_t x = image(&m), a = conv(&m, "a", x, 4), b = conv(&m, "b", x, 4);
    int32_t late = NODE(&m, "MaxPool", "late", x);
    SET_INTS(&m, "kernel_shape", 1, 1);
    make_output(&m, NODE(&m, "Add", "p", a, b));
    make_output(&m, NODE(&m, "Add", "q", conv(&m, "c", x, 4), late));
    qb_groups groups = fuse(&m);
    expect(&m, &groups, "p", QB_KIND_CONV, "b p", "x cw_1 cb_1 a");
    expect(&m, &groups, "q", QB_KIND_CONV, "c q", "x cw_2 cb_2 late");
    expect(&m, &groups, "a", QB_KIND_CONV, "a", "x cw cb -");
    check_groups(&m, &groups);
    qb_groups_release(&groups);
    assert_groups_compute_the_graph(&m, TOLERANCE);
    maker_release(&m);
}

static void values_that_others_need_stay_in_memory(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 4);
    int32_t x = image(&m), shared = conv(&m, "shared", x, 4), named = conv(&m, "named", x, 4);
    make_output(&m, NODE(&m, "Relu", "y1", shared));
    make_output(&m, NODE(&m, "Tanh", "y2", shared));
    make_output(&m, named);
    make_output(&m, NODE(&m, "Relu", "y3", named));
    int32_t quantized = conv(&m, "quantized", x, 4);
    make_output(&m, NODE(&m, "Relu", "y4", quantized));
    make_quantized(&m, quantized, 0.1f, 128);
    int32_t doubled = conv(&m, "doubled", x, 4);
    make_output(&m, NODE(&m, "Add", "y5", doubled, doubled));
    qb_groups groups = fuse(&m);
    assert_int_equal(groups.n, 9);
    expect(&m, &groups, "quantized", QB_KIND_CONV, "quantized", "x cw_2 cb_2 -");
    expect(&m, &groups, "y5", QB_KIND_BINARY, "y5", "doubled doubled");
    qb_groups_release(&groups);
    maker_release(&m);
}

static void broadcast_and_constant_addends_are_no_residual(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 5);
    int32_t x = image(&m), row = make_input(&m, "row", DIMS(4, 1, 1));
    make_output(&m, NODE(&m, "Add", "a", conv(&m, "ac", x, 4), row));
    int32_t fixed = make_input(&m, "fixed", DIMS(2, 4, 6, 6));
    make_output(&m, NODE(&m, "Add", "b", conv(&m, "bc", fixed, 4),
                         make_random(&m, "full", DIMS(2, 4, 6, 6))));
    qb_groups groups = fuse(&m);
    expect(&m, &groups, "a", QB_KIND_BINARY, "a", "ac row");
    expect(&m, &groups, "b", QB_KIND_BINARY, "b", "bc full");
    qb_groups_release(&groups);
    maker_release(&m);
}

static void every_activation_fuses(void **state) {
    (void)state;
    static const struct {
        const char *op;
        qb_act_kind kind;
        float alpha, beta;
    } rows[] = {{"Relu", QB_ACT_RELU, 0, 0},
                {"LeakyRelu", QB_ACT_LEAKY_RELU, 0.01f, 0},
                {"Sigmoid", QB_ACT_SIGMOID, 0, 0},
                {"Tanh", QB_ACT_TANH, 0, 0},
                {"HardSigmoid", QB_ACT_HARD_SIGMOID, 0.2f, 0.5f},
                {"HardSwish", QB_ACT_HARD_SWISH, 0, 0},
                {"Gelu", QB_ACT_GELU, 0, 0},
                {"Elu", QB_ACT_ELU, 1, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        maker m;
        maker_init(&m, 6);
        int32_t x = image(&m);
        make_output(&m, NODE(&m, rows[i].op, "y", conv(&m, "c", x, 5)));
        make_output(&m, NODE(&m, rows[i].op, "z", x));
        make_output(&m, NODE(&m, rows[i].op, "s", NODE(&m, "Mul", "square", x, x)));
        qb_groups groups = fuse(&m);
        expect(&m, &groups, "y", QB_KIND_CONV, "c y", "x cw cb -");
        expect(&m, &groups, "z", QB_KIND_UNARY, "z", "x");
        expect(&m, &groups, "s", QB_KIND_BINARY, "square s", "x x");
        for (const char *name = "yzs"; *name; name++)
            expect_act(&m, &groups, (char[2]){*name, 0}, rows[i].kind, rows[i].alpha, rows[i].beta);
        qb_groups_release(&groups);
        assert_groups_compute_the_graph(&m, TOLERANCE);
        maker_release(&m);
    }
}

static void clip_and_prelu_become_activations_where_they_are_constant(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 7);
    int32_t x = image(&m), zero = make_scalar(&m, "zero", 0), six = make_scalar(&m, "six", 6);
    int32_t computed = NODE(&m, "ReduceMean", "computed", x);
    set_int(&m, "keepdims", 0);
    make_output(&m, NODE(&m, "Clip", "a", conv(&m, "ac", x, 4), zero, six));
    make_output(&m, NODE(&m, "Clip", "b", conv(&m, "bc", x, 4), zero));
    make_output(&m, NODE(&m, "Clip", "c", conv(&m, "cc", x, 4), -1, six));
    make_output(&m, NODE(&m, "Clip", "d", conv(&m, "dc", x, 4), computed, six));
    make_output(&m, NODE(&m, "PRelu", "e", conv(&m, "ec", x, 4), make_scalar(&m, "slope", 0.5f)));
    make_output(&m,
                NODE(&m, "PRelu", "f", conv(&m, "fc", x, 4), make_random(&m, "s", DIMS(4, 1, 1))));
    qb_groups groups = fuse(&m);
    expect_act(&m, &groups, "a", QB_ACT_CLIP, 0, 6);
    expect_act(&m, &groups, "b", QB_ACT_RELU, 0, 0);
    expect_act(&m, &groups, "c", QB_ACT_CLIP, -INFINITY, 6);
    expect(&m, &groups, "d", QB_KIND_NODE, "d", "dc computed six");
    expect_act(&m, &groups, "e", QB_ACT_LEAKY_RELU, 0.5f, 0);
    expect(&m, &groups, "f", QB_KIND_NODE, "f", "fc s");
    qb_groups_release(&groups);
    assert_groups_compute_the_graph(&m, TOLERANCE);
    maker_release(&m);
}

static void silu_is_two_nodes_and_one_activation(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 8);
    int32_t x = image(&m);
    int32_t c = conv(&m, "c", x, 4);
    make_output(&m, NODE(&m, "Mul", "a", NODE(&m, "Sigmoid", "as", c), c));
    make_output(&m, NODE(&m, "Mul", "b", x, NODE(&m, "Sigmoid", "bs", x)));
    int32_t sum = NODE(&m, "Add", "sum", x, make_random(&m, "row", DIMS(6)));
    make_output(&m, NODE(&m, "Mul", "d", sum, NODE(&m, "Sigmoid", "ds", sum)));
    int32_t gate = NODE(&m, "Sigmoid", "gate", x); /* of another value: no SiLU */
    make_output(&m, NODE(&m, "Mul", "e", conv(&m, "ec", x, 4), gate));
    int32_t third = conv(&m, "third", x, 4); /* read a third time: it stays in memory */
    make_output(&m, NODE(&m, "Mul", "f", third, NODE(&m, "Sigmoid", "fs", third)));
    make_output(&m, NODE(&m, "Relu", "g", third));
    qb_groups groups = fuse(&m);
    expect(&m, &groups, "a", QB_KIND_CONV, "c as a", "x cw cb -");
    expect(&m, &groups, "b", QB_KIND_UNARY, "bs b", "x");
    expect(&m, &groups, "d", QB_KIND_BINARY, "sum ds d", "x row");
    expect(&m, &groups, "e", QB_KIND_BINARY, "e", "ec gate");
    expect(&m, &groups, "f", QB_KIND_UNARY, "fs f", "third");
    for (const char *name = "abdf"; *name; name++)
        expect_act(&m, &groups, (char[2]){*name, 0}, QB_ACT_SILU, 0, 0);
    qb_groups_release(&groups);
    assert_groups_compute_the_graph(&m, TOLERANCE);
    maker_release(&m);
}

/* But those with a computed bias are nodes. */
static void weights_of_convolutions_may_be_computed(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 9);
    int32_t x = make_input(&m, "x", DIMS(4, 4, 3, 3)), w = NODE(&m, "Relu", "w", x);
    make_output(&m, NODE(&m, "Tanh", "y", NODE(&m, "Conv", "c", x, w)));
    make_output(&m, NODE(&m, "ConvTranspose", "up", x, w));
    int32_t b = NODE(&m, "ReduceMean", "b", x, INTS(&m, "axes", 0, 2, 3));
    set_int(&m, "keepdims", 0);
    make_output(&m, NODE(&m, "Conv", "z", x, w, b));
    qb_groups groups = fuse(&m);
    expect(&m, &groups, "y", QB_KIND_CONV, "c y", "x w - -");
    expect(&m, &groups, "up", QB_KIND_CONV_TRANSPOSE, "up", "x w -");
    expect(&m, &groups, "z", QB_KIND_NODE, "z", "x w b");
    qb_groups_release(&groups);
    assert_groups_compute_the_graph(&m, TOLERANCE);
    maker_release(&m);
}

static void transposed_convolution_takes_an_activation_only(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 10);
    int32_t x = image(&m), r = make_input(&m, "r", DIMS(-1, 6, 6, 6));
    int32_t up = NODE(&m, "ConvTranspose", "up", x, make_random(&m, "w", DIMS(4, 3, 1, 1)));
    set_int(&m, "group", 2);
    make_output(&m, NODE(&m, "Relu", "y", NODE(&m, "Add", "sum", up, r)));
    int32_t other = NODE(&m, "ConvTranspose", "other", x, make_random(&m, "w", DIMS(4, 3, 2, 2)));
    make_output(&m, NODE(&m, "Relu", "z", other));
    qb_groups groups = fuse(&m);
    expect(&m, &groups, "up", QB_KIND_CONV_TRANSPOSE, "up", "x w -");
    expect(&m, &groups, "y", QB_KIND_BINARY, "sum y", "up r");
    expect(&m, &groups, "z", QB_KIND_CONV_TRANSPOSE, "other z", "x w_1 -");
    qb_groups_release(&groups);
    maker_release(&m);
}

/* --- matrix products ------------------------------------------------------------------------- */

static void matmul_takes_bias_residual_and_activation(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 11);
    int32_t x = make_input(&m, "x", DIMS(-1, 3, 8)), w = make_random(&m, "w", DIMS(8, 8));
    int32_t v = NODE(&m, "Add", "biased", make_random(&m, "b", DIMS(1, 1, 8)),
                     NODE(&m, "MatMul", "mm", x, w));
    v = NODE(&m, "Gelu", "y", NODE(&m, "Add", "sum", v, x));
    make_output(&m, v);
    int32_t transposed = NODE(&m, "Transpose", "turned", v);
    SET_INTS(&m, "perm", 0, 2, 1);
    make_output(&m, NODE(&m, "MatMul", "scores", v, transposed));
    qb_groups groups = fuse(&m);
    expect(&m, &groups, "y", QB_KIND_MATMUL, "mm biased sum y", "x w b x");
    expect_act(&m, &groups, "y", QB_ACT_GELU, 0, 0);
    qb_groups_release(&groups);
    maker_release(&m);
}

static void products_of_two_computed_values_are_matmuls(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 12);
    int32_t x = make_input(&m, "x", DIMS(-1, 5, 5)), r = NODE(&m, "Relu", "r", x);
    make_output(&m, NODE(&m, "MatMul", "y", x, r));
    int32_t vector = make_input(&m, "vector", DIMS(5));
    make_output(&m, NODE(&m, "MatMul", "z", x, vector));
    qb_groups groups = fuse(&m);
    expect(&m, &groups, "y", QB_KIND_MATMUL, "y", "x r - -");
    expect(&m, &groups, "z", QB_KIND_NODE, "z", "x vector");
    qb_groups_release(&groups);
    maker_release(&m);
}

static void gemm_is_a_matmul_where_its_bias_is_plain(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 13);
    int32_t x = make_input(&m, "x", DIMS(6, 4)), w = make_random(&m, "w", DIMS(3, 4));
    make_output(&m, NODE(&m, "Gemm", "a", x, w, make_random(&m, "b", DIMS(1, 3))));
    set_int(&m, "transB", 1);
    set_float(&m, "alpha", 0.5f);
    make_output(&m, NODE(&m, "Gemm", "halved", x, w, make_random(&m, "b", DIMS(3))));
    set_int(&m, "transB", 1);
    set_float(&m, "beta", 0.5f);
    make_output(&m, NODE(&m, "Gemm", "rows", x, w, make_random(&m, "b", DIMS(6, 1))));
    set_int(&m, "transB", 1);
    int32_t transposed = NODE(&m, "Gemm", "turned", x, make_random(&m, "v", DIMS(6, 2)));
    set_int(&m, "transA", 1);
    make_output(&m, NODE(&m, "Tanh", "d", transposed));
    qb_groups groups = fuse(&m);
    expect(&m, &groups, "a", QB_KIND_MATMUL, "a", "x w b -");
    expect(&m, &groups, "halved", QB_KIND_NODE, "halved", "x w b_1");
    expect(&m, &groups, "rows", QB_KIND_NODE, "rows", "x w b_2");
    expect(&m, &groups, "d", QB_KIND_MATMUL, "turned d", "x v - -");
    qb_desc in[QB_MAX_INPUTS];
    qb_problem p;
    assert_ok(&m.cx, qb_group_problem(&m.cx, m.graph, writing(&m, &groups, "a"), in, &p));
    assert_true(p.transpose_b && !p.transpose_a && p.scale == 0.5f);
    assert_int_equal(in[QB_IN_BIAS].shape.rank, 1);
    assert_false(qb_problem_has(&p, QB_IN_RESIDUAL));
    qb_groups_release(&groups);
    assert_groups_compute_the_graph(&m, TOLERANCE);
    maker_release(&m);
}

/* --- the rest -------------------------------------------------------------------------------- */

static void pools_and_spatial_means_are_pools(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 14);
    int32_t x = image(&m);
    make_output(&m, NODE(&m, "MaxPool", "a", x));
    SET_INTS(&m, "kernel_shape", 3, 2);
    SET_INTS(&m, "strides", 2, 2);
    set_string(&m, "auto_pad", "SAME_LOWER");
    make_output(&m, NODE(&m, "AveragePool", "b", x));
    SET_INTS(&m, "kernel_shape", 3, 3);
    SET_INTS(&m, "strides", 2, 2);
    SET_INTS(&m, "pads", 1, 1, 1, 1);
    set_int(&m, "count_include_pad", 1);
    set_int(&m, "ceil_mode", 1);
    make_output(&m, NODE(&m, "GlobalMaxPool", "c", x));
    make_output(&m, NODE(&m, "ReduceMean", "d", x, INTS(&m, "axes", -1, -2)));
    make_output(&m, NODE(&m, "ReduceMean", "e", x, INTS(&m, "axes", 1)));
    qb_groups groups = fuse(&m);
    for (const char *name = "abcd"; *name; name++)
        expect(&m, &groups, (char[2]){*name, 0}, QB_KIND_POOL, (char[2]){*name, 0}, "x");
    expect(&m, &groups, "e", QB_KIND_NODE, "e", "x axes_1");
    qb_groups_release(&groups);
    assert_groups_compute_the_graph(&m, TOLERANCE);
    maker_release(&m);
}

static void windows_are_resolved_from_the_shapes(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 15);
    int32_t x = make_input(&m, "x", DIMS(2, 4, 7, 6));
    make_output(&m, NODE(&m, "Conv", "y", x, make_random(&m, "w", DIMS(4, 1, 3, 2))));
    set_int(&m, "group", 4);
    SET_INTS(&m, "strides", 2, 2);
    SET_INTS(&m, "dilations", 1, 2);
    set_string(&m, "auto_pad", "SAME_UPPER");
    qb_groups groups = fuse(&m);
    qb_desc in[QB_MAX_INPUTS];
    qb_problem p;
    assert_ok(&m.cx, qb_group_problem(&m.cx, m.graph, &groups.group[0], in, &p));
    assert_int_equal(p.group, 4);
    assert_int_equal(p.window.n, 2);
    const qb_window want = {.n = 2,
                            .kernel = {3, 2},
                            .stride = {2, 2},
                            .dilation = {1, 2},
                            .pad_begin = {1, 0},
                            .pad_end = {1, 1}};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(p.window.kernel[i], want.kernel[i]);
        assert_int_equal(p.window.stride[i], want.stride[i]);
        assert_int_equal(p.window.dilation[i], want.dilation[i]);
        assert_int_equal(p.window.pad_begin[i], want.pad_begin[i]);
        assert_int_equal(p.window.pad_end[i], want.pad_end[i]);
    }
    assert_int_equal(p.in[QB_IN_BIAS].dtype, QB_DTYPE_NONE);
    qb_groups_release(&groups);
    maker_release(&m);
}

/* A constant right side is a matrix, whatever ones it has in front; one that repeats data is not.
 */
static void constant_matrices_have_two_dimensions(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 31);
    int32_t x = make_input(&m, "x", DIMS(2, 3, 4)), rows = NODE(&m, "Flatten", "rows", x);
    make_output(&m, NODE(&m, "MatMul", "a", x, make_random(&m, "w", DIMS(1, 4, 5))));
    make_output(&m, NODE(&m, "MatMul", "b", rows, make_random(&m, "v", DIMS(1, 12, 5))));
    make_output(&m, NODE(&m, "MatMul", "c", x, make_random(&m, "u", DIMS(2, 4, 5))));
    qb_groups groups = fuse(&m);
    qb_desc in[QB_MAX_INPUTS];
    qb_problem p;
    const struct {
        const char *name;
        int32_t rank;
    } want[] = {{"a", 2}, {"b", 3}, {"c", 3}};
    for (int i = 0; i < 3; i++) {
        assert_ok(&m.cx,
                  qb_group_problem(&m.cx, m.graph, writing(&m, &groups, want[i].name), in, &p));
        assert_int_equal(in[QB_IN_WEIGHT].shape.rank, want[i].rank);
        assert_int_equal(in[QB_IN_WEIGHT].shape.dim[want[i].rank - 1], 5);
    }
    qb_groups_release(&groups);
    assert_groups_compute_the_graph(&m, TOLERANCE);
    maker_release(&m);
}

static void problems_need_known_shapes(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 16);
    make_output(&m, conv(&m, "y", image(&m), 4));
    qb_groups groups = fuse(&m);
    qb_desc in[QB_MAX_INPUTS];
    qb_problem p;
    assert_fails(&m.cx, qb_group_problem(&m.cx, m.graph, &groups.group[0], in, &p),
                 QB_STATUS_INVALID);
    assert_message(&m.cx, "'x'");
    qb_groups_release(&groups);
    maker_release(&m);
}

static void softmax_concat_and_layout_nodes(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 17);
    int32_t x = image(&m);
    make_output(&m, NODE(&m, "Softmax", "a", x));
    set_int(&m, "axis", -3);
    make_output(&m, NODE(&m, "Concat", "b", x, x, make_random(&m, "c", DIMS(1, 1, 6, 6))));
    set_int(&m, "axis", -3);
    m.graph->nodes[m.graph->n_nodes - 1].n_in = 2; /* the constant has another batch size */
    make_output(&m, NODE(&m, "Flatten", "d", x));
    make_output(&m, NODE(&m, "Pow", "e", x, make_scalar(&m, "two", 2)));
    int32_t shape = NODE(&m, "Shape", "shape", x);
    make_output(&m, NODE(&m, "Concat", "f", shape, shape)); /* integers are not for kernels */
    set_int(&m, "axis", 0);
    qb_groups groups = fuse(&m);
    expect(&m, &groups, "a", QB_KIND_SOFTMAX, "a", "x");
    expect(&m, &groups, "b", QB_KIND_CONCAT, "b", "x x");
    expect(&m, &groups, "d", QB_KIND_NODE, "d", "x");
    expect(&m, &groups, "e", QB_KIND_NODE, "e", "x two");
    expect(&m, &groups, "f", QB_KIND_NODE, "f", "shape shape");
    qb_groups_release(&groups);
    assert_groups_compute_the_graph(&m, TOLERANCE);
    maker_release(&m);
}

/* Where(IsNaN(s), 0, s) joins the softmax; with another constant or another reader it does not. */
static void lines_of_nan_that_become_zero(void **state) {
    (void)state;
    static const char *const names[] = {"a", "b", "c"};
    maker m;
    maker_init(&m, 17);
    int32_t x = image(&m);
    for (int i = 0; i < 3; i++) {
        char text[3][8];
        snprintf(text[0], sizeof *text, "s%s", names[i]);
        snprintf(text[1], sizeof *text, "n%s", names[i]);
        snprintf(text[2], sizeof *text, "z%s", names[i]);
        int32_t s = NODE(&m, "Softmax", text[0], x), test = NODE(&m, "IsNaN", text[1], s);
        int32_t other = make_scalar(&m, text[2], i == 1 ? 1 : 0);
        make_output(&m, NODE(&m, "Where", names[i], test, other, s));
        if (i == 2) make_output(&m, NODE(&m, "Exp", "exp", s));
    }
    qb_groups groups = fuse(&m);
    expect(&m, &groups, "a", QB_KIND_SOFTMAX, "sa na a", "x");
    expect(&m, &groups, "sb", QB_KIND_SOFTMAX, "sb", "x");
    expect(&m, &groups, "sc", QB_KIND_SOFTMAX, "sc", "x");
    qb_groups_release(&groups);
    assert_groups_compute_the_graph(&m, TOLERANCE);
    maker_release(&m);
}

/* --- quantized graphs ------------------------------------------------------------------------ */

static void quantized_operands_need_partners(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 18);
    int32_t x = make_input(&m, "x", DIMS(2, 4, 6, 6)), q = NODE(&m, "Relu", "q", x);
    int8_t codes[16] = {1, -2, 3};
    int32_t weight = qb_graph_add_constant(&m.cx, m.graph, "codes", QB_DTYPE_S8,
                                           &(qb_shape){.rank = 4, .dim = {4, 4, 1, 1}}, codes);
    static const float scales[4] = {0.1f, 0.2f, 0.3f, 0.4f};
    m.graph->values[weight].q = (qb_qparams){QB_DTYPE_S8, 0, 4, scales, NULL};
    int32_t both = NODE(&m, "Conv", "both", q, weight);
    make_output(&m, NODE(&m, "Relu", "y", NODE(&m, "Add", "sum", both, q)));
    make_output(&m, conv(&m, "data_only", q, 4));
    make_output(&m, NODE(&m, "Conv", "weight_only", x, weight));
    make_quantized(&m, q, 0.1f, 0);
    qb_groups groups = fuse(&m);
    expect(&m, &groups, "y", QB_KIND_CONV, "both sum y", "q codes - q");
    expect(&m, &groups, "data_only", QB_KIND_CONV, "data_only", "q cw cb -");
    expect(&m, &groups, "weight_only", QB_KIND_NODE, "weight_only", "x codes");
    qb_desc in[QB_MAX_INPUTS]; /* a float weight makes float arithmetic */
    qb_problem p;
    assert_ok(&m.cx, qb_group_problem(&m.cx, m.graph, writing(&m, &groups, "data_only"), in, &p));
    assert_true(in[QB_IN_DATA].dtype == QB_DTYPE_F32 && in[QB_IN_DATA].q.n == 0);
    assert_ok(&m.cx, qb_group_problem(&m.cx, m.graph, writing(&m, &groups, "y"), in, &p));
    assert_true(in[QB_IN_DATA].dtype == QB_DTYPE_U8 && in[QB_IN_WEIGHT].q.n == 4);
    m.graph->values[weight].q.axis = 1; /* not the output channels */
    qb_groups_release(&groups);
    groups = fuse(&m);
    expect(&m, &groups, "both", QB_KIND_NODE, "both", "q codes");
    qb_groups_release(&groups);
    maker_release(&m);
}

/* --- moves ----------------------------------------------------------------------------------- */

static bool is_written(const maker *m, const qb_groups *groups, const char *value) {
    const int32_t id = qb_graph_find_value(m->graph, value);
    for (int32_t i = 0; i < groups->n; i++)
        if (groups->group[i].out == id) return true;
    return false;
}

static int32_t gather(maker *m, const char *name, int32_t x, int64_t index) {
    char text[64];
    snprintf(text, sizeof text, "%s_i", name);
    const qb_shape scalar = {.rank = 0};
    return NODE(m, "Gather", name, x,
                qb_graph_add_constant(&m->cx, m->graph, text, QB_DTYPE_S64, &scalar, &index));
}

/* As exporters write attention: one product, whose parts are taken out of its transposition. */
static void parts_of_a_transposition_are_read_before_it(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 20);
    int32_t x = make_input(&m, "x", DIMS(1, 6, 24));
    int32_t r = NODE(&m, "Reshape", "r", x, INTS(&m, "r_s", 1, 6, 3, 2, 4));
    int32_t t = NODE(&m, "Transpose", "t", r);
    SET_INTS(&m, "perm", 2, 0, 3, 1, 4);
    int32_t q = gather(&m, "q", t, 0), k = gather(&m, "k", t, -2), v = gather(&m, "v", t, 2);
    int32_t kt = NODE(&m, "Transpose", "kt", k);
    SET_INTS(&m, "perm", 0, 1, 3, 2);
    int32_t scores = NODE(&m, "MatMul", "scores", q, NODE(&m, "Relu", "other", kt));
    int32_t plain = NODE(&m, "MatMul", "plain", scores, v);
    int32_t vt = NODE(&m, "Transpose", "vt", plain);
    SET_INTS(&m, "perm", 0, 1, 3, 2);
    make_output(&m, NODE(&m, "MatMul", "y", vt, plain));
    qb_groups groups = fuse(&m);
    assert_ok(&m.cx, qb_fuse_views(&m.cx, m.graph, take_all, NULL, &groups));
    assert_false(is_written(&m, &groups, "t") || is_written(&m, &groups, "r"));
    expect(&m, &groups, "q", QB_KIND_STRIDED_COPY, "q", "x");
    expect(&m, &groups, "v", QB_KIND_STRIDED_COPY, "v", "x");
    expect(&m, &groups, "kt", QB_KIND_STRIDED_COPY, "k kt", "x");
    /* `plain` has another reader, its transposition has not */
    expect(&m, &groups, "y", QB_KIND_MATMUL, "y", "plain plain - -");
    assert_true(writing(&m, &groups, "y")->swaps_a && !writing(&m, &groups, "y")->swaps_b);
    assert_false(is_written(&m, &groups, "vt"));
    qb_groups_release(&groups);
    assert_groups_compute(&m, TOLERANCE, true);
    maker_release(&m);
}

/* A view of what is copied costs nothing: it does not become a copy of its own. */
static void views_of_a_copy_stay(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 21);
    int32_t x = make_input(&m, "x", DIMS(2, 3, 4)), t = NODE(&m, "Transpose", "t", x);
    make_output(&m, NODE(&m, "Relu", "a", NODE(&m, "Reshape", "va", t, INTS(&m, "s", 24))));
    make_output(&m, NODE(&m, "Relu", "b", NODE(&m, "Reshape", "vb", t, INTS(&m, "u", 4, 6))));
    qb_groups groups = fuse(&m);
    assert_ok(&m.cx, qb_fuse_views(&m.cx, m.graph, take_all, NULL, &groups));
    expect(&m, &groups, "t", QB_KIND_NODE, "t", "x");
    expect(&m, &groups, "va", QB_KIND_NODE, "va", "t s");
    qb_groups_release(&groups);
    assert_groups_compute(&m, TOLERANCE, true);
    maker_release(&m);
}

/* --- random graphs --------------------------------------------------------------------------- */

static void groups_of_random_graphs_compute_the_same(void **state) {
    (void)state;
    int32_t fused = 0, nodes = 0;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        maker m;
        maker_init(&m, seed);
        make_random_graph(&m, 3 + (int)(seed % 20));
        if (seed % 2) assert_ok(&m.cx, qb_optimize(&m.cx, m.graph, NULL, NULL));
        qb_groups groups = fuse(&m);
        check_groups(&m, &groups);
        nodes += count_nodes(m.graph);
        fused += groups.n;
        qb_groups_release(&groups);
        assert_groups_compute(&m, 1e-4, false);
        assert_groups_compute(&m, 1e-4, true);
        maker_release(&m);
    }
    assert_true(nodes - fused > 300);
}

static qb_status fuse_once(qb_ctx *cx, void *user) {
    qb_groups groups;
    QB_TRY(qb_fuse(cx, user, &groups));
    qb_groups_release(&groups);
    return QB_OK;
}

static void every_failing_allocation_is_reported(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 19);
    make_random_graph(&m, 10);
    assert_true(qb_test_alloc_sweep(fuse_once, m.graph) >= 3);
    maker_release(&m);
}

static bool any(const void *user, const qb_problem *problem) {
    (void)user, (void)problem;
    return true;
}

/* GELU of a quantized sum with a bias: from the sum on it is a function of one byte. Kernels that
 * look such functions up get it alone, others with the sum. */
static void functions_of_one_byte_stay_apart(void **state) {
    (void)state;
    for (int tables = 0; tables < 2; tables++) {
        maker m;
        maker_init(&m, 41);
        const int32_t x = NODE(&m, "Relu", "r", make_input(&m, "x", DIMS(2, 4, 8)));
        const int32_t sum = NODE(&m, "Add", "sum", x, make_random(&m, "bias", DIMS(8)));
        const int32_t erf =
            NODE(&m, "Erf", "erf", NODE(&m, "Div", "scaled", sum, make_scalar(&m, "root", 1.5f)));
        const int32_t gate = NODE(&m, "Add", "gate", erf, make_scalar(&m, "one", 1.0f));
        const int32_t y = NODE(&m, "Mul", "y", sum, gate);
        make_output(&m, NODE(&m, "MatMul", "z", y, make_random(&m, "w", DIMS(8, 3))));
        make_quantized(&m, x, 0.1f, 0);
        make_quantized(&m, sum, 0.1f, 3);
        make_quantized(&m, y, 0.2f, 5);
        qb_groups groups = fuse(&m);
        assert_ok(&m.cx, qb_fuse_chains(&m.cx, m.graph, any, NULL, tables, &groups));
        const qb_group *last = writing(&m, &groups, "y");
        assert_int_equal(last->kind, QB_KIND_CHAIN);
        assert_int_equal(last->n_in, tables ? 1 : 2);
        assert_true((last->in[0] == sum) == (tables == 1));
        qb_groups_release(&groups);
        maker_release(&m);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(functions_of_one_byte_stay_apart),
        cmocka_unit_test(conv_takes_residual_and_activation),
        cmocka_unit_test(activation_may_come_before_the_residual),
        cmocka_unit_test(the_later_of_two_convolutions_takes_the_add),
        cmocka_unit_test(values_that_others_need_stay_in_memory),
        cmocka_unit_test(broadcast_and_constant_addends_are_no_residual),
        cmocka_unit_test(every_activation_fuses),
        cmocka_unit_test(clip_and_prelu_become_activations_where_they_are_constant),
        cmocka_unit_test(silu_is_two_nodes_and_one_activation),
        cmocka_unit_test(weights_of_convolutions_may_be_computed),
        cmocka_unit_test(transposed_convolution_takes_an_activation_only),
        cmocka_unit_test(matmul_takes_bias_residual_and_activation),
        cmocka_unit_test(products_of_two_computed_values_are_matmuls),
        cmocka_unit_test(gemm_is_a_matmul_where_its_bias_is_plain),
        cmocka_unit_test(pools_and_spatial_means_are_pools),
        cmocka_unit_test(windows_are_resolved_from_the_shapes),
        cmocka_unit_test(constant_matrices_have_two_dimensions),
        cmocka_unit_test(problems_need_known_shapes),
        cmocka_unit_test(softmax_concat_and_layout_nodes),
        cmocka_unit_test(lines_of_nan_that_become_zero),
        cmocka_unit_test(quantized_operands_need_partners),
        cmocka_unit_test(parts_of_a_transposition_are_read_before_it),
        cmocka_unit_test(views_of_a_copy_stay),
        cmocka_unit_test(groups_of_random_graphs_compute_the_same),
        cmocka_unit_test(every_failing_allocation_is_reported),
    };
    return qb_test_exit_code(cmocka_run_group_tests(tests, NULL, NULL),
                             sizeof tests / sizeof *tests);
}
