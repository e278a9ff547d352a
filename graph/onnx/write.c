/* Graphs to ONNX files.
 *
 * A quantized value x is written as QuantizeLinear -> DequantizeLinear behind its producer; users
 * read the latter's output. Quantized constants are integer initializers -> DequantizeLinear. The
 * names are such that reading gives the same graph: x keeps its name, constants and graph outputs
 * give theirs to DequantizeLinear's output.
 *
 * The file declares the lowest opset from 17 on in which its nodes mean what they mean in memory
 * (opset.c). Nothing in it depends on time, place or memory addresses. */
#include <errno.h>
#include <string.h>

#include "base/text.h"
#include "onnx_internal.h"

#define MAX_FILE_BYTES INT32_MAX /* protobuf's limit on a message */

typedef struct writer {
    qb_ctx *cx;
    const qb_graph *graph;
    qb_arena *arena; /* everything that goes into the message */
    Onnx__GraphProto *proto;
    size_t cap_nodes, cap_initializers;
    qb_names names; /* of values, those made here included */
    qb_names node_names;
    const char **node_name; /* [n_nodes] no two alike: onnxruntime refuses such files */
    const char **use;       /* [n_values] what users call the value; NULL: not written yet */
} writer;

static void *take(writer *w, size_t n, size_t size) {
    return qb_arena_alloc(w->cx, w->arena, n, size);
}

/* protobuf-c takes char *, and does not write through it. */
static char *text(const char *constant) { return (char *)(uintptr_t)constant; }

static qb_status append(writer *w, void *list_pointer, size_t *n, size_t *capacity, void *item) {
    void **list;
    memcpy(&list, list_pointer, sizeof list);
    if (*n == *capacity) {
        size_t grown = *capacity ? *capacity * 2 : 64;
        void **larger = QB_NEW(w->cx, take(w, grown, sizeof *larger));
        if (*n) memcpy(larger, list, *n * sizeof *larger);
        memcpy(list_pointer, &larger, sizeof larger);
        list = larger;
        *capacity = grown;
    }
    list[(*n)++] = item;
    return QB_OK;
}

/* A new name from an existing one. */
static const char *name_with(writer *w, const char *name, const char *suffix) {
    const char *joined = qb_arena_format(w->cx, w->arena, "%s%s", name, suffix);
    const char *unique = joined ? qb_names_unique(w->cx, w->arena, &w->names, joined) : NULL;
    if (!unique || qb_names_put(w->cx, w->arena, &w->names, unique, 0) != QB_OK) return NULL;
    return unique;
}

/* --- tensors
 * --------------------------------------------------------------------------------------- */

static qb_status fill_tensor(writer *w, Onnx__TensorProto *proto, const char *name, qb_dtype dtype,
                             const qb_shape *shape, const void *data) {
    qb_desc desc = {.dtype = dtype, .shape = *shape};
    onnx__tensor_proto__init(proto);
    proto->name = text(name);
    proto->has_data_type = true;
    proto->data_type = qb_dtype_to_onnx(dtype);
    proto->n_dims = (size_t)shape->rank;
    QB_TRY_NEW(w->cx, proto->dims = take(w, proto->n_dims, sizeof *proto->dims));
    memcpy(proto->dims, shape->dim, proto->n_dims * sizeof *proto->dims);
    proto->has_raw_data = true;
    proto->raw_data.len = qb_desc_bytes(&desc);
    proto->raw_data.data = (uint8_t *)(uintptr_t)data; /* protobuf-c only reads it */
    return QB_OK;
}

static qb_status add_initializer(writer *w, const char *name, qb_dtype dtype, const qb_shape *shape,
                                 const void *data) {
    Onnx__TensorProto *proto = QB_NEW(w->cx, take(w, 1, sizeof *proto));
    QB_TRY(fill_tensor(w, proto, name, dtype, shape, data));
    return append(w, &w->proto->initializer, &w->proto->n_initializer, &w->cap_initializers, proto);
}

/* --- nodes
 * ----------------------------------------------------------------------------------------- */

