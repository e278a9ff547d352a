/* qbench report: table and figures again from a run record; needs neither model nor data. */
#include "cli/results.h"

typedef struct options {
    qb_common common;
} options;

static const qb_opt table[] = {QB_COMMON_OPTIONS, {0}};

static qb_status run(qb_ctx *cx, void *opts, const qb_opt_list *arguments) {
    const options *o = opts;
    const char *path = arguments->n > 0 ? arguments->item[0] : "compare.json";
    qb_run *result;
    QB_TRY(qb_run_load(cx, path, &result));
    qb_status status = QB_OK;
    QB_GO(qb_results_show(cx, &o->common, result));
    QB_GO(qb_results_draw(cx, o->common.out, result));
out:
    qb_run_free(result);
    return status;
}

const qb_command qb_command_report = {
    .name = "report",
    .usage = "[COMPARE.json] [options]",
    .summary = "table and charts again from a comparison's record",
    .example = "qbench report compare.json -o release/",
    .options = table,
    .options_size = sizeof(options),
    .max_arguments = 1,
    .run = run,
};
