/* Constant folding with the operators' own reference evaluation. */
#include "graph_internal.h"
#include "kernels/ref.h"

#define MAX_FOLD_INPUTS 256
#define MAX_FOLD_OUTPUTS 64

/* Lists that a tool has quantized like any other floats: sizes, and gains that several norms share
 * through an Identity. Weights stay integers. */
#define MAX_LIST 16384

static bool is_quantized_list(const qb_value *value) {
    return value->q.n == 1 && qb_shape_known(&value->shape) && value->shape.rank <= 1 &&
           qb_shape_count(&value->shape) <= MAX_LIST;
}

static bool plain_known(const qb_value *value) {
    return (value->q.n == 0 || is_quantized_list(value)) && value->dtype != QB_DTYPE_NONE &&
           qb_shape_known(&value->shape);
}

/* The multiplications that folding may take for each byte that it may make: the reference is slow,
 * and no honest model computes that much from constants alone. */
#define WORK_PER_BYTE 8.0

/* The input times both weights: each step multiplies by all of them. */
static double recurrent_work(const qb_graph *graph, const qb_node *node) {
    double count[3];
    for (int32_t i = 0; i < 3; i++)
        count[i] = (double)qb_shape_count(&graph->values[node->in[i]].shape);
    return count[0] * (count[1] + count[2]);
}

/* Elements of the weight that an element of the result is made of; 0: there is no weight. */
static double weight_work(const qb_graph *graph, const qb_node *node) {
    const int32_t input = node->op->weight_input;
    if (input <= 0 || input >= node->n_in || node->in[input] < 0) return 0;
    const qb_shape *w = &graph->values[node->in[input]].shape;
    int32_t axis = qb_attr_int(node, "transB", 0) ? 0 : node->op->weight_axis;
    if (axis < 0) axis += w->rank;
    return axis < 0 || axis >= w->rank || w->dim[axis] < 1
               ? 0
               : (double)qb_shape_count(w) / (double)w->dim[axis];
}

/* Most operators touch each element once or so; those with a kernel, a weight or a window may look
 * at a whole input for each element of the output. */
double qb_node_work(const qb_graph *graph, const qb_node *node) {
    if (qb_attr_find(node->op, "hidden_size")) return recurrent_work(graph, node);
    if (!qb_op_has(node->op, QB_TRAIT_WINDOW)) return 0;
    double most = weight_work(graph, node), out = 0;
    const bool weighs = most > 0;
    if (!weighs) most = 1;
    for (int32_t i = 0; i < node->n_in && !weighs; i++) {
        if (node->in[i] < 0) continue;
        double count = (double)qb_shape_count(&graph->values[node->in[i]].shape);
        if (count > most) most = count;
    }
    const double samples = (double)qb_attr_int(node, "sampling_ratio", 0);
    if (samples * samples > most) most = samples * samples;
    for (int32_t i = 0; i < node->n_out; i++)
        out += (double)qb_shape_count(&graph->values[node->out[i]].shape);
    return most * out;
}

/* Is the result the data of a constant with other dimensions? Both have one memory then. */
static bool shares_data(const qb_graph *graph, const qb_node *node) {
    if (node->n_in < 1 || node->in[0] < 0) return false;
    const qb_value *from = &graph->values[node->in[0]];
    return from->data && from->q.n == 0 && qb_node_is_view(node) &&
           graph->values[node->out[0]].q.n == 0;
}

/* Can the node be evaluated now? *bytes is what its outputs take. */
static bool foldable(const qb_graph *graph, const qb_node *node, size_t limit, size_t *bytes) {
    if (!node->op->eval || node->n_in > MAX_FOLD_INPUTS || node->n_out > MAX_FOLD_OUTPUTS)
        return false;
    const bool shape_only = qb_op_has(node->op, QB_TRAIT_SHAPE_ONLY);
    for (int32_t i = 0; i < node->n_in; i++) {
        if (node->in[i] < 0) continue;
        const qb_value *value = &graph->values[node->in[i]];
        if (!value->data && !shape_only) return false;
        /* Shape of a quantized value is that of the float tensor it stands for. */
        if (!shape_only && !plain_known(value)) return false;
        if (!qb_shape_known(&value->shape)) return false;
    }
    *bytes = 0;
    for (int32_t i = 0; i < node->n_out; i++) {
        if (node->out[i] < 0) return false; /* eval wants a place for each output */
        const qb_value *value = &graph->values[node->out[i]];
        if (!plain_known(value)) return false;
        qb_desc desc = {.dtype = value->dtype, .shape = value->shape};
        size_t more = shares_data(graph, node) ? 0 : qb_desc_bytes(&desc);
        if (more > limit || *bytes > limit - more) return false;
        *bytes += more;
    }
    return true;
}

