#include "random_graphs.h"

#include "qb_test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "engine/engine.h"
#include "graph/op.h"

enum { VALUES = 40, MOST = 1 << 14 };

typedef struct known {
    int32_t id;
    qb_shape shape;
    double bound, error; /* |v|, and of what is computed */
} known;

typedef struct maker {
    qb_ctx cx;
    qb_graph *graph;
    qb_rng rng;
    int32_t n, names;
    known value[VALUES];
} maker;

static int64_t draw(maker *m, int64_t low, int64_t high) {
    return low + (int64_t)(qb_rng_u64(&m->rng) % (uint64_t)(high - low + 1));
}

static bool chance(maker *m, int percent) { return draw(m, 1, 100) <= percent; }

static double number(maker *m) { return (double)draw(m, -24, 24) / 16; }

/* ---- values and nodes ---- */

static int32_t named(maker *m, qb_dtype dtype, const qb_shape *shape, const void *data) {
    char name[16];
    snprintf(name, sizeof name, "v%d", m->names++);
    return data ? qb_graph_add_constant(&m->cx, m->graph, name, dtype, shape, data)
                : qb_graph_add_value(&m->cx, m->graph, name, dtype, shape);
}

/* Floats, or the quantized values of the same numbers. */
static int32_t constant(maker *m, const qb_shape *shape) {
    static float data[MOST];
    static uint8_t quantized[MOST];
    static const float scale = 1.0f / 16;
    static const int32_t zero = 40;
    for (int64_t i = 0; i < qb_shape_count(shape); i++) {
        data[i] = (float)number(m);
        quantized[i] = (uint8_t)(data[i] * 16 + 40);
    }
    if (!chance(m, 25)) return named(m, QB_DTYPE_F32, shape, data);
    const int32_t id = named(m, QB_DTYPE_U8, shape, quantized);
    m->graph->values[id].q = (qb_qparams){QB_DTYPE_U8, -1, 1, &scale, &zero};
    return id;
}

static int32_t list(maker *m, const int64_t *v, int n) {
    const qb_shape shape = qb_shape_of(1, n);
    return named(m, QB_DTYPE_S64, &shape, v);
}

/* The node's first result; its attributes in *attrs. */
static int32_t node(maker *m, const char *op, const int32_t *in, int32_t n, void **attrs) {
    const qb_shape unknown = {.rank = -1};
    const int32_t out = named(m, QB_DTYPE_NONE, &unknown, NULL);
    const int32_t at = qb_graph_add_node(&m->cx, m->graph, qb_op_find(op, ""), "", in, n, &out, 1);
    assert_true(at >= 0);
    if (attrs) *attrs = m->graph->nodes[at].attrs;
    return out;
}

static const known *pick(maker *m) { return &m->value[draw(m, m->n / 3, m->n - 1)]; }

static void keep(maker *m, int32_t id, qb_shape shape, double bound, double error) {
    if (m->n < VALUES) m->value[m->n++] = (known){id, shape, bound, error + 2e-7 * bound};
}

static void keep_exact(maker *m, int32_t id, qb_shape shape, double bound) {
    if (m->n < VALUES) m->value[m->n++] = (known){id, shape, bound, 0};
}

/* ---- what may follow ---- */

static void add_smooth(maker *m) {
    static const char *const ops[] = {"Sigmoid", "Tanh", "HardSwish", "Gelu",     "Elu",
                                      "Erf",     "Mish", "Softplus",  "Softsign", "Sin"};
    const known x = *pick(m);
    const char *op = ops[draw(m, 0, 9)];
    keep(m, node(m, op, &x.id, 1, NULL), x.shape, x.bound + 1, 1.5 * x.error + 1e-6);
}

static void add_plain(maker *m) {
    static const char *const ops[] = {"Abs", "Neg", "Relu", "LeakyRelu", "Identity"};
    const known x = *pick(m);
    const int32_t out = node(m, ops[draw(m, 0, 4)], &x.id, 1, NULL);
    if (x.error == 0)
        keep_exact(m, out, x.shape, x.bound);
    else
        keep(m, out, x.shape, x.bound, x.error);
}

