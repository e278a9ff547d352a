#include "recurrent_layers.h"

#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "graph/op.h"
#include "qb_test.h"

void layer_fill(uint64_t seed, float *data, int64_t n, float spread) {
    qb_rng rng;
    qb_rng_seed(&rng, seed);
    for (int64_t i = 0; i < n; i++) data[i] = spread * (float)qb_rng_normal(&rng);
}

static int32_t constant(layer_graph *f, const char *name, qb_shape shape, float spread) {
    const int64_t n = qb_shape_count(&shape);
    float *data = qb_alloc(&f->cx, (size_t)n, sizeof *data);
    assert_non_null(data);
    layer_fill((uint64_t)n + (uint64_t)name[0], data, n, spread);
    const int32_t id = qb_graph_add_constant(&f->cx, f->graph, name, QB_DTYPE_F32, &shape, data);
    qb_free(data);
    assert_true(id >= 0);
    return id;
}

static int32_t input(layer_graph *f, const char *name, qb_dtype dtype, qb_shape shape) {
    static const char *const symbols[] = {"A", "B"};
    for (int32_t d = 0; d < shape.rank; d++)
        if (shape.dim[d] < 0) shape.dim[d] = qb_graph_add_symbol(&f->cx, f->graph, symbols[d]);
    const int32_t id = qb_graph_add_value(&f->cx, f->graph, name, dtype, &shape);
    assert_ok(&f->cx, qb_graph_add_input(&f->cx, f->graph, id));
    return id;
}

static void *field(const qb_node *node, const char *attr) {
    const qb_attr_desc *desc = node->op->attrs;
    while (desc->name && strcmp(desc->name, attr) != 0) desc++;
    assert_non_null(desc->name);
    return (char *)node->attrs + desc->offset;
}

static void set_activations(layer_graph *f, const qb_node *node, const char *name,
                            int64_t directions) {
    const int32_t each = strcmp(node->op->name, "LSTM") == 0  ? 3
                         : strcmp(node->op->name, "GRU") == 0 ? 2
                                                              : 1;
    const int32_t n = each * (int32_t)directions;
    const char **names = qb_arena_alloc(&f->cx, f->graph->arena, (size_t)n, sizeof *names);
    assert_non_null(names);
    for (int32_t i = 0; i < n; i++) names[i] = name;
    *(qb_strings *)field(node, "activations") = (qb_strings){n, names};
}

void layer_make(layer_graph *f, const layer *l) {
    const bool lstm = strcmp(l->op, "LSTM") == 0;
    const int hidden = l->hidden > 0 ? (int)l->hidden : LAYER_HIDDEN;
    const int64_t gates = lstm ? 4 : strcmp(l->op, "GRU") == 0 ? 3 : 1;
    const int ways = strcmp(l->direction, "bidirectional") == 0 ? 2 : 1;
    const int rows = (int)gates * hidden, batch = (int)l->batch;
    const qb_shape state =
        l->batch_first ? qb_shape_of(3, batch, ways, hidden) : qb_shape_of(3, ways, batch, hidden);
    const float spread = 1 / sqrtf((float)hidden);
    const qb_shape unknown = {.rank = -1};
    int32_t in[8], out[3];
    qb_ctx_init(&f->cx);
    assert_ok(&f->cx, qb_graph_create(&f->cx, &f->graph));
    f->graph->name = f->graph->source = "layer";
    f->graph->opset = QB_GRAPH_OPSET;
    for (int i = 0; i < 8; i++) in[i] = -1;
    in[0] = input(f, "x", QB_DTYPE_F32,
                  l->batch_first ? qb_shape_of(3, batch, (int)l->steps, LAYER_INPUTS)
                                 : qb_shape_of(3, (int)l->steps, batch, LAYER_INPUTS));
    in[1] = constant(f, "w", qb_shape_of(3, ways, rows, LAYER_INPUTS), 0.4f);
    in[2] = constant(f, "r", qb_shape_of(3, ways, rows, hidden), spread);
    if (l->bias) in[3] = constant(f, "b", qb_shape_of(2, ways, 2 * rows), 0.5f);
    if (l->lengths) in[4] = input(f, "lengths", QB_DTYPE_S32, qb_shape_of(1, batch));
    if (l->states) in[5] = constant(f, "h", state, 0.5f);
    if (l->states && lstm) in[6] = constant(f, "c", state, 0.5f);
    if (l->peepholes) in[7] = constant(f, "p", qb_shape_of(2, ways, 3 * hidden), 0.5f);
    const int n_out = lstm ? 3 : 2;
    static const char *const names[] = {"y", "y_h", "y_c"};
    for (int i = 0; i < n_out; i++)
        out[i] = l->outputs[i]
                     ? qb_graph_add_value(&f->cx, f->graph, names[i], QB_DTYPE_NONE, &unknown)
                     : -1;
    const int32_t id = qb_graph_add_node(&f->cx, f->graph, qb_op_find(l->op, ""), "layer", in,
                                         lstm ? 8 : 6, out, n_out);
    assert_true(id >= 0);
    const qb_node *node = &f->graph->nodes[id];
    *(const char **)field(node, "direction") = l->direction;
    *(int64_t *)field(node, "layout") = l->batch_first;
    if (l->clip > 0) *(float *)field(node, "clip") = l->clip;
    if (l->attr) *(int64_t *)field(node, l->attr) = 1;
    if (l->activation) set_activations(f, node, l->activation, ways);
    for (int i = 0; i < n_out; i++)
        if (l->outputs[i]) assert_ok(&f->cx, qb_graph_add_output(&f->cx, f->graph, out[i]));
    assert_ok(&f->cx, qb_graph_infer(&f->cx, f->graph));
}

