/* ONNX files to graphs. */
#include <string.h>

#include "base/file_kind.h"
#include "base/log.h"
#include "base/text.h"
#include "graph/rewrite_internal.h"
#include "onnx_internal.h"

#define FIELD_MODEL_GRAPH 7
#define FIELD_GRAPH_INITIALIZER 5
#define FIELD_GRAPH_SPARSE_INITIALIZER 15
#define MAX_SYMBOLS 4096

/* Cuts the model into a skeleton of itself without the graph, a skeleton of the graph without
 * initializers, and the initializers. Fields that the schema lacks are left behind as well. */
static qb_status cut_graph(qb_ctx *cx, qb_span graph, qb_bytes *skeleton,
                           qb_onnx_spans *initializers) {
    qb_wire_field field;
    while (qb_wire_next(&graph, &field)) {
        if (field.number == FIELD_GRAPH_SPARSE_INITIALIZER)
            return qb_fail(cx, QB_STATUS_UNSUPPORTED, "sparse initializers are not supported");
        if (field.number == FIELD_GRAPH_INITIALIZER) {
            QB_TRY(qb_grow(cx, &initializers->span, &initializers->capacity, initializers->n + 1,
                           sizeof *initializers->span));
            initializers->span[initializers->n++] = field.content;
        } else if (protobuf_c_message_descriptor_get_field(&onnx__graph_proto__descriptor,
                                                           field.number)) {
            QB_TRY(qb_bytes_add(cx, skeleton, field.whole));
        }
    }
    return QB_OK;
}

static qb_status unpack_model(qb_ctx *cx, qb_onnx_reader *reader, qb_span bytes,
                              qb_onnx_spans *initializers) {
    qb_bytes model = {0}, graph = {0};
    ProtobufCMessage *message = NULL;
    qb_wire_field field;
    bool has_graph = false;
    qb_status status = QB_OK;
    while (qb_wire_next(&bytes, &field)) {
        if (field.number == FIELD_MODEL_GRAPH) {
            has_graph = true;
            reader->graph_bytes = field.content;
            QB_GO(cut_graph(cx, field.content, &graph, initializers));
        } else if (protobuf_c_message_descriptor_get_field(&onnx__model_proto__descriptor,
                                                           field.number)) {
            QB_GO(qb_bytes_add(cx, &model, field.whole));
        }
    }
    if (!has_graph) QB_GO(qb_fail(cx, QB_STATUS_FORMAT, "no graph in the model"));
    QB_GO(qb_wire_unpack(cx, &onnx__model_proto__descriptor, (qb_span){model.data, model.size},
                         &message));
    reader->model = (Onnx__ModelProto *)message;
    QB_GO(qb_wire_unpack(cx, &onnx__graph_proto__descriptor, (qb_span){graph.data, graph.size},
                         &message));
    reader->proto = (Onnx__GraphProto *)message;
out:
    QB_FREE_ALL(model.data, graph.data);
    return status;
}

/* Each node looks for its domain among them. */
enum { IMPORTS_MAX = 256 };

/* Two versions of one domain contradict each other. */
static qb_status check_imports(qb_ctx *cx, qb_onnx_imports imports) {
    if (imports.n > IMPORTS_MAX)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "%zu opsets are imported, at most %d", imports.n,
                       IMPORTS_MAX);
    for (size_t i = 0; i < imports.n; i++) {
        const int64_t version = imports.import[i]->version;
        const char *domain = qb_onnx_domain(imports.import[i]->domain);
        for (size_t k = 0; k < i; k++)
            if (strcmp(qb_onnx_domain(imports.import[k]->domain), domain) == 0 &&
                imports.import[k]->version != version)
                return qb_fail(cx, QB_STATUS_FORMAT,
                               "opset of domain '%.80s': version %lld and %lld", domain,
                               (long long)imports.import[k]->version, (long long)version);
    }
    return QB_OK;
}

