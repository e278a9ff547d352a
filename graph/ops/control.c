/* If and Loop whose condition or number of iterations only a run knows; others are expanded when a
 * model is read (graph/onnx/expand.c). Their bodies are models of their own in the attributes
 * (graph/onnx/body.c), run node by node by the definitions; what bodies take from around them are
 * inputs behind the standard's. */
#include "graph/evaluate.h"
#include "ops_internal.h"

#define SMALL_BYTES 1024         /* of values that may decide sizes inside a body */
#define ITERATIONS_MAX (1 << 16) /* of a loop */
#define VALUE_BYTES_MAX ((size_t)1 << 30)

/* ---- a body ---------------------------------------------------------------------------------- */

static qb_desc desc_of(const qb_value *value) {
    return value ? (qb_desc){.dtype = value->dtype, .shape = value->shape}
                 : (qb_desc){.dtype = QB_DTYPE_BOOL, .shape = {.rank = 0}};
}

/* Types and shapes of a body's outputs, where those of its inputs and small values tell them. */
static qb_status infer_body(qb_ctx *cx, const qb_tensor *bytes, const qb_desc *in,
                            const qb_value *const *from, int32_t n, qb_graph **out) {
    QB_RELEASED(qb_graph_free_at) qb_graph *body = NULL;
    int32_t n_folded;
    QB_TRY(qb_onnx_parse_body(cx, bytes, in, n, &body));
    for (int32_t i = 0; i < n; i++) {
        if (!from[i] || !from[i]->data || from[i]->bytes > SMALL_BYTES || from[i]->q.n > 0)
            continue;
        const qb_tensor tensor =
            qb_tensor_of(from[i]->dtype, from[i]->shape, (void *)(uintptr_t)from[i]->data);
        QB_TRY(qb_graph_fix(cx, body, body->inputs[i], &tensor));
    }
    QB_TRY(qb_graph_fold_within(cx, body, SMALL_BYTES << 4, &n_folded));
    *out = QB_MOVE(body);
    return QB_OK;
}

/* Runs a body in place: its outputs have data then. */
static qb_status run_body(qb_ctx *cx, qb_graph *body, const qb_tensor *in, int32_t n) {
    for (int32_t i = 0; i < n; i++) QB_TRY(qb_graph_fix(cx, body, body->inputs[i], &in[i]));
    return qb_graph_evaluate(cx, body, VALUE_BYTES_MAX);
}

static qb_tensor output_of(const qb_graph *body, int32_t i) {
    const qb_value *value = &body->values[body->outputs[i]];
    return qb_tensor_of(value->dtype, value->shape, (void *)(uintptr_t)value->data);
}

static qb_status give(qb_ctx *cx, const qb_node *node, int32_t i, const qb_tensor *from,
                      qb_tensor *to) {
    if (i >= node->n_out || node->out[i] < 0) return QB_OK;
    const size_t bytes = qb_desc_bytes(&from->desc);
    if (from->desc.dtype != to->desc.dtype || bytes != qb_desc_bytes(&to->desc))
        return qb_fail(cx, QB_STATUS_INVALID, "output %d: the body gives another shape or type",
                       (int)i);
    if (bytes > 0) memcpy(to->data, from->data, bytes);
    return QB_OK;
}

/* All inputs as tensors with data; false where one is open. */
static bool inputs_of(const qb_infer_args *args, qb_tensor *in) {
    const qb_node *node = qb_infer_at(args);
    for (int32_t i = 0; i < node->n_in; i++)
        if (qb_infer_in(args, i) && !qb_infer_const(args, i, &in[i])) return false;
    return true;
}

static bool truth_of(const qb_tensor *t) {
    return t->desc.dtype == QB_DTYPE_BOOL && t->data && *(const uint8_t *)t->data != 0;
}

