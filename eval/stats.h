/* The statistics behind the numbers: intervals, paired tests, the bootstrap. All intervals are at
 * 95 %. Pure functions; deterministic (the bootstrap has its own seed). */
#ifndef QB_EVAL_STATS_H
#define QB_EVAL_STATS_H

#include "base/ctx.h"
#include "eval/run.h"

/* Wilson's score interval of a proportion, `right` of n, in percent (Wilson, "Probable inference,
 * the law of succession, and statistical inference", JASA 22, 1927). n < 1: NaN. */
qb_interval qb_wilson(int64_t right, int64_t n);

/* McNemar's exact test, two-sided: how likely so uneven a split of lost and gained samples is, or a
 * more uneven one, when both engines are equally good. min(1, 2 P(X <= min(lost, gained))) with X
 * binomial (lost + gained, 1/2); 1 when there are none. Negative counts: NaN. */
double qb_mcnemar(int64_t lost, int64_t gained);

/* Score interval of the difference of two paired proportions, (lost - gained) / n, in percent
 * points (Tango, "Equivalence test and confidence interval for the difference in proportions for
 * the paired-sample design", Statistics in Medicine 17, 1998). n < 1: NaN. */
qb_interval qb_paired_difference(int64_t lost, int64_t gained, int64_t n);

/* Interval of a mean by its standard error (n >= 2; else NaN): mean -+ 1.96 s / sqrt(n). */
qb_interval qb_mean_interval(double sum, double sum_of_squares, int64_t n);

/* Latencies of one engine in the order they were measured; round[i] is the turn in which ms[i] was
 * taken. */
typedef struct qb_samples {
    const double *ms;
    const int32_t *round;
    int64_t n;
} qb_samples;

#define QB_BOOTSTRAP_DRAWS 1000

/* Medians of resampled measurements: whole rounds are drawn with replacement, because neighbouring
 * runs resemble each other and single ones would promise too much (a cluster bootstrap; Efron and
 * Tibshirani, "An Introduction to the Bootstrap", 1993, chapters 8 and 13). Draw b takes the same
 * rounds for every engine, so that medians[b] of two engines may be compared pairwise. */
qb_status qb_bootstrap_medians(qb_ctx *cx, const qb_samples *samples, int32_t n_rounds,
                               double medians[QB_BOOTSTRAP_DRAWS]);
/* The middle 95 % of the draws (2.5th and 97.5th percentile, nearest rank); sorts in place. */
qb_interval qb_bootstrap_interval(double draws[QB_BOOTSTRAP_DRAWS]);
/* The same with percentiles moved by how far the draws' median is from the estimate, which is
 * biased where drawing leaves things out, such as rare classes (Efron's bias-corrected interval,
 * "Nonparametric standard errors and confidence intervals", Canadian Journal of Statistics 9,
 * 1981).
 */
qb_interval qb_bootstrap_corrected(double draws[QB_BOOTSTRAP_DRAWS], double estimate);
#endif
