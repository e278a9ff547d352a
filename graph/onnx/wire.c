/* The protobuf encoding: checked before protobuf-c sees it. */
#include <string.h>

#include "base/text.h"
#include "onnx_internal.h"

#define MAX_DEPTH 32       /* the schema itself nests 6 deep */
#define BUDGET_PER_BYTE 64 /* honest models need up to 25 */
#define BUDGET_BASE ((size_t)1 << 20)
#define BUDGET_MAX ((size_t)4 << 30)

enum { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_LENGTH = 2, WIRE_32 = 5 };

static bool take_varint(qb_span *rest, uint64_t *out) {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64 && rest->size; shift += 7) {
        uint8_t byte = *rest->data++;
        rest->size--;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) {
            *out = value;
            return true;
        }
    }
    return false;
}

static bool skip(qb_span *rest, uint64_t n) {
    if (n > rest->size) return false;
    rest->data += n;
    rest->size -= (size_t)n;
    return true;
}

static bool take_field(qb_span *rest, qb_wire_field *out) {
    uint64_t tag, value;
    if (!take_varint(rest, &tag) || tag > UINT32_MAX || tag < 8) return false;
    out->number = (uint32_t)(tag >> 3);
    out->type = (uint32_t)(tag & 7);
    out->content = (qb_span){0};
    switch (out->type) {
    case WIRE_VARINT: return take_varint(rest, &value);
    case WIRE_64: return skip(rest, 8);
    case WIRE_32: return skip(rest, 4);
    case WIRE_LENGTH:
        if (!take_varint(rest, &value) || value > rest->size) return false;
        out->content = (qb_span){rest->data, (size_t)value};
        return skip(rest, value);
    default: return false; /* groups, which nobody writes, and what does not exist */
    }
}

bool qb_wire_next(qb_span *rest, qb_wire_field *out) {
    if (!rest->size) return false;
    qb_span at = *rest;
    if (!take_field(&at, out)) return false;
    out->whole = (qb_span){rest->data, rest->size - at.size};
    *rest = at;
    return true;
}

static uint32_t expected_wire_type(ProtobufCType type) {
    switch (type) {
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
    case PROTOBUF_C_TYPE_MESSAGE: return WIRE_LENGTH;
    case PROTOBUF_C_TYPE_FLOAT:
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_SFIXED32: return WIRE_32;
    case PROTOBUF_C_TYPE_DOUBLE:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_SFIXED64: return WIRE_64;
    default: return WIRE_VARINT;
    }
}

/* A repeated number may come packed: several in one field with a length. */
static bool packed_fits(const ProtobufCFieldDescriptor *field, qb_span content) {
    uint64_t value;
    switch (expected_wire_type(field->type)) {
    case WIRE_32: return content.size % 4 == 0;
    case WIRE_64: return content.size % 8 == 0;
    case WIRE_VARINT:
        while (content.size)
            if (!take_varint(&content, &value)) return false;
        return true;
    default: return false;
    }
}

static qb_status check_message(qb_ctx *cx, const ProtobufCMessageDescriptor *desc,
                               const uint8_t *start, qb_span bytes, int depth);

static qb_status check_field(qb_ctx *cx, const ProtobufCMessageDescriptor *desc,
                             const uint8_t *start, const qb_wire_field *at, int depth) {
    const ProtobufCFieldDescriptor *field =
        protobuf_c_message_descriptor_get_field(desc, at->number);
    if (!field) return QB_OK; /* skipped by protobuf-c */
    uint32_t expected = expected_wire_type(field->type);
    size_t offset = (size_t)(at->whole.data - start);
    if (at->type != expected) {
        bool packed = field->label == PROTOBUF_C_LABEL_REPEATED && at->type == WIRE_LENGTH;
        if (packed && packed_fits(field, at->content)) return QB_OK;
        return qb_fail(cx, QB_STATUS_FORMAT,
                       "byte %zu: field %s of %s: expected wire type %u, got %u", offset,
                       field->name, desc->short_name, expected, at->type);
    }
    if (field->type == PROTOBUF_C_TYPE_STRING && at->content.size &&
        memchr(at->content.data, 0, at->content.size))
        return qb_fail(cx, QB_STATUS_FORMAT, "byte %zu: field %s of %s: text with a zero byte",
                       offset, field->name, desc->short_name);
    if (field->type == PROTOBUF_C_TYPE_MESSAGE)
        return check_message(cx, field->descriptor, start, at->content, depth + 1);
    return QB_OK;
}

static qb_status check_message(qb_ctx *cx, const ProtobufCMessageDescriptor *desc,
                               const uint8_t *start, qb_span bytes, int depth) {
    if (depth > MAX_DEPTH)
        return qb_fail(cx, QB_STATUS_FORMAT, "byte %zu: messages nested deeper than %d",
                       (size_t)(bytes.data - start), MAX_DEPTH);
    qb_wire_field field;
    while (qb_wire_next(&bytes, &field)) QB_TRY(check_field(cx, desc, start, &field, depth));
    if (bytes.size)
        return qb_fail(cx, QB_STATUS_FORMAT,
                       "byte %zu: truncated or malformed inside %s (%zu bytes left)",
                       (size_t)(bytes.data - start), desc->short_name, bytes.size);
    return QB_OK;
}

