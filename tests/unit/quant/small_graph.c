#include "small_graph.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void small_init(small *s) {
    *s = (small){0};
    qb_ctx_init(&s->cx);
    assert_ok(&s->cx, qb_graph_create(&s->cx, &s->graph));
    assert_ok(&s->cx, qb_table_create(&s->cx, 0, &s->table));
    strcpy(s->table->method[0], "hand");
    s->table->n_methods = 1;
}

void small_release(small *s) {
    qb_graph_free(s->graph);
    qb_graph_free(s->quantized);
    qb_table_free(s->table);
}

static qb_shape parse_shape(const char *text) {
    qb_shape shape = {0};
    while (*text) {
        char *end;
        shape.dim[shape.rank++] = strtol(text, &end, 10);
        text = *end == 'x' ? end + 1 : end;
    }
    return shape;
}

static int32_t need(const small *s, int32_t id) {
    if (id < 0) fail_msg("%s", s->cx.message);
    return id;
}

int32_t small_input(small *s, const char *name, const char *shape) {
    qb_shape dims = parse_shape(shape);
    int32_t id = need(s, qb_graph_add_value(&s->cx, s->graph, name, QB_DTYPE_F32, &dims));
    assert_ok(&s->cx, qb_graph_add_input(&s->cx, s->graph, id));
    return id;
}

int32_t small_constant(small *s, const char *name, const char *shape, const float *data) {
    qb_shape dims = parse_shape(shape);
    return need(s, qb_graph_add_constant(&s->cx, s->graph, name, QB_DTYPE_F32, &dims, data));
}

int32_t small_node(small *s, const char *op, const char *name, ...) {
    int32_t in[8], n = 0;
    va_list args;
    va_start(args, name);
    for (int32_t id = va_arg(args, int32_t); id != SMALL_END; id = va_arg(args, int32_t))
        in[n++] = id;
    va_end(args);
    const qb_shape unknown = {.rank = -1};
    int32_t out = need(s, qb_graph_add_value(&s->cx, s->graph, name, QB_DTYPE_NONE, &unknown));
    const qb_op *row = qb_op_find(op, "");
    assert_non_null(row);
    need(s, qb_graph_add_node(&s->cx, s->graph, row, name, in, n, &out, 1));
    return out;
}

void *small_attrs(small *s) { return s->graph->nodes[s->graph->n_nodes - 1].attrs; }

void small_output(small *s, int32_t value) {
    assert_ok(&s->cx, qb_graph_add_output(&s->cx, s->graph, value));
}

void small_range(small *s, const char *name, float lo, float hi) {
    qb_table *t = s->table;
    qb_table_entry *entry = realloc(t->entry, ((size_t)t->n_entries + 1) * sizeof *entry);
    assert_non_null(entry);
    t->entry = entry;
    entry += t->n_entries++;
    *entry = (qb_table_entry){.name = qb_strdup(&s->cx, name),
                              .stats = qb_alloc(&s->cx, 1, sizeof(qb_stats)),
                              .range = {{lo, hi}}};
    assert_true(entry->name && entry->stats);
    qb_table_sort(t);
}

void small_quantize(small *s, const qb_quant_options *options) {
    const qb_quant_options defaults = {0};
    qb_graph_free(s->quantized);
    s->quantized = NULL;
    assert_ok(&s->cx, qb_graph_infer(&s->cx, s->graph));
    assert_ok(&s->cx, qb_quantize(&s->cx, s->graph, s->table, options ? options : &defaults,
                                  &s->quantized, &s->report));
    assert_ok(&s->cx, qb_graph_verify(&s->cx, s->quantized));
    assert_ok(&s->cx, qb_graph_infer(&s->cx, s->quantized));
}

const qb_value *small_value(const small *s, const char *name) {
    const int32_t id = qb_graph_find_value(s->quantized, name);
    if (id < 0) fail_msg("no value '%s'", name);
    return &s->quantized->values[id];
}

void expect_params(const small *s, const char *name, qb_dtype dtype, double scale, int32_t zero) {
    const qb_value *v = small_value(s, name);
    const int32_t got = v->q.n == 1 && v->q.zero ? v->q.zero[0] : 0;
    if (v->q.n != 1 || v->q.axis != -1 || v->dtype != dtype || v->q.dtype != dtype ||
        fabs((double)v->q.scale[0] - scale) > 1e-6 * scale || got != zero)
        fail_msg("%s: got %s, %d scales, the first %g, zero %d; expected %s, %g, %d", name,
                 qb_dtype_text(v->dtype), v->q.n, v->q.n ? (double)v->q.scale[0] : 0.0, got,
                 qb_dtype_text(dtype), scale, zero);
}

void expect_float(const small *s, const char *name) {
    const qb_value *v = small_value(s, name);
    if (v->q.n != 0 || v->dtype != QB_DTYPE_F32)
        fail_msg("%s: got %s with %d scales, expected plain f32", name, qb_dtype_text(v->dtype),
                 v->q.n);
}
