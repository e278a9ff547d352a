/* Engines on several devices: which ones, and the same engine on each. */
#ifndef QB_CLI_BENCH_DEVICES_H
#define QB_CLI_BENCH_DEVICES_H

#include "engine/engine.h"

#define QB_DEVICES_MAX 64

typedef struct qb_devices {
    int32_t n;
    int32_t number[QB_DEVICES_MAX];
    qb_engine *engine[QB_DEVICES_MAX]; /* of all but the first */
} qb_devices;

/* "0,1,3"; NULL: the first alone. */
qb_status qb_devices_parse(qb_ctx *cx, const char *text, qb_devices *out);
/* The engine in the file, which was built on the first of the devices, on each of the others.
 * QB_STATUS_UNSUPPORTED for an engine of the host or one with profiles. */
qb_status qb_devices_load(qb_ctx *cx, const qb_engine *first, const char *path,
                          qb_devices *devices);
void qb_devices_release(qb_devices *devices);

#endif
