/* TensorProto to plain memory. */
#include <string.h>

#include "onnx_internal.h"

#define FIELD_SEGMENT 3
#define FIELD_RAW_DATA 9

static qb_status read_shape(qb_ctx *cx, const Onnx__TensorProto *proto, qb_shape *shape) {
    if (proto->n_dims > QB_MAX_RANK)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "expected at most %d dimensions, got %zu",
                       QB_MAX_RANK, proto->n_dims);
    *shape = (qb_shape){.rank = (int32_t)proto->n_dims};
    for (size_t i = 0; i < proto->n_dims; i++) {
        if (proto->dims[i] < 0)
            return qb_fail(cx, QB_STATUS_FORMAT, "dimension %zu: expected at least 0, got %lld", i,
                           (long long)proto->dims[i]);
        shape->dim[i] = proto->dims[i];
    }
    return QB_OK;
}

/* The field that holds elements of a type when they are not raw, and how many there are. */
static size_t typed_count(const Onnx__TensorProto *proto, qb_dtype dtype, const char **field) {
    switch (dtype) {
    case QB_DTYPE_F32: *field = "float_data"; return proto->n_float_data;
    case QB_DTYPE_F64: *field = "double_data"; return proto->n_double_data;
    case QB_DTYPE_S64: *field = "int64_data"; return proto->n_int64_data;
    case QB_DTYPE_U32:
    case QB_DTYPE_U64: *field = "uint64_data"; return proto->n_uint64_data;
    default: *field = "int32_data"; return proto->n_int32_data;
    }
}

/* Readers differ in which of two they take. */
static qb_status check_once(qb_ctx *cx, const qb_onnx_tensor *tensor) {
    const char *field;
    const bool raw = tensor->raw.size > 0, outside = tensor->proto->data_location == 1;
    const bool typed = typed_count(tensor->proto, tensor->dtype, &field) > 0;
    if (raw + typed + outside < 2) return QB_OK;
    return qb_fail(cx, QB_STATUS_FORMAT, "its elements are given twice: in %s and in %s",
                   raw ? "raw_data" : field, outside ? "a file" : field);
}

/* Types of fewer bits, the first element in the low ones; in memory each has a byte. */
static int bits_of(int type, qb_dtype *dtype) {
    static const struct {
        int type, bits;
        qb_dtype dtype;
    } packed[] = {
        {21, 4, QB_DTYPE_U8}, {22, 4, QB_DTYPE_S8}, {25, 2, QB_DTYPE_U8}, {26, 2, QB_DTYPE_S8}};
    for (size_t i = 0; i < sizeof packed / sizeof *packed; i++) {
        if (packed[i].type != type) continue;
        *dtype = packed[i].dtype;
        return packed[i].bits;
    }
    return 0;
}

/* Bytes that the elements have in the file. */
static size_t stored_bytes(const qb_onnx_tensor *tensor) {
    const size_t in_byte = tensor->bits ? 8 / (size_t)tensor->bits : 1;
    return tensor->bytes / in_byte + (tensor->bytes % in_byte != 0);
}

static void unpack_bits(const qb_onnx_tensor *tensor, uint8_t *out) {
    const int bits = tensor->bits, in_byte = 8 / bits, sign = 1 << (bits - 1);
    for (size_t i = 0; i < tensor->bytes; i++) {
        const size_t at = i / (size_t)in_byte;
        const int byte = tensor->has_raw ? tensor->raw.data[at] : tensor->proto->int32_data[at];
        const int v = byte >> ((int)(i % (size_t)in_byte) * bits) & ((1 << bits) - 1);
        out[i] = (uint8_t)(tensor->dtype == QB_DTYPE_S8 && (v & sign) ? v - 2 * sign : v);
    }
}

qb_status qb_onnx_note_packed(qb_ctx *cx, struct qb_onnx_reader *reader, const char *name,
                              const qb_onnx_tensor *tensor) {
    if (!tensor->bits || qb_names_find(&reader->packed, name) >= 0) return QB_OK;
    const char *copy = QB_NEW(cx, qb_arena_strdup(cx, reader->graph->arena, name));
    return qb_names_put(cx, reader->graph->arena, &reader->packed, copy, 0);
}

