/* Functions, branches and loops become plain nodes before anything is read.
 *
 * A body is copied node by node with new names: each copy has a frame that maps the names of the
 * body to those of the graph. Bodies of If and Loop see the names around them, functions do not.
 * What a body yields gets the caller's name through an Identity, which the optimizer takes out. */
#include <stdio.h>
#include <string.h>

#include "graph/plugin.h"
#include "onnx_internal.h"

#define MAX_NESTING 16
#define MAX_ITERATIONS 1024
#define MAX_ADDED ((size_t)1 << 16)      /* nodes beyond those of the file */
#define MAX_CONSTANTS ((size_t)64 << 20) /* bytes of constants in all copies */

enum { TYPE_S64 = 7, TYPE_BOOL = 9 }; /* TensorProto.DataType */

typedef struct frame {
    const struct frame *parent;  /* whose names are seen as well; NULL: none */
    const Onnx__NodeProto *call; /* function: gives the attributes */
    const Onnx__FunctionProto *function;
    qb_onnx_imports imports;
    qb_names names; /* number: index in `to` */
    const char **to;
    size_t n, capacity;
    size_t serial; /* 0: the graph itself, whose names stay */
    int depth;
} frame;

typedef struct expander {
    qb_ctx *cx;
    qb_onnx_reader *reader;
    qb_arena *arena;
    qb_onnx_imports own_imports; /* of nodes that are made here */
    qb_onnx_source *node;
    size_t n, capacity, serial, constant_bytes;
    qb_names known; /* outputs of Constant and Identity; number: index in `node` */
} expander;

static qb_status expand_nodes(expander *e, frame *f, size_t n, Onnx__NodeProto *const *nodes);

/* --- names ------------------------------------------------------------------------------------ */

static qb_status bind_name(expander *e, frame *f, const char *from, const char *to) {
    QB_TRY(qb_grow(e->cx, &f->to, &f->capacity, f->n + 1, sizeof *f->to));
    if (qb_names_find(&f->names, from) >= 0)
        return qb_fail(e->cx, QB_STATUS_FORMAT, "'%.80s': the name is taken in its body", from);
    QB_TRY(qb_names_put(e->cx, e->arena, &f->names, from, (int32_t)f->n));
    f->to[f->n++] = to;
    return QB_OK;
}

/* The graph's name for a name of a body. */
static const char *find_name(const frame *f, const char *name) {
    for (; f && f->serial; f = f->parent) {
        const int32_t at = qb_names_find(&f->names, name);
        if (at >= 0) return f->to[at];
    }
    return name;
}

/* A new name of the graph for what a body makes. */
static char *new_name(expander *e, const char *name) {
    return qb_arena_format(e->cx, e->arena, "%s/%zu", name, ++e->serial);
}

static qb_status define(expander *e, frame *f, const char *name, const char **out) {
    *out = name;
    if (!f->serial || !*name) return QB_OK;
    *out = new_name(e, name);
    return *out ? bind_name(e, f, name, *out) : e->cx->code;
}

static frame inner(expander *e, const frame *parent, qb_onnx_imports imports) {
    return (frame){
        .parent = parent, .imports = imports, .serial = ++e->serial, .depth = parent->depth + 1};
}

/* --- making nodes ----------------------------------------------------------------------------- */

static qb_status emit(expander *e, const Onnx__NodeProto *proto, qb_onnx_imports imports) {
    if (e->n >= e->reader->proto->n_node + MAX_ADDED)
        return qb_fail(e->cx, QB_STATUS_UNSUPPORTED, "functions and loops give more than %zu nodes",
                       MAX_ADDED);
    QB_TRY(qb_grow(e->cx, &e->node, &e->capacity, e->n + 1, sizeof *e->node));
    e->node[e->n++] = (qb_onnx_source){proto, imports};
    const bool simple = proto->op_type && (strcmp(proto->op_type, "Constant") == 0 ||
                                           strcmp(proto->op_type, "Identity") == 0);
    if (!simple || proto->n_output != 1 || qb_names_find(&e->known, proto->output[0]) >= 0)
        return QB_OK;
    return qb_names_put(e->cx, e->arena, &e->known, proto->output[0], (int32_t)(e->n - 1));
}

