#include "cli/out/values.h"

#include <stdio.h>

#include "cli/out/json.h"

/* The shape with the names of its symbols: "Nx3x224x224". */
static void shape_text(const qb_graph *graph, const qb_shape *shape, char *text, size_t n) {
    if (shape->rank < 1) {
        qb_shape_text(shape, text, n);
        return;
    }
    size_t at = 0;
    for (int32_t i = 0; i < shape->rank && at < n; i++) {
        const int64_t dim = shape->dim[i];
        const char *cross = i > 0 ? "x" : "";
        if (dim >= 0)
            at += (size_t)snprintf(text + at, n - at, "%s%lld", cross, (long long)dim);
        else if (dim <= -2 && -2 - dim < graph->n_symbols)
            at += (size_t)snprintf(text + at, n - at, "%s%s", cross, graph->symbols[-2 - dim]);
        else
            at += (size_t)snprintf(text + at, n - at, "%s?", cross);
    }
}

json_t *qb_values_json(const qb_graph *graph, const int32_t *ids, int32_t n) {
    json_t *list = json_array();
    for (int32_t i = 0; i < n; i++) {
        const qb_value *v = &graph->values[ids[i]];
        char shape[256];
        /* Quantized values are the engine's own matter: what is given and comes out are their
         * values. */
        const qb_dtype type = v->q.n > 0 ? QB_DTYPE_F32 : v->dtype;
        shape_text(graph, &v->shape, shape, sizeof shape);
        json_array_append_new(list,
                              json_pack("{s:o, s:s, s:o}", "name", qb_json_text(v->name), "dtype",
                                        qb_dtype_text(type), "shape", qb_json_text(shape)));
    }
    return list;
}

void qb_print_values(const char *title, const json_t *list) {
    size_t i;
    const json_t *value;
    json_array_foreach(list, i, value) {
        printf("%-10s %s  %s  %s\n", i ? "" : title,
               json_string_value(json_object_get(value, "name")),
               json_string_value(json_object_get(value, "dtype")),
               json_string_value(json_object_get(value, "shape")));
    }
}
