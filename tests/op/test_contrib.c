/* Operators of onnxruntime that exist in files only, and Attention: what takes their place gives
 * what their definition gives. */
#include "op_text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "graph/graph_internal.h"
#include "kernels/ref.h"

#define MS "com.microsoft"

typedef struct maker {
    qb_ctx cx;
    qb_graph *graph;
    qb_rng rng;
} maker;

static void begin(maker *m) {
    qb_ctx_init(&m->cx);
    qb_rng_seed(&m->rng, 11);
    assert_ok(&m->cx, qb_graph_create(&m->cx, &m->graph));
}

static int32_t constant(maker *m, qb_dtype dtype, qb_shape shape, const void *data) {
    const int32_t id = qb_graph_add_constant(&m->cx, m->graph, "c", dtype, &shape, data);
    assert_true(id >= 0);
    return id;
}

static int32_t noise(maker *m, qb_shape shape) {
    float data[4096];
    const int64_t n = qb_shape_count(&shape);
    assert_true(n <= 4096);
    for (int64_t i = 0; i < n; i++) data[i] = (float)qb_rng_normal(&m->rng);
    return constant(m, QB_DTYPE_F32, shape, data);
}

static int32_t number(maker *m, float v) {
    return constant(m, QB_DTYPE_F32, (qb_shape){.rank = 0}, &v);
}

static int32_t ints(maker *m, int32_t n, const int64_t *v) {
    return constant(m, QB_DTYPE_S64, qb_shape_of(1, n), v);
}
#define INTS(m, ...)                                                                               \
    ints((m), (int32_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)),                       \
         (int64_t[]){__VA_ARGS__})

/* The first of up to four outputs, whose ids follow; the node is the graph's last one. */
static int32_t node(maker *m, const char *op, const char *domain, int32_t n, const int32_t *in,
                    int32_t n_out) {
    const qb_op *found = qb_op_find(op, domain);
    int32_t out[4];
    assert_non_null(found);
    for (int32_t i = 0; i < n_out; i++)
        out[i] = qb_graph_add_value(&m->cx, m->graph, "v", QB_DTYPE_NONE, NULL);
    assert_true(qb_graph_add_node(&m->cx, m->graph, found, "", in, n, out, n_out) >= 0);
    return out[0];
}
#define NODE(m, op, ...)                                                                           \
    node((m), (op), "", (int32_t)(sizeof((int32_t[]){__VA_ARGS__}) / sizeof(int32_t)),             \
         (int32_t[]){__VA_ARGS__}, 1)

static void *attr(maker *m, const char *name) {
    const qb_node *last = &m->graph->nodes[m->graph->n_nodes - 1];
    return (char *)last->attrs + qb_attr_find(last->op, name)->offset;
}
static void set_int(maker *m, const char *name, int64_t v) { *(int64_t *)attr(m, name) = v; }
static void set_float(maker *m, const char *name, float v) { *(float *)attr(m, name) = v; }

static void infer(maker *m) {
    for (int32_t i = 0; i < m->graph->n_nodes; i++)
        if (m->graph->nodes[i].op) qb_infer_node(&m->cx, m->graph, i);
    qb_ctx_clear(&m->cx);
}

/* The last node, an operator of files, is read. */
static qb_status read_last(maker *m) {
    const int32_t last = m->graph->n_nodes - 1;
    infer(m);
    return m->graph->nodes[last].op->upgrade(&m->cx, m->graph, last, 1);
}

static void assert_same(maker *m, int32_t got, int32_t expected) {
    const qb_value *a = &m->graph->values[got], *b = &m->graph->values[expected];
    assert_non_null(a->data);
    assert_non_null(b->data);
    assert_int_equal(a->dtype, b->dtype);
    assert_true(qb_shape_equal(&a->shape, &b->shape));
    for (int64_t i = 0, n = qb_shape_count(&a->shape); i < n; i++) {
        const double x = qb_number_get(a->dtype, a->data, i),
                     y = qb_number_get(b->dtype, b->data, i);
        if (fabs(x - y) > 2e-5 * (1 + fabs(y)))
            fail_msg("element %d: %g, expected %g", (int)i, x, y);
    }
}

