/* One tactic on one random problem, in a random form (layouts, channel slices, f16 data where the
 * tactic is a device's), beside the reference. Guard bytes stand around all that a kernel may
 * write, garbage in all that it may only read past. */
#ifndef QB_TEST_TRIAL_H
#define QB_TEST_TRIAL_H

#include "random_problem.h"

/* Does the tactic run the case in a random form? Then it must be right, or the test fails.
 * `workers` may be NULL. */
bool trial_run(qb_ctx *cx, qb_rng *rng, const qb_tactic *tactic, random_case *c,
               qb_workers *workers);

/* Would the tactic take the case in the form that `seed` draws, the same one for all tactics? Runs
 * nothing, and needs no device. */
bool trial_takes(uint64_t seed, const qb_tactic *tactic, const random_case *c);

#endif