static void add_jump(maker *m) {
    static const char *const ops[] = {"Floor", "Ceil", "Round", "Sign"};
    const known x = *pick(m);
    if (x.error > 0) return;
    keep_exact(m, node(m, ops[draw(m, 0, 3)], &x.id, 1, NULL), x.shape, x.bound + 1);
}

/* Ones in places, and perhaps fewer dimensions. */
static qb_shape part_of(maker *m, const qb_shape *whole) {
    qb_shape s = *whole;
    const int32_t cut = (int32_t)draw(m, 0, whole->rank);
    s.rank -= cut;
    for (int32_t d = 0; d < s.rank; d++) s.dim[d] = chance(m, 40) ? 1 : whole->dim[d + cut];
    return s;
}

/* Another value of this shape, or a constant that broadcasts. */
static known operand(maker *m, const known *x) {
    for (int tries = 0; tries < 6; tries++) {
        const known *y = pick(m);
        if (qb_shape_equal(&y->shape, &x->shape)) return *y;
    }
    const qb_shape shape = part_of(m, &x->shape);
    return (known){constant(m, &shape), shape, 1.5, 0};
}

static void add_binary(maker *m) {
    static const char *const ops[] = {"Add", "Sub", "Min", "Max", "Mul", "PRelu"};
    const known x = *pick(m), y = operand(m, &x);
    const int64_t op = draw(m, 0, 5);
    int32_t in[2] = {x.id, y.id};
    if (op < 5 && op != 1 && chance(m, 30)) in[0] = y.id, in[1] = x.id;
    if (op >= 4 && x.bound * y.bound > 1e4) return;
    const double bound = op < 4 ? x.bound + y.bound : fmax(x.bound * y.bound, x.bound);
    const double error =
        op < 4 ? x.error + y.error : x.error * fmax(1, y.bound) + y.error * x.bound;
    const int32_t out = node(m, ops[op], in, 2, NULL);
    if (x.error == 0 && y.error == 0)
        keep_exact(m, out, x.shape, bound);
    else
        keep(m, out, x.shape, bound, error);
}

static void add_square(maker *m) {
    const known x = *pick(m);
    const qb_shape scalar = {0};
    const float two = 2;
    if (x.bound > 100) return;
    const int32_t in[2] = {x.id, named(m, QB_DTYPE_F32, &scalar, &two)};
    keep(m, node(m, "Pow", in, 2, NULL), x.shape, x.bound * x.bound, 2 * x.bound * x.error);
}

static void add_choice(maker *m) {
    static const char *const ops[] = {"Greater", "Less", "Equal", "GreaterOrEqual"};
    const known x = *pick(m), y = operand(m, &x), z = operand(m, &x);
    if (x.error > 0 || y.error > 0) return;
    const int32_t both[2] = {x.id, y.id};
    int32_t in[3] = {node(m, ops[draw(m, 0, 3)], both, 2, NULL), x.id, z.id};
    if (chance(m, 30)) in[0] = node(m, "Not", in, 1, NULL);
    keep(m, node(m, "Where", in, 3, NULL), x.shape, x.bound + z.bound, z.error);
}

static void same(maker *m, const known *x, int32_t out, qb_shape shape) {
    if (m->n < VALUES) m->value[m->n++] = (known){out, shape, x->bound, x->error};
}

static void add_transpose(maker *m) {
    const known x = *pick(m);
    void *attrs;
    int64_t *perm = qb_arena_alloc(&m->cx, m->graph->arena, QB_MAX_RANK, sizeof *perm);
    qb_shape shape = x.shape;
    assert_non_null(perm);
    for (int32_t d = 0; d < x.shape.rank; d++) perm[d] = d;
    for (int32_t d = x.shape.rank - 1; d > 0; d--) {
        const int64_t other = draw(m, 0, d), kept = perm[d];
        perm[d] = perm[other], perm[other] = kept;
    }
    for (int32_t d = 0; d < x.shape.rank; d++) shape.dim[d] = x.shape.dim[perm[d]];
    const int32_t out = node(m, "Transpose", &x.id, 1, &attrs);
    ((qb_perm_attrs *)attrs)->perm = (qb_ints){x.shape.rank, perm};
    same(m, &x, out, shape);
}

