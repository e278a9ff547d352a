/* Choosing factors of channels: what equalize and smooth share. */
#ifndef QB_QUANT_RECOVER_BALANCE_H
#define QB_QUANT_RECOVER_BALANCE_H

#include "quant/recover/recover_internal.h"

/* Multiplies channels between layers by factors that leave the function as it is, where the noise
 * that quantization adds gets less by it. `behind_constants`: of values that a normalization or a
 * product with constants makes, else of values that layers make. *changed: layers that read them.
 *
 * Values whose variables are connected form a component. Of each, the factors (R / r)^a (w / W)^b
 * are tried, with the channel's reach r of R by each of the measures in moments.h, its weights'
 * largest magnitude w of W in the layers that read it, and a, b in 0 .. 1; a = 1, b = 0 makes all
 * channels reach equally far, a = b = 1/2 is Nagel's rule (arXiv 1906.04721, eq. 11) with the
 * activation's range for that of the weights before it, and SmoothQuant's (arXiv 2211.10438, eq. 4)
 * with alpha = 1/2. Least wins, over all layers that read it, of
 *   noise of activations  sum |w_oi|^2 / s_i^2 E e_i^2, e_i what clipping and rounding change: 0
 *                         where x_i = 0, with the range of the scaled channels of the least sum
 *   noise of weights      sum_o d_o^2/12 taps sum s_i^2 E x_i^2, d_o the step of w_oi / s_i
 * as parts of the layer's signal sum |w_oi|^2 E x_i^2. Reaches for this choice come from every
 * other sample and activations from those between: a channel that reaches far in one sample alone
 * would get a factor that the next such sample pays for. */
qb_status qb_balance(qb_ctx *cx, qb_recover_state *state, bool behind_constants, int32_t *changed);

#endif