/* The opset of nodes that are made here; it lives as long as they do. */
static qb_status make_own_imports(expander *e) {
    Onnx__OperatorSetIdProto *standard = qb_arena_alloc(e->cx, e->arena, 1, sizeof *standard);
    Onnx__OperatorSetIdProto **list = qb_arena_alloc(e->cx, e->arena, 1, sizeof *list);
    if (!standard || !list) return e->cx->code;
    onnx__operator_set_id_proto__init(standard);
    standard->version = QB_GRAPH_OPSET;
    *list = standard;
    e->own_imports = (qb_onnx_imports){1, list};
    return QB_OK;
}

static Onnx__NodeProto *new_node(expander *e, const char *op, size_t n_in, const char **in,
                                 const char *out) {
    Onnx__NodeProto *node = qb_arena_alloc(e->cx, e->arena, 1, sizeof *node);
    char **names = qb_arena_alloc(e->cx, e->arena, n_in + 1, sizeof *names);
    if (!node || !names) return NULL;
    onnx__node_proto__init(node);
    for (size_t i = 0; i < n_in; i++) names[i] = (char *)(uintptr_t)in[i];
    names[n_in] = (char *)(uintptr_t)out;
    node->op_type = (char *)(uintptr_t)op;
    node->n_input = n_in;
    node->input = names;
    node->n_output = 1;
    node->output = names + n_in;
    return node;
}

static Onnx__AttributeProto *add_attribute(expander *e, Onnx__NodeProto *node, const char *name,
                                           int type) {
    Onnx__AttributeProto *attr = qb_arena_alloc(e->cx, e->arena, 1, sizeof *attr);
    Onnx__AttributeProto **list = qb_arena_alloc(e->cx, e->arena, 1, sizeof *list);
    if (!attr || !list) return NULL;
    onnx__attribute_proto__init(attr);
    attr->name = (char *)(uintptr_t)name;
    attr->has_type = true;
    attr->type = type;
    *list = attr;
    node->attribute = list;
    node->n_attribute = 1;
    return attr;
}

static qb_status emit_simple(expander *e, const char *op, size_t n_in, const char **in,
                             const char *out) {
    const Onnx__NodeProto *node = new_node(e, op, n_in, in, out);
    return node ? emit(e, node, e->own_imports) : e->cx->code;
}

static size_t tensor_bytes(const Onnx__TensorProto *t) {
    return t->raw_data.len + t->n_float_data * 4 + t->n_int32_data * 4 + t->n_int64_data * 8 +
           t->n_double_data * 8 + t->n_uint64_data * 8;
}

static qb_status emit_tensor(expander *e, Onnx__TensorProto *tensor, const char *out) {
    Onnx__NodeProto *node = new_node(e, "Constant", 0, NULL, out);
    Onnx__AttributeProto *attr = node ? add_attribute(e, node, "value", QB_ONNX_ATTR_TENSOR) : NULL;
    if (!attr) return e->cx->code;
    attr->t = tensor;
    e->constant_bytes += tensor_bytes(tensor);
    if (e->constant_bytes > MAX_CONSTANTS)
        return qb_fail(e->cx, QB_STATUS_UNSUPPORTED,
                       "constants in functions and loops take more than %zu bytes", MAX_CONSTANTS);
    return emit(e, node, e->own_imports);
}

/* A scalar s64 or bool; *name is new. */
static qb_status emit_scalar(expander *e, int type, int64_t value, const char **name) {
    Onnx__TensorProto *t = qb_arena_alloc(e->cx, e->arena, 1, sizeof *t);
    int64_t *wide = qb_arena_alloc(e->cx, e->arena, 1, sizeof *wide);
    int32_t *narrow = qb_arena_alloc(e->cx, e->arena, 1, sizeof *narrow);
    *name = new_name(e, "loop");
    if (!t || !wide || !narrow || !*name) return e->cx->code;
    onnx__tensor_proto__init(t);
    t->has_data_type = true;
    t->data_type = type;
    *wide = value;
    *narrow = (int32_t)value;
    if (type == TYPE_S64)
        t->n_int64_data = 1, t->int64_data = wide;
    else
        t->n_int32_data = 1, t->int32_data = narrow;
    return emit_tensor(e, t, *name);
}

/* --- constants -------------------------------------------------------------------------------- */