static qb_status check_functions(qb_ctx *cx, const Onnx__ModelProto *model) {
    for (size_t i = 0; i < model->n_functions; i++) {
        const Onnx__FunctionProto *f = model->functions[i];
        QB_TRY_WRAP(cx, check_imports(cx, (qb_onnx_imports){f->n_opset_import, f->opset_import}),
                    "function '%.60s'", qb_onnx_text(f->name));
    }
    return QB_OK;
}

static qb_status check_versions(qb_ctx *cx, const Onnx__ModelProto *model, int32_t *opset) {
    if (model->ir_version < QB_ONNX_IR_OLDEST)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "IR version: expected at least %d, got %lld",
                       QB_ONNX_IR_OLDEST, (long long)model->ir_version);
    const qb_onnx_imports imports = qb_onnx_model_imports(model);
    bool found = false;
    QB_TRY(check_imports(cx, imports));
    QB_TRY(check_functions(cx, model));
    for (size_t i = 0; i < imports.n; i++) {
        const int64_t version = imports.import[i]->version;
        const char *domain = qb_onnx_domain(imports.import[i]->domain);
        if (version < 1 || version > INT32_MAX)
            return qb_fail(cx, QB_STATUS_FORMAT, "opset of domain '%.80s': version %lld", domain,
                           (long long)version);
        found = found || !*domain;
    }
    const int64_t version = qb_onnx_domain_version(imports, "");
    if (!found)
        return qb_fail(cx, QB_STATUS_FORMAT, "the model imports no opset of the default domain");
    if (version < QB_ONNX_OPSET_OLDEST)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "opset: expected %d to %d, got %lld",
                       QB_ONNX_OPSET_OLDEST, QB_ONNX_OPSET_NEWEST, (long long)version);
    if (version > QB_ONNX_OPSET_NEWEST)
        qb_info(cx, "opset %lld is newer than %d and is read by that one's rules",
                (long long)version, QB_ONNX_OPSET_NEWEST);
    *opset = (int32_t)version;
    return QB_OK;
}

static qb_status add_initializer(qb_ctx *cx, qb_onnx_reader *reader, size_t index, qb_span bytes) {
    qb_onnx_tensor tensor;
    qb_status status = qb_onnx_tensor_unpack(cx, &reader->externals, bytes, &tensor);
    const char *name = tensor.proto ? qb_onnx_text(tensor.proto->name) : "";
    int32_t id;
    void *data;
    QB_GO(status);
    if (!*name) QB_GO(qb_fail(cx, QB_STATUS_FORMAT, "no name"));
    if (qb_graph_find_value(reader->graph, name) >= 0)
        QB_GO(qb_fail(cx, QB_STATUS_FORMAT, "the name is taken"));
    data = qb_graph_new_constant(cx, reader->graph, name, tensor.dtype, &tensor.shape, &id);
    if (!data) QB_GO(cx->code);
    QB_GO(qb_onnx_tensor_fill(cx, &tensor, data));
    QB_GO(qb_onnx_note_packed(cx, reader, name, &tensor));
out:
    if (status != QB_OK) qb_wrap(cx, "initializer %zu '%.80s'", index, name);
    qb_wire_free((ProtobufCMessage *)tensor.proto);
    return status;
}

/* Some exporters call every dimension that they do not know "?": that is no name. */
static bool names_symbol(const char *param) { return *param && strcmp(param, "?") != 0; }