/* Type and size of what decides: one truth, one number. */
static qb_status check_scalar(qb_ctx *cx, const qb_infer_args *args, int32_t i, qb_dtype dtype) {
    const qb_value *value = qb_infer_in(args, i);
    if (!value) return QB_OK;
    if (value->dtype != QB_DTYPE_NONE && value->dtype != dtype)
        return qb_fail(cx, QB_STATUS_INVALID, "input %d '%s': expected type %s, got %s", (int)i,
                       value->name, qb_dtype_text(dtype), qb_dtype_text(value->dtype));
    if (qb_shape_known(&value->shape) && qb_shape_count(&value->shape) != 1)
        return qb_fail(cx, QB_STATUS_INVALID, "input %d '%s': expected one element, got %lld",
                       (int)i, value->name, (long long)qb_shape_count(&value->shape));
    return QB_OK;
}

/* ---- If -------------------------------------------------------------------------------------- */

typedef struct if_attrs {
    qb_tensor then_branch, else_branch;
} if_attrs;
static const qb_attr_desc if_table[] = {
    {.name = "then_branch", .type = QB_ATTR_TENSOR, .offset = offsetof(if_attrs, then_branch)},
    {.name = "else_branch", .type = QB_ATTR_TENSOR, .offset = offsetof(if_attrs, else_branch)},
    QB_A_END,
};

/* What both may be. */
static void merge(qb_shape *shape, const qb_shape *other) {
    if (shape->rank != other->rank) *shape = (qb_shape){.rank = -1};
    for (int32_t d = 0; d < shape->rank; d++)
        if (shape->dim[d] != other->dim[d] || shape->dim[d] < 0) shape->dim[d] = QB_DIM_UNKNOWN;
}

static qb_status set_outputs(qb_ctx *cx, const qb_infer_args *args, const qb_graph *a,
                             const qb_graph *b) {
    const qb_node *node = qb_infer_at(args);
    const qb_graph *body = a ? a : b;
    if (body->n_outputs != node->n_out)
        return qb_fail(cx, QB_STATUS_INVALID, "a branch has %d outputs, If has %d",
                       (int)body->n_outputs, (int)node->n_out);
    for (int32_t i = 0; i < node->n_out; i++) {
        const qb_value *value = &body->values[body->outputs[i]];
        qb_shape shape = value->shape;
        const qb_graph *other = a && b ? b : body;
        if (other->n_outputs != node->n_out)
            return qb_fail(cx, QB_STATUS_INVALID, "branches have %d and %d outputs",
                           (int)body->n_outputs, (int)other->n_outputs);
        const qb_value *same = &other->values[other->outputs[i]];
        if (same->dtype != value->dtype)
            return qb_fail(cx, QB_STATUS_INVALID, "output %d is %s in one branch, %s in the other",
                           (int)i, qb_dtype_text(value->dtype), qb_dtype_text(same->dtype));
        merge(&shape, &same->shape);
        QB_TRY(qb_infer_set(cx, args, i, value->dtype, &shape));
    }
    return QB_OK;
}

/* The branch that the condition names, or both, of which one may not fit what is known. */
static qb_status infer_branches(qb_ctx *cx, const qb_infer_args *args, const qb_desc *in,
                                const qb_value *const *from) {
    const if_attrs *attrs = qb_infer_at(args)->attrs;
    const int32_t n = qb_infer_at(args)->n_in - 1;
    const qb_tensor *bytes[2] = {&attrs->else_branch, &attrs->then_branch};
    qb_graph *body[2] = {NULL, NULL};
    qb_tensor condition;
    qb_status status = QB_OK;
    const bool known = qb_infer_const(args, 0, &condition);
    for (int32_t b = 0; b < 2; b++) {
        if (known && truth_of(&condition) != (b == 1)) continue;
        status = infer_body(cx, bytes[b], in, from, n, &body[b]);
        if (status == QB_OK) continue;
        if (known || (b == 1 && !body[0])) goto out;
        qb_ctx_clear(cx);
    }
    status = set_outputs(cx, args, body[1], body[0]);
out:
    qb_graph_free(body[0]);
    qb_graph_free(body[1]);
    return status;
}

