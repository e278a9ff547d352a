/* Attribute structs by their tables. */
#include <string.h>

#include "graph_internal.h"

const qb_attr_desc *qb_attr_find(const qb_op *op, const char *name) {
    for (const qb_attr_desc *desc = op->attrs; desc && desc->name; desc++)
        if (strcmp(desc->name, name) == 0) return desc;
    return NULL;
}

void *qb_attrs_new(qb_ctx *cx, qb_arena *arena, const qb_op *op, int32_t version) {
    if (!op->attr_size) return NULL;
    char *attrs = qb_arena_pack(cx, arena, 1, op->attr_size);
    if (!attrs) return NULL;
    for (const qb_attr_desc *desc = op->attrs; desc && desc->name; desc++) {
        void *field = attrs + desc->offset;
        switch (desc->type) {
        case QB_ATTR_INT: {
            bool old = desc->old_before && version < desc->old_before;
            *(int64_t *)field = old ? desc->old_default_int : desc->default_int;
            break;
        }
        case QB_ATTR_FLOAT: *(float *)field = desc->default_float; break;
        case QB_ATTR_STRING: *(const char **)field = desc->default_string; break;
        case QB_ATTR_INTS:
        case QB_ATTR_FLOATS:
        case QB_ATTR_STRINGS:
        case QB_ATTR_TENSOR: break; /* empty */
        }
    }
    return attrs;
}

static const void *copy_block(qb_ctx *cx, qb_arena *arena, const void *data, size_t n,
                              size_t size) {
    void *copy = qb_arena_pack(cx, arena, n, size);
    if (copy && n) memcpy(copy, data, n * size);
    return copy;
}

static qb_status copy_strings(qb_ctx *cx, qb_arena *arena, qb_strings *list) {
    const char **copy = QB_NEW(cx, qb_arena_pack(cx, arena, (size_t)list->n, sizeof *copy));
    for (int32_t i = 0; i < list->n; i++)
        if (!(copy[i] = qb_arena_strdup(cx, arena, list->v[i]))) return cx->code;
    list->v = copy;
    return QB_OK;
}

static qb_status copy_field(qb_ctx *cx, qb_arena *arena, const qb_attr_desc *desc, void *field) {
    switch (desc->type) {
    case QB_ATTR_INT:
    case QB_ATTR_FLOAT: return QB_OK;
    case QB_ATTR_STRING: {
        const char **text = field;
        if (*text && !(*text = qb_arena_strdup(cx, arena, *text))) return cx->code;
        return QB_OK;
    }
    case QB_ATTR_INTS: {
        qb_ints *list = field;
        if (list->n &&
            !(list->v = copy_block(cx, arena, list->v, (size_t)list->n, sizeof *list->v)))
            return cx->code;
        return QB_OK;
    }
    case QB_ATTR_FLOATS: {
        qb_floats *list = field;
        if (list->n &&
            !(list->v = copy_block(cx, arena, list->v, (size_t)list->n, sizeof *list->v)))
            return cx->code;
        return QB_OK;
    }
    case QB_ATTR_STRINGS: return copy_strings(cx, arena, field);
    case QB_ATTR_TENSOR: {
        qb_tensor *tensor = field;
        if (!tensor->data) return QB_OK;
        void *copy = QB_NEW(cx, qb_arena_alloc(cx, arena, 1, qb_desc_bytes(&tensor->desc)));
        memcpy(copy, tensor->data, qb_desc_bytes(&tensor->desc));
        tensor->data = copy;
        return QB_OK;
    }
    }
    return QB_OK;
}

qb_status qb_attrs_copy(qb_ctx *cx, qb_arena *arena, const qb_op *op, const void *attrs,
                        void **out) {
    *out = NULL;
    if (!op->attr_size || !attrs) return QB_OK;
    char *copy = QB_NEW(cx, qb_arena_pack(cx, arena, 1, op->attr_size));
    memcpy(copy, attrs, op->attr_size);
    for (const qb_attr_desc *desc = op->attrs; desc && desc->name; desc++)
        QB_TRY(copy_field(cx, arena, desc, copy + desc->offset));
    *out = copy;
    return QB_OK;
}

bool qb_attr_is_default(const qb_attr_desc *desc, const void *attrs) {
    const void *field = (const char *)attrs + desc->offset;
    switch (desc->type) {
    case QB_ATTR_INT: return *(const int64_t *)field == desc->default_int;
    case QB_ATTR_FLOAT: return memcmp(field, &desc->default_float, sizeof(float)) == 0;
    case QB_ATTR_STRING: {
        const char *text = *(const char *const *)field;
        const char *usual = desc->default_string;
        return text == usual || strcmp(text ? text : "", usual ? usual : "") == 0;
    }
    case QB_ATTR_INTS: return ((const qb_ints *)field)->n == 0;
    case QB_ATTR_FLOATS: return ((const qb_floats *)field)->n == 0;
    case QB_ATTR_STRINGS: return ((const qb_strings *)field)->n == 0;
    case QB_ATTR_TENSOR: return ((const qb_tensor *)field)->data == NULL;
    }
    return true;
}

int64_t qb_attr_int(const qb_node *node, const char *name, int64_t otherwise) {
    const qb_attr_desc *desc = qb_attr_find(node->op, name);
    if (!desc || desc->type != QB_ATTR_INT || !node->attrs) return otherwise;
    return *(const int64_t *)((const char *)node->attrs + desc->offset);
}

qb_status qb_qparams_copy(qb_ctx *cx, qb_arena *arena, const qb_qparams *q, qb_qparams *out) {
    *out = *q;
    if (q->n <= 0) return QB_OK;
    size_t n = (size_t)q->n;
    QB_TRY_NEW(cx, out->scale = copy_block(cx, arena, q->scale, n, sizeof *q->scale));
    if (q->zero && !(out->zero = copy_block(cx, arena, q->zero, n, sizeof *q->zero)))
        return cx->code;
    return QB_OK;
}
