#include "quant/target.h"

#include <string.h>

#include "base/strbuf.h"

#define QB_TARGET(name) extern const qb_target qb_target_##name;
#include "quant/targets.def"

static const qb_target *const targets[] = {
#define QB_TARGET(name) &qb_target_##name,
#include "quant/targets.def"
};
enum { N_TARGETS = sizeof targets / sizeof targets[0] };

const qb_target *const *qb_targets(int32_t *n) {
    *n = N_TARGETS;
    return targets;
}

qb_status qb_target_find(qb_ctx *cx, const char *name, const qb_target **out) {
    QB_RELEASED(qb_strbuf_release) qb_strbuf names = {0};
    for (int32_t i = 0; i < N_TARGETS; i++) {
        qb_strbuf_addf(&names, "%s%s", i ? ", " : "", targets[i]->name);
        const char *other = targets[i]->other_name;
        if (strcmp(targets[i]->name, name) != 0 && (!other || strcmp(other, name) != 0)) continue;
        *out = targets[i];
        return QB_OK;
    }
    return qb_fail(cx, QB_STATUS_USAGE, "unknown target '%s': expected one of %s", name,
                   names.data ? names.data : "the known ones");
}