/* Runs the branch: its outputs, in *out, have data. */
static qb_status run_if(qb_ctx *cx, const qb_node *node, const qb_tensor *in, qb_graph **out) {
    const if_attrs *attrs = node->attrs;
    const int32_t n = node->n_in - 1;
    QB_RELEASED(qb_graph_free_at) qb_graph *body = NULL;
    QB_FREED qb_desc *desc = QB_NEW(cx, qb_alloc(cx, (size_t)n + 1, sizeof *desc));
    for (int32_t i = 0; i < n; i++) desc[i] = in[1 + i].desc;
    QB_TRY(qb_onnx_parse_body(cx, truth_of(&in[0]) ? &attrs->then_branch : &attrs->else_branch,
                              desc, n, &body));
    QB_TRY(run_body(cx, body, in + 1, n));
    if (body->n_outputs != node->n_out)
        return qb_fail(cx, QB_STATUS_INVALID, "the branch has %d outputs, If has %d",
                       (int)body->n_outputs, (int)node->n_out);
    *out = QB_MOVE(body);
    return QB_OK;
}

static qb_status infer_if(qb_ctx *cx, const qb_infer_args *args) {
    const qb_node *node = qb_infer_at(args);
    const int32_t n = node->n_in;
    QB_TRY(check_scalar(cx, args, 0, QB_DTYPE_BOOL));
    QB_FREED qb_desc *desc = QB_NEW(cx, qb_alloc(cx, (size_t)n, sizeof *desc));
    QB_FREED const qb_value **from = QB_NEW(cx, qb_alloc(cx, (size_t)n, sizeof *from));
    QB_FREED qb_tensor *in = QB_NEW(cx, qb_alloc(cx, (size_t)n, sizeof *in));
    QB_RELEASED(qb_graph_free_at) qb_graph *ran = NULL;
    if (inputs_of(args, in)) {
        QB_TRY(run_if(cx, node, in, &ran));
        return set_outputs(cx, args, ran, NULL);
    }
    for (int32_t i = 1; i < n; i++) {
        from[i - 1] = qb_infer_in(args, i);
        desc[i - 1] = desc_of(from[i - 1]);
    }
    return infer_branches(cx, args, desc, from);
}

static qb_status eval_if(qb_ctx *cx, const qb_node *node, const qb_tensor *in, qb_tensor *out) {
    QB_RELEASED(qb_graph_free_at) qb_graph *ran = NULL;
    QB_TRY(run_if(cx, node, in, &ran));
    for (int32_t i = 0; i < node->n_out; i++) {
        const qb_tensor from = output_of(ran, i);
        QB_TRY(give(cx, node, i, &from, &out[i]));
    }
    return QB_OK;
}

QB_OP_SIMPLE(if, "If", 7, 1, INT32_MAX, INT32_MAX, sizeof(if_attrs), if_table, FLOAT, infer_if,
             eval_if, .bound = qb_bound_none);

/* ---- Loop ------------------------------------------------------------------------------------ */

typedef struct loop_attrs {
    qb_tensor body;
    int64_t carried; /* values that go from one iteration to the next */
} loop_attrs;
static const qb_attr_desc loop_table[] = {
    {.name = "body", .type = QB_ATTR_TENSOR, .offset = offsetof(loop_attrs, body)},
    QB_A_INT(loop_attrs, carried, "carried", 0, 0, INT32_MAX),
    QB_A_END,
};

enum { COUNT, CONDITION, FIRST }; /* inputs of the node; of a body the number of the iteration */

/* One output that each iteration adds a piece to. */
typedef struct pieces {
    qb_desc each;
    char *data;
    size_t bytes, capacity;
} pieces;

typedef struct looping {
    qb_graph *body;
    int32_t n_in, n_carried, n_pieces;
    qb_tensor *in;  /* of the body */
    void **own;     /* [n_carried] data of this iteration's values */
    pieces *pieces; /* [n_pieces] */
    int64_t index, iterations;
    uint8_t condition;
} looping;

