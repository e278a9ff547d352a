#include "cli/bench_inputs.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/rng.h"

/* ---- lists of NAME:VALUE ---- */

/* One element of a list. Names may hold colons and commas never stand in values, so the name ends
 * at the element's last colon. */
typedef struct pair {
    const char *name, *value;
    size_t name_length, value_length;
} pair;

/* The next element of *at; false at the end. Without a colon `name` is NULL. */
static bool next_pair(const char **at, pair *out) {
    if (!*at || **at == '\0') return false;
    const char *text = *at;
    const size_t length = strcspn(text, ",");
    const char *colon = memrchr(text, ':', length);
    *out = (pair){.name = colon ? text : NULL,
                  .name_length = colon ? (size_t)(colon - text) : 0,
                  .value = colon ? colon + 1 : text};
    out->value_length = length - (size_t)(out->value - text);
    *at = text + length + (text[length] == ',');
    return true;
}

static bool is_name(const pair *p, const char *name) {
    return p->name && strlen(name) == p->name_length && memcmp(p->name, name, p->name_length) == 0;
}

/* ---- shapes ---- */

static qb_status parse_shape(qb_ctx *cx, const pair *p, qb_shape *out) {
    qb_shape shape = {0};
    const char *at = p->value, *end = p->value + p->value_length;
    while (at < end) {
        char *stop;
        const long long dim = strtoll(at, &stop, 10);
        if (stop == at || stop > end || dim < 1 || shape.rank == QB_MAX_RANK ||
            (stop < end && *stop != 'x' && *stop != '*'))
            return qb_fail(cx, QB_STATUS_USAGE,
                           "--shapes: expected NAME:1x3x224x224 of at most %d sizes, got '%.*s'",
                           QB_MAX_RANK, (int)p->value_length, p->value);
        shape.dim[shape.rank++] = dim;
        at = stop + (stop < end);
    }
    *out = shape;
    return QB_OK;
}

/* The model's own shape; a first dimension without a size is the batch. */
static qb_status own_shape(qb_ctx *cx, const qb_value *input, int64_t batch, qb_shape *out) {
    *out = input->shape;
    if (out->rank > 0 && out->dim[0] < 0) out->dim[0] = batch;
    if (qb_shape_known(out)) return QB_OK;
    char text[128];
    return qb_fail(cx, QB_STATUS_USAGE, "input '%s' is %s: give its sizes with --shapes=%s:1x...",
                   input->name, qb_shape_text(&input->shape, text, sizeof text), input->name);
}

static int32_t find_input(const qb_graph *graph, const pair *p) {
    for (int32_t i = 0; i < graph->n_inputs; i++)
        if (is_name(p, graph->values[graph->inputs[i]].name)) return i;
    return p->name || graph->n_inputs != 1 ? -1 : 0; /* the only input needs no name */
}

static qb_status named_shapes(qb_ctx *cx, const qb_graph *graph, const char *text,
                              qb_shape *shapes) {
    pair p;
    while (next_pair(&text, &p)) {
        const int32_t i = find_input(graph, &p);
        if (i < 0)
            return qb_fail(cx, QB_STATUS_USAGE, "--shapes: the model has no input '%.*s'",
                           (int)(p.name ? p.name_length : p.value_length),
                           p.name ? p.name : p.value);
        QB_TRY(parse_shape(cx, &p, &shapes[i]));
    }
    return QB_OK;
}

qb_status qb_bench_shapes(qb_ctx *cx, const qb_graph *graph, const char *text, int64_t batch,
                          qb_shape **out) {
    qb_status status = QB_OK;
    qb_shape *shapes = qb_alloc(cx, (size_t)graph->n_inputs, sizeof *shapes);
    if (!shapes) return cx->code;
    for (int32_t i = 0; i < graph->n_inputs; i++) shapes[i].rank = -1;
    QB_GO(named_shapes(cx, graph, text, shapes));
    for (int32_t i = 0; i < graph->n_inputs; i++)
        if (shapes[i].rank < 0)
            QB_GO(own_shape(cx, &graph->values[graph->inputs[i]], batch, &shapes[i]));
    *out = shapes;
    return QB_OK;
out:
    qb_free(shapes);
    return status;
}

