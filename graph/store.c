#include "graph/store.h"

#include <string.h>

#include "base/file.h"
#include "base/text.h"
#include "graph/plugin.h"
#include "graph_internal.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers are stored as they are");

/* APART is followed by an offset in the block. */
typedef enum content { CONTENT_NONE, CONTENT_DATA, CONTENT_HOLE, CONTENT_APART } content;

#define APART_ALIGNMENT 64

/* ---- writing ---- */

static void put_u8(qb_strbuf *out, uint8_t value) {
    qb_strbuf_addn(out, (const char *)&value, sizeof value);
}
static void put_i32(qb_strbuf *out, int32_t value) {
    qb_strbuf_addn(out, (const char *)&value, sizeof value);
}
static void put_array(qb_strbuf *out, const void *data, size_t n, size_t size) {
    if (n) qb_strbuf_addn(out, data, n * size);
}
static void put_text(qb_strbuf *out, const char *text) {
    const size_t n = text ? strlen(text) : 0;
    put_i32(out, (int32_t)n);
    put_array(out, text, n, 1);
}
static void put_ids(qb_strbuf *out, const int32_t *ids, int32_t n) {
    put_i32(out, n);
    put_array(out, ids, (size_t)n, sizeof *ids);
}
static void put_shape(qb_strbuf *out, const qb_shape *shape) {
    put_i32(out, shape->rank);
    if (shape->rank > 0) put_array(out, shape->dim, (size_t)shape->rank, sizeof *shape->dim);
}

static void put_qparams(qb_strbuf *out, const qb_qparams *q) {
    put_i32(out, q->n);
    if (q->n <= 0) return;
    put_u8(out, (uint8_t)q->dtype);
    put_i32(out, q->axis);
    put_array(out, q->scale, (size_t)q->n, sizeof *q->scale);
    put_u8(out, q->zero != NULL);
    if (q->zero) put_array(out, q->zero, (size_t)q->n, sizeof *q->zero);
}

static void put_value(qb_strbuf *out, const qb_value *value, qb_store_where where,
                      uint64_t offset) {
    static const content contents[] = {CONTENT_DATA, CONTENT_HOLE, CONTENT_APART};
    const content what = value->data ? contents[where] : CONTENT_NONE;
    put_text(out, value->name);
    put_u8(out, (uint8_t)value->dtype);
    put_shape(out, &value->shape);
    put_qparams(out, &value->q);
    put_u8(out, (uint8_t)what);
    if (what == CONTENT_DATA) put_array(out, value->data, value->bytes, 1);
    if (what == CONTENT_APART) put_array(out, &offset, 1, sizeof offset);
}

static size_t padded(size_t bytes) {
    return (bytes + APART_ALIGNMENT - 1) / APART_ALIGNMENT * APART_ALIGNMENT;
}

static void put_attr(qb_strbuf *out, const qb_attr_desc *desc, const void *attrs) {
    const void *field = (const char *)attrs + desc->offset;
    switch (desc->type) {
    case QB_ATTR_INT: put_array(out, field, 1, sizeof(int64_t)); break;
    case QB_ATTR_FLOAT: put_array(out, field, 1, sizeof(float)); break;
    case QB_ATTR_STRING: {
        const char *text = *(const char *const *)field;
        put_u8(out, text != NULL);
        if (text) put_text(out, text);
        break;
    }
    case QB_ATTR_INTS: {
        const qb_ints *list = field;
        put_i32(out, list->n);
        put_array(out, list->v, (size_t)list->n, sizeof *list->v);
        break;
    }
    case QB_ATTR_FLOATS: {
        const qb_floats *list = field;
        put_i32(out, list->n);
        put_array(out, list->v, (size_t)list->n, sizeof *list->v);
        break;
    }
    case QB_ATTR_STRINGS: {
        const qb_strings *list = field;
        put_i32(out, list->n);
        for (int32_t i = 0; i < list->n; i++) put_text(out, list->v[i]);
        break;
    }
    case QB_ATTR_TENSOR: {
        const qb_tensor *tensor = field;
        put_u8(out, tensor->data != NULL);
        if (!tensor->data) break;
        put_u8(out, (uint8_t)tensor->desc.dtype);
        put_shape(out, &tensor->desc.shape);
        put_array(out, tensor->data, qb_desc_bytes(&tensor->desc), 1);
        break;
    }
    }
}

