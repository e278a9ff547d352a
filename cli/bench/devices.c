#include "cli/bench/devices.h"

#include "cli/settings/shape_flags.h"
#include "engine/file.h"
#include "engine/profiles.h"

qb_status qb_bench_devices_load(qb_ctx *cx, const qb_engine *first, const char *path,
                                qb_bench_devices *devices) {
    if (devices->at.n < 2) return QB_OK;
    if (!qb_engine_device(first))
        return qb_fail(cx, QB_STATUS_UNSUPPORTED,
                       "--devices: expected an engine of a GPU, this one is the processor's: add "
                       "--providers=cuda");
    for (int32_t i = 1; i < devices->at.n; i++) {
        const int32_t number = devices->at.number[i];
        QB_TRY(path ? qb_engine_load_on(cx, path, number, &devices->engine[i])
                    : qb_engine_copy(cx, first, number, &devices->engine[i]));
    }
    return QB_OK;
}

qb_status qb_bench_devices_plan(qb_ctx *cx, const char *shapes, int64_t use_profile,
                                qb_bench_devices *devices) {
    for (int32_t i = 1; i < devices->at.n; i++)
        QB_TRY_WRAP(cx,
                    qb_shapes_plan(cx, devices->engine[i], shapes, use_profile, &devices->plan[i]),
                    "device %d", (int)devices->at.number[i]);
    return QB_OK;
}

void qb_bench_devices_release(qb_bench_devices *devices) {
    for (int32_t i = 1; i < devices->at.n; i++) {
        qb_engine_release(devices->plan[i]);
        qb_engine_free(devices->engine[i]);
    }
    *devices = (qb_bench_devices){0};
}
