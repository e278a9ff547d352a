/* Ranges of all tensors of a table by all methods asked for. */
#include <string.h>

#include "base/each.h"
#include "calib/calib.h"

static qb_status name_methods(qb_ctx *cx, qb_table *table, const qb_method_choice *methods,
                              int32_t n_methods) {
    if (n_methods < 1 || n_methods > QB_TABLE_METHODS)
        return qb_fail(cx, QB_STATUS_USAGE, "expected 1 to %d calibration methods, got %d",
                       QB_TABLE_METHODS, n_methods);
    memset(table->method, 0, sizeof table->method); /* files hold the bytes behind the text too */
    for (int32_t m = 0; m < n_methods; m++) {
        qb_method_text(&methods[m], table->method[m], QB_METHOD_TEXT);
        for (int32_t k = 0; k < m; k++)
            if (strcmp(table->method[k], table->method[m]) == 0)
                return qb_fail(cx, QB_STATUS_USAGE, "calibration method %s is given twice",
                               table->method[m]);
        QB_TRY(qb_method_check_samples(cx, &methods[m], table->n_recorded, table->samples));
    }
    table->n_methods = n_methods;
    return QB_OK;
}

typedef struct job {
    qb_table *table;
    const qb_method_choice *methods;
} job;

/* All methods that do not choose, then those that do, for one tensor. */
static qb_status choose_entry(qb_ctx *cx, void *user, int32_t worker, int32_t i) {
    (void)worker;
    const job *j = user;
    const qb_table *table = j->table;
    qb_table_entry *e = &table->entry[i];
    qb_range candidate[QB_TABLE_METHODS];
    qb_observed seen = {.stats = e->stats,
                        .sample_min = e->sample_min,
                        .sample_max = e->sample_max,
                        .n_samples = table->n_recorded,
                        .candidate = candidate};
    for (int chooses = 0; chooses < 2; chooses++)
        for (int32_t m = 0; m < table->n_methods; m++) {
            const qb_method_choice *choice = &j->methods[m];
            if (choice->method->chooses != (chooses == 1)) continue;
            QB_TRY(qb_check_cancel(cx));
            QB_TRY_WRAP(cx, choice->method->range(cx, &seen, choice, &e->range[m]),
                        "tensor '%s': %s", e->name, table->method[m]);
            if (!choice->method->chooses) candidate[seen.n_candidates++] = e->range[m];
        }
    return QB_OK;
}

qb_status qb_table_choose(qb_ctx *cx, qb_table *table, const qb_method_choice *methods,
                          int32_t n_methods) {
    for (int32_t i = 0; i < table->n_entries; i++)
        if (table->entry[i].stats->count == 0)
            return qb_fail(cx, QB_STATUS_UNSUPPORTED,
                           "tensor '%s' has no statistics to choose a range from: it was imported",
                           table->entry[i].name);
    QB_TRY(name_methods(cx, table, methods, n_methods));
    job j = {.table = table, .methods = methods};
    return qb_each(cx, table->n_entries, choose_entry, &j);
}
