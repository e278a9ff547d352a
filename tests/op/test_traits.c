/* What the rows say that operators are, held against what their definitions do: the ONNX node cases
 * and a few more are evaluated again with one element of the data changed at a time. That shows on
 * which elements of the data each element of the result depends. A row that claims what a case
 * refutes fails, and so does one that lacks what all of its cases show.
 *
 * Not seen from here: QB_TRAIT_WINDOW is about work, ALL_OUTPUTS about files, and a missing
 * IN_ORDER, CONVERT or CLASSES only costs a chance. ctest-timeout: 300 */
#include "op_text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "eval/verify.h"
#include "graph/fusion.h"
#include "kernels/ref.h"

#define MOST_IN 16
#define MOST_OUT 8
#define MOST_ELEMENTS 20000 /* of a tensor of a case; larger cases are left out */
#define MOST_CHANGED 150    /* elements of an input that are changed, evenly spread */

/* What the cases of one operator showed. */
typedef struct seen {
    int32_t n_elementwise, n_view, n_reorder, n_in_order, n_convert, n_axis, n_apart, n_items;
    int32_t n_classes, n_shape_only, n_scaled, n_cases;
    bool mixes, reorders_not, turns, crosses_items; /* some case refutes the trait */
    bool moves;                                     /* some result has another shape than in[0] */
} seen;

typedef struct trial {
    qb_ctx cx;
    qb_graph *graph;
    int32_t index;
    const qb_node *node;
    qb_tensor in[MOST_IN], out[MOST_OUT]; /* out: of the unchanged case */
    qb_tensor again[MOST_OUT];
    const char *name;
    seen *seen;
} trial;

static int32_t row_of(const qb_op *op) {
    int32_t n;
    const qb_op *const *ops = qb_ops(&n);
    for (int32_t i = 0; i < n; i++)
        if (ops[i] == op) return i;
    return -1;
}

#define HOLD(t, condition, what)                                                                   \
    do {                                                                                           \
        if (!(condition)) fail_msg("%s, case %s: not %s", (t)->node->op->name, (t)->name, what);   \
    } while (0)

static int64_t count(const qb_tensor *t) { return qb_shape_count(&t->desc.shape); }

static bool eval(trial *t, const qb_tensor *in, qb_tensor *out) {
    qb_ctx_clear(&t->cx);
    return t->node->op->eval(&t->cx, t->node, in, out) == QB_OK;
}

/* The same with other data: not where they give the result another shape. */
static bool eval_changed(trial *t, const qb_tensor *in) {
    qb_value *values = t->graph->values;
    const qb_infer_args args = {.graph = t->graph, .node = t->index};
    for (int32_t k = 0; k < t->node->n_in; k++)
        if (t->node->in[k] >= 0) values[t->node->in[k]].data = in[k].data;
    bool same = t->node->op->infer(&t->cx, &args) == QB_OK;
    for (int32_t j = 0; j < t->node->n_out; j++)
        if (t->node->out[j] >= 0)
            same = same && qb_shape_equal(&values[t->node->out[j]].shape, &t->out[j].desc.shape);
    for (int32_t k = 0; k < t->node->n_in; k++)
        if (t->node->in[k] >= 0) values[t->node->in[k]].data = t->in[k].data;
    return same && eval(t, in, t->again);
}

static qb_tensor copy_of(const qb_tensor *from, bool with_data) {
    qb_tensor to = *from;
    const size_t bytes = qb_desc_bytes(&from->desc);
    to.data = calloc(bytes + 1, 1);
    assert_non_null(to.data);
    if (with_data && bytes > 0) memcpy(to.data, from->data, bytes);
    return to;
}

static bool same_element(const qb_tensor *a, const qb_tensor *b, int64_t i) {
    const size_t size = qb_dtype_size(a->desc.dtype);
    return memcmp((char *)a->data + (size_t)i * size, (char *)b->data + (size_t)i * size, size) ==
           0;
}

/* --- places ----------------------------------------------------------------------------------- */

static void place_of(const qb_shape *shape, int64_t i, int64_t *at) {
    for (int32_t d = shape->rank - 1; d >= 0; i /= shape->dim[d--]) at[d] = i % shape->dim[d];
}

/* Is element o of `out` in the place of element i of the broadcast `in`? */
static bool same_place(const qb_shape *in, int64_t i, const qb_shape *out, int64_t o) {
    int64_t a[QB_MAX_RANK] = {0}, b[QB_MAX_RANK] = {0};
    const int32_t lead = out->rank - in->rank;
    if (lead < 0) return false;
    place_of(in, i, a);
    place_of(out, o, b);
    for (int32_t d = 0; d < in->rank; d++)
        if (a[d] != (in->dim[d] == 1 ? 0 : b[lead + d])) return false;
    return true;
}

/* Do both lie on the same line along the axis? The result may have lost it. */
static bool same_line(const qb_shape *in, int64_t i, const qb_shape *out, int64_t o, int32_t axis) {
    int64_t a[QB_MAX_RANK] = {0}, b[QB_MAX_RANK] = {0};
    const bool lost = out->rank == in->rank - 1;
    if (!lost && out->rank != in->rank) return false;
    place_of(in, i, a);
    place_of(out, o, b);
    for (int32_t d = 0; d < in->rank; d++)
        if (d != axis && a[d] != b[d - (lost && d > axis)]) return false;
    return true;
}