/* Runs all; output i of the operator is expected[i], -1: not looked at. */
static void end(maker *m, int32_t first, int32_t n, const int32_t *expected) {
    assert_ok(&m->cx, qb_graph_sort(&m->cx, m->graph));
    assert_ok(&m->cx, evaluate_graph(&m->cx, m->graph));
    for (int32_t i = 0; i < n; i++)
        if (expected[i] >= 0) assert_same(m, first + i, expected[i]);
    qb_graph_free(m->graph);
}

static void activations(void **state) {
    (void)state;
    static const char *const ops[] = {"Gelu", "BiasGelu", "FastGelu", "QuickGelu"};
    for (int k = 0; k < 4; k++) {
        maker m;
        begin(&m);
        const bool has_bias = k == 1 || k == 2;
        const int32_t x = noise(&m, qb_shape_of(2, 3, 8)), bias = noise(&m, qb_shape_of(1, 8));
        const int32_t in[] = {x, bias};
        const int32_t y = node(&m, ops[k], MS, has_bias ? 2 : 1, in, 1);
        assert_ok(&m.cx, read_last(&m));
        int32_t z = has_bias ? NODE(&m, "Add", x, bias) : x;
        if (k == 3) {
            z = NODE(&m, "Mul", x, NODE(&m, "Sigmoid", NODE(&m, "Mul", x, number(&m, 1.702f))));
        } else {
            z = NODE(&m, "Gelu", z);
            if (k == 2) *(const char **)attr(&m, "approximate") = "tanh";
        }
        end(&m, y, 1, &z);
    }
}

static void products(void **state) {
    (void)state;
    for (int k = 0; k < 4; k++) { /* bit 0: a transposed, bit 1: b */
        maker m;
        begin(&m);
        const int32_t a = noise(&m, k & 1 ? qb_shape_of(3, 2, 4, 3) : qb_shape_of(3, 2, 3, 4));
        const int32_t b = noise(&m, k & 2 ? qb_shape_of(2, 5, 4) : qb_shape_of(2, 4, 5));
        const int32_t y = node(&m, "FusedMatMul", MS, 2, (int32_t[]){a, b}, 1);
        set_int(&m, "transA", k & 1);
        set_int(&m, "transB", k >> 1);
        set_float(&m, "alpha", 0.5f);
        assert_ok(&m.cx, read_last(&m));
        static const int64_t swap[] = {0, 2, 1};
        int32_t left = a, right = b;
        if (k & 1) {
            left = NODE(&m, "Transpose", a);
            *(qb_ints *)attr(&m, "perm") = (qb_ints){3, swap};
        }
        if (k & 2) right = NODE(&m, "Transpose", b);
        const int32_t z = NODE(&m, "Mul", NODE(&m, "MatMul", left, right), number(&m, 0.5f));
        end(&m, y, 1, &z);
    }
    maker m;
    begin(&m);
    const int32_t in[] = {noise(&m, qb_shape_of(2, 3, 4)), noise(&m, qb_shape_of(2, 5, 4)),
                          noise(&m, qb_shape_of(1, 5))};
    const int32_t y = node(&m, "FusedGemm", MS, 3, in, 1);
    set_int(&m, "transB", 1);
    set_float(&m, "activation_alpha", 0.3f);
    *(const char **)attr(&m, "activation") = "LeakyRelu";
    assert_ok(&m.cx, read_last(&m));
    int32_t z = NODE(&m, "Gemm", in[0], in[1], in[2]);
    set_int(&m, "transB", 1);
    z = NODE(&m, "LeakyRelu", z);
    set_float(&m, "alpha", 0.3f);
    end(&m, y, 1, &z);
}

