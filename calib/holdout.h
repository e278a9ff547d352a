/* Samples held back: statistics come from the others, and these judge what was made of them. */
#ifndef QB_CALIB_HOLDOUT_H
#define QB_CALIB_HOLDOUT_H

#include <stdbool.h>
#include <stdint.h>

/* Of every `every` samples of a data set the last one; none when `every` is below 2. */
static inline bool qb_is_held_back(int64_t index, int64_t every) {
    return every > 1 && index % every == every - 1;
}

#endif
