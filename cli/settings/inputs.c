#include "cli/settings/inputs.h"

#include <string.h>

#include "base/file.h"
#include "base/rng.h"
#include "cli/settings/pairs.h"
#include "cli/settings/shape_flags.h"

/* ---- shapes ---- */

qb_status qb_bench_own_shape(qb_ctx *cx, const qb_value *input, int64_t batch, qb_shape *out) {
    *out = input->shape;
    if (out->rank > 0 && out->dim[0] < 0) out->dim[0] = batch;
    if (qb_shape_known(out)) return QB_OK;
    char text[128];
    return qb_fail(cx, QB_STATUS_USAGE, "input '%s' is %s: give its sizes with --shapes=%s:1x...",
                   input->name, qb_shape_text(&input->shape, text, sizeof text), input->name);
}

/* A shape for each input, of rank -1 where --shapes gives none; the caller frees it. */
static qb_status given_shapes(qb_ctx *cx, const qb_graph *graph, const char *text, qb_shape **out) {
    const size_t n = (size_t)graph->n_inputs;
    QB_FREED qb_shape *shapes = qb_alloc(cx, n, sizeof *shapes);
    QB_FREED const char **names = qb_alloc(cx, n, sizeof *names);
    if (!shapes || !names) return cx->code;
    for (size_t i = 0; i < n; i++) {
        names[i] = graph->values[graph->inputs[i]].name;
        shapes[i].rank = -1;
    }
    QB_TRY(qb_shapes_parse(cx, "shapes", text, names, graph->n_inputs, shapes));
    *out = shapes;
    shapes = NULL;
    return QB_OK;
}

qb_status qb_size_inputs(qb_ctx *cx, qb_graph *graph, const void *text) {
    QB_FREED qb_shape *shapes = NULL;
    QB_TRY(given_shapes(cx, graph, text, &shapes));
    for (int32_t i = 0; i < graph->n_inputs; i++) {
        qb_shape *shape = &graph->values[graph->inputs[i]].shape;
        for (int32_t d = 0; d < shape->rank && shapes[i].rank == shape->rank; d++)
            if (shape->dim[d] < 0) shape->dim[d] = shapes[i].dim[d];
    }
    return QB_OK;
}

qb_status qb_bench_shapes(qb_ctx *cx, const qb_graph *graph, const char *text, int64_t batch,
                          qb_shape **out) {
    qb_shape *shapes;
    qb_status status = QB_OK;
    QB_TRY(given_shapes(cx, graph, text, &shapes));
    for (int32_t i = 0; i < graph->n_inputs && status == QB_OK; i++)
        if (shapes[i].rank < 0)
            status = qb_bench_own_shape(cx, &graph->values[graph->inputs[i]], batch, &shapes[i]);
    if (status == QB_OK)
        *out = shapes;
    else
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

static qb_status load(qb_ctx *cx, const qb_pair *p, const char *name, size_t bytes, void *data) {
    QB_FREED char *path = qb_format(cx, "%.*s", (int)p->value_length, p->value);
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
    return status;
}

static qb_status load_named(qb_ctx *cx, const qb_engine *engine, const char *text, void **inputs) {
    const int32_t n = qb_engine_n_inputs(engine);
    QB_FREED const char **names = qb_alloc(cx, (size_t)n, sizeof *names);
    if (!names) return cx->code;
    for (int32_t i = 0; i < n; i++) names[i] = qb_engine_input_name(engine, i);
    qb_pair p;
    while (qb_pair_next(&text, &p)) {
        int32_t i;
        QB_TRY(qb_pair_input(cx, "loadInputs", &p, names, n, &i));
        QB_TRY(load(cx, &p, names[i], qb_desc_bytes(qb_engine_input(engine, i)), inputs[i]));
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
        inputs[i] = qb_engine_buffer(cx, engine, qb_desc_bytes(desc));
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
    for (int32_t i = 0; inputs && i < qb_engine_n_inputs(engine); i++)
        qb_engine_buffer_free(engine, inputs[i]);
    qb_free(inputs);
}