/* The only element of a constant s64 or bool by its name in the graph: an initializer, or what a
 * Constant that was met before makes, perhaps through Identity. */
static bool constant_of(const expander *e, const char *name, int64_t *out) {
    const qb_graph *graph = e->reader->graph;
    for (int32_t at = qb_names_find(&e->known, name); at >= 0 && (size_t)at < e->n;) {
        const Onnx__NodeProto *node = e->node[at].proto;
        if (node->n_output != 1 || strcmp(node->output[0], name) != 0) return false;
        if (strcmp(node->op_type, "Constant") == 0)
            return node->n_attribute == 1 && node->attribute[0]->t &&
                   qb_onnx_tensor_scalar(node->attribute[0]->t, out);
        if (node->n_input != 1) return false;
        name = node->input[0];
        const int32_t before = qb_names_find(&e->known, name);
        if (before >= at) return false; /* not sorted: it may go in a circle */
        at = before;
    }
    const int32_t value = qb_graph_find_value(graph, name);
    if (value < 0 || !graph->values[value].data) return false;
    const qb_value *v = &graph->values[value];
    if (qb_shape_count(&v->shape) != 1) return false;
    if (v->dtype == QB_DTYPE_S64) *out = *(const int64_t *)v->data;
    if (v->dtype == QB_DTYPE_BOOL) *out = *(const uint8_t *)v->data != 0;
    return v->dtype == QB_DTYPE_S64 || v->dtype == QB_DTYPE_BOOL;
}

/* --- bodies ----------------------------------------------------------------------------------- */

static const Onnx__GraphProto *body_of(const Onnx__NodeProto *node, const char *name) {
    for (size_t i = 0; i < node->n_attribute; i++)
        if (node->attribute[i]->name && strcmp(node->attribute[i]->name, name) == 0)
            return node->attribute[i]->g;
    return NULL;
}

static qb_status emit_initializers(expander *e, frame *f, const Onnx__GraphProto *body) {
    for (size_t i = 0; i < body->n_initializer; i++) {
        const char *name = body->initializer[i]->name, *to;
        if (!name || !*name)
            return qb_fail(e->cx, QB_STATUS_FORMAT, "an initializer of a body without a name");
        QB_TRY(define(e, f, name, &to));
        QB_TRY(emit_tensor(e, body->initializer[i], to));
    }
    return QB_OK;
}

static void release(frame *f) { qb_free(f->to); }

/* Output i of a body under the caller's name. */
static qb_status yield(expander *e, const frame *f, const char *name, const char *to) {
    const char *from = find_name(f, name ? name : "");
    return *to ? emit_simple(e, "Identity", 1, &from, to) : QB_OK;
}

static qb_status expand_branch(expander *e, frame *outer, const Onnx__NodeProto *node,
                               const Onnx__GraphProto *body) {
    frame f = inner(e, outer, outer->imports);
    qb_status status = QB_OK;
    if (body->n_output != node->n_output)
        return qb_fail(e->cx, QB_STATUS_FORMAT, "the branch has %zu outputs, If has %zu",
                       body->n_output, node->n_output);
    QB_GO(emit_initializers(e, &f, body));
    QB_GO(expand_nodes(e, &f, body->n_node, body->node));
    for (size_t i = 0; i < node->n_output; i++) {
        const char *to;
        QB_GO(define(e, outer, node->output[i], &to));
        QB_GO(yield(e, &f, body->output[i]->name, to));
    }
out:
    release(&f);
    return status;
}

static qb_status expand_if(expander *e, frame *f, const Onnx__NodeProto *node, bool *done) {
    int64_t condition;
    *done = false;
    if (node->n_input != 1 || !constant_of(e, find_name(f, node->input[0]), &condition))
        return QB_OK;
    const Onnx__GraphProto *body = body_of(node, condition ? "then_branch" : "else_branch");
    if (!body) return QB_OK;
    *done = true;
    return expand_branch(e, f, node, body);
}

/* A loop at work: `carried` are the graph's names of what goes from iteration to iteration. */
typedef struct loop {
    const Onnx__NodeProto *node;
    const Onnx__GraphProto *body;
    size_t n_carried, n_scans;
    const char **carried, **scans; /* scans: [MAX_ITERATIONS] of each */
    int64_t trips;
    size_t done; /* iterations */
    bool open;   /* it cannot be told whether there is a next one */
} loop;

