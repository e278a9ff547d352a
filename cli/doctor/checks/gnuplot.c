#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "cli/doctor/check.h"

/* The first executable of this name in PATH; NULL when there is none. New memory. */
static char *find_program(qb_ctx *cx, const char *name) {
    QB_FREED char *folders = qb_strdup(cx, getenv("PATH") ? getenv("PATH") : "");
    char *rest, *found = NULL;
    for (char *folder = folders ? strtok_r(folders, ":", &rest) : NULL; folder && !found;
         folder = strtok_r(NULL, ":", &rest)) {
        found = qb_path_join(cx, folder, name);
        if (found && access(found, X_OK) == 0) break;
        qb_free(QB_MOVE(found));
    }
    return found;
}

static qb_status look(qb_ctx *cx, qb_finding *out) {
    QB_FREED char *program = find_program(cx, "gnuplot");
    if (cx->code != QB_OK) return cx->code;
    qb_status status =
        program ? qb_found(cx, out, QB_FINDING_GOOD, NULL, "%s", program)
                : qb_found(cx, out, QB_FINDING_NOTE,
                           "charts are left out (their data is written); apt-get install "
                           "gnuplot-nox",
                           "not in PATH");
    return status;
}

const qb_check qb_check_gnuplot = {"gnuplot", look};
