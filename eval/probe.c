#include "eval/probe.h"

#include <string.h>

void qb_probe_release(qb_probe *probe) {
    for (int32_t i = 0; probe->data && i < probe->n; i++) qb_free(probe->data[i]);
    QB_FREE_ALL(probe->data, probe->shape);
    *probe = (qb_probe){0};
}

qb_status qb_probe_check(qb_ctx *cx, const qb_graph *graph, int64_t batch) {
    char shape[128];
    if (batch <= 1 || graph->n_inputs == 0) return QB_OK;
    for (int32_t i = 0; i < graph->n_inputs; i++) {
        const qb_shape *s = &graph->values[graph->inputs[i]].shape;
        if (s->rank > 0 && (s->dim[0] < 0 || s->dim[0] == batch)) return QB_OK;
    }
    const qb_value *first = &graph->values[graph->inputs[0]];
    return qb_fail(cx, QB_STATUS_INVALID,
                   "batch %lld: the model has a fixed batch (input '%s' is %s)", (long long)batch,
                   first->name, qb_shape_text(&first->shape, shape, sizeof shape));
}

static qb_status repeat(qb_ctx *cx, const qb_value *input, const qb_tensor *sample, int64_t batch,
                        qb_shape *shape, void **data) {
    const size_t bytes = qb_desc_bytes(&sample->desc);
    const qb_shape *declared = &input->shape;
    const bool open = declared->rank <= 0 || declared->dim[0] < 0;
    *shape = sample->desc.shape;
    size_t times = 1;
    if (batch > 1 && open && shape->rank > 0 && shape->dim[0] == 1) {
        shape->dim[0] = batch;
        times = (size_t)batch;
    }
    QB_TRY_NEW(cx, *data = qb_alloc_aligned(cx, times, bytes + 1));
    for (size_t i = 0; i < times; i++) memcpy((uint8_t *)*data + i * bytes, sample->data, bytes);
    return QB_OK;
}

static qb_status take(qb_ctx *cx, const qb_graph *graph, const qb_batch *sample, int64_t batch,
                      qb_probe *probe) {
    probe->n = sample->n_inputs;
    QB_TRY_NEW(cx, probe->shape = qb_alloc(cx, (size_t)probe->n, sizeof *probe->shape));
    QB_TRY_NEW(cx, probe->data = qb_alloc(cx, (size_t)probe->n, sizeof *probe->data));
    for (int32_t i = 0; i < probe->n; i++)
        QB_TRY(repeat(cx, &graph->values[graph->inputs[i]], &sample->input[i], batch,
                      &probe->shape[i], &probe->data[i]));
    return QB_OK;
}

qb_status qb_probe_load(qb_ctx *cx, const qb_graph *graph, const qb_loader_options *loader,
                        int64_t batch, qb_probe *out) {
    qb_loader_options options = *loader;
    options.batch = options.threads = options.prefetch = 1;
    QB_RELEASED(qb_loader_free_at) qb_loader *l = NULL;
    qb_batch sample;
    QB_RELEASED(qb_probe_release) qb_probe probe = {0};
    QB_TRY(qb_probe_check(cx, graph, batch));
    QB_TRY(qb_loader_create(cx, &options, &l));
    QB_TRY(qb_loader_next(cx, l, &sample));
    QB_TRY(take(cx, graph, &sample, batch, &probe));
    *out = QB_MOVE(probe);
    return QB_OK;
}
