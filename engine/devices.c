#include "engine/devices.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "engine/device_internal.h"
#include "engine/file.h"

int32_t qb_devices_count(const qb_devices *devices) { return devices->n > 1 ? devices->n : 1; }

int32_t qb_device_number(const qb_devices *devices, int32_t i, const qb_build_spec *spec) {
    return devices->n > 0 ? devices->number[i % devices->n] : spec->device;
}

static qb_status identify(qb_ctx *cx, const qb_device_api *api, int32_t number,
                          qb_device_identity *out) {
    QB_TRY_WRAP(cx, api->open(cx, number, out), "device %d", (int)number);
    return QB_OK;
}

qb_status qb_devices_check(qb_ctx *cx, const char *backends, const qb_devices *devices) {
    qb_device_identity first, other;
    char name[32];
    if (devices->n < 2) return QB_OK;
    snprintf(name, sizeof name, "%.*s", (int)strcspn(backends ? backends : "", ","),
             backends ? backends : "");
    const qb_device_api *api = qb_device_find(name);
    if (!api)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED,
                       "several devices: expected backends that begin with one, got '%s'", name);
    QB_TRY(identify(cx, api, devices->number[0], &first));
    for (int32_t i = 1; i < devices->n; i++) {
        QB_TRY(identify(cx, api, devices->number[i], &other));
        if (strcmp(first.hardware, other.hardware) == 0 &&
            strcmp(first.software, other.software) == 0)
            continue;
        return qb_fail(cx, QB_STATUS_MISMATCH,
                       "devices that work together must be alike: %d is '%s (%s)', %d is '%s (%s)'",
                       (int)devices->number[0], first.hardware, first.software,
                       (int)devices->number[i], other.hardware, other.software);
    }
    return QB_OK;
}

qb_status qb_engine_copy(qb_ctx *cx, const qb_engine *engine, int32_t device, qb_engine **out) {
    const char *folder = getenv("TMPDIR");
    const double start = qb_now();
    QB_FREED char *path =
        QB_NEW(cx, qb_format(cx, "%s/qbench-engine-XXXXXX", folder && *folder ? folder : "/tmp"));
    const int file = mkstemp(path);
    if (file < 0) return qb_fail_errno(cx, "%s", path);
    close(file);
    qb_status status = qb_engine_save(cx, engine, &(qb_engine_origin){0}, path);
    if (status == QB_OK) status = qb_engine_load_on(cx, path, device, out);
    (void)unlink(path); /* what is mapped stays */
    if (status != QB_OK) return qb_wrap(cx, "the engine for device %d", (int)device);
    qb_info(cx, "engine loaded on device %d in %.3g s", (int)device,
            qb_now() - start - qb_engine_device_seconds(*out));
    return QB_OK;
}
