/* "NAME=N,NAME=AxBxC": the largest sizes of values that have them from the data. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "graph/evaluate.h"

/* "N" or "AxBxC" up to `end`. */
static bool parse_sizes(const char *text, const char *end, qb_shape *out) {
    *out = (qb_shape){0};
    while (out->rank < QB_MAX_RANK) {
        char *after;
        if (*text < '0' || *text > '9') return false;
        errno = 0;
        out->dim[out->rank++] = strtoll(text, &after, 10);
        if (errno || after > end) return false;
        if (after == end) return true;
        if (*after != 'x') return false;
        text = after + 1;
    }
    return false;
}

/* Does a size that is known stand where another is told? */
static bool contradicts(const qb_shape *open, const qb_shape *told) {
    for (int32_t d = 0; d < open->rank; d++)
        if (open->dim[d] >= 0 && open->dim[d] != told->dim[d]) return true;
    return false;
}

static int32_t open_dims(const qb_shape *shape) {
    int32_t n = 0;
    for (int32_t d = 0; d < shape->rank; d++) n += shape->dim[d] < 0;
    return n;
}

/* One "NAME=SIZES". */
static qb_status limit_one(qb_ctx *cx, const qb_graph *graph, const char *text, size_t length,
                           qb_shape *all) {
    const char *is = memrchr(text, '=', length);
    char name[256];
    qb_shape told;
    if (!is || is == text || (size_t)(is - text) >= sizeof name ||
        !parse_sizes(is + 1, text + length, &told))
        return qb_fail(cx, QB_STATUS_USAGE,
                       "--max-size: expected NAME=100 or NAME=100x4, got '%.*s'", (int)length,
                       text);
    memcpy(name, text, (size_t)(is - text));
    name[is - text] = 0;
    const int32_t id = qb_graph_find_value(graph, name);
    const qb_shape *open = id >= 0 ? &graph->values[id].shape : NULL;
    if (!open || graph->values[id].data || qb_shape_known(open))
        return qb_fail(cx, QB_STATUS_USAGE,
                       "--max-size: '%s' is no value whose size comes with the data", name);
    qb_shape *most = &all[id];
    *most = told;
    if (open->rank < 0) return QB_OK;
    if (told.rank == open->rank && told.rank > 1 && !contradicts(open, &told)) return QB_OK;
    if (told.rank != 1 || open_dims(open) != 1) {
        char shape[128];
        return qb_fail(cx, QB_STATUS_USAGE, "--max-size: '%s' is %s: expected sizes that fit", name,
                       qb_shape_text(open, shape, sizeof shape));
    }
    *most = *open;
    for (int32_t d = 0; d < most->rank; d++)
        if (most->dim[d] < 0) most->dim[d] = told.dim[0];
    return QB_OK;
}

qb_status qb_graph_parse_most(qb_ctx *cx, const qb_graph *graph, const char *text, qb_shape *most) {
    for (int32_t v = 0; v < graph->n_values; v++) most[v].rank = -1;
    for (const char *at = text; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        QB_TRY(limit_one(cx, graph, at, strcspn(at, ","), most));
    return QB_OK;
}
