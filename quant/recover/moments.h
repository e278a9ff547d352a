/* What the channels of a float graph's values hold, over samples. */
#ifndef QB_QUANT_RECOVER_MOMENTS_H
#define QB_QUANT_RECOVER_MOMENTS_H

#include "quant/recover/samples.h"
#include "quant/recover/scales.h"

/* How far a channel reaches: its largest magnitude, and the roots of the means of the eighth and
 * the fourth powers, on which the few elements that other samples may or may not have weigh less.
 */
enum { QB_REACHES = 3 };

typedef struct qb_moments {
    float *low, *high; /* [scales->n_of] extremes of the channel, by qb_scales.first */
    double *square;    /* mean square of its elements */
    float *reach[QB_REACHES], *reach_of_half[QB_REACHES]; /* the latter of every other sample */
    bool *seen;                                           /* [values] */
    float *element; /* [scales->n_of][n_elements] some of the channel's elements, evenly spread */
    int32_t n_elements;
    int32_t others; /* elements from this one on are of samples that are not in that half */
} qb_moments;

/* Of all values with variables that an engine of the graph holds in memory. */
qb_status qb_moments_measure(qb_ctx *cx, const qb_scales *scales, const qb_samples *samples,
                             qb_moments *out);
void qb_moments_release(qb_moments *moments);

#endif
