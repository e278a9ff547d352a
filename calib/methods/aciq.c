/* aciq: the range that is best for a Gaussian or a Laplace distribution with the tensor's moments.
 *
 * Source: Banner, Nahshan, Soudry, "Post training 4-bit quantization of convolutional networks for
 * rapid-deployment" (2019). Clipping at alpha from the mean costs 2 b^2 exp(-alpha / b) (Laplace of
 * scale b) and rounding to 2^M quantized values alpha^2 / (3 4^M); the sum is least where
 * (alpha / b) exp(alpha / b) = 3 4^M, and for a Gaussian likewise by solving
 * alpha / (3 4^M) = 2 (sigma phi(t) - alpha Q(t)), t = alpha / sigma, phi its density and Q its
 * tail. The solutions are below.
 *
 * A tensor of both signs has M = 8 and is clipped about its mean; b is the mean distance from it. A
 * one-sided tensor (after ReLU) is half of a distribution about zero, without its zeros: quantized
 * values are twice as dense, M = 9, and b and sigma are moments about zero. Unless told, the shape
 * is the one whose ratio of b to sigma (Laplace 0.7071, Gaussian 0.7979) is nearer. */
#include <math.h>

#include "calib/calib.h"
#include "calib/spectrum.h"

#define HALF (QB_STATS_BINS / 2)

static const double laplace_alpha[2] = {9.8968, 11.1627}; /* in b: M = 8, M = 9 */
static const double gauss_alpha[2] = {3.9240, 4.2163};    /* in sigma */

typedef enum shape { NEARER, GAUSS, LAPLACE } shape;

/* Mean distance of the values from `center`, in bins; zeros count where they are given. */
static double mean_distance(const qb_stats *stats, double center, double zeros) {
    double sum = zeros * fabs(center), count = zeros;
    for (int32_t j = 0; j < QB_STATS_BINS; j++) {
        const double n = (double)(stats->bin[j] - (j == HALF ? stats->zeros : 0));
        sum += n * fabs(j - HALF + 0.5 - center);
        count += n;
    }
    return sum / count;
}

static qb_status range(qb_ctx *cx, const qb_observed *seen, const qb_method_choice *choice,
                       qb_range *out) {
    const qb_stats *stats = seen->stats;
    QB_FREED qb_spectrum *s = QB_NEW(cx, qb_alloc(cx, 1, sizeof *s));
    qb_spectrum_init(stats, s);
    *out = (qb_range){stats->min, stats->max};
    if (s->last >= 0) {
        const int one_sided = stats->min >= 0 || stats->max <= 0;
        const double zeros = one_sided ? 0 : (double)s->zeros;
        const double count = s->count[QB_STATS_BINS] + zeros;
        const double mean = one_sided ? 0 : s->moment1[QB_STATS_BINS] / count;
        const double b = mean_distance(stats, mean, zeros);
        const double sigma = sqrt(fmax(s->moment2[QB_STATS_BINS] / count - mean * mean, 0));
        const shape form = choice->variant != NEARER ? (shape)choice->variant
                           : b > 0.7525 * sigma      ? GAUSS
                                                     : LAPLACE;
        const double alpha =
            form == GAUSS ? gauss_alpha[one_sided] * sigma : laplace_alpha[one_sided] * b;
        *out = qb_range_of_bins(stats, mean - alpha, mean + alpha);
    }
    return QB_OK;
}

static const char *const variants[] = {"nearer", "gauss", "laplace", NULL};

const qb_calib_method qb_calib_method_aciq = {
    .name = "aciq",
    .summary =
        "best for a Gaussian or Laplace distribution of the tensor's moments, whichever is nearer",
    .variants = variants,
    .range = range,
};