static void add_reshape(maker *m) {
    const known x = *pick(m);
    qb_shape shape = x.shape;
    const int32_t at = (int32_t)draw(m, 0, shape.rank - 2);
    shape.dim[at] *= shape.dim[at + 1]; /* two become one, and the rest moves up */
    for (int32_t d = at + 1; d < shape.rank - 1; d++) shape.dim[d] = shape.dim[d + 1];
    shape.dim[shape.rank - 1] = 1;
    const int32_t in[2] = {x.id, list(m, shape.dim, shape.rank)};
    same(m, &x, node(m, "Reshape", in, 2, NULL), shape);
}

static void add_slice(maker *m) {
    const known x = *pick(m);
    const int64_t axis = draw(m, 0, x.shape.rank - 1), size = x.shape.dim[axis];
    const int64_t start = draw(m, 0, size - 1), end = draw(m, start + 1, size);
    const int64_t step = draw(m, 1, 2);
    qb_shape shape = x.shape;
    shape.dim[axis] = (end - start + step - 1) / step;
    const int32_t in[5] = {x.id, list(m, &start, 1), list(m, &end, 1), list(m, &axis, 1),
                           list(m, &step, 1)};
    same(m, &x, node(m, "Slice", in, 5, NULL), shape);
}

static void add_split(maker *m) {
    const known x = *pick(m);
    const int64_t axis = draw(m, 0, x.shape.rank - 1), size = x.shape.dim[axis];
    const qb_shape unknown = {.rank = -1};
    if (size < 2) return;
    const int64_t first = draw(m, 1, size - 1), parts[2] = {first, size - first};
    const int32_t in[2] = {x.id, list(m, parts, 2)};
    const int32_t out[2] = {named(m, QB_DTYPE_NONE, &unknown, NULL),
                            named(m, QB_DTYPE_NONE, &unknown, NULL)};
    const int32_t at =
        qb_graph_add_node(&m->cx, m->graph, qb_op_find("Split", ""), "", in, 2, out, 2);
    assert_true(at >= 0);
    ((qb_axis_attrs *)m->graph->nodes[at].attrs)->axis = axis;
    for (int i = 0; i < 2; i++) {
        qb_shape shape = x.shape;
        shape.dim[axis] = parts[i];
        same(m, &x, out[i], shape);
    }
}

static void add_concat(maker *m) {
    const known x = *pick(m), y = operand(m, &x);
    void *attrs;
    qb_shape shape = x.shape;
    const int64_t axis = draw(m, 0, shape.rank - 1);
    if (!qb_shape_equal(&x.shape, &y.shape) || qb_shape_count(&shape) * 2 > MOST) return;
    const int32_t in[2] = {x.id, y.id};
    const int32_t out = node(m, "Concat", in, 2, &attrs);
    ((qb_axis_attrs *)attrs)->axis = axis;
    shape.dim[axis] *= 2;
    if (m->n < VALUES)
        m->value[m->n++] = (known){out, shape, fmax(x.bound, y.bound), fmax(x.error, y.error)};
}

static void add_gather(maker *m) {
    const known x = *pick(m);
    void *attrs;
    int64_t index[3];
    const int64_t axis = draw(m, 0, x.shape.rank - 1), size = x.shape.dim[axis];
    qb_shape shape = x.shape;
    for (int i = 0; i < 3; i++) index[i] = draw(m, -size, size - 1);
    const int32_t in[2] = {x.id, list(m, index, 3)};
    const int32_t out = node(m, "Gather", in, 2, &attrs);
    ((qb_axis_attrs *)attrs)->axis = axis;
    shape.dim[axis] = 3;
    same(m, &x, out, shape);
}

