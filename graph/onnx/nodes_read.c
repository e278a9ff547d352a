/* Nodes: names to values, operators to rows, older forms to the current one. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/opt.h"
#include "base/strbuf.h"
#include "graph/plugin.h"
#include "onnx_internal.h"

const char *qb_onnx_domain(const char *domain) {
    return !domain || strcmp(domain, "ai.onnx") == 0 ? "" : domain;
}

static const char *domain_of(const Onnx__NodeProto *proto) { return qb_onnx_domain(proto->domain); }

int64_t qb_onnx_domain_version(qb_onnx_imports imports, const char *domain) {
    for (size_t i = 0; i < imports.n; i++)
        if (strcmp(qb_onnx_domain(imports.import[i]->domain), domain) == 0)
            return imports.import[i]->version;
    return 1;
}

qb_onnx_imports qb_onnx_model_imports(const Onnx__ModelProto *model) {
    return (qb_onnx_imports){model->n_opset_import, model->opset_import};
}

static int64_t version_of(const qb_onnx_reader *reader, size_t index, const char *domain) {
    return qb_onnx_domain_version(reader->node[index].imports, domain);
}

qb_status qb_onnx_wrap_node(qb_ctx *cx, size_t index, const Onnx__NodeProto *proto) {
    const char *op = qb_onnx_text(proto->op_type), *name = qb_onnx_text(proto->name);
    if (*name) return qb_wrap(cx, "node %zu %.60s '%.160s'", index, op, name);
    return qb_wrap(cx, "node %zu %.60s", index, op);
}

/* --- what is not supported
 * ------------------------------------------------------------------------ */

static qb_status add_reason(qb_ctx *cx, qb_onnx_reader *reader, size_t index,
                            const Onnx__NodeProto *proto, const char *why) {
    const char *op = qb_onnx_text(proto->op_type), *domain = domain_of(proto);
    for (int32_t i = 0; i < reader->n_reasons; i++) {
        qb_onnx_reason *reason = &reader->reason[i];
        if (strcmp(reason->op, op) || strcmp(reason->domain, domain) || strcmp(reason->why, why))
            continue;
        reason->n_nodes++;
        return QB_OK;
    }
    if (reader->n_reasons == QB_ONNX_MAX_REASONS) {
        reader->n_more++;
        return QB_OK;
    }
    char *copy = QB_NEW(cx, qb_arena_strdup(cx, reader->graph->arena, why));
    reader->reason[reader->n_reasons++] =
        (qb_onnx_reason){.op = op,
                         .domain = domain,
                         .version = version_of(reader, index, domain),
                         .why = copy,
                         .n_nodes = 1,
                         .first = (int32_t)index,
                         .first_name = qb_onnx_text(proto->name)};
    return QB_OK;
}

/* The context's error becomes a reason. */
static qb_status note_error(qb_ctx *cx, qb_onnx_reader *reader, size_t index,
                            const Onnx__NodeProto *proto) {
    char why[240];
    snprintf(why, sizeof why, "%.*s", (int)sizeof why - 1, cx->message);
    qb_ctx_clear(cx);
    return add_reason(cx, reader, index, proto, why);
}

static qb_status report_reasons(qb_ctx *cx, const qb_onnx_reader *reader) {
    QB_RELEASED(qb_strbuf_release) qb_strbuf text = {0};
    for (int32_t i = 0; i < reader->n_reasons; i++) {
        const qb_onnx_reason *reason = &reader->reason[i];
        qb_strbuf_addf(&text, "\n  %.60s (", reason->op);
        if (*reason->domain) qb_strbuf_addf(&text, "%.60s ", reason->domain);
        qb_strbuf_addf(&text, "opset %lld): %s; node %d", (long long)reason->version, reason->why,
                       (int)reason->first);
        if (*reason->first_name) qb_strbuf_addf(&text, " '%.60s'", reason->first_name);
        if (reason->n_nodes > 1) qb_strbuf_addf(&text, " and %d more", (int)reason->n_nodes - 1);
    }
    if (reader->n_more) qb_strbuf_addf(&text, "\n  and %d more nodes", (int)reader->n_more);
    qb_strbuf_addf(&text, "\n'qbench optimize --outputs NAME' ends a model before such nodes, "
                          "--inputs begins it behind them");
    return qb_fail(cx, QB_STATUS_UNSUPPORTED, "operators that are not supported:%s",
                   text.failed ? "" : text.data);
}