static int32_t axis_of(const trial *t) {
    const int64_t axis = qb_attr_int(t->node, "axis", -1);
    return (int32_t)(axis < 0 ? axis + t->in[0].desc.shape.rank : axis);
}

/* --- one element changed ---------------------------------------------------------------------- */

/* Inputs that are numbers to work on; the others may be shapes, axes and indices. */
static bool is_data(const trial *t, int32_t i) {
    const qb_dtype dtype = t->in[i].desc.dtype;
    if (dtype == QB_DTYPE_NONE) return false;
    return i == 0 || qb_dtype_is_float(dtype) || qb_op_has(t->node->op, QB_TRAIT_ELEMENTWISE) ||
           qb_op_has(t->node->op, QB_TRAIT_REORDER);
}

static void change(qb_tensor *tensor, int64_t i, int round) {
    const qb_dtype dtype = tensor->desc.dtype;
    const double old = qb_number_get(dtype, tensor->data, i);
    double fresh = round ? -old - 0.3 : old + 0.75;
    if (dtype == QB_DTYPE_BOOL) fresh = !(old != 0);
    if (!qb_dtype_is_float(dtype) && dtype != QB_DTYPE_BOOL) fresh = old + (round ? -1 : 1);
    qb_number_put(dtype, tensor->data, i, fresh);
}

/* Element i of input k was changed and element o of output j with it. */
static void check_influence(trial *t, int32_t k, int64_t i, int32_t j, int64_t o) {
    const qb_op *op = t->node->op;
    const qb_shape *in = &t->in[k].desc.shape, *out = &t->out[j].desc.shape;
    const bool place = same_place(in, i, out, o);
    HOLD(t, !qb_op_has(op, QB_TRAIT_SHAPE_ONLY), "of the shapes alone");
    if (j == 0 && !place) {
        HOLD(t, !qb_op_has(op, QB_TRAIT_ELEMENTWISE), "elementwise");
        t->seen->mixes = true;
    }
    if (qb_op_has(op, QB_TRAIT_AXIS) && k == 0)
        HOLD(t, same_line(in, i, out, o, axis_of(t)), "along its axis alone");
    if (k > 0 && in->rank != out->rank) return; /* a weight */
    if (in->rank < 1 || out->rank < 1 || in->dim[0] != out->dim[0]) return;
    const int64_t item = i / (count(&t->in[k]) / in->dim[0]);
    const bool apart = item == o / (count(&t->out[j]) / out->dim[0]);
    if (k == 0 && !apart) t->seen->crosses_items = true;
}

/* The inputs whose items are those of the result. */
static bool has_items(const trial *t, int32_t k, int64_t batch) {
    const qb_shape *shape = &t->in[k].desc.shape;
    if (t->in[k].desc.dtype == QB_DTYPE_NONE || shape->rank < 1 || shape->dim[0] != batch)
        return false;
    return k == 0 || (shape->rank >= 2 && t->node->op->weight_input < 0);
}

static void influence(trial *t, int32_t k) {
    qb_tensor changed[MOST_IN];
    memcpy(changed, t->in, sizeof changed);
    changed[k] = copy_of(&t->in[k], true);
    const int64_t n = count(&t->in[k]), step = n > MOST_CHANGED ? n / MOST_CHANGED : 1;
    const size_t size = qb_dtype_size(t->in[k].desc.dtype);
    for (int64_t i = 0; i < n; i += step)
        for (int round = 0; round < 2; round++) {
            change(&changed[k], i, round);
            int64_t n_changed = 0;
            const bool done = eval_changed(t, changed);
            for (int32_t j = 0; j < t->node->n_out && done; j++)
                for (int64_t o = 0; o < count(&t->out[j]) && t->node->out[j] >= 0; o++) {
                    if (same_element(&t->out[j], &t->again[j], o)) continue;
                    check_influence(t, k, i, j, o);
                    n_changed += j == 0;
                }
            if (done && n_changed != 1 && k == 0) t->seen->reorders_not = true;
            memcpy((char *)changed[k].data + (size_t)i * size,
                   (char *)t->in[k].data + (size_t)i * size, size);
        }
    free(changed[k].data);
}

/* --- the traits ------------------------------------------------------------------------------- */

static bool same_type(const qb_tensor *a, const qb_tensor *b) {
    return a->desc.dtype == b->desc.dtype;
}

static bool same_bytes(const qb_tensor *a, const qb_tensor *b) {
    const size_t n = qb_desc_bytes(&a->desc);
    return n == qb_desc_bytes(&b->desc) && memcmp(a->data, b->data, n) == 0;
}

static size_t sorted_size;
static int by_bytes(const void *a, const void *b) { return memcmp(a, b, sorted_size); }

