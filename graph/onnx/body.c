/* Bodies of If and Loop that only a run can choose or count stay what they are: an operator whose
 * attributes hold them as ONNX models of their own. What a body takes from around it becomes an
 * input, behind those that it declares. */
#include <string.h>

#include "expand_internal.h"

/* What reading a body counts as, against what a model may expand to. */
#define READ_BYTES ((size_t)128 << 10)

/* --- what a body takes from around it --------------------------------------------------------- */

typedef struct names {
    qb_ctx *cx;
    qb_arena *arena;
    qb_names set;
    const char **item;
    size_t n, capacity;
} names;

static qb_status put_name(names *list, const char *name) {
    if (!name || !*name || qb_names_find(&list->set, name) >= 0) return QB_OK;
    QB_TRY(qb_grow(list->cx, &list->item, &list->capacity, list->n + 1, sizeof *list->item));
    QB_TRY(qb_names_put(list->cx, list->arena, &list->set, name, (int32_t)list->n));
    list->item[list->n++] = name;
    return QB_OK;
}

static qb_status put_made(names *made, const Onnx__GraphProto *body) {
    for (size_t i = 0; i < body->n_input; i++) QB_TRY(put_name(made, body->input[i]->name));
    for (size_t i = 0; i < body->n_initializer; i++)
        QB_TRY(put_name(made, body->initializer[i]->name));
    for (size_t i = 0; i < body->n_node; i++)
        for (size_t k = 0; k < body->node[i]->n_output; k++)
            QB_TRY(put_name(made, body->node[i]->output[k]));
    return QB_OK;
}

static qb_status put_taken(names *made, names *taken, const char *name) {
    return name && qb_names_find(&made->set, name) < 0 ? put_name(taken, name) : QB_OK;
}

/* Names that a body uses and does not make, those of bodies inside it, too. `made`: all that bodies
 * make so far: names are given once in a model. */
static qb_status find_taken(names *made, names *taken, const Onnx__GraphProto *body) {
    QB_TRY(put_made(made, body));
    for (size_t i = 0; i < body->n_node; i++) {
        const Onnx__NodeProto *node = body->node[i];
        for (size_t k = 0; k < node->n_input; k++) QB_TRY(put_taken(made, taken, node->input[k]));
        for (size_t k = 0; k < node->n_attribute; k++)
            if (node->attribute[k]->g) QB_TRY(find_taken(made, taken, node->attribute[k]->g));
    }
    for (size_t i = 0; i < body->n_output; i++)
        QB_TRY(put_taken(made, taken, body->output[i]->name));
    return QB_OK;
}

/* --- keeping one ------------------------------------------------------------------------------ */

/* The body as the bytes of a model, in a tensor attribute. */
static qb_status pack_body(qb_expander *e, const qb_frame *f, const Onnx__GraphProto *body,
                           const names *taken, const char *name, Onnx__AttributeProto **out) {
    const qb_onnx_imports imports = f->imports;
    Onnx__ModelProto model = ONNX__MODEL_PROTO__INIT;
    Onnx__GraphProto graph = *body;
    Onnx__ValueInfoProto *info = qb_expand_alloc(e, taken->n, sizeof *info);
    Onnx__ValueInfoProto **inputs = qb_expand_alloc(e, body->n_input + taken->n, sizeof *inputs);
    Onnx__TensorProto *tensor = qb_expand_alloc(e, 1, sizeof *tensor);
    Onnx__AttributeProto *attr = qb_expand_alloc(e, 1, sizeof *attr);
    if (!info || !inputs || !tensor || !attr) return e->cx->code;
    for (size_t i = 0; i < body->n_input; i++) inputs[i] = body->input[i];
    for (size_t i = 0; i < taken->n; i++) {
        onnx__value_info_proto__init(&info[i]);
        info[i].name = (char *)(uintptr_t)taken->item[i];
        inputs[body->n_input + i] = &info[i];
    }
    graph.input = inputs;
    graph.n_input = body->n_input + taken->n;
    model.has_ir_version = true;
    model.ir_version = 8;
    model.n_opset_import = imports.n;
    model.opset_import = (Onnx__OperatorSetIdProto **)(uintptr_t)imports.import;
    model.n_functions = e->reader->model->n_functions;
    model.functions = e->reader->model->functions;
    model.graph = &graph;
    onnx__tensor_proto__init(tensor);
    tensor->has_data_type = tensor->has_raw_data = true;
    tensor->data_type = qb_dtype_to_onnx(QB_DTYPE_U8);
    tensor->raw_data.len = onnx__model_proto__get_packed_size(&model);
    QB_TRY_NEW(e->cx, tensor->raw_data.data = qb_expand_alloc(e, tensor->raw_data.len, 1));
    QB_TRY_NEW(e->cx, tensor->dims = qb_expand_alloc(e, 1, sizeof *tensor->dims));
    onnx__model_proto__pack(&model, tensor->raw_data.data);
    tensor->n_dims = 1;
    tensor->dims[0] = (int64_t)tensor->raw_data.len;
    onnx__attribute_proto__init(attr);
    attr->name = (char *)(uintptr_t)name;
    attr->has_type = true;
    attr->type = QB_ONNX_ATTR_TENSOR;
    attr->t = tensor;
    *out = attr;
    return QB_OK;
}