static void looping_release(looping *l) {
    for (int32_t i = 0; l->own && i < l->n_carried; i++) qb_free(l->own[i]);
    for (int32_t i = 0; l->pieces && i < l->n_pieces; i++) qb_free(l->pieces[i].data);
    qb_graph_free(l->body);
    qb_free(l->in);
    qb_free(l->own);
    qb_free(l->pieces);
}

static qb_status check_loop(qb_ctx *cx, const qb_node *node) {
    const loop_attrs *attrs = node->attrs;
    if (node->n_in < FIRST + attrs->carried || node->n_out < attrs->carried)
        return qb_fail(cx, QB_STATUS_INVALID,
                       "%lld values go around: expected more inputs and "
                       "outputs than %d and %d",
                       (long long)attrs->carried, (int)node->n_in, (int)node->n_out);
    return QB_OK;
}

/* The body for inputs of these descriptors, with as many outputs as the node needs. */
static qb_status check_body(qb_ctx *cx, const qb_node *node, const qb_graph *body) {
    if (body->n_outputs == node->n_out + 1) return QB_OK;
    return qb_fail(cx, QB_STATUS_INVALID, "the body has %d outputs, expected %d",
                   (int)body->n_outputs, (int)node->n_out + 1);
}

static qb_status looping_start(qb_ctx *cx, const qb_node *node, const qb_tensor *in, looping *l) {
    const loop_attrs *attrs = node->attrs;
    QB_TRY(check_loop(cx, node));
    *l = (looping){.n_in = node->n_in,
                   .n_carried = (int32_t)attrs->carried,
                   .n_pieces = node->n_out - (int32_t)attrs->carried,
                   .condition = 1};
    QB_FREED qb_desc *desc = QB_NEW(cx, qb_alloc(cx, (size_t)l->n_in, sizeof *desc));
    QB_TRY_NEW(cx, l->in = qb_alloc(cx, (size_t)l->n_in, sizeof *l->in));
    QB_TRY_NEW(cx, l->own = qb_alloc(cx, (size_t)l->n_carried, sizeof *l->own));
    QB_TRY_NEW(cx, l->pieces = qb_alloc(cx, (size_t)l->n_pieces, sizeof *l->pieces));
    for (int32_t i = 0; i < l->n_in; i++) l->in[i] = in[i];
    const bool counts = in[COUNT].data && in[COUNT].desc.dtype == QB_DTYPE_S64;
    l->iterations = counts ? *(const int64_t *)in[COUNT].data : INT64_MAX;
    if (in[CONDITION].data) l->condition = truth_of(&in[CONDITION]);
    l->in[COUNT] = qb_tensor_of(QB_DTYPE_S64, (qb_shape){0}, &l->index);
    l->in[CONDITION] = qb_tensor_of(QB_DTYPE_BOOL, (qb_shape){0}, &l->condition);
    for (int32_t i = 0; i < l->n_in; i++) {
        desc[i] = l->in[i].desc;
        if (i >= FIRST && i < FIRST + l->n_carried) desc[i].shape = (qb_shape){.rank = -1};
    }
    QB_TRY(qb_onnx_parse_body(cx, &attrs->body, desc, l->n_in, &l->body));
    return check_body(cx, node, l->body);
}

static qb_status add_piece(qb_ctx *cx, const qb_tensor *from, bool first, pieces *p) {
    const size_t bytes = qb_desc_bytes(&from->desc);
    if (first) p->each = from->desc;
    if (!qb_shape_equal(&p->each.shape, &from->desc.shape))
        return qb_fail(cx, QB_STATUS_INVALID, "an output has another shape in each iteration");
    if (p->bytes + bytes > VALUE_BYTES_MAX)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "an output would take more than %zu bytes",
                       VALUE_BYTES_MAX);
    QB_TRY(qb_grow(cx, &p->data, &p->capacity, p->bytes + bytes, 1));
    if (bytes > 0) memcpy(p->data + p->bytes, from->data, bytes);
    p->bytes += bytes;
    return QB_OK;
}