static qb_status one_iteration(expander *e, const frame *outer, loop *l, bool *again) {
    const Onnx__GraphProto *body = l->body;
    const char *number, *condition;
    int64_t more = 0;
    frame f = inner(e, outer, outer->imports);
    qb_status status = QB_OK;
    QB_GO(emit_scalar(e, TYPE_S64, (int64_t)l->done, &number));
    QB_GO(emit_scalar(e, TYPE_BOOL, 1, &condition));
    for (size_t i = 0; i < body->n_input; i++) {
        const char *name = body->input[i]->name ? body->input[i]->name : "";
        QB_GO(bind_name(e, &f, name, i == 0 ? number : i == 1 ? condition : l->carried[i - 2]));
    }
    QB_GO(expand_nodes(e, &f, body->n_node, body->node));
    for (size_t i = 0; i < l->n_carried + l->n_scans; i++) {
        const char *name = body->output[1 + i]->name, *from = find_name(&f, name ? name : "");
        if (i < l->n_carried)
            l->carried[i] = from;
        else
            l->scans[(i - l->n_carried) * MAX_ITERATIONS + l->done] = from;
    }
    l->open =
        !constant_of(e, find_name(&f, body->output[0]->name ? body->output[0]->name : ""), &more);
    *again = more != 0;
    l->done++;
out:
    release(&f);
    return status;
}

/* What each iteration yields, side by side along a new first dimension. */
static qb_status emit_scan(expander *e, const char **items, size_t n, const char *to) {
    const char *axes;
    QB_TRY(emit_scalar(e, TYPE_S64, 0, &axes));
    for (size_t i = 0; i < n; i++) {
        const char *in[2] = {items[i], axes};
        char *wide = new_name(e, "loop");
        if (!wide) return e->cx->code;
        QB_TRY(emit_simple(e, "Unsqueeze", 2, in, wide));
        items[i] = wide;
    }
    Onnx__NodeProto *concat = new_node(e, "Concat", n, items, to);
    Onnx__AttributeProto *axis = concat ? add_attribute(e, concat, "axis", QB_ONNX_ATTR_INT) : NULL;
    if (!axis) return e->cx->code;
    axis->has_i = true;
    return emit(e, concat, e->own_imports);
}

static qb_status unroll(expander *e, frame *f, loop *l) {
    frame shared = inner(e, f, f->imports); /* initializers are the same in each iteration */
    bool again = true;
    qb_status status = emit_initializers(e, &shared, l->body);
    for (int64_t i = 0; i < l->trips && again && status == QB_OK && !l->open; i++)
        status = one_iteration(e, &shared, l, &again);
    /* after the last trip nobody asks for the condition */
    if (l->done == (size_t)l->trips) l->open = false;
    for (size_t i = 0; i < l->node->n_output && status == QB_OK && !l->open; i++) {
        const char *to;
        QB_GO(define(e, f, l->node->output[i], &to));
        if (!*to) continue;
        if (i < l->n_carried)
            QB_GO(emit_simple(e, "Identity", 1, &l->carried[i], to));
        else
            QB_GO(emit_scan(e, l->scans + (i - l->n_carried) * MAX_ITERATIONS, l->done, to));
    }
out:
    release(&shared);
    return status;
}

/* Loop(trips, condition, carried...) with body(number, condition, carried...) -> (condition,
 * carried..., scans...). */
