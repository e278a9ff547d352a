#include "quant/recover/samples.h"

#include <string.h>

#include "calib/holdout.h"

void qb_samples_release(qb_samples *samples) {
    for (int32_t i = 0; samples->data && i < samples->n * samples->n_inputs; i++)
        qb_free(samples->data[i]);
    QB_FREE_ALL(samples->data, samples->shape);
    *samples = (qb_samples){0};
}

static qb_status begin(qb_ctx *cx, const qb_batch *first, int32_t most, size_t bytes,
                       int32_t *capacity, qb_samples *s) {
    size_t each = 1;
    s->n_inputs = first->n_inputs;
    QB_TRY_NEW(cx, s->shape = qb_alloc(cx, (size_t)s->n_inputs, sizeof *s->shape));
    for (int32_t k = 0; k < s->n_inputs; k++) {
        s->shape[k] = first->input[k].desc.shape;
        each += qb_desc_bytes(&first->input[k].desc);
    }
    *capacity = (size_t)most < bytes / each ? most : (int32_t)(bytes / each);
    if (*capacity < 1) *capacity = 1;
    s->data = qb_alloc(cx, (size_t)*capacity * (size_t)s->n_inputs, sizeof *s->data);
    return s->data ? QB_OK : cx->code;
}

static qb_status take(qb_ctx *cx, const qb_batch *batch, qb_samples *s) {
    for (int32_t k = 0; k < s->n_inputs; k++)
        if (!qb_shape_equal(&batch->input[k].desc.shape, &s->shape[k])) return QB_OK;
    void **to = s->data + (size_t)s->n * (size_t)s->n_inputs;
    s->n++;
    for (int32_t k = 0; k < s->n_inputs; k++) {
        const size_t bytes = qb_desc_bytes(&batch->input[k].desc);
        QB_TRY_NEW(cx, to[k] = qb_alloc_aligned(cx, bytes + 1, 1));
        memcpy(to[k], batch->input[k].data, bytes);
    }
    return QB_OK;
}

qb_status qb_samples_load(qb_ctx *cx, const qb_loader_options *loader, int64_t every,
                          bool held_back, int32_t most, size_t bytes, qb_samples *out) {
    qb_loader_options options = *loader;
    const int64_t count = qb_dataset_count(options.dataset);
    const int64_t backs = every > 1 ? count / every : 0, all = held_back ? backs : count - backs;
    QB_RELEASED(qb_loader_free_at) qb_loader *l = NULL;
    qb_batch batch = {0};
    QB_RELEASED(qb_samples_release) qb_samples s = {0};
    int64_t seen = 0;
    int32_t capacity = most;
    options.batch = 1;
    QB_TRY(qb_loader_create(cx, &options, &l));
    while (s.n < capacity) {
        QB_TRY(qb_loader_next(cx, l, &batch));
        if (batch.n == 0) break;
        if (qb_is_held_back(batch.index[0], every) == held_back) {
            if (!s.data) QB_TRY(begin(cx, &batch, most, bytes, &capacity, &s));
            const int64_t wanted =
                all > capacity ? capacity : all; /* sample number i of `wanted` */
            if (seen * wanted / all == s.n) QB_TRY(take(cx, &batch, &s));
            seen++;
        }
        qb_loader_give_back(l, &batch);
    }
    *out = QB_MOVE(s);
    return QB_OK;
}