static void convolutions(void **state) {
    (void)state;
    static const float bounds[] = {-0.5f, 0.75f}, slope[] = {0.3f};
    static const struct {
        const char *name;
        qb_floats params;
    } acts[] = {{"Relu", {0}}, {"Clip", {2, bounds}}, {"LeakyRelu", {1, slope}}, {"Tanh", {0}}};
    for (int k = 0; k < 4; k++) {
        maker m;
        begin(&m);
        const int32_t in[] = {noise(&m, qb_shape_of(4, 1, 3, 5, 5)),
                              noise(&m, qb_shape_of(4, 4, 3, 3, 3)), noise(&m, qb_shape_of(1, 4)),
                              noise(&m, qb_shape_of(4, 1, 4, 3, 3))};
        const int32_t y = node(&m, "FusedConv", MS, k % 2 ? 4 : 3, in, 1);
        *(const char **)attr(&m, "activation") = acts[k].name;
        *(qb_floats *)attr(&m, "activation_params") = acts[k].params;
        assert_ok(&m.cx, read_last(&m));
        int32_t z = NODE(&m, "Conv", in[0], in[1], in[2]);
        if (k % 2) z = NODE(&m, "Add", z, in[3]);
        z = k == 1 ? NODE(&m, "Clip", z, number(&m, bounds[0]), number(&m, bounds[1]))
                   : NODE(&m, acts[k].name, z);
        if (k == 2) set_float(&m, "alpha", slope[0]);
        end(&m, y, 1, &z);
    }
}

static void norms_of_sums(void **state) {
    (void)state;
    for (int k = 0; k < 4; k++) { /* bit 0: simplified, bit 1: a bias */
        maker m;
        begin(&m);
        const bool simplified = k & 1, has_bias = k & 2;
        const int32_t x = noise(&m, qb_shape_of(3, 2, 3, 8)),
                      skip = noise(&m, qb_shape_of(3, 2, 3, 8));
        const int32_t gain = noise(&m, qb_shape_of(1, 8)), shift = noise(&m, qb_shape_of(1, 8));
        const int32_t bias = has_bias ? noise(&m, qb_shape_of(1, 8)) : -1;
        const int32_t full[] = {x, skip, gain, shift, bias}, few[] = {x, skip, gain, bias};
        const int32_t y = simplified ? node(&m, "SkipSimplifiedLayerNormalization", MS, 4, few, 4)
                                     : node(&m, "SkipLayerNormalization", MS, 5, full, 4);
        qb_node *last = &m.graph->nodes[m.graph->n_nodes - 1];
        last->out[1] = last->out[2] = -1; /* mean and deviation */
        set_float(&m, "epsilon", 1e-3f);
        assert_ok(&m.cx, read_last(&m));
        int32_t sum = NODE(&m, "Add", x, skip);
        if (has_bias) sum = NODE(&m, "Add", sum, bias);
        const int32_t z = simplified ? NODE(&m, "RMSNormalization", sum, gain)
                                     : NODE(&m, "LayerNormalization", sum, gain, shift);
        set_float(&m, "epsilon", 1e-3f);
        end(&m, y, 4, (int32_t[]){z, -1, -1, sum});
    }
}

static void rows_of_words_places_and_segments(void **state) {
    (void)state;
    static const int64_t ids[] = {3, 1, 4, 1, 5, 2}, kinds[] = {0, 0, 1, 1, 1, 0};
    static const int32_t seen[] = {1, 1, 0, 1, 1, 1};
    for (int k = 0; k < 2; k++) { /* with segments and a mask */
        maker m;
        begin(&m);
        const qb_shape two = qb_shape_of(2, 2, 3);
        const int32_t word = constant(&m, QB_DTYPE_S64, two, ids);
        const int32_t kind = constant(&m, QB_DTYPE_S64, two, kinds);
        const int32_t mask = constant(&m, QB_DTYPE_S32, two, seen);
        const int32_t words = noise(&m, qb_shape_of(2, 6, 8)),
                      places = noise(&m, qb_shape_of(2, 5, 8));
        const int32_t rows = noise(&m, qb_shape_of(2, 2, 8));
        const int32_t gain = noise(&m, qb_shape_of(1, 8)), shift = noise(&m, qb_shape_of(1, 8));
        const int32_t in[] = {word,          k ? kind : -1, words, places,
                              k ? rows : -1, gain,          shift, k ? mask : -1};
        const int32_t y = node(&m, "EmbedLayerNormalization", MS, k ? 8 : 7, in, 3);
        assert_ok(&m.cx, read_last(&m));
        int32_t sum = NODE(&m, "Gather", words, word);
        sum =
            NODE(&m, "Add", sum, NODE(&m, "Slice", places, INTS(&m, 0), INTS(&m, 3), INTS(&m, 0)));
        if (k) sum = NODE(&m, "Add", sum, NODE(&m, "Gather", rows, kind));
        const int32_t z = NODE(&m, "LayerNormalization", sum, gain, shift);
        set_float(&m, "epsilon", 1e-12f);
        static const int32_t masked[] = {2, 3}, none[] = {0, 0};
        const int32_t n = constant(&m, QB_DTYPE_S32, qb_shape_of(1, 2), k ? masked : none);
        end(&m, y, 3, (int32_t[]){z, n, sum});
    }
}

