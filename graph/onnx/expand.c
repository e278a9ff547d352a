/* Functions, branches and loops become plain nodes before anything is read.
 *
 * A body is copied node by node with new names: each copy has a frame that maps the names of the
 * body to those of the graph. Bodies of If and Loop see the names around them, functions do not.
 * A node of a function is called by the calls that lead to it: CALL/INNER/NODE.
 * What a body yields gets the caller's name through an Identity, which the optimizer takes out. */
#include <string.h>

#include "expand_internal.h"
#include "graph/plugin.h"

#define MAX_NESTING 16
/* Copies, and what the graph makes of them, may take this many times the model's bytes, and any
 * model may make it LIMIT_LEAST. */
#define LIMIT_PER_BYTE 4
#define LIMIT_LEAST ((size_t)4 << 20)
#define LIMIT_OF_BODY (LIMIT_LEAST / 8) /* of If and Loop that stay: it is read many times */
/* Places in lists and indices, here and in the graph. Each is half empty at worst, and lies beside
 * what it grew from; a slot of an index has 16 bytes. A name has texts and a value of the graph,
 * and no list of values may grow to 8192 of them, a block of over 1 MiB, for LIMIT_LEAST. */
#define PLACE_OF_NODE (3 * (sizeof(qb_onnx_source) + sizeof(qb_node)) + 128 /* ids, attributes */)
#define PLACE_OF_NAME (LIMIT_LEAST / 4096)
_Static_assert(PLACE_OF_NAME >= 3 * sizeof(qb_value) + (size_t)2 * 128, "a name's place");

/* --- memory ----------------------------------------------------------------------------------- */

static size_t limit_of(const qb_onnx_reader *reader) {
    size_t limit;
    if (__builtin_mul_overflow(reader->file_bytes, LIMIT_PER_BYTE, &limit)) limit = SIZE_MAX;
    const size_t least = reader->unfolded ? LIMIT_OF_BODY : LIMIT_LEAST;
    return limit > least ? limit : least;
}

qb_status qb_expand_spend(qb_ctx *cx, qb_onnx_reader *reader, size_t bytes) {
    const size_t limit = limit_of(reader);
    if (bytes > limit - reader->spent)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED,
                       "functions, branches and loops expand to more than %zu bytes, which is the "
                       "limit for a model of %zu bytes",
                       limit, reader->file_bytes);
    reader->spent += bytes;
    return QB_OK;
}

qb_status qb_onnx_spend_upgrade(qb_ctx *cx, qb_onnx_reader *reader, int32_t nodes, int32_t values) {
    if (reader->spent == 0) return QB_OK;
    return qb_expand_spend(cx, reader,
                           (size_t)nodes * PLACE_OF_NODE + (size_t)values * PLACE_OF_NAME);
}

void *qb_expand_alloc(qb_expander *e, size_t n, size_t size) {
    /* no product overflows: n counts what is in memory already */
    if (qb_expand_spend(e->cx, e->reader, n * size) != QB_OK) return NULL;
    return qb_arena_pack(e->cx, e->arena, n, size);
}

/* --- names ------------------------------------------------------------------------------------ */

qb_status qb_frame_bind(qb_expander *e, qb_frame *f, const char *from, const char *to) {
    if (!f->arena) QB_TRY(qb_arena_create(e->cx, &f->arena));
    QB_TRY(qb_grow(e->cx, &f->to, &f->capacity, f->n + 1, sizeof *f->to));
    if (qb_names_find(&f->names, from) >= 0)
        return qb_fail(e->cx, QB_STATUS_FORMAT, "'%.80s': the name is taken in its body", from);
    QB_TRY(qb_names_put(e->cx, f->arena, &f->names, from, (int32_t)f->n));
    f->to[f->n++] = to;
    return QB_OK;
}

/* The graph's name for a name of a body. */
const char *qb_frame_find(const qb_frame *f, const char *name) {
    for (; f && f->serial; f = f->parent) {
        const int32_t at = qb_names_find(&f->names, name);
        if (at >= 0) return f->to[at];
    }
    return name;
}

