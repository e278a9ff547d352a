/* Are there enough samples? The calibration holds the extremes of each sample, sorted by a hash of
 * its content, so its first and second half are halves by chance: where their ranges differ, more
 * samples would still move them. */
#include <math.h>

#include "cli/data_check.h"

#define MOVED 0.1 /* of the wider range */
#define MANY 0.5  /* share of the tensors: single extremes always move some */

static qb_range range_of(const qb_table_entry *e, int64_t first, int64_t end) {
    qb_range r = {INFINITY, -INFINITY};
    for (int64_t i = first; i < end; i++) {
        r.lo = fminf(r.lo, e->sample_min[i]);
        r.hi = fmaxf(r.hi, e->sample_max[i]);
    }
    return r;
}

static bool has_moved(const qb_table_entry *e, int64_t n) {
    const qb_range a = range_of(e, 0, n / 2), b = range_of(e, n / 2, n);
    if (!(a.lo <= a.hi && b.lo <= b.hi)) return false; /* no finite value in a half */
    const double width = fmax((double)a.hi - a.lo, (double)b.hi - b.lo);
    return fmax(fabs((double)a.lo - b.lo), fabs((double)a.hi - b.hi)) > MOVED * width;
}

static qb_status judge(qb_ctx *cx, const qb_table *table, qb_diagnosis *out) {
    int32_t moved = 0;
    if (table->n_recorded < 2 || table->n_entries == 0) return QB_OK;
    for (int32_t i = 0; i < table->n_entries; i++)
        moved += has_moved(&table->entry[i], table->n_recorded);
    const bool many = moved > MANY * table->n_entries;
    return qb_diagnosis_say(
        cx, out, many ? QB_FINDING_NOTE : QB_FINDING_GOOD,
        many ? "add samples, or choose a method that clips (entropy, percentile)" : NULL,
        "%lld calibrated samples in two halves: the range from minimum to "
        "maximum differs by more than %g %% in %d of %d tensors",
        (long long)table->n_recorded, 100 * MOVED, moved, table->n_entries);
}

/* Without a calibration of this model, and with one that does not hold the extremes, there is
 * nothing to look at. */
static qb_status look(qb_ctx *cx, const qb_data_case *data, qb_diagnosis *out) {
    qb_table *table;
    qb_status status = qb_stage_table(cx, data->project, data->graph, &table);
    if (status == QB_STATUS_NOTFOUND || status == QB_STATUS_MISMATCH) {
        qb_ctx_clear(cx);
        return QB_OK;
    }
    QB_TRY(status);
    status = judge(cx, table, out);
    qb_table_free(table);
    return status;
}

const qb_data_check qb_data_check_ranges = {"ranges", look};