/* --- attention: beside that of ai.onnx ---------------------------------------------------------
 */

enum { BATCH = 2, LENGTH = 5, HEADS = 4, SIZE = 6, WIDTH = HEADS * SIZE, PAST = 3 };

/* What is added for keys behind the first 3 of the first item. */
static int32_t padding(maker *m, int64_t keys) {
    float bias[BATCH * 16] = {0};
    for (int64_t j = 3; j < keys; j++) bias[j] = -10000.0f;
    return constant(m, QB_DTYPE_F32, qb_shape_of(4, BATCH, 1, 1, (int)keys), bias);
}

static void many_heads(void **state) {
    (void)state;
    for (int k = 0; k < 8; k++) { /* bit 0: causal, bit 1: padded keys, bit 2: past ones, a scale */
        maker m;
        begin(&m);
        const bool causal = k & 1, padded = k & 2, past = k & 4;
        const int32_t lengths[] = {3, LENGTH + PAST};
        const int64_t keys = LENGTH + (past ? PAST : 0);
        int32_t in[8], x[3];
        for (int i = 0; i < 3; i++) in[i] = noise(&m, qb_shape_of(3, BATCH, LENGTH, WIDTH));
        in[3] = noise(&m, qb_shape_of(1, 3 * WIDTH));
        in[4] = padded ? constant(&m, QB_DTYPE_S32, qb_shape_of(1, 2), lengths) : -1;
        in[5] = noise(&m, qb_shape_of(4, 1, HEADS, LENGTH, (int)keys));
        for (int i = 6; i < 8; i++)
            in[i] = past ? noise(&m, qb_shape_of(4, BATCH, HEADS, PAST, SIZE)) : -1;
        const int32_t y = node(&m, "MultiHeadAttention", MS, past ? 8 : 6, in, 3);
        set_int(&m, "num_heads", HEADS);
        set_int(&m, "unidirectional", causal);
        if (past) set_float(&m, "scale", 0.3f);
        assert_ok(&m.cx, read_last(&m));
        for (int i = 0; i < 3; i++) {
            const int32_t part = NODE(&m, "Slice", in[3], INTS(&m, i * WIDTH),
                                      INTS(&m, (i + 1) * WIDTH), INTS(&m, 0));
            x[i] = NODE(&m, "Add", in[i], part);
        }
        const int32_t mask = padded ? NODE(&m, "Add", in[5], padding(&m, keys)) : in[5];
        const int32_t all[] = {x[0], x[1], x[2], mask, in[6], in[7]};
        const int32_t z = node(&m, "Attention", "", past ? 6 : 4, all, 3);
        set_int(&m, "is_causal", causal);
        set_int(&m, "q_num_heads", HEADS);
        set_int(&m, "kv_num_heads", HEADS);
        if (past) set_float(&m, "scale", 0.3f);
        end(&m, y, 3, (int32_t[]){z, z + 1, z + 2});
    }
}

