/* The graph as text:
 *
 *   graph main
 *   input x: f32[N,3,32,32] u8(0.0078125, 128)
 *   const w: s8[16,3,3,3] #8f3c... s8(axis 0, 16, #51ab...)
 *   Conv 'conv1' (x, w) -> y: f32[N,16,32,32] {pads=[1,1,1,1]}
 *   output y
 *
 * A constant appears before its first user; up to 8 elements are written out, larger data by hash.
 * The file's opset and path are left out: text tells whether two graphs compute the same. */
#include <string.h>

#include "base/strbuf.h"
#include "graph_internal.h"

#define MAX_LITERAL 8

static void add_name(qb_strbuf *text, const char *name) {
    bool plain = *name != '\0';
    for (const char *c = name; *c && plain; c++)
        plain = (unsigned char)*c > ' ' && *c != 0x7f && !strchr(",()'\"", *c);
    if (plain) {
        qb_strbuf_add(text, name);
        return;
    }
    qb_strbuf_add(text, "\"");
    for (const char *c = name; *c; c++) {
        if ((unsigned char)*c < ' ' || *c == 0x7f || *c == '"' || *c == '\\')
            qb_strbuf_addf(text, "\\x%02x", (unsigned char)*c);
        else
            qb_strbuf_addn(text, c, 1);
    }
    qb_strbuf_add(text, "\"");
}

static void add_shape(qb_strbuf *text, const qb_graph *graph, const qb_shape *shape) {
    if (shape->rank < 0) {
        qb_strbuf_add(text, "[...]");
        return;
    }
    qb_strbuf_add(text, "[");
    for (int32_t i = 0; i < shape->rank; i++) {
        int64_t dim = shape->dim[i];
        if (i) qb_strbuf_add(text, ",");
        if (dim >= 0)
            qb_strbuf_addf(text, "%lld", (long long)dim);
        else if (dim <= -2 && -2 - dim < graph->n_symbols)
            add_name(text, graph->symbols[-2 - dim]);
        else
            qb_strbuf_add(text, "?");
    }
    qb_strbuf_add(text, "]");
}

static void add_hash(qb_strbuf *text, const void *data, size_t bytes) {
    char hex[33];
    qb_hash_hex(qb_hash_bytes(data, bytes), hex);
    qb_strbuf_addf(text, "#%.16s", hex);
}

static bool add_element(qb_strbuf *text, qb_dtype dtype, const void *data, int64_t i) {
    switch (dtype) {
    case QB_DTYPE_F32: qb_strbuf_addf(text, "%.9g", ((const float *)data)[i]); return true;
    case QB_DTYPE_F64: qb_strbuf_addf(text, "%.17g", ((const double *)data)[i]); return true;
    case QB_DTYPE_U8:
    case QB_DTYPE_BOOL: qb_strbuf_addf(text, "%u", ((const uint8_t *)data)[i]); return true;
    case QB_DTYPE_S8: qb_strbuf_addf(text, "%d", ((const int8_t *)data)[i]); return true;
    case QB_DTYPE_S32: qb_strbuf_addf(text, "%d", (int)((const int32_t *)data)[i]); return true;
    case QB_DTYPE_S64:
        qb_strbuf_addf(text, "%lld", (long long)((const int64_t *)data)[i]);
        return true;
    default: return false;
    }
}

static void add_data(qb_strbuf *text, qb_dtype dtype, const qb_shape *shape, const void *data,
                     size_t bytes) {
    int64_t count = qb_shape_count(shape);
    bool literal = count >= 0 && count <= MAX_LITERAL;
    qb_strbuf_add(text, " ");
    if (literal) {
        qb_strbuf probe = {0};
        qb_strbuf_add(&probe, "(");
        for (int64_t i = 0; i < count && literal; i++) {
            if (i) qb_strbuf_add(&probe, ", ");
            literal = add_element(&probe, dtype, data, i);
        }
        qb_strbuf_add(&probe, ")");
        if (probe.failed) text->failed = true;
        if (literal && !probe.failed) qb_strbuf_addn(text, probe.data, probe.size);
        qb_strbuf_release(&probe);
    }
    if (!literal) add_hash(text, data, bytes);
}

/* No zero points and zero points that are all zero mean the same, so they read the same. */
static void add_qparams(qb_strbuf *text, const qb_qparams *q) {
    if (q->n <= 0) return;
    qb_strbuf_addf(text, " %s(", qb_dtype_text(q->dtype));
    if (q->axis < 0) {
        qb_strbuf_addf(text, "%.9g, %d)", (double)q->scale[0], q->zero ? (int)q->zero[0] : 0);
        return;
    }
    qb_strbuf_addf(text, "axis %d, %d, ", (int)q->axis, (int)q->n);
    add_hash(text, q->scale, (size_t)q->n * sizeof *q->scale);
    bool zero = true;
    for (int32_t i = 0; q->zero && i < q->n; i++) zero = zero && q->zero[i] == 0;
    if (!zero) {
        qb_strbuf_add(text, ", ");
        add_hash(text, q->zero, (size_t)q->n * sizeof *q->zero);
    }
    qb_strbuf_add(text, ")");
}

