/* CUDA as a device of the engine. */
#include "engine/cuda/device_api_internal.h"
#include "kernels/cuda/device.h"

static qb_status open_device(qb_ctx *cx, char **identity) {
    qb_cuda_device device;
    QB_TRY(qb_cuda_open(cx, 0, &device));
    int32_t cudnn = qb_cuda_cudnn_version();
    *identity = cudnn > 0 ? qb_format(cx, "%s, driver %d.%d, CUDA %d.%d, cuDNN %d", device.name,
                                      device.driver / 1000, device.driver % 1000 / 10,
                                      device.runtime / 1000, device.runtime % 1000 / 10, cudnn)
                          : qb_format(cx, "%s, driver %d.%d, CUDA %d.%d, no cuDNN", device.name,
                                      device.driver / 1000, device.driver % 1000 / 10,
                                      device.runtime / 1000, device.runtime % 1000 / 10);
    return *identity ? QB_OK : cx->code;
}

const qb_device_api qb_cuda_device_api = {.backend = "cuda",
                                          .open = open_device,
                                          .alloc = qb_cuda_alloc,
                                          .release = qb_cuda_free,
                                          .upload = qb_cuda_upload,
                                          .download = qb_cuda_download,
                                          .fill = qb_cuda_fill,
                                          .stream_open = qb_cuda_stream_open,
                                          .stream_close = qb_cuda_stream_close,
                                          .sync = qb_cuda_sync,
                                          .event_open = qb_cuda_event_open,
                                          .event_close = qb_cuda_event_close,
                                          .event_record = qb_cuda_event_record,
                                          .event_mark = qb_cuda_event_mark,
                                          .event_elapsed = qb_cuda_event_elapsed,
                                          .capture_begin = qb_cuda_capture_begin,
                                          .capture_end = qb_cuda_capture_end,
                                          .graph_launch = qb_cuda_graph_launch,
                                          .graph_close = qb_cuda_graph_close};