static qb_status read_type(qb_ctx *cx, qb_graph *graph, const Onnx__TypeProto *type,
                           qb_dtype *dtype, qb_shape *shape) {
    if (!type || !type->tensor_type)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "expected a tensor type");
    *dtype = qb_dtype_from_onnx(type->tensor_type->elem_type);
    if (*dtype == QB_DTYPE_NONE)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "element type %d is not supported",
                       (int)type->tensor_type->elem_type);
    *shape = (qb_shape){.rank = -1};
    const Onnx__TensorShapeProto *from = type->tensor_type->shape;
    if (!from) return QB_OK;
    if (from->n_dim > QB_MAX_RANK)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "expected at most %d dimensions, got %zu",
                       QB_MAX_RANK, from->n_dim);
    shape->rank = (int32_t)from->n_dim;
    for (size_t i = 0; i < from->n_dim; i++) {
        const Onnx__TensorShapeProto__Dimension *dim = from->dim[i];
        shape->dim[i] = -1;
        if (dim->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE) {
            if (dim->dim_value >= 0) shape->dim[i] = dim->dim_value; /* some write -1: unknown */
        } else if (dim->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM &&
                   names_symbol(qb_onnx_text(dim->dim_param))) {
            if (graph->n_symbols >= MAX_SYMBOLS)
                return qb_fail(cx, QB_STATUS_UNSUPPORTED, "more than %d symbolic dimensions",
                               MAX_SYMBOLS);
            shape->dim[i] = qb_graph_add_symbol(cx, graph, dim->dim_param);
            if (shape->dim[i] == 0) return cx->code;
        }
    }
    qb_desc desc = {.dtype = *dtype, .shape = *shape};
    if (qb_shape_known(shape) && qb_desc_bytes(&desc) > PTRDIFF_MAX)
        return qb_fail(cx, QB_STATUS_FORMAT, "the shape overflows");
    return QB_OK;
}

/* A tensor of another graph as an input of this one. */
static qb_status copy_type(qb_ctx *cx, qb_graph *graph, const qb_graph *from, int32_t value,
                           qb_dtype *dtype, qb_shape *shape) {
    const qb_value *it = &from->values[value];
    *dtype = it->q.n ? QB_DTYPE_F32 : it->dtype; /* what quantized values stand for */
    *shape = it->shape;
    for (int32_t i = 0; i < shape->rank; i++) {
        if (shape->dim[i] >= -1) continue;
        shape->dim[i] = qb_graph_add_symbol(cx, graph, from->symbols[-2 - shape->dim[i]]);
        if (shape->dim[i] == 0) return cx->code;
    }
    return QB_OK;
}

static qb_status read_input(qb_ctx *cx, const qb_onnx_reader *reader,
                            const Onnx__ValueInfoProto *info, qb_dtype *dtype, qb_shape *shape) {
    const int32_t made =
        reader->before ? qb_graph_find_value(reader->before, qb_onnx_text(info->name)) : -1;
    if (made >= 0) return copy_type(cx, reader->graph, reader->before, made, dtype, shape);
    return read_type(cx, reader->graph, info->type, dtype, shape);
}

/* Sizes that a shape leaves open fit any. */
static bool may_be(const Onnx__TensorShapeProto *declared, const qb_shape *shape) {
    if (!declared) return true;
    if ((int64_t)declared->n_dim != shape->rank) return false;
    for (int32_t i = 0; i < shape->rank; i++) {
        const Onnx__TensorShapeProto__Dimension *dim = declared->dim[i];
        if (dim->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE &&
            dim->dim_value >= 0 && dim->dim_value != shape->dim[i])
            return false;
    }
    return true;
}

/* What an input is declared to be is what its initializer is. */
static qb_status check_initialized(qb_ctx *cx, const Onnx__ValueInfoProto *info,
                                   const qb_value *given) {
    const Onnx__TypeProto__Tensor *type = info->type ? info->type->tensor_type : NULL;
    char text[128];
    if (!type) return QB_OK;
    if (type->has_elem_type && qb_dtype_from_onnx(type->elem_type) != given->dtype)
        return qb_fail(cx, QB_STATUS_FORMAT,
                       "input '%.80s': its initializer is %s, it is declared %s", info->name,
                       qb_dtype_text(given->dtype),
                       qb_dtype_text(qb_dtype_from_onnx(type->elem_type)));
    if (may_be(type->shape, &given->shape)) return QB_OK;
    return qb_fail(cx, QB_STATUS_FORMAT,
                   "input '%.80s': its initializer is %s, it is declared of another shape",
                   info->name, qb_shape_text(&given->shape, text, sizeof text));
}