static qb_status count(qb_ctx *cx, void *user, int32_t observed, const char *value,
                       const qb_tensor *tensor) {
    (void)cx, (void)observed, (void)value, (void)tensor;
    ++*(int32_t *)user;
    return QB_OK;
}

void layer_run(layer_graph *f, const qb_engine *engine, const layer *l, const float *x,
               bool observe, layer_answer *a) {
    int32_t lengths[32];
    const void *inputs[] = {x, lengths};
    void *outputs[3];
    int n = 0;
    qb_context *context;
    memset(a, 0, sizeof *a);
    for (int i = 0; i < l->batch; i++) lengths[i] = i % ((int)l->steps + 1);
    for (int i = 0; i < 3; i++)
        if (l->outputs[i]) outputs[n++] = a->out[i];
    assert_ok(&f->cx, qb_context_create(&f->cx, engine, &context));
    if (observe)
        assert_ok(&f->cx,
                  qb_context_observe(&f->cx, context, inputs, outputs, count, &a->n_observed));
    else
        assert_ok(&f->cx, qb_context_run(&f->cx, context, inputs, outputs));
    qb_context_free(context);
    for (int32_t i = 0; i < qb_engine_n_steps(engine); i++) {
        qb_step_info info;
        qb_engine_step(engine, i, &info);
        if (strcmp(info.op, l->op) == 0) strcpy(a->tactic, info.tactic);
    }
}

layer layer_numbered(int i) {
    static const char *const ops[] = {"LSTM", "GRU", "RNN"};
    static const char *const directions[] = {"forward", "reverse", "bidirectional"};
    const bool lstm = i % 3 == 0, gru = i % 3 == 1;
    layer l = {.op = ops[i % 3],
               .direction = directions[i / 3 % 3],
               .steps = 1 + i % 5,
               .batch = 1 + i * 7 % 9,
               .batch_first = i / 2 % 2,
               .bias = i % 4 != 0,
               .lengths = i / 3 % 2,
               .states = i / 4 % 2,
               .peepholes = lstm && i / 6 % 2,
               .clip = i % 5 == 0 ? 0.8f : 0,
               .outputs = {i % 7 != 0, i % 5 != 1, lstm && i % 4 != 2},
               .activation = i % 11 == 0 ? "relu" : NULL};
    if (lstm && i / 9 % 2) l.attr = "input_forget";
    if (gru && i / 9 % 2) l.attr = "linear_before_reset";
    return l;
}