static void put_node(qb_strbuf *out, const qb_node *node) {
    put_text(out, node->name);
    put_text(out, node->op->name);
    put_text(out, node->op->domain);
    put_ids(out, node->in, node->n_in);
    put_ids(out, node->out, node->n_out);
    for (const qb_attr_desc *desc = node->op->attrs; desc && desc->name; desc++)
        put_attr(out, desc, node->attrs);
}

qb_status qb_graph_store(qb_ctx *cx, const qb_graph *graph, const qb_store_where *where,
                         qb_strbuf *out, size_t *hole_bytes, size_t *apart_bytes) {
    *hole_bytes = *apart_bytes = 0;
    put_text(out, graph->name);
    /* Without folders: the same bytes wherever the model lies. */
    put_text(out, graph->source ? qb_path_base(graph->source) : NULL);
    put_i32(out, graph->opset);
    put_array(out, graph->hash.byte, sizeof graph->hash.byte, 1);
    put_i32(out, graph->n_symbols);
    for (int32_t i = 0; i < graph->n_symbols; i++) put_text(out, graph->symbols[i]);
    put_i32(out, graph->n_values);
    for (int32_t i = 0; i < graph->n_values; i++) {
        const qb_value *value = &graph->values[i];
        const qb_store_where to = where ? where[i] : QB_STORE_INSIDE;
        put_value(out, value, to, *apart_bytes);
        if (!value->data) continue;
        if (to == QB_STORE_APART) *apart_bytes += padded(value->bytes);
        if (to == QB_STORE_HOLE && value->bytes > *hole_bytes) *hole_bytes = value->bytes;
    }
    put_i32(out, graph->n_nodes);
    for (int32_t i = 0; i < graph->n_nodes; i++) put_node(out, &graph->nodes[i]);
    put_ids(out, graph->inputs, graph->n_inputs);
    put_ids(out, graph->outputs, graph->n_outputs);
    return out->failed ? qb_fail(cx, QB_STATUS_NOMEM, "out of memory") : QB_OK;
}

void qb_graph_store_apart(const qb_graph *graph, const qb_store_where *where, char *block) {
    for (int32_t i = 0; i < graph->n_values; i++) {
        const qb_value *value = &graph->values[i];
        if (!value->data || where[i] != QB_STORE_APART) continue;
        if (value->bytes) memcpy(block, value->data, value->bytes);
        block += padded(value->bytes);
    }
}

/* ---- reading ---- */

typedef struct reader {
    qb_ctx *cx;
    const char *name;
    const char *at, *end;
    qb_store_memory memory;
    qb_graph *graph;
} reader;

static qb_status bad(const reader *r, const char *what) {
    return qb_fail(r->cx, QB_STATUS_FORMAT, "%s: graph: %s", r->name, what);
}

static qb_status get(reader *r, void *to, size_t n) {
    if ((size_t)(r->end - r->at) < n) return bad(r, "cut short");
    if (n) memcpy(to, r->at, n);
    r->at += n;
    return QB_OK;
}

/* A number of things of which each takes at least `least` bytes of the file. */
static qb_status get_count(reader *r, size_t least, int32_t *n) {
    QB_TRY(get(r, n, sizeof *n));
    if (*n < 0 || (size_t)*n > (size_t)(r->end - r->at) / least)
        return bad(r, "a count is larger than the file");
    return QB_OK;
}

static qb_status get_text(reader *r, const char **out) {
    int32_t n;
    QB_TRY(get_count(r, 1, &n));
    if (memchr(r->at, '\0', (size_t)n)) return bad(r, "a name holds a zero byte");
    *out = qb_arena_strndup(r->cx, r->graph->arena, r->at, (size_t)n);
    r->at += n;
    return *out ? QB_OK : r->cx->code;
}