/* Until IR 4 initializers had to be listed as inputs, too; then they are no inputs to us. */
static qb_status add_inputs(qb_ctx *cx, qb_onnx_reader *reader) {
    const Onnx__GraphProto *proto = reader->proto;
    qb_graph *graph = reader->graph;
    graph->inputs = qb_arena_alloc(cx, graph->arena, proto->n_input, sizeof *graph->inputs);
    if (!graph->inputs) return cx->code;
    for (size_t i = 0; i < proto->n_input; i++) {
        const char *name = qb_onnx_text(proto->input[i]->name);
        int32_t id = qb_graph_find_value(graph, name);
        if (id >= 0 && graph->values[id].data) {
            QB_TRY(check_initialized(cx, proto->input[i], &graph->values[id]));
            continue;
        }
        if (!*name) return qb_fail(cx, QB_STATUS_FORMAT, "input %zu: no name", i);
        if (id >= 0) return qb_fail(cx, QB_STATUS_FORMAT, "input '%.80s': listed twice", name);
        qb_dtype dtype = QB_DTYPE_NONE;
        qb_shape shape;
        QB_TRY_WRAP(cx, read_input(cx, reader, proto->input[i], &dtype, &shape), "input '%.80s'",
                    name);
        id = qb_graph_add_value(cx, graph, name, dtype, &shape);
        if (id < 0) return cx->code;
        graph->inputs[graph->n_inputs++] = id;
    }
    return QB_OK;
}

static bool has_branches(const qb_onnx_reader *reader) {
    const Onnx__GraphProto *proto = reader->proto;
    bool found = reader->model->n_functions > 0;
    for (size_t i = 0; i < proto->n_node && !found; i++)
        for (size_t k = 0; k < proto->node[i]->n_attribute && !found; k++)
            found = proto->node[i]->attribute[k]->g != NULL;
    return found;
}

static qb_status size_inputs(qb_ctx *cx, qb_onnx_reader *reader) {
    const qb_onnx_part *part = reader->part;
    return part && part->size_inputs && has_branches(reader)
               ? part->size_inputs(cx, reader->graph, part->user)
               : QB_OK;
}

/* A value that the file lists as an output once more: a copy under a new name. -1 on failure. */
static int32_t add_second_output(qb_ctx *cx, qb_graph *graph, int32_t id) {
    const char *name = graph->values[id].name;
    const int32_t copy = qb_graph_add_value(cx, graph, name, QB_DTYPE_NONE, NULL);
    if (copy < 0) return -1;
    const int32_t node =
        qb_graph_add_node(cx, graph, qb_op_find("Identity", ""), "", &id, 1, &copy, 1);
    return node < 0 ? -1 : copy;
}

static qb_status add_outputs(qb_ctx *cx, qb_onnx_reader *reader) {
    const Onnx__GraphProto *proto = reader->proto;
    qb_graph *graph = reader->graph;
    if (!proto->n_output) return qb_fail(cx, QB_STATUS_FORMAT, "the graph has no output");
    graph->outputs = qb_arena_alloc(cx, graph->arena, proto->n_output, sizeof *graph->outputs);
    QB_FREED bool *listed = qb_alloc(cx, (size_t)graph->n_values + proto->n_output, sizeof *listed);
    if (!graph->outputs || !listed) return cx->code;
    for (size_t i = 0; i < proto->n_output; i++) {
        const char *name = qb_onnx_text(proto->output[i]->name);
        int32_t id = qb_graph_find_value(graph, name);
        if (id < 0)
            return qb_fail(cx, QB_STATUS_FORMAT, "output '%.80s': nothing makes this value", name);
        if (listed[id] && (id = add_second_output(cx, graph, id)) < 0) return cx->code;
        listed[id] = true;
        graph->outputs[graph->n_outputs++] = id;
        graph->values[id].is_output = true;
    }
    return QB_OK;
}

