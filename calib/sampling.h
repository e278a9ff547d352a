/* What a calibration table tells of the samples behind it. It follows from what the file holds, so
 * it is the same for any order, batch, threads, ranks and shards. */
#ifndef QB_CALIB_SAMPLING_H
#define QB_CALIB_SAMPLING_H

#include "calib/table.h"

/* Shards of a bootstrap, and so the fewest samples that can be judged. */
#define QB_SAMPLING_SHARDS 10
/* A range moves when its 90 % interval is wider than this share of it ... */
#define QB_SAMPLING_MOVED 0.2
/* ... and samples are too few when it does in more than this share of the tensors: single extremes
 * always move some. */
#define QB_SAMPLING_MANY 0.25

typedef struct qb_sampling {
    int64_t copies;  /* samples whose content an earlier one has; 0 where keys are not known */
    int32_t tensors; /* that were judged: of at least QB_SAMPLING_SHARDS samples with extremes */
    int32_t moving;  /* of them: whose range from minimum to maximum still moves */
} qb_sampling;

/* Movement by a bootstrap over shards: the samples, which are in the order of their hashes and so
 * at random, make QB_SAMPLING_SHARDS parts, and as many parts are drawn from these with
 * replacement. With ten parts no simulation is needed: that none of the k widest is drawn has the
 * probability (1 - k / 10)^10, 11 % for two and 3 % for three, so the 90 % interval of an end of
 * the range goes from the third widest part's to the widest part's. */
void qb_sampling_of(const qb_table *table, qb_sampling *out);
/* Are the samples too few for ranges that hold? False where nothing was judged. */
bool qb_sampling_is_thin(const qb_sampling *sampling);
#endif
