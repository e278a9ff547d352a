/* What a calibration tells of its samples, as findings. */
#ifndef QB_CLI_OUT_SAMPLING_H
#define QB_CLI_OUT_SAMPLING_H

#include "calib/table.h"
#include "cli/out/diagnosis.h"

/* Are there enough samples? Nothing where their extremes are not known. */
qb_status qb_sampling_say_ranges(qb_ctx *cx, const qb_table *table, qb_diagnosis *out);
/* All that follows from the table: unreadable samples, copies, blank images, too few samples.
 * Nothing of an imported one. */
qb_status qb_sampling_say(qb_ctx *cx, const qb_table *table, qb_diagnosis *out);

#endif
