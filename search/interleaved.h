/* How long several engines take against each other: rounds in which each runs for a slice of time,
 * so that what else goes on meets all of them, and ratios within a round. */
#ifndef QB_SEARCH_INTERLEAVED_H
#define QB_SEARCH_INTERLEAVED_H

#include "engine/engine.h"
#include "eval/run.h"

/* Inputs for engines of one shape: noise, or indices of 0. */
typedef struct qb_timing_inputs {
    int32_t n;
    void **data;
} qb_timing_inputs;
qb_status qb_timing_inputs_create(qb_ctx *cx, const qb_engine *engine, qb_timing_inputs *out);
void qb_timing_inputs_release(qb_timing_inputs *inputs); /* accepts zeroed */

/* What one engine took. */
typedef struct qb_interleaved_time {
    double ms;    /* the first engine's median over rounds of a round's least run, times ratio */
    double ratio; /* median over rounds of its least run over the first engine's; 1 for that */
    qb_interval range; /* 95 % interval of the ratio by a bootstrap over rounds */
} qb_interleaved_time;

/* Runs number i once and tells how long that took: engines by a clock, tests as they like. */
typedef qb_status (*qb_time_once_fn)(qb_ctx *cx, void *user, int32_t i, double *ms);
/* Runs n things for about `seconds` each, by what `run` tells, and up to twice more while the
 * widest interval is above a tenth: the machine is unsteady then, and of these tries that with the
 * least widest interval counts. out: [n]. Cancelled: an error. */
qb_status qb_time_rounds(qb_ctx *cx, qb_time_once_fn run, void *user, int32_t n, double seconds,
                         qb_interleaved_time *out);
/* The same of n engines, on the host or on a device, by its clock. */
qb_status qb_time_interleaved(qb_ctx *cx, const qb_engine *const *engines, int32_t n,
                              const qb_timing_inputs *inputs, double seconds,
                              qb_interleaved_time *out);

/* One step of an engine and the least time that it took. */
typedef struct qb_step_time {
    char *key; /* output, operators, tactic, type, bytes: the same step elsewhere has it, too */
    const char *value; /* that it makes; lives as long as the engine */
    qb_dtype dtype;
    double seconds;
} qb_step_time;
typedef struct qb_step_times {
    int32_t n;
    qb_step_time *step;
} qb_step_times;
/* Profiles an engine in `runs` runs. */
qb_status qb_step_times_measure(qb_ctx *cx, const qb_engine *engine, const qb_timing_inputs *inputs,
                                int32_t runs, qb_step_times *out);
void qb_step_times_release(qb_step_times *times); /* accepts zeroed */
/* Seconds that `other` takes more than `base`, from the steps that only one of them has: those
 * that both have would add noise alone. */
double qb_step_times_more(const qb_step_times *base, const qb_step_times *other);
#endif
