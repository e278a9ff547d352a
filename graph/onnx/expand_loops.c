/* Loop and Scan: as many copies of the body as there are iterations, known from constants (Loop) or
 * from the shape of what is gone through (Scan). */
#include <string.h>

#include "expand_internal.h"

#define MAX_ITERATIONS 1024

/* A loop at work. Carried values go from iteration to iteration; what each iteration yields is
 * gathered and put side by side at the end. All names are the graph's. */
typedef struct loop {
    const Onnx__NodeProto *node;
    const Onnx__GraphProto *body;
    size_t n_carried, n_gathered;
    const char **carried, **gathered; /* gathered: [trips] of each */
    const char *condition;            /* Loop: true, as each iteration finds it */
    int64_t trips;                    /* at most MAX_ITERATIONS */
    size_t done;                      /* iterations */
    bool open; /* Loop: it cannot be told whether there is a next one, or there are too many */
} loop;

static qb_status prepare(qb_expander *e, const qb_frame *f, loop *l, size_t first_carried) {
    l->carried = qb_expand_alloc(e, l->n_carried, sizeof *l->carried);
    l->gathered = qb_expand_alloc(e, l->n_gathered * (size_t)l->trips, sizeof *l->gathered);
    if (!l->carried || !l->gathered) return e->cx->code;
    for (size_t i = 0; i < l->n_carried; i++)
        l->carried[i] = qb_frame_find(f, l->node->input[first_carried + i]);
    return QB_OK;
}

/* The body's outputs from `first` on: carried values, then gathered ones. */
static void take_outputs(loop *l, const qb_frame *f, size_t first) {
    for (size_t i = 0; i < l->n_carried + l->n_gathered; i++) {
        const char *from = qb_frame_find(f, qb_onnx_text(l->body->output[first + i]->name));
        if (i < l->n_carried)
            l->carried[i] = from;
        else
            l->gathered[(i - l->n_carried) * (size_t)l->trips + l->done] = from;
    }
}

/* What the iterations yielded side by side along a new dimension `axis`, from the last on when
 * reversed. */
static qb_status emit_gathered(qb_expander *e, const char **items, size_t n, int64_t axis,
                               bool reversed, const char *to) {
    const char *axes;
    QB_TRY(qb_expand_scalar(e, QB_ONNX_TYPE_S64, axis, &axes));
    for (size_t i = 0; i < n; i++) {
        const char *in[2] = {items[i], axes};
        char *wide = QB_NEW(e->cx, qb_expand_name(e, "loop"));
        QB_TRY(qb_expand_emit(e, "Unsqueeze", 2, in, wide, NULL, 0));
        items[i] = wide;
    }
    for (size_t i = 0; i < n / 2 && reversed; i++) {
        const char *other = items[n - 1 - i];
        items[n - 1 - i] = items[i];
        items[i] = other;
    }
    return qb_expand_emit(e, "Concat", n, items, to, "axis", axis);
}

/* --- Loop ------------------------------------------------------------------------------------- */

static qb_status loop_iteration(qb_expander *e, const qb_frame *outer, loop *l, bool *again) {
    const Onnx__GraphProto *body = l->body;
    const char *number;
    int64_t more = 0;
    QB_RELEASED(qb_frame_release) qb_frame f = {0};
    QB_TRY(qb_frame_open(e, outer, outer->imports, &f));
    QB_TRY(qb_expand_scalar(e, QB_ONNX_TYPE_S64, (int64_t)l->done, &number));
    for (size_t i = 0; i < body->n_input; i++)
        QB_TRY(qb_frame_bind(e, &f, qb_onnx_text(body->input[i]->name),
                             i == 0   ? number
                             : i == 1 ? l->condition
                                      : l->carried[i - 2]));
    QB_TRY(qb_expand_nodes(e, &f, body->n_node, body->node));
    take_outputs(l, &f, 1);
    l->open = !qb_expand_constant(e, qb_frame_find(&f, qb_onnx_text(body->output[0]->name)), &more);
    *again = more != 0;
    l->done++;
    return QB_OK;
}

static qb_status unroll_loop(qb_expander *e, qb_frame *f, loop *l, int64_t trips) {
    qb_frame shared; /* its initializers do not change */
    bool again = true;
    qb_status status;
    QB_GO(qb_frame_open(e, f, f->imports, &shared));
    QB_GO(qb_expand_scalar(e, QB_ONNX_TYPE_BOOL, 1, &l->condition));
    QB_GO(qb_expand_initializers(e, &shared, l->body));
    for (int64_t i = 0; i < l->trips && again && status == QB_OK && !l->open; i++)
        status = loop_iteration(e, &shared, l, &again);
    /* after the last trip nobody asks for the condition */
    if (l->done == (size_t)l->trips) l->open = again && trips > l->trips;
    for (size_t i = 0; i < l->node->n_output && status == QB_OK && !l->open; i++) {
        const char *to;
        QB_GO(qb_frame_define(e, f, l->node->output[i], &to));
        if (!*to) continue;
        if (i < l->n_carried)
            QB_GO(qb_expand_emit(e, "Identity", 1, &l->carried[i], to, NULL, 0));
        else
            QB_GO(emit_gathered(e, l->gathered + (i - l->n_carried) * (size_t)l->trips, l->done, 0,
                                false, to));
    }
out:
    qb_frame_release(&shared);
    return status;
}

