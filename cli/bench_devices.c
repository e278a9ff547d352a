#include "cli/bench_devices.h"

#include <stdlib.h>

#include "base/log.h"
#include "engine/file.h"
#include "engine/profiles.h"

#define ORDINAL_MAX 1023

qb_status qb_devices_parse(qb_ctx *cx, const char *text, qb_devices *out) {
    *out = (qb_devices){.n = 1};
    if (!text) return QB_OK;
    out->n = 0;
    for (const char *at = text;; at++) {
        char *end;
        const long number = strtol(at, &end, 10);
        bool twice = false;
        for (int32_t i = 0; i < out->n; i++) twice = twice || out->number[i] == number;
        if (end == at || (*end && *end != ',') || number < 0 || number > ORDINAL_MAX || twice ||
            out->n == QB_DEVICES_MAX)
            return qb_fail(cx, QB_STATUS_USAGE,
                           "--devices: expected numbers like 0,1, each once, got '%s'", text);
        out->number[out->n++] = (int32_t)number;
        if (!*end) return QB_OK;
        at = end;
    }
}

qb_status qb_devices_load(qb_ctx *cx, const qb_engine *first, const char *path,
                          qb_devices *devices) {
    if (!qb_engine_device(first) || qb_engine_n_profiles(first) > 0)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED,
                       "--devices: expected an engine of a GPU for one set of sizes");
    for (int32_t i = 1; i < devices->n; i++) {
        const double start = qb_now();
        QB_TRY(qb_engine_load_on(cx, path, devices->number[i], &devices->engine[i]));
        qb_info(cx, "engine loaded on device %d in %.3g s", (int)devices->number[i],
                qb_now() - start - qb_engine_device_seconds(devices->engine[i]));
    }
    return QB_OK;
}

void qb_devices_release(qb_devices *devices) {
    for (int32_t i = 1; i < devices->n; i++) qb_engine_free(devices->engine[i]);
    *devices = (qb_devices){0};
}
