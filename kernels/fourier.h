/* Discrete Fourier transforms of many lines, as ONNX's DFT and STFT define them: sums in double, by
 * the factors of the length (Cooley, Tukey), rounded once. */
#ifndef QB_KERNELS_FOURIER_H
#define QB_KERNELS_FOURIER_H

#include "kernels/problem.h"

#define QB_FOURIER_LINES 8 /* that are transformed together */

/* A line: n numbers `step` elements apart, each with its imaginary part behind it when it has one.
 * And where the others lie: `inner` of them side by side. */
typedef struct qb_fourier_lines {
    int64_t n, step;
    bool is_complex;
    int64_t inner, outer_step, inner_step;
} qb_fourier_lines;

typedef struct qb_fourier_plan {
    int64_t length, n; /* n: complex numbers, half the length where pairs of reals are one */
    bool inverse;
    bool
        mirrored; /* the spectrum of a real signal stops half-way: it goes on as its mirror image */
    int64_t lines;
    qb_fourier_lines from, to;
} qb_fourier_plan;

/* Of data and result of these shapes, which have elements; `axis` is that of a DFT. */
qb_fourier_plan qb_fourier_plan_of(const qb_fourier *how, int32_t axis, const qb_shape *x,
                                   const qb_shape *y);
/* The roots of unity: their number of doubles, and they themselves. */
int64_t qb_fourier_roots(const qb_fourier_plan *plan);
void qb_fourier_fill_roots(const qb_fourier_plan *plan, double *roots);
/* The doubles that a run needs for itself. */
int64_t qb_fourier_workspace(const qb_fourier_plan *plan);
/* Lines first to end - 1. `window` (NULL: none): a factor for each number of a line. Each line's
 * result is the same whatever other lines are asked for; runs with workspaces of their own may
 * share the rest. */
void qb_fourier_run(const qb_fourier_plan *plan, const double *roots, const float *x,
                    const float *window, int64_t first, int64_t end, float *y, double *workspace);

#endif