static Onnx__NodeProto *new_node(writer *w, const char *op, const char *name, size_t n_in,
                                 size_t n_out) {
    Onnx__NodeProto *proto = take(w, 1, sizeof *proto);
    if (!proto) return NULL;
    onnx__node_proto__init(proto);
    proto->op_type = text(op);
    proto->name = *name ? text(name) : NULL;
    proto->n_input = n_in;
    proto->n_output = n_out;
    proto->input = take(w, n_in, sizeof *proto->input);
    proto->output = take(w, n_out, sizeof *proto->output);
    if (!proto->input || !proto->output) return NULL;
    if (append(w, &w->proto->node, &w->proto->n_node, &w->cap_nodes, proto) != QB_OK) return NULL;
    return proto;
}

/* At most one attribute is added to Q and DQ nodes: axis. */
static qb_status add_axis(writer *w, Onnx__NodeProto *node, int32_t axis) {
    Onnx__AttributeProto *attr = QB_NEW(w->cx, take(w, 1, sizeof *attr));
    QB_TRY_NEW(w->cx, node->attribute = take(w, 1, sizeof *node->attribute));
    onnx__attribute_proto__init(attr);
    attr->name = text("axis");
    attr->has_type = attr->has_i = true;
    attr->type = QB_ONNX_ATTR_INT;
    attr->i = axis;
    node->attribute[node->n_attribute++] = attr;
    return QB_OK;
}

/* Zero points in the integer type. */
static void *pack_zeros(writer *w, const qb_qparams *q) {
    uint8_t *packed = take(w, (size_t)q->n, 1);
    for (int32_t i = 0; packed && q->zero && i < q->n; i++) packed[i] = (uint8_t)q->zero[i];
    return packed;
}

/* Initializers for scale and zero point. An s32 value has no zero point in ONNX. */
static qb_status add_qparams(writer *w, const char *base, const qb_qparams *q, const char **scale,
                             const char **zero) {
    qb_shape shape = {.rank = q->axis < 0 ? 0 : 1, .dim = {q->n}};
    QB_TRY_NEW(w->cx, *scale = name_with(w, base, "_scale"));
    QB_TRY(add_initializer(w, *scale, QB_DTYPE_F32, &shape, q->scale));
    *zero = NULL;
    if (q->dtype == QB_DTYPE_S32) return QB_OK;
    QB_TRY_NEW(w->cx, *zero = name_with(w, base, "_zero_point"));
    void *zeros = QB_NEW(w->cx, pack_zeros(w, q));
    return add_initializer(w, *zero, q->dtype, &shape, zeros);
}

/* A QuantizeLinear or DequantizeLinear node named after its output. */
static qb_status add_qdq_node(writer *w, const char *op, const char *in, const char *scale,
                              const char *zero, const char *out, const char *base, int32_t axis) {
    const char *joined = qb_arena_format(w->cx, w->arena, "%s_%s", base, op);
    const char *name = joined ? qb_names_unique(w->cx, w->arena, &w->node_names, joined) : NULL;
    if (!name || qb_names_put(w->cx, w->arena, &w->node_names, name, w->graph->n_nodes) != QB_OK)
        return w->cx->code;
    Onnx__NodeProto *node = QB_NEW(w->cx, new_node(w, op, name, zero ? 3 : 2, 1));
    node->input[0] = text(in);
    node->input[1] = text(scale);
    if (zero) node->input[2] = text(zero);
    node->output[0] = text(out);
    return axis < 0 ? QB_OK : add_axis(w, node, axis);
}

static qb_status fill_strings(writer *w, const qb_strings *list, Onnx__AttributeProto *attr) {
    attr->type = QB_ONNX_ATTR_STRINGS;
    QB_TRY_NEW(w->cx, attr->strings = take(w, (size_t)list->n, sizeof *attr->strings));
    for (; attr->n_strings < (size_t)list->n; attr->n_strings++) {
        const char *string = list->v[attr->n_strings];
        attr->strings[attr->n_strings] =
            (ProtobufCBinaryData){strlen(string), (uint8_t *)(uintptr_t)string};
    }
    return QB_OK;
}

