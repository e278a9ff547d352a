/* Attention reads its heads where they lie before the copies in front of it, and writes them where
 * the one behind it moves them: the results are the same. */
#include <math.h>

#include "build_graph.h"
#include "graph/fusion.h"
#include "graph/layer.h"
#include "kernels/heads.h"

#define ITEMS 2
#define TOKENS 3
#define WINDOWS 4
#define HEADS 2
#define SIZE 8
#define WIDTH (HEADS * SIZE)

static bool take_all(const void *user, const qb_problem *problem) {
    (void)user;
    return problem->kind == QB_KIND_ATTENTION || problem->kind == QB_KIND_STRIDED_COPY;
}

static bool take_shapes(const void *user, const qb_problem *problem) {
    (void)user;
    if (problem->kind != QB_KIND_ATTENTION || !problem->has_views) return true;
    for (int i = 0; i < 3; i++)
        if (problem->in[i].shape.rank != 4) return false;
    return problem->out.shape.rank == 4;
}

static int32_t turned(maker *m, const char *name, int32_t x, int64_t *perm, int32_t rank) {
    const int32_t y = NODE(m, "Transpose", name, x);
    set_ints(m, "perm", rank, perm);
    return y;
}
#define TURNED(m, name, x, ...)                                                                    \
    turned(m, name, x, (int64_t[]){__VA_ARGS__},                                                   \
           (int32_t)(sizeof(int64_t[]){__VA_ARGS__} / sizeof(int64_t)))

static int32_t part(maker *m, const char *name, int32_t x, int64_t index) {
    char text[32];
    snprintf(text, sizeof text, "%s_index", name);
    const qb_shape scalar = {0};
    return NODE(m, "Gather", name, x,
                qb_graph_add_constant(&m->cx, m->graph, text, QB_DTYPE_S64, &scalar, &index));
}

static int32_t attend(maker *m, int32_t q, int32_t keys, int32_t v) {
    const int32_t scaled = NODE(m, "Mul", "scaled", q, make_scalar(m, "factor", 0.25f));
    const int32_t s = NODE(m, "MatMul", "scores", scaled, keys);
    return NODE(m, "MatMul", "mixed", NODE(m, "Softmax", "weights", s), v);
}

/* Windows beside heads, all parts of one product. */
static void windows(maker *m) {
    int32_t x = make_input(m, "x", DIMS(ITEMS, TOKENS * WINDOWS, 3 * WIDTH));
    x = NODE(m, "Reshape", "apart", x, INTS(m, "s1", ITEMS, TOKENS, WINDOWS, 3, HEADS, SIZE));
    x = TURNED(m, "all", x, 3, 0, 4, 2, 1, 5);
    const int32_t k = TURNED(m, "kt", part(m, "k", x, 1), 0, 1, 2, 4, 3);
    int32_t y = attend(m, part(m, "q", x, 0), k, part(m, "v", x, 2));
    y = TURNED(m, "back", y, 0, 3, 2, 1, 4);
    make_output(m, NODE(m, "Reshape", "y", y, INTS(m, "s2", ITEMS, TOKENS * WINDOWS, WIDTH)));
}

/* The same with a quantized result that a copy behind makes floats: it is rounded all the same. */
static void rounded(maker *m) {
    windows(m);
    make_quantized(m, qb_graph_find_value(m->graph, "mixed"), 0.02f, 128);
}

/* Keys and values of fewer tokens, side by side; queries of their own. */
static void reduced(maker *m) {
    int32_t q = make_input(m, "xq", DIMS(ITEMS, 5, WIDTH)), x;
    q = NODE(m, "Reshape", "q_apart", q, INTS(m, "s1", ITEMS, 5, HEADS, SIZE));
    q = TURNED(m, "q", q, 0, 2, 1, 3);
    x = make_input(m, "x", DIMS(ITEMS, TOKENS, 2 * WIDTH));
    x = NODE(m, "Reshape", "apart", x, INTS(m, "s2", ITEMS, TOKENS, 2, HEADS, SIZE));
    x = TURNED(m, "both", x, 2, 0, 3, 1, 4);
    const int32_t k = TURNED(m, "kt", part(m, "k", x, 0), 0, 1, 3, 2);
    const int32_t y = TURNED(m, "back", attend(m, q, k, part(m, "v", x, 1)), 0, 2, 1, 3);
    make_output(m, NODE(m, "Reshape", "y", y, INTS(m, "s3", ITEMS, 5, WIDTH)));
}

/* Channels come before tokens in x, where elements of a head lie apart: only the parts of its
 * transposition are read where they lie. */
static void channels_first(maker *m) {
    int32_t x = make_input(m, "x", DIMS(ITEMS, 3 * WIDTH, TOKENS));
    x = NODE(m, "Reshape", "apart", x, INTS(m, "s1", ITEMS, 3, HEADS, SIZE, TOKENS));
    x = TURNED(m, "all", x, 1, 0, 2, 4, 3);
    const int32_t k = TURNED(m, "kt", part(m, "k", x, 1), 0, 1, 3, 2);
    make_output(m, attend(m, part(m, "q", x, 0), k, part(m, "v", x, 2)));
}