static qb_status check_carried(qb_ctx *cx, int32_t k, qb_dtype in, qb_dtype out) {
    if (in == out) return QB_OK;
    return qb_fail(cx, QB_STATUS_INVALID, "value %d goes into an iteration as %s, comes out as %s",
                   (int)k, qb_dtype_text(in), qb_dtype_text(out));
}

/* What the iteration gave becomes what the next one takes. */
static qb_status carry(qb_ctx *cx, const qb_graph *ran, looping *l) {
    const qb_tensor condition = output_of(ran, 0);
    l->condition = truth_of(&condition);
    for (int32_t k = 0; k < l->n_carried; k++) {
        const qb_tensor from = output_of(ran, 1 + k);
        const size_t bytes = qb_desc_bytes(&from.desc);
        QB_TRY(check_carried(cx, k, l->in[FIRST + k].desc.dtype, from.desc.dtype));
        void *data = QB_NEW(cx, qb_alloc(cx, bytes + 1, 1));
        if (bytes > 0) memcpy(data, from.data, bytes);
        qb_free(l->own[k]);
        l->own[k] = data;
        l->in[FIRST + k] = qb_tensor_of(from.desc.dtype, from.desc.shape, data);
    }
    for (int32_t k = 0; k < l->n_pieces; k++) {
        const qb_tensor from = output_of(ran, 1 + l->n_carried + k);
        QB_TRY(add_piece(cx, &from, l->index == 0, &l->pieces[k]));
    }
    return QB_OK;
}

static qb_status run_loop(qb_ctx *cx, const qb_node *node, const qb_tensor *in, looping *l) {
    QB_TRY(looping_start(cx, node, in, l));
    for (; l->condition && l->index < l->iterations; l->index++) {
        qb_graph *ran;
        if (l->index == ITERATIONS_MAX)
            return qb_fail(cx, QB_STATUS_UNSUPPORTED, "more than %d iterations", ITERATIONS_MAX);
        QB_TRY(qb_graph_clone_sharing(cx, l->body, &ran));
        qb_status status = run_body(cx, ran, l->in, l->n_in);
        if (status == QB_OK) status = carry(cx, ran, l);
        qb_graph_free(ran);
        if (status != QB_OK) return qb_wrap(cx, "iteration %lld", (long long)l->index);
    }
    return QB_OK;
}

/* Output k of the loop that ran. Without an iteration a piece has the body's shape, where it is
 * known, else no elements in each dimension. */
static qb_tensor result_of(const looping *l, int32_t k) {
    if (k < l->n_carried) return l->in[FIRST + k];
    const pieces *p = &l->pieces[k - l->n_carried];
    const qb_value *declared = &l->body->values[l->body->outputs[1 + k]];
    qb_desc each = p->each;
    if (l->index == 0) each = (qb_desc){.dtype = declared->dtype, .shape = declared->shape};
    qb_shape shape = {.rank = (each.shape.rank < 0 ? 0 : each.shape.rank) + 1, .dim = {l->index}};
    for (int32_t d = 1; d < shape.rank && d < QB_MAX_RANK; d++)
        shape.dim[d] = each.shape.dim[d - 1] < 0 ? 0 : each.shape.dim[d - 1];
    return qb_tensor_of(each.dtype, shape, p->data);
}

/* Values that go around keep their shapes where the body gives those that it takes. */
static bool keeps_shapes(const qb_graph *body, const qb_desc *in, int32_t carried) {
    for (int32_t k = 0; k < carried; k++) {
        const qb_shape *to = &body->values[body->outputs[1 + k]].shape;
        if (!qb_shape_known(to) || !qb_shape_equal(to, &in[FIRST + k].shape)) return false;
    }
    return true;
}