/* Outputs that an operator only has in training are gone by now, whoever read them. */
static qb_status check_made(qb_ctx *cx, const qb_graph *graph, const qb_uses *uses, bool *given) {
    for (int32_t i = 0; i < graph->n_inputs; i++) given[graph->inputs[i]] = true;
    for (int32_t i = 0; i < graph->n_outputs; i++) uses->n_users[graph->outputs[i]]++;
    for (int32_t i = 0; i < graph->n_values; i++)
        if (uses->n_users[i] && uses->producer[i] < 0 && !given[i] && !graph->values[i].data)
            return qb_fail(cx, QB_STATUS_UNSUPPORTED,
                           "'%.80s': used, but only made in training, or by nothing",
                           graph->values[i].name);
    return QB_OK;
}

static qb_status check_all_made(qb_ctx *cx, const qb_graph *graph) {
    QB_RELEASED(qb_uses_release) qb_uses uses = {0};
    QB_TRY(qb_uses_build(cx, graph, &uses));
    QB_FREED bool *given = qb_alloc(cx, (size_t)graph->n_values, sizeof *given);
    return given ? check_made(cx, graph, &uses, given) : cx->code;
}

/* Where inference cannot even tell an output's rank, the file's word is better than nothing: ONNX
 * wants some shape there when the graph is written again. */
static qb_status declare_output(qb_ctx *cx, qb_graph *graph, const Onnx__TypeProto *type,
                                qb_value *value) {
    if (value->shape.rank >= 0 || !type || !type->tensor_type) return QB_OK;
    if (type->tensor_type->elem_type != qb_dtype_to_onnx(value->dtype)) return QB_OK;
    qb_dtype dtype = QB_DTYPE_NONE;
    qb_shape shape;
    QB_TRY_WRAP(cx, read_type(cx, graph, type, &dtype, &shape), "output '%.80s'", value->name);
    value->shape = shape;
    return QB_OK;
}

static qb_status declare_outputs(qb_ctx *cx, qb_onnx_reader *reader) {
    qb_graph *graph = reader->graph;
    QB_FREED bool *input = QB_NEW(cx, qb_alloc(cx, (size_t)graph->n_values, sizeof *input));
    for (int32_t i = 0; i < graph->n_inputs; i++) input[graph->inputs[i]] = true;
    for (int32_t i = 0; i < graph->n_outputs; i++)
        if (!input[graph->outputs[i]]) /* what an input is, it says itself */
            QB_TRY(declare_output(cx, graph, reader->proto->output[i]->type,
                                  &graph->values[graph->outputs[i]]));
    return QB_OK;
}

/* Copies of bodies, upgrades and careless exporters give several nodes one name. */
static qb_status name_nodes(qb_ctx *cx, qb_graph *graph) {
    qb_names names = {0};
    QB_RELEASED(qb_arena_free_at) qb_arena *scratch = NULL;
    QB_FREED const char **name = QB_NEW(cx, qb_alloc(cx, (size_t)graph->n_nodes, sizeof *name));
    QB_TRY(qb_arena_create(cx, &scratch));
    QB_TRY(qb_names_of_nodes(cx, scratch, graph, &names, name));
    for (int32_t i = 0; i < graph->n_nodes; i++) {
        if (!graph->nodes[i].op || strcmp(graph->nodes[i].name, name[i]) == 0) continue;
        QB_TRY_NEW(cx, graph->nodes[i].name = qb_arena_strdup(cx, graph->arena, name[i]));
    }
    return QB_OK;
}