/* What is shown to people; what is written is clean. */
static qb_status get_name(reader *r, const char **out) {
    QB_TRY(get_text(r, out));
    return qb_text_is_clean(*out) ? QB_OK : bad(r, "a name that cannot be shown");
}

static qb_status get_array(reader *r, int32_t n, size_t size, void *slot) {
    void *copy = QB_NEW(r->cx, qb_arena_alloc(r->cx, r->graph->arena, (size_t)n, size));
    QB_TRY(get(r, copy, (size_t)n * size));
    memcpy(slot, &copy, sizeof copy);
    return QB_OK;
}

static qb_status get_dtype(reader *r, qb_dtype *out) {
    uint8_t dtype;
    QB_TRY(get(r, &dtype, 1));
    if (dtype >= QB_DTYPE_COUNT) return bad(r, "an unknown element type");
    *out = (qb_dtype)dtype;
    return QB_OK;
}

static qb_status get_shape(reader *r, qb_shape *out) {
    *out = (qb_shape){0};
    QB_TRY(get(r, &out->rank, sizeof out->rank));
    if (out->rank < -1 || out->rank > QB_MAX_RANK) return bad(r, "a rank out of range");
    return out->rank > 0 ? get(r, out->dim, (size_t)out->rank * sizeof *out->dim) : QB_OK;
}

static qb_status get_flag(reader *r, bool *out) {
    uint8_t flag;
    QB_TRY(get(r, &flag, 1));
    if (flag > 1) return bad(r, "a flag that is neither 0 nor 1");
    *out = flag;
    return QB_OK;
}

static qb_status get_qparams(reader *r, qb_qparams *out) {
    bool has_zero;
    *out = (qb_qparams){.axis = -1};
    int32_t n;
    QB_TRY(get_count(r, sizeof(float), &n));
    if (n == 0) return QB_OK;
    QB_TRY(get_dtype(r, &out->dtype));
    QB_TRY(get(r, &out->axis, sizeof out->axis));
    QB_TRY(get_array(r, n, sizeof(float), &out->scale));
    QB_TRY(get_flag(r, &has_zero));
    if (has_zero) QB_TRY(get_array(r, n, sizeof(int32_t), &out->zero));
    out->n = n;
    return QB_OK;
}

/* Row-major data of a known shape, still in the file; NULL when that is too short for it. */
static const char *data_of(const reader *r, qb_dtype dtype, const qb_shape *shape, size_t *bytes) {
    const qb_desc desc = {.dtype = dtype, .shape = *shape};
    if (!qb_shape_known(shape)) return NULL;
    *bytes = qb_desc_bytes(&desc);
    return *bytes <= (size_t)(r->end - r->at) ? r->at : NULL;
}

static qb_status get_content(reader *r, qb_value *value) {
    uint8_t what;
    QB_TRY(get(r, &what, 1));
    if (what == CONTENT_NONE) return QB_OK;
    if (what == CONTENT_DATA) {
        const char *from = data_of(r, value->dtype, &value->shape, &value->bytes);
        if (!from) return bad(r, "the data of a constant is cut short");
        void *copy = QB_NEW(r->cx, qb_arena_alloc(r->cx, r->graph->arena, 1, value->bytes));
        value->data = copy;
        return get(r, copy, value->bytes);
    }
    const qb_desc desc = {.dtype = value->dtype, .shape = value->shape};
    const bool hole = what == CONTENT_HOLE;
    const size_t capacity = hole ? r->memory.n_zeros : r->memory.n_apart;
    uint64_t offset = 0;
    if (what == CONTENT_APART) QB_TRY(get(r, &offset, sizeof offset));
    if ((!hole && what != CONTENT_APART) || !qb_shape_known(&value->shape) ||
        offset % APART_ALIGNMENT != 0 || offset > capacity ||
        qb_desc_bytes(&desc) > capacity - offset)
        return bad(r, "a constant that does not fit");
    value->data = (const char *)(hole ? r->memory.zeros : r->memory.apart) + offset;
    value->bytes = qb_desc_bytes(&desc);
    return QB_OK;
}