/* Are the elements of the first n inputs those of the output? */
static bool same_elements(const trial *t, int32_t n) {
    const qb_tensor *out = &t->out[0];
    const size_t total = qb_desc_bytes(&out->desc), size = qb_dtype_size(out->desc.dtype);
    char *a = malloc(total + 1), *b = malloc(total + 1);
    size_t filled = 0;
    bool same = true;
    for (int32_t k = 0; k < n && same; k++) {
        const size_t bytes = qb_desc_bytes(&t->in[k].desc);
        same = same_type(&t->in[k], out) && filled + bytes <= total;
        if (same) memcpy(a + filled, t->in[k].data, bytes);
        filled += bytes;
    }
    same = same && filled == total && size > 0;
    if (same) {
        memcpy(b, out->data, total);
        sorted_size = size;
        qsort(a, total / size, size, by_bytes);
        qsort(b, total / size, size, by_bytes);
        same = memcmp(a, b, total) == 0;
    }
    free(a);
    free(b);
    return same;
}

static void check_moves(trial *t) {
    const qb_op *op = t->node->op;
    const qb_tensor *in = &t->in[0], *out = &t->out[0];
    const bool same_shape = qb_shape_equal(&in->desc.shape, &out->desc.shape);
    t->seen->moves = t->seen->moves || !same_shape;
    if (!same_type(in, out) || !same_bytes(in, out)) t->seen->turns = true;
    if (qb_node_is_view(t->node)) {
        HOLD(t, same_type(in, out) && same_bytes(in, out), "a view");
        t->seen->n_view++;
    }
    if (!same_elements(t, 1)) t->seen->reorders_not = true;
    if (qb_op_has(op, QB_TRAIT_REORDER)) {
        HOLD(t, same_elements(t, qb_reordered_inputs(t->node)), "a reordering");
        t->seen->n_reorder++;
    }
    const bool wanted = t->node->n_out == 1 && same_shape && same_type(in, out);
    if (qb_op_has(op, QB_TRAIT_IN_ORDER) && wanted) {
        HOLD(t, same_bytes(in, out), "in order");
        t->seen->n_in_order++;
    }
    if (op->max_in == INT32_MAX && t->node->n_in == 1 && wanted &&
        op->traits & (QB_TRAIT_ELEMENTWISE | QB_TRAIT_REORDER))
        HOLD(t, same_bytes(in, out), "its only input");
}

/* Small integers are the same numbers in all types. */
static void check_convert(trial *t) {
    qb_tensor in[MOST_IN];
    if (!qb_op_has(t->node->op, QB_TRAIT_CONVERT)) return;
    memcpy(in, t->in, sizeof in);
    in[0] = copy_of(&t->in[0], false);
    for (int64_t i = 0; i < count(&in[0]); i++)
        qb_number_put(in[0].desc.dtype, in[0].data, i, (double)(i % 2));
    if (eval_changed(t, in)) {
        for (int64_t i = 0; i < count(&in[0]); i++)
            HOLD(t,
                 qb_number_get(in[0].desc.dtype, in[0].data, i) ==
                     qb_number_get(t->again[0].desc.dtype, t->again[0].data, i),
                 "the same number");
        t->seen->n_convert++;
    }
    free(in[0].data);
}

static void reverse(const qb_tensor *from, qb_tensor *to) {
    const size_t size = qb_dtype_size(from->desc.dtype);
    const int64_t n = count(from);
    for (int64_t i = 0; i < n; i++)
        memcpy((char *)to->data + (size_t)i * size, (char *)from->data + (size_t)(n - 1 - i) * size,
               size);
}

/* Does the result follow when the elements of all inputs change places? */
static void permute(trial *t) {
    qb_tensor in[MOST_IN];
    memcpy(in, t->in, sizeof in);
    for (int32_t k = 0; k < t->node->n_in; k++)
        if (count(&t->in[k]) > 1 && !qb_shape_equal(&t->in[k].desc.shape, &t->out[0].desc.shape))
            return;
    for (int32_t k = 0; k < t->node->n_in; k++) {
        in[k] = copy_of(&t->in[k], true);
        if (count(&in[k]) > 1) reverse(&t->in[k], &in[k]);
    }
    qb_tensor expected = copy_of(&t->out[0], false);
    reverse(&t->out[0], &expected);
    if (eval_changed(t, in) && !same_bytes(&expected, &t->again[0])) t->seen->mixes = true;
    for (int32_t k = 0; k < t->node->n_in; k++) free(in[k].data);
    free(expected.data);
}

static void check_elementwise(trial *t) {
    if (!qb_op_has(t->node->op, QB_TRAIT_ELEMENTWISE)) return;
    qb_shape shape = {0};
    for (int32_t k = 0; k < t->node->n_in; k++) {
        const qb_shape *in = &t->in[k].desc.shape;
        if (t->in[k].desc.dtype == QB_DTYPE_NONE) continue;
        for (int32_t d = in->rank - 1, e; d >= 0; d--) {
            e = d + (in->rank > shape.rank ? 0 : shape.rank - in->rank);
            if (in->rank > shape.rank) {
                memmove(shape.dim + in->rank - shape.rank, shape.dim,
                        (size_t)shape.rank * sizeof *shape.dim);
                for (int32_t f = 0; f < in->rank - shape.rank; f++) shape.dim[f] = 1;
                shape.rank = in->rank;
            }
            if (in->dim[d] != 1) shape.dim[e] = in->dim[d];
        }
    }
    HOLD(t, qb_shape_equal(&shape, &t->out[0].desc.shape), "of the broadcast shape");
    HOLD(t, !t->seen->mixes, "elementwise");
    t->seen->n_elementwise++;
}