/* ... and back to the shape of the data, as normalizations do. */
static void add_reduction(maker *m) {
    static const char *const ops[] = {"ReduceMax", "ReduceMin", "ReduceMean",     "ReduceSum",
                                      "ReduceL2",  "ReduceL1",  "ReduceSumSquare"};
    const known x = *pick(m);
    const int64_t op = draw(m, 0, 6), axis = draw(m, 0, x.shape.rank - 1);
    const int64_t axes[2] = {axis, x.shape.rank - 1};
    const int count = axis < x.shape.rank - 1 && chance(m, 50) ? 2 : 1;
    qb_shape shape = x.shape;
    double n = 1;
    for (int i = 0; i < count; i++) n *= (double)shape.dim[axes[i]], shape.dim[axes[i]] = 1;
    if (op >= 3 && x.bound * n > 1e4) return;
    if (op == 6 && x.bound > 30) return;
    const int32_t in[2] = {x.id, list(m, axes, count)};
    const int32_t out = node(m, ops[op], in, 2, NULL);
    const double bound = op == 6 ? x.bound * x.bound * n : op >= 3 ? x.bound * n : x.bound;
    /* L2: the root of a small sum is off by more than the sum */
    const double error = op == 4   ? sqrt(n) * x.error + 1e-3 * (x.error > 0)
                         : op == 6 ? 2 * x.bound * x.error * n
                         : op >= 3 ? x.error * n
                                   : x.error;
    keep(m, out, shape, bound, error);
    const int32_t difference[2] = {x.id, out};
    keep(m, node(m, chance(m, 50) ? "Sub" : "Add", difference, 2, NULL), x.shape, x.bound + bound,
         x.error + error + 2e-7 * bound);
}

static void add_softmax(maker *m) {
    const known x = *pick(m);
    void *attrs;
    if (x.error > 0.01) return;
    const int32_t out = node(m, "Softmax", &x.id, 1, &attrs);
    ((qb_axis_attrs *)attrs)->axis = draw(m, 0, x.shape.rank - 1);
    keep(m, out, x.shape, 1, 2 * x.error + 1e-6 * fmax(1, x.bound));
}

static void add_norm(maker *m) {
    const known x = *pick(m);
    if (x.shape.rank < 3) return;
    const qb_shape channels = qb_shape_of(1, (int)x.shape.dim[1]);
    const int32_t in[3] = {x.id, constant(m, &channels), constant(m, &channels)};
    const double n = (double)qb_shape_count(&x.shape) / (double)(x.shape.dim[0] * x.shape.dim[1]);
    keep(m, node(m, "InstanceNormalization", in, 3, NULL), x.shape, 1.5 * sqrt(n) + 1.5,
         1000 * (x.error + 1e-6 * x.bound));
}

/* A constant that nodes work on, as tables of positions are. */
static void add_constant(maker *m) {
    const qb_shape shape =
        qb_shape_of(3, (int)draw(m, 1, 3), (int)draw(m, 2, 6), (int)draw(m, 1, 9));
    keep_exact(m, constant(m, &shape), shape, 1.5);
}

/* Some of x's dimensions meet those of a constant, which may have one of its own; one of them may
 * be summed over, and the rest come in any order. */
static void add_einsum(maker *m) {
    const known x = *pick(m);
    void *attrs;
    qb_shape weight = {0}, out = {0};
    int64_t dim[QB_MAX_RANK + 1];
    char own[16] = "", other[16] = "", left[16] = "";
    const int32_t rank = x.shape.rank, summed = (int32_t)draw(m, -1, rank - 1);
    int n = 0;
    if (rank > 4) return;
    for (int32_t d = 0; d < rank; d++) {
        const char letter[2] = {(char)('a' + d), 0};
        strcat(own, letter);
        dim[d] = x.shape.dim[d];
        if (d == summed || chance(m, 40)) {
            strcat(other, letter);
            weight.dim[weight.rank++] = dim[d];
        }
        if (d != summed) left[n++] = letter[0];
    }
    dim[rank] = 3;
    if (weight.rank == 0 || chance(m, 60)) {
        other[weight.rank] = left[n++] = (char)('a' + rank);
        weight.dim[weight.rank++] = 3;
    }
    for (int i = n - 1; i > 0; i--) {
        const int64_t k = draw(m, 0, i);
        const char kept = left[k];
        left[k] = left[i], left[i] = kept;
    }
    for (int i = 0; i < n; i++) out.dim[out.rank++] = dim[left[i] - 'a'];
    const double terms = summed < 0 ? 1 : (double)dim[summed], grows = 1.5 * terms;
    if (qb_shape_count(&out) > MOST || x.bound * grows > 1e4) return;
    char *equation = qb_format(&m->cx, "%s,%s->%s", own, other, left);
    assert_non_null(equation);
    const int32_t in[2] = {x.id, constant(m, &weight)};
    const int32_t id = node(m, "Einsum", in, 2, &attrs);
    *(const char **)attrs = qb_arena_strdup(&m->cx, m->graph->arena, equation); /* its only one */
    qb_free(equation);
    if (out.rank >= 2) keep(m, id, out, x.bound * grows, grows * (x.error + 1e-6 * x.bound));
}