static void one_weight_for_all(void **state) {
    (void)state;
    for (int k = 0; k < 2; k++) { /* with a mask and past keys */
        maker m;
        begin(&m);
        static const int32_t seen[] = {1, 1, 1, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1};
        int32_t in[5] = {noise(&m, qb_shape_of(3, BATCH, LENGTH, 8)),
                         noise(&m, qb_shape_of(2, 8, 3 * WIDTH)),
                         noise(&m, qb_shape_of(1, 3 * WIDTH)), -1, -1};
        if (k) {
            in[3] = constant(&m, QB_DTYPE_S32, qb_shape_of(2, BATCH, LENGTH + PAST), seen);
            in[4] = noise(&m, qb_shape_of(5, 2, BATCH, HEADS, PAST, SIZE));
        }
        const int32_t y = node(&m, "Attention", MS, k ? 5 : 3, in, 2);
        set_int(&m, "num_heads", HEADS);
        set_int(&m, "unidirectional", 1);
        assert_ok(&m.cx, read_last(&m));
        const int32_t packed = NODE(&m, "Add", NODE(&m, "MatMul", in[0], in[1]), in[2]);
        int32_t all[6] = {-1, -1, -1, k ? padding(&m, LENGTH + PAST) : -1, -1, -1};
        for (int i = 0; i < 3; i++)
            all[i] = NODE(&m, "Slice", packed, INTS(&m, i * WIDTH), INTS(&m, (i + 1) * WIDTH),
                          INTS(&m, 2));
        const int64_t one = 1, zero = 0;
        if (k) {
            all[4] =
                NODE(&m, "Gather", in[4], constant(&m, QB_DTYPE_S64, (qb_shape){.rank = 0}, &zero));
            all[5] =
                NODE(&m, "Gather", in[4], constant(&m, QB_DTYPE_S64, (qb_shape){.rank = 0}, &one));
        }
        const int32_t z = node(&m, "Attention", "", k ? 6 : 3, all, 3);
        set_int(&m, "is_causal", 1);
        set_int(&m, "q_num_heads", HEADS);
        set_int(&m, "kv_num_heads", HEADS);
        const int32_t present = NODE(&m, "Concat", NODE(&m, "Unsqueeze", z + 1, INTS(&m, 0)),
                                     NODE(&m, "Unsqueeze", z + 2, INTS(&m, 0)));
        set_int(&m, "axis", 0);
        end(&m, y, 2, (int32_t[]){z, present});
    }
}

static void shared_keys_and_rotated_places(void **state) {
    (void)state;
    for (int k = 0; k < 4; k++) { /* bit 0: past keys, bit 1: all in one tensor */
        maker m;
        begin(&m);
        enum { KV = 2 };
        const int32_t n = 0;
        const qb_shape scalar = {.rank = 0};
        int32_t in[9], x[3];
        const int32_t packed = noise(&m, qb_shape_of(3, BATCH, LENGTH, (HEADS + 2 * KV) * SIZE));
        const int64_t ends[] = {0, HEADS * SIZE, (HEADS + KV) * SIZE, (HEADS + 2 * KV) * SIZE};
        for (int i = 0; i < 3; i++)
            x[i] = NODE(&m, "Slice", packed, INTS(&m, ends[i]), INTS(&m, ends[i + 1]), INTS(&m, 2));
        for (int i = 0; i < 3; i++) in[i] = k & 2 ? (i == 0 ? packed : -1) : x[i];
        for (int i = 3; i < 5; i++)
            in[i] = k & 1 ? noise(&m, qb_shape_of(4, BATCH, KV, PAST, SIZE)) : -1;
        in[5] = constant(&m, QB_DTYPE_S32, qb_shape_of(1, BATCH), (const int32_t[]){0, 0});
        in[6] = constant(&m, QB_DTYPE_S32, scalar, &n);
        for (int i = 7; i < 9; i++) in[i] = noise(&m, qb_shape_of(2, 16, SIZE / 2));
        const int32_t y = node(&m, "GroupQueryAttention", MS, 9, in, 3);
        set_int(&m, "num_heads", HEADS);
        set_int(&m, "kv_num_heads", KV);
        set_int(&m, "do_rotary", 1);
        set_float(&m, "softcap", 2.5f);
        assert_ok(&m.cx, read_last(&m));
        int64_t places[BATCH * LENGTH];
        for (int i = 0; i < BATCH * LENGTH; i++) places[i] = i % LENGTH + (k & 1 ? PAST : 0);
        const int32_t at = constant(&m, QB_DTYPE_S64, qb_shape_of(2, BATCH, LENGTH), places);
        for (int i = 0; i < 2; i++) {
            x[i] = NODE(&m, "RotaryEmbedding", x[i], in[7], in[8], at);
            set_int(&m, "num_heads", i == 0 ? HEADS : KV);
        }
        const int32_t all[] = {x[0], x[1], x[2], -1, in[3], in[4]};
        const int32_t z = node(&m, "Attention", "", k & 1 ? 6 : 3, all, 3);
        set_int(&m, "is_causal", 1);
        set_int(&m, "q_num_heads", HEADS);
        set_int(&m, "kv_num_heads", KV);
        set_float(&m, "softcap", 2.5f);
        end(&m, y, 3, (int32_t[]){z, z + 1, z + 2});
    }
}