/* The greatest score is the class, and stays the most probable one. */
static void check_classes(trial *t) {
    const qb_op *op = t->node->op;
    const qb_shape *x = &t->in[0].desc.shape, *y = &t->out[0].desc.shape;
    if (!qb_op_has(op, QB_TRAIT_CLASSES)) return;
    const int32_t axis = axis_of(t);
    int64_t inner = 1, outer = 1;
    for (int32_t d = 0; d < x->rank; d++)
        *(d < axis ? &outer : &inner) *= d == axis ? 1 : x->dim[d];
    const int64_t length = x->dim[axis];
    const bool index = !qb_shape_equal(x, y);
    for (int64_t line = 0; line < outer * inner; line++) {
        const int64_t at = line / inner * length * inner + line % inner;
        double most = -INFINITY, likely = -INFINITY;
        int64_t chosen = 0;
        for (int64_t c = 0; c < length; c++) {
            const double score = qb_number_get(t->in[0].desc.dtype, t->in[0].data, at + c * inner);
            const double p =
                index ? 0 : qb_number_get(t->out[0].desc.dtype, t->out[0].data, at + c * inner);
            most = fmax(most, score);
            if (!index && p > likely) likely = p, chosen = c;
        }
        if (index) chosen = (int64_t)qb_number_get(t->out[0].desc.dtype, t->out[0].data, line);
        HOLD(t, qb_number_get(t->in[0].desc.dtype, t->in[0].data, at + chosen * inner) == most,
             "a class of the scores");
    }
    t->seen->n_classes++;
}

/* What moves or selects numbers does the same with four times them. */
static void check_same_scale(trial *t) {
    const qb_op *op = t->node->op;
    qb_tensor in[MOST_IN];
    if (op->qrule != QB_QRULE_SAME_SCALE || op->of_plugin) return;
    if (t->in[0].desc.dtype != QB_DTYPE_F32 || t->out[0].desc.dtype != QB_DTYPE_F32) return;
    const int32_t n = op->max_in == INT32_MAX ? t->node->n_in : 1;
    memcpy(in, t->in, sizeof in);
    for (int32_t k = 0; k < n; k++) {
        in[k] = copy_of(&t->in[k], true);
        for (int64_t i = 0; i < count(&in[k]); i++) ((float *)in[k].data)[i] *= 4;
    }
    assert_true(eval_changed(t, in));
    for (int64_t o = 0; o < count(&t->out[0]); o++)
        HOLD(t, ((float *)t->again[0].data)[o] == 4 * ((float *)t->out[0].data)[o], "of one scale");
    for (int32_t k = 0; k < n; k++) free(in[k].data);
    t->seen->n_scaled++;
}

/* --- items ------------------------------------------------------------------------------------ */

/* Values with and without data are variables and constants to the graph. */
static bool claims_items(trial *t, int64_t batch) {
    const void *data[MOST_IN];
    for (int32_t k = 0; k < t->node->n_in; k++) {
        if (t->node->in[k] < 0) continue;
        qb_value *value = &t->graph->values[t->node->in[k]];
        data[k] = value->data;
        if (has_items(t, k, batch)) value->data = NULL;
    }
    const bool claims = qb_node_is_itemwise(t->graph, t->node);
    for (int32_t k = 0; k < t->node->n_in; k++)
        if (t->node->in[k] >= 0) t->graph->values[t->node->in[k]].data = data[k];
    return claims;
}

static bool scales(const qb_shape *whole, const qb_shape *one, int64_t batch) {
    if (whole->rank != one->rank || whole->rank < 1 || one->dim[0] != 1) return false;
    for (int32_t d = 1; d < whole->rank; d++)
        if (whole->dim[d] != one->dim[d]) return false;
    return whole->dim[0] == batch;
}

