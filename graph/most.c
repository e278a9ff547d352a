/* "NAME=N,NAME=AxBxC": the largest sizes of values that have them from the data. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "graph/evaluate.h"
#include "graph_internal.h"

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

/* ---- a run ----------------------------------------------------------------------------------- */

static bool is_within(const qb_shape *got, const qb_shape *most) {
    if (got->rank != most->rank) return qb_shape_count(got) <= qb_shape_count(most);
    for (int32_t d = 0; d < got->rank; d++)
        if (got->dim[d] > most->dim[d]) return false;
    return true;
}

qb_status qb_graph_check_most(qb_ctx *cx, const qb_graph *graph, int32_t index,
                              const qb_shape *most) {
    const qb_node *node = &graph->nodes[index];
    for (int32_t k = 0; most && k < node->n_out; k++) {
        const int32_t id = node->out[k];
        char got[128], told[128], label[QB_LABEL_MAX];
        if (id < 0 || most[id].rank < 0 || is_within(&graph->values[id].shape, &most[id])) continue;
        return qb_fail(cx, QB_STATUS_UNSUPPORTED,
                       "%s: output '%s' is %s here, more than the %s of --max-size",
                       qb_node_text(graph, index, label, sizeof label), graph->values[id].name,
                       qb_shape_text(&graph->values[id].shape, got, sizeof got),
                       qb_shape_text(&most[id], told, sizeof told));
    }
    return QB_OK;
}