static qb_status build(qb_ctx *cx, qb_onnx_reader *reader, const char *source, qb_span bytes,
                       const qb_onnx_spans *initializers) {
    qb_graph *graph = reader->graph;
    QB_TRY(check_versions(cx, reader->model, &graph->opset));
    if (*qb_onnx_text(reader->proto->name))
        graph->name = qb_arena_strdup(cx, graph->arena, reader->proto->name);
    graph->source = qb_arena_strdup(cx, graph->arena, QB_SHOWN(source));
    if (!graph->name || !graph->source) return cx->code;
    QB_TRY(qb_hasher_create(cx, &reader->externals.hasher));
    qb_hasher_update(reader->externals.hasher, bytes.data, bytes.size);
    for (size_t i = 0; i < initializers->n; i++)
        QB_TRY(add_initializer(cx, reader, i, initializers->span[i]));
    reader->file_bytes = bytes.size + reader->externals.bytes;
    QB_TRY(add_inputs(cx, reader));
    QB_TRY(size_inputs(cx, reader));
    QB_TRY(qb_onnx_read_nodes(cx, reader));
    QB_TRY(add_outputs(cx, reader));
    QB_TRY(check_all_made(cx, graph));
    graph->hash = qb_hasher_digest(reader->externals.hasher);
    if (!reader->as_written && !reader->unfolded) QB_TRY(qb_onnx_move_floats(cx, graph));
    QB_TRY(qb_graph_sort(cx, graph));
    if (reader->as_written) return QB_OK;
    QB_TRY(qb_graph_infer(cx, graph));
    QB_TRY(declare_outputs(cx, reader));
    qb_graph_warn_of_scales(cx, graph);
    if (!reader->unfolded) QB_TRY(qb_graph_fold_qdq(cx, graph));
    QB_TRY(qb_graph_sweep(cx, graph));
    return name_nodes(cx, graph);
}

/* What is done to the nodes of the file. */
typedef enum reading { READ_FOLDED, READ_UNFOLDED, READ_AS_WRITTEN } reading;

static qb_status parse(qb_ctx *cx, const char *source, const char *by, qb_span bytes, reading how,
                       const qb_onnx_part *part, qb_graph **out);

static bool is_described(const Onnx__ValueInfoProto *info) {
    return info->type && (!info->type->tensor_type || info->type->tensor_type->shape);
}

/* Reads what leads to the inputs of a part that the file does not describe. */
static qb_status read_before(qb_ctx *cx, qb_onnx_reader *reader, const char *source, qb_span bytes,
                             reading how) {
    const Onnx__GraphProto *proto = reader->proto;
    qb_onnx_part part = {0};
    QB_FREED const char **names = QB_NEW(cx, qb_alloc(cx, proto->n_input, sizeof *names));
    for (size_t i = 0; i < proto->n_input; i++)
        if (!is_described(proto->input[i])) names[part.n_outputs++] = proto->input[i]->name;
    part.outputs = names;
    qb_status status = QB_OK;
    if (part.n_outputs > 0)
        status = parse(cx, source, reader->externals.by, bytes, how, &part, &reader->before);
    if (status != QB_OK) qb_wrap(cx, "the type and shape of input '%.80s'", names[0]);
    return status;
}