/* Runs item n alone; false where the operator cannot. */
static bool run_item(trial *t, int64_t batch, int64_t n) {
    qb_tensor in[MOST_IN], out[MOST_OUT];
    qb_desc whole[MOST_OUT];
    bool same = true;
    memcpy(in, t->in, sizeof in);
    for (int32_t k = 0; k < t->node->n_in; k++) {
        if (!has_items(t, k, batch)) continue;
        in[k].desc.shape.dim[0] = 1;
        in[k].data = (char *)t->in[k].data + (size_t)n * qb_desc_bytes(&in[k].desc);
        t->graph->values[t->node->in[k]].shape = in[k].desc.shape;
    }
    for (int32_t j = 0; j < t->node->n_out; j++) whole[j] = t->out[j].desc;
    bool fits =
        t->node->op->infer(&t->cx, &(qb_infer_args){.graph = t->graph, .node = t->index}) == QB_OK;
    for (int32_t j = 0; j < t->node->n_out && fits; j++) {
        if (t->node->out[j] < 0) continue;
        const qb_value *value = &t->graph->values[t->node->out[j]];
        fits = scales(&whole[j].shape, &value->shape, batch) && value->dtype == whole[j].dtype;
        out[j] = t->again[j];
        out[j].desc.shape = value->shape;
    }
    if (fits && eval(t, in, out))
        for (int32_t j = 0; j < t->node->n_out; j++) {
            if (t->node->out[j] < 0) continue;
            const size_t bytes = qb_desc_bytes(&out[j].desc);
            same =
                same && memcmp(out[j].data, (char *)t->out[j].data + (size_t)n * bytes, bytes) == 0;
        }
    else
        fits = false;
    qb_ctx_clear(&t->cx);
    for (int32_t k = 0; k < t->node->n_in; k++)
        if (t->node->in[k] >= 0) t->graph->values[t->node->in[k]].shape = t->in[k].desc.shape;
    for (int32_t j = 0; j < t->node->n_out; j++)
        if (t->node->out[j] >= 0) t->graph->values[t->node->out[j]].shape = whole[j].shape;
    if (!same) t->seen->crosses_items = true;
    return fits;
}

static void check_items(trial *t) {
    const qb_shape *x = &t->in[0].desc.shape;
    const int64_t batch = x->rank > 0 ? x->dim[0] : 1;
    if (batch < 2 || t->out[0].desc.shape.rank < 1 || t->out[0].desc.shape.dim[0] != batch) return;
    const bool claims = claims_items(t, batch), crossed = t->seen->crosses_items;
    t->seen->crosses_items = false;
    bool all = true;
    for (int64_t n = 0; n < batch && all; n++) all = run_item(t, batch, n);
    if (claims && all) {
        HOLD(t, !t->seen->crosses_items, "item-wise");
        t->seen->n_apart++;
    }
    t->seen->n_items += all;
    t->seen->crosses_items = t->seen->crosses_items || crossed;
}

/* --- cases ------------------------------------------------------------------------------------ */

static bool load_tensors(trial *t) {
    if (t->node->n_in > MOST_IN || t->node->n_out > MOST_OUT || t->node->n_in < 1 ||
        t->node->in[0] < 0 || t->node->out[0] < 0)
        return false;
    for (int32_t k = 0; k < t->node->n_in; k++) {
        t->in[k] = (qb_tensor){0};
        if (t->node->in[k] < 0) continue;
        const qb_value *v = &t->graph->values[t->node->in[k]];
        if (!v->data) return false;
        t->in[k] = qb_tensor_of(v->dtype, v->shape, (void *)(uintptr_t)v->data);
        if (count(&t->in[k]) < 0 || count(&t->in[k]) > MOST_ELEMENTS) return false;
    }
    for (int32_t j = 0; j < t->node->n_out; j++) {
        t->out[j] = t->again[j] = (qb_tensor){0};
        if (t->node->out[j] < 0) continue;
        const qb_value *v = &t->graph->values[t->node->out[j]];
        if (!qb_shape_known(&v->shape) || v->dtype == QB_DTYPE_NONE) return false;
        t->out[j] = qb_tensor_of(v->dtype, v->shape, NULL);
        if (count(&t->out[j]) > MOST_ELEMENTS) return false;
    }
    return true;
}

/* The graph's one node with constant inputs. */
static void try_node(qb_graph *graph, int32_t index, const char *name, seen *all) {
    trial t = {.graph = graph, .index = index, .node = &graph->nodes[index], .name = name};
    const int32_t row = row_of(t.node->op);
    qb_ctx_init(&t.cx);
    if (row < 0 ||
        t.node->op->infer(&t.cx, &(qb_infer_args){.graph = graph, .node = index}) != QB_OK ||
        !load_tensors(&t))
        return;
    t.seen = &all[row];
    for (int32_t j = 0; j < t.node->n_out; j++) {
        if (t.node->out[j] < 0) continue;
        t.out[j] = copy_of(&t.out[j], false);
        t.again[j] = copy_of(&t.out[j], false);
    }
    if (eval(&t, t.in, t.out)) {
        const bool numbers = qb_dtype_size(t.in[0].desc.dtype) > 0 && count(&t.in[0]) > 1;
        t.seen->n_cases += numbers;
        for (int32_t k = 0; k < t.node->n_in && numbers; k++)
            if (is_data(&t, k)) influence(&t, k);
        if (numbers) check_moves(&t);
        t.seen->n_axis += qb_op_has(t.node->op, QB_TRAIT_AXIS) && numbers;
        t.seen->n_shape_only += qb_op_has(t.node->op, QB_TRAIT_SHAPE_ONLY) && numbers;
        check_convert(&t);
        if (numbers) permute(&t);
        check_elementwise(&t);
        check_classes(&t);
        check_same_scale(&t);
        check_items(&t);
    }
    for (int32_t j = 0; j < t.node->n_out; j++) {
        free(t.out[j].data);
        free(t.again[j].data);
    }
}

