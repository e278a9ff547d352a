#include "cli/out/results.h"

#include "base/file.h"
#include "cli/out/json.h"
#include "reports/report.h"

qb_status qb_results_show(qb_ctx *cx, const qb_common *common, const qb_run *run) {
    if (!qb_json_on_stdout(common)) qb_report_table(stdout, run);
    if (!common->json) return QB_OK;
    char *text;
    QB_TRY(qb_run_json(cx, run, &text));
    qb_status status = qb_json_text_out(cx, common, text);
    qb_free(text);
    return status;
}

qb_status qb_results_can_save(qb_ctx *cx, const char *folder) {
    char *path = qb_path_join(cx, folder, "compare.json");
    if (!path) return cx->code;
    const qb_status status = qb_file_can_write(cx, path);
    qb_free(path);
    return status;
}

qb_status qb_results_save(qb_ctx *cx, const char *folder, const qb_run *run) {
    char *path = qb_path_join(cx, folder, "compare.json");
    if (!path) return cx->code;
    qb_status status = qb_run_save(cx, run, path);
    if (status == QB_OK) qb_info(cx, "wrote %s", path);
    qb_free(path);
    return status;
}

qb_status qb_results_draw(qb_ctx *cx, const char *folder, const qb_run *run) {
    char *figures = qb_path_join(cx, folder, "figures");
    if (!figures) return cx->code;
    qb_status status = qb_report_figures(cx, run, figures);
    if (status == QB_OK) qb_info(cx, "charts are in %s/", figures);
    qb_free(figures);
    return status;
}