static qb_status fill_attribute(writer *w, const qb_attr_desc *desc, const void *field,
                                Onnx__AttributeProto *attr) {
    onnx__attribute_proto__init(attr);
    attr->name = text(desc->name);
    attr->has_type = true;
    switch (desc->type) {
    case QB_ATTR_INT:
        attr->type = QB_ONNX_ATTR_INT;
        attr->has_i = true;
        attr->i = *(const int64_t *)field;
        return QB_OK;
    case QB_ATTR_FLOAT:
        attr->type = QB_ONNX_ATTR_FLOAT;
        attr->has_f = true;
        attr->f = *(const float *)field;
        return QB_OK;
    case QB_ATTR_STRING: {
        const char *string = *(const char *const *)field;
        attr->type = QB_ONNX_ATTR_STRING;
        attr->has_s = true;
        attr->s.data = (uint8_t *)(uintptr_t)(string ? string : "");
        attr->s.len = string ? strlen(string) : 0;
        return QB_OK;
    }
    case QB_ATTR_INTS: {
        const qb_ints *list = field;
        attr->type = QB_ONNX_ATTR_INTS;
        attr->n_ints = (size_t)list->n;
        attr->ints = (int64_t *)(uintptr_t)list->v;
        return QB_OK;
    }
    case QB_ATTR_FLOATS: {
        const qb_floats *list = field;
        attr->type = QB_ONNX_ATTR_FLOATS;
        attr->n_floats = (size_t)list->n;
        attr->floats = (float *)(uintptr_t)list->v;
        return QB_OK;
    }
    case QB_ATTR_STRINGS: return fill_strings(w, field, attr);
    case QB_ATTR_TENSOR: {
        const qb_tensor *tensor = field;
        attr->type = QB_ONNX_ATTR_TENSOR;
        QB_TRY_NEW(w->cx, attr->t = take(w, 1, sizeof *attr->t));
        return fill_tensor(w, attr->t, desc->name, tensor->desc.dtype, &tensor->desc.shape,
                           tensor->data);
    }
    }
    return QB_OK;
}

/* Only what is not the default: attributes that a node does not use may be newer than the opset. */
static qb_status add_attributes(writer *w, const qb_node *node, Onnx__NodeProto *proto) {
    size_t rows = 0;
    for (const qb_attr_desc *desc = node->op->attrs; desc && desc->name; desc++) rows++;
    QB_TRY_NEW(w->cx, proto->attribute = take(w, rows, sizeof *proto->attribute));
    for (size_t i = 0; i < rows && node->attrs; i++) {
        const qb_attr_desc *desc = &node->op->attrs[i];
        if (desc->import_only || (!desc->required && qb_attr_is_default(desc, node->attrs)))
            continue;
        Onnx__AttributeProto *attr = QB_NEW(w->cx, take(w, 1, sizeof *attr));
        QB_TRY(fill_attribute(w, desc, (const char *)node->attrs + desc->offset, attr));
        proto->attribute[proto->n_attribute++] = attr;
    }
    return QB_OK;
}

/* --- values
 * ---------------------------------------------------------------------------------------- */

static qb_status write_constant(writer *w, int32_t id) {
    const qb_value *value = &w->graph->values[id];
    if (w->use[id]) return QB_OK;
    w->use[id] = value->name;
    if (value->q.n == 0)
        return add_initializer(w, value->name, value->dtype, &value->shape, value->data);
    const char *integers = name_with(w, value->name, "_quantized"), *scale, *zero;
    if (!integers) return w->cx->code;
    QB_TRY(add_initializer(w, integers, value->dtype, &value->shape, value->data));
    QB_TRY(add_qparams(w, value->name, &value->q, &scale, &zero));
    return add_qdq_node(w, "DequantizeLinear", integers, scale, zero, value->name, value->name,
                        value->q.axis);
}

/* The name that the producer of a value (or the graph, for an input) gives it, and that its users
 * read. They differ for quantized values. */