static qb_status expand_loop(expander *e, frame *f, const Onnx__NodeProto *node, bool *done) {
    int64_t condition = 1;
    loop l = {.node = node, .body = body_of(node, "body")};
    *done = false;
    if (node->n_input < 2 || !*node->input[0] || !l.body ||
        !constant_of(e, find_name(f, node->input[0]), &l.trips))
        return QB_OK;
    if (*node->input[1] && !constant_of(e, find_name(f, node->input[1]), &condition)) return QB_OK;
    l.n_carried = node->n_input - 2;
    if (l.body->n_input != node->n_input || l.body->n_output != 1 + node->n_output ||
        node->n_output < l.n_carried || l.trips > MAX_ITERATIONS)
        return QB_OK;
    if (!condition || l.trips < 0) l.trips = 0;
    l.n_scans = node->n_output - l.n_carried;
    if (l.n_scans > 0 && l.trips == 0) return QB_OK; /* of no shape that could be told */
    l.carried = qb_arena_alloc(e->cx, e->arena, l.n_carried, sizeof *l.carried);
    l.scans = qb_alloc(e->cx, l.n_scans * MAX_ITERATIONS, sizeof *l.scans);
    if (!l.carried || !l.scans) {
        qb_free(l.scans);
        return e->cx->code;
    }
    for (size_t i = 0; i < l.n_carried; i++) l.carried[i] = find_name(f, node->input[2 + i]);
    const size_t before = e->n;
    const qb_status status = unroll(e, f, &l);
    if (status == QB_OK && l.open) e->n = before; /* it stays a Loop, and is refused by name */
    *done = !l.open;
    qb_free(l.scans);
    return status;
}

/* --- functions -------------------------------------------------------------------------------- */

static const Onnx__FunctionProto *function_of(const expander *e, const Onnx__NodeProto *node) {
    const Onnx__ModelProto *model = e->reader->model;
    const char *domain = qb_onnx_domain(node->domain);
    for (size_t i = 0; i < model->n_functions; i++) {
        const Onnx__FunctionProto *f = model->functions[i];
        if (f->name && strcmp(f->name, node->op_type) == 0 &&
            strcmp(qb_onnx_domain(f->domain), domain) == 0)
            return f;
    }
    return NULL;
}

/* A loaded plugin runs what the model's own function only defines. */
static bool is_of_plugin(const expander *e, const Onnx__NodeProto *node) {
    const qb_op *op =
        node->op_type ? qb_op_lookup(e->cx, node->op_type, qb_onnx_domain(node->domain)) : NULL;
    return op && op->of_plugin;
}

static qb_status expand_function(expander *e, frame *outer, const Onnx__NodeProto *node,
                                 const Onnx__FunctionProto *function) {
    frame f = inner(e, outer, (qb_onnx_imports){function->n_opset_import, function->opset_import});
    qb_status status = QB_OK;
    if (node->n_input > function->n_input || node->n_output > function->n_output)
        return qb_fail(e->cx, QB_STATUS_FORMAT,
                       "function '%.60s' has %zu inputs and %zu outputs, the call %zu and %zu",
                       function->name, function->n_input, function->n_output, node->n_input,
                       node->n_output);
    f.call = node;
    f.function = function;
    for (size_t i = 0; i < function->n_input; i++) {
        const char *given = i < node->n_input ? node->input[i] : "";
        QB_GO(bind_name(e, &f, function->input[i], *given ? find_name(outer, given) : ""));
    }
    f.parent = NULL; /* a function sees only its own names */
    QB_GO(expand_nodes(e, &f, function->n_node, function->node));
    for (size_t i = 0; i < node->n_output; i++) {
        const char *to;
        QB_GO(define(e, outer, node->output[i], &to));
        QB_GO(yield(e, &f, function->output[i], to));
    }
out:
    release(&f);
    return status;
}

/* The function whose attributes the names in a body refer to. */
static const frame *function_frame(const frame *f) {
    while (f && !f->function) f = f->parent;
    return f;
}

static Onnx__AttributeProto *named(size_t n, Onnx__AttributeProto *const *list, const char *name) {
    for (size_t i = 0; i < n; i++)
        if (list[i]->name && strcmp(list[i]->name, name) == 0) return list[i];
    return NULL;
}

/* `attr`, or what the call (or the function's default) gives for it under the attribute's own name;
 * NULL with *status OK: left out. */
static Onnx__AttributeProto *resolve_attribute(expander *e, const frame *f,
                                               Onnx__AttributeProto *attr, qb_status *status) {
    const char *ref = attr->ref_attr_name;
    const frame *of = function_frame(f);
    if (!ref || !*ref || !of) return attr;
    Onnx__AttributeProto *given = named(of->call->n_attribute, of->call->attribute, ref);
    if (!given) given = named(of->function->n_attribute_proto, of->function->attribute_proto, ref);
    if (!given) return NULL;
    Onnx__AttributeProto *copy = qb_arena_alloc(e->cx, e->arena, 1, sizeof *copy);
    if (!copy) {
        *status = e->cx->code;
        return NULL;
    }
    *copy = *given;
    copy->name = attr->name;
    return copy;
}