static qb_status infer_open(qb_ctx *cx, const qb_infer_args *args, qb_desc *in,
                            const qb_value *const *from) {
    const qb_node *node = qb_infer_at(args);
    const loop_attrs *attrs = node->attrs;
    const int32_t carried = (int32_t)attrs->carried;
    QB_RELEASED(qb_graph_free_at) qb_graph *body = NULL;
    qb_status status = infer_body(cx, &attrs->body, in, from, node->n_in, &body);
    if (status == QB_OK) status = check_body(cx, node, body);
    const bool kept = status == QB_OK && keeps_shapes(body, in, carried);
    if (!kept) { /* or they may not even fit a second time */
        qb_ctx_clear(cx);
        qb_graph_free(QB_MOVE(body));
        for (int32_t k = 0; k < carried; k++) in[FIRST + k].shape = (qb_shape){.rank = -1};
        QB_TRY(infer_body(cx, &attrs->body, in, from, node->n_in, &body));
        QB_TRY(check_body(cx, node, body));
    }
    for (int32_t k = 0; k < node->n_out; k++) {
        const qb_value *value = &body->values[body->outputs[1 + k]];
        qb_shape shape = value->shape;
        if (k < carried) QB_TRY(check_carried(cx, k, in[FIRST + k].dtype, value->dtype));
        if (k < carried && !kept) shape = (qb_shape){.rank = -1};
        if (k >= carried && shape.rank >= 0) {
            shape = (qb_shape){.rank = value->shape.rank + 1, .dim = {QB_DIM_UNKNOWN}};
            for (int32_t d = 1; d < shape.rank && d < QB_MAX_RANK; d++)
                shape.dim[d] =
                    value->shape.dim[d - 1] < 0 ? QB_DIM_UNKNOWN : value->shape.dim[d - 1];
        }
        QB_TRY(qb_infer_set(cx, args, k, value->dtype, &shape));
    }
    return QB_OK;
}

static qb_status infer_loop(qb_ctx *cx, const qb_infer_args *args) {
    const qb_node *node = qb_infer_at(args);
    const int32_t n = node->n_in;
    QB_RELEASED(looping_release) looping l = {0};
    QB_TRY(check_loop(cx, node));
    QB_TRY(check_scalar(cx, args, COUNT, QB_DTYPE_S64));
    QB_TRY(check_scalar(cx, args, CONDITION, QB_DTYPE_BOOL));
    QB_FREED qb_desc *desc = QB_NEW(cx, qb_alloc(cx, (size_t)n, sizeof *desc));
    QB_FREED const qb_value **from = QB_NEW(cx, qb_alloc(cx, (size_t)n, sizeof *from));
    QB_FREED qb_tensor *in = QB_NEW(cx, qb_alloc(cx, (size_t)n, sizeof *in));
    if (inputs_of(args, in)) {
        QB_TRY(run_loop(cx, node, in, &l));
        for (int32_t k = 0; k < node->n_out; k++) {
            const qb_tensor made = result_of(&l, k);
            QB_TRY(qb_infer_set(cx, args, k, made.desc.dtype, &made.desc.shape));
        }
        return QB_OK;
    }
    for (int32_t i = FIRST; i < n; i++) {
        desc[i] = desc_of(qb_infer_in(args, i));
        if (i >= FIRST + ((const loop_attrs *)node->attrs)->carried) from[i] = qb_infer_in(args, i);
    }
    desc[COUNT] = (qb_desc){.dtype = QB_DTYPE_S64};
    desc[CONDITION] = (qb_desc){.dtype = QB_DTYPE_BOOL};
    return infer_open(cx, args, desc, from);
}

static qb_status eval_loop(qb_ctx *cx, const qb_node *node, const qb_tensor *in, qb_tensor *out) {
    QB_RELEASED(looping_release) looping l = {0};
    qb_status status = run_loop(cx, node, in, &l);
    for (int32_t k = 0; k < node->n_out && status == QB_OK; k++) {
        const qb_tensor made = result_of(&l, k);
        status = give(cx, node, k, &made, &out[k]);
    }
    return status;
}

QB_OP_SIMPLE(loop, "Loop", 7, 2, INT32_MAX, INT32_MAX, sizeof(loop_attrs), loop_table, FLOAT,
             infer_loop, eval_loop, .bound = qb_bound_none);