/* A convolution whose weight may be computed: what could be added to x slides over it. */
static void add_filter(maker *m) {
    const known x = *pick(m), w = operand(m, &x);
    void *attrs;
    qb_shape shape = x.shape;
    const int32_t n = shape.rank - 2;
    int64_t *pads = qb_arena_alloc(&m->cx, m->graph->arena, 8, sizeof *pads);
    assert_non_null(pads);
    if (n < 1 || n > 3 || !qb_shape_equal(&w.shape, &x.shape)) return;
    const double terms = (double)(qb_shape_count(&shape) / shape.dim[0]);
    const double bound = terms * x.bound * w.bound;
    shape.dim[1] = shape.dim[0];
    for (int32_t d = 0; d < n; d++) {
        pads[d] = draw(m, 0, 1), pads[n + d] = draw(m, 0, 1);
        shape.dim[2 + d] = 1 + pads[d] + pads[n + d];
    }
    if (bound > 1e4) return;
    const int32_t in[2] = {x.id, w.id}, out = node(m, "Conv", in, 2, &attrs);
    ((qb_conv_attrs *)attrs)->pads = (qb_ints){2 * n, pads};
    keep(m, out, shape, bound, terms * (x.error * w.bound + w.error * x.bound) + 1e-6 * bound);
}

static void add_node(maker *m) {
    static void (*const kinds[])(maker *) = {
        add_smooth, add_smooth,    add_plain,     add_jump,     add_binary,    add_binary,
        add_binary, add_binary,    add_square,    add_choice,   add_transpose, add_reshape,
        add_slice,  add_reduction, add_reduction, add_concat,   add_gather,    add_softmax,
        add_norm,   add_split,     add_einsum,    add_constant, add_filter};
    kinds[draw(m, 0, (int64_t)(sizeof kinds / sizeof *kinds) - 1)](m);
}

/* ---- graphs ---- */

/* Some exact values become quantized values: both engines round the same numbers. What is computed
 * from them is as exact as before. */
static void quantize(maker *m) {
    for (int32_t i = 0; i < m->n; i++) {
        const known *v = &m->value[i];
        qb_value *to = &m->graph->values[v->id];
        if (v->error > 0 || to->dtype != QB_DTYPE_F32 || to->data ||
            qb_graph_is_input(m->graph, v->id))
            continue;
        float *scale = qb_arena_alloc(&m->cx, m->graph->arena, 1, sizeof *scale);
        int32_t *zero = qb_arena_alloc(&m->cx, m->graph->arena, 1, sizeof *zero);
        assert_true(scale && zero);
        if (!chance(m, 35)) continue;
        to->dtype = chance(m, 50) ? QB_DTYPE_U8 : QB_DTYPE_S8;
        *scale = (float)(v->bound / 100);
        *zero = to->dtype == QB_DTYPE_U8 ? 128 : (int32_t)draw(m, -5, 5);
        to->q = (qb_qparams){to->dtype, -1, 1, scale, zero};
    }
}

static void make(maker *m, uint64_t seed) {
    qb_shape shape = {.rank = 0};
    *m = (maker){0};
    qb_ctx_init(&m->cx);
    qb_rng_seed(&m->rng, seed);
    assert_ok(&m->cx, qb_graph_create(&m->cx, &m->graph));
    m->graph->name = m->graph->source = "random";
    m->graph->opset = QB_GRAPH_OPSET;
    shape.rank = (int32_t)draw(m, 2, 4);
    for (int32_t d = 0; d < shape.rank; d++) shape.dim[d] = draw(m, 1, chance(m, 20) ? 20 : 7);
    for (int i = 0; i < 2; i++) {
        const int32_t x = named(m, QB_DTYPE_F32, &shape, NULL);
        assert_ok(&m->cx, qb_graph_add_input(&m->cx, m->graph, x));
        keep_exact(m, x, shape, 3);
    }
    for (int64_t left = draw(m, 2, 14); left > 0; left--) add_node(m);
    if (m->n == 2) add_plain(m);
    for (int i = 0; i < 2; i++) {
        const known *y = i == 0 ? &m->value[m->n - 1] : &m->value[draw(m, 2, m->n - 1)];
        if (!qb_graph_is_output(m->graph, y->id))
            assert_ok(&m->cx, qb_graph_add_output(&m->cx, m->graph, y->id));
    }
    assert_ok(&m->cx, qb_graph_infer(&m->cx, m->graph));
    if (chance(m, 50)) quantize(m);
}