qb_status qb_onnx_tensor_check(qb_ctx *cx, qb_externals *externals, qb_onnx_tensor *tensor) {
    const Onnx__TensorProto *proto = tensor->proto;
    tensor->dtype = qb_dtype_from_onnx(proto->data_type);
    tensor->bits = bits_of(proto->data_type, &tensor->dtype);
    if (tensor->dtype == QB_DTYPE_NONE && proto->data_type == 0)
        return qb_fail(cx, QB_STATUS_FORMAT, "a tensor without the type of its elements");
    if (tensor->dtype == QB_DTYPE_NONE)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "element type %d is not supported",
                       proto->data_type);
    QB_TRY(read_shape(cx, proto, &tensor->shape));
    qb_desc desc = {.dtype = tensor->dtype, .shape = tensor->shape};
    tensor->bytes = qb_desc_bytes(&desc);
    char shape[128];
    qb_shape_text(&tensor->shape, shape, sizeof shape);
    if (tensor->bytes > PTRDIFF_MAX)
        return qb_fail(cx, QB_STATUS_FORMAT, "shape %s overflows", shape);
    QB_TRY(check_once(cx, tensor));
    if (proto->data_location == 1) {
        tensor->has_raw = true;
        QB_TRY(qb_external_take(cx, externals, proto, stored_bytes(tensor), &tensor->raw));
    }
    if (tensor->raw.size == 0 && tensor->bytes) tensor->has_raw = false; /* set, but empty */
    if (tensor->has_raw || proto->data_location == 1) {
        if (tensor->raw.size != stored_bytes(tensor))
            return qb_fail(cx, QB_STATUS_FORMAT, "shape %s of %s: expected %zu bytes, got %zu",
                           shape, qb_dtype_text(tensor->dtype), stored_bytes(tensor),
                           tensor->raw.size);
        return QB_OK;
    }
    const char *field;
    size_t count = typed_count(proto, tensor->dtype, &field);
    const size_t expected = stored_bytes(tensor) / qb_dtype_size(tensor->dtype);
    if (count != expected)
        return qb_fail(cx, QB_STATUS_FORMAT, "shape %s of %s: expected %zu elements in %s, got %zu",
                       shape, qb_dtype_text(tensor->dtype), expected, field, count);
    return QB_OK;
}

/* int32_data holds narrow types, with f16 and bf16 as their bits. */
static qb_status fill_narrow(qb_ctx *cx, const qb_onnx_tensor *tensor, void *out) {
    const int32_t *from = tensor->proto->int32_data;
    size_t n = tensor->proto->n_int32_data, size = qb_dtype_size(tensor->dtype);
    int64_t low = 0, high = size == 1 ? UINT8_MAX : UINT16_MAX;
    if (tensor->dtype == QB_DTYPE_S8) low = INT8_MIN, high = INT8_MAX;
    if (tensor->dtype == QB_DTYPE_S16) low = INT16_MIN, high = INT16_MAX;
    if (tensor->dtype == QB_DTYPE_BOOL) high = 1;
    for (size_t i = 0; i < n; i++) {
        if (from[i] < low || from[i] > high)
            return qb_fail(cx, QB_STATUS_FORMAT, "element %zu: %d is not a %s", i, (int)from[i],
                           qb_dtype_text(tensor->dtype));
        if (size == 1)
            ((uint8_t *)out)[i] = (uint8_t)from[i];
        else
            ((uint16_t *)out)[i] = (uint16_t)from[i];
    }
    return QB_OK;
}

qb_status qb_onnx_tensor_fill(qb_ctx *cx, const qb_onnx_tensor *tensor, void *out) {
    const Onnx__TensorProto *proto = tensor->proto;
    if (!tensor->bytes) return QB_OK;
    if (tensor->bits) {
        unpack_bits(tensor, out);
        return QB_OK;
    }
    if (tensor->has_raw) {
        memcpy(out, tensor->raw.data, tensor->bytes);
        if (tensor->dtype == QB_DTYPE_BOOL)
            for (size_t i = 0; i < tensor->bytes; i++)
                ((uint8_t *)out)[i] = ((uint8_t *)out)[i] != 0;
        return QB_OK;
    }
    switch (tensor->dtype) {
    case QB_DTYPE_F32: memcpy(out, proto->float_data, tensor->bytes); return QB_OK;
    case QB_DTYPE_F64: memcpy(out, proto->double_data, tensor->bytes); return QB_OK;
    case QB_DTYPE_S64: memcpy(out, proto->int64_data, tensor->bytes); return QB_OK;
    case QB_DTYPE_U64: memcpy(out, proto->uint64_data, tensor->bytes); return QB_OK;
    case QB_DTYPE_S32: memcpy(out, proto->int32_data, tensor->bytes); return QB_OK;
    case QB_DTYPE_U32:
        for (size_t i = 0; i < proto->n_uint64_data; i++) {
            if (proto->uint64_data[i] > UINT32_MAX)
                return qb_fail(cx, QB_STATUS_FORMAT, "element %zu is not a u32", i);
            ((uint32_t *)out)[i] = (uint32_t)proto->uint64_data[i];
        }
        return QB_OK;
    default: return fill_narrow(cx, tensor, out);
    }
}

