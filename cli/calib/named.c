#include "cli/calib/named.h"

#include "cli/settings/project.h"

qb_status qb_calibration_path(qb_ctx *cx, const qb_common *common, const qb_opt_list *arguments,
                              char **out) {
    const qb_common here = {.config = common->config};
    qb_project project = {0};
    if (arguments->n > 0) {
        *out = qb_strdup(cx, arguments->item[0]);
        return *out ? QB_OK : cx->code;
    }
    const qb_status status = qb_project_open(cx, &here, &(qb_project_flags){0}, true, &project);
    if (status == QB_STATUS_USAGE)
        qb_fail(cx, status, "expected a .calib.h5 file, or one model or a " QB_CONFIG_NAME " here");
    if (status != QB_OK) return status;
    *out = qb_project_artifact(cx, &project, "calib.h5");
    qb_project_close(&project);
    return *out ? QB_OK : cx->code;
}