static qb_status parse(qb_ctx *cx, const char *source, const char *by, qb_span bytes, reading how,
                       const qb_onnx_part *part, qb_graph **out) {
    qb_onnx_reader *reader = QB_NEW(cx, qb_alloc(cx, 1, sizeof *reader));
    qb_onnx_spans initializers = {0};
    qb_status status = QB_OK;
    reader->externals.by = by;
    reader->as_written = how == READ_AS_WRITTEN;
    reader->unfolded = how == READ_UNFOLDED;
    if (!bytes.size) QB_GO(qb_fail(cx, QB_STATUS_FORMAT, "the file is empty"));
    if (qb_wire_check(cx, &onnx__model_proto__descriptor, bytes) != QB_OK)
        QB_GO(qb_file_kind_of(bytes.data, bytes.size)
                  ? qb_fail_kind(cx, "not an ONNX model", bytes.data, bytes.size)
                  : qb_wrap(cx, "not an ONNX model, or a damaged one"));
    QB_GO(unpack_model(cx, reader, bytes, &initializers));
    reader->part = part;
    if (part && part->n_inputs + part->n_outputs > 0)
        QB_GO(qb_onnx_cut(cx, reader, part, &initializers));
    if (part && part->n_inputs > 0) QB_GO(read_before(cx, reader, source, bytes, how));
    QB_GO(qb_graph_create(cx, &reader->graph));
    QB_GO(build(cx, reader, source, bytes, &initializers));
    *out = QB_MOVE(reader->graph);
out:
    qb_free(initializers.span);
    qb_graph_free(reader->before);
    qb_graph_free(reader->graph);
    qb_externals_close(&reader->externals);
    qb_hasher_free(reader->externals.hasher);
    QB_FREE_ALL(reader->file_node, reader->node);
    qb_wire_free((ProtobufCMessage *)reader->model);
    qb_wire_free((ProtobufCMessage *)reader->proto);
    qb_free(reader);
    return status;
}

static qb_status parse_named(qb_ctx *cx, const char *name, const char *by, qb_span bytes,
                             reading how, const qb_onnx_part *part, qb_graph **out) {
    QB_TRY_WRAP(cx, parse(cx, name, by, bytes, how, part, out), "load %s", name);
    return QB_OK;
}

qb_status qb_onnx_parse(qb_ctx *cx, const char *name, const char *by, const void *bytes,
                        size_t size, qb_graph **out) {
    return parse_named(cx, name, by, (qb_span){bytes, size}, READ_FOLDED, NULL, out);
}

qb_status qb_onnx_parse_as_written(qb_ctx *cx, const char *name, const void *bytes, size_t size,
                                   qb_graph **out) {
    return parse_named(cx, name, NULL, (qb_span){bytes, size}, READ_AS_WRITTEN, NULL, out);
}

qb_status qb_onnx_parse_unfolded(qb_ctx *cx, const char *name, const void *bytes, size_t size,
                                 qb_graph **out) {
    return parse_named(cx, name, NULL, (qb_span){bytes, size}, READ_UNFOLDED, NULL, out);
}

qb_status qb_onnx_parse_part(qb_ctx *cx, const char *name, const void *bytes, size_t size,
                             const qb_onnx_part *part, qb_graph **out) {
    return parse_named(cx, name, NULL, (qb_span){bytes, size}, READ_FOLDED, part, out);
}

static qb_status load(qb_ctx *cx, const char *path, reading how, const qb_onnx_part *part,
                      qb_graph **out) {
    qb_map map = {0};
    qb_status status = QB_OK;
    QB_GO(qb_map_open(cx, path, &map));
    QB_GO(parse(cx, path, path, (qb_span){map.data, map.size}, how, part, out));
out:
    qb_map_close(&map);
    return status == QB_OK ? QB_OK : qb_wrap(cx, "load %s", path);
}

qb_status qb_onnx_load(qb_ctx *cx, const char *path, qb_graph **out) {
    return load(cx, path, READ_FOLDED, NULL, out);
}

qb_status qb_onnx_load_unfolded(qb_ctx *cx, const char *path, qb_graph **out) {
    return load(cx, path, READ_UNFOLDED, NULL, out);
}

qb_status qb_onnx_load_as_written(qb_ctx *cx, const char *path, qb_graph **out) {
    return load(cx, path, READ_AS_WRITTEN, NULL, out);
}

qb_status qb_onnx_load_part(qb_ctx *cx, const char *path, const qb_onnx_part *part,
                            qb_graph **out) {
    return load(cx, path, READ_FOLDED, part, out);
}
