#include "cli/devices.h"

#include <stdlib.h>

#define ORDINAL_MAX 1023

qb_status qb_devices_parse(qb_ctx *cx, const char *text, qb_devices *out) {
    *out = (qb_devices){0};
    if (!text) return QB_OK;
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
