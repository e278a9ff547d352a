/* Shared by the metrics of images. */
#ifndef QB_EVAL_METRICS_PSNR_H
#define QB_EVAL_METRICS_PSNR_H

#include "eval/eval.h"

/* 10 log10(peak^2 / noise) of each image, averaged over images, with the interval of that mean.
 * noise: mean squared error of an image; NaN: cannot be measured. */
qb_estimate qb_psnr_mean(const qb_answer *answer, int64_t n, double peak,
                         double (*noise)(const qb_answer *answer));

#endif