qb_status qb_onnx_tensor_unpack(qb_ctx *cx, qb_externals *externals, qb_span bytes,
                                qb_onnx_tensor *tensor) {
    qb_bytes skeleton = {0};
    qb_wire_field field;
    qb_status status = QB_OK;
    *tensor = (qb_onnx_tensor){0};
    while (qb_wire_next(&bytes, &field)) {
        if (field.number == FIELD_RAW_DATA) { /* the last one holds, as protobuf has it */
            tensor->has_raw = true;
            tensor->raw = field.content;
        } else if (field.number == FIELD_SEGMENT) {
            QB_GO(qb_fail(cx, QB_STATUS_UNSUPPORTED, "segments of tensors are not supported"));
        } else if (protobuf_c_message_descriptor_get_field(&onnx__tensor_proto__descriptor,
                                                           field.number)) {
            QB_GO(qb_bytes_add(cx, &skeleton, field.whole));
        }
    }
    ProtobufCMessage *message = NULL;
    QB_GO(qb_wire_unpack(cx, &onnx__tensor_proto__descriptor,
                         (qb_span){skeleton.data, skeleton.size}, &message));
    tensor->proto = (Onnx__TensorProto *)message;
    QB_GO(qb_onnx_tensor_check(cx, externals, tensor));
out:
    qb_free(skeleton.data);
    return status;
}

/* A TensorProto file. */
static void tensor_release(qb_onnx_tensor *tensor) {
    qb_wire_free((ProtobufCMessage *)tensor->proto);
}

static qb_status load_tensor(qb_ctx *cx, const char *path, qb_span bytes, qb_tensor *out,
                             char **name) {
    QB_RELEASED(qb_externals_close) qb_externals externals = {.by = path};
    QB_RELEASED(tensor_release) qb_onnx_tensor tensor = {0};
    QB_TRY(qb_wire_check(cx, &onnx__tensor_proto__descriptor, bytes));
    QB_TRY(qb_onnx_tensor_unpack(cx, &externals, bytes, &tensor));
    QB_FREED void *data = QB_NEW(cx, qb_alloc_aligned(cx, tensor.bytes, 1));
    QB_TRY(qb_onnx_tensor_fill(cx, &tensor, data));
    if (name) QB_TRY_NEW(cx, *name = qb_strdup(cx, qb_onnx_text(tensor.proto->name)));
    *out = qb_tensor_of(tensor.dtype, tensor.shape, QB_MOVE(data));
    return QB_OK;
}

qb_status qb_onnx_load_tensor(qb_ctx *cx, const char *path, qb_tensor *out, char **name) {
    qb_map map;
    QB_TRY_WRAP(cx, qb_map_open(cx, path, &map), "load tensor");
    qb_status status = load_tensor(cx, path, (qb_span){map.data, map.size}, out, name);
    qb_map_close(&map);
    return status == QB_OK ? QB_OK : qb_wrap(cx, "load tensor %s", path);
}

bool qb_onnx_tensor_scalar(const Onnx__TensorProto *proto, int64_t *out) {
    const qb_dtype dtype = qb_dtype_from_onnx(proto->data_type);
    const bool wide = dtype == QB_DTYPE_S64;
    const size_t size = wide ? 8 : 1;
    for (size_t i = 0; i < proto->n_dims; i++)
        if (proto->dims[i] != 1) return false;
    if ((!wide && dtype != QB_DTYPE_BOOL) || proto->data_location == 1) return false;
    if (proto->raw_data.len == size) {
        *out = 0;
        memcpy(out, proto->raw_data.data, size);
        return true;
    }
    if (wide && proto->n_int64_data == 1)
        *out = proto->int64_data[0];
    else if (!wide && proto->n_int32_data == 1)
        *out = proto->int32_data[0] != 0;
    else
        return false;
    return true;
}
