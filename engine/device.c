/* Which devices there are. */
#include "engine/device_internal.h"

#include <string.h>

#ifdef QB_HAVE_CUDA
#include "engine/cuda/device_api_internal.h"
#endif

const qb_device_api *qb_device_find(const char *backend) {
#ifdef QB_HAVE_CUDA
    if (strcmp(backend, qb_cuda_device_api.backend) == 0) return &qb_cuda_device_api;
#endif
    (void)backend;
    return NULL;
}

void qb_engine_select(const qb_engine *engine) {
    if (engine->device) engine->device->select(engine->on.ordinal);
}