/* Loop(trips, condition, carried...) with body(number, condition, carried...) -> (condition,
 * carried..., gathered...). */
qb_status qb_expand_loop(qb_expander *e, qb_frame *f, const Onnx__NodeProto *node, bool *done) {
    int64_t condition = 1, trips = INT64_MAX;
    loop l = {.node = node, .body = qb_expand_body(node, "body")};
    *done = false;
    if (node->n_input < 2 || !l.body) return QB_OK;
    if (*node->input[0] && !qb_expand_constant(e, qb_frame_find(f, node->input[0]), &trips))
        return QB_OK;
    if (*node->input[1] && !qb_expand_constant(e, qb_frame_find(f, node->input[1]), &condition))
        return QB_OK;
    l.n_carried = node->n_input - 2;
    if (l.body->n_input != node->n_input || l.body->n_output != 1 + node->n_output ||
        node->n_output < l.n_carried)
        return QB_OK;
    if (!condition || trips < 0) trips = 0;
    l.trips = trips < MAX_ITERATIONS ? trips : MAX_ITERATIONS;
    l.n_gathered = node->n_output - l.n_carried;
    if (l.n_gathered > 0 && trips == 0) return QB_OK; /* of no shape that could be told */
    const size_t before = e->n;
    qb_status status = prepare(e, f, &l, 2);
    if (status == QB_OK) status = unroll_loop(e, f, &l, trips);
    if (status == QB_OK && l.open) e->n = before; /* it stays a Loop, and is refused by name */
    *done = !l.open;
    return status;
}

/* --- Scan ------------------------------------------------------------------------------------- */

/* What Scan's attributes say of inputs and outputs: empty lists are zeros. */
typedef struct scan_attrs {
    int64_t n_inputs; /* that are gone through; the others are carried */
    const Onnx__AttributeProto *in_axes, *in_reversed, *out_axes, *out_reversed;
} scan_attrs;

static scan_attrs read_scan_attrs(const Onnx__NodeProto *node) {
    scan_attrs out = {0};
    for (size_t i = 0; i < node->n_attribute; i++) {
        const Onnx__AttributeProto *attr = node->attribute[i];
        const char *name = qb_onnx_text(attr->name);
        if (strcmp(name, "num_scan_inputs") == 0) out.n_inputs = attr->i;
        if (strcmp(name, "scan_input_axes") == 0) out.in_axes = attr;
        if (strcmp(name, "scan_input_directions") == 0) out.in_reversed = attr;
        if (strcmp(name, "scan_output_axes") == 0) out.out_axes = attr;
        if (strcmp(name, "scan_output_directions") == 0) out.out_reversed = attr;
    }
    return out;
}

static int64_t item(const Onnx__AttributeProto *list, size_t i) {
    return list && i < list->n_ints ? list->ints[i] : 0;
}

/* A list of directions: as many as there are values, each 0 or 1. */
static qb_status check_directions(qb_ctx *cx, const Onnx__AttributeProto *list, size_t n) {
    if (list && list->n_ints > 0 && list->n_ints != n)
        return qb_fail(cx, QB_STATUS_FORMAT, "%s: expected %zu values, got %zu", list->name, n,
                       list->n_ints);
    for (size_t i = 0; list && i < list->n_ints; i++)
        if (list->ints[i] != 0 && list->ints[i] != 1)
            return qb_fail(cx, QB_STATUS_FORMAT, "%s: expected 0 or 1, got %lld", list->name,
                           (long long)list->ints[i]);
    return QB_OK;
}

/* The size of a value of the graph along an axis; -1: not known. */
static int64_t length_of(qb_expander *e, const char *name, int64_t axis) {
    qb_value value;
    qb_graph *owner;
    if (!qb_expand_evaluate(e, name, &value, &owner)) return -1;
    qb_graph_free(owner);
    if (axis < 0) axis += value.shape.rank;
    return axis < 0 || axis >= value.shape.rank ? -1 : value.shape.dim[axis];
}

