/* CUDA as a device of the engine. */
#include "engine/cuda/device_api_internal.h"
#include <math.h>
#include <stdio.h>

#include "kernels/cuda/common/code.h"
#include "kernels/cuda/common/fallback_reason.h"
#include "kernels/cuda/common/observe.h"

static qb_status open_device(qb_ctx *cx, int32_t ordinal, qb_device_identity *identity) {
    qb_cuda_device device;
    QB_TRY(qb_cuda_open(cx, ordinal, &device));
    if (!identity) return QB_OK;
    const int32_t cudnn = qb_cuda_cudnn_version();
    char library[24] = "no cuDNN";
    if (cudnn > 0) snprintf(library, sizeof library, "cuDNN %d", cudnn);
    snprintf(identity->hardware, sizeof identity->hardware, "%s, compute capability %d.%d",
             device.name, device.major, device.minor);
    snprintf(identity->software, sizeof identity->software, "driver %d.%d, CUDA %d.%d, %s%s",
             device.driver / 1000, device.driver % 1000 / 10, device.runtime / 1000,
             device.runtime % 1000 / 10, library,
             qb_cuda_lacks_wgmma(&device) ? ", without the kernels of sm_90a" : "");
    return QB_OK;
}

static qb_status reset(qb_ctx *cx, void *state, void *stream) {
    static const struct { /* what qb_stats_init leaves before the zeros */
        int32_t exponent;
        float min, max;
    } empty = {QB_STATS_MIN_EXPONENT, INFINITY, -INFINITY};
    QB_TRY(qb_cuda_fill(cx, state, 0, sizeof(qb_cuda_observed), stream));
    return qb_cuda_upload(cx, state, &empty, sizeof empty, stream);
}

static qb_status observe(qb_ctx *cx, const qb_desc *desc, const void *data, int64_t n_items,
                         void *state, void *scratch, uint32_t *low, uint32_t *high, void *stream) {
    return qb_cuda_observe(cx, desc, data, n_items, state, scratch, low, high, stream);
}

static void extremes(uint32_t low_key, uint32_t high_key, float *low, float *high) {
    *low = qb_cuda_extreme_low(low_key);
    *high = qb_cuda_extreme_high(high_key);
}

static const qb_device_observers observers = {.state_bytes = sizeof(qb_cuda_observed),
                                              .scratch_bytes = QB_CUDA_OBSERVE_TABLE,
                                              .takes = qb_cuda_observe_takes,
                                              .reset = reset,
                                              .observe = observe,
                                              .extremes = extremes};

const qb_device_api qb_cuda_device_api = {.backend = "cuda",
                                          .open = open_device,
                                          .select = qb_cuda_select,
                                          .alloc = qb_cuda_alloc,
                                          .release = qb_cuda_free,
                                          .upload = qb_cuda_upload,
                                          .download = qb_cuda_download,
                                          .fill = qb_cuda_fill,
                                          .stream_open = qb_cuda_stream_open,
                                          .stream_close = qb_cuda_stream_close,
                                          .sync = qb_cuda_sync,
                                          .event.open = qb_cuda_event_open,
                                          .event.close = qb_cuda_event_close,
                                          .event.record = qb_cuda_event_record,
                                          .event.mark = qb_cuda_event_mark,
                                          .event.elapsed = qb_cuda_event_elapsed,
                                          .capture_begin = qb_cuda_capture_begin,
                                          .fence = qb_cuda_fence,
                                          .capture_end = qb_cuda_capture_end,
                                          .graph_launch = qb_cuda_graph_launch,
                                          .graph_close = qb_cuda_graph_close,
                                          .host_alloc = qb_cuda_host_alloc,
                                          .host_release = qb_cuda_host_free,
                                          .event.wait = qb_cuda_event_wait,
                                          .stream_wait = qb_cuda_stream_wait,
                                          .observers = &observers,
                                          .remark = qb_cuda_fallback_reason};