static void add_value(qb_strbuf *text, const qb_graph *graph, int32_t id) {
    const qb_value *value = &graph->values[id];
    add_name(text, value->name);
    qb_strbuf_addf(text, ": %s", qb_dtype_text(value->dtype));
    add_shape(text, graph, &value->shape);
    if (value->data) add_data(text, value->dtype, &value->shape, value->data, value->bytes);
    add_qparams(text, &value->q);
}

static void add_attribute(qb_strbuf *text, const qb_graph *graph, const qb_attr_desc *desc,
                          const void *field) {
    qb_strbuf_addf(text, "%s=", desc->name);
    switch (desc->type) {
    case QB_ATTR_INT: qb_strbuf_addf(text, "%lld", (long long)*(const int64_t *)field); break;
    case QB_ATTR_FLOAT: qb_strbuf_addf(text, "%.9g", (double)*(const float *)field); break;
    case QB_ATTR_STRING: {
        const char *string = *(const char *const *)field;
        add_name(text, string ? string : "");
        break;
    }
    case QB_ATTR_INTS: {
        const qb_ints *list = field;
        for (int32_t i = 0; i < list->n; i++)
            qb_strbuf_addf(text, "%s%lld", i ? "," : "[", (long long)list->v[i]);
        qb_strbuf_add(text, "]");
        break;
    }
    case QB_ATTR_FLOATS: {
        const qb_floats *list = field;
        for (int32_t i = 0; i < list->n; i++)
            qb_strbuf_addf(text, "%s%.9g", i ? "," : "[", (double)list->v[i]);
        qb_strbuf_add(text, "]");
        break;
    }
    case QB_ATTR_STRINGS: {
        const qb_strings *list = field;
        for (int32_t i = 0; i < list->n; i++) {
            qb_strbuf_add(text, i ? "," : "[");
            add_name(text, list->v[i]);
        }
        qb_strbuf_add(text, "]");
        break;
    }
    case QB_ATTR_TENSOR: {
        const qb_tensor *tensor = field;
        qb_strbuf_add(text, qb_dtype_text(tensor->desc.dtype));
        add_shape(text, graph, &tensor->desc.shape);
        add_data(text, tensor->desc.dtype, &tensor->desc.shape, tensor->data,
                 qb_desc_bytes(&tensor->desc));
        break;
    }
    }
}

static void add_attributes(qb_strbuf *text, const qb_graph *graph, const qb_node *node) {
    if (!node->attrs) return;
    const char *between = " {";
    for (const qb_attr_desc *desc = node->op->attrs; desc && desc->name; desc++) {
        if (desc->import_only || (!desc->required && qb_attr_is_default(desc, node->attrs)))
            continue;
        qb_strbuf_add(text, between);
        between = ", ";
        add_attribute(text, graph, desc, (const char *)node->attrs + desc->offset);
    }
    if (*between == ',') qb_strbuf_add(text, "}");
}

static void add_node(qb_strbuf *text, const qb_graph *graph, const qb_node *node) {
    qb_strbuf_add(text, node->op->name);
    if (*node->name) {
        qb_strbuf_add(text, " '");
        add_name(text, node->name);
        qb_strbuf_add(text, "'");
    }
    qb_strbuf_add(text, " (");
    for (int32_t i = 0; i < node->n_in; i++) {
        if (i) qb_strbuf_add(text, ", ");
        if (node->in[i] >= 0) add_name(text, graph->values[node->in[i]].name);
    }
    qb_strbuf_add(text, ") -> ");
    for (int32_t i = 0; i < node->n_out; i++) {
        if (i) qb_strbuf_add(text, ", ");
        if (node->out[i] >= 0) add_value(text, graph, node->out[i]);
    }
    add_attributes(text, graph, node);
    qb_strbuf_add(text, "\n");
}

static void add_constant(qb_strbuf *text, const qb_graph *graph, int32_t id, bool *shown) {
    if (id < 0 || !graph->values[id].data || shown[id]) return;
    shown[id] = true;
    qb_strbuf_add(text, "const ");
    add_value(text, graph, id);
    qb_strbuf_add(text, "\n");
}

qb_status qb_graph_text(qb_ctx *cx, const qb_graph *graph, char **out) {
    QB_FREED bool *shown = QB_NEW(cx, qb_alloc(cx, (size_t)graph->n_values, sizeof *shown));
    qb_strbuf text = {0};
    qb_strbuf_add(&text, "graph ");
    add_name(&text, graph->name);
    qb_strbuf_add(&text, "\n");
    for (int32_t i = 0; i < graph->n_inputs; i++) {
        qb_strbuf_add(&text, "input ");
        add_value(&text, graph, graph->inputs[i]);
        qb_strbuf_add(&text, "\n");
    }
    for (int32_t i = 0; i < graph->n_nodes; i++) {
        const qb_node *node = &graph->nodes[i];
        if (!node->op) continue;
        for (int32_t k = 0; k < node->n_in; k++) add_constant(&text, graph, node->in[k], shown);
        add_node(&text, graph, node);
    }
    for (int32_t i = 0; i < graph->n_outputs; i++) {
        add_constant(&text, graph, graph->outputs[i], shown);
        qb_strbuf_add(&text, "output ");
        add_name(&text, graph->values[graph->outputs[i]].name);
        qb_strbuf_add(&text, "\n");
    }
    return qb_strbuf_take(cx, &text, out);
}