/* --- Constant
 * ------------------------------------------------------------------------------------- */

static qb_status constant_list(qb_ctx *cx, qb_graph *graph, const char *name, qb_dtype dtype,
                               const void *data, size_t n, bool scalar) {
    qb_shape shape = {.rank = scalar ? 0 : 1, .dim = {(int64_t)n}};
    int32_t id;
    void *copy = QB_NEW(cx, qb_graph_new_constant(cx, graph, name, dtype, &shape, &id));
    if (n) memcpy(copy, data, n * qb_dtype_size(dtype));
    return QB_OK;
}

static qb_status constant_tensor(qb_ctx *cx, qb_onnx_reader *reader, const char *name,
                                 const Onnx__TensorProto *proto) {
    if (!proto) return qb_fail(cx, QB_STATUS_FORMAT, "attribute value: no tensor");
    Onnx__TensorProto *mutable = (Onnx__TensorProto *)(uintptr_t)proto;
    qb_onnx_tensor tensor = {.proto = mutable,
                             .has_raw = proto->has_raw_data,
                             .raw = {proto->raw_data.data, proto->raw_data.len}};
    QB_TRY_WRAP(cx, qb_onnx_tensor_check(cx, &reader->externals, &tensor), "attribute value");
    int32_t id;
    void *data = qb_graph_new_constant(cx, reader->graph, name, tensor.dtype, &tensor.shape, &id);
    if (!data) return cx->code;
    QB_TRY_WRAP(cx, qb_onnx_tensor_fill(cx, &tensor, data), "attribute value");
    return qb_onnx_note_packed(cx, reader, name, &tensor);
}

static qb_status read_constant(qb_ctx *cx, qb_onnx_reader *reader, const Onnx__NodeProto *proto) {
    if (proto->n_input != 0 || proto->n_output != 1 || !*proto->output[0])
        return qb_fail(cx, QB_STATUS_FORMAT, "expected no input and one output, got %zu and %zu",
                       proto->n_input, proto->n_output);
    const char *out = proto->output[0];
    if (qb_graph_find_value(reader->graph, out) >= 0)
        return qb_fail(cx, QB_STATUS_FORMAT, "output '%s': the name is taken", out);
    if (proto->n_attribute != 1)
        return qb_fail(cx, QB_STATUS_FORMAT, "expected one attribute, got %zu", proto->n_attribute);
    const Onnx__AttributeProto *attr = proto->attribute[0];
    const char *name = qb_onnx_text(attr->name);
    qb_graph *graph = reader->graph;
    static const struct {
        const char *name;
        int type;
    } forms[] = {{"value", QB_ONNX_ATTR_TENSOR},
                 {"value_float", QB_ONNX_ATTR_FLOAT},
                 {"value_floats", QB_ONNX_ATTR_FLOATS},
                 {"value_int", QB_ONNX_ATTR_INT},
                 {"value_ints", QB_ONNX_ATTR_INTS}};
    size_t form = 0, n_forms = sizeof forms / sizeof *forms;
    while (form < n_forms && strcmp(forms[form].name, name)) form++;
    if (form == n_forms)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "attribute %s is not supported", name);
    int type = qb_onnx_attr_type(attr);
    if (type != forms[form].type && type != 0)
        return qb_fail(cx, QB_STATUS_FORMAT, "attribute %s: expected type %s, got %s", name,
                       qb_onnx_attr_type_text(forms[form].type), qb_onnx_attr_type_text(type));
    switch (forms[form].type) {
    case QB_ONNX_ATTR_FLOAT: return constant_list(cx, graph, out, QB_DTYPE_F32, &attr->f, 1, true);
    case QB_ONNX_ATTR_FLOATS:
        return constant_list(cx, graph, out, QB_DTYPE_F32, attr->floats, attr->n_floats, false);
    case QB_ONNX_ATTR_INT: return constant_list(cx, graph, out, QB_DTYPE_S64, &attr->i, 1, true);
    case QB_ONNX_ATTR_INTS:
        return constant_list(cx, graph, out, QB_DTYPE_S64, attr->ints, attr->n_ints, false);
    default: return constant_tensor(cx, reader, out, attr->t);
    }
}