/* Its inputs become constants. */
static qb_status fix_inputs(qb_ctx *cx, qb_graph *graph, const char *folder) {
    for (int32_t i = 0; i < graph->n_inputs; i++) {
        qb_tensor tensor;
        char *path = qb_format(cx, "%s/test_data_set_0/input_%d.pb", folder, (int)i);
        const bool there = path && qb_path_exists(path);
        qb_status status = there ? qb_onnx_load_tensor(cx, path, &tensor, NULL) : QB_OK;
        qb_free(path);
        if (status != QB_OK) return status;
        if (!there) continue;
        qb_value *value = &graph->values[graph->inputs[i]];
        value->dtype = tensor.desc.dtype;
        value->shape = tensor.desc.shape;
        value->bytes = qb_desc_bytes(&tensor.desc);
        value->data = qb_arena_alloc(cx, graph->arena, value->bytes + 1, 1);
        if (value->data && value->bytes)
            memcpy((void *)(uintptr_t)value->data, tensor.data, value->bytes);
        qb_free(tensor.data);
        if (!value->data) return cx->code;
    }
    return QB_OK;
}

static void try_case(const char *folder, seen *all) {
    qb_ctx cx;
    qb_graph *graph = NULL;
    qb_ctx_init(&cx);
    char *path = qb_format(&cx, "%s/model.onnx", folder);
    if (qb_onnx_load_unfolded(&cx, path, &graph) == QB_OK &&
        fix_inputs(&cx, graph, folder) == QB_OK) {
        int32_t n = 0, index = -1;
        for (int32_t i = 0; i < graph->n_nodes; i++)
            if (graph->nodes[i].op) n++, index = i;
        if (n == 1) try_node(graph, index, qb_path_base(folder), all);
    }
    qb_free(path);
    qb_graph_free(graph);
}

/* Where ONNX's cases leave gaps: a result of the input's shape, an axis that is not the first,
 * several items, one input of many. */
static const struct {
    const char *op, *inputs, *attrs;
    int32_t n_out;
} more[] = {
    {"Expand", "f32:3,4 =3,4", "", 1},
    {"Expand", "f32:3,4 =2,3,4", "", 1},
    {"Expand", "f32:3,1,2 =1,4,2", "", 1},
    {"Col2Im", "f32:2,4,9 =4,4 =2,2", "", 1},
    {"GridSample", "f32:2,1,3,3 f32:2,2,2,2", "", 1},
    {"Resize", "f32:2,1,3,3 - =f32:1,1,2,2", "", 1},
    {"ReverseSequence", "f32:3,4 =2,3,1,2", "time_axis=0 batch_axis=1", 1},
    {"BitShift", "u8:3,4 u8:3,4", "direction=LEFT", 1},
    {"EyeLike", "f32:3,4", "", 1},
    {"Size", "f32:3,4", "", 1},
    {"Slice", "f32:3,4 =-1 =-4 =0 =-1", "", 1},
    {"Einsum", "f32:3,3", "equation=ij->ji", 1},
    {"Trilu", "f32:4,4", "", 1},
    {"Tile", "f32:3,4 =1,1", "", 1},
    {"Tile", "f32:3,4 =1,2", "", 1},
    {"Split", "f32:3,4", "axis=1", 1},
    {"Split", "f32:3,4,2", "axis=1", 2},
    {"Concat", "f32:3,4", "axis=1", 1},
    {"Concat", "f32:3,2 f32:3,4", "axis=1", 1},
    {"Max", "f32:3,4", "", 1},
    {"Mean", "f32:3,4", "", 1},
    {"Cast", "f32:3,4", "to=1", 1},
    {"CastLike", "f32:3,4 f32:1", "", 1},
    {"Identity", "f32:3,4", "", 1},
    {"Dropout", "f32:3,4", "", 1},
    {"Reshape", "f32:3,4 =3,2,2", "", 1},
    {"Reshape", "f32:3,4 =-1,4", "", 1},
    {"Flatten", "f32:3,4,2", "axis=1", 1},
    {"Squeeze", "f32:3,1,4 =1", "", 1},
    {"Unsqueeze", "f32:3,4 =1", "", 1},
    {"Transpose", "f32:3,4,2", "perm=0,2,1", 1},
    {"Transpose", "f32:3,3", "perm=1,0", 1},
    {"DepthToSpace", "f32:2,4,2,3", "blocksize=2", 1},
    {"SpaceToDepth", "f32:2,1,4,6", "blocksize=2", 1},
    {"ArgMax", "f32:3,4", "axis=1 keepdims=1", 1},
    {"ArgMin", "f32:3,4", "axis=1 keepdims=0", 1},
    {"TopK", "f32:3,4 =2", "axis=1", 2},
    {"Conv", "f32:3,2,5,5 f32:4,2,3,3 f32:4", "", 1},
    {"ConvTranspose", "f32:3,2,4,4 f32:2,3,3,3", "", 1},
    {"Gemm", "f32:3,4 f32:4,5 f32:5", "", 1},
    {"Gemm", "f32:4,4 f32:4,4", "transA=1", 1},
    {"MatMul", "f32:3,4 f32:4,5", "", 1},
    {"MatMul", "f32:3,2,4 f32:4,5", "", 1},
    {"Add", "f32:4,4 f32:4,4", "", 1},
    {"Add", "f32:4,4 f32:4", "", 1},
    {"BatchNormalization", "f32:3,2,4 f32:2 f32:2 f32:2 f32:2", "", 1},
    {"InstanceNormalization", "f32:3,2,4 f32:2 f32:2", "", 1},
    {"GroupNormalization", "f32:3,4,5 f32:4 f32:4", "num_groups=2", 1},
    {"LayerNormalization", "f32:3,2,4 f32:4 f32:4", "", 1},
    {"LayerNormalization", "f32:3,4 f32:3,4", "axis=0", 1},
    {"RMSNormalization", "f32:3,2,4 f32:4", "", 1},
    {"LRN", "f32:3,4,2,2", "size=3", 1},
    {"LpNormalization", "f32:3,4", "axis=1", 1},
    {"LpPool", "f32:3,2,5,5", "kernel_shape=2,2", 1},
    {"MaxPool", "f32:3,2,5,5", "kernel_shape=2,2", 1},
    {"AveragePool", "f32:3,2,5,5", "kernel_shape=2,2", 1},
    {"GlobalMaxPool", "f32:3,2,5,5", "", 1},
    {"GlobalAveragePool", "f32:3,2,5,5", "", 1},
    {"GlobalLpPool", "f32:3,2,5,5", "", 1},
    {"Pad", "f32:3,4 =0,1,0,2", "", 1},
    {"Gather", "f32:3,4 =1,2,3", "axis=1", 1},
    {"GatherElements", "f32:3,4 s64:3,2", "axis=1", 1},
    {"Hardmax", "f32:3,4", "axis=1", 1},
    {"LogSoftmax", "f32:3,4,2", "axis=1", 1},
    {"Softmax", "f32:3,4,2", "axis=1", 1},
    {"Softmax", "f32:3,4", "axis=0", 1},
    {"QuantizeLinear", "f32:3,4 =f32:0.25", "", 1},
    {"QuantizeLinear", "f32:2,4 =f32:0.25,0.5", "axis=0", 1},
    {"DequantizeLinear", "u8:3,4 =f32:0.25", "", 1},
    {"DequantizeLinear", "u8:2,4 =f32:0.25,0.5", "axis=0", 1},
    {"ReduceMean", "f32:3,4,2 =1", "", 1},
    {"ReduceMax", "f32:3,4 =0", "", 1},
};