/* The operator of ai.onnx in products, and by its definition. */
static void attention_in_products(void **state) {
    (void)state;
    for (int k = 0; k < 32; k++) {
        maker m;
        begin(&m);
        const bool causal = k & 1, shared = k & 2, past = k & 4, rows = k & 8, masked = k & 16;
        const int kv = shared ? 2 : HEADS;
        uint8_t seen[LENGTH * LENGTH];
        int32_t in[6];
        for (int i = 0; i < LENGTH * LENGTH; i++) seen[i] = i / LENGTH != 2 && i % 3 != 1;
        for (int i = 0; i < 3; i++) {
            const int n = i == 0 ? HEADS : kv;
            in[i] = noise(&m, rows ? qb_shape_of(3, BATCH, LENGTH, n * SIZE)
                                   : qb_shape_of(4, BATCH, n, LENGTH, SIZE));
        }
        in[3] = !masked  ? -1
                : shared ? constant(&m, QB_DTYPE_BOOL, qb_shape_of(2, LENGTH, LENGTH), seen)
                         : noise(&m, qb_shape_of(4, BATCH, HEADS, LENGTH, LENGTH));
        for (int i = 4; i < 6; i++)
            in[i] = past ? noise(&m, qb_shape_of(4, BATCH, kv, PAST, SIZE)) : -1;
        int32_t y[2];
        for (int i = 0; i < 2; i++) {
            y[i] = node(&m, "Attention", "", past ? 6 : masked ? 4 : 3, in, 3);
            set_int(&m, "is_causal", causal);
            set_float(&m, "softcap", shared && past ? 1.5f : 0.0f);
            if (rows) set_int(&m, "q_num_heads", HEADS);
            if (rows) set_int(&m, "kv_num_heads", kv);
            if (i == 0) assert_ok(&m.cx, read_last(&m));
        }
        /* a mask does not reach the cached keys; else all but the simplest is taken apart */
        int32_t n = 0;
        for (int32_t i = 0; i < m.graph->n_nodes; i++)
            n += m.graph->nodes[i].op && strcmp(m.graph->nodes[i].op->name, "Attention") == 0;
        const bool more = causal || shared || past;
        assert_int_equal(n, more && !(masked && past) ? 1 : 2);
        end(&m, y[0], 3, (int32_t[]){y[1], y[1] + 1, y[1] + 2});
    }
}

static void rotated_from_a_first_place(void **state) {
    (void)state;
    maker m;
    begin(&m);
    static const int64_t first[] = {2}, places[] = {2, 3, 4, 5, 6, 2, 3, 4, 5, 6};
    const int32_t x = noise(&m, qb_shape_of(3, BATCH, LENGTH, WIDTH));
    const int32_t cos = noise(&m, qb_shape_of(2, 16, SIZE / 2));
    const int32_t sin = noise(&m, qb_shape_of(2, 16, SIZE / 2));
    const int32_t in[] = {x, ints(&m, 1, first), cos, sin};
    const int32_t y = node(&m, "RotaryEmbedding", MS, 4, in, 1);
    set_int(&m, "num_heads", HEADS);
    assert_ok(&m.cx, read_last(&m));
    const int32_t at = constant(&m, QB_DTYPE_S64, qb_shape_of(2, BATCH, LENGTH), places);
    const int32_t z = NODE(&m, "RotaryEmbedding", x, cos, sin, at);
    set_int(&m, "num_heads", HEADS);
    end(&m, y, 1, &z);
}

/* --- what is quantized -------------------------------------------------------------------------
 */