/* --- nodes
 * ---------------------------------------------------------------------------------------- */

static size_t without_empty_tail(char *const *names, size_t n) {
    while (n && !*names[n - 1]) n--;
    return n;
}

/* A value for each output, whether or not the node is supported: the rest of the file refers to it.
 */
static qb_status make_outputs(qb_ctx *cx, qb_graph *graph, const Onnx__NodeProto *proto, size_t n,
                              int32_t *out) {
    for (size_t i = 0; i < n; i++) {
        out[i] = -1;
        if (!*proto->output[i]) continue;
        if (qb_graph_find_value(graph, proto->output[i]) >= 0)
            return qb_fail(cx, QB_STATUS_FORMAT, "output '%s': the name is taken",
                           proto->output[i]);
        out[i] = qb_graph_add_value(cx, graph, proto->output[i], QB_DTYPE_NONE, NULL);
        if (out[i] < 0) return cx->code;
    }
    return QB_OK;
}

static qb_status note_file_node(qb_ctx *cx, qb_onnx_reader *reader, int32_t node, int32_t index) {
    QB_TRY(qb_grow(cx, &reader->file_node, &reader->file_nodes, (size_t)node + 1,
                   sizeof *reader->file_node));
    reader->file_node[node] = index;
    return QB_OK;
}

/* onnxruntime's operators on integers are called QAttention, QGemm, QLinearAdd ... */
static bool is_named_quantized(const char *name, const char *domain) {
    return strcmp(domain, "com.microsoft") == 0 && name[0] == 'Q' &&
           isupper((unsigned char)name[1]);
}

/* A descriptor that only names the operator and says what it is; `known`: its row, NULL: none. */
static qb_status name_op(qb_ctx *cx, qb_onnx_reader *reader, const Onnx__NodeProto *proto,
                         const qb_op *known, const qb_op **out) {
    qb_arena *arena = reader->graph->arena;
    qb_op *op = qb_arena_alloc(cx, arena, 1, sizeof *op);
    const char *name = op ? qb_arena_strdup(cx, arena, proto->op_type) : NULL;
    const char *domain = QB_NEW(cx, name ? qb_arena_strdup(cx, arena, domain_of(proto)) : NULL);
    *op = (qb_op){.name = name,
                  .domain = domain,
                  .max_in = INT32_MAX,
                  .max_out = INT32_MAX,
                  .weight_input = -1};
    if (known) {
        op->qrule = known->qrule;
        op->traits = known->traits;
        op->kernel = known->kernel;
    } else if (is_named_quantized(name, domain)) {
        op->traits = QB_TRAIT_INTEGERS;
    }
    *out = op;
    return QB_OK;
}

/* Is an unknown operator's reason on the list? Finding it once is enough: copies of a loop's body
 * may name it a thousand times. */
static bool counted_before(qb_onnx_reader *reader, const Onnx__NodeProto *proto) {
    for (int32_t i = 0; i < reader->n_reasons; i++) {
        qb_onnx_reason *reason = &reader->reason[i];
        if (strcmp(reason->op, proto->op_type) || strcmp(reason->domain, domain_of(proto)))
            continue;
        reason->n_nodes++;
        return true;
    }
    return false;
}