/* How many values go around in a Loop, beside its count and condition. */
static qb_status count_carried(qb_expander *e, const Onnx__NodeProto *node,
                               Onnx__AttributeProto **out) {
    Onnx__AttributeProto *attr = QB_NEW(e->cx, qb_expand_alloc(e, 1, sizeof *attr));
    onnx__attribute_proto__init(attr);
    attr->name = (char *)(uintptr_t) "carried";
    attr->has_type = attr->has_i = true;
    attr->type = QB_ONNX_ATTR_INT;
    attr->i = node->n_input > 2 ? (int64_t)node->n_input - 2 : 0;
    *out = attr;
    return QB_OK;
}

/* What a Loop leaves out: no limit, and no condition at first. */
static qb_status input_name(qb_expander *e, const qb_frame *f, const Onnx__NodeProto *node,
                            size_t i, const char **out) {
    const char *name = node->input[i];
    if (*name) {
        *out = qb_frame_find(f, name);
        return QB_OK;
    }
    return i == 0 ? qb_expand_scalar(e, QB_ONNX_TYPE_S64, INT64_MAX, out)
                  : qb_expand_scalar(e, QB_ONNX_TYPE_BOOL, 1, out);
}

static qb_status keep(qb_expander *e, qb_frame *f, const Onnx__NodeProto *node,
                      const Onnx__GraphProto *const *body, const char *const *attribute, size_t n,
                      const names *taken) {
    Onnx__NodeProto *copy = QB_NEW(e->cx, qb_expand_alloc(e, 1, sizeof *copy));
    char **in = QB_NEW(e->cx, qb_expand_alloc(e, node->n_input + taken->n, sizeof *in));
    char **out = QB_NEW(e->cx, qb_expand_alloc(e, node->n_output, sizeof *out));
    Onnx__AttributeProto **attrs = QB_NEW(e->cx, qb_expand_alloc(e, n + 1, sizeof *attrs));
    onnx__node_proto__init(copy);
    copy->op_type = node->op_type;
    copy->name = node->name;
    copy->input = in;
    copy->output = out;
    copy->attribute = attrs;
    copy->n_attribute = n;
    copy->n_output = node->n_output;
    for (size_t i = 0; i < n; i++) QB_TRY(pack_body(e, f, body[i], taken, attribute[i], &attrs[i]));
    if (n == 1) QB_TRY(count_carried(e, node, &attrs[copy->n_attribute++]));
    for (size_t i = 0; i < node->n_input; i++) {
        const char *name;
        QB_TRY(input_name(e, f, node, i, &name));
        in[copy->n_input++] = (char *)(uintptr_t)name;
    }
    for (size_t i = 0; i < taken->n; i++)
        in[copy->n_input++] = (char *)(uintptr_t)qb_frame_find(f, taken->item[i]);
    for (size_t i = 0; i < node->n_output; i++) {
        const char *to = QB_NEW(e->cx, qb_expand_name(e, "unused"));
        if (*node->output[i]) QB_TRY(qb_frame_define(e, f, node->output[i], &to));
        out[i] = (char *)(uintptr_t)to;
    }
    return qb_expand_emit_node(e, copy);
}

