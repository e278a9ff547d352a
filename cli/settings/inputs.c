#include "cli/settings/inputs.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/rng.h"
#include "cli/settings/pairs.h"
#include "cli/settings/shape_flags.h"
#include "datasets/loader.h"

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
    QB_FREED qb_shape *shapes = QB_NEW(cx, qb_alloc(cx, n, sizeof *shapes));
    QB_FREED const char **names = QB_NEW(cx, qb_alloc(cx, n, sizeof *names));
    for (size_t i = 0; i < n; i++) {
        names[i] = graph->values[graph->inputs[i]].name;
        shapes[i].rank = -1;
    }
    QB_TRY(qb_shapes_parse(cx, "shapes", text, names, graph->n_inputs, shapes));
    *out = QB_MOVE(shapes);
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
    QB_FREED qb_shape *shapes = NULL;
    QB_TRY(given_shapes(cx, graph, text, &shapes));
    for (int32_t i = 0; i < graph->n_inputs; i++)
        if (shapes[i].rank < 0)
            QB_TRY(qb_bench_own_shape(cx, &graph->values[graph->inputs[i]], batch, &shapes[i]));
    *out = QB_MOVE(shapes);
    return QB_OK;
}

/* ---- inputs that are always the same ---- */

/* At most `most` numbers between commas; how many, -1: something else stands there. */
static int64_t read_numbers(const char *text, double *number, int64_t most) {
    int64_t n = 0;
    for (char *end; *text != '\0'; text = end + (*end == ',')) {
        if (n == most) return -1;
        number[n++] = strtod(text, &end);
        if (end == text || (*end != ',' && *end != '\0')) return -1;
    }
    return n;
}

static int32_t input_called(const qb_graph *graph, const char *name, size_t length) {
    for (int32_t i = 0; i < graph->n_inputs; i++) {
        const char *own = graph->values[graph->inputs[i]].name;
        if (strncmp(own, name, length) == 0 && own[length] == '\0') return i;
    }
    return -1;
}

static qb_status fix_input(qb_ctx *cx, const char *text, qb_graph *graph) {
    enum { NUMBERS_MAX = 64 };
    double number[NUMBERS_MAX];
    const char *equals = strrchr(text, '=');
    const int32_t i = equals ? input_called(graph, text, (size_t)(equals - text)) : -1;
    int64_t n = equals ? read_numbers(equals + 1, number, NUMBERS_MAX) : -1, size = 1;
    const qb_value *input = i >= 0 ? &graph->values[graph->inputs[i]] : NULL;
    char shape[128];
    if (n < 1)
        return qb_fail(cx, QB_STATUS_USAGE, "fixed_inputs: '%s': expected NAME=V,V...", text);
    if (!input)
        return qb_fail(cx, QB_STATUS_USAGE, "fixed_inputs: '%s': the model has no such input",
                       text);
    for (int32_t d = 0; d < input->shape.rank && size <= NUMBERS_MAX; d++)
        size *= input->shape.dim[d] < 0 ? 1 : input->shape.dim[d];
    const bool spread = n == 1 && size <= NUMBERS_MAX;
    while (spread && n < size) number[n++] = number[0];
    if (n != size || input->shape.rank < 0)
        return qb_fail(cx, QB_STATUS_USAGE, "fixed_inputs: '%s': the input is %s, got %lld numbers",
                       text, qb_shape_text(&input->shape, shape, sizeof shape), (long long)n);
    return qb_graph_fix_input(cx, graph, i, number);
}

qb_status qb_fix_inputs(qb_ctx *cx, const char *const *texts, qb_graph *graph) {
    for (; *texts; texts++) QB_TRY(fix_input(cx, *texts, graph));
    return QB_OK;
}

/* [2], [1, 2] or [N, 2] */
static bool is_pair(const qb_shape *s) {
    return (s->rank == 1 || (s->rank == 2 && (s->dim[0] == 1 || s->dim[0] < 0))) &&
           s->dim[s->rank - 1] == 2;
}

qb_status qb_guess_fixed(qb_ctx *cx, const qb_graph *graph, int32_t most, char **texts) {
    qb_image_input image = {0};
    int32_t images = 0, n = 0;
    for (int32_t i = 0; i < graph->n_inputs; i++) {
        const qb_shape *s = &graph->values[graph->inputs[i]].shape;
        qb_image_input size;
        if (qb_image_input_of(s, false, &size) && size.channels != 1 && size.channels != 3)
            qb_image_input_of(s, true, &size);
        if (s->rank == 4) image = size;
        images += s->rank == 4;
        if (s->rank != 4 && !is_pair(s)) return QB_OK;
    }
    if (images != 1 || image.height < 1 || image.width < 1) return QB_OK;
    for (int32_t i = 0; i < graph->n_inputs && n < most; i++) {
        const qb_value *input = &graph->values[graph->inputs[i]];
        if (input->shape.rank == 4) continue;
        const bool factor = strstr(input->name, "scale") != NULL;
        /* RT-DETR's order; the others' is height, width */
        const bool swapped = strcmp(input->name, "orig_target_sizes") == 0;
        const int64_t first = factor    ? 1
                              : swapped ? image.width
                                        : image.height,
                      second = factor    ? 1
                               : swapped ? image.height
                                         : image.width;
        texts[n] = qb_format(cx, "%s=%lld,%lld", input->name, (long long)first, (long long)second);
        if (!texts[n++]) return cx->code;
    }
    return QB_OK;
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
    QB_FREED char *path = QB_NEW(cx, qb_format(cx, "%.*s", (int)p->value_length, p->value));
    QB_RELEASED(qb_map_close) qb_map map = {0};
    QB_TRY(qb_map_open(cx, path, &map));
    if (map.size != bytes)
        return qb_fail(cx, QB_STATUS_INVALID, "%s: input '%s' takes %zu bytes, got %zu", path, name,
                       bytes, map.size);
    memcpy(data, map.data, bytes);
    return QB_OK;
}

static qb_status load_named(qb_ctx *cx, const qb_engine *engine, const char *text, void **inputs) {
    const int32_t n = qb_engine_n_inputs(engine);
    QB_FREED const char **names = QB_NEW(cx, qb_alloc(cx, (size_t)n, sizeof *names));
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
    void **inputs = QB_NEW(cx, qb_alloc(cx, (size_t)n, sizeof *inputs));
    qb_rng_seed(&rng, 1);
    for (int32_t i = 0; i < n; i++) {
        const qb_desc *desc = qb_engine_input(engine, i);
        QB_GO_NEW(cx, inputs[i] = qb_engine_buffer(cx, engine, qb_desc_bytes(desc)));
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