/* Why there is no such operator, with what comes nearest. */
static qb_status unknown_op(qb_ctx *cx, qb_onnx_reader *reader, size_t index,
                            const Onnx__NodeProto *proto) {
    static const struct {
        const char *op, *why;
    } control[] = {{"If", "runs only where its condition is a constant, or follows from sizes "
                          "(--shapes gives those that the file leaves open)"},
                   {"Loop", "runs only where its number of iterations (at most 1024) and its "
                            "condition are constants"},
                   {"Scan", "runs only from opset 9 on and where the length of its inputs is known "
                            "(at most 1024)"}};
    char why[180];
    int32_t n;
    if (reader->partial) return qb_fail(cx, QB_STATUS_UNSUPPORTED, "unknown operator");
    if (counted_before(reader, proto)) return QB_OK;
    if (reader->n_reasons == QB_ONNX_MAX_REASONS) {
        reader->n_more++;
        return QB_OK;
    }
    for (size_t i = 0; i < sizeof control / sizeof *control && !*domain_of(proto); i++)
        if (strcmp(control[i].op, proto->op_type) == 0)
            return add_reason(cx, reader, index, proto, control[i].why);
    const qb_op *const *ops = qb_ops(&n);
    const char **names = QB_NEW(cx, qb_alloc(cx, (size_t)n + 1, sizeof *names));
    for (int32_t i = 0; i < n; i++) names[i] = ops[i]->name;
    const char *nearest = qb_nearest(proto->op_type, names);
    const bool foreign = *domain_of(proto) != '\0';
    snprintf(why, sizeof why, "unknown operator%s%s%s%s", nearest ? "; the nearest is " : "",
             nearest ? nearest : "", nearest && foreign ? " of ai.onnx" : "",
             foreign ? "; is its plugin loaded (--plugin LIB.so)?" : "");
    qb_free(names);
    return add_reason(cx, reader, index, proto, why);
}

/* The row of the operator, or NULL with the reason noted. */
static qb_status find_op(qb_ctx *cx, qb_onnx_reader *reader, size_t index,
                         const Onnx__NodeProto *proto, const qb_op **out) {
    const char *domain = domain_of(proto);
    int64_t version = version_of(reader, index, domain);
    const qb_op *op = qb_op_lookup(cx, proto->op_type, domain);
    *out = NULL;
    if (reader->as_written && (!op || version < op->since))
        return name_op(cx, reader, proto, op, out);
    if (!op) return unknown_op(cx, reader, index, proto);
    if (version < op->since) {
        char why[80];
        snprintf(why, sizeof why, "older than opset %d, the first that is read", (int)op->since);
        return add_reason(cx, reader, index, proto, why);
    }
    if (strcmp(op->name, "QuantizeLinear") == 0 && proto->n_input > 2 &&
        qb_names_find(&reader->packed, proto->input[2]) >= 0)
        return add_reason(cx, reader, index, proto,
                          "it rounds to fewer than 8 bits, which constants alone may have");
    *out = op;
    return QB_OK;
}