/* A new name of the graph for what a body makes. */
char *qb_expand_name(qb_expander *e, const char *name) {
    if (qb_expand_spend(e->cx, e->reader, 2 * strlen(name) + PLACE_OF_NAME) != QB_OK) return NULL;
    return qb_arena_format(e->cx, e->arena, "%s/%zu", name, ++e->serial);
}

qb_status qb_frame_define(qb_expander *e, qb_frame *f, const char *name, const char **out) {
    *out = name;
    if (!f->serial || !*name) return QB_OK;
    *out = qb_expand_name(e, name);
    return *out ? qb_frame_bind(e, f, name, *out) : e->cx->code;
}

qb_status qb_frame_open(qb_expander *e, const qb_frame *parent, qb_onnx_imports imports,
                        qb_frame *out) {
    *out = (qb_frame){
        .parent = parent, .imports = imports, .serial = ++e->serial, .depth = parent->depth + 1};
    return qb_expand_spend(e->cx, e->reader,
                           sizeof *out); /* so that empty bodies come to an end, too */
}

void qb_frame_release(qb_frame *f) {
    qb_arena_free(f->arena);
    qb_free(f->to);
}

/* --- making nodes ----------------------------------------------------------------------------- */

static qb_status emit(qb_expander *e, const Onnx__NodeProto *proto, qb_onnx_imports imports) {
    QB_TRY(qb_grow(e->cx, &e->node, &e->capacity, e->n + 1, sizeof *e->node));
    e->node[e->n++] = (qb_onnx_source){proto, imports};
    for (size_t i = 0; i < proto->n_output; i++)
        if (*proto->output[i] && qb_names_find(&e->known, proto->output[i]) < 0)
            QB_TRY(qb_names_put(e->cx, e->arena, &e->known, proto->output[i], (int32_t)(e->n - 1)));
    return QB_OK;
}

qb_status qb_expand_emit_node(qb_expander *e, const Onnx__NodeProto *node) {
    return emit(e, node, e->own_imports);
}

/* A node to come, with room for its names: inputs, then outputs. */
static Onnx__NodeProto *alloc_node(qb_expander *e, size_t n_in, size_t n_out) {
    if (qb_expand_spend(e->cx, e->reader, PLACE_OF_NODE) != QB_OK) return NULL;
    Onnx__NodeProto *node = qb_expand_alloc(e, 1, sizeof *node);
    char **names = qb_expand_alloc(e, n_in + n_out, sizeof *names);
    if (!node || !names) return NULL;
    onnx__node_proto__init(node);
    node->n_input = n_in;
    node->input = names;
    node->n_output = n_out;
    node->output = names + n_in;
    return node;
}

/* The opset of nodes that are made here; it lives as long as they do. */
static qb_status make_own_imports(qb_expander *e) {
    Onnx__OperatorSetIdProto *standard = qb_arena_alloc(e->cx, e->arena, 1, sizeof *standard);
    Onnx__OperatorSetIdProto **list = qb_arena_alloc(e->cx, e->arena, 1, sizeof *list);
    if (!standard || !list) return e->cx->code;
    onnx__operator_set_id_proto__init(standard);
    standard->version = QB_GRAPH_OPSET;
    *list = standard;
    e->own_imports = (qb_onnx_imports){1, list};
    return QB_OK;
}

static Onnx__NodeProto *new_node(qb_expander *e, const char *op, size_t n_in, const char **in,
                                 const char *out) {
    Onnx__NodeProto *node = alloc_node(e, n_in, 1);
    if (!node) return NULL;
    for (size_t i = 0; i < n_in; i++) node->input[i] = (char *)(uintptr_t)in[i];
    node->output[0] = (char *)(uintptr_t)out;
    node->op_type = (char *)(uintptr_t)op;
    return node;
}

