#include "cli/bench_devices.h"

#include "engine/file.h"
#include "engine/profiles.h"

qb_status qb_bench_devices_load(qb_ctx *cx, const qb_engine *first, const char *path,
                                qb_bench_devices *devices) {
    if (devices->at.n < 2) return QB_OK;
    if (!qb_engine_device(first) || qb_engine_n_profiles(first) > 0)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED,
                       "--devices: expected an engine of a GPU for one set of sizes");
    for (int32_t i = 1; i < devices->at.n; i++) {
        const int32_t number = devices->at.number[i];
        QB_TRY(path ? qb_engine_load_on(cx, path, number, &devices->engine[i])
                    : qb_engine_copy(cx, first, number, &devices->engine[i]));
    }
    return QB_OK;
}

void qb_bench_devices_release(qb_bench_devices *devices) {
    for (int32_t i = 1; i < devices->at.n; i++) qb_engine_free(devices->engine[i]);
    *devices = (qb_bench_devices){0};
}
