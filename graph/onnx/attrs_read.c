/* Attributes of a node, by the operator's table. */
#include <string.h>

#include "base/log.h"
#include "onnx_internal.h"

static const char *const type_texts[] = {
    "UNDEFINED",      "FLOAT",      "INT",        "STRING",  "TENSOR", "GRAPH",
    "FLOATS",         "INTS",       "STRINGS",    "TENSORS", "GRAPHS", "SPARSE_TENSOR",
    "SPARSE_TENSORS", "TYPE_PROTO", "TYPE_PROTOS"};

const char *qb_onnx_attr_type_text(int type) {
    int n = (int)(sizeof type_texts / sizeof *type_texts);
    return type >= 0 && type < n ? type_texts[type] : "UNKNOWN";
}

int qb_onnx_attr_type(const Onnx__AttributeProto *attr) {
    if (attr->has_type && attr->type) return attr->type;
    if (attr->has_f) return QB_ONNX_ATTR_FLOAT;
    if (attr->has_i) return QB_ONNX_ATTR_INT;
    if (attr->has_s) return QB_ONNX_ATTR_STRING;
    if (attr->t) return QB_ONNX_ATTR_TENSOR;
    if (attr->n_floats) return QB_ONNX_ATTR_FLOATS;
    if (attr->n_ints) return QB_ONNX_ATTR_INTS;
    if (attr->n_strings) return QB_ONNX_ATTR_STRINGS;
    return 0;
}

static int wanted_type(qb_attr_type type) {
    switch (type) {
    case QB_ATTR_INT: return QB_ONNX_ATTR_INT;
    case QB_ATTR_FLOAT: return QB_ONNX_ATTR_FLOAT;
    case QB_ATTR_STRING: return QB_ONNX_ATTR_STRING;
    case QB_ATTR_INTS: return QB_ONNX_ATTR_INTS;
    case QB_ATTR_FLOATS: return QB_ONNX_ATTR_FLOATS;
    case QB_ATTR_STRINGS: return QB_ONNX_ATTR_STRINGS;
    case QB_ATTR_TENSOR: return QB_ONNX_ATTR_TENSOR;
    }
    return 0;
}

static qb_status check_bounds(qb_ctx *cx, const qb_attr_desc *desc, int64_t value) {
    if ((desc->min == 0 && desc->max == 0) || (value >= desc->min && value <= desc->max))
        return QB_OK;
    return qb_fail(cx, QB_STATUS_FORMAT, "attribute %s: expected %lld to %lld, got %lld",
                   desc->name, (long long)desc->min, (long long)desc->max, (long long)value);
}

static qb_status read_string(qb_ctx *cx, qb_arena *arena, const qb_attr_desc *desc,
                             const ProtobufCBinaryData *s, const char **out) {
    if (s->len && memchr(s->data, 0, s->len))
        return qb_fail(cx, QB_STATUS_FORMAT, "attribute %s: text with a zero byte", desc->name);
    *out = qb_arena_strndup(cx, arena, (const char *)s->data, s->len);
    return *out ? QB_OK : cx->code;
}

static qb_status read_ints(qb_ctx *cx, qb_arena *arena, const qb_attr_desc *desc,
                           const Onnx__AttributeProto *attr, qb_ints *out) {
    size_t n = attr->n_ints;
    if (n > INT32_MAX)
        return qb_fail(cx, QB_STATUS_FORMAT, "attribute %s: %zu elements", desc->name, n);
    int64_t *v = QB_NEW(cx, qb_arena_alloc(cx, arena, n, sizeof *v));
    for (size_t i = 0; i < n; i++) {
        v[i] = attr->ints[i];
        QB_TRY(check_bounds(cx, desc, v[i]));
    }
    *out = (qb_ints){(int32_t)n, v};
    return QB_OK;
}

static qb_status read_floats(qb_ctx *cx, qb_arena *arena, const qb_attr_desc *desc,
                             const Onnx__AttributeProto *attr, qb_floats *out) {
    size_t n = attr->n_floats;
    if (n > INT32_MAX)
        return qb_fail(cx, QB_STATUS_FORMAT, "attribute %s: %zu elements", desc->name, n);
    float *v = QB_NEW(cx, qb_arena_alloc(cx, arena, n, sizeof *v));
    if (n) memcpy(v, attr->floats, n * sizeof *v);
    *out = (qb_floats){(int32_t)n, v};
    return QB_OK;
}

static qb_status read_strings(qb_ctx *cx, qb_arena *arena, const qb_attr_desc *desc,
                              const Onnx__AttributeProto *attr, qb_strings *out) {
    const size_t n = attr->n_strings;
    if (n > INT32_MAX)
        return qb_fail(cx, QB_STATUS_FORMAT, "attribute %s: %zu elements", desc->name, n);
    const char **v = QB_NEW(cx, qb_arena_alloc(cx, arena, n, sizeof *v));
    for (size_t i = 0; i < n; i++) QB_TRY(read_string(cx, arena, desc, &attr->strings[i], &v[i]));
    *out = (qb_strings){(int32_t)n, v};
    return QB_OK;
}