static void run(maker *m, const char *backends, const float *const *in, float *const *out) {
    const qb_build_spec spec = {.backends = backends, .threads = 2, .first_tactic = true};
    qb_engine *engine;
    qb_context *context;
    assert_ok(&m->cx, qb_engine_build(&m->cx, m->graph, &spec, &engine));
    assert_ok(&m->cx, qb_context_create(&m->cx, engine, &context));
    assert_ok(&m->cx, qb_context_run(&m->cx, context, (const void *const *)in, (void *const *)out));
    qb_context_free(context);
    qb_engine_free(engine);
}

static double error_of(const maker *m, int32_t id) {
    for (int32_t i = 0; i < m->n; i++)
        if (m->value[i].id == id) return m->value[i].error;
    return 0;
}

static bool agree(const maker *m, int32_t output, const float *got, const float *expected) {
    const int32_t id = m->graph->outputs[output];
    const double most = 4 * error_of(m, id) + 1e-6;
    for (int64_t i = 0; i < qb_shape_count(&m->graph->values[id].shape); i++)
        if (!(fabs((double)got[i] - (double)expected[i]) <= most)) {
            print_message("output %d, element %lld: expected %.9g, got %.9g, within %g\n",
                          (int)output, (long long)i, (double)expected[i], (double)got[i], most);
            return false;
        }
    return true;
}

static void print_graph(maker *m, uint64_t seed) {
    QB_FREED char *text = NULL;
    assert_ok(&m->cx, qb_graph_text(&m->cx, m->graph, &text));
    print_message("graph %llu:\n%s\n", (unsigned long long)seed, text);
}

static bool one_graph(const char *backends, uint64_t seed, bool print) {
    static float x[2][MOST], y[2][2][4 * MOST];
    maker m;
    bool good = true;
    make(&m, seed);
    for (int i = 0; i < 2; i++)
        for (int64_t k = 0; k < MOST; k++)
            x[i][k] = (float)fmax(-3, fmin(3, qb_rng_normal(&m.rng)));
    const float *const in[] = {x[0], x[1]};
    run(&m, "ref", in, (float *const[]){y[0][0], y[0][1]});
    run(&m, backends, in, (float *const[]){y[1][0], y[1][1]});
    for (int32_t o = 0; o < m.graph->n_outputs; o++) good = agree(&m, o, y[1][o], y[0][o]) && good;
    if (!good || print) print_graph(&m, seed);
    qb_graph_free(m.graph);
    return good;
}

static uint64_t number_of(uint64_t count) {
    const char *more = getenv("QB_RANDOM_GRAPHS");
    return more ? strtoull(more, NULL, 10) : count;
}

void random_graphs_build(const qb_build_spec *spec, uint64_t count) {
    const uint64_t n = number_of(count);
    int bad = 0;
    for (uint64_t seed = 1; seed <= n && bad < 3; seed++) {
        maker m;
        qb_engine *engine = NULL;
        make(&m, seed);
        if (qb_engine_build(&m.cx, m.graph, spec, &engine) != QB_OK) {
            print_message("%s\n", m.cx.message);
            qb_ctx_clear(&m.cx);
            print_graph(&m, seed);
            bad++;
        }
        qb_engine_free(engine);
        qb_graph_free(m.graph);
    }
    assert_int_equal(bad, 0);
}

void random_graphs_agree(const char *backends, uint64_t count) {
    const char *one = getenv("QB_RANDOM_GRAPH");
    const uint64_t n = number_of(count);
    int bad = 0;
    if (one) {
        assert_true(one_graph(backends, strtoull(one, NULL, 10), true));
        return;
    }
    for (uint64_t seed = 1; seed <= n && bad < 3; seed++) bad += !one_graph(backends, seed, false);
    assert_int_equal(bad, 0);
}