/* A value between -2 and 2, other for each element. */
static void fill(qb_graph *graph, int32_t id) {
    qb_value *value = &graph->values[id];
    const qb_desc desc = {.dtype = value->dtype, .shape = value->shape};
    qb_ctx cx;
    qb_ctx_init(&cx);
    if (value->data) return;
    value->bytes = qb_desc_bytes(&desc);
    char *data = qb_arena_alloc(&cx, graph->arena, value->bytes + 1, 1);
    assert_non_null(data);
    for (int64_t i = 0; i < qb_shape_count(&value->shape); i++) {
        const double number = (double)((i * 37 + id * 11) % 101) / 25 - 2;
        qb_number_put(value->dtype, data, i,
                      qb_dtype_is_float(value->dtype) ? number : (double)((i + id) % 3 == 0));
    }
    value->data = data;
}

static void try_more(seen *all) {
    for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
        qb_graph *graph =
            graph_of(more[i].op, more[i].inputs, more[i].attrs, more[i].n_out, QB_GRAPH_OPSET);
        for (int32_t k = 0; k < graph->nodes[0].n_in; k++) fill(graph, graph->nodes[0].in[k]);
        try_node(graph, 0, more[i].inputs, all);
        qb_graph_free(graph);
    }
}

/* Elementwise operators on one shape, and with a last input that broadcasts. */
static void try_elementwise(seen *all) {
    static const char *const types[] = {"f32", "bool", "s32", "u8"};
    int32_t n;
    const qb_op *const *ops = qb_ops(&n);
    for (int32_t i = 0; i < n; i++)
        for (size_t k = 0; k < 2 * sizeof types / sizeof *types; k++) {
            if (!qb_op_has(ops[i], QB_TRAIT_ELEMENTWISE) || *ops[i]->domain) continue;
            char inputs[160] = "";
            for (int32_t j = 0; j < ops[i]->min_in; j++) {
                const bool last = j > 0 && j == ops[i]->min_in - 1 && k % 2;
                const bool choice = j == 0 && ops[i]->min_in == 3; /* Where */
                snprintf(inputs + strlen(inputs), sizeof inputs - strlen(inputs), "%s%s:%s",
                         j ? " " : "", choice ? "bool" : types[k / 2], last ? "4" : "3,4");
            }
            qb_graph *graph = graph_of(ops[i]->name, inputs, "", 1, QB_GRAPH_OPSET);
            for (int32_t j = 0; j < graph->nodes[0].n_in; j++) fill(graph, graph->nodes[0].in[j]);
            try_node(graph, 0, inputs, all);
            qb_graph_free(graph);
        }
}

