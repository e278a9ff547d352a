#include <unistd.h>

#include "cli/doctor/check.h"

#define ENOUGH_BYTES 1e9 /* calibration of large models, with room */

static qb_status look(qb_ctx *cx, qb_finding *out) {
    const double page = (double)sysconf(_SC_PAGESIZE);
    const double total = page * (double)sysconf(_SC_PHYS_PAGES);
    const double available = page * (double)sysconf(_SC_AVPHYS_PAGES);
    const bool enough = total >= ENOUGH_BYTES;
    return qb_found(cx, out, enough ? QB_FINDING_GOOD : QB_FINDING_NOTE,
                    enough ? NULL : "use small batches", "%.1f GiB, %.1f GiB free",
                    total / (1 << 30), available / (1 << 30));
}

const qb_check qb_check_memory = {"memory", look};