static qb_status name_activation(writer *w, int32_t id, bool is_output, const char **made) {
    const qb_value *value = &w->graph->values[id];
    *made = w->use[id] = value->name;
    if (value->q.n == 0) return QB_OK;
    if (is_output)
        *made = name_with(w, value->name, "_QuantizeLinear_Input");
    else
        w->use[id] = name_with(w, value->name, "_DequantizeLinear_Output");
    return *made && w->use[id] ? QB_OK : w->cx->code;
}

static qb_status write_pair(writer *w, int32_t id, const char *made) {
    const qb_value *value = &w->graph->values[id];
    if (value->q.n == 0) return QB_OK;
    const char *scale, *zero;
    const char *code = QB_NEW(w->cx, name_with(w, value->name, "_QuantizeLinear_Output"));
    QB_TRY(add_qparams(w, value->name, &value->q, &scale, &zero));
    QB_TRY(add_qdq_node(w, "QuantizeLinear", made, scale, zero, code, value->name, value->q.axis));
    return add_qdq_node(w, "DequantizeLinear", code, scale, zero, w->use[id], value->name,
                        value->q.axis);
}

static qb_status write_node(writer *w, int32_t index, const bool *is_output) {
    const qb_node *node = &w->graph->nodes[index];
    size_t n_in = (size_t)node->n_in, n_out = (size_t)node->n_out;
    while (n_in && node->in[n_in - 1] < 0) n_in--;
    while (n_out && node->out[n_out - 1] < 0) n_out--;
    for (size_t i = 0; i < n_in; i++)
        if (node->in[i] >= 0 && w->graph->values[node->in[i]].data)
            QB_TRY(write_constant(w, node->in[i]));
    Onnx__NodeProto *proto = new_node(w, node->op->name, w->node_name[index], n_in, n_out);
    if (!proto) return w->cx->code;
    if (*node->op->domain) proto->domain = text(node->op->domain);
    for (size_t i = 0; i < n_in; i++)
        proto->input[i] = text(node->in[i] < 0 ? "" : w->use[node->in[i]]);
    QB_TRY(add_attributes(w, node, proto));
    for (size_t i = 0; i < n_out; i++) {
        const char *made = "";
        if (node->out[i] >= 0)
            QB_TRY(name_activation(w, node->out[i], is_output[node->out[i]], &made));
        proto->output[i] = text(made);
    }
    for (size_t i = 0; i < n_out; i++)
        if (node->out[i] >= 0) QB_TRY(write_pair(w, node->out[i], proto->output[i]));
    return QB_OK;
}

/* --- the graph's interface
 * ------------------------------------------------------------------------- */

static Onnx__ValueInfoProto *new_info(writer *w, const char *name, const qb_value *value) {
    struct info {
        Onnx__ValueInfoProto info;
        Onnx__TypeProto type;
        Onnx__TypeProto__Tensor tensor;
        Onnx__TensorShapeProto shape;
        Onnx__TensorShapeProto__Dimension dim[QB_MAX_RANK], *list[QB_MAX_RANK];
    } *it = take(w, 1, sizeof *it);
    if (!it) return NULL;
    if (value->dtype == QB_DTYPE_NONE) {
        qb_fail(w->cx, QB_STATUS_INTERNAL, "'%s' has no type: the graph is not inferred", name);
        return NULL;
    }
    onnx__value_info_proto__init(&it->info);
    onnx__type_proto__init(&it->type);
    onnx__type_proto__tensor__init(&it->tensor);
    onnx__tensor_shape_proto__init(&it->shape);
    it->info.name = text(name);
    it->info.type = &it->type;
    it->type.tensor_type = &it->tensor;
    it->tensor.has_elem_type = true;
    it->tensor.elem_type = qb_dtype_to_onnx(value->q.n ? QB_DTYPE_F32 : value->dtype);
    if (value->shape.rank < 0) return &it->info;
    it->tensor.shape = &it->shape;
    it->shape.n_dim = (size_t)value->shape.rank;
    it->shape.dim = it->list;
    for (int32_t i = 0; i < value->shape.rank; i++) {
        Onnx__TensorShapeProto__Dimension *dim = it->list[i] = &it->dim[i];
        int64_t size = value->shape.dim[i];
        onnx__tensor_shape_proto__dimension__init(dim);
        if (size >= 0) {
            dim->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
            dim->dim_value = size;
        } else if (size <= -2) {
            dim->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM;
            dim->dim_param = text(w->graph->symbols[-2 - size]);
        }
    }
    return &it->info;
}