/* Runs a node's definition on what its inputs hold. */
static qb_status run_node(qb_ctx *cx, qb_graph *graph, int32_t index, qb_tensor *out) {
    const qb_node *node = &graph->nodes[index];
    qb_tensor in[MAX_FOLD_INPUTS] = {0};
    for (int32_t i = 0; i < node->n_in; i++) {
        if (node->in[i] < 0) continue;
        const qb_value *value = &graph->values[node->in[i]];
        in[i] = qb_tensor_of(value->dtype, value->shape, (void *)(uintptr_t)value->data);
    }
    for (int32_t i = 0; i < node->n_out; i++) {
        const qb_value *value = &graph->values[node->out[i]];
        out[i] = qb_tensor_of(value->dtype, value->shape, in[0].data);
        if (shares_data(graph, node)) return QB_OK;
        out[i].data = qb_arena_alloc(cx, graph->arena, 1, qb_desc_bytes(&out[i].desc));
        if (!out[i].data) return cx->code;
    }
    return node->op->eval(cx, node, in, out);
}

static int32_t zero_of(const qb_value *value) { return value->q.zero ? value->q.zero[0] : 0; }

/* Disguised quantized lists are the floats that they stand for. */
static qb_status show_lists(qb_ctx *cx, qb_graph *graph, const qb_disguise *disguise) {
    for (int32_t v = 0; v < graph->n_values; v++) {
        qb_value *value = &graph->values[v];
        if (!is_quantized_list(value) || !disguise->data[v]) continue;
        const int64_t n = qb_shape_count(&value->shape);
        float *floats = QB_NEW(cx, qb_arena_alloc(cx, graph->arena, (size_t)n + 1, sizeof *floats));
        for (int64_t i = 0; i < n; i++)
            floats[i] =
                value->q.scale[0] *
                (float)(qb_number_get(value->q.dtype, disguise->data[v], i) - zero_of(value));
        value->data = floats;
    }
    return QB_OK;
}

/* Computed floats become those that the value can hold, and its integers what the disguise hides.
 */
static qb_status round_lists(qb_ctx *cx, qb_graph *graph, int32_t v, float *floats,
                             qb_disguise *disguise) {
    const qb_value *value = &graph->values[v];
    const int64_t n = qb_shape_count(&value->shape);
    char *q = qb_arena_alloc(cx, graph->arena, (size_t)n + 1, qb_dtype_size(value->q.dtype));
    if (!q) return cx->code;
    for (int64_t i = 0; i < n; i++) {
        const int32_t code =
            qb_quantize_value(floats[i], value->q.scale[0], zero_of(value), value->q.dtype);
        qb_number_put(value->q.dtype, q, i, code);
        floats[i] = value->q.scale[0] * (float)(code - zero_of(value));
    }
    disguise->data[v] = q;
    return QB_OK;
}

static qb_status make_constants(qb_ctx *cx, qb_graph *graph, int32_t index, const qb_tensor *out,
                                qb_disguise *disguise) {
    const qb_node *node = &graph->nodes[index];
    for (int32_t i = 0; i < node->n_out; i++)
        if (graph->values[node->out[i]].q.n > 0)
            QB_TRY(round_lists(cx, graph, node->out[i], out[i].data, disguise));
    for (int32_t i = 0; i < node->n_out; i++) {
        qb_value *value = &graph->values[node->out[i]];
        value->data = out[i].data;
        value->bytes = value->q.n > 0
                           ? (size_t)qb_shape_count(&value->shape) * qb_dtype_size(value->q.dtype)
                           : qb_desc_bytes(&out[i].desc);
    }
    qb_graph_kill_node(graph, index);
    return QB_OK;
}