/* A trait that the row has and no case tried, or lacks though all cases show it. */
static int32_t judge(const qb_op *op, const seen *s) {
    const struct {
        qb_trait trait;
        const char *name;
        int32_t n_checked;
        bool shown;
    } rows[] = {
        {QB_TRAIT_ELEMENTWISE, "elementwise", s->n_elementwise, !s->mixes && !s->moves},
        {QB_TRAIT_VIEW, "view", s->n_view, !s->turns && s->moves},
        {QB_TRAIT_REORDER, "reorder", s->n_reorder, !s->reorders_not && s->turns},
        {QB_TRAIT_IN_ORDER, "in-order", s->n_in_order, false},
        {QB_TRAIT_CONVERT, "convert", s->n_convert, false},
        {QB_TRAIT_AXIS, "axis", s->n_axis, false},
        {QB_TRAIT_ITEMWISE, "item-wise", s->n_apart, !s->crosses_items && s->n_items > 1},
        {QB_TRAIT_CLASSES, "classes", s->n_classes, false},
        {QB_TRAIT_SHAPE_ONLY, "shape-only", s->n_shape_only, false},
    };
    const uint32_t itemwise = QB_TRAIT_ELEMENTWISE | QB_TRAIT_VIEW | QB_TRAIT_AXIS;
    int32_t wrong = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const bool has = qb_op_has(op, rows[i].trait);
        if (has && rows[i].n_checked == 0) {
            print_error("%s: no case tries the trait %s\n", op->name, rows[i].name);
            wrong++;
        }
        if (rows[i].trait == QB_TRAIT_ITEMWISE && op->traits & itemwise) continue;
        /* its cache may be a constant for all items together */
        if (rows[i].trait == QB_TRAIT_ITEMWISE && strcmp(op->name, "RotaryEmbedding") == 0)
            continue;
        if (!has && rows[i].shown && s->n_cases > 1) {
            print_error("%s: all %d cases are %s, the row is not\n", op->name, (int)s->n_cases,
                        rows[i].name);
            wrong++;
        }
    }
    return wrong;
}

static void rows_say_what_definitions_do(void **state) {
    (void)state;
    char root[QB_TEST_PATH];
    qb_test_need_shared(root, "onnx-node-tests");
    qb_ctx cx;
    qb_ctx_init(&cx);
    char **cases;
    int32_t n, n_ops, wrong = 0;
    const qb_op *const *ops = qb_ops(&n_ops);
    seen *all = calloc((size_t)n_ops, sizeof *all);
    assert_ok(&cx, qb_cases_find(&cx, root, &cases, &n));
    for (int32_t i = 0; i < n; i++) try_case(cases[i], all);
    qb_cases_free(cases, n);
    try_more(all);
    try_elementwise(all);
    for (int32_t i = 0; i < n_ops; i++) wrong += judge(ops[i], &all[i]);
    free(all);
    assert_int_equal(wrong, 0);
}

/* What follows from what. */
static void traits_agree_with_the_rest_of_the_row(void **state) {
    (void)state;
    int32_t n;
    const qb_op *const *ops = qb_ops(&n);
    for (int32_t i = 0; i < n; i++) {
        const qb_op *op = ops[i];
        const qb_kind kind = op->kernel.kind;
        const bool by_name = strstr(op->name, "Quantize") || strstr(op->name, "QLinear") ||
                             strstr(op->name, "Integer") || strcmp(op->name, "QGemm") == 0 ||
                             strcmp(op->name, "QAttention") == 0;
        bool axis = false, window = op->qrule == QB_QRULE_COMPUTE || kind == QB_KIND_ATTENTION ||
                                    kind == QB_KIND_MATMUL_INTEGER || kind == QB_KIND_MATMUL_SCALED;
        for (const qb_attr_desc *a = op->attrs; a && a->name; a++) {
            axis = axis || strcmp(a->name, "axis") == 0;
            window = window || (kind == QB_KIND_POOL && strcmp(a->name, "kernel_shape") == 0);
        }
        if (by_name != qb_op_has(op, QB_TRAIT_INTEGERS)) fail_msg("%s: integers", op->name);
        if (op->qrule == QB_QRULE_LUT && !qb_op_has(op, QB_TRAIT_ELEMENTWISE))
            fail_msg("%s: a table, but not elementwise", op->name);
        if (qb_op_has(op, QB_TRAIT_AXIS) && !axis) fail_msg("%s: no attribute axis", op->name);
        if ((kind == QB_KIND_UNARY || kind == QB_KIND_BINARY) !=
            (qb_op_has(op, QB_TRAIT_ELEMENTWISE) && kind != QB_KIND_NODE && kind != QB_KIND_COPY))
            fail_msg("%s: its kernel is elementwise, the row is not", op->name);
        if ((op->kernel.act != QB_ACT_NONE) != (kind == QB_KIND_UNARY))
            fail_msg("%s: an activation without a kind", op->name);
        if (window && !qb_op_has(op, QB_TRAIT_WINDOW))
            fail_msg("%s: a window without the work", op->name);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(rows_say_what_definitions_do),
    cmocka_unit_test(traits_agree_with_the_rest_of_the_row),
};
QB_TEST_MAIN(tests)