static qb_status write_inputs(writer *w, const bool *is_output) {
    const qb_graph *graph = w->graph;
    QB_TRY_NEW(w->cx, w->proto->input = take(w, (size_t)graph->n_inputs, sizeof *w->proto->input));
    for (int32_t i = 0; i < graph->n_inputs; i++) {
        int32_t id = graph->inputs[i];
        const qb_value *value = &graph->values[id];
        if (value->q.n && is_output[id])
            return qb_fail(w->cx, QB_STATUS_INTERNAL, "'%s' is quantized, an input and an output",
                           value->name);
        const char *made;
        QB_TRY(name_activation(w, id, false, &made));
        Onnx__ValueInfoProto *info = QB_NEW(w->cx, new_info(w, made, value));
        w->proto->input[w->proto->n_input++] = info;
        QB_TRY(write_pair(w, id, made));
    }
    return QB_OK;
}

static qb_status write_outputs(writer *w) {
    const qb_graph *graph = w->graph;
    w->proto->output = take(w, (size_t)graph->n_outputs, sizeof *w->proto->output);
    if (!w->proto->output) return w->cx->code;
    for (int32_t i = 0; i < graph->n_outputs; i++) {
        int32_t id = graph->outputs[i];
        const qb_value *value = &graph->values[id];
        if (value->data) QB_TRY(write_constant(w, id));
        Onnx__ValueInfoProto *info = QB_NEW(w->cx, new_info(w, value->name, value));
        w->proto->output[w->proto->n_output++] = info;
    }
    return QB_OK;
}

static qb_status fill_graph(writer *w) {
    const qb_graph *graph = w->graph;
    bool *is_output = QB_NEW(w->cx, take(w, (size_t)graph->n_values, sizeof *is_output));
    QB_TRY_NEW(w->cx, w->use = take(w, (size_t)graph->n_values, sizeof *w->use));
    for (int32_t i = 0; i < graph->n_outputs; i++) is_output[graph->outputs[i]] = true;
    for (int32_t i = 0; i < graph->n_values; i++)
        QB_TRY(qb_names_put(w->cx, w->arena, &w->names, graph->values[i].name, i));
    QB_TRY_NEW(w->cx, w->node_name = take(w, (size_t)graph->n_nodes, sizeof *w->node_name));
    QB_TRY(qb_names_of_nodes(w->cx, w->arena, graph, &w->node_names, w->node_name));
    w->proto->name = text(graph->name);
    QB_TRY(write_inputs(w, is_output));
    for (int32_t i = 0; i < graph->n_nodes; i++)
        if (graph->nodes[i].op) QB_TRY(write_node(w, i, is_output));
    return write_outputs(w);
}

/* --- the model
 * ------------------------------------------------------------------------------------- */

static qb_status add_opset(writer *w, Onnx__ModelProto *model, size_t *capacity, const char *domain,
                           int64_t version) {
    for (size_t i = 0; i < model->n_opset_import; i++)
        if (strcmp(model->opset_import[i]->domain, domain) == 0) return QB_OK;
    Onnx__OperatorSetIdProto *import = QB_NEW(w->cx, take(w, 1, sizeof *import));
    onnx__operator_set_id_proto__init(import);
    import->domain = text(domain);
    import->has_version = true;
    import->version = version;
    return append(w, &model->opset_import, &model->n_opset_import, capacity, import);
}

