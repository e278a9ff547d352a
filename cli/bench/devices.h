/* Engines on several devices: which ones, and the same engine on each. */
#ifndef QB_CLI_BENCH_DEVICES_H
#define QB_CLI_BENCH_DEVICES_H

#include "engine/devices.h"

typedef struct qb_bench_devices {
    qb_devices at;
    qb_engine *engine[QB_DEVICES_MAX];     /* of all but the first */
    const qb_engine *plan[QB_DEVICES_MAX]; /* of theirs, for the sizes that run */
} qb_bench_devices;

/* The engine, which was built on the first of the devices, on each of the others: from its file
 * where it has one (else `path` is NULL). QB_STATUS_UNSUPPORTED for an engine of the host. */
qb_status qb_bench_devices_load(qb_ctx *cx, const qb_engine *first, const char *path,
                                qb_bench_devices *devices);
/* The plan for the sizes on each of the others, as qb_shapes_plan makes it on the first. */
qb_status qb_bench_devices_plan(qb_ctx *cx, const char *shapes, int64_t use_profile,
                                qb_bench_devices *devices);
void qb_bench_devices_release(qb_bench_devices *devices);

#endif