static Onnx__AttributeProto *add_attribute(qb_expander *e, Onnx__NodeProto *node, const char *name,
                                           int type) {
    Onnx__AttributeProto *attr = qb_expand_alloc(e, 1, sizeof *attr);
    Onnx__AttributeProto **list = qb_expand_alloc(e, 1, sizeof *list);
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

qb_status qb_expand_emit(qb_expander *e, const char *op, size_t n_in, const char **in,
                         const char *out, const char *attribute, int64_t value) {
    Onnx__NodeProto *node = QB_NEW(e->cx, new_node(e, op, n_in, in, out));
    if (attribute) {
        Onnx__AttributeProto *attr = add_attribute(e, node, attribute, QB_ONNX_ATTR_INT);
        if (!attr) return e->cx->code;
        attr->has_i = true;
        attr->i = value;
    }
    return emit(e, node, e->own_imports);
}

static size_t tensor_bytes(const Onnx__TensorProto *t) {
    return t->raw_data.len + t->n_float_data * 4 + t->n_int32_data * 4 + t->n_int64_data * 8 +
           t->n_double_data * 8 + t->n_uint64_data * 8;
}

/* What an attribute takes once more in each copy of its node. */
static size_t attribute_bytes(const Onnx__AttributeProto *attr) {
    size_t total = attr->s.len + attr->n_floats * 4 + attr->n_ints * 8;
    for (size_t i = 0; i < attr->n_strings; i++) total += attr->strings[i].len;
    return total + (attr->t ? tensor_bytes(attr->t) : 0);
}

static qb_status emit_tensor(qb_expander *e, Onnx__TensorProto *tensor, const char *out) {
    Onnx__NodeProto *node = new_node(e, "Constant", 0, NULL, out);
    Onnx__AttributeProto *attr = node ? add_attribute(e, node, "value", QB_ONNX_ATTR_TENSOR) : NULL;
    if (!attr) return e->cx->code;
    attr->t = tensor;
    QB_TRY(qb_expand_spend(e->cx, e->reader, tensor_bytes(tensor)));
    return emit(e, node, e->own_imports);
}

/* A scalar s64 or bool; *name is new. */
qb_status qb_expand_scalar(qb_expander *e, int type, int64_t value, const char **name) {
    Onnx__TensorProto *t = QB_NEW(e->cx, qb_expand_alloc(e, 1, sizeof *t));
    int64_t *wide = QB_NEW(e->cx, qb_expand_alloc(e, 1, sizeof *wide));
    int32_t *narrow = QB_NEW(e->cx, qb_expand_alloc(e, 1, sizeof *narrow));
    QB_TRY_NEW(e->cx, *name = qb_expand_name(e, "loop"));
    onnx__tensor_proto__init(t);
    t->has_data_type = true;
    t->data_type = type;
    *wide = value;
    *narrow = (int32_t)value;
    if (type == QB_ONNX_TYPE_S64)
        t->n_int64_data = 1, t->int64_data = wide;
    else
        t->n_int32_data = 1, t->int32_data = narrow;
    return emit_tensor(e, t, *name);
}

/* --- constants -------------------------------------------------------------------------------- */

static bool scalar_of(const qb_value *value, int64_t *out) {
    if (!value->data || qb_shape_count(&value->shape) != 1) return false;
    if (value->dtype == QB_DTYPE_S64) *out = *(const int64_t *)value->data;
    if (value->dtype == QB_DTYPE_BOOL) *out = *(const uint8_t *)value->data != 0;
    return value->dtype == QB_DTYPE_S64 || value->dtype == QB_DTYPE_BOOL;
}

bool qb_expand_constant(qb_expander *e, const char *name, int64_t *out) {
    const int32_t at = qb_names_find(&e->known, name);
    if (at < 0 || (size_t)at >= e->n) {
        const int32_t value = qb_graph_find_value(e->reader->graph, name);
        return value >= 0 && scalar_of(&e->reader->graph->values[value], out);
    }
    const Onnx__NodeProto *node = e->node[at].proto;
    if (strcmp(node->op_type, "Constant") == 0 && node->n_attribute == 1 && node->attribute[0]->t)
        return qb_onnx_tensor_scalar(node->attribute[0]->t, out);
    qb_value value;
    QB_RELEASED(qb_graph_free_at) qb_graph *owner = NULL;
    if (!qb_expand_evaluate(e, name, &value, &owner)) return false;
    return scalar_of(&value, out);
}

/* --- bodies ----------------------------------------------------------------------------------- */

const Onnx__GraphProto *qb_expand_body(const Onnx__NodeProto *node, const char *name) {
    for (size_t i = 0; i < node->n_attribute; i++)
        if (node->attribute[i]->name && strcmp(node->attribute[i]->name, name) == 0)
            return node->attribute[i]->g;
    return NULL;
}

qb_status qb_expand_initializers(qb_expander *e, qb_frame *f, const Onnx__GraphProto *body) {
    for (size_t i = 0; i < body->n_initializer; i++) {
        const char *name = body->initializer[i]->name, *to;
        if (!name || !*name)
            return qb_fail(e->cx, QB_STATUS_FORMAT, "an initializer of a body without a name");
        QB_TRY(qb_frame_define(e, f, name, &to));
        QB_TRY(emit_tensor(e, body->initializer[i], to));
    }
    return QB_OK;
}

/* Output i of a body under the caller's name. */
static qb_status yield(qb_expander *e, const qb_frame *f, const char *name, const char *to) {
    const char *from = qb_frame_find(f, name ? name : "");
    return *to ? qb_expand_emit(e, "Identity", 1, &from, to, NULL, 0) : QB_OK;
}

static qb_status expand_branch(qb_expander *e, qb_frame *outer, const Onnx__NodeProto *node,
                               const Onnx__GraphProto *body) {
    QB_RELEASED(qb_frame_release) qb_frame f = {0};
    if (body->n_output != node->n_output)
        return qb_fail(e->cx, QB_STATUS_FORMAT, "the branch has %zu outputs, If has %zu",
                       body->n_output, node->n_output);
    QB_TRY(qb_frame_open(e, outer, outer->imports, &f));
    QB_TRY(qb_expand_initializers(e, &f, body));
    QB_TRY(qb_expand_nodes(e, &f, body->n_node, body->node));
    for (size_t i = 0; i < node->n_output; i++) {
        const char *to;
        QB_TRY(qb_frame_define(e, outer, node->output[i], &to));
        QB_TRY(yield(e, &f, body->output[i]->name, to));
    }
    return QB_OK;
}

/* The node that makes a value, if it is this operator. */
static const Onnx__NodeProto *maker_of(const qb_expander *e, const char *name, const char *op) {
    const int32_t at = qb_names_find(&e->known, name);
    if (at < 0 || (size_t)at >= e->n) return NULL;
    const Onnx__NodeProto *node = e->node[at].proto;
    return strcmp(node->op_type, op) == 0 && node->n_input > 0 ? node : NULL;
}

/* Does the condition ask whether a tensor has no elements? Its number of elements (Size, or the
 * product of the Shape) equals 0. */
static bool asks_for_nothing(qb_expander *e, const char *name) {
    const Onnx__NodeProto *cast = maker_of(e, name, "Cast");
    const Onnx__NodeProto *equal = maker_of(e, cast ? cast->input[0] : name, "Equal");
    int64_t number;
    if (!equal || equal->n_input != 2) return false;
    for (int side = 0; side < 2; side++) {
        const char *count = equal->input[side];
        const Onnx__NodeProto *product = maker_of(e, count, "ReduceProd");
        const bool counts =
            maker_of(e, count, "Size") || (product && maker_of(e, product->input[0], "Shape"));
        if (counts && qb_expand_constant(e, equal->input[1 - side], &number)) return number == 0;
    }
    return false;
}

/* Nothing but constants without elements. */
static bool gives_nothing(const Onnx__GraphProto *body) {
    for (size_t i = 0; i < body->n_node; i++) {
        const Onnx__NodeProto *node = body->node[i];
        const Onnx__AttributeProto *a = node->n_attribute == 1 ? node->attribute[0] : NULL;
        bool empty = false;
        if (strcmp(node->op_type, "Constant") != 0 || !a || !a->t) return false;
        for (size_t d = 0; d < a->t->n_dims; d++) empty = empty || a->t->dims[d] == 0;
        if (!empty) return false;
    }
    return body->n_node > 0 && body->n_initializer == 0;
}

static bool suppresses(const Onnx__GraphProto *body) {
    for (size_t i = 0; i < body->n_node; i++)
        if (strcmp(body->node[i]->op_type, "NonMaxSuppression") == 0) return true;
    return false;
}

/* Detectors leave suppression out where there are no boxes. Of no boxes it keeps none, so that the
 * branch that suppresses is right in either case. */
static bool is_shortcut(qb_expander *e, const qb_frame *f, const Onnx__NodeProto *node) {
    const Onnx__GraphProto *yes = qb_expand_body(node, "then_branch");
    const Onnx__GraphProto *no = qb_expand_body(node, "else_branch");
    return yes && no && gives_nothing(yes) && suppresses(no) &&
           asks_for_nothing(e, qb_frame_find(f, node->input[0]));
}

static qb_status expand_if(qb_expander *e, qb_frame *f, const Onnx__NodeProto *node, bool *done) {
    static const char *const bodies[] = {"then_branch", "else_branch"};
    int64_t condition = 0;
    *done = false;
    if (node->n_input != 1) return QB_OK;
    for (int i = 0; i < 2; i++) {
        const Onnx__GraphProto *branch = qb_expand_body(node, bodies[i]);
        if (!branch) return qb_fail(e->cx, QB_STATUS_FORMAT, "it has no %s", bodies[i]);
        if (branch->n_input > 0)
            return qb_fail(e->cx, QB_STATUS_FORMAT, "%s has %zu inputs, expected none", bodies[i],
                           branch->n_input);
    }
    if (!qb_expand_constant(e, qb_frame_find(f, node->input[0]), &condition) &&
        !is_shortcut(e, f, node))
        return QB_OK;
    *done = true;
    return expand_branch(e, f, node, qb_expand_body(node, bodies[condition ? 0 : 1]));
}

/* --- functions -------------------------------------------------------------------------------- */

static bool same_text(const char *a, const char *b) { return strcmp(a ? a : "", b ? b : "") == 0; }

/* A plugin that is loaded runs what the model's own function only defines, and an operator of the
 * standard is not what a file says that it is. */
static bool is_built_in(const qb_expander *e, const Onnx__NodeProto *node) {
    const char *domain = qb_onnx_domain(node->domain);
    const qb_op *op = qb_op_lookup(e->cx, node->op_type, domain);
    return op && (op->of_plugin || !*domain);
}

static qb_status index_functions(qb_expander *e) {
    const Onnx__ModelProto *model = e->reader->model;
    for (size_t i = 0; i < model->n_functions; i++) {
        const char *name = model->functions[i]->name;
        if (name)
            QB_TRY(
                qb_index_add(e->cx, &e->functions, qb_index_hash(name, strlen(name)), (int32_t)i));
    }
    return QB_OK;
}

/* *out is NULL where the node calls none. */
static qb_status function_of(const qb_expander *e, const Onnx__NodeProto *node,
                             const Onnx__FunctionProto **out) {
    const Onnx__ModelProto *model = e->reader->model;
    const char *domain = qb_onnx_domain(node->domain);
    *out = NULL;
    if (model->n_functions == 0 || is_built_in(e, node)) return QB_OK;
    const uint32_t hash = qb_index_hash(node->op_type, strlen(node->op_type));
    int32_t i;
    for (size_t at = 0; (i = qb_index_next(&e->functions, hash, &at)) >= 0;) {
        const Onnx__FunctionProto *f = model->functions[i];
        if (strcmp(f->name, node->op_type) != 0 || strcmp(qb_onnx_domain(f->domain), domain) != 0 ||
            !same_text(f->overload, node->overload))
            continue;
        if (*out)
            return qb_fail(e->cx, QB_STATUS_FORMAT, "function '%.60s' is defined twice", f->name);
        *out = f;
    }
    return QB_OK;
}

/* The function that a body is of, whose attributes its nodes refer to; NULL: of none. */
static const qb_frame *function_frame(const qb_frame *f) {
    while (f && !f->function) f = f->parent;
    return f;
}

/* What a node of a function is called, or the operator where it has no name. */
static const char *path_of(qb_expander *e, const qb_frame *of, const Onnx__NodeProto *node) {
    const char *name = node->name && *node->name ? node->name : node->op_type;
    if (!of) return name;
    if (qb_expand_spend(e->cx, e->reader, strlen(of->path) + strlen(name) + 2) != QB_OK)
        return NULL;
    return qb_arena_format(e->cx, e->arena, "%s/%s", of->path, name);
}

static qb_status expand_function(qb_expander *e, qb_frame *outer, const Onnx__NodeProto *node,
                                 const Onnx__FunctionProto *function) {
    QB_RELEASED(qb_frame_release) qb_frame f = {0};
    if (node->n_input > function->n_input || node->n_output > function->n_output)
        return qb_fail(e->cx, QB_STATUS_FORMAT,
                       "function '%.60s' has %zu inputs and %zu outputs, the call %zu and %zu",
                       function->name, function->n_input, function->n_output, node->n_input,
                       node->n_output);
    QB_TRY(qb_frame_open(e, outer,
                         (qb_onnx_imports){function->n_opset_import, function->opset_import}, &f));
    f.call = node;
    f.function = function;
    QB_TRY_NEW(e->cx, f.path = path_of(e, function_frame(outer), node));
    for (size_t i = 0; i < function->n_input; i++) {
        const char *given = i < node->n_input ? node->input[i] : "";
        QB_TRY(qb_frame_bind(e, &f, function->input[i], *given ? qb_frame_find(outer, given) : ""));
    }
    f.parent = NULL; /* a function sees only its own names */
    QB_TRY(qb_expand_nodes(e, &f, function->n_node, function->node));
    for (size_t i = 0; i < node->n_output; i++) {
        const char *from = function->output[i], *to;
        if (qb_frame_find(&f, from) == from)
            return qb_fail(e->cx, QB_STATUS_FORMAT,
                           "function '%.60s': nothing makes output '%.80s'", function->name, from);
        QB_TRY(qb_frame_define(e, outer, node->output[i], &to));
        QB_TRY(yield(e, &f, from, to));
    }
    return QB_OK;
}

static Onnx__AttributeProto *named(size_t n, Onnx__AttributeProto *const *list, const char *name) {
    for (size_t i = 0; i < n; i++)
        if (list[i]->name && strcmp(list[i]->name, name) == 0) return list[i];
    return NULL;
}

/* `attr`, or what the call (or the function's default) gives for it under the attribute's own name;
 * NULL with *status OK: left out. */
static Onnx__AttributeProto *resolve_attribute(qb_expander *e, const qb_frame *f,
                                               Onnx__AttributeProto *attr, qb_status *status) {
    const char *ref = attr->ref_attr_name;
    const qb_frame *of = function_frame(f);
    if (!ref || !*ref || !of) return attr;
    Onnx__AttributeProto *given = named(of->call->n_attribute, of->call->attribute, ref);
    if (!given) given = named(of->function->n_attribute_proto, of->function->attribute_proto, ref);
    if (!given) return NULL;
    Onnx__AttributeProto *copy = qb_expand_alloc(e, 1, sizeof *copy);
    if (!copy) {
        *status = e->cx->code;
        return NULL;
    }
    *copy = *given;
    copy->name = attr->name;
    return copy;
}

/* --- one node --------------------------------------------------------------------------------- */

static qb_status copy_node(qb_expander *e, qb_frame *f, const Onnx__NodeProto *node,
                           Onnx__NodeProto **out) {
    Onnx__NodeProto *copy = alloc_node(e, node->n_input, node->n_output);
    Onnx__AttributeProto **attrs = qb_expand_alloc(e, node->n_attribute, sizeof *attrs);
    if (!copy || !attrs) return e->cx->code;
    char **names = copy->input;
    *copy = *node;
    copy->input = names;
    copy->output = names + node->n_input;
    copy->attribute = attrs;
    copy->n_attribute = 0;
    const qb_frame *of = function_frame(f);
    if (of) copy->name = (char *)(uintptr_t)path_of(e, of, node);
    if (of && !copy->name) return e->cx->code;
    for (size_t i = 0; i < node->n_input; i++)
        names[i] = (char *)(uintptr_t)(*node->input[i] ? qb_frame_find(f, node->input[i]) : "");
    for (size_t i = 0; i < node->n_output; i++) copy->output[i] = node->output[i];
    for (size_t i = 0; i < node->n_attribute; i++) {
        qb_status status = QB_OK;
        Onnx__AttributeProto *attr = resolve_attribute(e, f, node->attribute[i], &status);
        QB_TRY(status);
        if (!attr) continue;
        QB_TRY(qb_expand_spend(e->cx, e->reader, attribute_bytes(attr)));
        attrs[copy->n_attribute++] = attr;
    }
    *out = copy;
    return QB_OK;
}

static qb_status emit_plain(qb_expander *e, qb_frame *f, const Onnx__NodeProto *node) {
    Onnx__NodeProto *copy;
    if (!f->serial) return emit(e, node, f->imports);
    QB_TRY(copy_node(e, f, node, &copy));
    for (size_t i = 0; i < node->n_output; i++) {
        const char *to;
        QB_TRY(qb_frame_define(e, f, node->output[i], &to));
        copy->output[i] = (char *)(uintptr_t)to;
    }
    if (strcmp(node->op_type, "Constant") == 0 && copy->n_attribute == 1 && copy->attribute[0]->t &&
        copy->n_output == 1)
        return emit_tensor(e, copy->attribute[0]->t, copy->output[0]);
    return emit(e, copy, f->imports);
}

static qb_status expand_node(qb_expander *e, qb_frame *f, const Onnx__NodeProto *node) {
    bool done = false;
    if (!*node->op_type) return emit(e, node, f->imports); /* refused when it is read */
    const Onnx__FunctionProto *function;
    QB_TRY(function_of(e, node, &function));
    const bool standard = !*qb_onnx_domain(node->domain);
    if (f->depth >= MAX_NESTING && (function || standard))
        if (function || qb_expand_body(node, "body") || qb_expand_body(node, "then_branch"))
            return qb_fail(e->cx, QB_STATUS_UNSUPPORTED,
                           "functions and subgraphs nested deeper than %d", MAX_NESTING);
    if (function) return expand_function(e, f, node, function);
    if (standard && strcmp(node->op_type, "If") == 0) {
        static const char *const bodies[] = {"then_branch", "else_branch"};
        QB_TRY(expand_if(e, f, node, &done));
        if (!done && !e->reader->partial) QB_TRY(qb_expand_keep(e, f, node, bodies, 2, &done));
    }
    if (standard && strcmp(node->op_type, "Loop") == 0) {
        static const char *const bodies[] = {"body"};
        QB_TRY(qb_expand_loop(e, f, node, &done));
        if (!done && !e->reader->partial) QB_TRY(qb_expand_keep(e, f, node, bodies, 1, &done));
    }
    if (standard && strcmp(node->op_type, "Scan") == 0) QB_TRY(qb_expand_scan(e, f, node, &done));
    return done ? QB_OK : emit_plain(e, f, node);
}

qb_status qb_expand_nodes(qb_expander *e, qb_frame *f, size_t n, Onnx__NodeProto *const *nodes) {
    for (size_t i = 0; i < n; i++) {
        QB_TRY(qb_check_cancel(e->cx));
        if (expand_node(e, f, nodes[i]) != QB_OK) return qb_onnx_wrap_node(e->cx, i, nodes[i]);
    }
    return QB_OK;
}

qb_status qb_onnx_expand(qb_ctx *cx, qb_onnx_reader *reader) {
    qb_expander e = {.cx = cx, .reader = reader, .arena = reader->graph->arena};
    qb_frame f = {.imports = qb_onnx_model_imports(reader->model)};
    qb_status status = make_own_imports(&e);
    if (status == QB_OK) status = index_functions(&e);
    if (status == QB_OK)
        status = qb_expand_nodes(&e, &f, reader->proto->n_node, reader->proto->node);
    qb_frame_release(&f);
    qb_index_release(&e.functions);
    reader->node = e.node; /* freed with the reader, also on failure */
    reader->n_nodes = e.n;
    return status;
}