typedef struct folding {
    qb_disguise disguise;
    size_t limit, taken;
    double work;
    int32_t n;
} folding;

/* Integers may all be known where a shape that they come from is not. */
static qb_status fold_sizes(qb_ctx *cx, qb_graph *graph, int32_t index, folding *f) {
    const qb_node *node = &graph->nodes[index];
    if (node->n_out != 1 || node->out[0] < 0) return QB_OK;
    const qb_value *value = &graph->values[node->out[0]];
    if (value->q.n > 0 || !value->sizes || !qb_sizes_are_numbers(value->sizes)) return QB_OK;
    qb_tensor out = qb_tensor_of(value->dtype, value->shape, NULL);
    QB_TRY_NEW(cx, out.data = qb_arena_alloc(cx, graph->arena, 1, qb_desc_bytes(&out.desc)));
    qb_sizes_put(value->sizes, value->dtype, out.data);
    QB_TRY(make_constants(cx, graph, index, &out, &f->disguise));
    f->n++;
    return QB_OK;
}

static qb_status fold_node(qb_ctx *cx, qb_graph *graph, int32_t index, folding *f) {
    const qb_node *node = &graph->nodes[index];
    qb_tensor out[MAX_FOLD_OUTPUTS];
    size_t bytes;
    if (!foldable(graph, node, f->limit - f->taken, &bytes)) return fold_sizes(cx, graph, index, f);
    const double work = qb_node_work(graph, node);
    if (f->work + work > WORK_PER_BYTE * (double)f->limit) return QB_OK;
    f->work += work;
    QB_TRY(run_node(cx, graph, index, out));
    QB_TRY(make_constants(cx, graph, index, out, &f->disguise));
    f->taken += bytes;
    f->n++;
    return QB_OK;
}

static qb_status fold_all(qb_ctx *cx, qb_graph *graph, folding *f) {
    for (int32_t i = 0; i < graph->n_nodes; i++) {
        if (!graph->nodes[i].op) continue;
        QB_TRY(qb_check_cancel(cx));
        QB_TRY(qb_infer_node(cx, graph, i));
        const qb_status status = fold_node(cx, graph, i, f);
        if (status == QB_STATUS_UNSUPPORTED) {
            qb_ctx_clear(cx); /* the node stays; whoever runs it reports why it cannot */
        } else if (status != QB_OK) {
            char label[QB_LABEL_MAX];
            return qb_wrap(cx, "%s", qb_node_text(graph, i, label, sizeof label));
        }
    }
    return QB_OK;
}

/* What may be folded yet. */
static size_t limit_of(const qb_graph *graph) {
    size_t constants = 0, limit;
    for (int32_t i = 0; i < graph->n_values; i++)
        if (graph->values[i].data) constants += graph->values[i].bytes;
    const size_t own = constants > graph->folded ? constants - graph->folded : 0;
    if (__builtin_mul_overflow(own, QB_FOLD_GROWTH, &limit)) limit = SIZE_MAX / 2;
    limit += QB_FOLD_LIMIT;
    if (graph->fold_limit > 0) limit = graph->fold_limit;
    return limit > graph->folded ? limit - graph->folded : 0;
}

qb_status qb_graph_fold(qb_ctx *cx, qb_graph *graph, int32_t *n) {
    return qb_graph_fold_within(cx, graph, limit_of(graph), n);
}

qb_status qb_graph_fold_within(qb_ctx *cx, qb_graph *graph, size_t bytes, int32_t *n) {
    folding f = {.limit = bytes};
    QB_TRY(qb_disguise_begin(cx, graph, &f.disguise));
    qb_status status = show_lists(cx, graph, &f.disguise);
    if (status == QB_OK) status = fold_all(cx, graph, &f);
    qb_disguise_end(graph, &f.disguise);
    graph->folded += f.taken;
    if (status == QB_OK) *n = f.n;
    return status;
}
