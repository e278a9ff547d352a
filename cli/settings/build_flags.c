#include "cli/settings/build_flags.h"

#include <stdlib.h>

#include "base/memory.h"
#include "cli/settings/pairs.h"
#include "engine/backends.h"
#include "engine/providers.h"
#include "kernels/sources.h"

/* ---- devices ---- */

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

/* ---- the memory pool ---- */

static qb_status parse_pools(qb_ctx *cx, const char *pools, size_t *bytes) {
    qb_pair p;
    *bytes = 0;
    while (qb_pair_next(&pools, &p)) {
        if (!qb_pair_is(&p, "workspace"))
            return qb_fail(cx, QB_STATUS_USAGE,
                           "--memPoolSize: expected workspace:MIB, got '%.*s': there is no other "
                           "pool",
                           (int)(p.name ? p.name_length : p.value_length),
                           p.name ? p.name : p.value);
        if (!qb_memory_parse(p.value, p.value_length, bytes))
            return qb_fail(cx, QB_STATUS_USAGE,
                           "--memPoolSize: expected workspace:64, 64M, 1G or 512K, got '%.*s'",
                           (int)p.value_length, p.value);
    }
    return QB_OK;
}

/* ---- all of them ---- */

qb_status qb_build_flags_parse(qb_ctx *cx, const qb_build_flags *flags, qb_build_spec *spec,
                               qb_devices *devices, char **missing) {
    *spec = (qb_build_spec){.backends = flags->backends,
                            .no_mixed_precision = flags->no_mixed_precision,
                            .timing_cache = flags->timing_cache,
                            .time_tactics = flags->time_tactics,
                            .max_sizes = flags->max_sizes,
                            .check = !flags->no_check};
    if (flags->backends && flags->providers)
        return qb_fail(cx, QB_STATUS_USAGE,
                       "--backends chooses kernels, --providers where nodes run: give one");
    if (flags->backends) QB_TRY(qb_backends_check(cx, flags->backends));
    if (flags->providers)
        QB_TRY(qb_providers_choose(cx, flags->providers, &spec->backends, missing));
    QB_TRY(qb_devices_parse(cx, flags->devices, devices));
    spec->device = devices->number[0];
    QB_TRY(parse_pools(cx, flags->pools, &spec->workspace_limit));
    return qb_sources_parse(cx, flags->tactic_sources, &spec->excluded_sources);
}