/* --- one node --------------------------------------------------------------------------------- */

static qb_status copy_node(expander *e, frame *f, const Onnx__NodeProto *node,
                           Onnx__NodeProto **out) {
    Onnx__NodeProto *copy = qb_arena_alloc(e->cx, e->arena, 1, sizeof *copy);
    size_t n_names = node->n_input + node->n_output;
    char **names = qb_arena_alloc(e->cx, e->arena, n_names, sizeof *names);
    Onnx__AttributeProto **attrs =
        qb_arena_alloc(e->cx, e->arena, node->n_attribute, sizeof *attrs);
    if (!copy || !names || !attrs) return e->cx->code;
    *copy = *node;
    copy->input = names;
    copy->output = names + node->n_input;
    copy->attribute = attrs;
    copy->n_attribute = 0;
    for (size_t i = 0; i < node->n_input; i++)
        names[i] = (char *)(uintptr_t)(*node->input[i] ? find_name(f, node->input[i]) : "");
    for (size_t i = 0; i < node->n_output; i++) copy->output[i] = node->output[i];
    for (size_t i = 0; i < node->n_attribute; i++) {
        qb_status status = QB_OK;
        Onnx__AttributeProto *attr = resolve_attribute(e, f, node->attribute[i], &status);
        QB_TRY(status);
        if (attr) attrs[copy->n_attribute++] = attr;
    }
    *out = copy;
    return QB_OK;
}

static qb_status emit_plain(expander *e, frame *f, const Onnx__NodeProto *node) {
    Onnx__NodeProto *copy;
    if (!f->serial) return emit(e, node, f->imports);
    QB_TRY(copy_node(e, f, node, &copy));
    for (size_t i = 0; i < node->n_output; i++) {
        const char *to;
        QB_TRY(define(e, f, node->output[i], &to));
        copy->output[i] = (char *)(uintptr_t)to;
    }
    if (strcmp(node->op_type, "Constant") == 0 && copy->n_attribute == 1 && copy->attribute[0]->t)
        return emit_tensor(e, copy->attribute[0]->t, copy->output[0]);
    return emit(e, copy, f->imports);
}

static qb_status expand_node(expander *e, frame *f, const Onnx__NodeProto *node) {
    bool done = false;
    if (!node->op_type) return emit(e, node, f->imports); /* refused when it is read */
    const Onnx__FunctionProto *function = is_of_plugin(e, node) ? NULL : function_of(e, node);
    const bool standard = !*qb_onnx_domain(node->domain);
    if (f->depth >= MAX_NESTING && (function || standard))
        if (function || body_of(node, "body") || body_of(node, "then_branch"))
            return qb_fail(e->cx, QB_STATUS_UNSUPPORTED,
                           "functions and subgraphs nested deeper than %d", MAX_NESTING);
    if (function) return expand_function(e, f, node, function);
    if (standard && strcmp(node->op_type, "If") == 0) QB_TRY(expand_if(e, f, node, &done));
    if (standard && strcmp(node->op_type, "Loop") == 0) QB_TRY(expand_loop(e, f, node, &done));
    return done ? QB_OK : emit_plain(e, f, node);
}

static qb_status expand_nodes(expander *e, frame *f, size_t n, Onnx__NodeProto *const *nodes) {
    for (size_t i = 0; i < n; i++) {
        QB_TRY(qb_check_cancel(e->cx));
        if (expand_node(e, f, nodes[i]) != QB_OK)
            return qb_wrap(e->cx, "node %zu %.60s", i, nodes[i]->op_type ? nodes[i]->op_type : "");
    }
    return QB_OK;
}

qb_status qb_onnx_expand(qb_ctx *cx, qb_onnx_reader *reader) {
    expander e = {.cx = cx, .reader = reader, .arena = reader->graph->arena};
    frame f = {.imports = qb_onnx_model_imports(reader->model)};
    qb_status status = make_own_imports(&e);
    if (status == QB_OK) status = expand_nodes(&e, &f, reader->proto->n_node, reader->proto->node);
    release(&f);
    reader->node = e.node; /* freed with the reader, also on failure */
    reader->n_nodes = e.n;
    return status;
}