static qb_status fill_model(writer *w, Onnx__ModelProto *model) {
    const qb_graph *graph = w->graph;
    int32_t opset = qb_onnx_lowest_opset(graph);
    size_t capacity = 0;
    onnx__model_proto__init(model);
    model->has_ir_version = true;
    model->ir_version = qb_onnx_ir_version(opset);
    model->producer_name = text("qbench");
    model->producer_version = text(QB_VERSION);
    QB_TRY_NEW(w->cx, w->proto = take(w, 1, sizeof *w->proto));
    onnx__graph_proto__init(w->proto);
    model->graph = w->proto;
    QB_TRY(add_opset(w, model, &capacity, "", opset));
    for (int32_t i = 0; i < graph->n_nodes; i++)
        if (graph->nodes[i].op && *graph->nodes[i].op->domain)
            QB_TRY(add_opset(w, model, &capacity, graph->nodes[i].op->domain, 1));
    return fill_graph(w);
}

typedef struct stream_buffer {
    ProtobufCBuffer base;
    FILE *stream;
    int error; /* errno of the first failure */
} stream_buffer;

static void append_to_stream(ProtobufCBuffer *base, size_t n, const uint8_t *data) {
    stream_buffer *buffer = (stream_buffer *)base;
    errno = 0;
    if (!buffer->error && n && fwrite(data, 1, n, buffer->stream) != n)
        buffer->error = errno ? errno : EIO;
}

static qb_status pack(qb_ctx *cx, const Onnx__ModelProto *model, FILE *stream) {
    size_t size = onnx__model_proto__get_packed_size(model);
    if (size > MAX_FILE_BYTES)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "%zu bytes: an ONNX file holds at most %d", size,
                       MAX_FILE_BYTES);
    stream_buffer buffer = {{append_to_stream}, stream, 0};
    onnx__model_proto__pack_to_buffer(model, &buffer.base);
    if (!buffer.error) return QB_OK;
    errno = buffer.error;
    return qb_fail_errno(cx, "write");
}

/* Names go out as they came in. */
static qb_status restore(void *user, char **slot) {
    writer *w = user;
    if (!strstr(*slot, "\\x")) return QB_OK;
    char *raw = QB_NEW(w->cx, qb_arena_strdup(w->cx, w->arena, *slot));
    qb_text_restore(raw);
    *slot = raw;
    return QB_OK;
}

static qb_status build(writer *w, Onnx__ModelProto *model) {
    QB_TRY(qb_graph_verify(w->cx, w->graph));
    QB_TRY(qb_arena_create(w->cx, &w->arena));
    QB_TRY(fill_model(w, model));
    return qb_wire_each_text(&model->base, restore, w);
}

qb_status qb_onnx_write(qb_ctx *cx, const qb_graph *graph, FILE *stream) {
    writer w = {.cx = cx, .graph = graph};
    Onnx__ModelProto model;
    qb_status status = build(&w, &model);
    if (status == QB_OK) status = pack(cx, &model, stream);
    qb_arena_free(w.arena);
    return status;
}

qb_status qb_onnx_save_split(qb_ctx *cx, const qb_graph *graph, const char *path, size_t most) {
    writer w = {.cx = cx, .graph = graph};
    Onnx__ModelProto model;
    qb_writer file = {0};
    qb_status status = build(&w, &model);
    if (status == QB_OK) status = qb_writer_open(cx, path, &file);
    /* beside a pipe or /dev/null there is no place for data */
    if (status == QB_OK && file.temp && onnx__model_proto__get_packed_size(&model) > most)
        status = qb_external_write(cx, w.arena, path, w.proto);
    if (status == QB_OK) status = pack(cx, &model, file.stream);
    if (status == QB_OK) status = qb_writer_commit(cx, &file);
    qb_writer_abort(&file);
    qb_arena_free(w.arena);
    return status == QB_OK ? QB_OK : qb_wrap(cx, "save %s", path);
}

qb_status qb_onnx_save(qb_ctx *cx, const qb_graph *graph, const char *path) {
    return qb_onnx_save_split(cx, graph, path, MAX_FILE_BYTES);
}