static qb_status read_tensor(qb_ctx *cx, qb_onnx_reader *reader, const qb_attr_desc *desc,
                             const Onnx__AttributeProto *attr, qb_tensor *out) {
    if (!attr->t) return qb_fail(cx, QB_STATUS_FORMAT, "attribute %s: no tensor", desc->name);
    qb_onnx_tensor tensor = {.proto = attr->t,
                             .has_raw = attr->t->has_raw_data,
                             .raw = {attr->t->raw_data.data, attr->t->raw_data.len}};
    QB_TRY_WRAP(cx, qb_onnx_tensor_check(cx, &reader->externals, &tensor), "attribute %s",
                desc->name);
    void *data = QB_NEW(cx, qb_arena_alloc(cx, reader->graph->arena, tensor.bytes, 1));
    QB_TRY_WRAP(cx, qb_onnx_tensor_fill(cx, &tensor, data), "attribute %s", desc->name);
    *out = qb_tensor_of(tensor.dtype, tensor.shape, data);
    return QB_OK;
}

static qb_status read_one(qb_ctx *cx, qb_onnx_reader *reader, const qb_attr_desc *desc,
                          const Onnx__AttributeProto *attr, void *field) {
    int type = qb_onnx_attr_type(attr), wanted = wanted_type(desc->type);
    bool empty_list = type == 0 && (wanted == QB_ONNX_ATTR_INTS || wanted == QB_ONNX_ATTR_FLOATS ||
                                    wanted == QB_ONNX_ATTR_STRINGS);
    if (type != wanted && !empty_list)
        return qb_fail(cx, QB_STATUS_FORMAT, "attribute %s: expected type %s, got %s", desc->name,
                       qb_onnx_attr_type_text(wanted), qb_onnx_attr_type_text(type));
    qb_arena *arena = reader->graph->arena;
    switch (desc->type) {
    case QB_ATTR_INT: *(int64_t *)field = attr->i; return check_bounds(cx, desc, attr->i);
    case QB_ATTR_FLOAT: *(float *)field = attr->f; return QB_OK;
    case QB_ATTR_STRING: return read_string(cx, arena, desc, &attr->s, field);
    case QB_ATTR_INTS: return read_ints(cx, arena, desc, attr, field);
    case QB_ATTR_FLOATS: return read_floats(cx, arena, desc, attr, field);
    case QB_ATTR_STRINGS: return read_strings(cx, arena, desc, attr, field);
    case QB_ATTR_TENSOR: return read_tensor(cx, reader, desc, attr, field);
    }
    return QB_OK;
}

static qb_status check_known(qb_ctx *cx, const qb_op *op, const char *name, int64_t version) {
    if (!*op->domain && version > QB_ONNX_OPSET_NEWEST)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "attribute %s is newer than opset %d", name,
                       QB_ONNX_OPSET_NEWEST);
    qb_debug(cx, "%s: attribute %s is not known and is ignored", op->name, name);
    return QB_OK;
}

qb_status qb_onnx_read_attrs(qb_ctx *cx, qb_onnx_reader *reader, const Onnx__NodeProto *proto,
                             const qb_op *op, int64_t version, void **attrs) {
    char *block = NULL;
    uint64_t given = 0; /* by row: tables are short */
    if (op->attr_size)
        QB_TRY_NEW(cx, block = qb_attrs_new(cx, reader->graph->arena, op, (int32_t)version));
    for (size_t i = 0; i < proto->n_attribute; i++) {
        const Onnx__AttributeProto *attr = proto->attribute[i];
        const char *name = attr->name ? attr->name : "";
        if (attr->ref_attr_name && *attr->ref_attr_name)
            return qb_fail(cx, QB_STATUS_FORMAT, "attribute %s: refers to a function's", name);
        const qb_attr_desc *desc = block ? qb_attr_find(op, name) : NULL;
        if (!desc) {
            QB_TRY(check_known(cx, op, name, version));
            continue;
        }
        uint64_t bit = (uint64_t)1 << ((size_t)(desc - op->attrs) % 64);
        if (given & bit) return qb_fail(cx, QB_STATUS_FORMAT, "attribute %s: given twice", name);
        given |= bit;
        QB_TRY(read_one(cx, reader, desc, attr, block + desc->offset));
    }
    for (const qb_attr_desc *desc = op->attrs; desc && desc->name; desc++)
        if (desc->required && !(given >> ((size_t)(desc - op->attrs) % 64) & 1))
            return qb_fail(cx, QB_STATUS_FORMAT, "attribute %s: required, but not given",
                           desc->name);
    *attrs = block;
    return QB_OK;
}
