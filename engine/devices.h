/* Several devices of one kind: which ones, and the same engine on each. */
#ifndef QB_ENGINE_DEVICES_H
#define QB_ENGINE_DEVICES_H

#include "engine/engine.h"

#define QB_DEVICES_MAX 64

/* Devices by their numbers, each once. Zeroed: the one of the build spec alone. */
typedef struct qb_devices {
    int32_t n;
    int32_t number[QB_DEVICES_MAX];
} qb_devices;

/* How many there are: at least 1. */
int32_t qb_devices_count(const qb_devices *devices);
/* The number of the i-th, around and around; the spec's where none is named. */
int32_t qb_device_number(const qb_devices *devices, int32_t i, const qb_build_spec *spec);

/* Can these devices of the list's backend work on one thing, each on its part? Where there are
 * several, all must be there and say the same of themselves, hardware and software: another one
 * would choose other kernels, and results would depend on who computed them. QB_STATUS_MISMATCH
 * names the two that differ. */
qb_status qb_devices_check(qb_ctx *cx, const char *backends, const qb_devices *devices);

/* The same engine on another device: made through an engine file, which is gone again. The same
 * steps by the same kernels, so it computes the same. */
qb_status qb_engine_copy(qb_ctx *cx, const qb_engine *engine, int32_t device, qb_engine **out);
#endif