static qb_status read_node(qb_ctx *cx, qb_onnx_reader *reader, size_t index) {
    const Onnx__NodeProto *proto = reader->node[index].proto;
    qb_graph *graph = reader->graph;
    if (!*proto->op_type) return qb_fail(cx, QB_STATUS_FORMAT, "a node without an operator");
    if (!*domain_of(proto) && strcmp(proto->op_type, "Constant") == 0) {
        qb_status status = read_constant(cx, reader, proto);
        if (status != QB_STATUS_UNSUPPORTED) return status;
        int32_t made;
        if (!reader->as_written)
            return make_outputs(cx, graph, proto, 1, &made) == QB_OK
                       ? note_error(cx, reader, index, proto)
                       : cx->code;
        qb_ctx_clear(cx);
    }
    size_t n_in = without_empty_tail(proto->input, proto->n_input);
    size_t n_out = without_empty_tail(proto->output, proto->n_output);
    if (n_in > INT32_MAX || n_out > INT32_MAX)
        return qb_fail(cx, QB_STATUS_FORMAT, "too many inputs or outputs");
    QB_FREED int32_t *ids = QB_NEW(cx, qb_alloc(cx, n_in + n_out, sizeof *ids));
    const qb_op *op;
    for (size_t i = 0; i < n_in; i++) ids[i] = -1;
    QB_TRY(make_outputs(cx, graph, proto, n_out, ids + n_in));
    QB_TRY(find_op(cx, reader, index, proto, &op));
    if (!op) return QB_OK;
    int32_t node = qb_graph_add_node(cx, graph, op, qb_onnx_text(proto->name), ids, (int32_t)n_in,
                                     ids + n_in, (int32_t)n_out);
    if (node < 0) return cx->code;
    QB_TRY(note_file_node(cx, reader, node, (int32_t)index));
    int64_t version = version_of(reader, index, domain_of(proto));
    qb_status status =
        qb_onnx_read_attrs(cx, reader, proto, op, version, &graph->nodes[node].attrs);
    if (status == QB_STATUS_UNSUPPORTED && reader->as_written) {
        qb_ctx_clear(cx);
        graph->nodes[node].attrs = NULL;
        status = name_op(cx, reader, proto, op, &graph->nodes[node].op);
    } else if (status == QB_STATUS_UNSUPPORTED) {
        qb_graph_kill_node(graph, node);
        status = note_error(cx, reader, index, proto);
    }
    return status;
}

static qb_status resolve_inputs(qb_ctx *cx, qb_onnx_reader *reader, int32_t node) {
    const Onnx__NodeProto *proto = reader->node[reader->file_node[node]].proto;
    qb_node *it = &reader->graph->nodes[node];
    for (int32_t i = 0; i < it->n_in; i++) {
        if (!*proto->input[i]) continue;
        it->in[i] = qb_graph_find_value(reader->graph, proto->input[i]);
        if (it->in[i] < 0)
            return qb_fail(cx, QB_STATUS_FORMAT, "input %d '%s': nothing makes this value", (int)i,
                           proto->input[i]);
    }
    return QB_OK;
}

/* Inputs and outputs that no version lets out: operators look at them without asking. */
static qb_status check_given(qb_ctx *cx, const qb_graph *graph, int32_t node) {
    const qb_node *it = &graph->nodes[node];
    bool variadic = it->op->max_in == INT32_MAX;
    if (it->n_in == 0 && it->op->min_in > 0)
        return qb_fail(cx, QB_STATUS_FORMAT, "expected at least %d inputs, got 0",
                       (int)it->op->min_in);
    for (int32_t i = 0; i < it->n_in && (variadic || i < it->op->min_in); i++)
        if (it->in[i] < 0) return qb_fail(cx, QB_STATUS_FORMAT, "input %d: left out", (int)i);
    for (int32_t i = 0; i < it->n_out && i < it->op->min_out; i++)
        if (it->out[i] < 0) return qb_fail(cx, QB_STATUS_FORMAT, "output %d: left out", (int)i);
    return QB_OK;
}

/* An upgrade may leave its last inputs out, as files do: they are none. */
static void drop_empty_tail(qb_graph *graph, int32_t node) {
    qb_node *it = &graph->nodes[node];
    while (it->op && it->n_in > 0 && it->in[it->n_in - 1] < 0) it->n_in--;
}

