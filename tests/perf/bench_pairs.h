/* Two engines of a device replayed interleaved. */
#ifndef BENCH_PAIRS_H
#define BENCH_PAIRS_H

#include "engine/engine.h"

typedef struct bench_pair {
    double ms[2]; /* medians of one run */
    double ratio, low,
        high; /* the second's time over the first's: median and quartiles of rounds */
    int rounds;
    bool same; /* both have the same steps, run by the same tactics */
} bench_pair;

/* A round replays each a few times, one after the other; as many rounds as half a second has room
 * for, 9 to 201. */
qb_status bench_pair_measure(qb_ctx *cx, const qb_engine *first, const qb_engine *second,
                             bench_pair *out);
/* Is the second slower? Two engines of the same steps are not, whatever the clock says. */
bool bench_pair_slower(const bench_pair *pair);

#endif
