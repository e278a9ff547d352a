/* Lists of calibration methods, as --method and qbench.yaml give them. */
#ifndef QB_CLI_SETTINGS_METHODS_H
#define QB_CLI_SETTINGS_METHODS_H

#include "calib/calib.h"

#define QB_METHODS_HELP                                                                            \
    "entropy (default), percentile[:P], minmax, moving-average[:C], mse, lp[:P], aciq, auto "      \
    "(default for detect and segment); the "                                                       \
    "first of a list is the chosen one"

typedef struct qb_methods {
    qb_method_choice choice[QB_TABLE_METHODS];
    int32_t n;
} qb_methods;

/* Reads "entropy,percentile:99.9"; behind the methods asked for come those that every table has
 * beside them, and for auto those that it chooses from: they cost little, the statistics are the
 * same. Methods that read the extremes of samples only when asked for, or where `n_samples` are few
 * enough to be recorded. */
qb_status qb_methods_parse(qb_ctx *cx, const char *text, int64_t n_samples, qb_methods *out);
/* Index of auto, -1 when it is not among them. */
int32_t qb_methods_auto(const qb_methods *methods);

#endif