static qb_status get_value(reader *r) {
    const char *name;
    qb_value read = {0};
    QB_TRY(get_name(r, &name));
    QB_TRY(get_dtype(r, &read.dtype));
    QB_TRY(get_shape(r, &read.shape));
    if (!*name || qb_graph_find_value(r->graph, name) >= 0)
        return bad(r, "a value without a name of its own");
    const int32_t id = qb_graph_add_named(r->cx, r->graph, name, read.dtype, &read.shape);
    if (id < 0) return r->cx->code;
    QB_TRY(get_qparams(r, &r->graph->values[id].q));
    return get_content(r, &r->graph->values[id]);
}

static bool in_bounds(const qb_attr_desc *desc, const int64_t *v, int32_t n) {
    if (desc->min == 0 && desc->max == 0) return true;
    for (int32_t i = 0; i < n; i++)
        if (v[i] < desc->min || v[i] > desc->max) return false;
    return true;
}

static qb_status get_tensor(reader *r, qb_tensor *out) {
    bool there;
    size_t bytes;
    *out = (qb_tensor){0};
    QB_TRY(get_flag(r, &there));
    if (!there) return QB_OK;
    QB_TRY(get_dtype(r, &out->desc.dtype));
    QB_TRY(get_shape(r, &out->desc.shape));
    if (!data_of(r, out->desc.dtype, &out->desc.shape, &bytes))
        return bad(r, "the tensor of an attribute is cut short");
    out->data = qb_arena_alloc(r->cx, r->graph->arena, 1, bytes);
    return out->data ? get(r, out->data, bytes) : r->cx->code;
}

static qb_status get_strings(reader *r, qb_strings *list) {
    int32_t n;
    QB_TRY(get_count(r, sizeof(uint32_t), &n)); /* each text begins with its length */
    const char **v = QB_NEW(r->cx, qb_arena_alloc(r->cx, r->graph->arena, (size_t)n, sizeof *v));
    for (int32_t i = 0; i < n; i++) QB_TRY(get_text(r, &v[i]));
    *list = (qb_strings){n, v};
    return QB_OK;
}

static qb_status get_attr(reader *r, const qb_attr_desc *desc, void *attrs) {
    void *field = (char *)attrs + desc->offset;
    switch (desc->type) {
    case QB_ATTR_INT:
        QB_TRY(get(r, field, sizeof(int64_t)));
        return in_bounds(desc, field, 1) ? QB_OK : bad(r, "an attribute out of bounds");
    case QB_ATTR_FLOAT: return get(r, field, sizeof(float));
    case QB_ATTR_STRING: {
        bool there;
        *(const char **)field = NULL;
        QB_TRY(get_flag(r, &there));
        return there ? get_text(r, field) : QB_OK;
    }
    case QB_ATTR_INTS: {
        qb_ints *list = field;
        QB_TRY(get_count(r, sizeof *list->v, &list->n));
        QB_TRY(get_array(r, list->n, sizeof *list->v, &list->v));
        return in_bounds(desc, list->v, list->n) ? QB_OK : bad(r, "an attribute out of bounds");
    }
    case QB_ATTR_FLOATS: {
        qb_floats *list = field;
        QB_TRY(get_count(r, sizeof *list->v, &list->n));
        return get_array(r, list->n, sizeof *list->v, &list->v);
    }
    case QB_ATTR_STRINGS: return get_strings(r, field);
    case QB_ATTR_TENSOR: return get_tensor(r, field);
    }
    return QB_OK;
}

static qb_status get_ids(reader *r, int32_t *n, int32_t **out) {
    QB_TRY(get_count(r, sizeof(int32_t), n));
    return get_array(r, *n, sizeof(int32_t), out);
}

static qb_status get_node(reader *r) {
    const char *name, *op_name, *domain;
    int32_t n_in, n_out, *in, *out;
    QB_TRY(get_name(r, &name));
    QB_TRY(get_name(r, &op_name));
    QB_TRY(get_name(r, &domain));
    QB_TRY(get_ids(r, &n_in, &in));
    QB_TRY(get_ids(r, &n_out, &out));
    const qb_op *op = qb_op_lookup(r->cx, op_name, domain);
    if (!op)
        return qb_fail(r->cx, QB_STATUS_UNSUPPORTED, "%s: graph: unknown operator '%s'", r->name,
                       op_name);
    const int32_t id = qb_graph_add_node(r->cx, r->graph, op, name, in, n_in, out, n_out);
    if (id < 0) return r->cx->code;
    qb_node *node = &r->graph->nodes[id];
    for (const qb_attr_desc *desc = op->attrs; desc && desc->name; desc++)
        QB_TRY(get_attr(r, desc, node->attrs));
    return QB_OK;
}