/* After `upgrade`: older versions have fewer inputs, where attributes became inputs. */
static qb_status check_arity(qb_ctx *cx, const qb_graph *graph, int32_t node) {
    const qb_node *it = &graph->nodes[node];
    const qb_op *op = it->op;
    if (it->n_in < op->min_in)
        return qb_fail(cx, QB_STATUS_FORMAT, "expected at least %d inputs, got %d", (int)op->min_in,
                       (int)it->n_in);
    if (it->n_in > op->max_in)
        return qb_fail(cx, QB_STATUS_FORMAT, "expected at most %d inputs, got %d", (int)op->max_in,
                       (int)it->n_in);
    if (it->n_out < op->min_out || it->n_out > op->max_out)
        return qb_fail(cx, QB_STATUS_FORMAT, "expected %d to %d outputs, got %d", (int)op->min_out,
                       (int)op->max_out, (int)it->n_out);
    return check_given(cx, graph, node);
}

/* Shapes as far as they are known already: some rewrites depend on ranks. Errors come up again, and
 * are reported, when the whole graph is inferred. */
static void infer_ahead(qb_graph *graph, int32_t first, int32_t n) {
    qb_ctx scratch;
    qb_ctx_init(&scratch);
    for (int32_t i = first; i < first + n; i++) qb_infer_node(&scratch, graph, i);
}

static qb_status upgrade(qb_ctx *cx, qb_onnx_reader *reader, int32_t node) {
    qb_graph *graph = reader->graph;
    int32_t n_before = graph->n_nodes;
    const qb_op *op = graph->nodes[node].op;
    size_t index = (size_t)reader->file_node[node];
    const Onnx__NodeProto *proto = reader->node[index].proto;
    int64_t version = version_of(reader, index, op->domain);
    qb_status status = check_given(cx, graph, node);
    if (status == QB_OK && op->upgrade) status = op->upgrade(cx, graph, node, (int32_t)version);
    drop_empty_tail(graph, node);
    for (int32_t i = n_before; i < graph->n_nodes; i++) drop_empty_tail(graph, i);
    if (status == QB_OK && graph->nodes[node].op) status = check_arity(cx, graph, node);
    if (status == QB_OK) { /* added nodes may stand before or behind this one */
        infer_ahead(graph, n_before, graph->n_nodes - n_before);
        if (graph->nodes[node].op) infer_ahead(graph, node, 1);
        infer_ahead(graph, n_before, graph->n_nodes - n_before);
        return QB_OK;
    }
    if (status != QB_STATUS_UNSUPPORTED) return qb_onnx_wrap_node(cx, index, proto);
    return note_error(cx, reader, index, proto);
}

qb_status qb_onnx_read_nodes(qb_ctx *cx, qb_onnx_reader *reader) {
    QB_TRY(qb_onnx_expand(cx, reader));
    return qb_onnx_read_expanded(cx, reader);
}

qb_status qb_onnx_read_expanded(qb_ctx *cx, qb_onnx_reader *reader) {
    const qb_onnx_source *node = reader->node;
    if (reader->n_nodes > INT32_MAX / 4)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "%zu nodes are too many", reader->n_nodes);
    for (size_t i = 0; i < reader->n_nodes; i++)
        if (read_node(cx, reader, i) != QB_OK) return qb_onnx_wrap_node(cx, i, node[i].proto);
    int32_t n = reader->graph->n_nodes;
    for (int32_t i = 0; i < n; i++)
        if (reader->graph->nodes[i].op && resolve_inputs(cx, reader, i) != QB_OK)
            return qb_onnx_wrap_node(cx, (size_t)reader->file_node[i],
                                     node[reader->file_node[i]].proto);
    for (int32_t i = 0; i < n && !reader->as_written; i++) {
        const qb_graph *graph = reader->graph;
        const int32_t n_nodes = graph->n_nodes, n_values = graph->n_values;
        if (!graph->nodes[i].op) continue;
        QB_TRY(upgrade(cx, reader, i));
        QB_TRY(qb_onnx_spend_upgrade(cx, reader, graph->n_nodes - n_nodes,
                                     graph->n_values - n_values));
    }
    return reader->n_reasons ? report_reasons(cx, reader) : QB_OK;
}
