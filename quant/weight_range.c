#include "quant/weight_range.h"

#include <string.h>

#include "base/strbuf.h"

#define QB_WEIGHT_RANGE(name) extern const qb_weight_range qb_weight_range_##name;
#include "quant/weight_ranges.def"

static const qb_weight_range *const known[] = {
#define QB_WEIGHT_RANGE(name) &qb_weight_range_##name,
#include "quant/weight_ranges.def"
};
enum { N_KNOWN = sizeof known / sizeof known[0] };

const qb_weight_range *const *qb_weight_ranges(int32_t *n) {
    if (n) *n = N_KNOWN;
    return known;
}

qb_status qb_weight_range_find(qb_ctx *cx, const char *name, const qb_weight_range **out) {
    QB_RELEASED(qb_strbuf_release) qb_strbuf names = {0};
    for (int32_t i = 0; i < N_KNOWN; i++) {
        qb_strbuf_addf(&names, "%s%s", i ? ", " : "", known[i]->name);
        if (strcmp(known[i]->name, name) != 0) continue;
        *out = known[i];
        return QB_OK;
    }
    return qb_fail(cx, QB_STATUS_USAGE, "unknown range of weights '%s': expected %s", name,
                   names.data ? names.data : "a known one");
}