/* ---- contents ---- */

static void fill(qb_rng *rng, const qb_desc *desc, void *data) {
    const int64_t n = qb_shape_count(&desc->shape);
    for (int64_t i = 0; i < n; i++) {
        const float v = (float)(2 * qb_rng_uniform(rng) - 1);
        switch (desc->dtype) {
        case QB_DTYPE_F32: ((float *)data)[i] = v; break;
        case QB_DTYPE_F64: ((double *)data)[i] = v; break;
        case QB_DTYPE_F16: ((uint16_t *)data)[i] = qb_f32_to_f16(v); break;
        case QB_DTYPE_U8:
        case QB_DTYPE_S8:
        case QB_DTYPE_BOOL: ((uint8_t *)data)[i] = v > 0; break;
        case QB_DTYPE_U16:
        case QB_DTYPE_S16: ((uint16_t *)data)[i] = v > 0; break;
        case QB_DTYPE_U32:
        case QB_DTYPE_S32: ((uint32_t *)data)[i] = v > 0; break;
        case QB_DTYPE_U64:
        case QB_DTYPE_S64: ((uint64_t *)data)[i] = v > 0; break;
        default: break; /* zeros */
        }
    }
}

static qb_status load(qb_ctx *cx, const pair *p, const char *name, size_t bytes, void *data) {
    char *path = qb_format(cx, "%.*s", (int)p->value_length, p->value);
    qb_map map;
    if (!path) return cx->code;
    qb_status status = qb_map_open(cx, path, &map);
    if (status == QB_OK) {
        if (map.size == bytes)
            memcpy(data, map.data, bytes);
        else
            status = qb_fail(cx, QB_STATUS_INVALID, "%s: input '%s' takes %zu bytes, got %zu", path,
                             name, bytes, map.size);
        qb_map_close(&map);
    }
    qb_free(path);
    return status;
}

static qb_status load_named(qb_ctx *cx, const qb_engine *engine, const char *text, void **inputs) {
    pair p;
    while (next_pair(&text, &p)) {
        int32_t i = qb_engine_n_inputs(engine) - 1;
        while (i >= 0 && !is_name(&p, qb_engine_input_name(engine, i))) i--;
        if (i < 0)
            return qb_fail(cx, QB_STATUS_USAGE,
                           "--loadInputs: expected NAME:FILE with an input's name, got '%.*s'",
                           (int)(p.name_length ? p.name_length : p.value_length),
                           p.name ? p.name : p.value);
        QB_TRY(load(cx, &p, qb_engine_input_name(engine, i),
                    qb_desc_bytes(qb_engine_input(engine, i)), inputs[i]));
    }
    return QB_OK;
}

qb_status qb_bench_inputs(qb_ctx *cx, const qb_engine *engine, const char *text, void ***out) {
    const int32_t n = qb_engine_n_inputs(engine);
    qb_status status = QB_OK;
    qb_rng rng;
    void **inputs = qb_alloc(cx, (size_t)n, sizeof *inputs);
    if (!inputs) return cx->code;
    qb_rng_seed(&rng, 1);
    for (int32_t i = 0; i < n; i++) {
        const qb_desc *desc = qb_engine_input(engine, i);
        inputs[i] = qb_alloc_aligned(cx, 1, qb_desc_bytes(desc));
        if (!inputs[i]) QB_GO(cx->code);
        fill(&rng, desc, inputs[i]);
    }
    QB_GO(load_named(cx, engine, text, inputs));
    *out = inputs;
    return QB_OK;
out:
    qb_bench_inputs_free(engine, inputs);
    return status;
}

void qb_bench_inputs_free(const qb_engine *engine, void **inputs) {
    for (int32_t i = 0; inputs && i < qb_engine_n_inputs(engine); i++) qb_free(inputs[i]);
    qb_free(inputs);
}