/* Item `at` of an input that is gone through. */
static qb_status emit_item(qb_expander *e, const char *from, int64_t axis, int64_t at,
                           const char **out) {
    const char *in[2] = {from, NULL};
    QB_TRY(qb_expand_scalar(e, QB_ONNX_TYPE_S64, at, &in[1]));
    char *name = qb_expand_name(e, "scan");
    *out = name;
    return name ? qb_expand_emit(e, "Gather", 2, in, name, "axis", axis) : e->cx->code;
}

static qb_status scan_iteration(qb_expander *e, const qb_frame *outer, const qb_frame *names,
                                const scan_attrs *attrs, loop *l) {
    const Onnx__GraphProto *body = l->body;
    QB_RELEASED(qb_frame_release) qb_frame f = {0};
    QB_TRY(qb_frame_open(e, outer, outer->imports, &f));
    for (size_t i = 0; i < body->n_input; i++) {
        const size_t k = i - l->n_carried; /* among the inputs that are gone through */
        const char *given = i < l->n_carried ? l->carried[i] : NULL;
        const int64_t at =
            item(attrs->in_reversed, k) ? l->trips - 1 - (int64_t)l->done : (int64_t)l->done;
        if (!given)
            QB_TRY(emit_item(e, qb_frame_find(names, l->node->input[i]), item(attrs->in_axes, k),
                             at, &given));
        QB_TRY(qb_frame_bind(e, &f, qb_onnx_text(body->input[i]->name), given));
    }
    QB_TRY(qb_expand_nodes(e, &f, body->n_node, body->node));
    take_outputs(l, &f, 0);
    l->done++;
    return QB_OK;
}

static qb_status unroll_scan(qb_expander *e, qb_frame *f, const scan_attrs *attrs, loop *l) {
    QB_RELEASED(qb_frame_release) qb_frame shared = {0};
    QB_TRY(qb_frame_open(e, f, f->imports, &shared));
    QB_TRY(qb_expand_initializers(e, &shared, l->body));
    while ((int64_t)l->done < l->trips) QB_TRY(scan_iteration(e, &shared, f, attrs, l));
    for (size_t i = 0; i < l->node->n_output; i++) {
        const char *to;
        const size_t k = i - l->n_carried;
        QB_TRY(qb_frame_define(e, f, l->node->output[i], &to));
        if (!*to) continue;
        if (i < l->n_carried)
            QB_TRY(qb_expand_emit(e, "Identity", 1, &l->carried[i], to, NULL, 0));
        else
            QB_TRY(emit_gathered(e, l->gathered + k * (size_t)l->trips, l->done,
                                 item(attrs->out_axes, k), item(attrs->out_reversed, k) != 0, to));
    }
    return QB_OK;
}

/* Scan(carried..., gone through...) with body(carried..., items...) -> (carried..., gathered...).
 * Opset 8 had another form, with a batch. */
qb_status qb_expand_scan(qb_expander *e, qb_frame *f, const Onnx__NodeProto *node, bool *done) {
    const scan_attrs attrs = read_scan_attrs(node);
    loop l = {.node = node, .body = qb_expand_body(node, "body"), .trips = -1};
    *done = false;
    if (!l.body || qb_onnx_domain_version(f->imports, "") < 9) return QB_OK;
    if (attrs.n_inputs < 1 || (uint64_t)attrs.n_inputs > node->n_input)
        return qb_fail(e->cx, QB_STATUS_FORMAT, "num_scan_inputs: expected 1 to %zu, got %lld",
                       node->n_input, (long long)attrs.n_inputs);
    l.n_carried = node->n_input - (size_t)attrs.n_inputs;
    if (l.body->n_input != node->n_input || l.body->n_output != node->n_output ||
        node->n_output < l.n_carried)
        return QB_OK;
    for (size_t i = l.n_carried; i < node->n_input; i++) {
        const int64_t length =
            length_of(e, qb_frame_find(f, node->input[i]), item(attrs.in_axes, i - l.n_carried));
        if (length >= 0 && l.trips >= 0 && length != l.trips)
            return qb_fail(e->cx, QB_STATUS_FORMAT,
                           "input '%s' is gone through in %lld items, those before it in %lld",
                           node->input[i], (long long)length, (long long)l.trips);
        if (length >= 0) l.trips = length;
    }
    l.n_gathered = node->n_output - l.n_carried;
    QB_TRY(check_directions(e->cx, attrs.in_reversed, (size_t)attrs.n_inputs));
    QB_TRY(check_directions(e->cx, attrs.out_reversed, l.n_gathered));
    if (l.trips < 0 || l.trips > MAX_ITERATIONS || (l.trips == 0 && l.n_gathered > 0)) return QB_OK;
    qb_status status = prepare(e, f, &l, 0);
    if (status == QB_OK) status = unroll_scan(e, f, &attrs, &l);
    *done = true;
    return status;
}