static qb_tensor random_tensor(maker *m, const qb_shape *shape) {
    const int64_t n = qb_shape_count(shape);
    float *data = qb_alloc(&m->cx, (size_t)n, sizeof *data);
    assert_non_null(data);
    for (int64_t i = 0; i < n; i++) data[i] = (float)qb_rng_normal(&m->rng);
    return qb_tensor_of(QB_DTYPE_F32, *shape, data);
}

static float real(const qb_eval *e, int32_t value, int64_t at) {
    return ((const float *)e->data[value])[at];
}

/* One result of the group, from its inputs as the graph computed them. */
static double result(const qb_eval *e, const qb_group *g, float scale, int64_t n, int64_t head,
                     int64_t row, int64_t element) {
    const qb_attention *a = g->views;
    double sum = 0, y = 0;
    for (int64_t t = 0; t < a->keys; t++) {
        const int64_t q = qb_token_at(&a->in[0], n, head, row),
                      k = qb_token_at(&a->in[1], n, head, t);
        double score = 0;
        for (int64_t i = 0; i < a->size; i++)
            score += (double)real(e, g->in[0], q + i) * (double)real(e, g->in[1], k + i);
        const double weight = exp((double)scale * score);
        sum += weight;
        y += weight * (double)real(e, g->in[2], qb_token_at(&a->in[2], n, head, t) + element);
    }
    return y / sum;
}

static void assert_computes(const qb_eval *e, const qb_group *g, const qb_problem *p) {
    const qb_attention *a = g->views;
    int64_t seen = 0;
    for (int64_t n = 0; n < a->batch; n++)
        for (int64_t h = 0; h < p->group; h++)
            for (int64_t t = 0; t < a->rows; t++)
                for (int64_t i = 0; i < a->value_size; i++, seen++) {
                    const double y = result(e, g, p->scale, n, h, t, i);
                    const int64_t at = qb_token_at(&a->out, n, h, t) + i;
                    assert_true(fabs(y - (double)real(e, g->out, at)) < 1e-5);
                }
    assert_true(seen == qb_shape_count(&e->graph->values[g->out].shape));
}

typedef struct expected {
    const char *name;
    void (*make)(maker *m);
    qb_chain_filter accept;
    const char *in[3], *out; /* NULL: no views */
} expected;

static void attention_reads_and_writes_where_heads_lie(void **state) {
    (void)state;
    static const expected all[] = {
        {"windows", windows, take_all, {"x", "x", "x"}, "y"},
        {"rounded", rounded, take_all, {"x", "x", "x"}, "mixed_heads"},
        {"reduced", reduced, take_all, {"xq", "x", "x"}, "y"},
        {"channels first", channels_first, take_all, {"all", "all", "all"}, "mixed"},
        {"refused", windows, take_shapes, {NULL}, NULL},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        maker m;
        int32_t n, found = 0;
        maker_init(&m, 3 + i);
        all[i].make(&m);
        print_message("%s\n", all[i].name);
        assert_ok(&m.cx, qb_graph_infer(&m.cx, m.graph));
        assert_ok(&m.cx, qb_fuse_attention(&m.cx, m.graph, take_all, NULL, &n));
        assert_int_equal(n, 1);
        assert_ok(&m.cx, qb_graph_infer(&m.cx, m.graph));
        assert_ok(&m.cx, qb_finalize_moves(&m.cx, m.graph, &n));
        qb_tensor in[2] = {{.data = NULL}};
        for (int32_t k = 0; k < m.graph->n_inputs; k++)
            in[k] = random_tensor(&m, &m.graph->values[m.graph->inputs[k]].shape);
        const bool floats = all[i].make != rounded; /* what operators evaluate */
        qb_eval e = {.graph = m.graph};
        if (floats) assert_ok(&m.cx, qb_eval_run(&m.cx, m.graph, in, &e));
        qb_groups groups;
        assert_ok(&m.cx, qb_fuse(&m.cx, e.graph, &groups));
        assert_ok(&m.cx, qb_fuse_views(&m.cx, e.graph, all[i].accept, NULL, &groups));
        for (int32_t g = 0; g < groups.n; g++) {
            const qb_group *group = &groups.group[g];
            qb_desc desc[QB_MAX_INPUTS];
            qb_problem p;
            if (group->kind != QB_KIND_ATTENTION) continue;
            found++;
            for (int k = 0; k < 3; k++)
                assert_string_equal(e.graph->values[group->in[k]].name, all[i].in[k]);
            assert_string_equal(e.graph->values[group->out].name, all[i].out);
            assert_ok(&m.cx, qb_group_problem(&m.cx, e.graph, group, desc, &p));
            if (floats) assert_computes(&e, group, &p);
        }
        assert_int_equal(found, all[i].out != NULL);
        const bool alone = found && all[i].in[0][0] == 'x' && all[i].out[0] == 'y';
        assert_true(alone ? groups.n == 1 : groups.n > 1);
        qb_groups_release(&groups);
        if (floats) qb_eval_release(&e);
        for (int32_t k = 0; k < m.graph->n_inputs; k++) qb_free(in[k].data);
        maker_release(&m);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(attention_reads_and_writes_where_heads_lie),
};
QB_TEST_MAIN(tests)
