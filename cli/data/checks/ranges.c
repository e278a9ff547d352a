/* Are there enough samples, or would more of them still move the ranges? A calibration of this
 * model knows of all its samples; without one, some are run here. */
#include "cli/data/check.h"
#include "cli/out/sampling.h"

enum { SAMPLES = 200 }; /* that are run, evenly spread */

/* A calibration of another model is none. */
static qb_status from_calibration(qb_ctx *cx, const qb_data_case *data, qb_table **out) {
    qb_status status = qb_stage_table(cx, data->project, data->graph, out);
    if (status != QB_STATUS_NOTFOUND && status != QB_STATUS_MISMATCH) return status;
    qb_ctx_clear(cx);
    *out = NULL;
    return QB_OK;
}

static qb_status look(qb_ctx *cx, const qb_data_case *data, qb_diagnosis *out) {
    QB_RELEASED(qb_table_free_at) qb_table *table = NULL;
    if (!data->anew) QB_TRY(from_calibration(cx, data, &table));
    if (!table) {
        qb_info(cx, "ranges: up to %d samples", SAMPLES);
        QB_TRY(qb_data_check_gather(cx, data, SAMPLES, 1, &table, out));
    }
    return table ? qb_sampling_say_ranges(cx, table, out) : QB_OK;
}

const qb_data_check qb_data_check_ranges = {"ranges", .look = look};