/* Numbers of few bits as they lie in bytes, and what they stand for. */
static void weights_in_blocks(void **state) {
    (void)state;
    enum { K = 40, N = 3, BLOCK = 16, BLOCKS = 3 }; /* the last block is not full */
    for (int c = 0; c < 6; c++) {                   /* bits, with zero points or without */
        const int bits = c / 2 == 0 ? 2 : c / 2 == 1 ? 4 : 8, in_byte = 8 / bits;
        const int row = BLOCK / in_byte, zero_row = (BLOCKS + in_byte - 1) / in_byte;
        const bool has_zeros = c % 2;
        uint8_t codes[N * BLOCKS * BLOCK], zeros[N * BLOCKS];
        float scale[N * BLOCKS], weight[K * N];
        maker m;
        begin(&m);
        for (int i = 0; i < N * BLOCKS * row; i++) codes[i] = (uint8_t)qb_rng_u64(&m.rng);
        for (int i = 0; i < N * zero_row; i++) zeros[i] = (uint8_t)qb_rng_u64(&m.rng);
        for (int i = 0; i < N * BLOCKS; i++) scale[i] = 0.1f + 0.01f * (float)i;
        for (int i = 0; i < K; i++)
            for (int j = 0; j < N; j++) {
                const int block = i / BLOCK, at = i % BLOCK, mask = (1 << bits) - 1;
                const int code =
                    codes[(j * BLOCKS + block) * row + at / in_byte] >> (at % in_byte * bits) &
                    mask;
                const int zero =
                    has_zeros
                        ? zeros[j * zero_row + block / in_byte] >> (block % in_byte * bits) & mask
                        : 1 << (bits - 1);
                weight[i * N + j] = scale[j * BLOCKS + block] * (float)(code - zero);
            }
        const int32_t a = noise(&m, qb_shape_of(2, 2, K)), bias = noise(&m, qb_shape_of(1, N));
        const int32_t in[] = {
            a,
            constant(&m, QB_DTYPE_U8, qb_shape_of(3, N, BLOCKS, row), codes),
            constant(&m, QB_DTYPE_F32, qb_shape_of(1, N * BLOCKS), scale),
            has_zeros ? constant(&m, QB_DTYPE_U8, qb_shape_of(1, N * zero_row), zeros) : -1,
            -1,
            bias};
        const int32_t y = node(&m, "MatMulNBits", MS, 6, in, 1);
        set_int(&m, "K", K);
        set_int(&m, "N", N);
        set_int(&m, "bits", bits);
        set_int(&m, "block_size", BLOCK);
        assert_ok(&m.cx, read_last(&m));
        const int32_t w = constant(&m, QB_DTYPE_F32, qb_shape_of(2, K, N), weight);
        const int32_t z = NODE(&m, "Add", NODE(&m, "MatMul", a, w), bias);
        end(&m, y, 1, &z);
    }
}

static int32_t byte(maker *m, uint8_t v) {
    return constant(m, QB_DTYPE_U8, (qb_shape){.rank = 0}, &v);
}

static void choices_and_means(void **state) {
    (void)state;
    static const uint8_t a[] = {1, 200, 30, 77, 250, 9}, b[] = {99, 3, 128, 0, 4, 255};
    static const uint8_t which[] = {1, 0, 0, 1, 1, 0};
    maker m;
    begin(&m);
    const qb_shape two = qb_shape_of(2, 2, 3);
    const int32_t in[] = {constant(&m, QB_DTYPE_BOOL, two, which),
                          constant(&m, QB_DTYPE_U8, two, a),
                          number(&m, 0.5f),
                          byte(&m, 10),
                          constant(&m, QB_DTYPE_U8, two, b),
                          number(&m, 0.25f),
                          byte(&m, 3),
                          number(&m, 0.4f),
                          byte(&m, 7)};
    int32_t y = node(&m, "QLinearWhere", MS, 9, in, 1);
    assert_ok(&m.cx, read_last(&m));
    int32_t z = NODE(&m, "Where", in[0], NODE(&m, "DequantizeLinear", in[1], in[2], in[3]),
                     NODE(&m, "DequantizeLinear", in[4], in[5], in[6]));
    z = NODE(&m, "QuantizeLinear", z, in[7], in[8]);
    end(&m, y, 1, &z);
    begin(&m);
    static const int64_t last[] = {1};
    const int32_t of[] = {constant(&m, QB_DTYPE_U8, two, a), number(&m, 0.5f), byte(&m, 10),
                          number(&m, 0.4f), byte(&m, 7)};
    y = node(&m, "QLinearReduceMean", MS, 5, of, 1);
    *(qb_ints *)attr(&m, "axes") = (qb_ints){1, last};
    set_int(&m, "keepdims", 0);
    assert_ok(&m.cx, read_last(&m));
    z = NODE(&m, "ReduceMean", NODE(&m, "DequantizeLinear", of[0], of[1], of[2]), INTS(&m, 1));
    set_int(&m, "keepdims", 0);
    z = NODE(&m, "QuantizeLinear", z, of[3], of[4]);
    end(&m, y, 1, &z);
}

