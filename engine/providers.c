#include "engine/providers.h"

#include <string.h>

#include "base/log.h"
#include "base/opt.h"
#include "engine/backends.h"
#include "engine/device_internal.h"

#define LONGEST 32

/* Can the device be used here and now? If not, *why is one line (new memory). */
static qb_status try_device(qb_ctx *cx, const char *name, bool *there, char **why) {
    const qb_device_api *device = qb_device_find(name);
    *there = false;
    if (!device) {
        *why = qb_format(cx, "this qbench was built without it");
        return *why ? QB_OK : cx->code;
    }
    const qb_status status = device->open(cx, 0, NULL);
    *there = status == QB_OK;
    if (status == QB_OK || status == QB_STATUS_NOMEM) return status;
    *why = qb_strdup(cx, cx->message);
    if (!*why) return QB_STATUS_NOMEM;
    qb_ctx_clear(cx);
    return QB_OK;
}

static qb_status unknown(qb_ctx *cx, const char *name) {
    static const char *const names[] = {"cuda", "cpu", NULL};
    const char *nearest = qb_nearest(name, names);
    return qb_fail(cx, QB_STATUS_USAGE, "provider '%s': expected cuda or cpu%s%s%s", name,
                   nearest ? "; did you mean '" : "", nearest ? nearest : "", nearest ? "'?" : "");
}

/* The whole list is read, so that a slip behind the provider that is taken is noticed too. */
static qb_status check_list(qb_ctx *cx, const char *list, bool *cuda_first) {
    bool decided = false;
    *cuda_first = false;
    if (!*list) return unknown(cx, "");
    for (const char *at = list; *at;) {
        char name[LONGEST];
        const size_t n = strcspn(at, ",");
        snprintf(name, sizeof name, "%.*s", (int)n, at);
        const bool cuda = strcmp(name, "cuda") == 0;
        if (!cuda && strcmp(name, "cpu") != 0) return unknown(cx, name);
        if (!decided) *cuda_first = cuda;
        decided = true;
        at += n + (at[n] == ',');
    }
    return QB_OK;
}

qb_status qb_providers_choose(qb_ctx *cx, const char *list, const char **backends, char **missing) {
    bool cuda = false, there = false;
    char *why = NULL;
    QB_TRY(check_list(cx, list, &cuda));
    if (cuda) QB_TRY(try_device(cx, "cuda", &there, &why));
    *backends = there ? "cuda" : NULL;
    *missing = why ? qb_format(cx, "cuda: %s", why) : NULL;
    qb_free(why);
    if (cuda && !there && !*missing) return cx->code;
    if (*missing) qb_warn(cx, "provider %s: all nodes run on the CPU", *missing);
    return QB_OK;
}

qb_status qb_backends_require(qb_ctx *cx, const char *list, const char **backends) {
    /* The CPU's default families stand behind whatever comes first, and alone they are the CPU. */
    const char *found = strcmp(list, "cpu") == 0        ? NULL
                        : strcmp(list, "cuda,cpu") == 0 ? "cuda"
                                                        : list;
    if (found) QB_TRY(qb_backends_check(cx, found));
    *backends = found;
    return QB_OK;
}

const char *qb_provider_of(const qb_step_info *step) {
    if (strcmp(step->tactic, "upload") == 0 || strcmp(step->tactic, "download") == 0) return "copy";
    return step->on_device ? "cuda" : "cpu";
}

void qb_providers_count(const qb_engine *engine, qb_provider_count *out) {
    *out = (qb_provider_count){0};
    for (int32_t s = 0; s < qb_engine_n_steps(engine); s++) {
        qb_step_info step;
        qb_engine_step(engine, s, &step);
        const char *where = qb_provider_of(&step);
        int32_t *count = strcmp(where, "copy") == 0   ? &out->copies
                         : strcmp(where, "cuda") == 0 ? &out->cuda
                                                      : &out->cpu;
        ++*count;
    }
}
