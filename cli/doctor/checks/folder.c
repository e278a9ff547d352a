#include <sys/statvfs.h>
#include <unistd.h>

#include "cli/doctor/check.h"

#define ENOUGH_BYTES 100e6 /* artifacts of a model of common size */

static qb_status look(qb_ctx *cx, qb_finding *out) {
    struct statvfs disk;
    if (access(".", W_OK) != 0)
        return qb_found(cx, out, QB_FINDING_BAD, "go elsewhere, or name a folder with -o",
                        "the current folder cannot be written to");
    if (statvfs(".", &disk) != 0)
        return qb_found(cx, out, QB_FINDING_NOTE, NULL, "free space is not known");
    const double available = (double)disk.f_bavail * (double)disk.f_frsize;
    const bool enough = available >= ENOUGH_BYTES;
    return qb_found(cx, out, enough ? QB_FINDING_GOOD : QB_FINDING_BAD,
                    enough ? NULL : "make room, or name another folder with -o",
                    "the current folder can be written to, %.1f GiB free", available / (1 << 30));
}

const qb_check qb_check_folder = {"folder", look};
