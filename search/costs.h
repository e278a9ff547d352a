/* A model of what alternatives cost in time, made of measurements: what each group takes more in
 * float than in integers, conversions included, and what two neighbours save that both are float.
 * It proposes; what it proposes is measured. */
#ifndef QB_SEARCH_COSTS_H
#define QB_SEARCH_COSTS_H

#include "search/race.h"
#include "search/space.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct qb_costs {
    const qb_space *space;
    double *more;  /* [groups] seconds more when this group alone is float */
    double *saved; /* [edges] seconds less when both of its ends are float */
} qb_costs;

/* From the steps of the engine that is all integers, of the one that is all float, and what a
 * quantized copy of an element takes in the former. */
qb_status qb_costs_create(qb_ctx *cx, const qb_space *space, const qb_step_times *integers,
                          const qb_step_times *floats, qb_costs *out);
void qb_costs_release(qb_costs *costs); /* accepts zeroed */
/* Replaces the estimate of one group by what is measured: its own engine's steps against those of
 * the engine that is all integers. */
qb_status qb_costs_measure(qb_ctx *cx, qb_costs *costs, int32_t group, qb_dtype floats, int32_t way,
                           const qb_step_times *integers, const qb_race_inputs *inputs);
/* Seconds more than all integers. */
double qb_costs_of(const qb_costs *costs, const bool *is_float);

/* Changes one group at a time for as long as time + weight * noise falls, from what `is_float`
 * holds; groups that `fixed` (NULL: none) names stay. `noise` (NULL: 0): of each group in integers.
 */
void qb_costs_descend(const qb_costs *costs, const double *noise, double weight, const bool *fixed,
                      bool *is_float);

#ifdef __cplusplus
}
#endif
#endif
