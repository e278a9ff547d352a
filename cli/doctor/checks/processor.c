#include "base/processor.h"
#include "cli/doctor/check.h"

static qb_status look(qb_ctx *cx, qb_finding *out) {
    static const char *const hints[QB_TIER_COUNT] = {
        [QB_TIER_SCALAR] = "expect portable code's speed",
        [QB_TIER_AVX2] = "INT8 gains less than it would with VNNI: measure on the machine that "
                         "will serve",
        [QB_TIER_AVX512] = "INT8 gains less than it would with AVX512-VNNI: measure on the machine "
                           "that will serve",
    };
    const qb_tier tier = qb_processor_tier();
    const bool limited = qb_processor_limit() < QB_TIER_COUNT;
    if (qb_processor_check(cx) != QB_OK) {
        const qb_status status =
            qb_found(cx, out, QB_FINDING_BAD, "unset it or name one of these", "%s", cx->message);
        qb_ctx_clear(cx);
        return status;
    }
    return qb_found(cx, out, hints[tier] ? QB_FINDING_NOTE : QB_FINDING_GOOD, hints[tier],
                    "%d threads, tier %s%s", qb_threads(cx), qb_tier_text(tier),
                    limited ? " (no more than QB_CPU allows)" : "");
}

const qb_check qb_check_processor = {"processor", look};
