/* A model of what alternatives cost in time, made of measurements: what each group takes more in
 * float than in integers, conversions included, and what two neighbours save that both are float.
 * It proposes; what it proposes is measured. */
#ifndef QB_SEARCH_COSTS_H
#define QB_SEARCH_COSTS_H

#include "search/interleaved.h"
#include "search/space.h"

typedef struct qb_costs {
    const qb_space *space;
    double *more;  /* [groups] seconds more when this group alone is float, conversions included */
    double *apart; /* [groups] the same of its own step, conversions not */
    double *saved; /* [edges] seconds less when both of its ends are float */
} qb_costs;

/* What quantization costs in accuracy: the output's noise power, as a sum over groups in integers.
 */
typedef struct qb_noise_pair {
    int32_t a, b;
    double more; /* what it falls by beyond the sum of both, when both are float */
} qb_noise_pair;
typedef struct qb_noise {
    double *of; /* [groups] */
    int32_t n_pairs;
    qb_noise_pair *pair; /* groups that interact, as far as that was measured */
} qb_noise;

/* Seconds to quantize an element, from the copies at the model's inputs; 0 where there is none. */
double qb_costs_copy_rate(const qb_space *space, const qb_step_times *integers);
/* Nothing costs anything yet. */
qb_status qb_costs_create(qb_ctx *cx, const qb_space *space, qb_costs *out);
void qb_costs_release(qb_costs *costs); /* accepts zeroed */
/* Estimates all groups from the steps of the engine that is all integers and of the one that is all
 * float, and a copy of what they read and write. */
void qb_costs_estimate(qb_costs *costs, const qb_step_times *integers, const qb_step_times *floats,
                       double copy_rate);
/* What neighbours save: a copy of what is between them, but no more than the conversions of both
 * were measured to take. */
void qb_costs_share_conversions(qb_costs *costs, double copy_rate);
/* One group's cost as it is measured: its own engine's steps against those of the engine that is
 * all integers. */
qb_status qb_costs_measure(qb_ctx *cx, qb_costs *costs, int32_t group, qb_dtype floats, int32_t way,
                           const qb_step_times *integers, const qb_timing_inputs *inputs);
/* Seconds more than all integers. */
double qb_costs_of(const qb_costs *costs, const bool *is_float);
/* Moves the costs of what is float, the largest most, a part of the way to where they sum up to the
 * `seconds` more than all integers that were measured. */
void qb_costs_correct(qb_costs *costs, const bool *is_float, double seconds);
/* Noise power of what is in integers. */
double qb_noise_of(const qb_noise *noise, int32_t n_groups, const bool *is_float);

/* Changes one group at a time for as long as time + weight * noise falls, from what `is_float`
 * holds. noise NULL: time alone. */
void qb_costs_descend(const qb_costs *costs, const qb_noise *noise, double weight, bool *is_float);
/* Makes groups float, or exchanges one that is for one that is not, whichever leaves the least
 * noise, for as long as it falls and all takes at most `most` seconds more than all integers. What
 * qb_costs_descend finds lies on the hull of time and noise; this finds what is within it. */
void qb_costs_fill(const qb_costs *costs, const qb_noise *noise, double most, bool *is_float);
#endif