qb_status qb_expand_keep(qb_expander *e, qb_frame *f, const Onnx__NodeProto *node,
                         const char *const *attribute, size_t n, bool *done) {
    const Onnx__GraphProto *body[2];
    names made = {.cx = e->cx}, taken = {.cx = e->cx};
    qb_status status = QB_OK;
    for (size_t i = 0; i < n; i++)
        if (!(body[i] = qb_expand_body(node, attribute[i]))) return QB_OK;
    for (const qb_frame *outer = f; outer; outer = outer->parent)
        if (outer->function) return QB_OK; /* attributes may refer to those of the call */
    QB_GO(qb_arena_create(e->cx, &made.arena));
    taken.arena = made.arena;
    for (size_t i = 0; i < n; i++) QB_GO(find_taken(&made, &taken, body[i]));
    QB_GO(qb_expand_spend(e->cx, e->reader, READ_BYTES));
    QB_GO(keep(e, f, node, body, attribute, n, &taken));
    *done = true;
out:
    qb_free(made.item);
    qb_free(taken.item);
    qb_arena_free(made.arena);
    return status;
}

/* --- reading one ------------------------------------------------------------------------------ */

typedef struct typed {
    Onnx__TypeProto type;
    Onnx__TypeProto__Tensor tensor;
    Onnx__TensorShapeProto shape;
    Onnx__TensorShapeProto__Dimension dim[QB_MAX_RANK], *list[QB_MAX_RANK];
} typed;

static void tell_type(const qb_desc *desc, typed *to, Onnx__ValueInfoProto *info) {
    onnx__type_proto__init(&to->type);
    onnx__type_proto__tensor__init(&to->tensor);
    onnx__tensor_shape_proto__init(&to->shape);
    to->type.tensor_type = &to->tensor;
    to->tensor.has_elem_type = true;
    to->tensor.elem_type = qb_dtype_to_onnx(desc->dtype);
    info->type = &to->type;
    if (desc->shape.rank < 0) return;
    to->tensor.shape = &to->shape;
    to->shape.n_dim = (size_t)desc->shape.rank;
    to->shape.dim = to->list;
    for (int32_t d = 0; d < desc->shape.rank; d++) {
        to->list[d] = &to->dim[d];
        onnx__tensor_shape_proto__dimension__init(to->list[d]);
        if (desc->shape.dim[d] < 0) continue;
        to->dim[d].value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
        to->dim[d].dim_value = desc->shape.dim[d];
    }
}

qb_status qb_onnx_parse_body(qb_ctx *cx, const qb_tensor *bytes, const qb_desc *in, int32_t n,
                             qb_graph **out) {
    const qb_span span = {bytes->data, (size_t)qb_shape_count(&bytes->desc.shape)};
    QB_RELEASED(qb_wire_free_at) ProtobufCMessage *message = NULL;
    QB_FREED uint8_t *packed = NULL;
    size_t size;
    if (bytes->desc.dtype != QB_DTYPE_U8 || span.size == 0)
        return qb_fail(cx, QB_STATUS_FORMAT, "a body is expected to be the bytes of a model");
    QB_TRY(qb_wire_check(cx, &onnx__model_proto__descriptor, span));
    QB_TRY(qb_wire_unpack(cx, &onnx__model_proto__descriptor, span, &message));
    Onnx__GraphProto *graph = ((Onnx__ModelProto *)message)->graph;
    if (!graph || graph->n_input != (size_t)n)
        return qb_fail(cx, QB_STATUS_FORMAT, "a body: expected %d inputs, got %zu", (int)n,
                       graph ? graph->n_input : 0);
    QB_FREED typed *types = QB_NEW(cx, qb_alloc(cx, (size_t)n + 1, sizeof *types));
    QB_FREED Onnx__TypeProto **before = QB_NEW(cx, qb_alloc(cx, (size_t)n + 1, sizeof *before));
    for (int32_t i = 0; i < n; i++) {
        before[i] = graph->input[i]->type;
        tell_type(&in[i], &types[i], graph->input[i]);
    }
    size = onnx__model_proto__get_packed_size((Onnx__ModelProto *)message);
    packed = qb_alloc(cx, size + 1, 1);
    if (packed) onnx__model_proto__pack((Onnx__ModelProto *)message, packed);
    for (int32_t i = 0; i < n; i++) graph->input[i]->type = before[i];
    if (!packed) return cx->code;
    return qb_onnx_parse_unfolded(cx, "a body", packed, size, out);
}
