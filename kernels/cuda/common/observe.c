/* Host side of the observers: where a tensor's values lie, and the launch. */
#include "kernels/cuda/common/observe.h"

#include <math.h>
#include <string.h>

#include "kernels/cuda/common/device.h"

#define NOTHING 0xffffffffu

static float value_of(uint32_t key) {
    const uint32_t bits = key ^ (key >> 31 ? 0x80000000u : 0xffffffffu);
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

float qb_cuda_extreme_low(uint32_t key) { return key == NOTHING ? INFINITY : value_of(key); }
float qb_cuda_extreme_high(uint32_t key) { return key == NOTHING ? -INFINITY : value_of(~key); }

bool qb_cuda_observe_takes(const qb_desc *desc) {
    return desc->dtype == QB_DTYPE_F32 &&
           (desc->layout == QB_LAYOUT_ROW || desc->layout == QB_LAYOUT_NHWC) &&
           qb_shape_known(&desc->shape) && qb_shape_count(&desc->shape) < UINT32_MAX;
}

static qb_cuda_observe_shape shape_of(const qb_desc *desc, int64_t n_items) {
    const qb_shape *shape = &desc->shape;
    const int64_t channels = shape->rank > 1 ? shape->dim[1] : 1;
    const int64_t total = desc->channel_total > 0 ? desc->channel_total : channels;
    const int64_t offset = desc->channel_total > 0 ? desc->channel_offset : 0;
    int64_t spatial = 1;
    for (int32_t d = 2; d < shape->rank; d++) spatial *= shape->dim[d];
    qb_cuda_observe_shape p = {.item_stride = total * spatial, .items = (uint32_t)n_items};
    const bool apart = desc->layout == QB_LAYOUT_NHWC && total != channels;
    p.first = desc->layout == QB_LAYOUT_NHWC ? offset : offset * spatial;
    p.rows = apart ? (uint32_t)spatial : 1;
    p.lanes = (uint32_t)(apart ? channels : channels * spatial);
    p.row_stride = (uint32_t)(apart ? total : 0);
    p.quads = (p.first | p.item_stride | p.lanes | p.row_stride) % 4 == 0;
    const uint32_t size = p.rows * p.lanes;
    p.segments = (size + QB_CUDA_OBSERVE_SEGMENT - 1) / QB_CUDA_OBSERVE_SEGMENT;
    return p;
}

qb_status qb_cuda_observe(qb_ctx *cx, const qb_desc *desc, const void *data, int64_t n_items,
                          qb_cuda_observed *state, uint32_t *table, uint32_t *low, uint32_t *high,
                          void *stream) {
    const int64_t items = desc->shape.rank > 0 ? desc->shape.dim[0] : 1;
    const qb_cuda_observe_shape p = shape_of(desc, n_items < items ? n_items : items);
    const int64_t units = (int64_t)p.items * p.segments;
    if (units == 0) return QB_OK;
    const int32_t most = qb_cuda_multiprocessors();
    const int32_t blocks = units < most ? (int32_t)units : most;
    return qb_cuda_check(cx, qb_cuda_observe_run(&p, data, state, table, low, high, blocks, stream),
                         "observers");
}