static void products_quantize_their_data(void **state) {
    (void)state;
    maker m;
    begin(&m);
    const int8_t w[] = {1, -2, 3, 100, -5, 6, 7, 8};
    const int32_t a = noise(&m, qb_shape_of(2, 3, 4));
    const int32_t b = constant(&m, QB_DTYPE_S8, qb_shape_of(2, 4, 2), w);
    const int32_t scale = number(&m, 0.02f), bias = noise(&m, qb_shape_of(1, 2));
    const int32_t y =
        node(&m, "DynamicQuantizeMatMul", MS, 5, (int32_t[]){a, b, scale, -1, bias}, 1);
    assert_ok(&m.cx, read_last(&m));
    const int32_t q = node(&m, "DynamicQuantizeLinear", "", 1, &a, 3);
    const int32_t sums = node(&m, "MatMulInteger", "", 3, (int32_t[]){q, b, q + 2}, 1);
    int32_t z = NODE(&m, "Cast", sums);
    set_int(&m, "to", 1);
    z = NODE(&m, "Mul", z, NODE(&m, "Mul", q + 1, scale));
    z = NODE(&m, "Add", z, bias);
    end(&m, y, 1, &z);
}

/* --- what is refused ---------------------------------------------------------------------------
 */

static void what_is_not_read_says_so(void **state) {
    (void)state;
    maker m;
    begin(&m);
    const int32_t in[] = {noise(&m, qb_shape_of(3, BATCH, LENGTH, WIDTH)), -1, -1};
    node(&m, "MultiHeadAttention", MS, 3, in, 1);
    assert_int_equal(read_last(&m), QB_STATUS_UNSUPPORTED);
    assert_message(&m.cx, "queries, keys and values in one tensor, or a buffer of past ones");
    qb_graph_free(m.graph);
    begin(&m);
    const int32_t x = noise(&m, qb_shape_of(4, 1, 3, 5, 5)),
                  w = noise(&m, qb_shape_of(4, 4, 3, 3, 3));
    node(&m, "FusedConv", MS, 2, (int32_t[]){x, w}, 1);
    *(const char **)attr(&m, "activation") = "Swish";
    assert_int_equal(read_last(&m), QB_STATUS_UNSUPPORTED);
    assert_message(&m.cx, "attribute activation: 'Swish' is not supported");
    qb_graph_free(m.graph);
    begin(&m);
    const int32_t skip[] = {noise(&m, qb_shape_of(2, 3, 8)), noise(&m, qb_shape_of(2, 3, 8)),
                            noise(&m, qb_shape_of(1, 8))};
    node(&m, "SkipLayerNormalization", MS, 3, skip, 2);
    assert_int_equal(read_last(&m), QB_STATUS_UNSUPPORTED);
    assert_message(&m.cx, "output 1 is not supported");
    qb_graph_free(m.graph);
    begin(&m);
    node(&m, "EmbedLayerNormalization", MS, 1, in, 1);
    assert_int_equal(read_last(&m), QB_STATUS_UNSUPPORTED);
    assert_message(&m.cx, "an input is left out");
    qb_graph_free(m.graph);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(activations),
        cmocka_unit_test(products),
        cmocka_unit_test(convolutions),
        cmocka_unit_test(norms_of_sums),
        cmocka_unit_test(rows_of_words_places_and_segments),
        cmocka_unit_test(many_heads),
        cmocka_unit_test(one_weight_for_all),
        cmocka_unit_test(shared_keys_and_rotated_places),
        cmocka_unit_test(attention_in_products),
        cmocka_unit_test(rotated_from_a_first_place),
        cmocka_unit_test(weights_in_blocks),
        cmocka_unit_test(choices_and_means),
        cmocka_unit_test(products_quantize_their_data),
        cmocka_unit_test(what_is_not_read_says_so),
    };
    return qb_test_exit_code(cmocka_run_group_tests(tests, NULL, NULL),
                             sizeof tests / sizeof *tests);
}
