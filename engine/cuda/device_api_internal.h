/* CUDA as a device of the engine. */
#ifndef QB_ENGINE_CUDA_DEVICE_API_INTERNAL_H
#define QB_ENGINE_CUDA_DEVICE_API_INTERNAL_H

#include "engine/device_internal.h"

extern const qb_device_api qb_cuda_device_api;

#endif
