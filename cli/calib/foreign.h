/* What `calib import` and `migrate` share: a foreign calibration file fitted to a model. */
#ifndef QB_CLI_CALIB_FOREIGN_H
#define QB_CLI_CALIB_FOREIGN_H

#include <jansson.h>

#include "calib/ranges.h"

typedef struct qb_foreign {
    const qb_calib_format *format;
    qb_ranges ranges;
    qb_ranges_fit fit; /* names live as long as ranges and graph */
    qb_table *table;
} qb_foreign;

/* Reads `path` (format NULL: found out) for an optimized graph of the model called `model`. */
qb_status qb_foreign_load(qb_ctx *cx, const char *path, const char *format, const char *model,
                          const qb_graph *graph, qb_foreign *out);
void qb_foreign_release(qb_foreign *foreign); /* accepts a zeroed one */
/* Tensors without a range and names that the model does not have, on standard output. */
void qb_foreign_print(const qb_foreign *foreign);
/* {"format", "used", "missing", "extra"}; NULL when memory runs out. */
json_t *qb_foreign_json(const qb_foreign *foreign);

#endif