qb_status qb_wire_check(qb_ctx *cx, const ProtobufCMessageDescriptor *desc, qb_span bytes) {
    return check_message(cx, desc, bytes.data, bytes, 0);
}

typedef struct budget {
    qb_ctx *cx;
    size_t left;
    bool exceeded;
} budget;

static void *budget_alloc(void *data, size_t size) {
    budget *b = data;
    if (size > b->left) {
        b->exceeded = true;
        return NULL;
    }
    b->left -= size;
    return qb_alloc(b->cx, size, 1);
}

static void budget_free(void *data, void *pointer) {
    (void)data;
    qb_free(pointer);
}

/* ---- names ---- */

static bool is_there(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field) {
    uint32_t which;
    if (!(field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF)) return true;
    memcpy(&which, (const char *)message + field->quantifier_offset, sizeof which);
    return which == field->id;
}

qb_status qb_wire_each_text(ProtobufCMessage *message, qb_wire_text_fn visit, void *user) {
    const ProtobufCMessageDescriptor *desc = message->descriptor;
    if (desc == &onnx__string_string_entry_proto__descriptor) return QB_OK; /* names of files */
    for (unsigned f = 0; f < desc->n_fields; f++) {
        const ProtobufCFieldDescriptor *field = &desc->fields[f];
        const bool text = field->type == PROTOBUF_C_TYPE_STRING;
        if ((!text && field->type != PROTOBUF_C_TYPE_MESSAGE) || !is_there(message, field))
            continue;
        char *member = (char *)message + field->offset;
        size_t n = 1;
        if (field->label == PROTOBUF_C_LABEL_REPEATED) {
            memcpy(&n, (char *)message + field->quantifier_offset, sizeof n);
            memcpy(&member, member, sizeof member);
        }
        for (size_t i = 0; i < n; i++) {
            char *item;
            memcpy(&item, member + i * sizeof item, sizeof item);
            if (!item || item == field->default_value) continue;
            if (text)
                QB_TRY(visit(user, (char **)(void *)(member + i * sizeof item)));
            else
                QB_TRY(qb_wire_each_text((ProtobufCMessage *)(void *)item, visit, user));
        }
    }
    return QB_OK;
}

/* Undoably: the writer gives them back as they were. */
static qb_status make_clean(void *user, char **slot) {
    qb_ctx *cx = user;
    const size_t size = qb_text_clean_size(*slot);
    if (qb_text_is_clean(*slot) && !strchr(*slot, '\\')) return QB_OK;
    char *clean = QB_NEW(cx, qb_alloc(cx, size, 1));
    qb_text_clean_to(*slot, true, clean, size);
    qb_free(*slot);
    *slot = clean;
    return QB_OK;
}

qb_status qb_wire_unpack(qb_ctx *cx, const ProtobufCMessageDescriptor *desc, qb_span bytes,
                         ProtobufCMessage **out) {
    size_t size = bytes.size < BUDGET_MAX / BUDGET_PER_BYTE ? bytes.size * BUDGET_PER_BYTE
                                                            : BUDGET_MAX - BUDGET_BASE;
    budget b = {.cx = cx, .left = size + BUDGET_BASE};
    ProtobufCAllocator allocator = {budget_alloc, budget_free, &b};
    qb_ctx_clear(cx);
    static const uint8_t none = 0;
    QB_RELEASED(qb_wire_free_at)
    ProtobufCMessage *message =
        protobuf_c_message_unpack(desc, &allocator, bytes.size, bytes.data ? bytes.data : &none);
    if (message) {
        QB_TRY(qb_wire_each_text(message, make_clean, cx));
        *out = QB_MOVE(message);
        return QB_OK;
    }
    if (b.exceeded)
        return qb_fail(cx, QB_STATUS_FORMAT, "%zu bytes of %s unpack to more than %zu bytes",
                       bytes.size, desc->short_name, size + BUDGET_BASE);
    if (cx->code != QB_OK) return cx->code;
    return qb_fail(cx, QB_STATUS_FORMAT, "malformed %s", desc->short_name);
}

void qb_wire_free(ProtobufCMessage *message) {
    ProtobufCAllocator allocator = {NULL, budget_free, NULL};
    if (message) protobuf_c_message_free_unpacked(message, &allocator);
}

qb_status qb_bytes_add(qb_ctx *cx, qb_bytes *bytes, qb_span more) {
    QB_TRY(qb_grow(cx, &bytes->data, &bytes->capacity, bytes->size + more.size, 1));
    if (more.size) memcpy(bytes->data + bytes->size, more.data, more.size);
    bytes->size += more.size;
    return QB_OK;
}