static qb_status get_symbols(reader *r) {
    int32_t n;
    QB_TRY(get_count(r, sizeof(int32_t), &n));
    r->graph->symbols = qb_arena_alloc(r->cx, r->graph->arena, (size_t)n, sizeof(char *));
    if (!r->graph->symbols) return r->cx->code;
    for (int32_t i = 0; i < n; i++) QB_TRY(get_name(r, &r->graph->symbols[i]));
    r->graph->n_symbols = n;
    return QB_OK;
}

static qb_status get_all(reader *r) {
    qb_graph *graph = r->graph;
    int32_t n, *outputs;
    QB_TRY(get_name(r, &graph->name));
    QB_TRY(get_name(r, &graph->source));
    QB_TRY(get(r, &graph->opset, sizeof graph->opset));
    QB_TRY(get(r, graph->hash.byte, sizeof graph->hash.byte));
    QB_TRY(get_symbols(r));
    QB_TRY(get_count(r, 8, &n));
    for (int32_t i = 0; i < n; i++) QB_TRY(get_value(r));
    QB_TRY(get_count(r, 8, &n));
    for (int32_t i = 0; i < n; i++) QB_TRY(get_node(r));
    QB_TRY(get_ids(r, &graph->n_inputs, &graph->inputs));
    QB_TRY(get_ids(r, &n, &outputs));
    for (int32_t i = 0; i < n; i++)
        if (outputs[i] < 0 || outputs[i] >= graph->n_values)
            return bad(r, "an output that is no value");
    qb_graph_set_outputs(graph, outputs, n);
    return r->at == r->end ? QB_OK : bad(r, "bytes behind the end");
}

/* The graph must be one that could have been built: its invariants, and shapes and types as
 * inference finds them from the inputs. */
static qb_status check(reader *r) {
    qb_graph *graph = r->graph;
    if (qb_graph_verify(r->cx, graph) != QB_OK) {
        if (r->cx->code == QB_STATUS_INTERNAL) r->cx->code = QB_STATUS_FORMAT; /* not our bug */
        return qb_wrap(r->cx, "%s", r->name);
    }
    QB_FREED qb_shape *stored = qb_alloc(r->cx, (size_t)graph->n_values, sizeof *stored);
    QB_FREED qb_dtype *types = qb_alloc(r->cx, (size_t)graph->n_values, sizeof *types);
    if (!stored || !types) return r->cx->code;
    for (int32_t i = 0; i < graph->n_values; i++) {
        stored[i] = graph->values[i].shape;
        types[i] = graph->values[i].dtype;
    }
    if (qb_graph_infer(r->cx, graph) != QB_OK) QB_TRY(qb_wrap(r->cx, "%s", r->name));
    for (int32_t i = 0; i < graph->n_values; i++)
        if (!qb_shape_equal(&stored[i], &graph->values[i].shape) ||
            types[i] != graph->values[i].dtype)
            QB_TRY(bad(r, "a stored shape or type is not the one that follows from the inputs"));
    return QB_OK;
}

qb_status qb_graph_restore(qb_ctx *cx, const char *name, const void *bytes, size_t size,
                           const qb_store_memory *memory, qb_graph **out) {
    reader r = {
        .cx = cx, .name = name, .at = bytes, .end = (const char *)bytes + size, .memory = *memory};
    QB_RELEASED(qb_graph_free_at) qb_graph *graph = NULL;
    QB_TRY(qb_graph_create(cx, &graph));
    r.graph = graph;
    QB_TRY(get_all(&r));
    QB_TRY(check(&r));
    *out = QB_MOVE(graph);
    return QB_OK;
}
